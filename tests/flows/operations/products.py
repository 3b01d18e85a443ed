"""Small products for tests of operations: each has its own spec and deployment, all share one account."""

from __future__ import annotations

import time
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from tabularium.flows.operations.deployments.deployment import Wanted, deploy
from tabularium.ledger import Charge, Ledger
from tabularium.ledger.keys import make_key, public_hex
from tabularium.tasks.runtime.home import Home
from tests.flows.operations.installations import Up
from tests.flows.release.scene import write_scene


@dataclass
class Product:
    """A product that is deployed at an installation.

    Attributes
    ----------
    deployment
        Its id in Prefect.
    """

    name: str
    spec: Path
    up: Up
    parameters: dict[str, Any]
    deployment: Any

    def start(self, client: Any, **parameters: Any) -> Any:
        """Start a run of it; return the id of the flow run."""
        return client.create_flow_run_from_deployment(self.deployment, parameters=parameters).id

    def charges(self) -> list[Charge]:
        """What it was charged."""
        with Ledger.connect(self.up.home.ledger_url) as books:
            return [charge for charge in books.charges("people") if charge.product == self.name]

    def published(self) -> list[Path]:
        """Its published folders."""
        return list((self.spec.parent / "releases" / self.name).glob("[!.]*/*[0-9a-f]"))


def deployed(up: Up, client: Any, folder: Path, name: str) -> Product:
    """Write a product's files into ``folder`` and deploy it."""
    spec, own = write_scene(folder)
    open_account(up.home)
    del own
    spec.write_text(spec.read_text().replace("product: small", f"product: {name}"))
    parameters = {"spec": str(spec), "home": str(up.home.path)}
    return Product(name, spec, up, parameters, deploy(client, Wanted(name, "a test", parameters)))


def open_account(home: Home) -> None:
    """Open the account of all products, with budget enough for a hundred."""
    with Ledger.connect(home.ledger_url) as books:
        if not list(books.accounts()):
            books.open_account("people", unit="record", relation="add-remove", definition="pure", cap=100)


def officer_of(home: Home) -> Path:
    """The key of the officer, who has opened an account that takes approved specs alone."""
    key = home.path / "officer.pem"
    if not key.exists():
        open_account(home)  # once a key is enrolled, it would have to be signed
        by = make_key(key)
        with Ledger.connect(home.ledger_url) as books:
            books.enrol_key(public_hex(by), officer="O. Bell", by=by)
            books.open_account(
                "approved",
                unit="record",
                relation="add-remove",
                definition="pure",
                cap=Fraction(100),
                needs_approval=True,
                by=by,
            )
    return key


def until(what: str, done: Any, seconds: float, told: Any = str) -> float:
    """Wait until ``done()`` holds; return how long it took."""
    start = time.monotonic()
    while not done():
        if time.monotonic() - start > seconds:
            raise AssertionError(f"not within {seconds:.0f} s: {what}; {told()}")
        time.sleep(0.25)
    return time.monotonic() - start


def state(client: Any, run: Any) -> str:
    """The name of a run's state."""
    return str(client.read_flow_run(run).state.name)


def runs_of(client: Any, deployment: Any) -> list[Any]:
    """All runs of a deployment."""
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId

    wanted = DeploymentFilter(id=DeploymentFilterId(any_=[deployment]))
    return list(client.read_flow_runs(deployment_filter=wanted))


def history(client: Any, run: Any) -> list[str]:
    """The states of a run, each with the second in which it came about."""
    states = sorted(client.read_flow_run_states(run), key=lambda each: each.timestamp)
    return [f"{each.timestamp:%H:%M:%S} {each.name} {(each.message or '')[:300]}" for each in states]


def published_once(product: Product) -> None:
    """See that a product is published once and charged once."""
    (_folder,) = product.published()
    (charge,) = product.charges()
    assert charge.state == "published"
