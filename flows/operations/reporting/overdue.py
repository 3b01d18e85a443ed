"""Overdue releases and deliveries, and runs that wait or ended badly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tabularium.flows.operations.names_in_prefect import FLOW
from tabularium.flows.operations.periods import fires_at, is_template, previous_times, resolve, zone
from tabularium.flows.operations.prefect_api import deployments_of_products
from tabularium.ledger import Ledger
from tabularium.mechanisms.errors import TabulariumError
from tabularium.tasks.arrival.claims import LIVE, Claims
from tabularium.tasks.arrival.inboxes import Inbox, due_deliveries, inboxes
from tabularium.tasks.runtime.home import Home

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
    from prefect.client.schemas.objects import FlowRun
    from prefect.client.schemas.responses import DeploymentResponse

PATIENCE = timedelta(days=1)
"""After the time in the schedule, before a release counts as overdue."""
_MOST_RUNS = 400
"""Times of a schedule that are looked back at."""


@dataclass(frozen=True)
class Overdue:
    """What is missing of a product and period.

    Attributes
    ----------
    since
        When its run was scheduled first, or when its data were due.
    inbox
        Where the data should have arrived; empty of a release that a schedule should have published.
    """

    product: str
    period: str
    since: datetime
    inbox: str = ""

    def line(self) -> str:
        """Return product, period and since when, on one line."""
        return f"{self.product}, period {self.period}, since {self.since:%Y-%m-%d %H:%M %Z}"


def due(
    cron: str, timezone: str, period: str, *, since: datetime, now: datetime
) -> Iterator[tuple[str, datetime]]:
    """Yield each period that a schedule was to publish, the last one first, with its first time.

    Parameters
    ----------
    period
        The template of the schedule's periods, or one period.
    now
        What was scheduled less than :data:`PATIENCE` before is not due yet.
    """
    tz, times = zone(timezone), dict[str, datetime]()
    for written in islice(previous_times(cron, tz, now - PATIENCE), _MOST_RUNS):
        at = fires_at(written, tz)
        if at < since:
            break
        times[resolve(period, at, timezone, cron) if is_template(period) else period] = at
    yield from times.items()


def overdue(client: SyncPrefectClient, home: Home, now: datetime) -> list[Overdue]:
    """Return what the deployments of this server should have published from this home, and did not.

    Of a product with an inbox that is also what should have arrived there, and did not
    (:mod:`tabularium.tasks.arrival.inboxes`).
    """
    wanted: dict[tuple[str, str], Overdue] = {}
    watched = {inbox.product: inbox for inbox in inboxes(home)}
    for deployment in deployments_of_products(client):
        if deployment.parameters.get("home") in (None, str(home.path)):
            # Its schedule was changed in the UI to what makes no period, or never fires.
            with suppress(TabulariumError, ValueError):
                for period, at in _due(deployment, now):
                    wanted[deployment.name, period] = Overdue(deployment.name, period, at)
            if deployment.name in watched:
                for period, at in _deliveries_due(deployment, watched[deployment.name], now):
                    late = Overdue(deployment.name, period, at, watched[deployment.name].address)
                    wanted.setdefault((deployment.name, period), late)
    if not wanted:
        return []
    ended: set[tuple[str, str]] = set()  # withheld ones are never published, and an officer has decided so
    with Ledger.connect(home.ledger_url, make=False) as ledger:
        for account in ledger.accounts():
            charges = ledger.all_charges(account.name)
            ended |= {(c.product, c.period) for c in charges if c.state in ("published", "withheld")}
    missing = [expected for name, expected in wanted.items() if name not in ended]
    if any(release.inbox for release in missing):  # what became of data that arrived, others tell
        arrived = {(drop.product, drop.period) for drop in Claims.known(home) if drop.state in LIVE}
        missing = [
            release
            for release in missing
            if not release.inbox or (release.product, release.period) not in arrived
        ]
    return sorted(missing, key=lambda release: release.since)


def _deliveries_due(
    deployment: DeploymentResponse, inbox: Inbox, now: datetime
) -> Iterator[tuple[str, datetime]]:
    period = _of_spec(deployment)
    if period and deployment.created:
        yield from due_deliveries(inbox, period, since=deployment.created, now=now)


def _due(deployment: DeploymentResponse, now: datetime) -> Iterator[tuple[str, datetime]]:
    from prefect.client.schemas.schedules import CronSchedule

    period = deployment.parameters.get("period") or _of_spec(deployment)
    for schedule in deployment.schedules:
        since = schedule.created or deployment.created
        if schedule.active and isinstance(schedule.schedule, CronSchedule) and period and since:
            yield from due(
                schedule.schedule.cron, schedule.schedule.timezone or "UTC", str(period), since=since, now=now
            )


def _of_spec(deployment: DeploymentResponse) -> str | None:
    from tabularium.validations.release_spec.load import load_spec

    with suppress(TabulariumError, OSError):
        return load_spec(Path(str(deployment.parameters["spec"]))).spec.period
    return None


# States of the runs of products, for a terminal: which wait and for what, which ended badly and why.


#: So far back runs that ended badly are counted.
DAYS = 7
_MOST = 200  # no server gives more
_SOON = timedelta(minutes=1)


def waiting_for_officers(client: SyncPrefectClient) -> list[str]:
    """Return product and period of each run that waits for an officer, as ``farms, period 2026``."""
    return sorted({named(run) for run in _in_state(client, "Suspended")})


def trying_again(client: SyncPrefectClient) -> list[str]:
    """Return, of each run that waits to try again, product and period, and why it waits."""
    return sorted({_run_summary(run) for run in _in_state(client, "AwaitingRetry")})


def late(client: SyncPrefectClient) -> tuple[int, timedelta]:
    """Return how many runs should have begun more than a minute ago, and how late the first of them is."""
    waiting = _in_state(client, "Scheduled", "Late", "Pending")
    behind = [datetime.now(UTC) - run.expected_start_time for run in waiting if run.expected_start_time]
    behind = [delay for delay in behind if delay > _SOON]
    return len(behind), max(behind, default=timedelta(0))


def ended_badly(client: SyncPrefectClient) -> dict[str, list[str]]:
    """Return which runs crashed or failed in the last days and why, the last first, by name of the state."""
    return {
        name: [_run_summary(run) for run in _in_state(client, name, days=DAYS)]
        for name in ("Crashed", "Failed")
    }


def _run_summary(run: FlowRun) -> str:
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
