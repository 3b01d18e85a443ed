"""Variances after weighted least squares, and their slopes, from only the precisions of measurements.

The noise of a measurement is alike in all cells of a level, so the analysis of variance
(:mod:`tabularium.mechanisms.inference.joint.joint_consistency`) splits the joint estimate into orthogonal
terms. But for a factor, a term depends only on *which tables* have it. Let U_S be the variance on the
hierarchy where a node is measured with precision Σ p_t / N_t over the tables t in S, N_t cells at a node
each. Then

    variance of a cell of t  =  Σ over S of  (f_{t,S} / N_t²) U_S,

f_{t,S} the degrees of freedom of the terms that exactly the tables of S have. U_S takes two passes over the
classes of nodes that are measured alike, which carry the derivatives by the precisions along. One over a
variance is concave in the precisions, grows with them, and is homogeneous of degree one. Derivation:
docs/explanation/inference.md, "Variances before measuring".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Bools, Floats, Indices
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference.hierarchy import Hierarchy
from tabularium.mechanisms.noise.synthetic import generator

DIMENSIONS = 16
"""Flat dimensions of one table; it has 2^d terms."""

Cells = tuple[str, int]
"""A table and a class of its nodes: cells of one variance."""


@dataclass(frozen=True, eq=False)
class PlannedTable:
    """A table that may be measured, or a public invariant.

    ``along``, ``tree``: The hierarchy; one node without a name where there is none. ``cuts``: Level -> nodes
    that are measured with it; empty for an invariant, which is known exactly.
    """

    name: str
    flat: Mapping[str, int]
    along: str | None
    tree: Hierarchy
    cuts: Mapping[str, Indices]

    @property
    def cells(self) -> int:
        """Number of cells at each node."""
        return prod(self.flat.values())


@dataclass(frozen=True, eq=False)
class Spread:
    """Variances (classes,) and their derivatives (classes, measurements), side by side in one table."""

    table: Floats

    @property
    def values(self) -> Floats:
        """The variances."""
        return self.table[:, 0]

    @property
    def slopes(self) -> Floats:
        """The derivatives."""
        return self.table[:, 1:]


class LinearVariances:
    """The variances of all cells of some tables, as functions of the precisions of their measurements.

    ``tables``: Tables and invariants, as they are made to agree. ``agree``: Whether they are; otherwise a
    cell has the variance of its own measurement.

    ``measurements``: (table, level) of each precision. ``classes``: Name of a hierarchy -> classes of its
    nodes; ``None`` for tables without one.
    """

    def __init__(self, tables: Sequence[PlannedTable], *, agree: bool = True) -> None:
        self.tables = {table.name: table for table in tables}
        self._agree = agree
        self.measurements = [(table.name, level) for table in tables for level in table.cuts]
        self.classes = {along: self._classes(along) for along in {table.along for table in tables}}
        self._measured = {table.name: self._membership(table) for table in tables}
        self._sets = self._holders() if agree else {}

    def depth(self, table: str) -> Indices:
        """Return the depth of every class of a table's nodes; of those that it shows."""
        planned = self.tables[table]
        return self.classes[planned.along].depth[: len(self._measured[table])]

    def variances(self, precisions: Floats, *, slopes: bool = False) -> dict[str, Spread]:
        """Return the variance of a cell at every class of nodes of every table.

        ``precisions``: (measurements,) not negative; above zero for the deepest level of every table.
        ``slopes``: With the derivatives by the precisions, (classes, measurements); else they are empty.
        """
        width = 1 + (len(precisions) if slopes else 0)
        if not self._agree:
            return {name: Spread(self._own(name, precisions)[:, :width]) for name in self._shown()}
        result = {name: np.zeros((len(self._measured[name]), width)) for name in self._shown()}
        for holders, weights in self._sets.items():
            solved = self._solved(holders, precisions, width)
            for name in weights.keys() & result.keys():
                result[name] += weights[name] * solved[self.tables[name].along][: len(result[name])]
        return {name: Spread(table) for name, table in result.items()}

    def _shown(self) -> list[str]:
        return [name for name, table in self.tables.items() if table.cuts]

    def _classes(self, along: str | None) -> NodeClasses:
        """Tell the nodes of one hierarchy apart by which measurements they have, in any table."""
        own = [table for table in self.tables.values() if table.along == along]
        tree = max((table.tree for table in own), key=lambda tree: tree.nodes)
        marks: list[Bools] = []
        for table in own:
            marks.append(np.arange(tree.nodes) < table.tree.nodes)
            marks += [np.isin(np.arange(tree.nodes), nodes) for nodes in table.cuts.values()]
        return NodeClasses.among(tree, np.stack(marks, axis=1))

    def _membership(self, table: PlannedTable) -> Floats:
        """Return (classes, measurements): 1 where a measurement is of the nodes; a table's are the first."""
        classes = self.classes[table.along]
        nodes = classes.nodes[classes.nodes < table.tree.nodes]
        result = np.zeros((len(nodes), len(self.measurements)))
        for place, (name, level) in enumerate(self.measurements):
            if name == table.name:
                result[:, place] = np.isin(nodes, table.cuts[level])
        return result

    def _holders(self) -> dict[tuple[str, ...], dict[str, float]]:
        """Return the sets of tables that have some term in common, with f / N² of each table."""
        for table in self.tables.values():
            if len(table.flat) > DIMENSIONS:
                raise MechanismError(
                    f"table {table.name} has more than {DIMENSIONS} dimensions",
                    where="plan",
                    hint="cross fewer columns",
                )
        terms = dict.fromkeys(  # in one order: sums of floats depend on it
            chosen
            for table in self.tables.values()
            for size in range(len(table.flat) + 1)
            for chosen in combinations(sorted(name for name, cells in table.flat.items() if cells > 1), size)
        )
        result: dict[tuple[str, ...], dict[str, float]] = {}
        for chosen in terms:
            names = tuple(name for name, table in self.tables.items() if set(chosen) <= set(table.flat))
            sizes = self.tables[names[0]].flat
            freedom = prod(sizes[dimension] - 1 for dimension in chosen)
            weights = result.setdefault(names, dict.fromkeys(names, 0.0))
            for name in names:
                weights[name] += freedom / self.tables[name].cells ** 2
        return result

    def _own(self, name: str, precisions: Floats) -> Floats:
        weights = self._measured[name]
        total = weights @ precisions
        with np.errstate(divide="ignore"):
            values = np.where(total > 0, 1 / total, np.inf)
        slopes = np.where((total > 0)[:, None], -weights * np.where(total > 0, values, 0)[:, None] ** 2, 0.0)
        return np.column_stack([values, slopes])

    def _solved(self, holders: tuple[str, ...], precisions: Floats, width: int) -> dict[str | None, Floats]:
        """Return U_S on every hierarchy that a table of S has, and on the one node of those without."""
        weights: dict[str | None, Floats] = {None: np.zeros((1, width))}
        for name in sorted(holders, key=lambda name: len(self._measured[name])):
            weights[self.tables[name].along] = np.zeros((len(self._measured[name]), width))
        for name in holders:
            table = self.tables[name]
            own = self._measured[name] / table.cells
            weight = weights[table.along][: len(own)]
            weight[:, 0] += own @ precisions if table.cuts else np.inf
            weight[:, 1:] += own[:, : width - 1]
        precision = weights.pop(None)[0]
        trees = {along: _Tree(self.classes[along], item) for along, item in weights.items()}
        for tree in trees.values():
            total = tree.roots[0]
            precision[0] += np.inf if total[0] == 0 else 1 / total[0]
            precision[1:] -= _ratio(total[1:], total[0] ** 2)
        if not precision[0] > 0:
            raise MechanismError("nothing of a table is measured", where="plan", hint="measure every table")
        whole = np.append(1 / precision[0], -precision[1:] / precision[0] ** 2)[None]
        return {None: whole, **{along: tree.down(whole) for along, tree in trees.items()}}


