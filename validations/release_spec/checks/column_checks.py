"""Columns: each has one public domain, in order and of a size that can be counted, and one origin."""

from __future__ import annotations

import math
import re
from datetime import date
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from pathlib import Path as FilePath

import numpy as np

from tabularium.mechanisms.errors import InputError
from tabularium.validations.derivation import zone_names
from tabularium.validations.domains.code_lists import CodeList, divided, published_name, read_code_list
from tabularium.validations.domains.domains import CategoryDomain, Domain, HierarchyDomain, NumberDomain
from tabularium.validations.release_spec.columns import (
    CategoryColumn,
    Column,
    DatePart,
    HierarchyColumn,
    NumberColumn,
)
from tabularium.validations.release_spec.kinds import IntegerRange
from tabularium.validations.release_spec.partial_spec import PartialSpec
from tabularium.validations.release_spec.problems import Path, Problem, choose, listed, nearest, quoted, shown
from tabularium.validations.release_spec.scalars import DIGITS
from tabularium.validations.release_spec.source import Files
from tabularium.validations.universes.universe import universe_of

AXIS_LIMIT = 5_000_000  # cells along one axis, each with a label in memory
AXES_LIMIT = 2 * AXIS_LIMIT  # cells along all axes, whether a table has them or not
_Lists = dict[tuple[FilePath, bool], tuple[CodeList | None, list[Problem]]]
"""Code lists by file, and whether they are flat, with what is wrong with them."""


def check_columns(partial: PartialSpec, folder: FilePath) -> None:
    """Check every column and build the domains of those that are in order.

    Code lists are read, relative to ``folder``. No data is opened.
    """
    _same_but_for_case(partial)
    lists: _Lists = {}
    room = AXES_LIMIT
    for name, column in partial.columns.items():
        path: Path = ("columns", name)
        if column is None:
            written = partial.document.data["columns"][name]
            file = written.get("hierarchy") if isinstance(written, dict) else None
            if isinstance(file, str):  # say at once what is wrong inside the code list
                _code_list(partial, (*path, "hierarchy"), folder / file, lists)
            continue
        before = partial.count()
        _check_treatment(partial, path, column)
        good, tree = False, None
        if isinstance(column, NumberColumn):
            _check_range(partial, (*path, "integer"), column.integer)
            good = partial.count() == before
        elif isinstance(column, HierarchyColumn):
            tree = _code_list(partial, (*path, "hierarchy"), folder / column.hierarchy, lists)
            good = tree is not None and _check_levels(partial, path, column.levels, tree)
        elif isinstance(column.categories, str):
            tree = _code_list(partial, (*path, "categories"), folder / column.categories, lists)
            good = tree is not None and _check_flat(partial, path, column.categories, tree)
        else:
            good = _check_categories(partial, path, column.categories)
        if good:
            room -= _cells(column, tree)
            if room < 0:
                what = f"with this column, all have more than {AXES_LIMIT} cells together"
                partial.add(path, what, "take out columns that no table needs, or write coarser ones")
                return
        domain = _domain(name, column, tree) if good else None
        if domain is not None:
            _check_other(partial, path, column, domain)
            if not column.is_made:
                _check_null_codes(partial, path, column, domain)
        if domain is not None and partial.count() == before:
            partial.domains[name] = domain


def _same_but_for_case(partial: PartialSpec) -> None:
    first: dict[str, str] = {}
    for name in partial.columns:
        other = first.setdefault(name.casefold(), name)
        if other != name:
            what = f"differs from the column {quoted(other)} by capital letters only"
            partial.add(("columns", name), what, "keep the one that the source has")


def _check_treatment(partial: PartialSpec, path: Path, column: Column) -> None:
    used = [kind for kind in ("nulls", "invalid") if getattr(column, kind) == "other"]
    if used and column.other is None:
        where = "the label of an extra cell" if isinstance(column, NumberColumn) else "one of the codes"
        partial.add((*path, used[0]), "goes to `other`, which is not named", f"add other: with {where}")
    if column.other is not None and not used:
        partial.add(
            (*path, "other"), "nothing goes there", "add nulls: other or invalid: other, or remove other"
        )


