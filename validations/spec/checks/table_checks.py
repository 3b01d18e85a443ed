"""Tables: known dimensions, shares that add to exactly one, levels, mechanisms, sizes that can be counted."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction

from tabularium.mechanisms.accounting import Definition
from tabularium.validations.domains.domains import Domain, HierarchyDomain
from tabularium.validations.domains.levels import cut, nodes_to
from tabularium.validations.spec.checks.measure_checks import check_measures
from tabularium.validations.spec.checks.mechanism_checks import (
    MARGIN_SHARE,
    Shape,
    check_dry_run,
    check_mechanism,
    default_mechanism,
    error_source,
)
from tabularium.validations.spec.draft import Draft
from tabularium.validations.spec.large_tables import fits, why_not
from tabularium.validations.spec.measures.array_owners import counts_of, in_order, with_shares
from tabularium.validations.spec.parts.table_parts import Table, TableEntry
from tabularium.validations.spec.problems import Path, choose, listed, quoted

DIMENSION_LIMIT = 16
OWN_COLUMNS = ("level", "count", "margin", "measured")  # columns that a published table has of its own
QUALITY = "quality"  # and with quality rules


def check_tables(draft: Draft) -> None:
    """Check the tables that could be read, each by itself and all together."""
    definition = draft.privacy.definition if draft.privacy is not None else None
    for place, table in draft.tables:
        path: Path = ("tables", place)
        before = draft.count()
        _check_dimensions(draft, path, table)
        _check_levels(draft, path, table)
        _check_regions(draft, path, table)
        check_mechanism(draft, path, table, definition)
        check_measures(draft, path, table)
        if draft.count() == before:
            _check_size(draft, path, table)
        if draft.count() == before and definition is not None:
            _check_dry_run(draft, path, table, definition)
    _check_shares(draft)


def _check_shares(draft: Draft) -> None:
    written = draft.document.data.get("tables")
    unread = [place for place, _ in draft.tables if not draft.reads(("tables", place, "share"))]
    if not draft.tables or len(draft.tables) < len(written) or unread:
        return  # a share that does not read may be the one that is missing
    shares = [table.share for _, table in draft.tables if table.share is not None]
    if shares and len(shares) < len(draft.tables):
        for place, table in draft.tables:
            if table.share is None:
                hint = "give every table a share, or none for equal parts"
                draft.add(("tables", place), "`share` is missing, and other tables have one", hint)
    elif shares and sum(shares) != 1:
        what = f"the shares of the tables add to {sum(shares, Fraction())}"
        place = draft.tables[-1][0]
        draft.add(
            ("tables", place, "share"), what, "make them add to exactly 1, or leave all out for equal parts"
        )


def _check_dimensions(draft: Draft, path: Path, table: TableEntry) -> None:
    path = (*path, "dimensions")
    if not table.dimensions:
        draft.add(path, "is empty", "name at least one column")
    if len(table.dimensions) > DIMENSION_LIMIT:
        draft.add(path, f"more than {DIMENSION_LIMIT} dimensions", "cross fewer columns")
    draft.check_dimensions(path, table.dimensions)
    judged = draft.publication is not None and draft.publication.quality is not None
    own = {
        *OWN_COLUMNS,
        *([QUALITY] if judged else []),
        *(f"{name}_label".casefold() for name in table.dimensions),
    }
    for place, name in enumerate(table.dimensions):
        if name in draft.columns and name not in table.dimensions[:place] and name.casefold() in own:
            what = f"a published table has a column {quoted(name)} of its own"
            draft.add((*path, place), what, "rename the column in the source")


def _check_levels(draft: Draft, path: Path, table: TableEntry) -> None:
    if any(name not in draft.columns or draft.columns[name] is None for name in table.dimensions):
        return  # what does not read may be the hierarchy
    trees = hierarchies(draft, table)
    along = table.along
    if along is not None and along not in table.dimensions:
        hint = choose(along, table.dimensions, "dimensions")
        draft.add((*path, "along"), f"{quoted(along)} is not a dimension of this table", hint)
        return
    if along is not None and along not in trees:
        draft.add((*path, "along"), f"{quoted(along)} is not a hierarchy", _name_one(trees))
        return
    along = along if along is not None else next(iter(trees), None)
    if table.levels is None:
        return
    path = (*path, "levels")
    if along is None:
        draft.add(path, "no dimension of this table is a hierarchy", "remove levels")
        return
    if not table.levels:
        draft.add(path, "is empty", "remove it to measure the leaf level only")
        return
    column = draft.columns[along]
    known = column.levels if column is not None else None
    for level in table.levels if known is not None else ():
        if level not in (known or ()):
            what = f"{quoted(along)} has no level {quoted(level)}"
            draft.add((*path, level), what, choose(level, known or (), "levels"))
    total = sum(table.levels.values(), Fraction())
    if total != 1:
        draft.add(path, f"the shares of the levels add to {total}", "make them add to exactly 1")


def _check_regions(draft: Draft, path: Path, table: TableEntry) -> None:
    """Check that what a table is measured per is one of its dimensions, and not the only one."""
    if table.per is None or not draft.reads((*path, "per")):
        return
    if table.per not in table.dimensions:
        what = f"{quoted(table.per)} is not a dimension of this table"
        draft.add((*path, "per"), what, choose(table.per, table.dimensions, "dimensions"))
    elif len(table.dimensions) == 1:
        what = f"each place of {quoted(table.per)} has one cell only"
        draft.add((*path, "per"), what, "cross it with another dimension, or remove per")


def _name_one(names: Iterable[str]) -> str:
    known = list(names)
    return (
        f"name one of {listed(known)}" if known else "remove along: no dimension of this table is a hierarchy"
    )


def hierarchies(draft: Draft, table: TableEntry) -> list[str]:
    """Return the dimensions of ``table`` that are declared as hierarchies, in order."""
    columns = [(name, draft.columns.get(name)) for name in table.dimensions]
    return [name for name, column in columns if column is not None and column.hierarchy is not None]


def _check_size(draft: Draft, path: Path, table: TableEntry) -> None:
    if any(name not in draft.domains for name in table.dimensions) or not draft.reads((*path, "levels")):
        return
    filled = _with_levels(table, draft.domains, Fraction(1), "pure")
    cells = table_cells(filled, draft.domains)
    reason = why_not(draft, filled, cells) if not fits(cells) else None
    if reason is not None:
        sizes = " × ".join(str(draft.domains[name].size) for name in table.dimensions)
        what = f"{cells} cells over the measured levels ({sizes} at the leaves) are too many: {reason}"
        draft.add(
            (*path, "dimensions"),
            what,
            "change that, or use coarser bins, fewer dimensions, or several smaller tables",
        )


def _check_dry_run(draft: Draft, path: Path, table: TableEntry, definition: Definition) -> None:
    """Ask the mechanism itself, once the shapes of the table are known."""
    keys = ("dimensions", "levels", "along", "mechanism", "parameters", "per", "margin_share")
    if any(name not in draft.domains for name in table.dimensions):
        return
    if all(draft.reads((*path, key)) for key in keys):
        filled = _with_levels(table, draft.domains, Fraction(1), definition)
        check_dry_run(draft, path, counts_of(filled), level_shapes(filled, draft.domains), definition)


def fill_in(
    table: TableEntry, domains: dict[str, Domain], share: Fraction, definition: Definition = "pure"
) -> Table:
    """Return the table with its share, its mechanism, its levels from the root down, and its margin share.

    Without ``levels`` the deepest level has the whole share of the table.
    """
    filled = _with_levels(table, domains, share, definition)
    counts = counts_of(filled)
    source = error_source(counts.mechanism, counts.parameters, definition, level_shapes(filled, domains))
    if source != "none" or filled.margin_share is not None:
        return filled
    return filled.model_copy(update={"margin_share": MARGIN_SHARE})


def _with_levels(
    table: TableEntry, domains: dict[str, Domain], share: Fraction, definition: Definition
) -> Table:
    along = along_of(table, domains)
    levels: dict[str, Fraction] = {}
    if along is not None:
        written = table.levels or {along.levels[-1]: Fraction(1)}
        levels = {name: written[name] for name in along.levels if name in written}
    return Table(
        name=table.name,
        title=table.title,
        dimensions=table.dimensions,
        where=table.where,
        size=table.size,
        share=table.share if table.share is not None else share,
        levels=levels,
        along=None if along is None else along.name,
        mechanism=table.mechanism or default_mechanism(definition),
        parameters=table.parameters,
        per=table.per,
        margin_share=table.margin_share,
        prior=table.prior,
        measures={
            name: in_order(
                measure, {each: domains[each].codes for each in table.dimensions if each in domains}
            )
            for name, measure in with_shares(table.measures).items()
        },
    )


def along_of(table: TableEntry, domains: dict[str, Domain]) -> HierarchyDomain | None:
    """Return the dimension that has the levels: the hierarchy that is named, or else the first one."""
    named = (domains.get(name) for name in table.dimensions if table.along in (None, name))
    return next((domain for domain in named if isinstance(domain, HierarchyDomain)), None)


def level_shapes(table: Table, domains: dict[str, Domain]) -> dict[str, Shape]:
    """Return the shape in which each measured level is counted; of ``""`` without a hierarchy."""
    parts = () if table.measured is None or table.measured.part_domain is None else (table.measured.parts,)
    crossed = table.dimensions[: len(table.dimensions) - len(parts)]
    others = (*(domains[name].size for name in crossed if name != table.along), *parts)
    along = along_of(table, domains) if table.along is not None else None
    if along is None:
        return {"": others}
    return {level: (len(cut(along, level)), *others) for level in table.levels}


def level_cells(table: Table, domains: dict[str, Domain]) -> dict[str, int]:
    """Return the number of cells of each measured level; of ``""`` for a table without a hierarchy."""
    return {level: math.prod(shape) for level, shape in level_shapes(table, domains).items()}


def table_rows(table: TableEntry, domains: dict[str, Domain], *, added_up: bool) -> int:
    """Return the rows of a published table: its cells at every node down to the deepest measured level.

    Where levels are not made to add up (``added_up``), only those that were measured are published.
    """
    filled = _with_levels(table, domains, Fraction(1), "pure")
    along = domains[filled.along] if filled.along is not None else None
    if not isinstance(along, HierarchyDomain) or not added_up:
        return table_cells(filled, domains)
    nodes = max(nodes_to(along, level) for level in filled.levels)
    return nodes * math.prod(domains[name].size for name in table.dimensions if name != filled.along)


def table_cells(table: Table, domains: dict[str, Domain]) -> int:
    """Return the number of cells of a table over all its measured levels."""
    return sum(level_cells(table, domains).values())
