"""Aligned intervals of a row of cells, each a whole piece of the next larger ones, and how uneven they are.

An interval of rank k holds the cells whose indices differ in their last k·s binary digits only: b^k cells in
a row for b = 2^s, fewer at the end of the row, or where the table leaves gaps in the curve that runs through
it. Intervals that are the same as one of lower rank are left out. There are at most n·b/(b - 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.histograms.segmentation import Centre, backtrack, grow_banks
from tabularium.mechanisms.kernels.compiled import compiled

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

    Parameters
    ----------
    values
        Counts, int64, shape (n,), 0 to 2^40; n times the largest allowed one at most 2^61. So no deviation is
        above 2^60: no value lies further than half of that one from its half.
    centre
        ``"median"``: exact. ``"mean"``: rounded to the nearest integer, halves downwards.
    unit
        1, 2 or 4.

    NumPy only; O(n log n) for each rank around medians, O(n) around means.
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

    Returns
    -------
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
