"""What can be asked, and what an answer is made from: noisy measurements, or published cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Bools, Floats, Indices, Integers
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.inference import Hierarchy, TreeLeastSquares, consistency
from tabularium.mechanisms.inference.margins_of_error.half_widths import quantile
from tabularium.mechanisms.linear_measurements.linear_measurement import SMALLEST_VARIANCE, NoisyCells
from tabularium.mechanisms.measured import Measured
from tabularium.mechanisms.queries.grammar import Query
from tabularium.mechanisms.queries.linear_tables import LinearTable, MeasuredLevel
from tabularium.mechanisms.queries.query_plan import Plan
from tabularium.mechanisms.queries.selection import Axes, SelectedCells, Selection, laid_together
from tabularium.mechanisms.registry import restore


@dataclass(frozen=True, eq=False)
class Measurement:
    """Counts plus independent noise of one distribution, at some nodes of a hierarchy.

    Attributes
    ----------
    nodes
        (m,) which; ``[0]`` for a table without a hierarchy.
    values
        (m, *axes) what was measured.
    variance
        Of the noise in each cell; (m,) where it differs from node to node.
    scale
        Of the noise if it is discrete Laplace noise of one scale, otherwise None.
    """

    nodes: Indices
    values: Floats | Integers
    variance: float | Floats
    scale: float | None = None


@dataclass(frozen=True, eq=False)
class Alike:
    """Cells of the other axes that are exactly zero at the same nodes of the hierarchy.

    Attributes
    ----------
    cells
        (*axes) which.
    squares
        Least squares over the nodes; a variance of 0 where they are exactly zero, an infinite one where they
        were not measured.
    """

    cells: Bools
    squares: TreeLeastSquares


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """Independent noisy measurements of a table: of its cells, or of several levels of its hierarchy.

    Weighted least squares over all of them gives every sum its best unbiased estimate and the exact variance.

    Attributes
    ----------
    impossible
        (nodes, *axes) which cells are exactly zero; None where none is known to be.
    """

    axes: Axes
    measurements: tuple[Measurement, ...]
    impossible: Bools | None = None

    @property
    def method(self) -> str:
        """``noise`` where one level was measured, otherwise ``least squares``."""
        return "noise" if len(self.measurements) == 1 else "least squares"

    @cached_property
    def measured_variances(self) -> Floats:
        """(nodes,) variance with which each node was measured, infinite where it was not."""
        precision = np.zeros(len(self.axes.parents))
        for part in self.measurements:
            precision[part.nodes] += 1 / _weighable(part.variance)
        return np.divide(1, precision, out=np.full_like(precision, np.inf), where=precision > 0)

    @property
    def least_variance(self) -> float:
        """The least variance with which a node was measured."""
        return float(self.measured_variances.min())

    def parts(self, cells: Bools, rest: Bools) -> tuple[Floats, Floats]:
        """Return the estimates of two sums of (leaves, *axes) cells without a common one, and covariances."""
        leaves = self.estimates[self.axes.leaves]
        first, other, both = (self._variance(each) for each in (cells, rest, cells | rest))
        common = (both - first - other) / 2
        values = np.array([leaves[cells].sum(), leaves[rest].sum()])
        return values, np.array([[first, common], [common, other]])

    def _variance(self, cells: Bools) -> float:
        leaves, total = self.axes.leaves, 0.0
        for alike in self.alike:
            patterns, times = np.unique(cells[:, alike.cells].T, axis=0, return_counts=True)
            for pattern, number in zip(patterns, times, strict=True):
                chosen = np.zeros(len(self.axes.parents), bool)
                chosen[leaves[pattern]] = True
                own = alike.squares.sum_variances(chosen)
                total += int(number) * float(own[alike.squares.tree.roots].sum())
        return total

    @cached_property
    def estimated_variances(self) -> Floats:
        """(nodes,) variance of each node's least-squares estimate."""
        return self._squares.variances[:, 0]

    @cached_property
    def _squares(self) -> TreeLeastSquares:
        return TreeLeastSquares(Hierarchy(self.axes.parents), self.measured_variances[:, None])

    @cached_property
    def alike(self) -> tuple[Alike, ...]:
        """The cells of the other axes, by the nodes at which they are exactly zero; all if none is."""
        if self.impossible is None:
            every = np.ones(self.axes.shape, bool)
            return (Alike(every, self._squares),)
        tree, found = Hierarchy(self.axes.parents), []
        zero, of = np.unique(self.impossible.reshape(tree.nodes, -1), axis=1, return_inverse=True)
        for number, none in enumerate(zero.T):
            measured = np.where(none, 0.0, self.measured_variances)[:, None]
            cells = (of.ravel() == number).reshape(self.axes.shape)
            found.append(Alike(cells, TreeLeastSquares(tree, measured)))
        return tuple(found)

    def noise(self, selection: Selection) -> tuple[Floats, Floats]:
        """Return the variance of the sum of the chosen leaves and cells, and how far one number moves it.

        (groups,) of one cell, where none is impossible; otherwise (groups, *groups of each axis, cells).
        """
        least = self.least_variance
        total, step = np.zeros(1), np.zeros(1)
        for alike in self.alike:
            variance = selection.at_tops(alike.squares.sum_variances(selection.chosen))
            moved = np.minimum(1.0, np.sqrt(variance / least))
            if self.impossible is None:
                return variance, moved
            number = selection.contract(alike.cells[None])[0]
            total = total + np.multiply.outer(variance, number)
            step = np.maximum(step, np.multiply.outer(moved, number > 0))
        return total, step

    def select(self, plan: Plan) -> SelectedCells:
        """Return the cells that a plan asks for, one row for each combination of its groups.

        Raises
        ------
        InputError
            If the answer would have too many rows.
        """
        selection = Selection.of(plan, self.axes)
        estimates = sum(
            self._estimated(
                [selection.contract(np.where(alike.cells, part.values, 0)) for part in self.measurements],
                alike.squares,
            )
            for alike in self.alike
        )
        assert isinstance(estimates, np.ndarray)  # noqa: S101 - there is one kind of cells at least
        variance, step = self.noise(selection)
        sums = selection.leaf_sums(estimates).reshape(len(variance), *estimates.shape[1:])
        scale, terms = self._scale(), None
        if scale is not None and self.impossible is not None:
            terms = selection.leaf_sums(selection.contract(~self.impossible))
        return selection.rows(sums, variance, step, scale=scale, terms=terms)

    @cached_property
    def estimates(self) -> Floats:
        """(nodes, *axes) least-squares estimates of all cells."""
        parts = [np.asarray(part.values, float) for part in self.measurements]
        found = np.zeros((len(self.axes.parents), *self.axes.shape))
        for alike in self.alike:
            found[:, alike.cells] = self._estimated([each[:, alike.cells] for each in parts], alike.squares)
        return found

    def _estimated(self, parts: Sequence[Floats], squares: TreeLeastSquares) -> Floats:
        """Return (nodes, …) estimates from what was measured at the nodes of each measurement, (m, …)."""
        shape, measured = parts[0].shape[1:], squares.measured[:, 0]
        blended = np.zeros((len(measured), *shape))
        for part, values in zip(self.measurements, parts, strict=True):
            share = measured[part.nodes] / _weighable(part.variance)
            blended[part.nodes] += share.reshape(-1, *[1] * len(shape)) * values
        estimate = consistency(squares.tree, blended.reshape(len(measured), -1), measured)
        return estimate.values.reshape(blended.shape)

    @property
    def of_leaves_alone(self) -> bool:
        """Whether there is nothing but one measurement of every leaf."""
        return len(self.measurements) == 1 and np.array_equal(self.measurements[0].nodes, self.axes.leaves)

    def _scale(self) -> float | None:
        """Return the scale of the noise if there is nothing but one draw of it on every leaf."""
        return self.measurements[0].scale if self.of_leaves_alone else None


