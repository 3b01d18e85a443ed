"""Preparation of a server: the work pool, upkeep, and runs of last time, which go on.

    python -m tabularium.flows.operations.deployments.prepare --home HOME --runs N [--export-to FOLDER]
    python -m tabularium.flows.operations.deployments.prepare --home HOME --stopping

``up`` has a process of its own do it: it lives for months, and need not keep the client in its memory.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tabularium.flows.operations.deployments.deployment import make_work_pool
from tabularium.flows.operations.names_in_prefect import JOB_VARIABLES, TAG, WORK_POOL
from tabularium.flows.operations.waiting import until_the_server_answers
from tabularium.flows.operations.watcher import start_again
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.stage import sanitised

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient


# When upkeep runs: how ``up`` and ``deploy`` deploy the flows in :mod:`tabularium.flows.upkeep`.


#: Name of all these deployments; the flow's own name says which.
NAME = "upkeep"


@dataclass(frozen=True)
class Upkeep:
    """A flow of :mod:`tabularium.flows.upkeep`, and when it runs.

    ``exports``: whether it takes the folder of exports.
    """

    flow: str
    function: str
    cron: str
    exports: bool


UPKEEP = (
    Upkeep("verify-ledger", "verify_ledger", "20 2 * * *", True),
    Upkeep("restore-drill", "restore_drill", "40 3 * * 0", True),
    Upkeep("sweep-workspaces", "sweep", "50 4 * * *", False),
    Upkeep("tell-overdue", "tell_overdue", "10 7 * * *", False),
)


def ensure(home: Home, export_to: Path | None = None, *, timezone: str = "UTC") -> list[str]:
    """Make the deployments of upkeep on the Prefect API of this block, or update what differs.

    Call it inside :func:`tabularium.flows.operations.prefect_api.connected`.

    ``export_to``: where the ledger's exports go, best on another machine; None leaves what was set before.

    Returns their names.
    """
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        make_work_pool(client)
        return [_ensure(client, upkeep, home, export_to, timezone) for upkeep in UPKEEP]


def _ensure(
    client: SyncPrefectClient, wanted: Upkeep, home: Home, export_to: Path | None, timezone: str
) -> str:
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.client.schemas.schedules import CronSchedule

    from tabularium.flows import upkeep

    flow = getattr(upkeep, wanted.function)
    name = f"{wanted.flow}/{NAME}"
    parameters = {"home": str(home.path)}
    if wanted.exports:
        before = _earlier_target(client, name) if export_to is None else str(export_to.absolute())
        parameters |= {} if before is None else {"export_to": before}
    client.create_deployment(
        flow_id=client.create_flow_from_name(wanted.flow),
        name=NAME,
        description=(flow.__doc__ or "").partition("\n")[0],
        tags=[TAG, NAME],
        work_pool_name=WORK_POOL,
        job_variables=JOB_VARIABLES,
        entrypoint=f"tabularium.flows.upkeep.{wanted.function}",
        parameters=parameters,
        parameter_openapi_schema=flow.parameters.model_dump_for_openapi(),
        enforce_parameter_schema=True,
        schedules=[
            DeploymentScheduleCreate(
                schedule=CronSchedule(cron=wanted.cron, timezone=timezone), slug=wanted.flow
            )
        ],
    )
    return name


def _earlier_target(client: SyncPrefectClient, name: str) -> str | None:
    from prefect.exceptions import ObjectNotFound

    try:
        deployment = client.read_deployment_by_name(name)
    except ObjectNotFound:
        return None
    return deployment.parameters.get("export_to")


def prepare(home: Home, runs: int, export_to: Path | None) -> None:
    """Prepare the server at which this process's settings point, as soon as it answers.

    Parameters
    ----------
    runs
        How many runs of the pool may be at work at once.
    export_to
        Where the ledger's exports go; None leaves what was set before.
    """
    from prefect.client.orchestration import get_client

    until_the_server_answers()
    with get_client(sync_client=True) as client:
        make_work_pool(client, runs)
        start_again(client, at_once=True)
        ensure(home, export_to)


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
