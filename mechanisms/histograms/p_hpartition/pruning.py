"""Cuts taken back: which of a tree of cuts did not pay, judged by noisy sums alone.

The finest parts of a partition were measured, each sum with the same noise variance v. A part of w bins that
is released as its noisy mean errs by v/w in expected squared error, besides what its bins differ from their
mean. For a part made of finer ones with sums y_i and sizes w_i, the squared deviation of their means from
the common one, Σy_i²/w_i - (Σy_i)²/w, overstates the true one by v·(Σ1/w_i - 1/w). So, leaving out what is
the same for all, the least of

    Σy_i²/w_i - (Σy_i)²/w - v·Σ1/w_i + price·v/w

over all prunings of the tree is sought; price = 2 makes it an unbiased estimate of the error of each one, and
a greater price pays for taking the least of many. The optimum is exact: bottom-up through the levels.

Source: optimal pruning of a tree after Breiman, Friedman, Olshen, Stone 1984, chapter 10; the penalty as in
Xu, Zhang, Xiao, Yang, Yu, Winslett 2013, section 4, with the logarithm of Donoho 1997. O(parts + cuts).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def pruned(
    sums: Integers, starts: Integers, levels: Integers, cells: int, variance: float, price: float
) -> Integers:
    """Return the first bins of the parts that the best pruning leaves, ascending, int64.

    Parameters
    ----------
    sums
        Noisy sum of each finest part, shape (parts,).
    starts
        First bin of each, ascending from 0.
    levels
        The level, from 1, of the cut that made a part begin there; 0 for the first part. A level cuts each
        of the parts that it finds at most once.
    cells
        Number of bins.
    variance
        v, of each sum.
    price
        Of a part, in units of v/w.
    """
    total, width = sums.astype(np.float64), np.diff(starts, append=cells).astype(np.float64)
    spread = (total**2 - variance) / width
    least = (price - 1) * variance / width
    depth = int(levels.max())
    pays: list[NDArray[np.bool_]] = []
    for level in range(depth, 0, -1):
        # Entry a has stood for what begins there after this level; from here on it is the part that was cut.
        a, b = _sides(levels, level)
        apart = least[a] + least[b]
        total[a], width[a], spread[a] = total[a] + total[b], width[a] + width[b], spread[a] + spread[b]
        whole = spread[a] + (price * variance - total[a] ** 2) / width[a]
        least[a] = np.minimum(apart, whole)
        pays.append(apart < whole)
    standing = np.zeros(starts.size, dtype=np.bool_)
    standing[0] = True
    kept = standing.copy()
    for level, pay in zip(range(1, depth + 1), reversed(pays), strict=True):
        a, b = _sides(levels, level)
        standing[a] = standing[b] = standing[a] & pay  # inside what is taken back whole, nothing stands
        kept[b] = standing[b]
    return np.compress(kept, starts)


def _sides(levels: Integers, level: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the entries where the parts that a level cuts begin, and where their right sides do."""
    right = np.flatnonzero(levels == level)
    earlier = np.flatnonzero(levels < level)
    return earlier[np.searchsorted(earlier, right) - 1], right
