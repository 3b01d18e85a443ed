"""Isotonic regression by pooling adjacent violators: O(n), one pass."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mechanisms.kernels.compiled import compiled

Floats = NDArray[np.float64]


@compiled
def pooled(values: Floats, weights: Floats) -> Floats:
    """Return the non-decreasing vector that is nearest to ``values`` in weighted squares.

    Parameters
    ----------
    values, weights
        Shape (n,); the weights are positive.
    """
    size = values.size
    sums = np.empty(size)  # of weight·value, for each pool so far
    heavy = np.empty(size)
    means = np.empty(size)
    stops = np.empty(size, dtype=np.int64)
    pools = 0
    for place in range(size):
        total, weight = weights[place] * values[place], weights[place]
        mean = values[place]
        while pools > 0 and means[pools - 1] >= mean:
            pools -= 1
            total += sums[pools]
            weight += heavy[pools]
            mean = total / weight
        sums[pools], heavy[pools], means[pools], stops[pools] = total, weight, mean, place + 1
        pools += 1
    fitted = np.empty(size)
    start = 0
    for pool in range(pools):
        fitted[start : stops[pool]] = means[pool]
        start = stops[pool]
    return fitted


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
