"""What Prefect hears of drops: the events that start releases, and those of what was put into quarantine.

A watcher (:mod:`flows.operations.watcher`) asks for them after each look at an inbox.
"""

from __future__ import annotations

import time
from itertools import count

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
from prefect.client.schemas.sorting import FlowRunSort

from flows.operations.events import emit_now
from flows.operations.names_in_prefect import WORK_POOL, of_inbox
from tasks.arrival.claims import Claims, Drop
from tasks.arrival.inboxes import Inbox
from tasks.runtime.home import Home

#: So long a run may take from its announcement to its first line before it is announced again.
AGAIN_SECONDS = 60.0
_PAGE = 200


def announce(home: Home, inbox: Inbox) -> int:
    """Tell Prefect of drops that arrived or were quarantined and that it was not told of; return how many.

    An event may be lost, and so may the run that it started before it began. So a drop that arrived is
    announced again after a minute, unless a run of it waits somewhere. Of the others people are told, better
    twice than never. A run that was cancelled or killed for good tells nobody how it ended: its drop counts
    as failed, so that it may be taken away. One that is run by hand meanwhile does as well; that it was
    published is written down all the same.
    """
    told = 0
    with Claims.at(home) as claims:
        drops = claims.to_announce(inbox.product)
        for drop in sorted(drops, key=lambda drop: drop.state):  # what arrived before what did not
            if not _is_due(drop):
                continue
            if drop.state != "arrived":
                _tell(drop)
            if claims.change(drop, announced_at=time.time()):
                if drop.state == "arrived":
                    _tell(drop)
                told += 1
        if begun := claims.of_product(inbox.product, "started"):
            live = live_sources(inbox.product)
            for drop in begun:
                if f"drop:{drop.id}" not in live:
                    claims.change(drop, state="failed")
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
    found: set[str] = set()
    with get_client(sync_client=True) as client:
        for offset in count(0, _PAGE):
            runs = client.read_flow_runs(
                flow_run_filter=FlowRunFilter(
                    state=FlowRunFilterState(type=FlowRunFilterStateType(any_=live))
                ),
                deployment_filter=DeploymentFilter(name=DeploymentFilterName(any_=[product])),
                work_pool_filter=WorkPoolFilter(name=WorkPoolFilterName(any_=[WORK_POOL])),
                sort=FlowRunSort.ID_DESC,
                offset=offset,
                limit=_PAGE,
            )
            found |= {str(run.parameters.get("source")) for run in runs}
            if len(runs) < _PAGE:
                break
    return found
