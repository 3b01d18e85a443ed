"""The worker: Prefect's own, which also finds the runs it took whose process is not there.

    python -m tabularium.flows.operations.worker --name NAME [--limit RUNS]

A worker that is killed between taking a run and starting its process leaves it Pending, and nobody else takes
it; a process that ends while the server answers nothing leaves its run Running, and that keeps a place of the
pool. On another machine both are noticed only by their silence, after 90 s
(:mod:`tabularium.flows.operations.watcher`). Runs whose process lives, although their worker died, are
not touched.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
import time
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabularium.flows.operations.installation import most_runs
from tabularium.flows.operations.names_in_prefect import WORK_POOL, WORK_POOL_TYPE
from tabularium.flows.operations.watcher import runs_in

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun

_EVERY_SECONDS = 15.0
_RUN = b"PREFECT__FLOW_RUN_ID="


def give_back(client: SyncPrefectClient, worker: str) -> int:
    """Have runs go on that the worker of this name took and did not start; return how many."""
    from prefect.client.schemas.objects import StateType
    from prefect.states import Crashed, Scheduled

    taken = _without_a_process(client, worker, StateType.PENDING)
    for run in taken:
        client.set_flow_run_state(run.id, Crashed(message="taken and not started: its worker died"))
        client.set_flow_run_state(run.id, Scheduled(name="Restarting", message="given back"))
    return len(taken)


def watch_stale_runs(worker: str) -> None:
    """Mark runs of the worker of this name whose process has ended, as long as this process lives."""
    from prefect.client.orchestration import get_client

    missed: set[uuid.UUID] = set()
    while True:
        with contextlib.suppress(Exception), get_client(sync_client=True) as client:  # the watcher looks, too
            while True:
                time.sleep(_EVERY_SECONDS)
                missed = mark_ended(client, worker, missed)


def mark_ended(client: SyncPrefectClient, worker: str, missed: set[uuid.UUID]) -> set[uuid.UUID]:
    """Mark the runs that had no process at the last look and have none now.

    ``missed``: the states of those that had none at the last look. A process that begins or ends is missed
    once.

    Returns the states of those that have none now.
    """
    from prefect.client.schemas.objects import StateType
    from prefect.states import Crashed

    ended = _without_a_process(client, worker, StateType.PENDING, StateType.RUNNING)
    for run in ended:
        if run.state_id in missed:
            client.set_flow_run_state(run.id, Crashed(message="its process ended without a word"))
    return {run.state_id for run in ended if run.state_id is not None}


def _without_a_process(client: SyncPrefectClient, worker: str, *states: object) -> list[FlowRun]:
    """Return the runs in these states that the worker of this name took and that have no process here.

    A worker makes a run Pending, names itself on it, and then makes it Submitting: until then the run bears
    the name of the worker that had it before.
    """
    taken = [
        run
        for run in runs_in(client, *states)
        if run.labels.get("prefect.worker.name") == worker and run.state_name != "Pending"
    ]
    started = _runs_with_a_process() if taken else set()
    return [run for run in taken if str(run.id) not in started]


def _runs_with_a_process() -> set[str]:
    """Return the flow runs of this user's processes on this machine."""
    runs = set()
    for file in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            words = file.read_bytes().split(b"\0")
            runs |= {word.removeprefix(_RUN).decode() for word in words if word.startswith(_RUN)}
    return runs


def let_processes_end() -> None:
    """Have Prefect's worker take a run again only once the process that it had before has ended.

    An officer may decide while the process of a run that was suspended is still ending. Its place is then
    taken by the run itself, on which Prefect's worker dies.
    """
    from prefect.workers.process import ProcessWorker

    submit = ProcessWorker._submit_scheduled_flow_runs

    async def submit_others(self: Any, flow_run_response: list[Any]) -> list[Any]:
        limiter = self._limiter
        held = () if limiter is None else limiter.statistics().borrowers
        return await submit(
            self, [response for response in flow_run_response if response.flow_run.id not in held]
        )

    ProcessWorker._submit_scheduled_flow_runs = submit_others  # type: ignore[method-assign]


def main() -> None:
    """Give back what was taken, and become Prefect's worker."""
    parser = argparse.ArgumentParser(description="Start the runs of the pool on this machine.")
    parser.add_argument("--name", required=True, help="of the worker; the same each time it starts")
    parser.add_argument("--limit", type=int, default=most_runs(), help="most runs at once")
    given = parser.parse_args()
    os.umask(0o077)
    try:
        from prefect.client.orchestration import get_client

        with get_client(sync_client=True) as client:
            give_back(client, given.name)
    except Exception as error:  # the watcher finds them, only later
        sys.stderr.write(f"runs that were taken and not started: not looked for ({type(error).__name__})\n")
    threading.Thread(target=watch_stale_runs, args=(given.name,), daemon=True).start()
    let_processes_end()
    about = ["--name", given.name, "--limit", str(given.limit)]
    sys.argv = ["prefect", "worker", "start", "--pool", WORK_POOL, "--type", WORK_POOL_TYPE, *about]
    from prefect.cli import app

    app()


if __name__ == "__main__":
    main()