def _ratio(above: Floats, below: Floats | float) -> Floats:
    """Return a quotient, 0 where the divisor is 0."""
    return np.asarray(np.divide(above, below, out=np.zeros_like(above), where=np.asarray(below) != 0))


class _Tree:
    """Least squares on the classes of one hierarchy: up at once, down when the sum of the roots is known.

    All tables have a column of variances (of precisions: ``weights``) and one for each derivative. ``roots``
    is that of the sum of all roots, from what was measured at and below them.
    """

    def __init__(self, classes: NodeClasses, weights: Floats) -> None:
        self._parents, self._counts = classes.parents[: len(weights)], classes.counts[: len(weights)]
        depth = classes.depth[: len(weights)]
        self._levels = [np.flatnonzero(depth == level) for level in range(int(depth.max()) + 1)]
        self._below: Floats = np.zeros_like(weights)
        self._totals: Floats = np.zeros_like(weights)  # over the children of each
        inner = np.zeros(len(weights), bool)
        inner[self._parents[self._parents >= 0]] = True
        for there in reversed(self._levels):
            self._combine(there[inner[there]], there[~inner[there]], weights)
            self._add_up(there)

    def _combine(self, inner: Indices, leaves: Indices, weights: Floats) -> None:
        own = weights[leaves]
        if (own[:, 0] <= 0).any():
            raise MechanismError(
                "a leaf is not measured", where="plan", hint="measure the deepest level of every table"
            )
        below = 1 / own[:, :1]
        self._below[leaves] = np.hstack([below, -(below**2) * own[:, 1:]])
        own, sums = weights[inner], self._totals[inner]
        exact = np.isinf(own[:, :1])
        rest = np.where(exact, 0.0, 1 / (1 + np.where(exact, 0.0, own[:, :1]) * sums[:, :1]))
        below = sums[:, :1] * rest
        self._below[inner] = np.hstack([below, rest**2 * sums[:, 1:] - below**2 * own[:, 1:]])

    def _add_up(self, there: Indices) -> None:
        """Add the children of every family; those of one family stand side by side."""
        above = self._parents[there]
        starts = np.flatnonzero(np.diff(above, prepend=-2))
        total = np.add.reduceat(self._counts[there, None] * self._below[there], starts, axis=0)
        if above[0] < 0:
            self.roots = total
        else:
            self._totals[above[starts]] = total

    def down(self, whole: Floats) -> Floats:
        """Return the final variances, given that of the sum of all roots."""
        result = np.zeros_like(self._below)
        for there in self._levels:
            above, total, parent = self._parents[there], self._totals, result
            if above[0] < 0:
                above, total, parent = np.zeros_like(there), self.roots, whole
            own, sums, known = self._below[there], total[above], parent[above]
            share, ratio = _ratio(own[:, :1], sums[:, :1]), _ratio(known[:, :1], sums[:, :1])
            result[there, :1] = own[:, :1] * (1 - share) + share**2 * known[:, :1]
            result[there, 1:] = (
                (1 - 2 * share + 2 * share * ratio) * own[:, 1:]
                + share**2 * (1 - 2 * ratio) * sums[:, 1:]
                + share**2 * known[:, 1:]
            )
        return result


