"""Structural zeros: cells of a table that nobody can be in, from public facts only.

A fact names values of columns that cannot occur together. A cell of a table lies in it if the cell says of
each of these columns that it has one of the values: because the column is a dimension, or a finer or coarser
coding of a dimension. A coarse cell is made of pieces, the leaves below a node or the cells of a finer
coding, and is impossible if each of its pieces lies in some fact.

What follows from several tables together is left to inference. Nothing here depends on data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tabularium.validations.derivation import parents_of, source_column
from tabularium.validations.domains.domains import Domain, HierarchyDomain, cut, nodes_to
from tabularium.validations.domains.encoding import coded_names
from tabularium.validations.imported_later import Later
from tabularium.validations.release_spec.columns import Derivation
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.tables import Impossible, Table
from tabularium.validations.universes.universe import CELL_BY_CELL, among, universe_of

if TYPE_CHECKING:
    import ibis
else:
    ibis = Later("ibis")

Bools = NDArray[np.bool_]
Cells = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class _Pieces:
    """The pieces that the cells along an axis are made of.

    Attributes
    ----------
    cell
        (pieces,) the cell of each, ascending; every cell has one.
    inside
        Number of a fact -> (pieces,) whether a piece has its values; facts that say nothing here are absent.
    """

    cell: Cells
    inside: dict[int, Bools]
    cells: int


def values_of(domain: Domain, values: Sequence[str]) -> Bools:
    """Return (cells,) which cells of a column have one of the values; values that it has not are left out."""
    if isinstance(domain, HierarchyDomain):
        below = np.isin(np.array(domain.node_codes, object), np.array(list(values), object))
        for depth in range(1, len(domain.levels)):
            nodes = np.flatnonzero(domain.depth == depth)
            below[nodes] |= below[domain.parents[nodes]]
        chosen: Bools = below[domain.leaves]
        return chosen
    wanted = set(values)
    return np.array([code in wanted for code in domain.codes], bool)


def impossible_in(spec: ReleaseSpec, domains: Mapping[str, Domain], table: Table) -> Bools | None:
    """Return which cells of a table, or numbers of the array of a measure, are impossible; None if none is.

    Those are what facts say, and what lies outside of the table's own universe.

    (nodes, cells), nodes down to the deepest measured level.
    """
    along = domains[table.along] if table.along is not None else None
    assert along is None or isinstance(along, HierarchyDomain)  # noqa: S101 - the spec's own check
    nodes = 1 if along is None else max(nodes_to(along, level) for level in table.levels)
    several = table.measured is not None and table.measured.part_domain is not None
    names = table.dimensions[:-1] if several else table.dimensions  # the last one has the parts of a number
    others = [name for name in names if name != table.along]
    facts = [
        {name: values_of(domains[name], values) for name, values in fact.cells.items()}
        for fact in spec.impossible
    ]
    if table.where is not None and table.mechanism in CELL_BY_CELL:
        facts += universe_of(table.where, domains).outside(domains)
    masks = impossible_cells(facts, spec.columns, domains, along, nodes, others)
    if masks is None or table.measured is None:
        return masks
    return np.repeat(masks, table.measured.parts, axis=1)


def impossible_notes(spec: ReleaseSpec, domains: Mapping[str, Domain]) -> list[str]:
    """Return what `check` says of impossible cells: how many a table has, and facts that no table shows."""
    notes, shown = [], set()
    for table in spec.tables if spec.impossible else ():
        mask = impossible_in(spec, domains, table)
        if mask is not None:
            cells = f"{int(mask.sum()):,} of the {mask.size:,} cells"
            notes.append(f"{cells} of table {table.name} are impossible: they are zero, and not measured")
        everywhere = table.model_copy(update={"where": None})
        for number, fact in enumerate(spec.impossible):
            with_one = spec.model_copy(update={"impossible": (fact,)})
            if impossible_in(with_one, domains, everywhere) is not None:
                shown.add(number)
    for number, fact in enumerate(spec.impossible):
        if number not in shown:
            done = "rejected" if fact.moved_to is None else f"counted under {' '.join(fact.moved_to)}"
            notes.append(f"no table shows {fact.in_words}, and records that say so are {done} all the same")
    return notes


def impossible_by_level(mask: Bools | None, domains: Mapping[str, Domain], table: Table) -> dict[str, int]:
    """Return how many numbers of each measured level are impossible; of ``""`` without a hierarchy."""
    along = domains[table.along] if table.along is not None else None
    if mask is None:
        return {}
    if not isinstance(along, HierarchyDomain):
        return {"": int(mask.sum())}
    return {level: int(mask[cut(along, level)].sum()) for level in table.levels}


def impossible_cells(
    facts: Sequence[Mapping[str, Bools]],
    columns: Mapping[str, Derivation],
    domains: Mapping[str, Domain],
    along: HierarchyDomain | None,
    nodes: int,
    others: Sequence[str],
) -> Bools | None:
    """Return which cells of a table are impossible, or None where none is.

    (nodes, cells).

    Parameters
    ----------
    facts
        For each, column -> (cells,) the values that cannot occur with those of its other columns.
    along, nodes
        The hierarchy whose first ``nodes`` nodes are the rows; one row without it.
    """
    axes = [*([along.name] if along is not None else []), *others]
    named = list(dict.fromkeys(name for fact in facts for name in fact))
    bases, held = {}, {}
    for axis in axes:
        near = [name for name in named if name not in axes and _related(name, axis, columns, domains)]
        finer = [name for name in near if lies_in(name, axis, columns, domains) is not None]
        bases[axis] = max([axis, *finer], key=lambda name: domains[name].size)
        lifts = {name: lies_in(bases[axis], name, columns, domains) for name in [axis, *near]}
        held[axis] = {name: lift for name, lift in lifts.items() if lift is not None}
    home = {name: next((axis for axis in axes if name in held[axis]), None) for name in named}
    numbered = [(n, fact) for n, fact in enumerate(facts) if all(home[name] is not None for name in fact)]
    if not numbered:
        return None
    pieces = []
    for axis in axes:
        inside: dict[int, Bools] = {}
        for number, fact in numbered:
            for name, values in fact.items():
                if home[name] == axis:
                    has = values[held[axis][name]]
                    inside[number] = inside[number] & has if number in inside else has
        if along is not None and axis == along.name:
            pieces.append(_pieces(inside, along.leaves, along.parents, nodes))
        else:
            cell = lies_in(bases[axis], axis, columns, domains)
            assert cell is not None  # noqa: S101 - the base is the axis, or lies in it
            pieces.append(_pieces(inside, cell, np.full(domains[axis].size, -1), domains[axis].size))
    mask = np.zeros([len(piece.cell) for piece in pieces], bool)
    for number, _ in numbered:
        mask[np.ix_(*(piece.inside.get(number, np.ones(len(piece.cell), bool)) for piece in pieces))] = True
    for index, piece in enumerate(pieces):
        if len(piece.cell) > piece.cells:
            starts = np.searchsorted(piece.cell, np.arange(piece.cells))
            mask = np.logical_and.reduceat(mask, starts, axis=index)
    return mask.reshape(nodes, -1) if mask.any() else None


def lies_in(
    fine: str, coarse: str, columns: Mapping[str, Derivation], domains: Mapping[str, Domain]
) -> Cells | None:
    """Return the cell of ``coarse`` in which each cell of ``fine`` lies; None if it is no coarser coding."""
    if fine == coarse:
        return np.arange(domains[fine].size)
    source = source_column(fine, columns[fine])
    if source is None or source != source_column(coarse, columns[coarse]):
        return None
    return parents_of(fine, coarse, columns, domains)


def _related(one: str, other: str, columns: Mapping[str, Derivation], domains: Mapping[str, Domain]) -> bool:
    return any(lies_in(*pair, columns, domains) is not None for pair in ((one, other), (other, one)))


def _pieces(inside: Mapping[int, Bools], cell: Cells, parents: Cells, cells: int) -> _Pieces:
    """Put pieces together that lie in one cell and in the same facts, here and above.

    Parameters
    ----------
    inside
        Number of a fact -> (pieces,) whether each has its values.
    cell
        (pieces,) the lowest cell that each is a part of.
    parents
        The cell above each, -1 for none.
    cells
        How many of them are on the axis.
    """
    if not inside:
        return _Pieces(np.arange(cells), {}, cells)
    kinds, kind = np.unique(np.array(list(inside.values())), axis=1, return_inverse=True)
    number, kind = kinds.shape[1], kind.ravel()
    every = np.zeros(0, np.int64)
    while len(cell):
        every = np.union1d(every, cell * number + kind)
        above = parents[cell]
        cell, kind = above[above >= 0], kind[above >= 0]
    values_at, kind = np.divmod(every[every < cells * number], number)
    return _Pieces(values_at, {fact: kinds[row][kind] for row, fact in enumerate(inside)}, cells)


# Impossible records are rejected, or counted under another value, each only by its own columns. Facts
# apply one after the other, on cell codes: a value that went to a column's ``other`` is that one. After the
# last fact no kept record is in the cells of any. Nothing but the record itself and public facts decides,
# as in coding, and this is its last step; so adding or removing a unit changes what is counted by that
# unit's own records, as before.

IMPOSSIBLE = "impossible"
"""The column that says, of a coded record, whether it is rejected for what cannot be."""


def without_impossible(rows: Any, facts: Sequence[Impossible], domains: Mapping[str, Domain]) -> Any:
    """Return coded records, none of them impossible: those that are rejected have lost a code.

    ``rows``: ibis table with what :func:`tabularium.validations.domains.encoding.coded` added.

    Where there are facts, the column :data:`IMPOSSIBLE` is added.
    """
    names = coded_names(domains)
    if facts:
        rows = rows.mutate(**{IMPOSSIBLE: ibis.literal(value=False)})
    for fact in facts:
        tests = [
            among(rows[names[name].code], values_of(domains[name], values))
            for name, values in fact.cells.items()
        ]
        here = ibis.and_(*tests).fill_null(
            ibis.literal(value=False)
        )  # of a record that has lost a code already
        if fact.moved_to is None:
            column = names[next(iter(fact.cells))].code
            rows = rows.mutate(
                **{
                    column: ibis.ifelse(here, ibis.null(rows[column].type()), rows[column]),
                    IMPOSSIBLE: rows[IMPOSSIBLE] | here,
                }
            )
        else:
            name, code = fact.moved_to
            code_number = ibis.literal(domains[name].codes.index(code), type=rows[names[name].code].type())
            rows = rows.mutate(**{names[name].code: ibis.ifelse(here, code_number, rows[names[name].code])})
    return rows
