"""Isotonic regression of every beginning of a list, in one pass by pooling adjacent violators: O(n)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.kernels.compiled import compiled

Floats = NDArray[np.float64]


@compiled
def explained(values: Floats) -> Floats:
    """Return how much of Σ value² the best non-increasing vector without negatives explains, for each head.

    The head of g values is fitted by isotonic regression and cut off at zero; what is left of its squares
    then is Σ value² - explained[g].

    Parameters
    ----------
    values
        Shape (n,).

    Returns
    -------
    Shape (n + 1,), explained[0] = 0.
    """
    size = values.size
    sums = np.empty(size)
    heavy = np.empty(size)
    means = np.empty(size)
    so_far = np.zeros(size + 1)  # explained by the pools up to each one
    found = np.zeros(size + 1)
    pools = 0
    for place in range(size):
        total, weight, mean = values[place], 1.0, values[place]
        while pools > 0 and means[pools - 1] <= mean:
            pools -= 1
            total += sums[pools]
            weight += heavy[pools]
            mean = total / weight
        sums[pools], heavy[pools], means[pools] = total, weight, mean
        so_far[pools + 1] = so_far[pools] + max(mean, 0.0) * max(total, 0.0)
        pools += 1
        found[place + 1] = so_far[pools]
    return found
