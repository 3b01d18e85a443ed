"""DAWA: choose intervals of even counts privately, all in one draw, then measure the sum of each.

Sensitivity and privacy: one record changes one cell, hence only the costs of the intervals that hold this
cell, each by at most 1 (around the median) or 2 (around the mean, rounded). ``Channel.partition`` then loses
ε1. Given the partition one record changes one sum, or one node of each level of the tree over the intervals:
the shares of ε2. Intervals on offer and the price of noise depend on the form of the table and the budget
alone.

O(n log² n) time around medians, O(n log n) around means; O(n) memory. Source: Li, Hay, Miklau, Wang 2014.
What its published code gets wrong and what differs: docs/reference/mechanisms/dawa.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, log, prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.dawa_intervals import (
    Intervals,
    aligned,
    deviations,
    hilbert_order,
    row_order,
    weighted_segments,
)
from tabularium.mechanisms.histograms.noisy_sums import addable
from tabularium.mechanisms.histograms.parameter_checks import one_of, share_of_budget, switch
from tabularium.mechanisms.inference import Hierarchy, consistency
from tabularium.mechanisms.inference.even_trees import one_tree
from tabularium.mechanisms.linear_measurements.linear_measurement import LinearMeasurement
from tabularium.mechanisms.linear_measurements.noisy_tree import NoisyTree
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise_distributions import NoiseFamily, family_for, noise_in, noise_of, variance_of

_UNIT = 4  # steps of a cost per record
_SENSITIVITY = {"median": 1, "mean": 2}
_DEAREST = 1 << 40
_NO_NOISE = 1e-9
_CHILDREN = 2
_BRANCHINGS = (2, 4, 8, 16)


@dataclass(frozen=True)
class Dawa(Mechanism):
    """Private choice of a partition into even intervals, then noisy sums.

    Parameters
    ----------
    share
        Share of the budget for the partition; the sums get the rest.
    deviation
        What the unevenness of an interval is measured around: ``"median"``, or ``"mean"`` as in the paper,
        which needs twice the noise.
    branching
        b: intervals have 1, b, b², … cells, aligned. 2, 4, 8 or 16. By default 2 in a row and 2^d (at most
        16) along the curve through d dimensions, where intervals are then squares or cubes.
    order
        ``"hilbert"``: along Hilbert's curve. ``"rows"``: row by row. The same for one dimension.
    workload
        ``"cells"``: one noisy sum for each interval. ``"ranges"``: a tree of sums over them.
    merge
        Give neighbouring intervals one mean where their noisy sums do not speak against it. Not for ranges.
    nonnegative
        Release zero where a cell is below zero. Not for ranges, whose errors would no longer cancel.
    """

    share: Fraction = Fraction(1, 4)
    deviation: str = "median"
    branching: int | None = None
    order: str = "hilbert"
    workload: str = "cells"
    merge: bool = True
    nonnegative: bool = True

    name: ClassVar[str] = "dawa"

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", share_of_budget(self.share, "share"))
        one_of(self.deviation, ("median", "mean"), "deviation")
        if self.branching is not None and (
            type(self.branching) is not int or self.branching not in _BRANCHINGS
        ):
            raise MechanismError("there is no such branching", where="branching", hint="use 2, 4, 8 or 16")
        one_of(self.order, ("hilbert", "rows"), "order")
        one_of(self.workload, ("cells", "ranges"), "workload")
        switch(self.merge, "merge")
        switch(self.nonnegative, "nonnegative")

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Choose the partition, then measure its intervals with all that is left."""
        order, digits = self._row(counts.shape)
        row = addable(counts).reshape(-1)[order]
        starts = self._choose_starts(row, aligned(digits, self._step(counts.shape)), channel)
        meta: dict[str, Any] = {"shape": list(counts.shape)}
        sums = np.add.reduceat(row, starts)
        if self.workload == "cells":
            return {
                "starts": starts,
                "sums": channel.add_noise(sums, channel.remaining, purpose="sums"),
            }, meta
        measured, meta["levels"] = _measure_tree(sums, starts, row.size, channel)
        return {"starts": starts, "sums": measured}, meta

    def finish(self, measured: Measured) -> Release:
        """Return the intervals' means for each of their cells, float64, in the shape of the counts."""
        shape = tuple(measured.meta["shape"])
        starts, size = measured.arrays["starts"], prod(shape)
        widths = np.diff(starts, append=size)
        if self.workload == "ranges":
            means, parts = _from_tree(measured, starts.size) / widths, starts.size
        else:
            means, parts = self._merged(measured, widths)
        if self.nonnegative and self.workload == "cells":
            means = np.maximum(means, 0.0)
        values = np.empty(size)
        values[self._row(shape)[0]] = np.repeat(means, widths)
        return measured.release(
            values.reshape(shape),
            intervals=int(starts.size),
            widest_interval=int(widths.max()),
            parts=parts,
        )

    def linear_measurements(self, measured: Measured) -> LinearMeasurement | None:
        """Return the noisy sums of the intervals, or of the tree over them, which were chosen before."""
        shape, starts = tuple(measured.meta["shape"]), measured.arrays["starts"]
        interval = np.empty(prod(shape), np.intp)
        widths = np.diff(starts, append=interval.size)
        interval[self._row(shape)[0]] = np.repeat(np.arange(starts.size), widths)
        if self.workload == "cells":
            return NoisyTree.flat(interval, measured.arrays["sums"], noise_in(measured.transcript[-1]))
        return _noisy_tree(measured, interval, starts.size)

    def _row(self, shape: tuple[int, ...]) -> tuple[Counts, Counts]:
        """Return the cells in their order, and in how many digits each differs from the one before."""
        return hilbert_order(shape) if self.order == "hilbert" else row_order(prod(shape))

    def _step(self, shape: tuple[int, ...]) -> int:
        """Return log2 of the branching."""
        if self.branching is not None:
            return int(self.branching).bit_length() - 1
        dimensions = sum(side > 1 for side in shape) if self.order == "hilbert" else 1
        return min(max(dimensions, 1), len(_BRANCHINGS))

    def _choose_starts(self, row: Counts, intervals: Intervals, channel: Channel) -> Counts:
        """Return the first cell of each interval of a privately chosen partition."""
        spend = channel.remaining * self.share
        rest = channel.remaining - spend
        costs = deviations(row, intervals, "median" if self.deviation == "median" else "mean", _UNIT)
        chosen = channel.partition(
            costs + _price(rest, channel.definition),
            intervals.starts,
            intervals.stops,
            channel.pure_epsilon(spend),
            cells=row.size,
            sensitivity=_UNIT * _SENSITIVITY[self.deviation],
            purpose="partition",
        )
        return np.asarray(intervals.starts[chosen])

    def _merged(self, measured: Measured, widths: Counts) -> tuple[Floats, int]:
        """Return a mean for each interval, and the number of different parts."""
        sums = measured.arrays["sums"]
        own = sums / widths
        if not self.merge or own.size == 1:
            return own, int(own.size)
        variance = max(variance_of(measured.transcript[-1]), _NO_NOISE)
        width = widths.astype(np.float64)
        first = weighted_segments(own, width**2 / variance, max(2.0, 2 * log(own.size)))
        return _pooled(sums.astype(np.float64), width, first, variance)


