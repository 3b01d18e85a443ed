"""The cheapest way to cut a row of bins into intervals on offer."""

from __future__ import annotations

import numpy as np

from tabularium.mechanisms.arrays import Integers
from tabularium.mechanisms.kernels.compiled import compiled

_FAR = np.iinfo(np.int64).max


@compiled
def cheapest(costs: Integers, starts: Integers, stops: Integers, cells: int) -> Integers:
    """Return the places of the intervals of the cheapest partition, from left to right.

    Parameters
    ----------
    costs, starts, stops
        int64, shape (m,), sorted by ``stops``; half-open intervals within range(cells), each single bin
        among them. Sums of costs must fit in 63 bits: |cost| < 2^62 / cells is enough.

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
