"""Translation-invariant Haar shrinkage of a table, and how it correlates with the noise.

Two neighbouring boxes of equal shape are replaced by their mean and half their difference, wherever they lie;
differences that mere noise may well give are set to zero (hard thresholds). On the way back a box's mean is
rebuilt from every pair that it is part of, and the results are averaged. No box reaches across an edge. An
estimate of E[Z·f] comes with it, on the same way back with plus signs throughout.

Time O(2^d·n·log n), memory as much. NumPy only.

Source: Coifman, Donoho 1995.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tabularium.mechanisms.arrays import Floats

Threshold = Callable[[int], float]
Covariance = Callable[[Floats, float, int], Floats]
Bands = dict[tuple[int, ...], Floats]


def haar_shrinkage(
    table: Floats, threshold: Threshold, covariance: Covariance, groups: int = 1
) -> tuple[Floats, Floats, Floats]:
    """Return the shrunken tables, estimates of E[Z·f] in every cell, and the variance of their mean.

    Parameters
    ----------
    table
        Shape (tables, sides...): each table is shrunk on its own.
    threshold
        Of a coefficient that is ± the mean of so many cells.
    covariance
        Given coefficients, their threshold and the number of their cells: an unbiased estimate of E[Z·g],
        Z the noise of one of those cells, taken positively, and g the coefficient after the threshold.
    groups
        Of tables, equally many in each; the variance is that of each group, (groups,): of n estimates that
        each look at M cells, n/M are taken for independent.
    """
    return _shrink(table, 1, 1, threshold, covariance, groups)


def _shrink(
    means: Floats, step: int, cells: int, threshold: Threshold, covariance: Covariance, groups: int
) -> tuple[Floats, Floats, Floats]:
    """Shrink the means of boxes of ``cells`` cells, whose partners lie ``step`` places away."""
    axes = [a for a in range(1, means.ndim) if means.shape[a] >= 2 * step]
    if not axes:
        return means, covariance(means, 0.0, cells), np.zeros(groups)
    cells <<= len(axes)
    level = threshold(cells)
    kept, follows, variance = _parted(means, axes, step), {}, np.zeros(groups)
    for band, values in kept.items():
        if any(band):
            follows[band] = covariance(values, level, cells)
            variance += follows[band].reshape(groups, -1).var(axis=1) * cells / (values.size // groups)
            kept[band] = np.where(np.abs(values) > level, values, 0.0)
        else:
            kept[band], follows[band], rest = _shrink(values, 2 * step, cells, threshold, covariance, groups)
            variance += rest
    return _rebuilt(kept, axes, step, -1.0), _rebuilt(follows, axes, step, 1.0), variance


def _parted(means: Floats, axes: list[int], step: int) -> Bands:
    """Return half sums (0) and half differences (1) of partners along each of the axes."""
    bands: Bands = {(): means}
    for axis in axes:
        halves = {}
        here = (slice(None),) * axis
        for band, values in bands.items():
            one, other = values[(*here, slice(-step))], values[(*here, slice(step, None))]
            halves[(*band, 0)], halves[(*band, 1)] = (one + other) / 2, (one - other) / 2
        bands = halves
    return bands


def _rebuilt(bands: Bands, axes: list[int], step: int, sign: float) -> Floats:
    """Return the means that bands come from; the difference goes to the second partner with a sign."""
    for axis in reversed(axes):
        bands = {
            band[:-1]: _joined(values, bands[(*band[:-1], 1)], axis, step, sign)
            for band, values in bands.items()
            if band[-1] == 0
        }
    return bands[()]


def _joined(means: Floats, differences: Floats, axis: int, step: int, sign: float) -> Floats:
    """Rebuild what partners were, and average where a box had two partners: not near the edges."""
    shape = list(means.shape)
    shape[axis] += step
    here = (slice(None),) * axis
    whole = np.zeros(shape)
    whole[(*here, slice(-step))] = means + differences
    whole[(*here, slice(step, None))] += means + sign * differences
    whole[(*here, slice(step, -step))] /= 2
    return whole
