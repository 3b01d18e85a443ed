"""Columns made from columns, as Ibis expressions: what comes out is text or null, coded like a source's own.

::

    source ─▶ from, map, date ─▶ text ─▶ codes ─▶ cases ─▶ text ─▶ codes

No expression is an engine's own idea of a date or of a cast: text is read by pattern, dates are counted in
whole numbers. Hence nothing raises, and every engine gives the same. What is not null and makes no value
becomes a text that no code can be, and is invalid by the column's own rule.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from functools import lru_cache
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tabularium.validations.domains.domains import CategoryDomain, Domain, NumberDomain
from tabularium.validations.domains.encoding import as_text, coded, is_missing, plain_name
from tabularium.validations.imported_later import Later
from tabularium.validations.release_spec.columns import DatePart, Derivation
from tabularium.validations.universes.universe import universe_of

if TYPE_CHECKING:
    import ibis
else:
    ibis = Later("ibis")

_NO_CODE = "\x1a"  # a control character: no code and no whole number has one
# What may follow a date is printable ASCII: engines differ in what a dot stands for.
DATE = r"^ *([0-9]{4})-([0-9]{2})-([0-9]{2})([ T][ -~]*)?$"
_DAY = r"^ *[0-9]{4}-[0-9]{2}-[0-9]{2}"
_CLOCK = r"([01][0-9]|2[0-3])(?::?([0-5][0-9])(?::?([0-5][0-9])(?:[.,][0-9]+)?)?)?"
_OFFSET = r"(?:Z|z|UTC|GMT|([+-])([01][0-9]|2[0-3])(?::?([0-5][0-9])(?::?([0-5][0-9]))?)?)"
_DATE_PARTS = ("year", "month", "day")
CIVIL = rf"{_DAY}(?:[ T]{_CLOCK})? *$"
INSTANT = rf"{_DAY}[ T]{_CLOCK} *{_OFFSET} *$"


def source_column(name: str, column: Derivation) -> str | None:
    """Return the column of the source that a declared column needs; None where it is made from others."""
    return None if column.cases is not None else column.source_column or name


def tested_by(column: Derivation, domains: Mapping[str, Domain]) -> list[str]:
    """Return the columns that the cases of a column test."""
    cases = column.cases or ()
    return list(dict.fromkeys(name for case in cases for name in universe_of(case.when, domains).about))


def coded_columns(
    table: Any, raw: Mapping[str, str], columns: Mapping[str, Derivation], domains: Mapping[str, Domain]
) -> Any:
    """Return ``table`` with the codes of all declared columns added, those made from others last.

    Parameters
    ----------
    raw
        Column of the source -> its name in ``table``.
    columns
        Declared column -> where it comes from.
    domains
        Declared column -> its public domain.
    """
    names: dict[str, str] = {}
    made: dict[str, tuple[str, Derivation, str | None]] = {}
    dated: dict[tuple[str, str | None], str] = {}
    for index, name in enumerate(domains):
        column = columns[name]
        needed = source_column(name, column)
        names[name] = f"made{index}" if needed is None or column.is_made else raw[needed]
        if isinstance(domains[name], NumberDomain):
            names[name] = plain_name(table, names[name])
        if needed is not None and column.is_made:
            zone = None if column.date is None else column.date.zone
            if zone is not None and (raw[needed], zone) not in dated:
                dated[raw[needed], zone] = f"civil{index}"
                table = _with_civil_dates(table, raw[needed], zone, f"civil{index}")
            made[names[name]] = raw[needed], column, dated.get((raw[needed], zone))
    plain = [name for name in domains if columns[name].cases is None]
    if made:
        table = table.mutate(**{text: _made(table, *how) for text, how in made.items()})
    rows = coded(table, names, domains, plain)
    if len(plain) == len(domains):
        return rows
    rest = [name for name in domains if columns[name].cases is not None]
    rows = rows.mutate(**{names[name]: _of_cases(rows, columns[name], domains) for name in rest})
    return coded(rows, names, domains, rest)


def _made(table: Any, name: str, column: Derivation, civil: str | None) -> Any:
    """Return the text that a recode or a part of a date makes of a raw column."""
    raw = table[name]
    if column.map is not None:
        value = as_text(raw).cases(*column.map.items())
    else:
        assert column.date is not None  # noqa: S101 - the caller has looked
        there = [f"{civil}{part}" for part in PARTS]
        numbers = tuple(table[part] for part in there) if there[0] in table.columns else _numbers(raw)
        value = _part(numbers, column.date)
    return ibis.ifelse(is_missing(raw), ibis.null("string"), ibis.coalesce(value, _NO_CODE))


def _of_cases(rows: Any, column: Derivation, domains: Mapping[str, Domain]) -> Any:
    tests = [(universe_of(case.when, domains).holds(rows, domains), case.then) for case in column.cases or ()]
    otherwise = ibis.null("string") if column.otherwise is None else column.otherwise
    return ibis.cases(*tests, else_=otherwise)


def _part(civil: tuple[Any, ...], wanted: DatePart) -> Any:
    """Return a part of a date as text, null where there is no date."""
    year, month, day = civil
    leap, valid = _leap(year), _valid(year, month, day)
    if wanted.part == "age":
        at = date.fromisoformat(wanted.at or "")
        before = (month > at.month) | ((month == at.month) & (day > at.day))
        value = at.year - year - _one(before)
    elif wanted.part in {"iso_year", "iso_week"}:
        value = _iso(year, month, day, leap)[wanted.part == "iso_week"]
    else:
        value = {"year": year, "month": month, "quarter": (month + 2) // 3}[wanted.part]
    return ibis.ifelse(valid, value.cast("int64").cast("string"), ibis.null("string"))


def _leap(year: Any) -> Any:
    return _one((year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0)))


def _valid(year: Any, month: Any, day: Any) -> Any:
    """Return whether there is such a day."""
    days = ibis.ifelse(month == 2, 28 + _leap(year), 30 + (month + month // 8) % 2)
    return month.between(1, 12) & (day >= 1) & (day <= days) & year.between(1, 9999)


def _numbers(raw: Any) -> tuple[Any, ...]:
    """Return year, month and day as 64-bit numbers, null where the value does not look like a date."""
    if raw.type().is_date() or raw.type().is_timestamp():
        parts = raw.year(), raw.month(), raw.day()
    else:
        text = as_text(raw)
        parts = tuple(text.re_extract(DATE, group).nullif("") for group in (1, 2, 3))
    year, month, day = (part.cast("int64") for part in parts)
    return year, month, day


def _with_civil_dates(table: Any, raw: str, zone: str, mark: str) -> Any:
    """Return ``table`` with the dates of a raw text in a zone: of an instant there, of civil time its own.

    Nothing is added for a column of dates, or of times without a zone.
    """
    if not table[raw].type().is_string():
        return table
    text = table[raw]
    known = text.re_search(INSTANT) | text.re_search(CIVIL)
    parts = zip(_DATE_PARTS, _numbers(text), strict=True)
    components = {f"{mark}{name}": ibis.ifelse(known, part, ibis.null("int64")) for name, part in parts}
    table = table.mutate(**components, **{f"{mark}clock": _utc_clock(text)})
    numbers = [table[name] for name in components]
    when = day_number(*numbers) * DAY + table[f"{mark}clock"]  # of civil time there is none
    table = table.mutate(**{f"{mark}second": ibis.ifelse(_valid(*numbers), when, ibis.null("int64"))})
    table = local_date(table, f"{mark}second", f"{mark}year", zone, mark)
    pairs = ((f"{mark}{there}", f"{mark}{name}") for there, name in zip(PARTS, _DATE_PARTS, strict=True))
    return table.mutate(**{there: ibis.coalesce(table[there], table[name]) for there, name in pairs})


def _utc_clock(text: Any) -> Any:
    """Return the seconds of an instant from midnight UTC of its own date; null of what has no offset."""
    hour, minute, second, hours, minutes, seconds = (
        text.re_extract(INSTANT, group).nullif("").cast("int64") for group in (1, 2, 3, 5, 6, 7)
    )
    offset = 3600 * hours.fill_null(0) + 60 * minutes.fill_null(0) + seconds.fill_null(0)
    signed = ibis.ifelse(text.re_extract(INSTANT, 4) == "-", -offset, offset)
    return 3600 * hour + 60 * minute.fill_null(0) + second.fill_null(0) - signed


def _iso(year: Any, month: Any, day: Any, leap: Any) -> tuple[Any, Any]:
    """Return the year and the week of ISO 8601: from Monday on; week 1 has the year's first Thursday."""
    ordinal = 275 * month // 9 - (month + 9) // 12 * (2 - leap) + day - 30
    last, before = _last_weekday(year), _last_weekday(year - 1)
    weekday = (before + ordinal + 6) % 7 + 1  # 1 is Monday
    week = (ordinal - weekday + 10) // 7
    weeks = 52 + _one((last == 4) | (before == 3))
    weeks_before = 52 + _one((before == 4) | (_last_weekday(year - 2) == 3))
    number = ibis.cases((week < 1, weeks_before), (week > weeks, 1), else_=week)
    return ibis.cases((week < 1, year - 1), (week > weeks, year + 1), else_=year), number


