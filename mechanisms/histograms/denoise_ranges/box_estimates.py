"""Sums over boxes as the noisy sums alone give them, with their exact variances: margins for ranges.

A smoothed sum is usually nearer to the truth, but by how much it was smoothed away nobody knows. The least
squares estimate from the noisy sums is not smoothed: it is unbiased, and the variance of any sum of cells is
known. So an interval around it holds for each range by itself, which the smoothed table cannot say.

For a sum F of cells inside a box with sum S, all that the noisy sums below say of both is: an estimate of S
with its variance, an estimate of F that goes with it, the slope with which F follows S, and the variance that
F has left when S is known. These join upwards, as in ``tree_sums``. O(n) for a sum.

The total, from which the levels were chosen, is left out: given it, all other noise is what it was, and the
variances are exact. Where a range cuts a box of the lowest measured level, it has no such estimate.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log, nan, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.errors import MechanismError
from mechanisms.histograms.denoise_ranges.range_form import NoisySums, noisy_sums
from mechanisms.measured import Measured

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BoxEstimate:
    """The sum over a box as the noisy sums give it.

    Attributes
    ----------
    value, variance
        Unbiased, and its exact variance; nan and infinite where the box cuts what was measured together.
    """

    value: float
    variance: float

    def margin(self, level: float = 0.9) -> float:
        """Return m such that value ± m holds the true sum with probability ``level``.

        The noise is a sum of many draws or of few. The larger of the normal and the Laplace quantile of this
        variance is taken.
        """
        normal = NormalDist().inv_cdf((1 + level) / 2)
        return max(normal, -log(1 - level) / sqrt(2)) * sqrt(self.variance)


def box_estimates(
    measured: Measured, starts: ArrayLike, stops: ArrayLike, *, categorical: tuple[int, ...] = ()
) -> list[BoxEstimate]:
    """Return what the noisy sums of a measurement say of boxes of cells.

    Parameters
    ----------
    measured
        By ``denoise`` with ``workload="ranges"``.
    starts, stops
        Whole numbers of shape (boxes, axes): along each axis the cells start to stop - 1.
    categorical
        As the mechanism had them.

    Raises
    ------
    MechanismError
        The measurement is another one, or a box is empty or beyond the table.
    """
    if "levels" not in measured.meta:
        raise MechanismError(
            "these are no sums of a tree", where=measured.mechanism, mend="measure with workload: ranges"
        )
    sums = noisy_sums(measured, tuple(sorted(categorical)))
    shape = sums.tree.shape
    first = np.asarray(starts, dtype=np.int64).reshape(-1, len(shape))
    end = np.asarray(stops, dtype=np.int64).reshape(-1, len(shape))
    if not bool(((first >= 0) & (first < end) & (end <= np.array(shape))).all()):
        raise MechanismError(
            "a box is empty or beyond the table", where="starts", mend="give 0 <= start < stop <= length"
        )
    found = []
    for low, high in zip(first, end, strict=True):
        weights = np.zeros(shape)
        weights[tuple(slice(a, b) for a, b in zip(low, high, strict=True))] = 1
        found.append(weighted_sum(sums, weights))
    return found


def weighted_sum(sums: NoisySums, weights: Floats) -> BoxEstimate:
    """Return the least squares estimate of Σ weights·cells; weights in the shape of the table."""
    tree, lowest = sums.tree, min(sums.levels)
    own, variance = sums.levels[lowest]
    ordered = tree.sums(weights, 0)
    slopes = tree.sums(weights, lowest) / tree.sizes[lowest]
    if not np.array_equal(np.repeat(slopes, tree.sizes[lowest].astype(np.int64)), ordered):
        return BoxEstimate(nan, inf)
    totals, variances = own, np.full(own.size, variance)
    values, rest = slopes * totals, np.zeros(own.size)
    for level in range(lowest + 1, tree.height + 1):
        first, second = tree.first[level - 1], tree.second[level - 1]

        def halves(
            each: Floats, first: NDArray[np.int64] = first, second: NDArray[np.int64] = second
        ) -> Floats:
            padded = np.append(each, 0.0)
            joined: Floats = padded[first] + padded[second]
            return joined

        along = halves(slopes * variances)
        spread = halves(rest + slopes**2 * variances)
        totals, values, variances = halves(totals), halves(values), halves(variances)
        slopes = along / variances
        rest = np.maximum(spread - slopes * along, 0.0)
        if level in sums.levels:
            own, variance = sums.levels[level]
            trust = variances / (variances + variance)
            values = values + slopes * trust * (own - totals)
            totals = totals + trust * (own - totals)
            variances = variances * (1 - trust)
    return BoxEstimate(float(values[0]), float(rest[0] + slopes[0] ** 2 * variances[0]))
