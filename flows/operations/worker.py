"""The worker: Prefect's own, which first gives back the runs that the last one took and never started.

    python -m flows.operations.worker --name NAME [--limit RUNS]

A worker that is killed between taking a run and starting its process leaves it Pending, and nobody else takes
it. Runs whose process lives, although their worker has died, are left alone.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from flows.operations.installation import most_runs
from flows.operations.names_in_prefect import WORK_POOL, WORK_POOL_TYPE
from flows.operations.run_keeper import runs_in

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient

_RUN = b"PREFECT__FLOW_RUN_ID="


def give_back(client: SyncPrefectClient, worker: str) -> int:
    """Have runs go on that the worker of this name took and did not start; return how many."""
    from prefect.client.schemas.objects import StateType
    from prefect.states import Crashed, Scheduled

    started = _runs_with_a_process()
    taken = [
        run
        for run in runs_in(client, StateType.PENDING)
        if run.labels.get("prefect.worker.name") == worker and str(run.id) not in started
    ]
    for run in taken:
        client.set_flow_run_state(run.id, Crashed(message="taken and not started: its worker died"))
        client.set_flow_run_state(run.id, Scheduled(name="Restarting", message="given back"))
    return len(taken)


def _runs_with_a_process() -> set[str]:
    """Return the flow runs of this user's processes on this machine."""
    found = set()
    for file in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            words = file.read_bytes().split(b"\0")
            found |= {word.removeprefix(_RUN).decode() for word in words if word.startswith(_RUN)}
    return found


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
    about = ["--name", given.name, "--limit", str(given.limit)]
    sys.argv = ["prefect", "worker", "start", "--pool", WORK_POOL, "--type", WORK_POOL_TYPE, *about]
    from prefect.cli import app

    app()


if __name__ == "__main__":
    main()
