"""Public facts: invariants, figures under rates, universes and impossible cells, and what must fit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path as FilePath

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.errors import InputError
from tabularium.validations.derivation import source_column
from tabularium.validations.domains.domains import Domain, HierarchyDomain, nodes_to, positions
from tabularium.validations.domains.known_marginals import LARGEST, KnownMarginal, axes_of, read_numbers
from tabularium.validations.release_spec.checks.table_checks import along_of
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.partial_spec import PartialSpec
from tabularium.validations.release_spec.privacy import RowCountRule
from tabularium.validations.release_spec.problems import Path, choose, listed, quoted
from tabularium.validations.release_spec.tables import (
    PLAIN,
    Figures,
    Impossible,
    Invariant,
    TableEntry,
    split,
)
from tabularium.validations.universes.impossible_cells import impossible_cells, impossible_in, values_of
from tabularium.validations.universes.universe import CELL_BY_CELL, can_pass, universe_of


def check_invariants(partial: PartialSpec, folder: FilePath) -> None:
    """Check the invariants that could be read, and read their numbers, relative to ``folder``."""
    if partial.invariants and partial.postprocessing is not None and not partial.postprocessing.consistency:
        what = "needs consistency, by which tables come to show it, and consistency is off"
        partial.add(("invariants",), what, "leave consistency on, or remove invariants")
    places: list[int] = []
    for index, invariant in partial.invariants:
        path: Path = ("invariants", index)
        before = partial.count()
        _check_dimensions(partial, path, invariant)
        if partial.count() == before and all(name in partial.domains for name in invariant.dimensions):
            known = read_figures(partial, path, invariant, folder, _along(partial, invariant))
            if known is not None:
                partial.known.append(known)
                places.append(index)
    _check_contradictions(partial, places)


def _check_dimensions(partial: PartialSpec, path: Path, invariant: Invariant) -> None:
    path = (*path, "dimensions")
    partial.check_dimensions(path, invariant.dimensions)
    readable = all(partial.reads(("tables", index, "dimensions")) for index, _ in partial.tables)
    if partial.tables and readable and not _holders(partial, invariant):
        some = " without where" if any(table.where is not None for _, table in partial.tables) else ""
        partial.add(
            path, "no table has all of these dimensions", f"name dimensions that stand in one table{some}"
        )


def _holders(partial: PartialSpec, invariant: Invariant) -> list[TableEntry]:
    """Return the tables that show it: of all records, as it is itself."""
    return [
        table
        for _, table in partial.tables
        if set(invariant.dimensions) <= set(table.dimensions) and table.where is None
    ]


def _along(partial: PartialSpec, invariant: Invariant) -> HierarchyDomain | None:
    """Return the dimension that stands at a level: one along which a table with all dimensions has levels."""
    hierarchies = (along_of(table, partial.domains) for table in _holders(partial, invariant))
    return next(
        (along for along in hierarchies if along is not None and along.name in invariant.dimensions), None
    )


def read_figures(
    partial: PartialSpec,
    path: Path,
    invariant: Figures,
    folder: FilePath,
    along: HierarchyDomain | None,
) -> KnownMarginal | None:
    """Read the numbers of an invariant, or of other public figures; note what is wrong with them.

    ``along``: the dimension of it that stands at a level.
    """
    if invariant.level is not None:
        levels = along.levels if along is not None else ()
        if invariant.level not in levels:
            what = f"there is no level {quoted(invariant.level)} in its dimensions"
            hint = choose(invariant.level, levels, "levels") if levels else "remove level"
            partial.add((*path, "level"), what, hint)
            return None
    flat = tuple(
        partial.domains[name] for name in invariant.dimensions if along is None or name != along.name
    )
    values, nodes = _values(partial, path, invariant, folder, along, flat)
    if values is None:
        return None
    return KnownMarginal(
        name=invariant.name,
        reason=invariant.reason,
        along=None if along is None else along.name,
        level=None if along is None else (invariant.level or along.levels[-1]),
        flat=tuple(domain.name for domain in flat),
        nodes=nodes,
        values=values.reshape(1 if nodes is None else len(nodes), -1),
        file=invariant.values,
    )


def _values(
    partial: PartialSpec,
    path: Path,
    invariant: Figures,
    folder: FilePath,
    along: HierarchyDomain | None,
    flat: tuple[Domain, ...],
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    if (invariant.values is None) == (invariant.count is None):
        both = invariant.count is not None
        hint = "write count: for a total, values: with a file for everything else"
        partial.add(path, "has both `values` and `count`" if both else "needs `values` or `count`", hint)
        return None, None
    if invariant.count is not None:
        if invariant.dimensions:
            partial.add((*path, "count"), "one number for several cells", "write values: with a file")
            return None, None
        if invariant.count > LARGEST:
            partial.add((*path, "count"), "is above 2^40", "write a count of records")
            return None, None
        return np.array([invariant.count], np.int64), None
    assert invariant.values is not None  # noqa: S101 - one of the two is there
    if not invariant.dimensions:
        partial.add((*path, "values"), "a total is one number", "write count: instead")
        return None, None
    nodes, axes = axes_of(along, invariant.level, flat)
    file = folder / invariant.values
    values, digest, problems = read_numbers(file, axes)
    partial.document.problems.extend(problems)
    if values is not None and partial.public_files.setdefault(file.name, digest) != digest:
        what = f"another file of the spec is called {quoted(file.name)} too"
        partial.add((*path, "values"), what, "rename one: they are published side by side")
    return values, nodes


def _check_contradictions(partial: PartialSpec, places: list[int]) -> None:
    """Find pairs of invariants that disagree on what they share; the dry run finds the rest."""
    pairs = combinations(zip(places, partial.known, strict=True), 2)
    for (_, one), (index, other) in pairs:
        first, second = _shared(partial, one, other), _shared(partial, other, one)
        if not np.array_equal(first, second):
            what = f"contradicts the invariant {quoted(one.name)} where they overlap"
            partial.add(("invariants", index), what, "take both from one publication, or remove one")


def _shared(partial: PartialSpec, known: KnownMarginal, other: KnownMarginal) -> NDArray[np.int64]:
    """Return the sums of an invariant over everything that another one does not have.

    A hierarchy that both have stands at the level nearer to the root.
    """
    names = [*([known.along] if known.along else []), *known.flat]
    shape = [len(known.values)] * (known.along is not None) + [partial.domains[n].size for n in known.flat]
    table = known.values.reshape(shape)
    for axis, name in reversed(list(enumerate(names))):
        domain = partial.domains[name]
        if name not in (other.along, *other.flat):
            table = table.sum(axis=axis)
        elif isinstance(domain, HierarchyDomain):
            coarse = min(_level(known, domain), _level(other, domain), key=domain.levels.index)
            nodes = domain.leaves if name != known.along or known.nodes is None else known.nodes
            places = positions(domain, nodes, coarse)
            moved = np.moveaxis(table, axis, 0)
            summed = np.zeros((int(places.max()) + 1, *moved.shape[1:]), np.int64)
            np.add.at(summed, places, moved)
            table = np.moveaxis(summed, 0, axis)
    kept = [name for name in names if name in (other.along, *other.flat)]
    return np.transpose(table, np.argsort(kept)) if kept else table


def _level(known: KnownMarginal, domain: HierarchyDomain) -> str:
    """Return the level at which an invariant has a hierarchy: its own, or the leaves."""
    return known.level if known.along == domain.name and known.level else domain.levels[-1]


def check_rates(partial: PartialSpec, folder: FilePath) -> None:
    """Check the tests of rates and what they are over, and read public figures, relative to ``folder``."""
    users: dict[str, list[tuple[Path, TableEntry]]] = {}
    for index, table in partial.tables:
        for name, measure in table.measures.items():
            path: Path = ("tables", index, "measures", name)
            if measure.test is not None:
                check_test(partial, (*path, measure.kind), measure.test, undeclared=True)
            if measure.denominator is not None:
                users.setdefault(measure.denominator, []).append(((*path, "over"), table))
    for index, figures in partial.figures:
        _check_figures(partial, ("figures", index), figures, folder, users.get(figures.name, []))
    for name, user in users.items():
        for where, table in user:
            _check_over(partial, where, table, name)


def _check_figures(
    partial: PartialSpec,
    path: Path,
    figures: Figures,
    folder: FilePath,
    users: list[tuple[Path, TableEntry]],
) -> None:
    before = partial.count()
    partial.check_dimensions((*path, "dimensions"), figures.dimensions)
    if partial.count() > before or any(name not in partial.domains for name in figures.dimensions):
        return
    if not users:
        if all(partial.reads(("tables", index, "measures")) for index, _ in partial.tables):
            partial.add(
                path, "no rate is over these numbers", f"write over: {figures.name} in a rate, or remove"
            )
        return
    hierarchies = (along_of(table, partial.domains) for _, table in users)
    along = next(
        (
            hierarchy
            for hierarchy in hierarchies
            if hierarchy is not None and hierarchy.name in figures.dimensions
        ),
        None,
    )
    known = read_figures(partial, path, figures, folder, along)
    if known is not None:
        partial.public.append(known)


def _check_over(partial: PartialSpec, path: Path, table: TableEntry, name: str) -> None:
    """See that a table, invariant or figures have a number for every cell of ``table``."""
    every: list[TableEntry | Figures] = [entry for _, entry in partial.tables]
    every += [entry for _, entry in (*partial.invariants, *partial.figures)]
    entries = {entry.name: entry for entry in every}
    if name not in entries:
        hint = choose(name, entries, "tables, invariants and figures")
        partial.add(path, f"there is nothing of the name {quoted(name)}", hint)
        return
    over = entries[name]
    extra = [dimension for dimension in over.dimensions if dimension not in table.dimensions]
    if extra:
        what = f"{quoted(name)} has {listed(extra)}, which this table has not"
        partial.add(path, what, "take numbers with the dimensions of the table, or with fewer")
        return
    if isinstance(over, TableEntry) and over.mechanism not in (None, *PLAIN):
        what = f"the counts of {quoted(name)} have errors of an unknown distribution by {over.mechanism}"
        partial.add(path, what, f"take a table that is measured by {listed(PLAIN)}")
        return
    if all(dimension in partial.domains for dimension in (*table.dimensions, *over.dimensions)):
        _check_levels_of_over(partial, path, table, name, over)


def _check_levels_of_over(
    partial: PartialSpec, path: Path, table: TableEntry, name: str, over: TableEntry | Figures
) -> None:
    """See that the levels of what a rate is over are those of its table, as far down as these go."""
    along = along_of(table, partial.domains)
    if isinstance(over, TableEntry):
        other = along_of(over, partial.domains)
        levelled = None if other is None else other.name
        level = _deepest(over, other.levels) if other is not None else None
    else:
        known = next((figures for figures in (*partial.known, *partial.public) if figures.name == name), None)
        if known is None:
            return
        levelled, level = known.along, known.level
    if levelled is not None and (along is None or levelled != along.name):
        what = f"{quoted(name)} has the levels of {quoted(levelled)}, which this table has only at its leaves"
        partial.add(path, what, f"take numbers without {levelled}, or make it the `along` of this table")
        return
    if along is None or along.name not in over.dimensions:
        return
    hint = f"take numbers that go down to the levels of {along.name} in this table"
    if level is None or nodes_to(along, level) < nodes_to(along, _deepest(table, along.levels)):
        at = "has it only at its leaves" if level is None else f"stops at {quoted(level)}"
        partial.add(path, f"along {quoted(along.name)} {quoted(name)} {at}", hint)


def _deepest(table: TableEntry, levels: tuple[str, ...]) -> str:
    """Return the deepest measured level of a table."""
    measured = table.levels or {}
    return next((level for level in reversed(levels) if level in measured), levels[-1])


def check_universes(partial: PartialSpec) -> None:
    """Check the ``where`` of every table, and that what needs a table of all records has one."""
    for index, table in partial.tables:
        if table.where is not None:
            check_test(partial, ("tables", index, "where"), table.where)
    all_counted = any(table.where is None for _, table in partial.tables)
    for index, rule in partial.rules if partial.tables and not all_counted else ():
        if isinstance(rule, RowCountRule) and rule.change_from_last is not None and rule.noisy is None:
            what = "compares totals of all records, and every table has a `where`"
            partial.add(("rules", index, "change_from_last"), what, "add a table without where, or remove it")


def check_test(partial: PartialSpec, path: Path, text: str, *, undeclared: bool = False) -> None:
    """Check that tests read, of columns that are in order, and that some record may pass them."""
    try:
        universe = universe_of(text, partial.domains, undeclared=undeclared)
    except InputError as error:
        if partial.domains.keys() == partial.columns.keys():  # what is not in order may be what is meant
            at = error.where.removeprefix("query").removeprefix(", ")
            partial.add(path, f"{at}: {error.what}" if at else error.what, error.hint)
        return
    hint = f"correct them, or remove the {'measure' if undeclared else 'table'}"
    for name in universe.about:
        if not all(mask.any() for mask in universe.masks(name)):
            partial.add(path, f"no value of {quoted(name)} passes its tests", hint)
            return
    if not can_pass(universe):
        partial.add(path, "no record can pass all these tests together", hint)


def check_impossible(partial: PartialSpec) -> None:
    """Check the facts that could be read; run it once the domains and the invariants are known."""
    before = partial.count()
    for index, fact in partial.impossible:
        path: Path = ("impossible", index)
        count_before = partial.count()
        if not fact.cells:
            partial.add((*path, "cells"), "is empty", "write `column: [values]`, as age: [0-14]")
        for name, values in fact.cells.items():
            _check_values(partial, (*path, "cells", name), name, values)
        if partial.count() == count_before and all(name in partial.domains for name in fact.cells):
            if all(values_of(partial.domains[name], values).all() for name, values in fact.cells.items()):
                partial.add(
                    (*path, "cells"), "names every value of its columns", "leave the possible ones out"
                )
            _check_records(partial, (*path, "records"), fact)
    known = {name for _, fact in partial.impossible for name in fact.cells} <= partial.domains.keys()
    if partial.count() == before and known:
        _check_ends(partial)
        _check_invariants(partial)


def _check_values(partial: PartialSpec, path: Path, name: str, values: Sequence[str]) -> None:
    if name not in partial.columns:
        partial.add(
            path,
            f"there is no column {quoted(name)} under `columns`",
            choose(name, partial.columns, "declared columns"),
        )
        return
    if not values:
        partial.add(path, "is empty", "name at least one value")
    domain = partial.domains.get(name)
    known = () if domain is None else _codes(domain)
    for index, value in enumerate(values):
        if value in values[:index]:
            partial.add((*path, index), f"{quoted(value)} is here twice", "name every value once")
        elif domain is not None and value not in known:
            kind = "nodes" if isinstance(domain, HierarchyDomain) else "values"
            partial.add(
                (*path, index),
                f"{quoted(value)} is no value of {quoted(name)}",
                choose(value, known, kind),
            )


def _codes(domain: Domain) -> Sequence[str]:
    return domain.node_codes if isinstance(domain, HierarchyDomain) else domain.codes


def _check_records(partial: PartialSpec, path: Path, fact: Impossible) -> None:
    """Check where records are counted instead: under another value of one of the columns."""
    if isinstance(fact.records, str):
        return
    if len(fact.records) != 1:
        partial.add(path, "is not one `column: code`", "change one column, or write reject")
        return
    ((name, code),) = fact.records.items()
    path = (*path, name)
    if name not in fact.cells:
        partial.add(path, "is none of the columns under `cells`", choose(name, fact.cells, "columns"))
        return
    domain = partial.domains[name]
    if code not in domain.codes:
        partial.add(path, f"{quoted(code)} is no cell of {quoted(name)}", choose(code, domain.codes, "cells"))
    elif values_of(domain, fact.cells[name])[domain.codes.index(code)]:
        partial.add(path, f"{quoted(code)} is one of the impossible values", "name another value, or reject")
    others = _other_codings(partial, name)
    if others:
        what = f"{listed(others)} would still say what it was: they are made from the same column"
        partial.add(path, what, "change another column, or write reject")


def _other_codings(partial: PartialSpec, name: str) -> list[str]:
    """Return the other columns that are made from what a column is made from."""
    columns = {other: column for other, column in partial.columns.items() if column is not None}
    source = source_column(name, columns[name])
    made = [other for other, column in columns.items() if source_column(other, column) == source]
    return [column for column in made if column != name and source is not None]


def _check_ends(partial: PartialSpec) -> None:
    """Check that no record is moved into the cells of a fact that was dealt with before.

    Facts are taken in their order, so that afterwards no record is in any of them.
    """
    for number, (index, fact) in enumerate(partial.impossible):
        moved = fact.moved_to
        if moved is None:
            continue
        ends = {name: tuple(values) for name, values in fact.cells.items()} | {moved[0]: (moved[1],)}
        for earlier, other in partial.impossible[:number]:
            shared = [name for name in other.cells if name in ends]
            # Without the column that is changed, it was in those cells before, and is no longer here.
            if moved[0] in shared and all(
                (values_of(partial.domains[n], ends[n]) & values_of(partial.domains[n], other.cells[n])).any()
                for n in shared
            ):
                what = f"a record may end in the cells of impossible[{earlier}], which come before"
                hint = "write this fact before that one, or reject its records"
                partial.add(("impossible", index, "records"), what, hint)


def _check_invariants(partial: PartialSpec) -> None:
    columns = {name: column for name, column in partial.columns.items() if column is not None}
    facts = [
        {name: values_of(partial.domains[name], values) for name, values in fact.cells.items()}
        for _, fact in partial.impossible
    ]
    places = {invariant.name: index for index, invariant in partial.invariants}
    for known in partial.known if facts else ():
        along = None if known.along is None else partial.domains[known.along]
        assert along is None or isinstance(along, HierarchyDomain)  # noqa: S101 - the invariant's own check
        nodes = 1 if along is None else len(along.parents)
        masks = impossible_cells(facts, columns, partial.domains, along, nodes, known.flat)
        if masks is None:
            continue
        wrong = int((known.values[masks if known.nodes is None else masks[known.nodes]] > 0).sum())
        if wrong:
            what = f"holds {wrong} cell{'' if wrong == 1 else 's'} above zero that `impossible` says is empty"
            hint = "correct its numbers, or the values under impossible"
            partial.add(("invariants", places[known.name]), what, hint)


def check_impossible_cells(partial: PartialSpec, spec: ReleaseSpec) -> None:
    """Check that every table with impossible cells can leave them out, and is left with others."""
    places = {table.name: index for index, table in enumerate(spec.tables)}
    for table in spec.tables if spec.impossible else ():
        impossible = impossible_in(spec, partial.domains, table)
        if impossible is None:
            continue
        path: Path = ("tables", places[table.name])
        if table.mechanism not in CELL_BY_CELL:
            what = f"{table.mechanism} measures the table as a whole, and some of its cells are impossible"
            partial.add((*path, "mechanism"), what, "choose identity, under zcdp gaussian")
        if impossible.all():
            partial.add((*path, "dimensions"), "every cell of the table is impossible", "leave the table out")
    _check_measures(partial, spec, places)


def _check_measures(partial: PartialSpec, spec: ReleaseSpec, places: dict[str, int]) -> None:
    """Check that no array with cells that are not measured is measured as a whole, or noisy by group."""
    for table in spec.tables:
        chosen = [n for n, measure in table.measures.items() if measure.mechanism[0] not in CELL_BY_CELL]
        if chosen and impossible_in(spec, partial.domains, next(split(table))) is not None:
            what = "is chosen in every cell, and some cells of the table are exactly zero"
            path: Path = ("tables", places[table.name], "measures", chosen[0], "method")
            partial.add(path, what, "write tree, or take the measure to a table without such cells")
            continue
        for array in split(table):
            if array.parameters.get("by_group") and impossible_in(spec, partial.domains, array) is not None:
                what = "has bounds that differ by group, and some cells of the table are exactly zero"
                hint = "write one bound for all groups, or take the measure to a table without such cells"
                partial.add(("tables", places[table.name]), what, hint)
                break
