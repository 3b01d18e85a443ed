"""When data of a period should have been delivered into an inbox.

Nobody says when a delivery is due; a period of the calendar says when it has ended. Data count as due some
days after that: as many as the inbox was deployed with, otherwise as many as the period has, 30 at most. Of a
period that is none of the calendar's nothing is known.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from tabularium.tasks.arrival.calendar_periods import periods_ending
from tabularium.tasks.arrival.inboxes import Inbox

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
