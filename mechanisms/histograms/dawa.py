"""DAWA: choose intervals of even counts privately, all in one draw, then measure the sum of each.

Sensitivity and privacy: one record changes one cell, hence only the costs of the intervals that hold this
cell, each by at most 1 (around the median) or 2 (around the mean, rounded). ``Channel.partition`` then loses
ε1. Given the partition one record changes one sum, or one node of each level of the tree over the intervals:
the shares of ε2. Offered intervals and the price of noise depend only on the form of the table and the
budget.

O(n log² n) time around medians, O(n log n) around means; O(n) memory. Source: Li, Hay, Miklau, Wang 2014.
What its published code gets wrong and what differs: docs/reference/mechanisms/dawa.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf, log, prod, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.noisy_sums import addable
from tabularium.mechanisms.histograms.parameter_checks import one_of, share_of_budget, switch
from tabularium.mechanisms.histograms.segmentation import Centre, backtrack, grow_banks
from tabularium.mechanisms.inference import Hierarchy, consistency
from tabularium.mechanisms.inference.even_trees import one_tree
from tabularium.mechanisms.kernels.compiled import compiled
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

    Multiples of 2^-16 that add up to 1, that of the leaves above 0. Levels that are not worth measuring have
    0.

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


# Aligned intervals of a row of cells, each a whole piece of the next larger ones, and how uneven they are.
#
# An interval of rank k holds the cells whose indices differ in their last k·s binary digits only: b^k cells
# in a row for b = 2^s, fewer at the end of the row, or where the table leaves gaps in the curve that runs
# through it. Intervals that are the same as one of lower rank are left out. There are at most n·b/(b - 1).


_VALUE_BITS = 41  # of a count of at most 2^40
_SIGN = 63


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals of a row, rank after rank, each rank from left to right.

    Attributes
    ----------
    starts, stops
        Shape (m,): half-open.
    ranks
        One array per rank: where all its intervals begin, left-out ones too; the first rank is the cells.
    kept
        One array per rank: which of them are not left out.
    """

    starts: Integers
    stops: Integers
    ranks: tuple[Integers, ...]
    kept: tuple[NDArray[np.bool_], ...]


def aligned(digits: Integers, step: int) -> Intervals:
    """Return the intervals of a row.

    ``digits``: Shape (n - 1,): how many of the last digits tell each cell from the one before. ``step``: s: a
    rank more is s digits more.
    """
    cells = digits.size + 1
    ranks, kept = [np.arange(cells)], [np.ones(cells, dtype=np.bool_)]
    stops = [np.arange(1, cells + 1)]
    below = step
    while ranks[-1].size > 1:
        before = ranks[-1]
        here = np.append(0, 1 + np.flatnonzero(digits > below))
        ranks.append(here)
        stops.append(np.append(here[1:], cells))
        first = np.searchsorted(before, here)
        kept.append(np.diff(first, append=before.size) > 1)
        below += step
    return Intervals(
        np.concatenate([here[keep] for here, keep in zip(ranks, kept, strict=True)]),
        np.concatenate([stop[keep] for stop, keep in zip(stops, kept, strict=True)]),
        tuple(ranks),
        tuple(kept),
    )


def deviations(values: Integers, intervals: Intervals, centre: Centre, unit: int) -> Integers:
    """Return Σ|x - centre| of every interval, in units of 1/unit, as integers.

    NumPy only; O(n log n) for each rank around medians, O(n) around means.

    Parameters
    ----------
    values
        Counts, int64, shape (n,), 0 to 2^40; n times the largest allowed one at most 2^61. So no deviation is
        above 2^60: no value lies further than half of that one from its half.
    centre
        ``"median"``: exact. ``"mean"``: rounded to the nearest integer, halves downwards.
    unit
        1, 2 or 4.
    """
    result = [np.zeros(values.size, dtype=np.int64)]
    ascending = values
    for number, starts in enumerate(intervals.ranks[1:], 1):
        keep = intervals.kept[number]
        if centre == "median":
            ascending = _sorted_within(ascending, starts)
            result.append(_around_medians(ascending, starts, unit)[keep])
        else:
            result.append(_around_means(values, starts, unit)[keep])
    return np.concatenate(result)


