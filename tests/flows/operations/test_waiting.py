"""Runs that wait for an officer, for their input, for what is busy; runs that are refused; runs that are cancelled."""

from __future__ import annotations

import json
import os
import signal
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tabularium.flows.cli.operations.prefect_health import _runs
from tabularium.flows.operations.deployments.deployment import Wanted, deploy
from tabularium.flows.operations.prefect_api import OwnServer, settings_of
from tabularium.flows.operations.waiting import last_entry, resume_decided, resume_waiting, suspended_runs
from tabularium.ledger import Ledger
from tabularium.ledger.keys import read_private
from tabularium.ledger.measurement.release_lock import hold
from tabularium.ledger.records import Head
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.run import Request, opened
from tests.flows.operations.installations import Up
from tests.flows.operations.products import Product, deployed, officer_of, state, until
from tests.flows.release.scene import write_scene

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("operations")]
_ENDS = {"Completed", "Failed", "Crashed", "Cancelled"}


def needing_approval(up: Up, client: Any, folder: Path, name: str) -> Product:
    """Deploy a product that is charged to that account."""
    product = deployed(up, client, folder, name)
    officer_of(up.home)
    product.spec.write_text(product.spec.read_text().replace("dataset: people", "dataset: approved"))
    with (folder / "people.csv").open("a", newline="") as data:  # one input is charged to one account
        data.write("A1,30,1\r\n")
    return product


def comes_to(client: Any, run: Any, *names: str, seconds: float = 120) -> str:
    """Wait until a run is in one of these states, and return its message."""

    def there() -> bool:
        now = state(client, run)
        assert now in names or now not in _ENDS, client.read_flow_run(run).state
        return now in names

    until(f"a run comes to {names}", there, seconds, lambda: client.read_flow_run(run).state)
    return str(client.read_flow_run(run).state.message)


def log_of(client: Any, run: Any) -> str:
    """What Prefect's server keeps of a run's log."""
    from prefect.client.schemas.filters import LogFilter, LogFilterFlowRunId

    found = client.read_logs(LogFilter(flow_run_id=LogFilterFlowRunId(any_=[run])))
    return "\n".join(line.message for line in found)


@pytest.mark.audit
def test_not_approved_then_approved_then_published(on_postgresql: Up, tmp_path: Path) -> None:
    with on_postgresql.client() as client:
        waits_for_its_officer(on_postgresql, client, tmp_path)


def waits_for_its_officer(up: Up, client: Any, folder: Path) -> None:
    """A run is suspended and has spent nothing; it is approved, goes on, and publishes."""
    home, key = up.home, officer_of(up.home)
    product = needing_approval(up, client, folder, "waits")
    others = set(home.workspaces.iterdir())
    run = product.start(client)
    message = comes_to(client, run, "Suspended")
    command = f"tabularium ledger approve {product.spec} --home {home.path} --key FILE"
    assert message.endswith(f"{command}; or open the desk: tabularium desk --key FILE --home {home.path}")
    assert not [each for each in charges(home) if each.product == "waits"]
    here = set(home.workspaces.iterdir()) - others
    assert not [path for path in here if not path.name.startswith(".new-")]
    approving = ("ledger", "approve", str(product.spec), "--key", str(key))
    (waits,) = [
        each
        for each in json.loads(up.call("ledger", "waiting", "--json").stdout)
        if each["product"] == "waits"
    ]
    assert (waits["kind"], waits["account"], waits["amount"]) == ("approval", "approved", "1")
    assert waits["command"].startswith(f"tabularium ledger approve {product.spec} --period 2026")
    assert waits["asks"] == f"run {client.read_flow_run(run).name}"
    said = " ".join(up.call(*approving, "--period", "2031", "--even-if-unpaid").stdout.split())
    assert "No run waits for this; waiting for an officer: " in said and "waits, period 2026" in said
    said = up.run_cli(*approving).stdout
    assert "1 waiting run goes on." in said
    comes_to(client, run, "Completed")
    (charge,) = [each for each in charges(home) if each.product == "waits"]
    assert charge.state == "published" and len(product.published()) == 1


def charges(home: Home) -> list[Any]:
    with Ledger.connect(home.ledger_url) as books:
        return list(books.charges("approved"))


