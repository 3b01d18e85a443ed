"""Columns made from columns, as Ibis expressions: what comes out is text or null, coded like a source's own.

::

    source ─▶ from, map, date ─▶ text ─▶ codes ─▶ cases ─▶ text ─▶ codes

No expression is an engine's own idea of a date or of a cast: text is read by pattern, dates are counted in
whole numbers. Hence nothing raises, and every engine gives the same. What is not null and makes no value
becomes a text that no code can be, and is invalid by the column's own rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import TYPE_CHECKING, Any

from tabularium.validations.derivation.civil_dates import DAY, PARTS, day_number, local_date
from tabularium.validations.derivation.derived_parts import DatePart, Derivation
from tabularium.validations.domains.domains import Domain, NumberDomain
from tabularium.validations.domains.encoding import as_text, coded, is_missing
from tabularium.validations.domains.number_text import plain_name
from tabularium.validations.imported_later import Later
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
_OWN = ("year", "month", "day")
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
    table
        Ibis table with the raw columns.
    raw
        Column of the source -> its name in ``table``.
    columns
        Declared column -> where it comes from.
    domains
        Declared column -> its public domain.

    Returns
    -------
    Ibis table: the columns of ``table`` and those of
    :func:`tabularium.validations.domains.encoding.coded_names`
    """
    names: dict[str, str] = {}
    made: dict[str, tuple[str, Derivation, str | None]] = {}
    dated: dict[tuple[str, str | None], str] = {}
    for place, name in enumerate(domains):
        column = columns[name]
        needed = source_column(name, column)
        names[name] = f"made{place}" if needed is None or column.is_made else raw[needed]
        if isinstance(domains[name], NumberDomain):
            names[name] = plain_name(table, names[name])
        if needed is not None and column.is_made:
            zone = None if column.date is None else column.date.zone
            if zone is not None and (raw[needed], zone) not in dated:
                dated[raw[needed], zone] = f"civil{place}"
                table = _with_civil_dates(table, raw[needed], zone, f"civil{place}")
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

    Of a column of dates, or of times that say no zone, nothing is added.
    """
    if not table[raw].type().is_string():
        return table
    text = table[raw]
    known = text.re_search(INSTANT) | text.re_search(CIVIL)
    parts = zip(_OWN, _numbers(text), strict=True)
    own = {f"{mark}{name}": ibis.ifelse(known, part, ibis.null("int64")) for name, part in parts}
    table = table.mutate(**own, **{f"{mark}clock": _utc_clock(text)})
    numbers = [table[name] for name in own]
    when = day_number(*numbers) * DAY + table[f"{mark}clock"]  # of civil time there is none
    table = table.mutate(**{f"{mark}second": ibis.ifelse(_valid(*numbers), when, ibis.null("int64"))})
    table = local_date(table, f"{mark}second", f"{mark}year", zone, mark)
    pairs = ((f"{mark}{there}", f"{mark}{name}") for there, name in zip(PARTS, _OWN, strict=True))
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
    found = ibis.cases((week < 1, weeks_before), (week > weeks, 1), else_=week)
    return ibis.cases((week < 1, year - 1), (week > weeks, year + 1), else_=year), found


def _last_weekday(year: Any) -> Any:
    """Return the weekday of a year's last day, 0 for Sunday."""
    year = year + 400  # after which the calendar repeats: engines differ in dividing what is below zero
    return (year + year // 4 - year // 100 + year // 400) % 7


def _one(condition: Any) -> Any:
    return ibis.ifelse(condition, 1, 0)
