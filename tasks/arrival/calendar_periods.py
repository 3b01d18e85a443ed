"""Which periods a drop may name: those that really came, so that nobody can invent any.

Each new period of a product is an automatic charge, and two releases of nearly the same data tell about the
difference. So whoever writes into an inbox gets no more of them than the calendar does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from tabularium.tasks.arrival.inboxes import Inbox

_FORMS = {
    "year": r"(\d{4})",
    "half": r"(\d{4})-H([12])",
    "quarter": r"(\d{4})-Q([1-4])",
    "month": r"(\d{4})-(\d\d)",
    "week": r"(\d{4})-W(\d\d)",
    "day": r"(\d{4})-(\d\d)-(\d\d)",
}
_MONTHS = {"year": 12, "half": 6, "quarter": 3, "month": 1}


def has_come(period: str, own: str, today: date) -> bool:
    """Whether a product whose spec is of the period ``own`` may receive data of ``period``.

    That is ``own`` itself, or, where it is one of the calendar (``2026``, ``2026-H1``, ``2026-Q1``,
    ``2026-03``, ``2026-W09``, ``2026-03-01``), one of the same form, later, that has begun by ``today``.
    """
    if period == own:
        return True
    asked, first = _begins(period), _begins(own)
    return asked is not None and first is not None and asked[0] == first[0] and first[1] < asked[1] <= today


def first_and_last(period: str) -> tuple[date, date] | None:
    """Return the first and the last day of a period of the calendar; None of any other."""
    found = _begins(period)
    if found is None:
        return None
    form, first = found
    if form in _MONTHS:
        year, month = divmod(first.year * 12 + first.month - 1 + _MONTHS[form], 12)
        return first, date(year, month + 1, 1) - timedelta(days=1)
    return first, first + timedelta(days=6 if form == "week" else 0)


def periods_ending(own: str, first: date, until: date) -> Iterator[tuple[str, date, date]]:
    """Yield the calendar's periods that a product may have data of, and that end between two days.

    Parameters
    ----------
    own
        The period of the product's spec; of one that is none of the calendar's nothing follows.
    first, until
        Both included.

    Yields
    ------
    Each period, ``own`` or a later one of its form, with its first and its last day
    """
    found = _begins(own)
    if found is None:
        return
    form, day = found[0], max(found[1], first)
    while day <= until and (days := first_and_last(_containing(form, day))) is not None and days[1] <= until:
        yield _containing(form, day), *days
        day = days[1] + timedelta(days=1)


def _containing(form: str, day: date) -> str:
    """Return the period of a form in which a day is."""
    if form == "week":
        of = day.isocalendar()
        return f"{of.year:04}-W{of.week:02}"
    year, month = f"{day.year:04}", day.month - 1
    written: dict[str, str] = {
        "year": year,
        "half": f"{year}-H{1 + month // 6}",
        "quarter": f"{year}-Q{1 + month // 3}",
        "month": f"{year}-{1 + month:02}",
        "day": day.isoformat(),
    }
    return written[form]


def _begins(period: str) -> tuple[str, date] | None:
    """Return the form of a period and its first day; None if it is none of the calendar's."""
    for form, pattern in _FORMS.items():
        if found := re.fullmatch(pattern, period, re.ASCII):
            year, *parts = map(int, found.groups())
            try:
                return form, _first_day(form, year, parts)
            except ValueError:  # such as month 13
                return None
    return None


def _first_day(form: str, year: int, parts: list[int]) -> date:
    if form == "day":
        return date(year, *parts)
    if form == "week":
        return date.fromisocalendar(year, parts[0], 1)
    number = parts[0] if parts else 1
    return date(year, (number - 1) * _MONTHS[form] + 1, 1)


# --- when data of a period should have been delivered into an inbox
#
# Nobody says when a delivery is due; a period of the calendar says when it has ended. Data count as due
# some days after that: as many as the inbox was deployed with, otherwise as many as the period has, 30 at
# most. Of a period that is none of the calendar's nothing is known.

_MOST_DAYS = 30


def due_deliveries(
    inbox: Inbox, own: str, *, since: datetime, now: datetime
) -> Iterator[tuple[str, datetime]]:
    """Yield each period whose data were due in an inbox after ``since`` and by now, and when.

    Parameters
    ----------
    own
        The period of the product's spec.
    since
        When the product was deployed: what was due before was not looked for.
    """
    place = ZoneInfo(inbox.timezone)
    longest = timedelta(days=1 + (_MOST_DAYS if inbox.due is None else inbox.due))
    last_days = (since.astimezone(place) - longest).date(), now.astimezone(place).date()
    for period, first, last in periods_ending(own, *last_days):
        at = _midnight_after(last, place) + timedelta(
            days=min(_MOST_DAYS, (last - first).days + 1) if inbox.due is None else inbox.due
        )
        if since < at <= now and (not inbox.periods or re.fullmatch(inbox.periods, period, re.ASCII)):
            yield period, at


def _midnight_after(day: date, place: ZoneInfo) -> datetime:
    return datetime.combine(day + timedelta(days=1), time(), place)