NoisySource = NoisyTable | LinearTable
"""Noisy measurements of a table."""


@dataclass(frozen=True, eq=False)
class PublishedTable:
    """The published cells of a table with their margins.

    Attributes
    ----------
    values, margin
        (nodes, *axes) counts, and their margins of error, infinite where nothing is known; of a suppressed
        cell the count is not a number.
    present
        (nodes,) which nodes are published; all leaves are.
    rms_error
        (nodes,) root mean squared error of a cell before what moved it; (nodes, *axes) where cells differ.
    level
        That the margins are stated for.
    noise
        The variances behind the cells where these are exactly known, as measurements whose values nobody
        looks at. None: errors may go together in any way, and are added up.
    """

    axes: Axes
    values: Floats | Integers
    margin: Floats
    present: Bools
    rms_error: Floats
    level: float
    noise: NoisyTable | None = None

    @property
    def method(self) -> str:
        """``published`` where the variances are exact, ``added up`` where margins are, ``unknown``."""
        if self.noise is not None:
            return "published"
        return "added up" if np.isfinite(self.rms_error[self.present]).all() else "unknown"

    def select(self, plan: Plan) -> SelectedCells:
        """Return the cells that a plan asks for, from the fewest published cells that make it up.

        Raises
        ------
        InputError
            If the answer would have too many rows, or needs a suppressed cell.
        """
        selection = Selection.of(plan, self.axes)
        nodes = largest_nodes(
            self.axes.parents, self.axes.depth, selection.chosen, self.present, selection.lowest_depth
        )
        groups = selection.groups_of(nodes)

        def summed(cells: NDArray[np.generic]) -> Floats:
            return selection.sums(selection.contract(cells), groups)

        rms_error = self.rms_error[nodes]
        if rms_error.ndim == 1:
            rms_error = rms_error.reshape(-1, *[1] * len(self.axes.shape))
        known = np.isfinite(rms_error)
        moved = np.maximum(self.margin[nodes] - quantile(self.level) * np.where(known, rms_error, 0.0), 0.0)
        values, all_moved = summed(self.values[nodes]), summed(np.where(known, moved, 0.0))
        if np.isnan(values).any():
            raise InputError(
                "needs cells that are suppressed in what is published",
                where="query",
                hint="ask for larger groups, or leave the suppressed cells out with where",
            )
        if self.noise is None:
            each = np.broadcast_to(np.where(known, rms_error, np.inf), moved.shape)
            return selection.rows(values, moved=all_moved, rms_error=summed(each))
        return selection.rows(values, *self.noise.noise(selection), moved=all_moved)


