"""Quantiles that were chosen, and their intervals from noisy counts beside the chosen place.

Two things bound how far a true quantile M may lie from the chosen position m. The choice: a position that is
t records off the rank is chosen with a probability of at most exp(-r·t)/2, r the *rate* of the choice; so of
B positions none that is more than R = ln(B/2a)/r records off is chosen, with probability 1 - a. The counts: M
lies beyond the first j cells above m only if these hold less than R records in all, since m is no more than
that below the rank; below m likewise. A noisy sum S of j cells of variance v each rules that out where S -
z·√(j·v) >= R. Of each side only one test can fail, that of the cell that M lies in, and M lies on one side.
So with a = (1 - level)/5 and z the one-sided quantile of what is left, 4(1 - level)/5, all that is not ruled
out holds M with at least the stated probability, whatever is in the cell.

What is released of each cell of a table is a row: the position, the rate, and the noisy sums of
``tabularium.mechanisms.kernels.outward_cells``.
"""

from __future__ import annotations

import math

import numpy as np

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.inference.margins_of_error.half_widths import quantile
from tabularium.mechanisms.kernels.outward_cells import reaches

PARTS_BESIDE = 2
"""The numbers of a row before its sums: position and rate."""
_OF_CHOICE = 0.2
_LEAST_LEVEL = 0.8
"""Two-sided; below it the quantile of sums of Laplace errors was not looked at."""


def chosen_position(rows: Floats) -> Floats:
    """Return the chosen positions of rows (..., numbers); not a number where nothing was measured."""
    found: Floats = np.where(rows[..., 1] > 0, rows[..., 0], np.nan)
    return found


def chosen_interval(rows: Floats, variances: Floats, bins: int, level: float) -> tuple[Floats, Floats]:
    """Return the first and the last position of the true quantile that are left possible.

    Parameters
    ----------
    rows, variances
        (..., numbers) what was released, and the variance of the noise in its sums.
    bins
        Positions of the grid.
    level
        Probability that the interval holds the true position.
    """
    outside = 1.0 - level
    with np.errstate(divide="ignore"):
        known = np.log(bins / (2 * _OF_CHOICE * outside)) / rows[..., 1]
    z = quantile(max(_LEAST_LEVEL, 1 - 2 * (1 - _OF_CHOICE) * outside))
    at, count = rows[..., 0], reaches(bins)
    far = [math.ldexp(1, j + 1) - 1 for j in range(count)]

    def reach(sums: Floats) -> Floats:
        """Return how far the last cell reaches that M may lie in."""
        found = np.full(at.shape, far[0])
        for j in range(1, count):
            least = sums[..., :j].sum(axis=-1) - z * np.sqrt(j * variances[..., 0])
            found = np.where(least < known, far[j], found)
        return found

    up, down = rows[..., PARTS_BESIDE : PARTS_BESIDE + count], rows[..., PARTS_BESIDE + count :]
    return np.maximum(at - reach(down), 0.0), np.minimum(at + reach(up), bins - 1.0)