@pytest.mark.audit
def test_prefects_own_resume_approves_nothing(on_postgresql: Up, tmp_path: Path) -> None:
    with on_postgresql.client() as client:
        product = needing_approval(on_postgresql, client, tmp_path, "resumed")
        run = product.start(client)
        comes_to(client, run, "Suspended")
        first = client.read_flow_run(run).state
        client.resume_flow_run(run)
        comes_to(client, run, "Running", "Suspended")
        until("it is suspended again", lambda: suspensions(client, run) == 2, 120)
        again = client.read_flow_run(run).state
        deadlines = first.state_details.pause_timeout, again.state_details.pause_timeout
        assert abs(deadlines[1] - deadlines[0]) < timedelta(seconds=1), "the time is not counted anew"
        assert not [each for each in charges(on_postgresql.home) if each.product == "resumed"]


@pytest.mark.audit
def test_what_an_officer_refuses_spends_nothing(on_postgresql: Up, tmp_path: Path) -> None:
    """To refuse is not to approve, to approve less than it costs, or to take an approval back."""
    from prefect.states import Cancelling

    up, key = on_postgresql, officer_of(on_postgresql.home)
    decisions: dict[str, list[list[str]]] = {
        "refused-silently": [],
        "refused-in-part": [["approve", "--amount", "1/2"]],
        "refused-after-all": [["approve"], ["unapprove", "--reason", "an error in its table"]],
    }
    with up.client() as client:
        products = {name: needing_approval(up, client, tmp_path / name, name) for name in decisions}
        for name, words in decisions.items():
            for command, *options in words:
                spec = str(products[name].spec)
                up.run_cli("ledger", command, spec, *options, "--key", str(key))
        started = {name: product.start(client) for name, product in products.items()}
        for run in started.values():
            comes_to(client, run, "Suspended")
            client.resume_flow_run(run)
        for name, run in started.items():
            until("it is suspended again", lambda r=run: suspensions(client, r) == 2, 120)
            # It waits without a process, so that whoever operates it ends it at once.
            client.set_flow_run_state(run, Cancelling())
            assert state(client, run) == "Cancelled"
            assert not products[name].published()
        assert not {charge.product for charge in charges(up.home)} & set(decisions)
        assert not [path for path in up.home.workspaces.iterdir() if not path.name.startswith(".new-")]
        with Ledger.connect(up.home.ledger_url) as books:
            books.verify()
        # Who changes his mind approves later: another run is the release.
        product = products["refused-after-all"]
        up.run_cli("ledger", "approve", str(product.spec), "--key", str(key))
        comes_to(client, product.start(client), "Completed")
        assert [each.state for each in charges(up.home) if each.product == product.name] == ["published"]


def suspensions(client: Any, run: Any) -> int:
    return sum(each.name == "Suspended" for each in client.read_flow_run_states(run))


@pytest.mark.audit
def test_a_deadline_decides_nothing_and_spends_nothing(on_postgresql: Up, tmp_path: Path) -> None:
    key = officer_of(on_postgresql.home)
    with on_postgresql.client() as client:
        product = needing_approval(on_postgresql, client, tmp_path, "forgotten")
        patience = {"env": {"TABULARIUM_PATIENCE_DAYS": "0.0001"}}
        run = client.create_flow_run_from_deployment(product.deployment, job_variables=patience).id
        assert "never resumed" in comes_to(client, run, "Failed")
        assert not [each for each in charges(on_postgresql.home) if each.product == "forgotten"]
        # A run that is started later is the same release.
        on_postgresql.run_cli("ledger", "approve", str(product.spec), "--key", str(key))
        on_postgresql.run_cli("run", str(product.spec))
        assert [each.state for each in charges(on_postgresql.home) if each.product == "forgotten"] == [
            "published"
        ]


@pytest.mark.audit
def test_what_the_data_refuse_fails_with_one_line(on_postgresql: Up, tmp_path: Path) -> None:
    with on_postgresql.client() as client:
        product = deployed(on_postgresql, client, tmp_path, "refused")
        rules = "rules: [{rule: row_count, max: 10}]"
        product.spec.write_text(product.spec.read_text().replace("rules: []", rules))
        before = len(on_postgresql.log("worker"))
        run = product.start(client)
        message = comes_to(client, run, "Failed")
        assert message.startswith("refused: data rules; ask where it ran: tabularium diagnose ")
        until("the log has come", lambda: message in log_of(client, run), 30)
        log = log_of(client, run)
        assert "Traceback" not in log and "row_count" not in log
        assert "Traceback" not in on_postgresql.log("worker")[before:]
        assert product.charges() == []


