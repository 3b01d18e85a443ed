"""Impossible cells: known values, records that end in no other such cell, tables that are left with some."""

from __future__ import annotations

from collections.abc import Sequence

from tabularium.validations.derivation.derived_columns import source_column
from tabularium.validations.domains.domains import Domain, HierarchyDomain
from tabularium.validations.spec.draft import Draft
from tabularium.validations.spec.measures.array_owners import split
from tabularium.validations.spec.model import ReleaseSpec
from tabularium.validations.spec.parts.impossible_part import Impossible
from tabularium.validations.spec.problems import Path, choose, listed, quoted
from tabularium.validations.universes.impossible_cells import impossible_cells, impossible_in, values_of
from tabularium.validations.universes.universe import CELL_BY_CELL


def check_impossible(draft: Draft) -> None:
    """Check the facts that could be read; run it once the domains and the invariants are known."""
    before = draft.count()
    for place, fact in draft.impossible:
        path: Path = ("impossible", place)
        own = draft.count()
        if not fact.cells:
            draft.add((*path, "cells"), "is empty", "write `column: [values]`, as age: [0-14]")
        for name, values in fact.cells.items():
            _check_values(draft, (*path, "cells", name), name, values)
        if draft.count() == own and all(name in draft.domains for name in fact.cells):
            if all(values_of(draft.domains[name], values).all() for name, values in fact.cells.items()):
                draft.add((*path, "cells"), "names every value of its columns", "leave the possible ones out")
            _check_records(draft, (*path, "records"), fact)
    known = {name for _, fact in draft.impossible for name in fact.cells} <= draft.domains.keys()
    if draft.count() == before and known:
        _check_ends(draft)
        _check_invariants(draft)


def _check_values(draft: Draft, path: Path, name: str, values: Sequence[str]) -> None:
    if name not in draft.columns:
        draft.add(
            path,
            f"there is no column {quoted(name)} under `columns`",
            choose(name, draft.columns, "declared columns"),
        )
        return
    if not values:
        draft.add(path, "is empty", "name at least one value")
    domain = draft.domains.get(name)
    known = () if domain is None else _codes(domain)
    for place, value in enumerate(values):
        if value in values[:place]:
            draft.add((*path, place), f"{quoted(value)} is here twice", "name every value once")
        elif domain is not None and value not in known:
            kind = "nodes" if isinstance(domain, HierarchyDomain) else "values"
            draft.add(
                (*path, place),
                f"{quoted(value)} is no value of {quoted(name)}",
                choose(value, known, kind),
            )


def _codes(domain: Domain) -> Sequence[str]:
    return domain.node_codes if isinstance(domain, HierarchyDomain) else domain.codes


def _check_records(draft: Draft, path: Path, fact: Impossible) -> None:
    """Check where records are counted instead: under another value of one of the columns."""
    if isinstance(fact.records, str):
        return
    if len(fact.records) != 1:
        draft.add(path, "is not one `column: code`", "change one column, or write reject")
        return
    ((name, code),) = fact.records.items()
    path = (*path, name)
    if name not in fact.cells:
        draft.add(path, "is none of the columns under `cells`", choose(name, fact.cells, "columns"))
        return
    domain = draft.domains[name]
    if code not in domain.codes:
        draft.add(path, f"{quoted(code)} is no cell of {quoted(name)}", choose(code, domain.codes, "cells"))
    elif values_of(domain, fact.cells[name])[domain.codes.index(code)]:
        draft.add(path, f"{quoted(code)} is one of the impossible values", "name another value, or reject")
    others = _other_codings(draft, name)
    if others:
        what = f"{listed(others)} would still say what it was: they are made from the same column"
        draft.add(path, what, "change another column, or write reject")


def _other_codings(draft: Draft, name: str) -> list[str]:
    """Return the other columns that are made from what a column is made from."""
    columns = {each: column for each, column in draft.columns.items() if column is not None}
    source = source_column(name, columns[name])
    made = [each for each, column in columns.items() if source_column(each, column) == source]
    return [each for each in made if each != name and source is not None]


