"""Cells that grow away from a place of a grid: 1, 2, 4, … positions wide, above it and below it.

What lies near the place is distinguished finely, what lies far from it coarsely, with about 2·log2(bins)
numbers. NumPy only.
"""

from __future__ import annotations

import numpy as np

from tabularium.mechanisms.arrays import Integers


def reaches(bins: int) -> int:
    """Return how many cells there are on either side, enough for all positions wherever the place is."""
    return max(1, (bins - 1).bit_length())


def outward_sums(counts: Integers, places: Integers) -> Integers:
    """Return the sums of counts in the cells above each place, then in those below; the place is in none.

    ``counts``: (rows, bins). ``places``: (rows,) a position in each row.

    (rows, 2·reaches). Cell j holds the positions that lie 2^j to 2^(j + 1) - 1 away; 0 beyond the ends.
    """
    rows, bins = counts.shape
    below = np.zeros((rows, bins + 1), np.int64)
    np.cumsum(counts, axis=1, out=below[:, 1:])
    near = np.left_shift(1, np.arange(reaches(bins)))
    far = 2 * near - 1
    at = places[:, None]

    def upto(position: Integers) -> Integers:
        """Return how much lies before a position."""
        return np.take_along_axis(below, np.clip(position, 0, bins), axis=1)

    above = upto(at + far + 1) - upto(at + near)
    under = upto(at - near + 1) - upto(at - far)
    return np.concatenate([above, under], axis=1)
