"""Invariants: dimensions that a table has, numbers for every cell, and no two that contradict each other."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path as FilePath

import numpy as np
from numpy.typing import NDArray

from tabularium.validations.domains.domains import Domain, HierarchyDomain
from tabularium.validations.domains.known_marginals import LARGEST, KnownMarginal, axes_of, read_numbers
from tabularium.validations.domains.levels import positions
from tabularium.validations.spec.checks.table_checks import along_of
from tabularium.validations.spec.draft import Draft
from tabularium.validations.spec.parts.table_parts import Figures, Invariant, TableEntry
from tabularium.validations.spec.problems import Path, choose, quoted


def check_invariants(draft: Draft, folder: FilePath) -> None:
    """Check the invariants that could be read, and read their numbers, relative to ``folder``."""
    if draft.invariants and draft.postprocessing is not None and not draft.postprocessing.consistency:
        what = "needs consistency, by which tables come to show it, and consistency is off"
        draft.add(("invariants",), what, "leave consistency on, or remove invariants")
    places: list[int] = []
    for place, invariant in draft.invariants:
        path: Path = ("invariants", place)
        before = draft.count()
        _check_dimensions(draft, path, invariant)
        if draft.count() == before and all(name in draft.domains for name in invariant.dimensions):
            known = read_figures(draft, path, invariant, folder, _along(draft, invariant))
            if known is not None:
                draft.known.append(known)
                places.append(place)
    _check_contradictions(draft, places)


def _check_dimensions(draft: Draft, path: Path, invariant: Invariant) -> None:
    path = (*path, "dimensions")
    draft.check_dimensions(path, invariant.dimensions)
    readable = all(draft.reads(("tables", place, "dimensions")) for place, _ in draft.tables)
    if draft.tables and readable and not _holders(draft, invariant):
        some = " without where" if any(table.where is not None for _, table in draft.tables) else ""
        draft.add(
            path, "no table has all of these dimensions", f"name dimensions that stand in one table{some}"
        )


def _holders(draft: Draft, invariant: Invariant) -> list[TableEntry]:
    """Return the tables that show it: of all records, as it is itself."""
    return [
        table
        for _, table in draft.tables
        if set(invariant.dimensions) <= set(table.dimensions) and table.where is None
    ]


def _along(draft: Draft, invariant: Invariant) -> HierarchyDomain | None:
    """Return the dimension that stands at a level: one along which a table with all dimensions has levels."""
    found = (along_of(table, draft.domains) for table in _holders(draft, invariant))
    return next((along for along in found if along is not None and along.name in invariant.dimensions), None)


def read_figures(
    draft: Draft, path: Path, invariant: Figures, folder: FilePath, along: HierarchyDomain | None
) -> KnownMarginal | None:
    """Read the numbers of an invariant, or of other public figures; note what is wrong with them.

    Parameters
    ----------
    along
        The dimension of it that stands at a level.
    """
    if invariant.level is not None:
        levels = along.levels if along is not None else ()
        if invariant.level not in levels:
            what = f"there is no level {quoted(invariant.level)} in its dimensions"
            hint = choose(invariant.level, levels, "levels") if levels else "remove level"
            draft.add((*path, "level"), what, hint)
            return None
    flat = tuple(draft.domains[name] for name in invariant.dimensions if along is None or name != along.name)
    values, nodes = _values(draft, path, invariant, folder, along, flat)
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
    draft: Draft,
    path: Path,
    invariant: Figures,
    folder: FilePath,
    along: HierarchyDomain | None,
    flat: tuple[Domain, ...],
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    if (invariant.values is None) == (invariant.count is None):
        both = invariant.count is not None
        hint = "write count: for a total, values: with a file for everything else"
        draft.add(path, "has both `values` and `count`" if both else "needs `values` or `count`", hint)
        return None, None
    if invariant.count is not None:
        if invariant.dimensions:
            draft.add((*path, "count"), "one number for several cells", "write values: with a file")
            return None, None
        if invariant.count > LARGEST:
            draft.add((*path, "count"), "is above 2^40", "write a count of records")
            return None, None
        return np.array([invariant.count], np.int64), None
    assert invariant.values is not None  # noqa: S101 - one of the two is there
    if not invariant.dimensions:
        draft.add((*path, "values"), "a total is one number", "write count: instead")
        return None, None
    nodes, axes = axes_of(along, invariant.level, flat)
    file = folder / invariant.values
    values, digest, problems = read_numbers(file, axes)
    draft.document.problems.extend(problems)
    if values is not None and draft.public_files.setdefault(file.name, digest) != digest:
        what = f"another file of the spec is called {quoted(file.name)} too"
        draft.add((*path, "values"), what, "rename one: they are published side by side")
    return values, nodes


def _check_contradictions(draft: Draft, places: list[int]) -> None:
    """Find pairs of invariants that disagree on what they share; the dry run finds the rest."""
    pairs = combinations(zip(places, draft.known, strict=True), 2)
    for (_, one), (place, other) in pairs:
        first, second = _shared(draft, one, other), _shared(draft, other, one)
        if not np.array_equal(first, second):
            what = f"contradicts the invariant {quoted(one.name)} where they overlap"
            draft.add(("invariants", place), what, "take both from one publication, or remove one")


def _shared(draft: Draft, known: KnownMarginal, other: KnownMarginal) -> NDArray[np.int64]:
    """Return the sums of an invariant over everything that another one does not have.

    A hierarchy that both have stands at the level nearer to the root.
    """
    names = [*([known.along] if known.along else []), *known.flat]
    shape = [len(known.values)] * (known.along is not None) + [draft.domains[n].size for n in known.flat]
    table = known.values.reshape(shape)
    for axis, name in reversed(list(enumerate(names))):
        domain = draft.domains[name]
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
