"""The least noisy partition: of all ways to cut a row of bins into given intervals, the cheapest under noise.

Every interval on offer has an integer cost. Discrete Laplace noise of scale 2Δ/ε is added to each, and the
partition whose noisy costs add up to the least is the output; the noisy costs themselves are not.

Why the loss is at most ε. Let one record change costs such that there are weights w on the bins, Σw <= Δ,
with |change of an interval's cost| <= Σ of w over its bins. (A record that moves by at most Δ the costs of
intervals that hold its bin, and no others, has w = Δ on that bin.) Take the noise at which a partition B
wins, and lower the noise of each interval of B by 2·(its share of w). For the neighbour, B then still wins:
against another partition P, consider the bins where they differ. There B became cheaper by 2w(bins) from
the shift, after it became dearer by at most w(bins), and P became cheaper by at most w(bins); ties fall as
before. The map is one to one, and shifts noise by 2Σw <= 2Δ in all, so it changes probabilities by e^ε at
most.

Source: Li, Hay, Miklau, Wang 2014 (DAWA), whose proof this makes exact; they draw Lap(4/ε) for Δ = 2.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tabularium.mechanisms.arrays import LARGEST_SUM, Integers
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.kernels.compiled import compiled


def checked_intervals(
    costs: ArrayLike, starts: ArrayLike, stops: ArrayLike, cells: int, where: str
) -> tuple[Integers, Integers, Integers]:
    """Return costs, starts and stops as int64, or say what is wrong with them.

    Every single bin must be on offer, so that there is always a partition; intervals are half-open.
    """
    cost, start, stop = (np.asarray(item) for item in (costs, starts, stops))
    if cost.ndim != 1 or cost.shape != start.shape or cost.shape != stop.shape or cost.size == 0:
        raise MechanismError("intervals need a cost, a start and a stop each", where=where)
    if any(item.dtype.kind != "i" for item in (cost, start, stop)):
        raise MechanismError("costs and ends of intervals must be signed integers", where=where)
    if int(start.min()) < 0 or int(stop.max()) > cells or bool((stop <= start).any()):
        raise MechanismError("an interval is empty or does not lie in the row of bins", where=where)
    if np.unique(start[stop - start == 1]).size != cells:
        raise MechanismError("every single bin must be an interval on offer", where=where)
    bound = LARGEST_SUM // cells  # clipping at a public bound brings no two costs further apart
    clipped = np.clip(cost.astype(np.int64), -bound, bound)
    return clipped, start.astype(np.int64), stop.astype(np.int64)


def least_partition(costs: Integers, starts: Integers, stops: Integers, cells: int) -> Integers:
    """Return the numbers of the intervals of the cheapest partition, from left to right.

    Of several cheapest, the one whose last interval comes first in the given order, and so on leftwards.
    """
    order = np.argsort(stops, kind="stable")
    chosen = cheapest(costs[order], starts[order], stops[order], cells)
    return np.asarray(order[chosen], dtype=np.int64)


def weight_of_change(changes: Integers, starts: Integers, stops: Integers, cells: int) -> int:
    """Return the least Σw such that every |change| is at most the sum of w over its interval's bins.

    A linear program; for audits, where there are few bins. Its matrix is one of intervals, hence totally
    unimodular, so the least sum is a whole number.
    """
    from scipy.optimize import linprog

    changed = np.flatnonzero(changes)
    if changed.size == 0:
        return 0
    bins = np.arange(cells)
    inside = (starts[changed, None] <= bins) & (bins < stops[changed, None])
    result = linprog(
        np.ones(cells), A_ub=-inside.astype(np.float64), b_ub=-np.abs(changes[changed]).astype(np.float64)
    )
    return round(float(result.fun))


_FAR = np.iinfo(np.int64).max


@compiled
def cheapest(costs: Integers, starts: Integers, stops: Integers, cells: int) -> Integers:
    """Return the places of the intervals of the cheapest partition, from left to right.

    ``costs``, ``starts``, ``stops``: int64, shape (m,), sorted by ``stops``; half-open intervals within
    range(cells), each single bin among them. Sums of costs must fit in 63 bits: |cost| < 2^62 / cells is
    enough.

    A dynamic program over the ends; O(m + cells). Of several cheapest, the one with the earliest place.
    """
    best = np.full(cells + 1, _FAR)
    through = np.full(cells + 1, -1)
    best[0] = 0
    for place in range(costs.size):
        start, stop = starts[place], stops[place]
        total = best[start] + costs[place]
        if through[stop] < 0 or total < best[stop]:
            best[stop] = total
            through[stop] = place
    count, end = 0, cells
    while end > 0:
        end = starts[through[end]]
        count += 1
    chosen = np.empty(count, dtype=np.int64)
    end = cells
    while end > 0:
        count -= 1
        chosen[count] = through[end]
        end = starts[through[end]]
    return chosen