def _check_range(partial: PartialSpec, path: Path, span: IntegerRange) -> None:
    if span.start > span.end:
        partial.add((*path, "from"), "is above `to`", "write the smallest value here")
        return
    if span.edges is not None and span.width is not None:
        partial.add((*path, "width"), "there are edges too", "keep edges or width")
        return
    edges = span.edges or ()
    for index, edge in enumerate(edges):
        if index and edge <= edges[index - 1]:
            partial.add(
                (*path, "edges", index),
                "is not above the edge before it",
                "write the edges in ascending order",
            )
        elif not span.start < edge <= span.end:
            hint = "an edge is the first value of a bin after the first: above `from`, at most `to`"
            partial.add((*path, "edges", index), "lies outside the range", hint)
    if span.digits is not None:
        _check_decimals(partial, path, span)
    bins = _bins(span)
    if bins > AXIS_LIMIT:
        partial.add(
            path, f"the range has {bins} bins, more than {AXIS_LIMIT}", "write a larger width, or edges"
        )
    elif span.labels is not None and len(span.labels) != bins:
        what = f"{len(span.labels)} labels for {bins} bins"
        partial.add((*path, "labels"), what, "write one label per bin, or leave labels out")
    elif span.labels is not None and len(set(span.labels)) < bins:
        partial.add((*path, "labels"), "a label is here twice", "give every bin its own label")


def _check_decimals(partial: PartialSpec, path: Path, span: IntegerRange) -> None:
    if span.floor:
        partial.add((*path, "floor"), "the range has decimals", "remove it, or write whole numbers")
    largest = max(abs(Fraction(number)) for number in span.numbers) * 10 ** (span.digits or 0)
    if largest >= 10**DIGITS:
        what = f"its numbers have more than {DIGITS} digits together"
        partial.add(path, what, "write fewer digits after the point, or smaller numbers")


def _cells(column: Column, tree: CodeList | None) -> int:
    if tree is not None or isinstance(column, HierarchyColumn):
        return 0 if tree is None else len(tree.codes)
    return _bins(column.integer) if isinstance(column, NumberColumn) else len(column.categories)


def _bins(span: IntegerRange) -> int:
    if span.edges is not None:
        return len(span.edges) + 1
    length = Fraction(span.end) - Fraction(span.start) + (span.digits is None)
    return max(math.ceil(length / Fraction(span.width or 1)), 1)


def _check_categories(partial: PartialSpec, path: Path, codes: dict[str, str]) -> bool:
    if not codes:
        partial.add((*path, "categories"), "is empty", "write at least one code")
    return 0 < len(codes) <= AXIS_LIMIT


def _check_flat(partial: PartialSpec, path: Path, name: str, tree: CodeList) -> bool:
    if tree.levels > 1:
        what = f"the code list {quoted(published_name(name))} has parents"
        partial.add((*path, "categories"), what, "write hierarchy instead, with levels, or take them out")
    return tree.levels == 1


def _code_list(partial: PartialSpec, path: Path, file: FilePath, lists: _Lists) -> CodeList | None:
    """Read a code list once, however many columns use it; of categories it may have no parents."""
    flat = path[-1] == "categories"
    name = divided(file.name)[0]
    try:
        there = file.with_name(name).is_file()
    except (OSError, ValueError):
        there = False
    if not there:
        partial.add(
            path,
            f"there is no code list {quoted(name)}",
            "check the path, which is relative to the spec file",
        )
        return None
    if (file, flat) not in lists:
        lists[file, flat] = read_code_list(file, partial.language, flat=flat)
        partial.document.problems.extend(lists[file, flat][1])
    tree = lists[file, flat][0]
    if tree is None:
        return None
    name = published_name(file.name)
    if partial.public_files.setdefault(name, tree.digest) != tree.digest:
        what = f"another code list is called {quoted(name)} too"
        partial.add(path, what, "rename one: they are published side by side")
    return tree


def _check_levels(partial: PartialSpec, path: Path, levels: tuple[str, ...], tree: CodeList) -> bool:
    path = (*path, "levels")
    if len(set(levels)) < len(levels):
        partial.add(path, "a level is named twice", "give every level its own name")
    if levels and len(levels) != tree.levels:
        what = f"names {_many(len(levels), 'level')}, and the code list has {tree.levels}"
        partial.add(path, what, "name every level of the code list, root first")
        return False
    return bool(levels)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _check_other(partial: PartialSpec, path: Path, column: Column, domain: Domain) -> None:
    if column.other is None:
        return
    path = (*path, "other")
    if isinstance(domain, NumberDomain):
        if column.other in domain.labels[: domain.bins]:
            partial.add(path, f"{quoted(column.other)} is the label of a bin", "write another label")
    elif column.other not in domain.codes:
        inner = isinstance(domain, HierarchyDomain) and column.other in domain.node_codes
        what = (
            f"{quoted(column.other)} is not a leaf"
            if inner
            else f"{quoted(column.other)} is not one of the codes"
        )
        hint = "name a code that has no children" if inner else choose(column.other, domain.codes, "codes")
        partial.add(path, what, hint)