def _pooled(sums: Floats, width: Floats, first: Counts, variance: float) -> tuple[Floats, int]:
    """Return the means of groups of intervals, the intervals' own where a group cannot be expected to gain.

    A group of k intervals and W cells in all errs, by its common mean, by Σ w·(true mean - common mean)² plus
    kv/W; the deviation of the noisy means overstates that of the true ones by v·(Σ1/w - k/W). Apart they err
    by v·Σ1/w.
    """
    members = np.diff(first, append=sums.size)
    total, cells = np.add.reduceat(sums, first), np.add.reduceat(width, first)
    mean = total / cells
    apart = variance * np.add.reduceat(1 / width, first)
    spread = np.add.reduceat(width * (sums / width - np.repeat(mean, members)) ** 2, first)
    keep = (spread - apart + 2 * variance * members / cells > apart) & (members > 1)
    parts = int(np.where(keep, members, 1).sum())
    return np.where(np.repeat(keep, members), sums / width, np.repeat(mean, members)), parts


def _price(rest: Fraction, definition: Definition) -> int:
    """Return what one more sum costs: the mean absolute value of its noise, in units of cost."""
    scale = 1 / float(rest) if definition == "pure" else (2 * float(rest)) ** -0.5
    return round(min(noise_of(family_for(definition), scale, whole=True).deviation * _UNIT, float(_DEAREST)))