@pytest.mark.audit
def test_a_busy_release_is_tried_again(on_postgresql: Up, tmp_path: Path) -> None:
    with on_postgresql.client() as client:
        product = deployed(on_postgresql, client, tmp_path, "busy")
        request = Request.of(product.spec, home=on_postgresql.home.path)
        with opened(request, to_publish=False) as run_here:
            release_id = run_here.release_id
        with Ledger.connect(on_postgresql.home.ledger_url) as books:
            with hold(books, release_id):
                run = product.start(client)
                assert "another live process" in comes_to(client, run, "AwaitingRetry")
                assert product.charges() == []
            comes_to(client, run, "Completed")
        assert [each.state for each in product.charges()] == ["published"]


@pytest.mark.audit
def test_a_missing_input_is_waited_for_and_can_be_cancelled(on_postgresql: Up, tmp_path: Path) -> None:
    from prefect.states import Cancelling

    with on_postgresql.client() as client:
        product = deployed(on_postgresql, client, tmp_path, "missing")
        run = product.start(client, source=str(tmp_path / "later.csv"))
        assert "there is no such file" in comes_to(client, run, "AwaitingRetry")
        client.set_flow_run_state(run, Cancelling())
        assert state(client, run) == "Cancelled"
        assert product.charges() == []


def test_a_publication_folder_that_is_gone_is_waited_for_and_told_once(
    installation: Up, tmp_path: Path
) -> None:
    from prefect.states import AwaitingRetry

    with installation.client() as client:
        product = deployed(installation, client, tmp_path, "gone")
        base = tmp_path / "releases"
        done = product.start(client)
        until("it is published", lambda: state(client, done) == "Completed", 120)
        base.rename(tmp_path / "unmounted")
        run = product.start(client, period="2027", same_input=True)
        message = comes_to(client, run, "AwaitingRetry")
        assert message.startswith(f"{base}: releases were published in this folder, and it is gone; mount")
        assert len(product.charges()) == 1
        assert "trying again later: gone, period 2027: " in installation.run_cli("doctor", check=False).stdout
        (tmp_path / "unmounted").rename(base)
        client.set_flow_run_state(run, AwaitingRetry(scheduled_time=datetime.now(UTC)), force=True)
        until("it is published", lambda: state(client, run) == "Completed", 120)
        assert len(product.charges()) == 2
        asked = {"filter": {"event": {"name": ["tabularium.release.suspended"]}}}
        events = client.request("POST", "/events/filter", json=asked).json()["events"]
        assert [each["payload"]["line"] for each in events if each["payload"]["product"] == "gone"] == [
            message
        ]


@pytest.mark.audit
def test_a_lost_database_of_arrivals_is_waited_for(on_postgresql: Up, tmp_path: Path) -> None:
    from prefect.states import Cancelling

    with on_postgresql.client() as client:
        product = deployed(on_postgresql, client, tmp_path, "lost-arrivals")
        for url in (f"sqlite:///{tmp_path}/nowhere/x.db", "postgresql+psycopg://x@127.0.0.1:1/x"):
            lost = {"env": {"TABULARIUM_ARRIVALS": url}}
            source = {"source": "drop:" + "0" * 32}
            run = client.create_flow_run_from_deployment(
                product.deployment, parameters=source, job_variables=lost
            ).id
            message = comes_to(client, run, "AwaitingRetry")
            assert message.startswith("TABULARIUM_ARRIVALS: the database of arrivals ")
            assert "nowhere" not in message and "Traceback" not in log_of(client, run)
            client.set_flow_run_state(run, Cancelling())
        # Nor does one that cannot wait fail by another line than its own: here the spec is gone, too.
        product.spec.unlink()
        run = client.create_flow_run_from_deployment(
            product.deployment, parameters=source, job_variables=lost
        ).id
        message = comes_to(client, run, "Failed")
        assert message.startswith("small.yaml: ") and "exception" not in message
        until("the log has come", lambda: "not written down" in log_of(client, run), 30)