def _check_null_codes(partial: PartialSpec, path: Path, column: Column, domain: Domain) -> None:
    """Find codes that a CSV reader would turn into null before anyone sees them."""
    field, source = partial.files_of(column.source_column or str(path[-1]))
    if not isinstance(source, Files) or source.file_format == "parquet" or isinstance(domain, NumberDomain):
        return
    for code in set(source.nulls).intersection(domain.codes):
        if domain.nulls == "other" and domain.other == code:
            continue
        kind = "hierarchy" if isinstance(domain, HierarchyDomain) else "categories"
        hint = f'add nulls: other and other: "{shown(code)}", or take it out of {field}.nulls'
        partial.add(
            (*path, kind), f"the code {quoted(code)} is null in the source, so nobody can have it", hint
        )


def _domain(name: str, column: Column, tree: CodeList | None) -> Domain:
    """Return the domain of a column that is in order."""
    rest = column.nulls, column.invalid, column.other
    if tree is not None and isinstance(column, CategoryColumn):
        return CategoryDomain(name, tree.codes, tree.labels, *rest, tree.languages)
    if tree is not None and isinstance(column, HierarchyColumn):
        parents, depth = np.asarray(tree.parents, np.int64), np.asarray(tree.depth, np.int64)
        levels = column.levels
        return HierarchyDomain(name, tree.codes, tree.labels, parents, depth, levels, *rest, tree.languages)
    if isinstance(column, CategoryColumn) and isinstance(column.categories, dict):
        return CategoryDomain(name, tuple(column.categories), tuple(column.categories.values()), *rest)
    assert isinstance(column, NumberColumn)  # noqa: S101 - no other is without its code list
    span = column.integer
    scale = 1 if span.digits is None else 2 * 10**span.digits
    start, end, width = (int(Fraction(bound) * scale) for bound in (span.start, span.end, span.width or 1))
    past = end + 1 if span.digits is None else end  # where no bin begins
    inner = range(start + width, past, width) if span.edges is None else [int(e * scale) for e in span.edges]
    edges = (start, *inner, end + 1)
    if span.digits is None:
        made = tuple(_bin_label(a, b - 1) for a, b in pairwise(edges))
    else:
        made = tuple(_decimal_label(a, b, scale) for a, b in pairwise(edges[:-1]))
        made = (*made, _decimal_label(edges[-2], end, scale, closed=True))
    labels = span.labels or made
    if column.other is not None:
        labels = (*labels, column.other)
    return NumberDomain(name, edges, labels, *rest, span.digits, span.floor)


def _decimal_label(first: int, end: int, scale: int, *, closed: bool = False) -> str:
    """Return the label of a bin of decimals, which says if its end belongs to it."""
    low, high = (f"{(Decimal(step) / scale).normalize():f}" for step in (first, end))
    if closed:
        return low if first == end else f"{low} to {high}"
    return f"{low} to under {high}"


def _bin_label(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first}-{last}" if first >= 0 else f"{first} to {last}"


_WAYS = ("map", "date", "cases")
_RANGES = {"quarter": (1, 4), "month": (1, 12), "iso_week": (1, 53)}


def check_derivations(partial: PartialSpec) -> None:
    """Check where every column comes from; run it once the domains are known."""
    for name, column in partial.columns.items():
        if column is not None:
            path: Path = ("columns", name)
            _check_ways(partial, path, column)
            domain = partial.domains.get(name)
            if column.map is not None:
                _check_map(partial, path, column, domain)
            if column.date is not None:
                _check_date(partial, path, column)
                if domain is not None and column.map is None and column.cases is None:
                    _check_made(partial, path, column.date, domain)
            if column.cases is not None:
                _check_cases(partial, path, column, domain)


def _check_ways(partial: PartialSpec, path: Path, column: Column) -> None:
    ways = [way for way in _WAYS if getattr(column, way) is not None]
    if len(ways) > 1:
        partial.add(path, f"the column is made by {listed(ways)}", "keep one of them")
    if column.cases is not None and column.source_column is not None:
        partial.add((*path, "from"), "cases are made from declared columns", "remove from, or cases")
    if column.otherwise is not None and column.cases is None:
        partial.add((*path, "else"), "there are no cases", "add cases, or remove else")


def _check_map(partial: PartialSpec, path: Path, column: Column, domain: Domain | None) -> None:
    pairs = column.map or {}
    if not pairs:
        partial.add((*path, "map"), "is empty", "write at least one `value: code`")
    field, files = partial.files_of(column.source_column or str(path[-1]))
    nulls = files.nulls if isinstance(files, Files) and files.file_format == "csv" else ()
    for value, code in pairs.items():
        if value in nulls:
            what = f"{quoted(value)} is null in the source, so nobody can have it"
            hint = f"send nulls to other, or take it out of {field}.nulls"
            partial.add((*path, "map", value), what, hint)
        elif domain is not None:
            _check_code(partial, (*path, "map", value), code, domain)