def _measure_tree(sums: Counts, starts: Counts, cells: int, channel: Channel) -> tuple[Counts, list[int]]:
    """Return the noisy nodes of the levels that are worth it, root first, and which levels those are."""
    rest = channel.remaining
    shares = shares_of_levels(starts, cells, _CHILDREN, family_for(channel.definition))[::-1]
    noisy, measured = [], []
    for level, (nodes, share) in enumerate(
        zip(one_tree(starts.size, _CHILDREN).sums(sums), shares, strict=True)
    ):
        if share:
            noisy.append(channel.add_noise(nodes, rest * share, purpose=f"level {level + 1}"))
            measured.append(level)
    return np.concatenate(noisy), measured


def _noisy_tree(measured: Measured, interval: NDArray[np.intp], intervals: int) -> LinearMeasurement:
    """Return the noisy nodes down to the lowest level that was measured, the leaves of what is known."""
    tree, levels = one_tree(intervals, _CHILDREN), measured.meta["levels"]
    kept = tree.starts[: levels[-1] + 1]
    sizes = [starts.size for starts in kept]
    drawn = np.repeat([levels.index(d) if d in levels else -1 for d in range(len(kept))], sizes)
    values = np.zeros(drawn.size, np.int64)
    values[drawn >= 0] = measured.arrays["sums"]
    first = drawn.size - sizes[-1]
    noise = tuple(map(noise_in, measured.transcript[-len(levels) :]))
    leaf = first + np.searchsorted(kept[-1], interval, side="right") - 1
    return NoisyTree(values, noise, tree=Hierarchy(tree.parents[: drawn.size]), drawn=drawn, leaf=leaf)


def _from_tree(measured: Measured, intervals: int) -> Floats:
    """Return consistent sums of the intervals."""
    tree, levels = one_tree(intervals, _CHILDREN), measured.meta["levels"]
    events = dict(zip(levels, measured.transcript[-len(levels) :], strict=True))
    values, variances = np.zeros(tree.parents.size), np.full(tree.parents.size, inf)
    node = used = 0
    for level, starts in enumerate(tree.starts):
        if level in events:
            here = slice(node, node + starts.size)
            values[here] = measured.arrays["sums"][used : used + starts.size]
            variances[here] = variance_of(events[level])
            used += starts.size
        node += starts.size
    estimate = consistency(Hierarchy(tree.parents), values[:, None], variances)
    return np.asarray(estimate.values[-intervals:, 0])


_GRID = 128
_PARTS = 1 << 16


@dataclass(frozen=True, eq=False)
class Nodes:
    """What is known of the nodes of a level; each attribute has the shape (nodes,)."""

    a: Floats
    t: Floats
    b: Floats
    left: Floats
    right: Floats


