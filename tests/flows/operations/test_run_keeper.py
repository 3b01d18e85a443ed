"""Runs that nobody speaks for any more, whom no automation helps: marked, started again, and given up in the end."""

from __future__ import annotations

import os
import subprocess
import uuid
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import pytest

from tabularium.flows.operations import prefect_api, watcher
from tabularium.flows.operations.worker import give_back, let_processes_end, mark_ended
from tests.flows.operations.installations import Up
from tests.flows.operations.products import Product, deployed, state, until
from tests.flows.operations.test_deploy import ROOT, webhook

pytestmark = pytest.mark.xdist_group("operations")


@pytest.fixture(scope="module")
def product(installation: Up, tmp_path_factory: pytest.TempPathFactory) -> Product:
    """A product none of whose runs a worker takes: they begin far in the future, or die before it."""
    with installation.client() as client:
        return deployed(installation, client, tmp_path_factory.mktemp("kept"), "kept")


def in_state(client: Any, product: Product, kind: Any) -> Any:
    """Make a run, and put it into a state in which no process works for it."""
    from prefect.states import Scheduled

    later = Scheduled(scheduled_time=datetime.now(UTC) + timedelta(days=300))
    run = client.create_flow_run_from_deployment(product.deployment, state=later).id
    client.set_flow_run_state(run, kind(), force=True)
    return run


def has_its_environment(process: subprocess.Popen[bytes], run: Any) -> None:
    """Wait: a process that the system has just begun shows an empty environment for a moment."""
    environment = Path(f"/proc/{process.pid}/environ")
    until("the process shows its environment", lambda: str(run).encode() in environment.read_bytes(), 30)


