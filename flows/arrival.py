"""What Prefect hears of drops: the events that start releases, and those of what was put into quarantine.

A watcher (:mod:`flows.operations.watcher`) asks for them after each look at an inbox.
"""

from __future__ import annotations

import time

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
    WorkPoolFilter,
    WorkPoolFilterName,
)
from prefect.client.schemas.objects import StateType

from flows.operations.events import emit_now
from flows.operations.names_in_prefect import WORK_POOL, of_inbox
from tasks.arrival.claims import Claims, Drop
from tasks.arrival.inboxes import Inbox
from tasks.runtime.home import Home

#: So long a run may take from its announcement to its first line before it is announced again.
AGAIN_SECONDS = 60.0
_MOST = 200


def announce(home: Home, inbox: Inbox) -> int:
    """Tell Prefect of drops that arrived or were quarantined and that it was not told of; return how many.

    An event may be lost, and so may the run that it started before it began. So a drop that arrived is
    announced again after a minute, unless a run of it waits somewhere. Of the others people are told, better
    twice than never.
    """
    told = 0
    with Claims.at(home) as claims:
        for drop in claims.of_product(inbox.product, "arrived", "quarantined", "refused"):
            if not _is_due(drop):
                continue
            if drop.state != "arrived":
                _tell(drop)
            if claims.change(drop, announced_at=time.time()):
                if drop.state == "arrived":
                    _tell(drop)
                told += 1
    return told


def _is_due(drop: Drop) -> bool:
    if drop.announced_at is None:
        return True
    late = drop.state == "arrived" and drop.announced_at + AGAIN_SECONDS < time.time()
    return late and f"drop:{drop.id}" not in live_sources(drop.product)


def _tell(drop: Drop) -> None:
    resource = of_inbox(drop.product)
    if drop.state == "arrived":
        emit_now("tabularium.data.arrived", resource, product=drop.product, period=drop.period, drop=drop.id)
    else:
        emit_now("tabularium.drop.quarantined", resource, product=drop.product, drop=drop.id)


def live_sources(product: str) -> set[str]:
    """Return the sources of the runs of a product's deployment that have not ended.

    Raises
    ------
    Exception
        Whatever Prefect's client raises where the API does not answer.
    """
    ended = {StateType.COMPLETED, StateType.FAILED, StateType.CANCELLED, StateType.CRASHED}
    live = [state for state in StateType if state not in ended]
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(
            flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=live))),
            deployment_filter=DeploymentFilter(name=DeploymentFilterName(any_=[product])),
            work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[WORK_POOL])),
            limit=_MOST,
        )
    return {str(run.parameters.get("source")) for run in runs}