def _sorted_within(values: Integers, starts: Integers) -> Integers:
    """Return the values, sorted within each interval."""
    sizes = np.diff(starts, append=values.size)
    if starts.size < 1 << (_SIGN - _VALUE_BITS):
        place = np.repeat(np.arange(starts.size) << _VALUE_BITS, sizes)
        return np.sort(values + place) - place
    order = np.lexsort((values, np.repeat(np.arange(starts.size), sizes)))
    return values[order]


def _around_medians(ascending: Integers, starts: Integers, unit: int) -> Integers:
    """Return the sum of the larger half minus that of the smaller half of each interval."""
    stops = np.append(starts[1:], ascending.size)
    half = (stops - starts) // 2
    sums = np.append(0, np.cumsum(ascending))
    result = (sums[stops] - sums[stops - half]) - (sums[starts + half] - sums[starts])
    return np.asarray(result * unit, dtype=np.int64)


def _around_means(values: Integers, starts: Integers, unit: int) -> Integers:
    """Return 2·Σ(x - mean) over the x above the mean of each interval.

    With the sum S = q·m + r of m cells it is 2·(A - c·q) - 2·c·r/m for c cells above q, of sum A. (A cell
    equal to q is not above the mean, one of q + 1 is.)
    """
    sizes = np.diff(starts, append=values.size)
    quotient, rest = np.divmod(np.add.reduceat(values, starts), sizes)
    above = values > np.repeat(quotient, sizes)
    number = np.add.reduceat(above.astype(np.int64), starts)
    amount = np.add.reduceat(np.where(above, values, 0), starts)
    share = (4 * unit * number * rest + sizes) // (2 * sizes)  # 2·unit·c·r/m, halves upwards
    return np.asarray(2 * unit * (amount - number * quotient) - share, dtype=np.int64)


# A piece reaches from the end of the piece before it (the first one: from -inf) to its own end.
END, VALUE, WEIGHT, MEAN = 0, 1, 2, 3


@compiled
def weighted_segments(numbers: Floats, weights: Floats, price: float) -> Integers:
    """Return where the segments begin that minimise Σ weight·(number - mean)² + price for each segment.

    ``numbers``, ``weights``: Shape (n,), n >= 1; weights are positive. The mean of a segment is the weighted
    one. ``price``: Positive.

    int64, shape (segments,), ascending from 0.
    """
    n = numbers.size
    last = np.zeros(n + 1, dtype=np.int32)
    room, now, count = 64, 0, 1
    pieces = np.zeros((2, room, 4), dtype=np.float64)
    begins = np.zeros((2, room, 1), dtype=np.int64)
    pieces[0, 0, END] = inf
    for t in range(n):
        number, weight = numbers[t], weights[t]
        best, begin = inf, t
        for j in range(count):
            held = pieces[now, j, WEIGHT]
            apart = number - pieces[now, j, MEAN]
            share = weight / (held + weight)
            pieces[now, j, VALUE] += held * share * apart * apart
            pieces[now, j, MEAN] += share * apart
            pieces[now, j, WEIGHT] = held + weight
            value = pieces[now, j, VALUE]
            if value < best or (value == best and begins[now, j, 0] < begin):
                best, begin = value, begins[now, j, 0]
        last[t + 1] = begin

        if 2 * count + 2 > room:
            room *= 4
            pieces, begins = grow_banks(pieces, room), grow_banks(begins, room)
        ceiling = best + price
        then, kept = 1 - now, 0
        edge = left = -inf  # where the piece begins, and where the last one that was kept ends
        for j in range(count):
            low, high = edge, pieces[now, j, END]
            edge = high
            value = pieces[now, j, VALUE]
            if value > ceiling:
                continue
            middle, radius = pieces[now, j, MEAN], sqrt((ceiling - value) / pieces[now, j, WEIGHT])
            low, high = max(low, middle - radius), min(high, middle + radius)
            if low > high or (low == high and begins[now, j, 0] != begin):
                continue
            if low > left:  # in between, a segment that begins after this number is better
                _open(pieces, begins, then, kept, low, ceiling, t + 1)
                kept += 1
            for column in range(1, 4):
                pieces[then, kept, column] = pieces[now, j, column]
            pieces[then, kept, END] = high
            begins[then, kept, 0] = begins[now, j, 0]
            kept += 1
            left = high
        if left < inf:
            _open(pieces, begins, then, kept, inf, ceiling, t + 1)
            kept += 1
        now, count = then, kept
    return backtrack(last)


