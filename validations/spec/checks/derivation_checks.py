"""Columns made from columns: one way of making each, codes that it has, tests that read."""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal

from tabularium.mechanisms.errors import InputError
from tabularium.validations.derivation.civil_dates import zone_names
from tabularium.validations.derivation.derived_parts import DatePart
from tabularium.validations.domains.domains import Domain, HierarchyDomain, NumberDomain
from tabularium.validations.spec.draft import Draft
from tabularium.validations.spec.parts.column_part import Column
from tabularium.validations.spec.problems import Path, choose, listed, nearest, quoted
from tabularium.validations.universes.universe import universe_of

_WAYS = ("map", "date", "cases")
_RANGES = {"quarter": (1, 4), "month": (1, 12), "iso_week": (1, 53)}


def check_derivations(draft: Draft) -> None:
    """Check where every column comes from; run it once the domains are known."""
    for name, column in draft.columns.items():
        if column is not None:
            path: Path = ("columns", name)
            _check_ways(draft, path, column)
            domain = draft.domains.get(name)
            if column.map is not None:
                _check_map(draft, path, column, domain)
            if column.date is not None:
                _check_date(draft, path, column)
                if domain is not None and column.map is None and column.cases is None:
                    _check_made(draft, path, column.date, domain)
            if column.cases is not None:
                _check_cases(draft, path, column, domain)


def _check_ways(draft: Draft, path: Path, column: Column) -> None:
    ways = [way for way in _WAYS if getattr(column, way) is not None]
    if len(ways) > 1:
        draft.add(path, f"the column is made by {listed(ways)}", "keep one of them")
    if column.cases is not None and column.source_column is not None:
        draft.add((*path, "from"), "cases are made from declared columns", "remove from, or cases")
    if column.otherwise is not None and column.cases is None:
        draft.add((*path, "else"), "there are no cases", "add cases, or remove else")


def _check_map(draft: Draft, path: Path, column: Column, domain: Domain | None) -> None:
    pairs = column.map or {}
    if not pairs:
        draft.add((*path, "map"), "is empty", "write at least one `value: code`")
    field, files = draft.files_of(column.source_column or str(path[-1]))
    nulls = files.nulls if files is not None and files.file_format == "csv" else ()
    for value, code in pairs.items():
        if value in nulls:
            what = f"{quoted(value)} is null in the source, so nobody can have it"
            hint = f"send nulls to other, or take it out of {field}.nulls"
            draft.add((*path, "map", value), what, hint)
        elif domain is not None:
            _check_code(draft, (*path, "map", value), code, domain)


def _check_code(draft: Draft, path: Path, code: str, domain: Domain) -> None:
    if isinstance(domain, NumberDomain):
        digits = domain.digits or 0
        written = re.fullmatch(r"-?[0-9]{1,18}" + (rf"(\.[0-9]{{1,{digits}}})?" if digits else ""), code)
        if written is None or not domain.edges[0] <= domain.step(Decimal(code)) < domain.edges[-1]:
            kind = "whole number" if domain.digits is None else f"number with at most {digits} digits"
            draft.add(path, f"{quoted(code)} is no number of the range", f"write a {kind} inside it")
    elif code not in domain.codes:
        draft.add(path, f"{quoted(code)} is not one of the codes", choose(code, domain.codes, "codes"))


def _check_date(draft: Draft, path: Path, column: Column) -> None:
    assert column.date is not None  # noqa: S101 - the caller has looked
    at, zone, path = column.date.at, column.date.zone, (*path, "date")
    if zone is not None and zone not in (names := zone_names()):
        near = choose(zone, names, "zones") if nearest(zone, names) else "write a name such as Europe/Rome"
        draft.add((*path, "zone"), f"there is no time zone {quoted(zone)}", near)
    if column.date.part == "age" and at is None:
        draft.add(path, "`at` is missing", 'write the date at which the age is meant: at: "2026-12-31"')
    elif column.date.part != "age" and at is not None:
        draft.add((*path, "at"), "only an age is at a date", "remove it, or write part: age")
    elif at is not None:
        try:
            read = date.fromisoformat(at)
        except ValueError:
            read = None
        if read is None or read.isoformat() != at:
            draft.add((*path, "at"), f"{quoted(at)} is no date", 'write it as "2026-12-31"')


def _check_made(draft: Draft, path: Path, wanted: DatePart, domain: Domain) -> None:
    """See that every code of a part of a date is a number that is made, written as it is made."""
    first, last = _RANGES.get(wanted.part, (None, None))
    said = f"of a {wanted.part} there are {first} to {last}"
    if isinstance(domain, NumberDomain):
        if domain.digits is not None:
            draft.add((*path, "integer"), "a part of a date is a whole number", "write whole numbers")
            return
        for key, end, made in (("from", domain.edges[0], first), ("to", domain.edges[-1] - 1, last)):
            if first is not None and last is not None and not first <= end <= last:
                draft.add((*path, "integer", key), f"{end} is never made: {said}", f"write {made}")
        return
    key = "hierarchy" if isinstance(domain, HierarchyDomain) else "categories"
    for code in domain.codes:
        if code == domain.other:
            continue
        number = int(code) if re.fullmatch("-?[0-9]{1,9}", code) else None
        if number is None or (first is not None and last is not None and not first <= number <= last):
            what = said if first is not None else "it is no whole number"
            draft.add((*path, key), f"{quoted(code)} is never made: {what}", "remove the code")
        elif code != str(number):
            draft.add((*path, key), f"{quoted(code)} is never made", f"write {quoted(str(number))}")


def _check_cases(draft: Draft, path: Path, column: Column, domain: Domain | None) -> None:
    if isinstance(domain, NumberDomain):
        draft.add((*path, "integer"), "cases give codes, not numbers", "write categories")
        return
    # Of what does not read, or is made by cases itself, no case can be made.
    known = {
        name: draft.domains[name]
        for name, other in draft.columns.items()
        if name in draft.domains and other is not None and other.cases is None
    }
    readable = all(
        other is not None and (other.cases or name in known) for name, other in draft.columns.items()
    )
    for place, case in enumerate(column.cases or ()):
        here = (*path, "cases", place)
        if domain is not None:
            _check_code(draft, (*here, "then"), case.then, domain)
        try:
            universe = universe_of(case.when, known)
        except InputError as error:
            if readable and not _tests_cases(draft, (*here, "when"), case.when):
                at = error.where.removeprefix("query").removeprefix(", ")
                draft.add((*here, "when"), f"{at}: {error.what}" if at else error.what, error.hint)
            continue
        if not all(mask.any() for name in universe.about for mask in universe.masks(name)):
            draft.add((*here, "when"), "no record can pass these tests", "mend them, or remove the case")
    if not column.cases:
        draft.add((*path, "cases"), "is empty", "write at least one `{when: …, then: …}`")
    if column.otherwise is not None and domain is not None:
        _check_code(draft, (*path, "else"), column.otherwise, domain)


def _tests_cases(draft: Draft, path: Path, when: str) -> bool:
    """Whether a case reads, but for a column that is made by cases itself, which is said then."""
    try:
        about = universe_of(when, draft.domains).about
    except InputError:
        return False
    made = [name for name in about if (column := draft.columns.get(name)) is not None and column.cases]
    hint = "test the columns that it is made of"
    draft.add(path, f"{listed(made)} is made by cases itself", hint)
    return True