def test_who_says_nothing_is_marked_whatever_became_of_the_events(
    installation: Up, product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.states import AwaitingRetry, Pending, Running, Suspended

    with installation.client() as client:
        runs = [in_state(client, product, kind) for kind in (Running, Pending, Running)]
        later = partial(AwaitingRetry, scheduled_time=datetime.now(UTC) + timedelta(days=300))
        waiting = [in_state(client, product, kind) for kind in (Suspended, later)]
        monkeypatch.setattr(prefect_api, "PAGE", 2)
        watcher.mark_silent(client)
        assert [state(client, run) for run in runs] == ["Running", "Pending", "Running"], "too early"
        monkeypatch.setattr(watcher, "SILENCE", timedelta(0))
        heard = watcher._heard
        monkeypatch.setattr(
            watcher, "_heard", lambda c, run, since: run.id == runs[0] or heard(c, run, since)
        )
        watcher.mark_silent(client)
        # The watcher, which looks as well, may have started them again by now.
        marked = [{each.name for each in client.read_flow_run_states(run)} for run in runs]
        assert ["Crashed" in names for names in marked] == [False, True, True]
        assert [state(client, run) for run in waiting] == ["Suspended", "AwaitingRetry"], "they are well"
        for run in runs + waiting:
            client.delete_flow_run(run)


def test_a_run_that_dies_before_it_begins_is_given_up_in_the_end(
    installation: Up, product: Product, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect.states import Crashed

    with webhook() as (address, heard), installation.client() as client:
        installation.call("notify", str(ROOT / "deploy" / "automations.yaml"), "--to", address)
        run = in_state(client, product, Crashed)
        monkeypatch.setattr(watcher, "AFTER_CRASHES", watcher.Pauses(0.2, 1e6, most=3))
        monkeypatch.setattr(watcher, "_AGAIN", "by this test")
        names = []
        for crash in range(4):
            if crash:
                client.set_flow_run_state(run, Crashed(), force=True)
            watcher.start_again(client, at_once=True)
            names.append(state(client, run))
        assert names == ["Restarting"] * 3 + ["Failed"]
        assert client.read_flow_run(run).state.message.startswith("given up: its process died 4 times")
        until("it is told", lambda: heard, 30)
        assert heard[0]["subject"] == "Failed: a run of kept"
        assert str(run) in heard[0]["text"]
        for automation in client.read_automations():
            if automation.name.startswith("tabularium: tell"):
                client.delete_automation(automation.id)
        client.delete_flow_run(run)


def test_pauses_grow(installation: Up, product: Product, monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.states import Crashed

    with installation.client() as client:
        run = in_state(client, product, Crashed)
        monkeypatch.setattr(watcher, "AFTER_CRASHES", watcher.Pauses(1000, 1e6, most=3))
        watcher.start_again(client)
        assert state(client, run) == "Crashed"
        client.delete_flow_run(run)


def test_a_worker_gives_back_what_it_took_and_did_not_start(installation: Up, product: Product) -> None:
    from prefect.states import Pending

    with installation.client() as client:
        submitting = partial(Pending, name="Submitting")
        runs = {name: in_state(client, product, submitting) for name in ("taken", "starting", "of another")}
        runs["being taken by another"] = in_state(client, product, Pending)
        for name, run in runs.items():
            worker = "other" if name == "of another" else "gone"
            client.update_flow_run_labels(run, {"prefect.worker.name": worker})
        process = subprocess.Popen(
            ["sleep", "60"], env={**os.environ, "PREFECT__FLOW_RUN_ID": str(runs["starting"])}
        )
        try:
            has_its_environment(process, runs["starting"])
            assert give_back(client, "gone") == 1
            assert give_back(client, "gone") == 0
        finally:
            process.kill()
            process.wait()
        names = {name: {each.name for each in client.read_flow_run_states(run)} for name, run in runs.items()}
        assert {"Crashed", "Restarting"} <= names["taken"]
        others = ("starting", "of another", "being taken by another")
        assert not [name for name in others if "Restarting" in names[name]]
        for run in runs.values():
            client.delete_flow_run(run)


def test_a_worker_marks_runs_whose_process_has_ended(installation: Up, product: Product) -> None:
    from prefect.states import Running, Suspended

    with installation.client() as client:
        runs = {
            name: in_state(client, product, Running) for name in ("ended", "goes on", "at work", "of another")
        }
        runs["waits"] = in_state(client, product, Suspended)
        for name, run in runs.items():
            client.update_flow_run_labels(
                run, {"prefect.worker.name": "other" if name == "of another" else "mine"}
            )
        process = subprocess.Popen(
            ["sleep", "60"], env={**os.environ, "PREFECT__FLOW_RUN_ID": str(runs["at work"])}
        )
        try:
            has_its_environment(process, runs["at work"])
            missed = mark_ended(client, "mine", set())
            assert len(missed) == 2
            client.set_flow_run_state(runs["goes on"], Running(), force=True)
            mark_ended(client, "mine", missed)
        finally:
            process.kill()
            process.wait()
        names = {name: {each.name for each in client.read_flow_run_states(run)} for name, run in runs.items()}
        assert [name for name in names if "Crashed" in names[name]] == ["ended"]
        for run in runs.values():
            client.delete_flow_run(run)


def test_a_worker_takes_a_run_again_only_once_its_process_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was suspended and resumed before the worker saw the process end; Prefect's worker would die of it."""
    from prefect.workers.process import ProcessWorker

    monkeypatch.setattr(
        ProcessWorker, "_submit_scheduled_flow_runs", ProcessWorker._submit_scheduled_flow_runs
    )
    let_processes_end()
    run = SimpleNamespace(id=uuid.uuid4())

    async def asked() -> list[Any]:
        worker = ProcessWorker("pool", limit=2)
        worker._limiter = anyio.CapacityLimiter(2)
        worker._limiter.acquire_on_behalf_of_nowait(run.id)
        return await worker._submit_scheduled_flow_runs([SimpleNamespace(flow_run=run)])  # type: ignore[list-item]

    assert anyio.run(asked) == []