def selected(source: NoisyTable | PublishedTable, made: Sequence[Plan]) -> SelectedCells:
    """Return the cells of all plans, which share none, as the rows of one answer.

    Raises
    ------
    InputError
        As ``select``.
    """
    parts = [source.select(each) for each in made]
    if len(parts) == 1:
        return parts[0]
    some = np.array([Selection.of(each, source.axes).cells() > 0 for each in made])
    place = np.cumsum(some.any(axis=0)) - 1
    of = made[0].of
    masks = np.ones((len(made), 1), bool) if of is None else np.array([each.masks[of] for each in made])
    column = np.cumsum(masks.any(axis=0)) - 1
    shape = int(place[-1]) + 1, int(column[-1]) + 1
    return laid_together(parts, [place[each] for each in some], [column[each] for each in masks], shape)


def _weighable(variance: float | Floats) -> Floats:
    """Return variances by whose inverse can be weighted: noise that is always 0 has next to none."""
    return np.maximum(variance, SMALLEST_VARIANCE)


@dataclass(frozen=True, eq=False)
class PublishedCells:
    """Published numbers that do not add up, such as means: good for a row that is one cell.

    Attributes
    ----------
    axes
        Those of the counts, and one more of a single cell.
    values, margin
        (nodes, *axes) what is published, not a number where nothing is.
    present
        (nodes,) which nodes are published.
    level
        That the margins are stated for.
    """

    axes: Axes
    values: Floats
    margin: Floats
    present: Bools
    level: float
    method: ClassVar[str] = "single cell"

    @property
    def known(self) -> PublishedTable:
        """Of each cell 1, or far more where it has no number: a row that sums to 1 is one known cell."""
        number = np.where(np.isnan(self.values), 1e9, 1.0)
        return self._table(number, np.zeros(number.shape))

    @property
    def summed(self) -> PublishedTable:
        """Numbers and margins added up, which means something where it is one."""
        return self._table(np.nan_to_num(self.values), np.nan_to_num(self.margin, posinf=np.inf))

    def _table(self, values: Floats, margin: Floats) -> PublishedTable:
        nothing = np.zeros(len(self.present))
        return PublishedTable(self.axes, values, margin, self.present, nothing, self.level)


@dataclass(frozen=True, eq=False)
class KnownSums:
    """Public numbers that a table's cells add up to exactly.

    Attributes
    ----------
    name
        Of the invariant.
    groups
        (leaves, *axes) the number that each cell is a part of; every cell is a part of one.
    values
        (numbers,).
    """

    name: str
    groups: Indices
    values: Floats


class Askable(Protocol):
    """What can be asked: the counts of a table, or the array of one of its measures.

    What it knows is looked at only when it is the one asked for.
    """

    @property
    def name(self) -> str:
        """Of the table."""

    @property
    def axes(self) -> Axes:
        """Its attributes; those of an array of a measure end with the measure."""

    @property
    def noisy(self) -> NoisySource | None:
        """Its noisy measurements, where they are published and have a known distribution."""

    @property
    def published(self) -> PublishedTable | None:
        """Its published cells, where there are any that add up."""

    @property
    def single(self) -> PublishedCells | None:
        """Its published cells that do not add up."""

    @property
    def known(self) -> tuple[KnownSums, ...]:
        """Sums of its counts that are known exactly."""

    def asked(self, query: Query) -> Query | None:
        """Return a query as this table is asked it; None where it counts other records than are asked for."""


