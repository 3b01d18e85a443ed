"""The period of a scheduled run: a template of the deployment, filled in from when the run was scheduled.

``{scheduled:%Y-Q%q}`` of a run of 1 October 2026 is ``2026-Q4``, ``{previous_month:%Y-%m}`` is ``2026-09``.
The time that counts is the one in the schedule and not the clock's, so that a run that starts late, waits
for an officer, or is tried again still has its period.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from mechanisms.errors import InputError

_WORD = re.compile(r"\{([^{}]*)\}")
_CODE = re.compile("%(.)", re.DOTALL)
_CODES = frozenset("YymdHMjGVuq")
_PERIOD = re.compile("[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_EXAMPLE = 'write for instance --period "{scheduled:%Y-Q%q}" or "{previous_month:%Y-%m}"'


def is_template(period: str) -> bool:
    """Whether a period is filled in from the schedule."""
    return "{" in period or "}" in period


def of_this_run(period: str | int | None, timezone: str) -> str | None:
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

    return resolve(str(period), flow_run.scheduled_start_time, timezone)


def resolve(template: str, scheduled: datetime, timezone: str = "UTC") -> str:
    """Return the period of a run.

    Parameters
    ----------
    template
        A period, in which ``{scheduled:CODES}`` and ``{previous_month:CODES}`` stand for the time of the
        schedule and for the month before it; the codes are those of strftime, and ``%q`` is the quarter.
    scheduled
        When the run was to start; without a time zone it is UTC.
    timezone
        Where the day and the month are told, such as ``Europe/Berlin``.

    Raises
    ------
    InputError
        If the template holds anything else, the time zone is unknown, or what comes out is no period.
    """
    there = scheduled.replace(tzinfo=scheduled.tzinfo or ZoneInfo("UTC")).astimezone(zone(timezone))
    month_before = (there.replace(day=1) - timedelta(days=1)).replace(day=1)
    times = {"scheduled": there, "previous_month": month_before}

    def filled(found: re.Match[str]) -> str:
        name, _, codes = found[1].partition(":")
        if name not in times or not codes or set(_CODE.findall(codes)) - _CODES:
            raise _unfit(template, f"{found[0]} is not known")
        # Code by code: %q is none of the C library's own.
        return _CODE.sub(lambda code: _told(code[1], times[name]), codes)

    period = _WORD.sub(filled, template)
    if _PERIOD.fullmatch(period) is None:
        raise _unfit(template, "what comes out is no period")
    return period


def _told(code: str, when: datetime) -> str:
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
        "no such time zone", where="--timezone", mend="give one of its names, such as Europe/Berlin"
    )


def _unfit(template: str, what: str) -> InputError:
    return InputError(what, where=f"period {template!r}", mend=_EXAMPLE)
