"""The order in which the numbers of several tables are settled: totals before parts, marginals before tables.

Every step settles the numbers of one marginal at one depth, given what was settled before: children add up to
their parents, cell by cell, and cells to the largest smaller marginals at the same nodes. With one such
condition the numbers fall into separate families; with two they are a transportation table, which has a
non-negative solution, and a whole one if the sums are whole; with three or more there may be none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Bools, Floats, Indices, Integers, Number
from tabularium.mechanisms.inference.joint.shared_marginals import Marginal, TableSet, TableShape, View

if TYPE_CHECKING:
    from scipy import sparse

MarginalTables = dict[Marginal, Floats]
"""Numbers of every marginal of the lattice: (nodes, groups), flat dimensions in alphabetical order."""
WholeMarginalTables = dict[Marginal, Integers]

CERTAIN = 1e-9
"""Beside numbers that are known exactly, variances up to this part of their marginal's largest are 0."""


@dataclass(frozen=True, eq=False, slots=True)
class Condition:
    """Groups of a step's numbers that must add up to numbers settled before.

    Attributes
    ----------
    source
        The marginal that holds the sums; the step's own for parents.
    labels
        (rows x cells,) index of the sum in ``sums`` that each number belongs to, -1 for none.
    rows
        Nodes of the source; its sums are ``settled[source][rows].ravel()``.
    """

    source: Marginal
    labels: Indices
    rows: Indices

    def sums(self, settled: Mapping[Marginal, NDArray[Number]]) -> NDArray[Number]:
        """Return what each group must add up to."""
        return np.asarray(settled[self.source][self.rows].ravel())


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """One marginal at one depth.

    ``rows``: (rows,) its nodes at this depth. ``conditions``: What is settled already; a condition on parents
    comes first.
    """

    marginal: Marginal
    rows: Indices
    conditions: tuple[Condition, ...]

    @property
    def has_parents(self) -> bool:
        """Whether its numbers have parents, which tell one family from another."""
        return self.marginal.along is not None and self.conditions[0].source == self.marginal

    def take(self, tables: Mapping[Marginal, NDArray[Number]]) -> NDArray[Number]:
        """Return the step's numbers, (rows x cells,)."""
        return np.asarray(tables[self.marginal][self.rows].ravel())

    def put(self, numbers: NDArray[Number], tables: Mapping[Marginal, NDArray[Number]]) -> None:
        """Set the step's numbers, (rows x cells,), in place."""
        tables[self.marginal][self.rows] = numbers.reshape(len(self.rows), -1)


def projection_schedule(table_set: TableSet) -> Iterator[list[Step]]:
    """Yield the steps of one depth together: first all marginals without a hierarchy, then depth by depth."""
    shapes = table_set.shapes
    yield [_step(marginal, np.array([0]), 0, shapes) for marginal in shapes if marginal.along is None]
    for along in sorted({marginal.along for marginal in shapes if marginal.along is not None}):
        trees = {marginal: frame.tree for marginal, frame in shapes.items() if marginal.along == along}
        for depth in range(max(tree.depths for tree in trees.values())):
            yield [
                _step(marginal, np.flatnonzero(tree.depth == depth), depth, shapes)
                for marginal, tree in trees.items()
                if tree.depths > depth
            ]


def step_for_children(table_set: TableSet, step: Step, parents: Indices) -> Step:
    """Return the part of a step that settles the children of ``parents``."""
    tree = table_set.shapes[step.marginal].tree
    rows = step.rows[np.isin(tree.parents[step.rows], parents)]
    return _step(step.marginal, rows, 1, table_set.shapes)


def failed_families(
    table_set: TableSet, steps: Sequence[Step], failed: Callable[[Step], Bools]
) -> Indices | None:
    """Return the parents of all families with a row that failed, in one depth's steps.

    None as soon as a row without a parent failed: there is nothing to tell one family from another.
    """
    parents = [np.empty(0, np.intp)]
    for step in steps:
        rows = step.rows[failed(step)]
        if rows.size and not step.has_parents:
            return None
        parents.append(table_set.shapes[step.marginal].tree.parents[rows])
    return np.unique(np.concatenate(parents))


def _step(marginal: Marginal, rows: Indices, depth: int, shapes: Mapping[Marginal, TableShape]) -> Step:
    """Return the step that settles these nodes of a marginal, all at one depth."""
    frame = shapes[marginal]
    conditions = [_parents(marginal, rows, frame)] if depth else []
    inside = [sub for sub in shapes if sub != marginal and sub.within(marginal) and (not depth or sub.along)]
    inside = [sub for sub in inside if not sub.along or (rows < shapes[sub].tree.nodes).any()]
    for sub in inside:
        larger = [other for other in inside if other != sub and sub.within(other)]
        if not any(_covers(other, sub, rows, shapes) for other in larger):
            conditions.append(_groups(frame, sub, rows, shapes[sub].tree.nodes))
    return Step(marginal, rows, tuple(conditions))


def _covers(other: Marginal, sub: Marginal, rows: Indices, shapes: Mapping[Marginal, TableShape]) -> bool:
    """Say whether a larger marginal already fixes all that the smaller one would fix at these nodes."""
    if sub.along is None:
        return True
    return bool((rows[rows < shapes[sub].tree.nodes] < shapes[other].tree.nodes).all())


