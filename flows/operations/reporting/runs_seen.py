"""What runs of products are at, told at a terminal: which wait and for what, which ended badly and why."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from tabularium.flows.operations.names_in_prefect import FLOW

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun

#: So far back runs that ended badly are counted.
DAYS = 7
_MOST = 200  # no server gives more
_SOON = timedelta(minutes=1)


def waiting_for_officers(client: SyncPrefectClient) -> list[str]:
    """Return product and period of each run that waits for an officer, as ``farms, period 2026``."""
    return sorted({named(run) for run in _in_state(client, "Suspended")})


def trying_again(client: SyncPrefectClient) -> list[str]:
    """Return, of each run that waits to try again, product and period, and why it waits."""
    return sorted({_told(run) for run in _in_state(client, "AwaitingRetry")})


def late(client: SyncPrefectClient) -> tuple[int, timedelta]:
    """Return how many runs should have begun more than a minute ago, and how late the first of them is."""
    waiting = _in_state(client, "Scheduled", "Late", "Pending")
    behind = [datetime.now(UTC) - run.expected_start_time for run in waiting if run.expected_start_time]
    behind = [each for each in behind if each > _SOON]
    return len(behind), max(behind, default=timedelta(0))


def ended_badly(client: SyncPrefectClient) -> dict[str, list[str]]:
    """Return which runs crashed or failed in the last days and why, the last first, by name of the state."""
    return {
        name: [_told(run) for run in _in_state(client, name, days=DAYS)] for name in ("Crashed", "Failed")
    }


def _told(run: FlowRun) -> str:
    message = (run.state and run.state.message) or "it gave no reason"
    return f"{named(run)}: {message.splitlines()[0]}"


def since_a_minute(run: FlowRun) -> bool:
    """Whether a run has been in its state for more than a minute."""
    return run.state is not None and datetime.now(UTC) - run.state.timestamp > _SOON


def named(run: FlowRun) -> str:
    """Return product and period of a run, as ``farms, period 2026``."""
    about = dict(tag.split(":", 1) for tag in run.tags if ":" in tag)
    return f"{about.get('product', run.name)}, period {about.get('period', 'of its spec')}"


def _in_state(client: SyncPrefectClient, *names: str, days: int | None = None) -> list[FlowRun]:
    from prefect.client.schemas import filters
    from prefect.client.schemas.sorting import FlowRunSort
    from prefect.types import DateTime

    since = None
    if days is not None:
        since = filters.FlowRunFilterExpectedStartTime(after_=DateTime.now(UTC) - timedelta(days=days))
    return client.read_flow_runs(
        flow_filter=filters.FlowFilter(name=filters.FlowFilterName(any_=[FLOW])),
        flow_run_filter=filters.FlowRunFilter(
            state=filters.FlowRunFilterState(name=filters.FlowRunFilterStateName(any_=list(names))),
            expected_start_time=since,
        ),
        sort=FlowRunSort.EXPECTED_START_TIME_DESC,
        limit=_MOST,
    )
