"""HPartition of the paper, which is not private: what the private one is compared with."""

from __future__ import annotations

from bisect import insort
from heapq import heappop, heappush

import numpy as np
from numpy.typing import ArrayLike

from tabularium.mechanisms.arrays import Integers
from tabularium.mechanisms.histograms.p_hpartition import Frontier

_LARGEST_COUNT = 1 << 40


def hpartition_without_privacy(counts: ArrayLike, price: float) -> list[Integers]:
    """Return the partitions that HPartition goes through. **Not private**: for study and for tests.

    It begins with one part. Of all bisections of all parts it carries out the one that lowers the sum of
    absolute deviations most, as long as that is more than ``price``, the cost of one part more.

    Parameters
    ----------
    counts
        Whole numbers from 0 to 2^40, shape (n,).
    price
        λ. Deviations are compared in steps of about max(counts)/2^40.

    Returns
    -------
    One array for each partition, int64, shape (parts,): the first bins of its parts, ascending.

    Source: Acs, Castelluccia, Chen 2012, section V-A, Example 1 and figure 3. O(n log² n) for balanced cuts.

    Examples
    --------
    >>> [parts.tolist() for parts in hpartition_without_privacy([21, 4, 4, 32, 30, 8], price=3)]
    [[0], [0, 3], [0, 3, 5], [0, 1, 3, 5]]
    """
    bins = np.asarray(counts, dtype=np.int64)
    unit = _LARGEST_COUNT // max(1, int(bins.max()))
    threshold = price * unit + 2  # three rounded deviations make a gain: it may be 1.5 steps too large
    waiting: list[tuple[int, int, int, int]] = []  # minus the gain, first bin, cut, end
    parts = [0]
    path = [np.array(parts, dtype=np.int64)]
    _offer(waiting, bins * unit, 0, bins.size)
    while waiting and -waiting[0][0] > threshold:
        _, start, cut, stop = heappop(waiting)
        insort(parts, cut)
        path.append(np.array(parts, dtype=np.int64))
        _offer(waiting, bins * unit, start, cut)
        _offer(waiting, bins * unit, cut, stop)
    return path


def _offer(waiting: list[tuple[int, int, int, int]], bins: Integers, start: int, stop: int) -> None:
    """Put the best cut of a part in the heap."""
    if stop - start > 1:
        costs = Frontier(bins[start:stop]).costs()
        best = int(costs[1:].argmin())
        heappush(waiting, (int(costs[1 + best] - costs[0]), start, start + 1 + best, stop))
