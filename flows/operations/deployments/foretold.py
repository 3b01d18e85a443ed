"""Cost of a schedule: until when an account pays for it, and what ten years of it come to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from tabularium.flows.operations.deployments.deployment import next_time
from tabularium.flows.operations.periods import is_template, resolve
from tabularium.flows.operations.prefect_api import asking_once, configured_url, deployments_of_products
from tabularium.flows.operations.server_address import written_address

if TYPE_CHECKING:
    from tabularium.ledger import Terms
    from tabularium.tasks.runtime.home import Home
    from tabularium.validations.release_spec.model import ReleaseSpec

YEARS = 10
MOST_RUNS = 4_000
"""Times of a schedule that are looked at: daily ones of ten years, and no more."""


@dataclass(frozen=True)
class Foretold:
    """What becomes of a schedule, if nothing of it changes.

    Attributes
    ----------
    last
        The last period that the account pays for, and when it runs; None where the next one cannot be paid,
        or all that were looked at can.
    unpaid
        The first period that it does not pay for, and when; None where there was none.
    closed
        Whether that is because the account takes no charges then.
    periods
        How many are new in ten years; None where the schedule was not looked at for so long.
    spent
        What they cost, plainly summed.
    epsilon, delta
        The same as an (ε, δ).
    """

    last: tuple[str, datetime] | None
    unpaid: tuple[str, datetime] | None
    closed: bool
    periods: int | None
    spent: Fraction | None
    epsilon: float | None
    delta: Fraction | None
    symbol: str

    def sentences(self) -> list[str]:
        """Return the forecast as sentences."""
        lines = []
        if self.unpaid is not None:
            period, at = self.unpaid
            why = "the account takes no charges then" if self.closed else "what is left does not pay for it"
            before = "" if self.last is None else f"This schedule is paid for until period {self.last[0]}. "
            lines.append(f"{before}Period {period}, which runs on {at:%Y-%m-%d}, would be refused: {why}.")
        if self.periods is not None:
            loss = f"ε = {self.epsilon:.3g} at δ = {float(self.delta or 0):g}"
            lines.append(
                f"Ten years of this schedule are {self.periods} periods: {self.symbol} = {self.spent} "
                f"plainly summed, or {loss}."
            )
        return lines

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        times = {name: getattr(self, name) for name in ("last", "unpaid")}
        return {
            **{
                name: None
                if coming_runs is None
                else {"period": coming_runs[0], "at": coming_runs[1].astimezone(UTC).isoformat()}
                for name, coming_runs in times.items()
            },
            "ten_years": None
            if self.periods is None
            else {
                "periods": self.periods,
                "spent": str(self.spent),
                "epsilon": self.epsilon,
                "delta": str(self.delta),
            },
        }


@dataclass(frozen=True)
class Coming:
    """The new periods of a schedule, and when each runs first; ``ten_years``: whether all of that time."""

    periods: list[tuple[str, datetime]]
    ten_years: bool


def coming(
    schedule: tuple[str, str, str], *, charged: Collection[str], terms: Terms, now: datetime
) -> Coming:
    """Go through a schedule.

    Parameters
    ----------
    schedule
        Cron, time zone, and the template of the period.
    charged
        Periods of the product that are paid for already.
    """
    cron, timezone, template = schedule
    end, at, known = now.replace(year=now.year + YEARS, day=min(now.day, 28)), now, set(charged)
    new: list[tuple[str, datetime]] = []
    ten_years = False
    for _ in range(MOST_RUNS):
        at = next_time(cron, timezone, at)
        if ten_years := at > end:
            break
        period = resolve(template, at, timezone, cron)
        if period not in known and (terms.opens_on is None or terms.opens_on <= _day(at)):
            known.add(period)
            new.append((period, at))
    return Coming(new, ten_years)


def paid_together(left: Fraction, schedules: Sequence[tuple[Fraction, int, Coming]]) -> list[int]:
    """Return how many periods of each schedule of an account are paid for before one of it is refused.

    They are charged as they run, whichever schedule they are of.

    ``schedules``: for each: what a period costs, how many are paid for at most, and what comes.
    """
    numbers, refused = [0 for _ in schedules], [False for _ in schedules]
    runs = [(at, index) for index, (_, _, schedule) in enumerate(schedules) for _, at in schedule.periods]
    for _, index in sorted(runs):
        cost, most, _ = schedules[index]
        refused[index] |= cost > left or numbers[index] >= most
        if not refused[index]:
            left -= cost
            numbers[index] += 1
    return numbers


def foretold(spec: ReleaseSpec, runs: Coming, *, pays_for: int, terms: Terms) -> Foretold:
    """Say what becomes of a schedule.

    ``pays_for``: how many of them the account pays for.
    """
    from tabularium.ledger.review import DELTA, composed

    new = runs.periods
    open_for = next((n for n, (_, at) in enumerate(new) if terms.closed_on(_day(at))), len(new))
    paid = min(pays_for, open_for)
    last = new[paid - 1] if 0 < paid < len(new) else None
    unpaid = new[paid] if paid < len(new) else None
    privacy, closed = spec.privacy, open_for <= pays_for
    if not runs.ten_years or not new:
        return Foretold(last, unpaid, closed, None, None, None, None, privacy.symbol)
    delta = privacy.delta or DELTA
    epsilon = composed(privacy.definition, privacy.budget, len(new), delta)
    spent = len(new) * privacy.budget
    return Foretold(last, unpaid, closed, len(new), spent, epsilon, delta, privacy.symbol)


def schedules_of(home: Home) -> list[tuple[str, str, tuple[str, str, str]]]:
    """Return the schedules that make periods, of the deployments of a home.

    Product, spec file, and schedule as :func:`coming` takes it; none where no Prefect API is known.

    Raises
    ------
    InputError
        It does not answer.
    """
    if configured_url() is None and written_address(home) is None:
        return []
    from prefect.client.schemas.schedules import CronSchedule

    with asking_once(home) as client:
        deployments = deployments_of_products(client)
    return [
        (
            deployment.name,
            str(deployment.parameters.get("spec", "")),
            (when.cron, when.timezone or "UTC", period),
        )
        for deployment in deployments
        if deployment.parameters.get("home") in (None, str(home.path))
        and is_template(period := str(deployment.parameters.get("period") or ""))
        for schedule in deployment.schedules
        if schedule.active and isinstance(when := schedule.schedule, CronSchedule)
    ]


def _day(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d}"