def _check_ends(draft: Draft) -> None:
    """Check that no record is moved into the cells of a fact that was dealt with before.

    Facts are taken in their order, so that afterwards no record is in any of them.
    """
    for number, (place, fact) in enumerate(draft.impossible):
        moved = fact.moved_to
        if moved is None:
            continue
        ends = {name: tuple(values) for name, values in fact.cells.items()} | {moved[0]: (moved[1],)}
        for earlier, other in draft.impossible[:number]:
            shared = [name for name in other.cells if name in ends]
            # Without the column that is changed, it was in those cells before, and is no longer here.
            if moved[0] in shared and all(
                (values_of(draft.domains[n], ends[n]) & values_of(draft.domains[n], other.cells[n])).any()
                for n in shared
            ):
                what = f"a record may end in the cells of impossible[{earlier}], which come before"
                hint = "write this fact before that one, or reject its records"
                draft.add(("impossible", place, "records"), what, hint)


def _check_invariants(draft: Draft) -> None:
    columns = {name: column for name, column in draft.columns.items() if column is not None}
    facts = [
        {name: values_of(draft.domains[name], values) for name, values in fact.cells.items()}
        for _, fact in draft.impossible
    ]
    places = {invariant.name: place for place, invariant in draft.invariants}
    for known in draft.known if facts else ():
        along = None if known.along is None else draft.domains[known.along]
        assert along is None or isinstance(along, HierarchyDomain)  # noqa: S101 - the invariant's own check
        nodes = 1 if along is None else len(along.parents)
        found = impossible_cells(facts, columns, draft.domains, along, nodes, known.flat)
        if found is None:
            continue
        wrong = int((known.values[found if known.nodes is None else found[known.nodes]] > 0).sum())
        if wrong:
            what = f"holds {wrong} cell{'' if wrong == 1 else 's'} above zero that `impossible` says is empty"
            hint = "mend its numbers, or the values under impossible"
            draft.add(("invariants", places[known.name]), what, hint)


def check_impossible_cells(draft: Draft, spec: ReleaseSpec) -> None:
    """Check that every table with impossible cells can leave them out, and is left with others."""
    places = {table.name: place for place, table in enumerate(spec.tables)}
    for table in spec.tables if spec.impossible else ():
        found = impossible_in(spec, draft.domains, table)
        if found is None:
            continue
        path: Path = ("tables", places[table.name])
        if table.mechanism not in CELL_BY_CELL:
            what = f"{table.mechanism} measures the table as a whole, and some of its cells are impossible"
            draft.add((*path, "mechanism"), what, "choose identity, under zcdp gaussian")
        if found.all():
            draft.add((*path, "dimensions"), "every cell of the table is impossible", "leave the table out")
    _check_measures(draft, spec, places)


def _check_measures(draft: Draft, spec: ReleaseSpec, places: dict[str, int]) -> None:
    """Check that no array with cells that are not measured is measured as a whole, or noisy by group."""
    for table in spec.tables:
        chosen = [n for n, each in table.measures.items() if each.mechanism[0] not in CELL_BY_CELL]
        if chosen and impossible_in(spec, draft.domains, next(split(table))) is not None:
            what = "is chosen in every cell, and some cells of the table are exactly zero"
            path: Path = ("tables", places[table.name], "measures", chosen[0], "method")
            draft.add(path, what, "write tree, or take the measure to a table without such cells")
            continue
        for array in split(table):
            if array.parameters.get("by_group") and impossible_in(spec, draft.domains, array) is not None:
                what = "has bounds that differ by group, and some cells of the table are exactly zero"
                hint = "write one bound for all groups, or take the measure to a table without such cells"
                draft.add(("tables", places[table.name]), what, hint)
                break
