"""Segmentation of a sequence around means: a dynamic program with functional pruning.

The best segmentation of the first t levels is found for every t, from left to right. What is carried along
is, for each real number μ, the least cost of a segmentation whose last segment is represented by μ. It is a
lower envelope of parabolas, one for each place where that last segment may begin:

    size·(μ - mean)² + value,    value = cost before the segment + squared error inside it.

A new level adds the same term to all of them, so a parabola that lies above another one stays above it.
Each parabola is therefore kept only on the interval of μ where nothing beats it, and from now on it is
beaten wherever it exceeds the ceiling: the cost of beginning a new segment after this level. About ten
pieces are alive at a time, whatever the length, and nothing is given up: the search is exact.

Two problems share the kernel; they differ in the ceiling alone.

- A price for each segment, their number being free: the least cost so far, plus the price.
- A given number of segments, one layer for each: the least cost with one segment less.

Numbers. Levels are integers with n·max|level| <= 2^60, so that sums, and ``size·level - sum``, are exact in
64 bits; a squared error grows by (size·level - sum)²/(size·(size + 1)): a sum of positive terms without
cancellation, whatever the size of the levels. The ends of the intervals are kept relative to a level nearby
(``origin``), because at 2^40 a double no longer tells ends apart that lie close together. An end that a
rounding moves can only let a segmentation pass that costs as much up to such a rounding.

Source: Maidstone, Hocking, Rigaill, Fearnhead 2017 (FPOP); Rigaill 2015 (pDPA, number of segments given).
"""

from __future__ import annotations

from math import inf, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.kernels.compiled import compiled

Integers = NDArray[np.int64]
Starts = NDArray[np.int32]
Floats = NDArray[np.float64]

# A piece reaches from the end of the piece before it (the first one: from -inf) to its own end.
END, VALUE = 0, 1  # columns of ``reals``
SUM, BEGIN = 0, 1  # columns of ``wholes``


@compiled
def mean_layer(
    levels: Integers, price: float, before: Floats, first: int, reach: float
) -> tuple[Starts, Floats]:
    """Return, for every t, where the last segment of the best segmentation of ``levels[:t]`` begins.

    Parameters
    ----------
    levels
        Shape (n,), n·max|level| <= 2^60.
    price
        Of a segment; of no use when ``before`` is given.
    before
        Shape (n + 1,): least costs with one segment less; or shape (0,): the number of segments is free.
    first
        Where the last segment may begin at the earliest (with j segments: j - 1).
    reach
        How far a level may lie from the origin of the intervals before the origin is moved to it.

    Returns
    -------
    starts, costs
        Shape (n + 1,) each, of use from ``first + 1`` on. Costs hold the price of all segments but the first.
        Of equally good ones the earliest start is taken, hence few segments.
    """
    n = levels.size
    layered = before.size > 0
    starts, costs = np.zeros(n + 1, dtype=np.int32), np.zeros(n + 1, dtype=np.float64)
    # Two banks: the pieces now, and the pieces after the next level. One loop does it all, since calls for
    # each level would cost as much as the work.
    room, now, count = 64, 0, 1
    reals = np.zeros((2, room, 2), dtype=np.float64)
    wholes = np.zeros((2, room, 2), dtype=np.int64)
    _write(reals, wholes, 0, 0, inf, before[first] if layered else 0.0, 0, first)
    origin = levels[first]
    for t in range(first, n):
        level = levels[t]
        move = float(level - origin)
        if abs(move) > reach:
            _move_ends(reals, now, count, move)
            origin = level

        best, begin = inf, n  # add (level - μ)² to every piece, and find the least value
        for j in range(count):
            value = reals[now, j, VALUE]
            size = t - wholes[now, j, BEGIN]
            if size > 0:
                apart = float(size * level - wholes[now, j, SUM])
                value += apart * apart / (float(size) * (float(size) + 1.0))
                reals[now, j, VALUE] = value
            wholes[now, j, SUM] += level
            if value < best or (value == best and wholes[now, j, BEGIN] < begin):
                best, begin = value, wholes[now, j, BEGIN]
        starts[t + 1], costs[t + 1] = begin, best

        ceiling = before[t + 1] if layered else best + price
        then, kept = 1 - now, 0
        edge = left = -inf  # where the piece begins, and where the last one that was kept ends
        for j in range(count):
            low, high = edge, reals[now, j, END]
            edge = high
            value = reals[now, j, VALUE]
            if value > ceiling:
                continue
            size = t + 1 - wholes[now, j, BEGIN]
            share = 1.0 / float(size)
            middle = float(wholes[now, j, SUM] - size * origin) * share
            radius = sqrt((ceiling - value) * share)
            low, high = max(low, middle - radius), min(high, middle + radius)
            if low > high or (low == high and wholes[now, j, BEGIN] != begin):
                continue  # at a single point a neighbour costs the same: such pieces would pile up
            if low > left:  # in between, a segment that begins after this level is better
                kept = _write(reals, wholes, then, kept, low, ceiling, 0, t + 1)
            kept = _write(reals, wholes, then, kept, high, value, wholes[now, j, SUM], wholes[now, j, BEGIN])
            left = high
        if left < inf:
            kept = _write(reals, wholes, then, kept, inf, ceiling, 0, t + 1)
        now, count = then, kept
        if 2 * count + 1 > room:
            room *= 4
            reals, wholes = _wider(reals, room), _wider(wholes, room)
    return starts, costs


@compiled
def _write(
    reals: Floats, wholes: Integers, bank: int, place: int, end: float, value: float, total: int, begin: int
) -> int:
    """Write a piece; return the place after it."""
    reals[bank, place, END] = end
    reals[bank, place, VALUE] = value
    wholes[bank, place, SUM] = total
    wholes[bank, place, BEGIN] = begin
    return place + 1


@compiled
def _move_ends(reals: Floats, bank: int, count: int, move: float) -> None:
    for place in range(count):
        reals[bank, place, END] -= move


@compiled
def _wider(banks: NDArray[Any], room: int) -> NDArray[Any]:
    """Return the two banks with more room."""
    wider = np.zeros((2, room, 2), dtype=banks.dtype)
    for bank in range(2):
        for place in range(banks.shape[1]):  # assigning slices would take seconds to compile
            wider[bank, place, 0] = banks[bank, place, 0]
            wider[bank, place, 1] = banks[bank, place, 1]
    return wider


@compiled
def traced(starts: Starts) -> Integers:
    """Return where the segments begin, ascending, from the last starts of all beginnings of the sequence."""
    n = starts.size - 1
    count, end = 0, n
    while end > 0:
        end = starts[end]
        count += 1
    found = np.zeros(count, dtype=np.int64)
    end = n
    for place in range(count - 1, -1, -1):
        end = starts[end]
        found[place] = end
    return found
