"""Partitions made by bisection: the parts that may still be cut, and the greedy search of the paper.

Nothing here is private: costs are computed from true counts, and only a choice made through a channel may
leave a mechanism.

Source: Acs, Castelluccia, Chen 2012, section V-A.
"""

from __future__ import annotations

from bisect import insort
from heapq import heappop, heappush

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabularium.mechanisms.histograms.p_hpartition.deviations import bisection_costs, split_order

Integers = NDArray[np.int64]

_LARGEST_COUNT = 1 << 40


class Frontier:
    """The parts of a histogram that may still be cut, from left to right.

    The bins are sorted once. A cut divides the sorted positions of a part without changing their order, so
    no level sorts again.

    Parameters
    ----------
    counts
        int64, shape (n,), 0 to 2^40, n at most 2^21.

    Attributes
    ----------
    starts, sizes
        First bin and number of bins of each part, int64, shape (parts,). Parts of one bin are left out.
    """

    def __init__(self, counts: Integers) -> None:
        self._counts = counts
        self._order = np.argsort(counts, kind="stable").astype(np.int64)
        several = counts.size > 1
        self.starts = np.zeros(int(several), dtype=np.int64)
        self.sizes = np.full(int(several), counts.size, dtype=np.int64)

    @property
    def firsts(self) -> Integers:
        """Where each part's costs begin in ``costs``, shape (parts,)."""
        return np.cumsum(self.sizes) - self.sizes

    def costs(self) -> Integers:
        """Return each part's absolute deviation, then those of its two sides under every cut.

        See ``deviations.bisection_costs``.
        """
        return bisection_costs(self._counts, self._order, self.starts, self.sizes)

    def cut(self, places: Integers) -> None:
        """Cut each part after ``places`` of its bins, or leave it for good if that is 0."""
        chosen = np.flatnonzero(places)
        starts, sizes, places = self.starts[chosen], self.sizes[chosen], places[chosen]
        if chosen.size:
            split_order(self._order, starts, sizes, places)
        sides = np.column_stack([starts, starts + places]).reshape(-1)
        widths = np.column_stack([places, sizes - places]).reshape(-1)
        self.starts, self.sizes = sides[widths > 1], widths[widths > 1]


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