def shares_of_levels(starts: Integers, cells: int, branching: int, noise: NoiseFamily) -> list[Fraction]:
    """Return the share of the budget of each level of the tree over the buckets, leaves first.

    Parameters
    ----------
    starts
        Shape (buckets,): first cell of each bucket, ascending from 0.
    cells
        Number of cells.
    branching
        Children of a node, the last of a level maybe fewer.
    noise
        Laplace: a variance falls with the square of the share; Gaussian: with the share.

    Returns
    -------
    Multiples of 2^-16 that add up to 1, that of the leaves above 0. Levels that are not worth measuring
    have 0.
    """
    nodes, edges = buckets(starts, cells), np.append(starts, cells)
    own: list[float] = [1.0]
    while nodes.a.size > 1:
        nodes, edges = _parents(nodes, branching), _every(edges, branching)
        share = _best_share(nodes, _covering(edges, branching), noise)
        nodes = _measured(nodes, *_factors(share, noise))
        own = [*(part * (1 - share) for part in own), share]
    parts = [round(part * _PARTS) for part in own]
    parts[0] = max(1, parts[0])
    parts[int(np.argmax(parts))] += _PARTS - sum(parts)
    return [Fraction(part, _PARTS) for part in parts]


def buckets(starts: Integers, cells: int) -> Nodes:
    """Return the leaves, each measured with the whole budget: variance 1."""
    width = np.diff(starts, append=cells).astype(np.float64)
    before = starts.astype(np.float64)
    after = cells - before - width
    squares = (width + 1) * (2 * width + 1) / (6 * width)  # Σ (c/w)² over c = 1..w
    inside = (width + 1) * squares - (width + 1) ** 2 / 4  # Σ (w - c + 1)·(c/w)²
    weight = before * after + (before + after) * squares + inside
    half = (width + 1) / 2
    return Nodes(weight, np.ones(width.size), weight, before + half, after + half)


def _parents(nodes: Nodes, branching: int) -> Nodes:
    """Return the parents before they are measured themselves."""
    first = np.arange(0, nodes.a.size, branching)
    a, t, b, left, right = (
        np.add.reduceat(part, first) for part in (nodes.a, nodes.t, nodes.b, nodes.left, nodes.right)
    )
    # Pairs of different children: with the left sums that lie before each child within its family.
    earlier = np.cumsum(nodes.left) - nodes.left
    earlier -= np.repeat(earlier[first], np.diff(first, append=nodes.a.size))
    return Nodes(a, t, b + 2 * np.add.reduceat(earlier * nodes.right, first), left, right)


def _every(edges: Integers, branching: int) -> Integers:
    """Return where the parents of a level's nodes begin, and where the last one ends."""
    return np.append(edges[:-1:branching], edges[-1])


def _covering(edges: Integers, branching: int) -> Floats:
    """Return for each node how many ranges cover all of its parent; none for a root."""
    nodes = edges.size - 1
    if nodes == 1:
        return np.zeros(1)
    above = _every(edges, branching).astype(np.float64)
    ranges = (above[:-1] + 1) * (above[-1] - above[1:] + 1)
    return np.repeat(ranges, branching)[:nodes]


def _factors(share: float, noise: str) -> tuple[float, float]:
    """Return f and μ."""
    power = 2 if noise == "laplace" else 1
    factor = 1 / (1 - share) ** power
    return factor, factor * share**power


def _best_share(nodes: Nodes, covering: Floats, noise: str) -> float:
    """Return the share of a level that makes the sum of its nodes' errors least, on a grid."""
    # The trees below a level's nodes are alike, so there are few values of t.
    values, which = np.unique(nodes.t, return_inverse=True)
    a = (nodes.a - covering * nodes.t).sum()
    b = np.bincount(which, weights=nodes.b - covering * nodes.t**2)
    best, result = float(a), 0.0
    for step in range(1, _GRID):
        factor, precision = _factors(step / _GRID, noise)
        error = factor * (a - (precision * b / (1 + precision * values)).sum())
        if error < best:
            best, result = float(error), step / _GRID
    return result


def _measured(nodes: Nodes, factor: float, precision: float) -> Nodes:
    """Return the nodes with a measurement of their own."""
    down = factor / (1 + precision * nodes.t)
    return Nodes(
        factor * (nodes.a - precision * nodes.b / (1 + precision * nodes.t)),
        down * nodes.t,
        down**2 * nodes.b,
        down * nodes.left,
        down * nodes.right,
    )