@dataclass(frozen=True, eq=False)
class QueryTable:
    """A table in memory, of all records; see :class:`Askable`."""

    name: str
    axes: Axes
    noisy: NoisySource | None = None
    published: PublishedTable | None = None
    single: PublishedCells | None = None
    known: tuple[KnownSums, ...] = ()

    def asked(self, query: Query) -> Query | None:
        """Return the query: all records are counted."""
        return query


def table_of(
    axes: Axes, levels: Sequence[MeasuredLevel], impossible: Bools | None, shape: tuple[int, ...]
) -> NoisySource:
    """Return measurements of all levels as what queries are answered from.

    Parameters
    ----------
    impossible
        (nodes, *axes) which cells are exactly zero; None where none is known to be.
    shape
        Of what was measured at a node.
    """
    found = []
    for level in levels:
        if not isinstance(level.measured, NoisyCells):
            return LinearTable(axes, tuple(levels), impossible)
        found.append(_as_counts(level.measured, level.nodes, shape, level.possible))
    return NoisyTable(axes, tuple(found), impossible)


def cells_of(table: LinearTable) -> NoisyTable | None:
    """Return the noisy counts of all cells among the measurements of every level, None if a level has none.

    Of single levels they say less than all measurements together. But over several levels they are averaged
    sum by sum, which may be better.
    """
    found = []
    for level in table.levels:
        cells = next(filter(None, (stage.single_cells() for stage in level.measured.stages())), None)
        if cells is None:
            return None
        found.append(_as_counts(cells, level.nodes, table.axes.shape, level.possible))
    return NoisyTable(table.axes, tuple(found), table.impossible)


def noisy_cells(
    measured: Measured, nodes: Indices, shape: tuple[int, ...], possible: Bools | None = None
) -> Measurement | None:
    """Return the noisy counts in a measurement that margins can be made from, or None.

    Parameters
    ----------
    measured
        What a mechanism drew.
    nodes
        (m,) the nodes that were measured.
    shape
        Of the other axes.
    possible
        (m, *shape) which cells were measured; the others are exactly 0. None where all were.
    """
    found = restore(measured).noisy_cells(measured)
    if found is None:
        return None
    cells = len(nodes) * prod(shape) if possible is None else int(possible.sum())
    return _as_counts(found, nodes, shape, possible) if found.cells == cells else None


def array_of_cells(measured: Measured, cells: int) -> str | None:
    """Return the name of the array that holds a noisy count of each of so many cells, None if none does.

    The numbers in the arrays are not looked at.
    """
    found = restore(measured).noisy_cells(measured)
    return found.array if found is not None and found.cells == cells else None


def _as_counts(
    found: NoisyCells, nodes: Indices, shape: tuple[int, ...], possible: Bools | None
) -> Measurement:
    values, (noise,) = found.values, found.noise
    if possible is not None:
        whole = np.zeros(possible.shape, values.dtype)
        whole[possible] = values.ravel()
        values = whole
    scale = noise.scale if noise.family == "laplace" else None
    return Measurement(nodes, values.reshape(len(nodes), *shape), noise.variance, scale)


def largest_nodes(
    parents: Integers,
    depth: Integers,
    chosen: Bools,
    present: Bools,
    lowest: int,
) -> Indices:
    """Return the fewest nodes, none above a given depth, that together are exactly the chosen leaves.

    Parameters
    ----------
    parents, depth
        (nodes,) of the tree; parents before their children.
    chosen
        (nodes,) which leaves are wanted.
    present
        (nodes,) which nodes may be used; all leaves may.
    lowest
        The smallest depth that a node may have, unless it is a leaf.

    Returns
    -------
    Node numbers, ascending.
    """
    inner = np.zeros(len(parents), bool)
    inner[parents[parents >= 0]] = True
    whole = np.where(inner, True, chosen)
    levels = [np.flatnonzero(depth == d) for d in range(int(depth.max()) + 1)]
    for nodes in reversed(levels[1:]):
        np.logical_and.at(whole, parents[nodes], whole[nodes])
    usable = whole & present & (~inner | (depth >= lowest))
    covered = np.zeros(len(parents), bool)
    for nodes in levels[1:]:
        above = parents[nodes]
        covered[nodes] = covered[above] | usable[above]
    return np.flatnonzero(usable & ~covered)
