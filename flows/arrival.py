"""Flow runs of drops: one for each that arrived, and the events that people wait for.

::

    arrived ──▶ a run with the key drop:<id> ──▶ started by the run itself ──▶ published, refused, failed
                (one of a product after another, so that their order stays)

A watcher (:mod:`tabularium.flows.operations.watcher`) asks for it after each look at an inbox. By its key the
server makes one run of a drop however often it is asked: a watcher may die anywhere, and several may work at
once. A run that waits for an officer or a folder lets the next one by. Prefect's own limit of the runs of a
deployment is not used: a server that is killed forgets who had a slot, and then cancels runs or starts none.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterName,
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType

from tabularium.flows.operations.names_in_prefect import FLOW, of_inbox
from tabularium.flows.operations.prefect_api import runs_of
from tabularium.flows.operations.reporting.announcements import emit_now
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.arrival.claims import Claims, Drop
from tabularium.tasks.arrival.inboxes import Inbox
from tabularium.tasks.runtime.home import Home

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient


def announce(home: Home, inbox: Inbox) -> int:
    """Have Prefect run the drops that arrived, and tell it of those in quarantine; return how many are news.

    A drop in quarantine is announced, better twice than never. A run that was cancelled or given up
    tells nobody how it ended: its drop counts as failed, so that it may be taken away. One that is run by
    hand meanwhile does as well; that it was published is written down all the same.

    Raises
    ------
    InputError
        If the product is not deployed.
    Exception
        Whatever Prefect's client raises where the API does not answer.
    """
    announced = 0
    with Claims.at(home) as claims:
        known = claims.to_announce(inbox.product)
        for drop in known:
            if drop.state != "arrived":
                emit_now(
                    "tabularium.drop.quarantined", of_inbox(drop.product), product=drop.product, drop=drop.id
                )
                announced += claims.change(drop, announced_at=time.time())
        arrived = [drop for drop in known if drop.state == "arrived"]
        begun = claims.of_product(inbox.product, "started")
        if not arrived and not begun:
            return announced
        with get_client(sync_client=True) as client:
            live = {str(run.parameters.get("source")): run for run in _live(client, inbox.product)}
            for drop in begun:
                if _source(drop) not in live:
                    claims.change(drop, state="failed")
            busy = any(_is_busy(run) for source, run in live.items() if source.startswith("drop:"))
            for drop in arrived:
                if _source(drop) not in live and not busy:
                    busy = _start(client, claims, drop)
                if drop.announced_at is None and claims.change(drop, announced_at=time.time()):
                    about = {"product": drop.product, "period": drop.period, "drop": drop.id}
                    emit_now("tabularium.data.arrived", of_inbox(drop.product), **about)
                    announced += 1
    return announced


def _source(drop: Drop) -> str:
    return f"drop:{drop.id}"


def _is_busy(run: FlowRun) -> bool:
    """Whether a run is at work, or about to be: also one that is started again after its process died."""
    return run.state is not None and not (run.state.is_paused() or run.state.name == "AwaitingRetry")


def _start(client: SyncPrefectClient, claims: Claims, drop: Drop) -> bool:
    """Make the run of a drop; return whether it lives. The drop failed if its run ended before it began."""
    from prefect.exceptions import ObjectNotFound

    try:
        deployment = client.read_deployment_by_name(f"{FLOW}/{drop.product}")
    except ObjectNotFound:
        raise InputError(
            "data arrived for this product, which is not deployed",
            where=f"product {drop.product}",
            hint="deploy it: tabularium deploy SPEC --on-arrival INBOX",
        ) from None
    run = client.create_flow_run_from_deployment(
        deployment.id,
        parameters={"source": _source(drop), "period": drop.period},
        idempotency_key=_source(drop),
    )
    if run.state is None or not run.state.is_final() or run.state.is_crashed():
        return True
    claims.change(drop, state="failed")
    return False


def _live(client: SyncPrefectClient, product: str) -> list[FlowRun]:
    """Return the runs of a product's deployment that have not ended; one that crashed is started again."""
    ended = {StateType.COMPLETED, StateType.FAILED, StateType.CANCELLED}
    live = [state for state in StateType if state not in ended]
    return runs_of(
        client,
        flow_filter=FlowFilter(name=FlowFilterName(any_=[FLOW])),
        flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=live))),
        deployment_filter=DeploymentFilter(name=DeploymentFilterName(any_=[product])),
    )
