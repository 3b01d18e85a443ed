"""What starts a product's deployment, and where, so that a command can say what it took away."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tabularium.flows.operations.names_in_prefect import FLOW
from tabularium.tasks.arrival.inboxes import inbox_of
from tabularium.tasks.runtime.home import Home

if TYPE_CHECKING:
    from prefect.client.orchestration import SyncPrefectClient


@dataclass(frozen=True)
class Triggers:
    """A schedule, as people write it, the address of an inbox, and a work pool; any of them may be None."""

    schedule: str | None
    inbox: str | None
    pool: str | None = None

    def lost(self, now: Triggers) -> list[str]:
        """Return a line for each that is there no longer; another schedule is no loss."""
        lines = []
        if self.schedule is not None and now.schedule is None:
            lines.append(f"No longer on a schedule (was {self.schedule})")
        if self.inbox not in (None, now.inbox):
            lines.append(f"No longer watches {self.inbox}")
        if self.pool not in (None, now.pool):
            lines.append(f"No longer in work pool {self.pool}, but in {now.pool}")
        return lines


def triggers_of(client: SyncPrefectClient, home: Home, product: str) -> Triggers:
    """Return what starts a product's deployment; of one that is not there, nothing."""
    from prefect.client.schemas.schedules import CronSchedule
    from prefect.exceptions import ObjectNotFound

    kept, pool = [], None
    with suppress(ObjectNotFound):
        deployment = client.read_deployment_by_name(f"{FLOW}/{product}")
        kept, pool = [each.schedule for each in deployment.schedules], deployment.work_pool_name
    found = [f"{each.cron}, {each.timezone}" for each in kept if isinstance(each, CronSchedule)]
    inbox = inbox_of(home, product)
    return Triggers("; ".join(found) or None, None if inbox is None else inbox.address, pool)
