"""Sources of answers: noisy measurements of a table, or its published cells.

Each knows the sums that :class:`~tabularium.mechanisms.queries.selection.Rows` asks for with their errors
(``select``). What mechanisms measured comes as linear measurements
(:mod:`tabularium.mechanisms.linear_measurements.linear_measurement`), one for each level of a hierarchy
(:func:`table_of`). Where they are noise on every cell, weighted least squares over all levels answers
(:class:`NoisyTable`); otherwise each level answers what it knows by least squares over all that was measured
there, and the levels are averaged by their variances (:class:`LinearTable`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Bools, Floats, Indices, Integers
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.inference import Hierarchy, TreeLeastSquares, consistency
from tabularium.mechanisms.inference.margins_of_error.half_widths import quantile
from tabularium.mechanisms.linear_measurements.linear_measurement import (
    SMALLEST_VARIANCE,
    LinearMeasurement,
    NoisyCells,
    Sums,
)
from tabularium.mechanisms.measured import Measured
from tabularium.mechanisms.queries.estimators import SelectedCells
from tabularium.mechanisms.queries.grammar import Query
from tabularium.mechanisms.queries.selection import Axes, Rows, distinct, numbered
from tabularium.mechanisms.registry import restore

MOST_COVARIANCES = 1 << 24
"""Numbers of covariances that are worked out for one answer."""


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
class MeasuredLevel:
    """What was measured at some nodes of a hierarchy, which together are above all leaves.

    Attributes
    ----------
    nodes
        (m,) which; ``[0]`` for a table without a hierarchy.
    measured
        The measurement of the table (m, *axes), or of its possible cells in a row.
    possible
        (m, *axes) which cells were measured; the others are exactly 0. None where all were.
    """

    nodes: Indices
    measured: LinearMeasurement
    possible: Bools | None = None


@dataclass(frozen=True, eq=False)
class NoisyTable:
    """Independent noisy measurements of a table: of its cells, or of several levels of its hierarchy.

    Weighted least squares over all of them gives every sum its best unbiased estimate and the exact variance.

    ``impossible``: (nodes, *axes) which cells are exactly zero; None where none is known to be.
    """

    axes: Axes
    measurements: tuple[Measurement, ...]
    impossible: Bools | None = None
    alternative: ClassVar[None] = None

    @property
    def method(self) -> str:
        """``noise`` where one level was measured, otherwise ``least squares``."""
        return "noise" if len(self.measurements) == 1 else "least squares"

    @property
    def of_leaves_alone(self) -> bool:
        """Whether there is nothing but one measurement of every leaf."""
        return len(self.measurements) == 1 and np.array_equal(self.measurements[0].nodes, self.axes.leaves)

    @cached_property
    def measured_variances(self) -> Floats:
        """(nodes,) variance with which each node was measured, infinite where it was not."""
        precision = np.zeros(len(self.axes.parents))
        for part in self.measurements:
            precision[part.nodes] += 1 / _weighable(part.variance)
        return np.divide(1, precision, out=np.full_like(precision, np.inf), where=precision > 0)

    @cached_property
    def estimated_variances(self) -> Floats:
        """(nodes,) variance of each node's least-squares estimate."""
        return self._squares.variances[:, 0]

    @cached_property
    def _squares(self) -> TreeLeastSquares:
        return TreeLeastSquares(Hierarchy(self.axes.parents), self.measured_variances[:, None])

    @property
    def least_variance(self) -> float:
        """The least variance with which a node was measured."""
        return float(self.measured_variances.min())

    @cached_property
    def estimates(self) -> Floats:
        """(nodes, *axes) least-squares estimates of all cells."""
        values = [part.values.reshape(len(part.nodes), -1) for part in self.measurements]
        return self._estimated(values).reshape(-1, *self.axes.shape)

    def _estimated(self, values: Sequence[NDArray[Any]]) -> Floats:
        """Return (nodes, columns) estimates from what was measured at the nodes of each measurement."""
        tree = self._squares.tree
        variances, blended = self.measured_variances[:, None], np.zeros((tree.nodes, values[0].shape[1]))
        if self.impossible is not None:
            variances = np.where(self.impossible.reshape(blended.shape), 0.0, variances)
        for part, own in zip(self.measurements, values, strict=True):
            blended[part.nodes] += variances[part.nodes] / _weighable(part.variance).reshape(-1, 1) * own
        return consistency(tree, blended, variances).values

    def select(self, rows: Rows) -> SelectedCells:
        """Return what is known of the sums of an answer."""
        if self.impossible is None:  # then estimates of sums over kinds of cells are sums of estimates
            sums = [rows.contracted(rows.kept(part.values)) for part in self.measurements]
            estimates = self._estimated(sums)
        else:
            estimates = rows.contracted(rows.kept(self.estimates))
        values = rows.summed(estimates[self.axes.leaves])
        scale, terms, none = None, None, np.zeros_like(values)
        if self.of_leaves_alone and (scale := self.measurements[0].scale) is not None:
            terms = rows.counted
            if self.impossible is not None:
                possible = rows.kept(self.possible.reshape(-1, *self.axes.shape))
                terms = rows.summed(rows.contracted(possible)).astype(np.int64)
        return SelectedCells(values, *self.variances(rows), none, none, terms, scale)

    def variances(self, rows: Rows) -> tuple[Floats, Floats]:
        """Return (rows, columns) variances, and by how much a whole number of noise may move each sum.

        Cells of the other axes have independent noise, of equal variances where the same leaves are chosen
        and possible.
        """
        step = np.zeros((len(rows.labels), rows.columns))
        used = np.flatnonzero((rows.of >= 0).any(axis=0))
        if not used.size:
            return np.zeros_like(step), step
        chosen, problem = distinct(rows.of[:, used] >= 0)
        squares, number, column = self._squares, rows.sizes[used], used
        if self.impossible is not None:
            # One least-squares problem for each choice of leaves with each pattern of exact zeros among them.
            exact, pattern = self._zeros
            cells = rows.kept(pattern.reshape(1, *self.axes.shape)).reshape(-1) * len(rows.sizes) + rows.kinds
            number = np.bincount(cells, minlength=exact.shape[1] * len(rows.sizes))
            number = number.reshape(exact.shape[1], -1)[:, used]
            at, place = np.nonzero(number)
            number, column, kinds = number[at, place], used[place], chosen.shape[1]
            problem, present = numbered(at * kinds + problem[place], exact.shape[1] * kinds)
            chosen, exact = chosen[:, present % kinds], exact[:, present // kinds]
            measured = np.where(exact, 0.0, self.measured_variances[:, None])
            squares = TreeLeastSquares(squares.tree, measured)
        below = np.zeros((squares.tree.nodes, chosen.shape[1]), bool)
        below[self.axes.leaves] = chosen[rows.leaves]
        variances = squares.sum_variances(below)
        # Different roots share no measurement, so that their variances add up.
        roots = variances[squares.tree.roots].sum(axis=0, keepdims=True)
        tops = roots if rows.tops is None else variances[rows.tops.nodes]
        label = rows.at_tops(np.maximum, rows.of[:, column], -1)
        spread = tops[:, problem]
        variance = rows.summed(spread * number, label)
        inside = label >= 0
        moved = np.minimum(1.0, np.sqrt(spread[inside] / self.least_variance))
        np.maximum.at(step.reshape(-1), label[inside], moved)
        return variance, step

    @cached_property
    def _zeros(self) -> tuple[Bools, Indices]:
        """(nodes, patterns) exact zeros, and which pattern each cell of the other axes has."""
        assert self.impossible is not None  # noqa: S101 - the caller has looked
        return distinct(self.impossible.reshape(len(self.axes.parents), -1))

    def parts(self, cells: Bools, rest: Bools) -> tuple[Floats, Floats]:
        """Return the estimates of two sums of (leaves, cells) without a common one, and covariances."""
        leaves = self.estimates[self.axes.leaves].reshape(cells.shape)
        first, other, both = (
            float(self.variances(Rows.one(self.axes, item))[0][0, 0]) for item in (cells, rest, cells | rest)
        )
        common = (both - first - other) / 2
        values = np.array([leaves[cells].sum(), leaves[rest].sum()])
        return values, np.array([[first, common], [common, other]])

    @property
    def possible(self) -> Bools:
        """(leaves, cells) which are not known to be exactly zero."""
        return _possible(self.axes, self.impossible)


@dataclass(frozen=True, eq=False)
class LinearTable:
    """Linear measurements of a table, of its cells or of several levels of its hierarchy.

    No noise is in two levels. Where a measurement was chosen by an earlier one, a row is answered from the
    one that knows it better, by variances that do not depend on what was drawn after the choice.

    ``impossible``: (nodes, *axes) which cells are exactly zero; None where none is known to be.
    """

    axes: Axes
    levels: tuple[MeasuredLevel, ...]
    impossible: Bools | None = None
    _estimates: dict[int, Floats] = field(default_factory=dict, repr=False)

    @property
    def method(self) -> str:
        """``least squares``, or ``chosen sums`` where an earlier measurement chose what was measured."""
        chosen = any(level.measured.chosen_by is not None for level in self.levels)
        return "chosen sums" if chosen else "least squares"

    @cached_property
    def least_variance(self) -> float:
        """The least variance of a noisy value."""
        return min(level.measured.least_variance for level in self.levels)

    @property
    def possible(self) -> Bools:
        """(leaves, cells) which are not known to be exactly zero."""
        return _possible(self.axes, self.impossible)

    @property
    def alternative(self) -> NoisyTable | None:
        """The noisy counts of all cells, where they may say more than levels averaged row by row."""
        return self.cells if len(self.levels) > 1 else None

    @cached_property
    def cells(self) -> NoisyTable | None:
        """The noisy counts of all cells among the measurements of every level, None if a level has none."""
        result = []
        for level in self.levels:
            cells = next(filter(None, (stage.single_cells() for stage in level.measured.stages())), None)
            if cells is None:
                return None
            result.append(_as_counts(cells, level.nodes, self.axes.shape, level.possible))
        return NoisyTable(self.axes, tuple(result), self.impossible)

    def select(self, rows: Rows) -> SelectedCells | None:
        """Return what is known of the sums of an answer; None if one is no combination of what was measured.

        Of several levels the single cells may say more of a row.
        """
        sums, result = rows.sums, None
        wide = sums.number * sums.columns > MOST_COVARIANCES
        if wide:  # every number by itself; their errors are bounded as if they went together
            sums = Sums(sums.of, sums.number)
        if (answered := self._answered(sums)) is not None:
            values, covariances = answered
            if wide:
                shape = len(rows.labels), rows.columns
                errors = np.sqrt(covariances[:, 0, 0]).reshape(shape)
                result = SelectedCells.at_worst(values.reshape(shape), errors)
            else:
                result = SelectedCells.joint(values, covariances, self.least_variance)
        if self.alternative is None:
            return result
        alone = self.alternative.select(rows)
        return alone if result is None else result.better_known(alone)

    def parts(self, cells: Bools, rest: Bools) -> tuple[Floats, Floats] | None:
        """Return the same of two sums; None where they are no combinations of what was measured."""
        result = self._answered(Sums(np.where(cells, 0, np.where(rest, 1, -1)).reshape(-1), 1, 2))
        return None if result is None else (result[0][0], result[1][0])

    def _answered(self, sums: Sums) -> tuple[Floats, Floats] | None:
        """Return (rows, columns) estimates and their covariances, None if a row has none."""
        trusted = np.zeros((sums.rows, 1))
        values = np.zeros((sums.rows, sums.columns))
        covariances = np.zeros((sums.rows, sums.columns, sums.columns))
        for level in self.levels:
            best, own, spread = self._at(level, sums)
            # Weights by the inverse of the variance; of several columns, of their sum of variances.
            trust = 1 / np.maximum(best, SMALLEST_VARIANCE)[:, None]
            trusted += trust
            values += trust * own
            covariances += trust[:, :, None] ** 2 * spread
        if not trusted.all():
            return None
        return values / trusted, covariances / trusted[:, :, None] ** 2

    def _at(self, level: MeasuredLevel, sums: Sums) -> tuple[Floats, Floats, Floats]:
        """Return a level's sums of variances, infinite where it knows nothing, estimates and covariances."""
        known, own = self._laid_over(level, sums)
        best = np.full(sums.rows, np.inf)
        values = np.zeros((sums.rows, sums.columns))
        covariances = np.zeros((sums.rows, sums.columns, sums.columns))
        for stage in level.measured.stages():
            able = known & stage.known(own).reshape(sums.rows, -1).all(axis=1)
            inside = (own.of >= 0) & able[own.of // sums.columns]
            spread = stage.covariances(Sums(np.where(inside, own.of, -1), sums.rows, sums.columns))
            total = np.where(able, np.einsum("ijj->i", spread), np.inf)
            better = total < best
            summed = np.bincount(own.of[inside], self._estimates_of(stage)[inside], sums.number)
            best[better], covariances[better] = total[better], spread[better]
            values[better] = summed.reshape(values.shape)[better]
        return best, values, covariances

    def _estimates_of(self, stage: LinearMeasurement) -> Floats:
        if id(stage) not in self._estimates:
            self._estimates[id(stage)] = stage.estimates()
        return self._estimates[id(stage)]

    def _laid_over(self, level: MeasuredLevel, sums: Sums) -> tuple[Bools, Sums]:
        """Return which rows are made of nodes of a level, and the sums over its measured cells."""
        every = sums.of.reshape(len(self.axes.leaves), -1)
        known = np.ones(sums.rows + 1, bool)
        if np.array_equal(level.nodes, self.axes.leaves):
            of = every
        else:
            node = _nodes_above(self.axes, level.nodes)
            order = np.argsort(node, kind="stable")
            starts = np.searchsorted(node[order], np.arange(len(level.nodes)))
            counted = np.ones((len(node), 1), bool)
            if self.impossible is not None:
                counted = ~self.impossible[self.axes.leaves].reshape(len(node), -1)
            # A cell that is exactly 0 may be in any sum.
            low = np.minimum.reduceat(np.where(counted, every, sums.number)[order], starts, axis=0)
            high = np.maximum.reduceat(np.where(counted, every, -2)[order], starts, axis=0)
            of = np.where(high >= -1, low, -1)
            mixed = (low != high) & (high >= -1)
            cut = mixed[node] & counted & (every >= 0)
            known[np.unique(every[cut] // sums.columns)] = False
            of = np.where(mixed, -1, of)
        of = of.reshape(-1) if level.possible is None else of.reshape(level.possible.shape)[level.possible]
        return known[:-1], Sums(of, sums.rows, sums.columns)


def _nodes_above(axes: Axes, nodes: Indices) -> Indices:
    """Return (leaves,) which of the nodes is above each leaf, or is the leaf."""
    place = np.full(len(axes.parents), -1, np.intp)
    place[nodes] = np.arange(len(nodes))
    above = axes.leaves.astype(np.intp)
    while (outside := place[above] < 0).any():
        above[outside] = axes.parents[above[outside]]
    return place[above]


def _weighable(variance: float | Floats) -> Floats:
    """Return variances by whose inverse can be weighted: noise that is always 0 has next to none."""
    return np.maximum(variance, SMALLEST_VARIANCE)


def _possible(axes: Axes, impossible: Bools | None) -> Bools:
    shape = len(axes.leaves), prod(axes.shape)
    return np.ones(shape, bool) if impossible is None else ~impossible[axes.leaves].reshape(shape)


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
    of_leaves_alone: ClassVar[bool] = False

    @property
    def method(self) -> str:
        """``published`` where the variances are exact, ``added up`` where margins are, ``unknown``."""
        if self.noise is not None:
            return "published"
        return "added up" if np.isfinite(self.rms_error[self.present]).all() else "unknown"

    def select(self, rows: Rows) -> SelectedCells:
        """Return what is known of the sums of an answer, from the fewest cells that make them up."""
        nodes, of = rows.at_nodes(self.present)

        def summed(cells: Floats | Integers) -> Floats:
            return rows.summed(rows.contracted(cells), of)

        values = summed(rows.kept(self.values[nodes]))
        if np.isnan(values).any():
            raise InputError(
                "needs cells that are suppressed in what is published",
                where="query",
                hint="ask for larger groups, or leave the suppressed cells out with where",
            )
        rms_error, margin = self.rms_error[nodes], rows.kept(self.margin[nodes])
        if rms_error.ndim == 1:
            rms_error = rms_error.reshape(-1, *[1] * (margin.ndim - 1))
        else:
            rms_error = rows.kept(rms_error)
        known = np.isfinite(rms_error)
        own = np.where(known, rms_error, 0.0)
        moved = summed(np.where(known, np.maximum(margin - quantile(self.level) * own, 0), 0))
        if self.noise is None:
            worst = np.broadcast_to(np.where(known, rms_error, np.inf), margin.shape)
            return SelectedCells.at_worst(values, summed(worst), moved)
        return SelectedCells(values, *self.noise.variances(rows), np.zeros_like(values), moved)


@dataclass(frozen=True, eq=False)
class PublishedCells:
    """Published numbers that do not add up, such as means: good for a row that is one cell.

    The axes are those of the counts, and one more of a single cell. ``values`` are not numbers where nothing
    is published.
    """

    axes: Axes
    values: Floats
    margin: Floats
    present: Bools
    level: float
    method: ClassVar[str] = "single cell"

    def select(self, rows: Rows) -> SelectedCells:
        """Return rows that are one published cell with their margins as ``moved``; not a number of others."""
        nodes, of = rows.at_nodes(self.present)
        one = rows.summed(np.broadcast_to(rows.sizes, of.shape), of)
        values, margin = (
            rows.summed(rows.contracted(rows.kept(item[nodes])), of) for item in (self.values, self.margin)
        )
        return SelectedCells.at_worst(np.where(one == 1, values, np.nan), np.zeros_like(values), margin)


@dataclass(frozen=True, eq=False)
class KnownSums:
    """Public numbers that a table's cells add up to exactly.

    ``groups``, (leaves, *axes), is the number that each cell is a part of; every cell is a part of one.
    """

    name: str
    groups: Indices
    values: Floats


class QuerySource(Protocol):
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
    """A table in memory, of all records; see :class:`QuerySource`."""

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
    """Return measurements of all levels as what queries are answered from; ``shape`` is that of a node's."""
    result = []
    for level in levels:
        if not isinstance(level.measured, NoisyCells):
            return LinearTable(axes, tuple(levels), impossible)
        result.append(_as_counts(level.measured, level.nodes, shape, level.possible))
    return NoisyTable(axes, tuple(result), impossible)


def noisy_cells(
    measured: Measured, nodes: Indices, shape: tuple[int, ...], possible: Bools | None = None
) -> Measurement | None:
    """Return the noisy counts, (m, *shape), in a measurement that margins can be made from, or None.

    ``possible``, (m, *shape): which cells were measured; the others are exactly 0. None where all were.
    """
    result = restore(measured).noisy_cells(measured)
    if result is None:
        return None
    cells = len(nodes) * prod(shape) if possible is None else int(possible.sum())
    return _as_counts(result, nodes, shape, possible) if result.cells == cells else None


def array_of_cells(measured: Measured, cells: int) -> str | None:
    """Return the name of the array that holds a noisy count of each of so many cells, None if none does.

    The numbers in the arrays are not looked at.
    """
    result = restore(measured).noisy_cells(measured)
    return result.array if result is not None and result.cells == cells else None


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
