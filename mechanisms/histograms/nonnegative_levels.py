"""Non-negative levels with the same total: the nearest such table."""

from __future__ import annotations

import numpy as np

from tabularium.mechanisms.arrays import Floats


def common_reduction(tables: Floats) -> Floats:
    """Return, for each table, what to take off every cell before cutting off at zero.

    max(level - t, 0) is the least-squares projection of a table onto the tables without negative cells and
    with the same total. Cutting off alone (t = 0) moves the total up, in sparse tables by a multiple of what
    there is; this does not. A table with a total below zero becomes all zeros.

    Parameters
    ----------
    tables
        Shape (tables, cells).

    Returns
    -------
    t, shape (tables,), not negative. Found by leaving out cells until none is below t (Michelot 1986); each
    round takes O(n) time, and ten or twenty are enough.
    """
    totals = np.maximum(tables.sum(axis=1), 0.0)
    reduction = np.zeros(tables.shape[0])
    counted = np.zeros(tables.shape[0], dtype=np.int64)
    while True:
        above = tables > reduction[:, None]
        count = above.sum(axis=1)
        if np.array_equal(count, counted):
            return reduction
        counted = count
        surplus = np.where(above, tables, 0.0).sum(axis=1) - totals
        # Nothing above: all cells are at most t, and become zero.
        reduction = np.maximum(np.divide(surplus, count, out=reduction.copy(), where=count > 0), reduction)
