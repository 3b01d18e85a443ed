"""What the runs of products are at, told at a terminal: which wait for an officer, how many ended badly."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING

from flows.operations.names_in_prefect import FLOW

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun

#: So far back runs that ended badly are counted.
DAYS = 7
_MOST = 200  # no server gives more


def waiting_for_officers(client: SyncPrefectClient) -> list[str]:
    """Return product and period of each run that waits for an officer, as ``farms, period 2026``."""
    return sorted({_named(run) for run in _in_state(client, "Suspended")})


def ended_badly(client: SyncPrefectClient) -> dict[str, int]:
    """Return how many runs crashed or failed in the last days, by the name of their state."""
    return {name: len(_in_state(client, name, DAYS)) for name in ("Crashed", "Failed")}


def _named(run: FlowRun) -> str:
    about = dict(tag.split(":", 1) for tag in run.tags if ":" in tag)
    return f"{about.get('product', run.name)}, period {about.get('period', 'of its spec')}"


def _in_state(client: SyncPrefectClient, name: str, days: int | None = None) -> list[FlowRun]:
    from prefect.client.schemas import filters
    from prefect.types import DateTime

    since = None
    if days is not None:
        since = filters.FlowRunFilterExpectedStartTime(after_=DateTime.now(UTC) - timedelta(days=days))
    return client.read_flow_runs(
        flow_filter=filters.FlowFilter(name=filters.FlowFilterName(any_=[FLOW])),
        flow_run_filter=filters.FlowRunFilter(
            state=filters.FlowRunFilterState(name=filters.FlowRunFilterStateName(any_=[name])),
            expected_start_time=since,
        ),
        limit=_MOST,
    )
