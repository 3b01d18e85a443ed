"""The period of a scheduled run: a template of the deployment, filled in from when the run was scheduled.

``{scheduled:%Y-Q%q}`` of a run of 1 October 2026 is ``2026-Q4``, ``{previous_month:%Y-%m}`` is ``2026-09``.
The time that counts is the one in the schedule and not the clock's, so that a run that starts late, waits
for an officer, or is tried again still has its period.

Clocks that are set forward skip times, at midnight in some zones. Prefect's server fires for such a time as
if the clocks had been set before: what is written as midnight fires at 23:00 of the day before, and is of the
day that is written all the same. Where a time comes twice, it fires at the first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any
from zoneinfo import ZoneInfo

from tabularium.mechanisms.errors import InputError

_WORD = re.compile(r"\{([^{}]*)\}")
_CODE = re.compile("%(.)", re.DOTALL)
_CODES = frozenset("YymdHMjGVuq")
_PERIOD = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_EXAMPLE = 'write for instance --period "{scheduled:%Y-Q%q}" or "{previous_month:%Y-%m}"'


def is_template(period: str) -> bool:
    """Whether a period is filled in from the schedule."""
    return "{" in period or "}" in period


def of_this_run(period: str | int | None, timezone: str, cron: str | None = None) -> str | None:
    """Return the period of the flow run that asks: a template is filled in from when that run was scheduled.

    A run that is resumed, retried or started again after a crash keeps the time for which it was first
    scheduled.

    Raises
    ------
    InputError
        As ``resolve``.
    """
    if period is None or not is_template(str(period)):
        return None if period is None else str(period)
    from prefect.runtime import flow_run

    return resolve(str(period), flow_run.scheduled_start_time, timezone, cron)


def resolve(template: str, scheduled: datetime, timezone: str = "UTC", cron: str | None = None) -> str:
    """Return the period of a run.

    Parameters
    ----------
    template
        A period, in which ``{scheduled:CODES}`` and ``{previous_month:CODES}`` stand for the time of the
        schedule and for the month before it; the codes are those of strftime, and ``%q`` is the quarter.
    scheduled
        When the run was to start; without a time zone it is UTC.
    timezone
        The time zone of day and month, such as ``Europe/Berlin``.
    cron
        The schedule that fired, by which a time that clocks skipped is known from the one at which the server
        fires for it; without one the clock's counts.

    Raises
    ------
    InputError
        If the template holds anything else, the time zone is unknown, or what comes out is no period.
    """
    moment = datetime.fromtimestamp(scheduled.replace(tzinfo=scheduled.tzinfo or UTC).timestamp(), UTC)
    there = _as_written(moment, zone(timezone), cron)  # Prefect's own kind of time moves skipped ones
    month_before = (there.replace(day=1) - timedelta(days=1)).replace(day=1)
    times = {"scheduled": there, "previous_month": month_before}

    def filled(match: re.Match[str]) -> str:
        name, _, codes = match[1].partition(":")
        if name not in times or not codes or set(_CODE.findall(codes)) - _CODES:
            raise _unfit(template, f"{match[0]} is not known")
        # Code by code: %q is none of the C library's own.
        return _CODE.sub(lambda code: _formatted(code[1], times[name]), codes)

    period = _WORD.sub(filled, template)
    if _PERIOD.fullmatch(period) is None:
        raise _unfit(template, "what comes out is no period")
    return period


def fires_at(written: datetime, tz: ZoneInfo) -> datetime:
    """Return when Prefect's server fires for a time of a schedule, by the clock on the wall."""
    first, later = (written.replace(tzinfo=tz, fold=fold) for fold in (0, 1))
    skipped = _on_the_wall(first.astimezone(UTC), tz) != written
    return (later if skipped else first).astimezone(UTC).astimezone(tz)


def skipped_times(cron: str, tz: ZoneInfo, since: datetime, days: int = 366) -> Iterator[datetime]:
    """Yield the times of a schedule, by the clock on the wall, that clocks skip, one for each change."""
    for day in range(days):
        moment = since + timedelta(days=day)
        missing = _change(moment, tz)
        if missing <= timedelta(0):
            continue
        at, end = moment, moment + _DAY
        while end - at > _SECOND:  # when clocks change
            middle = at + (end - at) / 2
            at, end = (middle, end) if _change(middle, tz, end - middle) > timedelta(0) else (at, middle)
        begins = (_on_the_wall(at, tz) + timedelta(seconds=30)).replace(second=0, microsecond=0)
        first: datetime = _croniter()(cron, begins - _SECOND).get_next(datetime)
        if first < begins + missing:
            yield first


def previous_times(cron: str, tz: ZoneInfo, before: datetime) -> Iterator[datetime]:
    """Yield the times of a schedule before a moment, by the clock on the wall, the last one first."""
    times = _croniter()(cron, _on_the_wall(before, tz))
    while True:
        yield times.get_prev(datetime)


_DAY, _SECOND = timedelta(days=1), timedelta(seconds=1)


def _croniter() -> Any:
    """Return what reads a schedule for Prefect's server; it has no types."""
    return import_module("prefect._vendor.croniter").croniter


def _on_the_wall(moment: datetime, tz: ZoneInfo) -> datetime:
    return moment.astimezone(tz).replace(tzinfo=None, fold=0)


def _change(moment: datetime, tz: ZoneInfo, within: timedelta = _DAY) -> timedelta:
    """Return by how much clocks are set forward in the time after a moment."""
    moment = moment.astimezone(UTC)
    return _on_the_wall(moment + within, tz) - _on_the_wall(moment, tz) - within


def _as_written(scheduled: datetime, tz: ZoneInfo, cron: str | None) -> datetime:
    """Return the scheduled time that the server fired for, in local time."""
    there = _on_the_wall(scheduled, tz)
    if cron is None or _croniter().match(cron, there):
        return there
    skipped = there + _change(scheduled, tz, timedelta(hours=25))  # a day was skipped, too, at Samoa
    is_it = skipped != there and fires_at(skipped, tz) == scheduled and _croniter().match(cron, skipped)
    return skipped if is_it else there


def _formatted(code: str, when: datetime) -> str:
    return str((when.month + 2) // 3) if code == "q" else when.strftime(f"%{code}")


def zone(timezone: str) -> ZoneInfo:
    """Return a time zone by its name.

    Raises
    ------
    InputError
        If there is none of that name.
    """
    try:
        return ZoneInfo(timezone)
    except (ValueError, OSError, KeyError):  # of a path, of a folder, of a name that nobody knows
        pass
    raise InputError(
        "no such time zone", where="--timezone", hint="give one of its names, such as Europe/Berlin"
    )


def _unfit(template: str, what: str) -> InputError:
    return InputError(what, where=f"period {template!r}", hint=_EXAMPLE)