def _check_code(partial: PartialSpec, path: Path, code: str, domain: Domain) -> None:
    if isinstance(domain, NumberDomain):
        digits = domain.digits or 0
        written = re.fullmatch(r"-?[0-9]{1,18}" + (rf"(\.[0-9]{{1,{digits}}})?" if digits else ""), code)
        if written is None or not domain.edges[0] <= domain.step(Decimal(code)) < domain.edges[-1]:
            kind = "whole number" if domain.digits is None else f"number with at most {digits} digits"
            partial.add(path, f"{quoted(code)} is no number of the range", f"write a {kind} inside it")
    elif code not in domain.codes:
        partial.add(path, f"{quoted(code)} is not one of the codes", choose(code, domain.codes, "codes"))


def _check_date(partial: PartialSpec, path: Path, column: Column) -> None:
    assert column.date is not None  # noqa: S101 - the caller has looked
    at, zone, path = column.date.at, column.date.zone, (*path, "date")
    if zone is not None and zone not in (names := zone_names()):
        near = choose(zone, names, "zones") if nearest(zone, names) else "write a name such as Europe/Rome"
        partial.add((*path, "zone"), f"there is no time zone {quoted(zone)}", near)
    if column.date.part == "age" and at is None:
        partial.add(path, "`at` is missing", 'write the date at which the age is meant: at: "2026-12-31"')
    elif column.date.part != "age" and at is not None:
        partial.add((*path, "at"), "only an age is at a date", "remove it, or write part: age")
    elif at is not None:
        try:
            read = date.fromisoformat(at)
        except ValueError:
            read = None
        if read is None or read.isoformat() != at:
            partial.add((*path, "at"), f"{quoted(at)} is no date", 'write it as "2026-12-31"')


def _check_made(partial: PartialSpec, path: Path, wanted: DatePart, domain: Domain) -> None:
    """See that every code of a part of a date is a number that is made, written as it is made."""
    first, last = _RANGES.get(wanted.part, (None, None))
    message = f"of a {wanted.part} there are {first} to {last}"
    if isinstance(domain, NumberDomain):
        if domain.digits is not None:
            partial.add((*path, "integer"), "a part of a date is a whole number", "write whole numbers")
            return
        for key, end, made in (("from", domain.edges[0], first), ("to", domain.edges[-1] - 1, last)):
            if first is not None and last is not None and not first <= end <= last:
                partial.add((*path, "integer", key), f"{end} is never made: {message}", f"write {made}")
        return
    key = "hierarchy" if isinstance(domain, HierarchyDomain) else "categories"
    for code in domain.codes:
        if code == domain.other:
            continue
        number = int(code) if re.fullmatch("-?[0-9]{1,9}", code) else None
        if number is None or (first is not None and last is not None and not first <= number <= last):
            what = message if first is not None else "it is no whole number"
            partial.add((*path, key), f"{quoted(code)} is never made: {what}", "remove the code")
        elif code != str(number):
            partial.add((*path, key), f"{quoted(code)} is never made", f"write {quoted(str(number))}")


def _check_cases(partial: PartialSpec, path: Path, column: Column, domain: Domain | None) -> None:
    if isinstance(domain, NumberDomain):
        partial.add((*path, "integer"), "cases give codes, not numbers", "write categories")
        return
    # No case can be made of a column that does not read, or is made by cases itself.
    known = {
        name: partial.domains[name]
        for name, other in partial.columns.items()
        if name in partial.domains and other is not None and other.cases is None
    }
    readable = all(
        other is not None and (other.cases or name in known) for name, other in partial.columns.items()
    )
    for index, case in enumerate(column.cases or ()):
        here = (*path, "cases", index)
        if domain is not None:
            _check_code(partial, (*here, "then"), case.then, domain)
        try:
            universe = universe_of(case.when, known)
        except InputError as error:
            if readable and not _tests_cases(partial, (*here, "when"), case.when):
                at = error.where.removeprefix("query").removeprefix(", ")
                partial.add((*here, "when"), f"{at}: {error.what}" if at else error.what, error.hint)
            continue
        if not all(mask.any() for name in universe.about for mask in universe.masks(name)):
            partial.add((*here, "when"), "no record can pass these tests", "correct them, or remove the case")
    if not column.cases:
        partial.add((*path, "cases"), "is empty", "write at least one `{when: …, then: …}`")
    if column.otherwise is not None and domain is not None:
        _check_code(partial, (*path, "else"), column.otherwise, domain)


def _tests_cases(partial: PartialSpec, path: Path, when: str) -> bool:
    """Whether a case reads, but for a column that is made by cases itself, which is reported then."""
    try:
        about = universe_of(when, partial.domains).about
    except InputError:
        return False
    made = [name for name in about if (column := partial.columns.get(name)) is not None and column.cases]
    hint = "test the columns that it is made of"
    partial.add(path, f"{listed(made)} is made by cases itself", hint)
    return True
