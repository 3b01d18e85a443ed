"""Greedy clusters of ascending counts by squared error: the second loop of AHP.

A cluster of m counts that is released as its noisy mean has the expected squared error

    Σ(h - mean)² + v/m,

v being the variance of the noise of its sum. A count h that does not join the cluster before it opens one of
its own; there it costs at least the least, over the lengths m of that cluster, of

    (h - mean of h and the m - 1 counts after it)² + v/m².

It joins when the cluster's error with it is below the error without it plus that least.

Source: Zhang, Chen, Xu, Meng, Xie 2014, section 4.2 (greedy clustering).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.kernels.compiled import compiled

Floats = NDArray[np.float64]

_EVERY = 3


@compiled
def cluster_starts(ascending: Floats, variance: float) -> NDArray[np.int64]:
    """Return where the clusters of a greedy scan begin.

    Parameters
    ----------
    ascending
        Shape (n,), n >= 1.
    variance
        v, of the noise of a cluster's sum.

    Returns
    -------
    int64, shape (clusters,): the position of each cluster's first count, from 0. O(n log n).
    """
    size = ascending.size
    sums = np.zeros(size + 1)
    for here in range(size):
        sums[here + 1] = sums[here] + ascending[here]
    starts = np.empty(size, dtype=np.int64)
    starts[0] = 0
    clusters = 1
    members, mean, spread, error = 1.0, ascending[0], 0.0, variance
    for here in range(1, size):
        apart = ascending[here] - mean
        more = members + 1.0
        wider = spread + apart * apart * members / more
        joined = wider + variance / more
        if joined < error + least_error(ascending, sums, here, variance):
            members, mean, spread, error = more, mean + apart / more, wider, joined
        else:
            starts[clusters] = here
            clusters += 1
            members, mean, spread, error = 1.0, ascending[here], 0.0, variance
    return starts[:clusters].copy()


@compiled
def least_error(ascending: Floats, sums: Floats, here: int, variance: float) -> float:
    """Return the least that the count at ``here`` costs in a cluster that begins with it.

    All lengths up to nine are tried, and from there on each an eighth longer than the one before, where the
    published code tries every one: with many equal counts that takes it O(n) for each of them. The first
    term only rises with the length; once it outweighs all that the second can still fall by, the search
    ends.
    """
    left = ascending.size - here
    count = ascending[here]
    smallest = variance / (float(left) * float(left))
    best = variance
    length = 1
    while length < left:
        length = min(length + 1 + (length >> _EVERY), left)
        apart = count - (sums[here + length] - sums[here]) / length
        moved = apart * apart
        if moved + smallest >= best:
            break
        best = min(best, moved + variance / (float(length) * float(length)))
    return best
