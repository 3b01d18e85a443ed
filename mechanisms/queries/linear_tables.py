"""Tables of which linear measurements were made that are not noise on every cell, such as sums of ranges.

Each level of a hierarchy answers by least squares over all that was measured there, and what several levels
say of a row is averaged by their variances.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats, Indices, Integers
from tabularium.mechanisms.linear_measurements.linear_measurement import (
    SMALLEST_VARIANCE,
    LinearMeasurement,
    Sums,
)
from tabularium.mechanisms.queries.query_plan import Plan
from tabularium.mechanisms.queries.selection import Axes, SelectedCells

MOST_COVARIANCES = 1 << 24
"""Numbers of covariances that are worked out for one answer."""


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
class LinearTable:
    """Linear measurements of a table, of its cells or of several levels of its hierarchy.

    No noise is in two levels. Where a measurement was chosen by an earlier one, a row is answered from the
    one that knows it better, by variances that do not depend on what was drawn after the choice.

    Attributes
    ----------
    impossible
        (nodes, *axes) which cells are exactly zero; None where none is known to be.
    """

    axes: Axes
    levels: tuple[MeasuredLevel, ...]
    impossible: Bools | None = None
    _estimates: dict[int, Floats] = field(default_factory=dict, repr=False)

    @property
    def method(self) -> str:
        """``least squares``, or ``chosen sums`` where noise decided which sums were measured."""
        chosen = any(level.measured.chosen_by is not None for level in self.levels)
        return "chosen sums" if chosen else "least squares"

    def select(self, made: Sequence[Plan]) -> SelectedCells | None:
        """Return the cells that plans ask for, which share none, one row for each combination of groups.

        None where a row is no combination of what was measured.
        """
        sums = _sums_of(made, self.axes)
        wide = sums.number * sums.columns > MOST_COVARIANCES
        if wide:  # every number by itself; their errors are bounded as if they went together
            sums = Sums(sums.of, sums.number)
        found = self._answered(sums)
        if found is None:
            return None
        values, covariances = found
        if wide:
            values, errors = (
                each.reshape(-1, _columns(made)) for each in (values, np.sqrt(covariances[:, 0, 0]))
            )
            return SelectedCells(values, 0 * errors, 0 * errors, errors, 0 * errors)
        variance = np.einsum("ijj->ij", covariances)
        step = np.minimum(1.0, np.sqrt(variance / self.least_variance))
        nothing = np.zeros_like(values)
        return SelectedCells(
            values,
            variance,
            step,
            nothing,
            nothing,
            covariances=covariances,
            least_variance=self.least_variance,
        )

    @cached_property
    def least_variance(self) -> float:
        """The least variance of a noisy value."""
        return min(level.measured.least_variance for level in self.levels)

    def parts(self, cells: Bools, rest: Bools) -> tuple[Floats, Floats] | None:
        """Return the estimates of two sums of (leaves, *axes) cells that share none, and their covariances.

        None where they are no combinations of what was measured.
        """
        found = self._answered(Sums(np.where(cells, 0, np.where(rest, 1, -1)).reshape(-1), 1, 2))
        return None if found is None else (found[0][0], found[1][0])

    def _answered(self, sums: Sums) -> tuple[Floats, Floats] | None:
        """Return (rows, columns) estimates and their covariances, None if a row has none."""
        known = np.zeros((sums.rows, 1))
        values = np.zeros((sums.rows, sums.columns))
        covariances = np.zeros((sums.rows, sums.columns, sums.columns))
        for level in self.levels:
            here, own, spread = self._at(level, sums)
            rows = np.flatnonzero(here)
            # Weights by the inverse of the variance; of several columns, of their sum of variances.
            trust = 1 / np.maximum(np.einsum("ijj->i", spread[rows]), SMALLEST_VARIANCE)
            known[rows, 0] += trust
            values[rows] += trust[:, None] * own[rows]
            covariances[rows] += (trust**2)[:, None, None] * spread[rows]
        if not known.all():
            return None
        return values / known, covariances / known[:, :, None] ** 2

    def _at(self, level: MeasuredLevel, sums: Sums) -> tuple[Bools, Floats, Floats]:
        """Return of every row whether a level knows it, and if so the estimates and covariances."""
        known, own = self._laid_over(level, sums)
        values = np.zeros((sums.rows, sums.columns))
        covariances = np.zeros((sums.rows, sums.columns, sums.columns))
        best = np.full(sums.rows, np.inf)
        for stage in level.measured.stages():
            able = known & stage.known(own).reshape(sums.rows, -1).all(axis=1)
            if not able.any():
                continue
            kept = np.flatnonzero(able)
            part = _only(own, able)
            spread = stage.covariances(part)
            total = np.einsum("ijj->i", spread)
            better = total < best[kept]
            rows = kept[better]
            best[rows] = total[better]
            covariances[rows] = spread[better]
            inside = part.of >= 0
            summed = np.bincount(part.of[inside], self._estimates_of(stage)[inside], part.number)
            values[rows] = summed.reshape(-1, sums.columns)[better]
        return np.isfinite(best), values, covariances

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


def _only(sums: Sums, rows: Bools) -> Sums:
    """Return some rows of sums."""
    if rows.all():
        return sums
    place = np.cumsum(rows) - 1
    row = np.maximum(sums.of, 0) // sums.columns
    of = np.where((sums.of >= 0) & rows[row], place[row] * sums.columns + sums.of % sums.columns, -1)
    return Sums(of, int(rows.sum()), sums.columns)


def _nodes_above(axes: Axes, nodes: Indices) -> Indices:
    """Return (leaves,) which of the nodes is above each leaf, or is the leaf."""
    place = np.full(len(axes.parents), -1, np.intp)
    place[nodes] = np.arange(len(nodes))
    above = axes.leaves.astype(np.intp)
    while (outside := place[above] < 0).any():
        above[outside] = axes.parents[above[outside]]
    return place[above]


def _columns(made: Sequence[Plan]) -> int:
    of = made[0].of
    return 1 if of is None else int(np.logical_or.reduce([plan.masks[of] for plan in made]).sum())


def _sums_of(made: Sequence[Plan], axes: Axes) -> Sums:
    """Return (leaves, *axes) cells, flat, as sums: rows of the answer by chosen cells of what is measured."""
    first = int(axes.tree is None)  # a table without a hierarchy has one leaf
    shape = (len(axes.leaves), *axes.shape)

    def along(place: int, numbers: Integers | Bools) -> Integers:
        return np.asarray(numbers, np.int64).reshape(
            [-1 if axis == place + first else 1 for axis in range(len(shape))]
        )

    chosen = np.zeros(shape, bool)
    for plan in made:
        chosen |= _outer((along(place, mask) for place, mask in enumerate(plan.masks)), shape)
    row, by, of = np.zeros(shape, np.intp), made[0].by, made[0].of
    for place, groups in by:
        row *= len(groups.codes)
        row += along(place, groups.of)
    _, found = np.unique(row[chosen], return_inverse=True)
    columns = _columns(made)
    if of is not None:
        mask = np.logical_or.reduce([plan.masks[of] for plan in made])
        column = np.broadcast_to(along(of, np.cumsum(mask) - 1), shape)[chosen]
        found = found * columns + column
    sums = np.full(shape, -1, np.intp)
    sums[chosen] = found
    return Sums(sums.reshape(-1), int(found.max(initial=-1)) // columns + 1, columns)


def _outer(masks: Iterable[Integers], shape: tuple[int, ...]) -> Bools:
    found = np.ones(shape, bool)
    for mask in masks:
        found &= mask.astype(bool)
    return found
