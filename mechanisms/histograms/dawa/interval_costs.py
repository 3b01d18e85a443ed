"""Aligned intervals of a row of cells, each a whole piece of the next larger ones, and how uneven they are.

An interval of rank k holds the cells whose indices differ in their last k·s binary digits only: b^k cells in
a row for b = 2^s, fewer at the end of the row, or where the table leaves gaps in the curve that runs through
it. Intervals that are the same as one of lower rank are left out. There are at most n·b/(b - 1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Centre = Literal["mean", "median"]

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

    Parameters
    ----------
    digits
        Shape (n - 1,): how many of the last digits tell each cell from the one before.
    step
        s: a rank more is s digits more.
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
    found = [np.zeros(values.size, dtype=np.int64)]
    ascending = values
    for number, starts in enumerate(intervals.ranks[1:], 1):
        keep = intervals.kept[number]
        if centre == "median":
            ascending = _sorted_within(ascending, starts)
            found.append(_around_medians(ascending, starts, unit)[keep])
        else:
            found.append(_around_means(values, starts, unit)[keep])
    return np.concatenate(found)


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
    found = (sums[stops] - sums[stops - half]) - (sums[starts + half] - sums[starts])
    return np.asarray(found * unit, dtype=np.int64)


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