@pytest.mark.audit
@pytest.mark.parametrize("stage", ["validate microdata", "measure"])
def test_cancelled_in_mid_run(stage: str, on_postgresql: Up, tmp_path: Path) -> None:
    from prefect.states import Cancelling

    with on_postgresql.client() as client:
        product = deployed(on_postgresql, client, tmp_path, f"cancelled-{stage.split(maxsplit=1)[0]}")
        on_postgresql.halt(product.name, stage)
        run = product.start(client)
        until("it stops where it is told", lambda: on_postgresql.halted(product.name), 120)
        client.set_flow_run_state(run, Cancelling())
        os.kill(on_postgresql.halted(product.name) or 0, signal.SIGCONT)
        seconds = until("it is cancelled", lambda: state(client, run) == "Cancelled", 60)
        print(f"cancelled in {stage} after {seconds:.1f} s")
        assert not [
            path for path in on_postgresql.home.workspaces.iterdir() if not path.name.startswith(".new-")
        ]
        with Ledger.connect(on_postgresql.home.ledger_url) as books:
            books.verify()
        # Nothing was lost: another run goes on where this one was stopped.
        on_postgresql.run_cli("run", str(product.spec))
        assert [each.state for each in product.charges()] == ["published"]


def test_decisions_that_nobody_told_the_server_of_are_found_in_the_ledger(
    prefect_server: OwnServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.client.orchestration import get_client
    from prefect.states import Suspended

    spec, home = write_scene(tmp_path)
    key = officer_of(home)
    digests = {name: letter * 64 for name, letter in (("decided", "a"), ("other", "b"))}
    with settings_of(prefect_server.url, prefect_server.sign_in), get_client(sync_client=True) as client:
        made = deploy(client, Wanted("small", "a test", {"spec": str(spec)}))

        def suspended(name: str, seen: Head | None = None) -> Any:
            seen = seen or last_entry(home)
            run = client.create_flow_run_from_deployment(made).id
            mark = f"tabularium NotApproved {digests[name]} {seen.seq}:{seen.hash} {uuid4().hex}"
            client.set_flow_run_state(run, Suspended(pause_key=mark, timeout_seconds=600), force=True)
            return run

        runs = {name: suspended(name) for name in digests}
        assert resume_decided(client, home) == 0
        with Ledger.connect(home.ledger_url) as books:
            books.approve("approved", digests["decided"], by=read_private(key), reason="a test")
        monkeypatch.setattr("tabularium.flows.operations.reporting.overdue._SOON", timedelta(0))
        (line,) = [look.said for look in _runs(client, home) if "an officer has decided" in look.said]
        assert line.startswith("1 wait though")
        assert resume_decided(client, home) == 1
        assert [state(client, run) for run in runs.values()] == ["Resuming", "Suspended"]
        assert resume_decided(client, home) == 0
        again = suspended("decided")
        assert resume_decided(client, home) == 0, "it asked the ledger after the decision"
        before_a_restore = suspended("decided", Head(10_000, "c" * 64))
        assert resume_decided(client, home) == 1, "the entry that it saw is in no ledger any more"
        for run in (again, before_a_restore, *runs.values()):
            client.delete_flow_run(run)


@pytest.mark.audit
def test_an_approval_while_the_server_is_away_is_carried_out_by_and_by(
    installation: Up, tmp_path: Path
) -> None:
    with installation.client() as client:
        product = needing_approval(installation, client, tmp_path, "told-later")
        run = product.start(client)
        comes_to(client, run, "Suspended")
        words = ["ledger", "approve", str(product.spec), "--key", str(officer_of(installation.home))]
        said = installation.run_cli(*words, PREFECT_API_URL="http://127.0.0.1:9/api")
        assert (
            "could not be told (InputError); where there are any, they go on within a minute" in said.stdout
        )
        until("it is published", lambda: state(client, run) == "Completed", 120)
        assert len(product.published()) == 1


def test_all_suspended_runs_are_found(installation: Up, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.states import Suspended

    from tabularium.flows.release import release

    monkeypatch.setattr("tabularium.flows.operations.prefect_api.PAGE", 2)
    with installation.client() as client:
        made = {client.create_flow_run(release, state=Suspended()).id for _ in range(5)}
        found = [run.id for run in suspended_runs(client)]
        for run in made:
            client.delete_flow_run(run)
    assert made <= set(found) and len(set(found)) == len(found)


def test_without_an_api_nobody_is_resumed_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    assert resume_waiting(Home.at(tmp_path / "home"), spec_digests=["0" * 64]) == []
    assert not (tmp_path / "prefect").exists()