def _parents(marginal: Marginal, rows: Indices, frame: TableShape) -> Condition:
    above, place = np.unique(frame.tree.parents[rows], return_inverse=True)
    labels = place[:, None] * frame.cells + np.arange(frame.cells)
    return Condition(marginal, labels.ravel(), above)


def _groups(frame: TableShape, sub: Marginal, rows: Indices, nodes: int) -> Condition:
    """Return the condition that cells add up to a smaller marginal, which has so many nodes."""
    if sub.along is None:
        return Condition(sub, np.tile(View(frame, sub, None).groups, len(rows)), np.array([0]))
    held = rows < nodes
    view = View(frame, sub, rows[held])
    labels = np.full((len(rows), frame.cells), -1, dtype=np.intp)
    labels[held] = np.arange(int(held.sum()))[:, None] * view.shape[1] + view.groups
    return Condition(sub, labels.ravel(), rows[held])


def marginal_tables(table_set: TableSet, tables: Mapping[str, Floats]) -> MarginalTables:
    """Return the numbers of every marginal, each from the deepest table that shows it."""
    result = {}
    for marginal in table_set.marginals:
        name = table_set.holding(marginal)[0]
        nodes = table_set.shapes[marginal].tree.nodes
        result[marginal] = summed(table_set.tables[name], tables[name], marginal, nodes)
    return result


def summed(frame: TableShape, table: Floats, marginal: Marginal, nodes: int) -> Floats:
    """Add a table's numbers up to those of one of its marginals of so many nodes, at all that both have."""
    rows = np.arange(min(nodes, frame.tree.nodes)) if marginal.along else None
    return View(frame, marginal, rows).gather(np.broadcast_to(table, frame.shape))


def tables_of(table_set: TableSet, settled: Mapping[Marginal, NDArray[Number]]) -> dict[str, NDArray[Number]]:
    """Return every table's numbers from those of its own marginal, in the table's own order of cells."""
    tables = {}
    for name, frame in table_set.tables.items():
        shown = settled[frame.marginal]
        table = np.zeros(frame.shape, dtype=shown.dtype)
        rows = np.arange(frame.tree.nodes) if frame.along else None
        View(frame, frame.marginal, rows).scatter(shown[: frame.tree.nodes], table)
        tables[name] = table
    return tables


def marginal_variances(
    table_set: TableSet, variances: Mapping[str, Floats], certain: float = CERTAIN
) -> MarginalTables:
    """Return variances of every marginal's numbers to weigh them by: the least that any table's sum has.

    ``certain``: as `CERTAIN`; 0 where nothing is known exactly but by a variance of 0.
    """
    result = {}
    for marginal in table_set.marginals:
        frame = table_set.shapes[marginal]
        least = np.full((frame.tree.nodes, frame.cells), np.inf)
        for name in table_set.holding(marginal):
            shown = summed(table_set.tables[name], variances[name], marginal, frame.tree.nodes)
            least[: len(shown)] = np.minimum(least[: len(shown)], shown)
        least[least <= certain * least.max()] = 0.0
        result[marginal] = least
    return result


def incidence(labels: Sequence[Indices], sizes: Sequence[int]) -> sparse.csr_array:
    """Return A (conditions, numbers) from the group of each number in every set of conditions (-1: none)."""
    from scipy import sparse

    rows, columns, first = [], [], 0
    for label, size in zip(labels, sizes, strict=True):
        held = np.flatnonzero(label >= 0)
        rows.append(first + label[held])
        columns.append(held)
        first += size
    row, column = np.concatenate(rows), np.concatenate(columns)
    return sparse.csr_array((np.ones(row.size), (row, column)), shape=(first, len(labels[0])))


def stacked(
    steps: Sequence[Step], settled: Mapping[Marginal, NDArray[Number]]
) -> tuple[sparse.csr_array, list[NDArray[Number]], list[Bools]]:
    """Return the conditions on all numbers of these steps, laid end to end, as A x = b.

    A sum that is itself one of the numbers sought enters A with -1, and b with 0. Returns A, b by sets of
    conditions, and for each set which of its sums are settled already.
    """
    from scipy import sparse

    columns = {step.marginal: np.full(settled[step.marginal].shape, -1) for step in steps}
    size = 0
    for step in steps:
        first, size = size, size + step.take(columns).size
        step.put(np.arange(first, size), columns)
    systems, sums, given = [], [], []
    for step in steps:
        for condition in step.conditions:
            total = condition.sums(settled).copy()
            known = np.ones(len(total), dtype=bool)
            labels = np.full(size, -1)
            labels[step.take(columns)] = condition.labels
            system = incidence([labels], [len(total)])
            if condition.source in columns:
                sought = condition.sums(columns)
                known = sought < 0
                held = np.flatnonzero(~known)
                entries = (np.ones(held.size), (held, sought[held]))
                system = system - sparse.csr_array(entries, shape=system.shape)
                total[held] = 0
            systems.append(system)
            sums.append(total)
            given.append(known)
    return sparse.vstack(systems).tocsr(), sums, given


def unstacked(
    steps: Sequence[Step], numbers: NDArray[Number], settled: Mapping[Marginal, NDArray[Number]]
) -> None:
    """Put numbers laid end to end into the marginals' tables, in place."""
    first = 0
    for step in steps:
        size = step.take(settled).size
        step.put(numbers[first : first + size], settled)
        first += size
