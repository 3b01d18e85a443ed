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
from typing import Any

import ibis

from validations.derivation.derived_parts import DatePart, Derivation
from validations.domains.domains import Domain, IntegerDomain
from validations.domains.encoding import as_text, coded, is_missing
from validations.domains.number_text import plain_name
from validations.universes.universe import universe_of

_NO_CODE = "\x1a"  # a control character: no code and no whole number has one
# What may follow a date is printable ASCII: engines differ in what a dot stands for.
DATE = r"^ *([0-9]{4})-([0-9]{2})-([0-9]{2})([ T][ -~]*)?$"


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
    Ibis table: the columns of ``table`` and those of :func:`validations.domains.encoding.coded_names`
    """
    names: dict[str, str] = {}
    made: dict[str, Any] = {}
    for place, name in enumerate(domains):
        column = columns[name]
        needed = source_column(name, column)
        names[name] = f"made{place}" if needed is None or column.is_made else raw[needed]
        if isinstance(domains[name], IntegerDomain):
            names[name] = plain_name(table, names[name])
        if needed is not None and column.is_made:
            made[names[name]] = _made(table[raw[needed]], column)
    plain = [name for name in domains if columns[name].cases is None]
    rows = coded(table.mutate(**made) if made else table, names, domains, plain)
    if len(plain) == len(domains):
        return rows
    rest = [name for name in domains if columns[name].cases is not None]
    rows = rows.mutate(**{names[name]: _of_cases(rows, columns[name], domains) for name in rest})
    return coded(rows, names, domains, rest)


def _made(raw: Any, column: Derivation) -> Any:
    """Return the text that a recode or a part of a date makes of a raw column."""
    if column.map is not None:
        value = as_text(raw).cases(*column.map.items())
    else:
        assert column.date is not None  # noqa: S101 - the caller has looked
        value = _part(raw, column.date)
    return ibis.ifelse(is_missing(raw), ibis.null("string"), ibis.coalesce(value, _NO_CODE))


def _of_cases(rows: Any, column: Derivation, domains: Mapping[str, Domain]) -> Any:
    tests = [(universe_of(case.when, domains).holds(rows, domains), case.then) for case in column.cases or ()]
    otherwise = ibis.null("string") if column.otherwise is None else column.otherwise
    return ibis.cases(*tests, else_=otherwise)


def _part(raw: Any, wanted: DatePart) -> Any:
    """Return a part of a date as text, null where there is no date."""
    year, month, day = _numbers(raw)
    leap = _one((year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0)))
    days = ibis.ifelse(month == 2, 28 + leap, 30 + (month + month // 8) % 2)
    valid = month.between(1, 12) & (day >= 1) & (day <= days) & (year >= 1)
    if wanted.part == "age":
        at = date.fromisoformat(wanted.at or "")
        before = (month > at.month) | ((month == at.month) & (day > at.day))
        value = at.year - year - _one(before)
    elif wanted.part in {"iso_year", "iso_week"}:
        value = _iso(year, month, day, leap)[wanted.part == "iso_week"]
    else:
        value = {"year": year, "month": month, "quarter": (month + 2) // 3}[wanted.part]
    return ibis.ifelse(valid, value.cast("int64").cast("string"), ibis.null("string"))


def _numbers(raw: Any) -> tuple[Any, Any, Any]:
    """Return year, month and day as 64-bit numbers, null where the value does not look like a date."""
    if raw.type().is_date() or raw.type().is_timestamp():
        parts = raw.year(), raw.month(), raw.day()
    else:
        text = as_text(raw)
        parts = tuple(text.re_extract(DATE, group).nullif("") for group in (1, 2, 3))
    year, month, day = (part.cast("int64") for part in parts)
    return year, month, day


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