def _last_weekday(year: Any) -> Any:
    """Return the weekday of a year's last day, 0 for Sunday."""
    year = year + 400  # after which the calendar repeats: engines differ in dividing what is below zero
    return (year + year // 4 - year // 100 + year // 400) % 7


def _one(condition: Any) -> Any:
    return ibis.ifelse(condition, 1, 0)


# A measure adds up the values of a column of the source, and a histogram counts them. Where a table counts
# by the same column, a cell may hold one value of it, as each year of age has a cell: then a reader who knows
# the cell knows the value. Or a cell holds several, as a group of ages: then the value is neither free nor
# fixed.


def open_values(
    read: Iterable[str],
    counted: Mapping[str, int],
    columns: Mapping[str, Derivation],
    domains: Mapping[str, Domain],
) -> tuple[set[str], bool]:
    """Return the columns of the source whose values the cells do not fix, and if these go with any cell.

    Parameters
    ----------
    read
        Columns of the source that are read as they stand.
    counted
        Declared column -> how many of its values the tables tell apart.
    columns, domains
        Declared column -> where it comes from, and its public domain.
    """
    names, bound = set(), False
    for name in read:
        alike = [
            column
            for column in counted
            if column in columns and source_column(column, columns[column]) == name
        ]
        if not any(_one_value(columns[column], domains[column], counted[column]) for column in alike):
            names.add(name)
            bound = bound or bool(alike)
    return names, bound


def _one_value(column: Derivation, domain: Domain, cells: int) -> bool:
    """Whether each counted cell of a column holds one value of the source."""
    if column.is_made or domain.other is not None or cells < domain.size:
        return False
    if isinstance(domain, NumberDomain) and domain.floor:
        return False
    edges = domain.edges if isinstance(domain, NumberDomain) else ()
    return all(high - low == 1 for low, high in pairwise(edges))


# Two codings of one column of the source are *nested* if every cell of the finer one lies in one cell of the
# coarser one, for every value that neither of them rejects. Then a table with the finer one also counts the
# coarser one's cells, and the two can be made to agree.
#
# A chain of nested codings c1 (coarsest), c2, ... is stored as a product: axis 1 is the cells of c1, axis 2
# the place of a cell of c2 among those in its cell of c1, and so on. The i-th coding has the first i axes,
# so that what two tables share is a marginal like any other. Where groups are not equally large some places
# are no cell of the coding: there are no records there, exactly.

MOST_PLACES = 4
"""Places of a chain for each cell of its finest coding; codings that need more are left apart."""

Cells = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Chain:
    """Nested codings, the coarsest first.

    ``places``: of the i-th coding, (cells, i + 1): where each of its cells lies along the first i + 1 axes.
    """

    domains: tuple[Domain, ...]
    places: tuple[Cells, ...]
    sizes: tuple[int, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return tuple(domain.name for domain in self.domains)

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the axes: of the coarsest column, then of each column in the one before."""
        return (self.names[0], *(f"{b} in {a}" for a, b in zip(self.names, self.names[1:], strict=False)))

    def code(self, place_codes: tuple[int, ...]) -> str:
        """Return the code of the cell at a place along the first axes; empty where there is none."""
        level = len(place_codes) - 1
        rows = np.flatnonzero((self.places[level] == np.array(place_codes)).all(axis=1))
        return self.domains[level].codes[int(rows[0])] if len(rows) else ""


def chains_of(
    columns: Mapping[str, Derivation], domains: Mapping[str, Domain], tables: Collection[Iterable[str]]
) -> list[Chain]:
    """Return the chains of nested codings among the columns of some tables.

    ``tables``: the columns of each table that are crossed as categories. A chain has at most one in each.
    """
    sources: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for table in tables for name in table):
        source = source_column(name, columns[name])
        if source is not None:
            sources.setdefault(source, []).append(name)
    notes = []
    for names in sources.values():
        finest_first = sorted(names, key=lambda name: -domains[name].size)
        chain, parents = [finest_first[0]], []
        for name in finest_first[1:]:
            parent = parents_of(chain[-1], name, columns, domains)
            if parent is not None:
                chain.append(name)
                parents.append(parent)
        if len(chain) > 1 and all(len(set(chain).intersection(table)) <= 1 for table in tables):
            made = laid_out([domains[name] for name in reversed(chain)], parents[::-1])
            if prod(made.sizes) <= MOST_PLACES * made.domains[-1].size:
                notes.append(made)
    return notes


def coding_notes(
    columns: Mapping[str, Derivation], domains: Mapping[str, Domain], tables: Collection[Iterable[str]]
) -> list[str]:
    """Return what `check` says of several codings of one column, a line for each such column."""
    chained = {name for chain in chains_of(columns, domains, tables) for name in chain.names}
    sources: dict[str, list[str]] = {}
    for name in dict.fromkeys(name for table in tables for name in table):
        source = source_column(name, columns[name])
        if source is not None:
            sources.setdefault(source, []).append(name)
    notes = []
    for source, names in sources.items():
        apart = [name for name in names if name not in chained]
        if len(names) > 1 and apart:
            crossed = any(len(set(names).intersection(table)) > 1 for table in tables)
            why = "are crossed in one table" if crossed else "are not nested"
            notes.append(f"tables do not agree on {', '.join(apart)}, codings of {source} that {why}")
        elif len(names) > 1:
            notes.append(
                f"{', '.join(names)} are nested codings of {source}: tables agree on the coarser one"
            )
    return notes


def parents_of(
    fine: str, coarse: str, columns: Mapping[str, Derivation], domains: Mapping[str, Domain]
) -> Cells | None:
    """Return the cell of a coarser coding in which each cell of a finer one lies; None if not nested."""
    one, other = domains[fine], domains[coarse]
    if columns[fine].date != columns[coarse].date:
        return None
    if isinstance(one, NumberDomain) and isinstance(other, NumberDomain):
        same = (one.nulls, one.invalid, one.other is None) == (
            other.nulls,
            other.invalid,
            other.other is None,
        )
        alike = (one.digits is None, one.floor) == (other.digits is None, other.floor)
        digits = max(one.digits or 0, other.digits or 0)
        finer, coarser = (
            coding.edges if coding.digits is None else coding.edges_at(digits) for coding in (one, other)
        )
        ends = (finer[0], finer[-1]) == (coarser[0], coarser[-1])
        if (
            not (same and alike and ends and set(coarser) <= set(finer))
            or columns[fine].map != columns[coarse].map
        ):
            return None
        parent = np.searchsorted(np.array(coarser), np.array(finer[:-1]), "right") - 1
        return np.append(parent, [other.bins] * (one.other is not None)).astype(np.int64)
    if isinstance(one, CategoryDomain) and isinstance(other, CategoryDomain):
        return _parents_of_codes(one, other, columns[fine].map, columns[coarse].map)
    return None


def _parents_of_codes(
    one: CategoryDomain,
    other: CategoryDomain,
    one_map: Mapping[str, str] | None,
    other_map: Mapping[str, str] | None,
) -> Cells | None:
    fine, coarse = _cells(one, one_map), _cells(other, other_map)
    elsewhere = (_other(one, one.invalid), _other(other, other.invalid))
    pairs = {(fine.get(value, elsewhere[0]), coarse.get(value, elsewhere[1])) for value in {*fine, *coarse}}
    pairs |= {elsewhere, (_other(one, one.nulls), _other(other, other.nulls))}
    lies_in = {a: b for a, b in pairs if a is not None and b is not None}
    unclear = len(lies_in) < len({(a, b) for a, b in pairs if a is not None and b is not None})
    if unclear or len(lies_in) < one.size:
        return None
    return np.array([lies_in[cell] for cell in range(one.size)], np.int64)


def _cells(domain: CategoryDomain, recodes: Mapping[str, str] | None) -> dict[str, int]:
    """Return value of the source -> cell."""
    cells = {code: cell for cell, code in enumerate(domain.codes)}
    return cells if recodes is None else {value: cells[code] for value, code in recodes.items()}


def _other(domain: CategoryDomain, treatment: str) -> int | None:
    """Return the cell where nulls or invalid values go; None where they are rejected."""
    return domain.codes.index(domain.other) if treatment == "other" and domain.other is not None else None


def laid_out(domains: list[Domain], parents: list[Cells]) -> Chain:
    """Return codings, the coarsest first, as a chain.

    ``parents``: for each coding but the first, (cells,) the cell of the one before that holds each of its
    cells.
    """
    places = [np.arange(domains[0].size)[:, None]]
    sizes = [domains[0].size]
    for parent in parents:
        order = np.argsort(parent, kind="stable")
        starts = np.searchsorted(parent[order], parent[order])
        rank = np.empty(len(parent), np.int64)
        rank[order] = np.arange(len(parent)) - starts
        places.append(np.column_stack((places[-1][parent], rank)))
        sizes.append(int(rank.max()) + 1)
    return Chain(tuple(domains), tuple(places), tuple(sizes))


# Civil dates of instants, as Ibis expressions: the calendar day that an instant is on in a time zone.
#
# The offsets of a zone are taken from the time zone database of Python (``zoneinfo``) and stand in the
# expression. So no engine's database of zones, and no zone of a session, decides on a date, and every
# engine gives the same one.
#
# Instants are counted in seconds from midnight UTC before 1 March of the year 0, of the Gregorian calendar:
# what is divided is above zero, where engines agree.


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
    tz = ZoneInfo(name)
    first, last = (int(datetime(year, 1, 1, tzinfo=UTC).timestamp()) for year in (_FIRST, _LAST + 1))
    changes, seconds = [], [_ahead(first, tz)]
    for low, high in pairwise([*range(first, last, _STEP), last]):
        change = low
        while change < high and _ahead(high, tz) != seconds[-1]:
            change = _change(change, high, tz)
            changes.append(change + _BEFORE * DAY)
            seconds.append(_ahead(change, tz))
    return Offsets(tuple(changes), tuple(seconds))


def _change(low: int, high: int, tz: tzinfo) -> int:
    """Return a second after ``low`` at which another offset begins, not after ``high``, where it differs."""
    before = _ahead(low, tz)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _ahead(middle, tz) == before else (low, middle)
    return high


def _ahead(second: int, tz: tzinfo) -> int:
    offset = datetime.fromtimestamp(second, tz).utcoffset()
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
    second
        The column of the instants, seconds as in this module.
    year
        Of a year that the instants are in, by any clock.
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
    result: dict[int, list[tuple[int, int]]] = {}
    for change, ahead in zip(offsets.changes, offsets.seconds[1:], strict=True):
        result.setdefault(change // _YEAR, []).append((change, ahead))
    most = max(map(len, result.values()))
    rows, ahead = [], offsets.seconds[0]
    for year in range(min(result), max(result) + 1):
        changes = result.get(year, [])
        padded = [*changes, *[((year + 1) * _YEAR, 0)] * (most - len(changes))]
        rows.append([year, ahead, *(number for pair in padded for number in pair)])
        ahead = changes[-1][1] if changes else ahead
    names = [
        "from",
        "ahead0",
        *(f"{name}{number}" for number in range(1, most + 1) for name in ("change", "ahead")),
    ]
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def _beyond(year: Any) -> Any:
    """Return the seconds to a year from the one whose clocks it has: none where its changes are listed."""
    first = day_number(year, ibis.literal(1, "int64"), 1)
    leap = ibis.ifelse((year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0)), 7, 0)
    alike = {
        _kind(year): _second(datetime(year, 1, 1, tzinfo=UTC))
        for year in range(_LAST - _CYCLE + 1, _LAST + 1)
    }
    beginning = ibis.cases(*((first % 7 + leap == kind, second) for kind, second in sorted(alike.items())))
    return ibis.ifelse(year > _LAST, first * DAY - beginning, 0)


def _kind(year: int) -> int:
    """Return which of the 14 calendars a year has, as :func:`_beyond` tells them apart."""
    days = (date(year, 1, 1) - date(1970, 1, 1)).days
    return (days + _BEFORE) % 7 + 7 * ((date(year, 12, 31) - date(year, 1, 1)).days == 365)