@dataclass(frozen=True, eq=False)
class NodeClasses:
    """The classes of a hierarchy's nodes, level by level, the classes in one family side by side.

    Two nodes have the same variance when the path from the root to them, and what hangs below every node of
    that path, are measured alike. A code list of 70 000 areas has some hundreds of such classes.

    Attributes
    ----------
    of
        (nodes,) class of every node.
    nodes
        (classes,) one node of each.
    parents
        (classes,) class of the parent, -1 for roots.
    counts
        (classes,) how many nodes of the class one family has; of roots, how many there are.
    depth
        (classes,) 0 for roots.
    """

    of: Indices
    nodes: Indices
    parents: Indices
    counts: Floats
    depth: Indices

    @classmethod
    def among(cls, tree: Hierarchy, measured: Bools) -> NodeClasses:
        """Tell nodes apart by what is measured of them, (nodes, measurements), and by where they lie."""
        depth = tree.depth.astype(np.int64)
        types = _types(tree, depth, _numbered(measured))
        result = np.zeros(tree.nodes, np.int64)
        first = 0
        for level in range(tree.depths):
            there = np.flatnonzero(depth == level)
            above = tree.parents[there]
            families = np.where(above < 0, -1, result[above])
            result[there] = first + _numbered(np.stack([families, types[there]], axis=1))
            first = int(result[there].max()) + 1
        nodes = np.unique(result, return_index=True)[1]
        parents = tree.parents[nodes]
        parents = np.where(parents < 0, -1, result[parents])
        sizes = np.bincount(result)
        return cls(result, nodes, parents, sizes / np.where(parents < 0, 1, sizes[parents]), depth[nodes])


