"""What is looked at before a product is deployed: its spec, its account, its schedule; no data is opened."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice

from tabularium.flows.operations.deployments.deployment import next_time
from tabularium.flows.operations.periods import fires_at, is_template, resolve, skipped_times, zone
from tabularium.flows.operations.waiting import approval_message
from tabularium.ledger import NotApproved
from tabularium.tasks.dry_run import dry_run_spec
from tabularium.tasks.ledger_stages import check_account
from tabularium.tasks.runtime.progress import note
from tabularium.tasks.runtime.run import Request, load, opened
from tabularium.validations.release_spec.load import Loaded


@dataclass(frozen=True)
class Timing:
    """When a deployment runs next, and for which period.

    Attributes
    ----------
    following
        When its schedule fires next; None without one.
    period
        Of a run at that time, or now; None if it is the spec's own.
    """

    following: datetime | None
    period: str | None


def timing(cron: str | None, timezone: str, period: str | None) -> Timing:
    """Try a schedule and the template of its period; a time that clocks skip within a year is noted.

    Raises
    ------
    InputError
        If the schedule, the time zone or the template is not what it should be.
    """
    place = zone(timezone)
    now = datetime.now(place)
    following = None if cron is None else next_time(cron, timezone, now)
    for skipped in islice(skipped_times(cron, place, now), 1) if cron is not None else ():
        at = fires_at(skipped, place)
        note(
            f"on {skipped:%Y-%m-%d} clocks in {timezone} skip {skipped:%H:%M}: that run starts at "
            f"{at:%H:%M on %Y-%m-%d}, and its period is made from the time in the schedule"
        )
    if period is None or not is_template(period):
        return Timing(following, period)
    return Timing(following, resolve(period, following or now, timezone, cron))


def checked(request: Request) -> Loaded:
    """Read a spec and see that its account would take a charge for it; what an officer has to do is noted.

    Raises
    ------
    TabulariumError
        If a run would be refused, whatever its data are.
    """
    loaded = load(request)
    with opened(request, loaded, to_publish=False) as run:
        dry_run_spec(run)
        try:
            check_account(run)
        except NotApproved as error:
            note(f"a run will wait: {approval_message(error, request)}")
    return loaded


def description(loaded: Loaded) -> str:
    """Return what a deployment is, for who finds it in the UI."""
    spec = loaded.spec
    tables = ", ".join(f"`{table.name}`" for table in spec.tables)
    unit = "ρ" if spec.privacy.definition == "zcdp" else "ε"
    return (
        f"Publishes **{spec.product}** ({tables}) for one period a run, at {unit} = {spec.privacy.budget} of "
        f"account `{spec.dataset}`.\n\nSafe to run again: a release is published and paid for once."
    )


def utc(when: datetime) -> str:
    """Return a time as programs read it."""
    return when.astimezone(UTC).isoformat(timespec="seconds")
