"""Silence: releases that a schedule should have published by now, and data that should have arrived."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from tabularium.flows.operations.periods import fires_at, is_template, previous_times, resolve, zone
from tabularium.flows.operations.prefect_api import deployments_of_products
from tabularium.ledger import Ledger
from tabularium.mechanisms.errors import TabulariumError
from tabularium.tasks.arrival.claims import LIVE, Claims
from tabularium.tasks.arrival.inboxes import Inbox, due_deliveries, inboxes
from tabularium.tasks.runtime.home import Home

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient
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
    since
        When it was deployed.
    now
        What was scheduled less than :data:`PATIENCE` before is not due yet.
    """
    place, found = zone(timezone), dict[str, datetime]()
    for written in islice(previous_times(cron, place, now - PATIENCE), _MOST_RUNS):
        at = fires_at(written, place)
        if at < since:
            break
        found[resolve(period, at, timezone, cron) if is_template(period) else period] = at
    yield from found.items()


def overdue(client: SyncPrefectClient, home: Home, now: datetime) -> list[Overdue]:
    """Return what the deployments of this server should have published from this home, and did not.

    Of a product with an inbox that is also what should have arrived there, and did not
    (:mod:`tabularium.tasks.arrival.inboxes`).
    """
    wanted: dict[tuple[str, str], Overdue] = {}
    watched = {inbox.product: inbox for inbox in inboxes(home)}
    for each in deployments_of_products(client):
        if each.parameters.get("home") in (None, str(home.path)):
            # Its schedule was changed in the UI to what makes no period, or never fires.
            with suppress(TabulariumError, ValueError):
                for period, at in _due(each, now):
                    wanted[each.name, period] = Overdue(each.name, period, at)
            if each.name in watched:
                for period, at in _deliveries_due(each, watched[each.name], now):
                    late = Overdue(each.name, period, at, watched[each.name].address)
                    wanted.setdefault((each.name, period), late)
    if not wanted:
        return []
    ended: set[tuple[str, str]] = set()  # withheld ones are never published, and an officer has said so
    with Ledger.connect(home.ledger_url, make=False) as ledger:
        for account in ledger.accounts():
            charges = ledger.each_charge(account.name)
            ended |= {(c.product, c.period) for c in charges if c.state in ("published", "withheld")}
    missing = [each for name, each in wanted.items() if name not in ended]
    if any(each.inbox for each in missing):  # what became of data that arrived, others tell
        arrived = {(drop.product, drop.period) for drop in Claims.known(home) if drop.state in LIVE}
        missing = [each for each in missing if not each.inbox or (each.product, each.period) not in arrived]
    return sorted(missing, key=lambda each: each.since)


def _deliveries_due(
    deployment: DeploymentResponse, inbox: Inbox, now: datetime
) -> Iterator[tuple[str, datetime]]:
    own = _of_spec(deployment)
    if own and deployment.created:
        yield from due_deliveries(inbox, own, since=deployment.created, now=now)


def _due(deployment: DeploymentResponse, now: datetime) -> Iterator[tuple[str, datetime]]:
    from prefect.client.schemas.schedules import CronSchedule

    period = deployment.parameters.get("period") or _of_spec(deployment)
    for each in deployment.schedules:
        since = each.created or deployment.created
        if each.active and isinstance(each.schedule, CronSchedule) and period and since:
            yield from due(
                each.schedule.cron, each.schedule.timezone or "UTC", str(period), since=since, now=now
            )


def _of_spec(deployment: DeploymentResponse) -> str | None:
    from tabularium.validations.spec.load import load_spec

    with suppress(TabulariumError, OSError):
        return load_spec(Path(str(deployment.parameters["spec"]))).spec.period
    return None