def _types(tree: Hierarchy, depth: Indices, labels: Indices) -> Indices:
    """Return a number for each node that says how it and all below it are measured, deepest level first.

    Families are distinguished by the sum of a random number for each type of child: of 64 bits, so that two
    different ones of a million have the same with a chance of one in ten million.
    """
    draw = generator(7)
    types = np.zeros(tree.nodes, np.int64)
    sums = np.zeros(tree.nodes, np.uint64)
    for level in range(tree.depths - 1, -1, -1):
        there = np.flatnonzero(depth == level)
        types[there] = _numbered(np.stack([labels[there], sums[there].view(np.int64)], axis=1))
        marks = draw.integers(1, 2**63, int(types[there].max()) + 1, dtype=np.uint64)
        inner = there[tree.parents[there] >= 0]
        np.add.at(sums, tree.parents[inner], marks[types[inner]])
    return types


def _numbered(rows: NDArray[np.generic]) -> Indices:
    """Number the different rows from 0, in their order."""
    numbers = np.unique(rows, axis=0, return_inverse=True)[1]
    return np.asarray(numbers).reshape(len(rows)).astype(np.int64)


class SeparateVariances:
    """The variances of groups of tables that share nothing, as functions of their precisions."""

    def __init__(self, groups: Sequence[LinearVariances]) -> None:
        self._groups = list(groups)
        self.measurements = [item for group in groups for item in group.measurements]
        ends = np.cumsum([len(group.measurements) for group in groups])
        self._own = [slice(end - len(g.measurements), end) for g, end in zip(groups, ends, strict=True)]
        self._holding = {name: group for group in groups for name in group.tables}

    def depth(self, table: str) -> Indices:
        """Return the depth of every class of a table's nodes."""
        return self._holding[table].depth(table)

    def variances(self, precisions: Floats, *, slopes: bool = False) -> dict[str, Spread]:
        """Return the variance of a cell at every class of nodes; see :class:`LinearVariances`."""
        result: dict[str, Spread] = {}
        for group, own in zip(self._groups, self._own, strict=True):
            for name, spread in group.variances(precisions[own], slopes=slopes).items():
                result[name] = spread
                if slopes:
                    result[name] = Spread(np.zeros((len(spread.table), 1 + len(precisions))))
                    result[name].values[:] = spread.values
                    result[name].slopes[:, own] = spread.slopes
        return result

    def by_node(self, table: str, classes: Floats) -> Floats:
        """Return (nodes,) numbers of a table's nodes, given those of its classes."""
        group = self._holding[table]
        planned = group.tables[table]
        return classes[group.classes[planned.along].of[: planned.tree.nodes]]
