"""Segmentation of a sequence of weighted numbers around means: the search of ``mean_segments`` for weights.

What is carried along is, for each real μ, the least cost of a segmentation whose last segment is represented
by μ: a lower envelope of parabolas weight·(μ - mean)² + value, one for each place where that last segment may
begin. Each is kept on the interval of μ where nothing beats it. The search is exact, but for the rounding of
floating-point numbers.

Source: Maidstone, Hocking, Rigaill, Fearnhead 2017 (FPOP).
"""

from __future__ import annotations

from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.kernels.compiled import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

# A piece reaches from the end of the piece before it (the first one: from -inf) to its own end.
END, VALUE, WEIGHT, MEAN = 0, 1, 2, 3


@compiled
def weighted_segments(numbers: Floats, weights: Floats, price: float) -> Integers:
    """Return where the segments begin that minimise Σ weight·(number - mean)² + price for each segment.

    Parameters
    ----------
    numbers, weights
        Shape (n,), n >= 1; weights are positive. The mean of a segment is the weighted one.
    price
        Positive.

    Returns
    -------
    int64, shape (segments,), ascending from 0.
    """
    n = numbers.size
    last = np.zeros(n + 1, dtype=np.int64)
    room, now, count = 64, 0, 1
    pieces = np.zeros((2, room, 4), dtype=np.float64)
    begins = np.zeros((2, room), dtype=np.int64)
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
            if value < best or (value == best and begins[now, j] < begin):
                best, begin = value, begins[now, j]
        last[t + 1] = begin

        if 2 * count + 2 > room:
            room *= 4
            pieces, begins = _roomier(pieces, begins, room)
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
            if low > high or (low == high and begins[now, j] != begin):
                continue
            if low > left:  # in between, a segment that begins after this number is better
                _open(pieces, begins, then, kept, low, ceiling, t + 1)
                kept += 1
            for column in range(1, 4):
                pieces[then, kept, column] = pieces[now, j, column]
            pieces[then, kept, END] = high
            begins[then, kept] = begins[now, j]
            kept += 1
            left = high
        if left < inf:
            _open(pieces, begins, then, kept, inf, ceiling, t + 1)
            kept += 1
        now, count = then, kept
    return _traced(last)


@compiled
def _open(
    pieces: Floats, begins: Integers, bank: int, place: int, end: float, value: float, begin: int
) -> None:
    """Write a piece without numbers."""
    pieces[bank, place, END] = end
    pieces[bank, place, VALUE] = value
    pieces[bank, place, WEIGHT] = 0.0
    pieces[bank, place, MEAN] = 0.0
    begins[bank, place] = begin


@compiled
def _roomier(pieces: Floats, begins: Integers, room: int) -> tuple[Floats, Integers]:
    """Return the two banks with more room."""
    wider = np.zeros((2, room, 4), dtype=np.float64)
    longer = np.zeros((2, room), dtype=np.int64)
    for bank in range(2):
        for place in range(begins.shape[1]):
            longer[bank, place] = begins[bank, place]
            for column in range(4):
                wider[bank, place, column] = pieces[bank, place, column]
    return wider, longer


@compiled
def _traced(last: Integers) -> Integers:
    """Return where the segments begin, from where the last one of every beginning begins."""
    count, end = 0, last.size - 1
    while end > 0:
        end = last[end]
        count += 1
    found = np.zeros(count, dtype=np.int64)
    end = last.size - 1
    for place in range(count - 1, -1, -1):
        end = last[end]
        found[place] = end
    return found
