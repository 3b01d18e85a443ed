"""Civil dates of instants, as Ibis expressions: the calendar day that an instant is on in a time zone.

The offsets of a zone are taken from the time zone database of Python (``zoneinfo``) and stand in the
expression. So no engine's database of zones, and no zone of a session, decides on a date, and every engine
gives the same one.

Instants are counted in seconds from midnight UTC before 1 March of the year 0, of the Gregorian calendar:
what is divided is above zero, where engines agree.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, available_timezones

import pyarrow as pa

from tabularium.validations.imported_later import Later

if TYPE_CHECKING:
    import ibis
else:
    ibis = Later("ibis")

DAY = 86_400
_YEAR = 146_097 * DAY // 400
_BEFORE = 719_468  # days from 1 March of the year 0 to 1 January 1970
# The earliest change of a clock in the database is of 1835. The rules by which clocks will change are regular
# from 2088 on, and the last 28 years before 2100 hold a year of every kind.
_FIRST, _LAST, _CYCLE = 1800, 2099, 28
_STEP = 3 * DAY  # no clock changes and changes back in so short a time
_FIXED = re.compile(r"([+-])([01][0-9]|2[0-3]):([0-5][0-9])")
_NOT_PLACES = {"localtime", "Factory"}  # the zone of the machine, and none


@dataclass(frozen=True)
class Offsets:
    """What a zone's clocks are ahead of UTC.

    Attributes
    ----------
    changes
        Seconds at which an offset begins, ascending; the first offset has no beginning.
    seconds
        The offsets, one more than changes.
    """

    changes: tuple[int, ...]
    seconds: tuple[int, ...]

    @property
    def is_regular(self) -> bool:
        """Whether clocks still change in the last years that are listed."""
        return bool(self.changes) and self.changes[-1] >= _second(datetime(_LAST - 1, 1, 1, tzinfo=UTC))


def zone_names() -> list[str]:
    """Return the names of all time zones, sorted."""
    return sorted(available_timezones() - _NOT_PLACES)


def is_zone(name: str) -> bool:
    """Return whether the schema of a file may name this zone: one of the database, or a fixed offset."""
    return _FIXED.fullmatch(name) is not None or name in available_timezones() - _NOT_PLACES


def is_utc(name: str) -> bool:
    """Return whether a zone is never ahead of UTC: then it says when something was, and not where."""
    return name == "Z" or (is_zone(name) and set(offsets_of(name).seconds) == {0})


@lru_cache(maxsize=64)
def offsets_of(name: str) -> Offsets:
    """Return the offsets of a zone through the years 1800 to 2099."""
    written = _FIXED.fullmatch(name)
    if written is not None:
        ahead = 3600 * int(written[2]) + 60 * int(written[3])
        return Offsets((), (-ahead if written[1] == "-" else ahead,))
    place = ZoneInfo(name)
    first, last = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (_FIRST, _LAST + 1))
    changes, seconds = [], [_ahead(first, place)]
    for low, high in pairwise([*range(first, last, _STEP), last]):
        change = low
        while change < high and _ahead(high, place) != seconds[-1]:
            change = _change(change, high, place)
            changes.append(change + _BEFORE * DAY)
            seconds.append(_ahead(change, place))
    return Offsets(tuple(changes), tuple(seconds))


def _change(low: int, high: int, place: tzinfo) -> int:
    """Return a second after ``low`` at which another offset begins, not after ``high``, where it differs."""
    before = _ahead(low, place)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _ahead(middle, place) == before else (low, middle)
    return high


def _ahead(second: int, place: tzinfo) -> int:
    offset = datetime.fromtimestamp(second, place).utcoffset()
    assert offset is not None  # noqa: S101 - it has a zone
    return int(offset.total_seconds())


def _second(when: datetime) -> int:
    return int(when.timestamp()) + _BEFORE * DAY


def day_number(year: Any, month: Any, day: Any) -> Any:
    """Return the days from 1 March of the year 0 to a date."""
    late = ibis.ifelse(month <= 2, 1, 0)
    year, month = year - late, month + 12 * late - 3
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * month + 2) // 5 + day - 1


PARTS = ("there_year", "there_month", "there_day")
"""What the names of the columns of :func:`local_date` end with."""


def local_date(table: Any, second: str, year: str, zone: str, mark: str) -> Any:
    """Return ``table`` with year, month and day of each instant in a zone: ``mark`` with each of `PARTS`.

    Step by step in columns of their own, so that no engine computes a step as often as it is used.

    Parameters
    ----------
    table
        Ibis table.
    second
        The column of the instants, seconds as in this module.
    year
        That of a year in which the instants are, by any clock.
    zone
        The name of a zone.
    mark
        What the names of all new columns begin with.
    """
    table = _with_offset(table, second, year, offsets_of(zone), mark)
    table = table.mutate(**{f"{mark}here": (table[second] + table[f"{mark}ahead"]) // DAY})
    days = table[f"{mark}here"]
    table = table.mutate(**{f"{mark}era": days // 146_097, f"{mark}within": days % 146_097})
    within = table[f"{mark}within"]
    years = (within - within // 1460 + within // 36_524 - within // 146_096) // 365
    table = table.mutate(**{f"{mark}years": years})
    years, within = table[f"{mark}years"], table[f"{mark}within"]
    table = table.mutate(**{f"{mark}rest": within - (365 * years + years // 4 - years // 100)})
    table = table.mutate(**{f"{mark}fifth": (5 * table[f"{mark}rest"] + 2) // 153})
    years, rest, month = (table[f"{mark}{name}"] for name in ("years", "rest", "fifth"))
    parts = (
        years + 400 * table[f"{mark}era"] + ibis.ifelse(month >= 10, 1, 0),
        ibis.ifelse(month < 10, month + 3, month - 9),
        rest - (153 * month + 2) // 5 + 1,
    )
    return table.mutate(**{f"{mark}{name}": part for name, part in zip(PARTS, parts, strict=True)})


def _with_offset(table: Any, second: str, year: str, offsets: Offsets, mark: str) -> Any:
    """Return ``table`` with what the clocks of a zone are ahead of UTC at each instant."""
    if not offsets.changes:
        return table.mutate(**{f"{mark}ahead": ibis.literal(offsets.seconds[0], "int64")})
    when = table[second] - _beyond(table[year]) if offsets.is_regular else table[second]
    table = table.mutate(**{f"{mark}like": when})
    listed = _by_year(offsets)
    there = ibis.memtable(
        pa.table({f"{mark}{name}": pa.array(column, pa.int64()) for name, column in listed.items()})
    )
    table = table.left_join(there, table[f"{mark}like"] // _YEAR == there[f"{mark}from"])
    when, ahead = table[f"{mark}like"], table[f"{mark}ahead0"]
    for change in range(1, len(listed) // 2):
        later = when >= table[f"{mark}change{change}"]
        ahead = ibis.ifelse(later, table[f"{mark}ahead{change}"], ahead)
    early = ibis.ifelse(when < offsets.changes[0], offsets.seconds[0], offsets.seconds[-1])
    return table.mutate(**{f"{mark}ahead": ibis.coalesce(ahead, early)})


def _by_year(offsets: Offsets) -> dict[str, list[int]]:
    """Return a row for each year: which it is, the offset at its beginning, and its changes with the offsets.

    Years are equally long here, so that a division finds them. Where one has fewer changes than another, the
    rest are after its end.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    for change, ahead in zip(offsets.changes, offsets.seconds[1:], strict=True):
        found.setdefault(change // _YEAR, []).append((change, ahead))
    most = max(map(len, found.values()))
    rows, ahead = [], offsets.seconds[0]
    for year in range(min(found), max(found) + 1):
        changes = found.get(year, [])
        padded = [*changes, *[((year + 1) * _YEAR, 0)] * (most - len(changes))]
        rows.append([year, ahead, *(number for each in padded for number in each)])
        ahead = changes[-1][1] if changes else ahead
    names = [
        "from",
        "ahead0",
        *(f"{name}{place}" for place in range(1, most + 1) for name in ("change", "ahead")),
    ]
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _beyond(year: Any) -> Any:
    """Return the seconds to a year from the one whose clocks it has: none where its changes are listed."""
    first = day_number(year, ibis.literal(1, "int64"), 1)
    leap = ibis.ifelse((year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0)), 7, 0)
    alike = {
        _kind(each): _second(datetime(each, 1, 1, tzinfo=UTC))
        for each in range(_LAST - _CYCLE + 1, _LAST + 1)
    }
    beginning = ibis.cases(*((first % 7 + leap == kind, second) for kind, second in sorted(alike.items())))
    return ibis.ifelse(year > _LAST, first * DAY - beginning, 0)


def _kind(year: int) -> int:
    """Return which of the 14 calendars a year has, as :func:`_beyond` tells them apart."""
    days = (date(year, 1, 1) - date(1970, 1, 1)).days
    return (days + _BEFORE) % 7 + 7 * ((date(year, 12, 31) - date(year, 1, 1)).days == 365)
