"""What an installation needs on its server: the pool, upkeep, and its runs of last time, which go on.

    python -m tabularium.flows.operations.deployments.prepare --home HOME --runs N [--export-to FOLDER]
    python -m tabularium.flows.operations.deployments.prepare --home HOME --stopping

``up`` has a process of its own do it: it lives for months, and need not keep the client in its memory.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tabularium.flows.operations import upkeep_schedules
from tabularium.flows.operations.deployments.deployment import make_work_pool
from tabularium.flows.operations.waiting import until_the_server_answers
from tabularium.flows.operations.watcher import start_again
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.stage import sanitised


def prepare(home: Home, runs: int, export_to: Path | None) -> None:
    """Prepare the server at which this process's settings point, as soon as it answers.

    Parameters
    ----------
    runs
        How many runs of the pool may be at work at once.
    export_to
        Where the ledger's exports go; None leaves what was said before.
    """
    from prefect.client.orchestration import get_client

    until_the_server_answers()
    with get_client(sync_client=True) as client:
        make_work_pool(client, runs)
        start_again(client, at_once=True)
        upkeep_schedules.ensure(home, export_to)


def let_go_on_later() -> int:
    """Have the runs that are stopped with the installation go on when it runs again; return how many."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        return start_again(client, at_once=True)


def main() -> None:
    """Prepare the server, or take leave of it; what went wrong is one line on standard output."""
    parser = argparse.ArgumentParser(description="Prepare Prefect's server for an installation.")
    parser.add_argument("--home", required=True)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--export-to", type=Path)
    parser.add_argument("--stopping", action="store_true")
    given = parser.parse_args()
    try:
        if given.stopping:
            sys.stdout.write(f"{let_go_on_later()}\n")
        else:
            prepare(Home.at(given.home), given.runs, given.export_to)
    except Exception as error:
        sys.stdout.write(sanitised(error, "Prefect's server").line() + "\n")
        sys.exit(1)


if __name__ == "__main__":
    main()