@compiled
def _open(
    pieces: Floats, begins: Integers, bank: int, place: int, end: float, value: float, begin: int
) -> None:
    """Write a piece without numbers."""
    pieces[bank, place, END] = end
    pieces[bank, place, VALUE] = value
    pieces[bank, place, WEIGHT] = 0.0
    pieces[bank, place, MEAN] = 0.0
    begins[bank, place, 0] = begin


_DIGITS = 52  # of an index that a double holds exactly


def row_order(cells: int) -> tuple[Integers, Integers]:
    """Return the cells of a row in their order, and in how many digits each differs from the one before.

    The same form as ``hilbert_order``.
    """
    index = np.arange(cells)
    return index, _length(index[1:] ^ index[:-1])


def hilbert_order(shape: tuple[int, ...]) -> tuple[Integers, Integers]:
    """Return the cells of a table in the order of the curve.

    ``shape``: Sides of the table; those of one cell play no part.

    Returns
    -------
    order
        Shape (n,): flat positions, row-major.
    digits
        Shape (n - 1,): how many of the last binary digits of its index it takes to tell a cell from the one
        before it: two cells that differ in the last three digits and no others lie in one aligned piece of
        the curve of 2^3 places.
    """
    sides = tuple(side for side in shape if side > 1)
    if len(sides) < 2:
        return row_order(prod(shape))
    depth = max(side - 1 for side in sides).bit_length()
    axes = [axis.reshape(-1) for axis in np.indices(sides, dtype=np.int64)]
    _untwist(axes, depth)
    words = _words(axes, depth)
    order = np.lexsort([word for word, _ in reversed(words)])
    digits = np.zeros(order.size - 1, dtype=np.int64)
    below = 0
    for word, width in reversed(words):
        sorted_word = word[order]
        apart = _length(sorted_word[1:] ^ sorted_word[:-1])
        digits = np.where(apart > 0, apart + below, digits)
        below += width
    return order, digits


def _untwist(axes: list[Integers], depth: int) -> None:
    """Turn coordinates into the digits of the index, one array per axis, in place."""
    for level in range(depth - 1, 0, -1):
        lower = (1 << level) - 1
        for a in range(len(axes)):
            inside = (axes[a] >> level & 1) != 0
            swap = np.where(inside, 0, (axes[0] ^ axes[a]) & lower)
            axes[0] ^= np.where(inside, lower, swap)
            axes[a] ^= swap
    for a in range(1, len(axes)):
        axes[a] ^= axes[a - 1]
    flip = np.zeros_like(axes[0])
    for level in range(depth - 1, 0, -1):
        flip ^= np.where((axes[-1] >> level & 1) != 0, (1 << level) - 1, 0)
    for a in range(len(axes)):
        axes[a] ^= flip


def _words(axes: list[Integers], depth: int) -> list[tuple[Integers, int]]:
    """Return the index in words of some digits each, first digits first, with their numbers of digits."""
    levels = max(1, _DIGITS // len(axes))
    words = []
    for top in range(depth, 0, -levels):
        word, width = np.zeros_like(axes[0]), 0
        for level in range(top - 1, max(top - levels, 0) - 1, -1):
            for axis in axes:
                word = word << 1 | axis >> level & 1
                width += 1
        words.append((word, width))
    return words


def _length(numbers: Integers) -> Integers:
    """Return the number of binary digits of each; below 2^53."""
    return np.frexp(numbers.astype(np.float64))[1].astype(np.int64)
