"""Runs of a deployment that lay out a draft: suspended, then published as laid out, or ended as withheld."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.flows.operations.deployments.deployment import Wanted, deploy
from tabularium.ledger import Ledger
from tabularium.tasks.runtime.home import Home
from tests.flows.operations.installations import Up, running
from tests.flows.operations.products import history, state, until
from tests.flows.release.test_reviewed import bytes_in, write_reviewed
from tests.ledger.storage.postgres import Server

pytestmark = [pytest.mark.audit, pytest.mark.slow, pytest.mark.xdist_group("operations")]


def test_a_run_waits_for_an_officer_who_accepts_or_withholds(server: Server, tmp_path: Path) -> None:
    database = ["--database", server.url(server.new_database())]
    with running(tmp_path / "home", *database) as up, up.client() as client:
        runs = {
            decision: Waiting.begun(up, client, tmp_path / decision) for decision in ("accept", "withhold")
        }
        for waiting in runs.values():
            waiting.comes_to("Suspended")
            assert f"tabularium ledger accept {waiting.release_id}" in waiting.message()
            assert str(waiting.draft) in waiting.message()
            assert not list(waiting.home.workspaces.iterdir())
            (waiting.spec.parent / "people.csv").unlink()
        accepted, withheld = runs["accept"], runs["withhold"]
        laid_out = bytes_in(accepted.draft)
        client.resume_flow_run(accepted.run)  # Prefect's own Resume decides nothing
        until("it runs again", lambda: len(accepted.states()) > 5, 60, accepted.states)
        accepted.comes_to("Suspended")
        assert "1 waiting run goes on" in accepted.decide("accept")
        accepted.comes_to("Completed")
        folder = accepted.spec.parent / "releases" / "reviewed-accept" / "2026" / accepted.release_id
        assert bytes_in(folder) == laid_out
        withheld.decide("withhold", "--criterion", "implausible")
        withheld.comes_to("Failed")
        assert "this release was withheld" in withheld.message() and "\n" not in withheld.message()
        withheld.run_again(client)
        withheld.comes_to("Failed")
    with running(tmp_path / "home", *database) as up, up.client() as client:  # the installation was restarted
        for waiting, end in ((accepted, "Completed"), (withheld, "Failed")):
            waiting.run_again(client)
            waiting.comes_to(end)
        assert "this release was withheld" in withheld.message()
    assert not withheld.published() and not list((withheld.spec.parent / "drafts").glob("*/2026/[!.]*"))
    assert accepted.published() == [folder] and bytes_in(folder) == laid_out
    for waiting, end in ((accepted, "published"), (withheld, "withheld")):
        with Ledger.connect(waiting.home.ledger_url) as books:
            assert [charge.state for charge in books.charges("people")] == [end]
            assert books.balance("people") == 9
            books.verify()


class Waiting:
    """A run of a product with a home of its own, and an officer's key in its ledger."""

    def __init__(self, up: Up, client: Any, spec: Path, home: Home, key: Path, deployment: Any) -> None:
        self.up, self.client, self.spec, self.home, self.key = up, client, spec, home, key
        self.deployment = deployment
        self.run = client.create_flow_run_from_deployment(deployment).id

    @classmethod
    def begun(cls, up: Up, client: Any, folder: Path) -> Waiting:
        spec, home, key = write_reviewed(folder)
        name = f"reviewed-{folder.name}"
        spec.write_text(spec.read_text().replace("product: small", f"product: {name}"))
        wanted = Wanted(name, "a test", {"spec": str(spec), "home": str(home.path)})
        return cls(up, client, spec, home, key, deploy(client, wanted))

    @cached_property
    def draft(self) -> Path:
        """The one draft that there is; its folder goes when it is published."""
        (found,) = (self.spec.parent / "drafts").glob("*/2026/[!.]*")
        return found

    @property
    def release_id(self) -> str:
        return self.draft.name

    def run_again(self, client: Any) -> None:
        """Start another run, perhaps at an installation that was started again."""
        self.client = client
        self.run = client.create_flow_run_from_deployment(self.deployment).id

    def published(self) -> list[Path]:
        return list((self.spec.parent / "releases").glob("*/2026/[!.]*[0-9a-f]"))

    def states(self) -> list[str]:
        return history(self.client, self.run)

    def message(self) -> str:
        return str(self.client.read_flow_run(self.run).state.message)

    def comes_to(self, name: str) -> None:
        until(f"it comes to {name}", lambda: state(self.client, self.run) == name, 90, self.states)

    def decide(self, *words: str) -> str:
        command = ["ledger", words[0], self.release_id, *words[1:], "--key", str(self.key)]
        named = {"PREFECT_API_URL": self.up.url}  # the home is not the one that `up` runs for
        done = CliRunner().invoke(app, [*command, "--home", str(self.home.path)], env=named)
        assert done.exit_code == 0, done.output
        return done.stdout
