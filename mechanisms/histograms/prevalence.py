"""What noisy counts say about the counts behind them: how many cells have which count, and each cell's odds.

Given cells y_i = x_i + noise of a known distribution, the prevalences π(x) that make the whole noisy table
likeliest are found by expectation-maximisation (Kiefer & Wolfowitz 1956; Laird 1978), and Bayes' rule then
gives every cell the odds of its true count. Post-processing: nothing here has seen a true count.

Near zero the noise hides which of several small counts a cell has, and no method can tell. The points at
which π may lie keep a quarter of the noise scale apart, so that whatever looks like zero is taken for zero:
for relative errors the careful side.

Cost: O(n) and O(rounds · bins · points), some hundreds each.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log, log1p

import numpy as np

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.kernels.compiled import compiled
from tabularium.mechanisms.noise_distributions import Noise

ROUNDS = 200
_FINE = 64  # bins of noisy counts, and points of true ones, are at most 1/64 of themselves wide
_LEAST = 1e-100  # keeps odds positive, quotients finite, and products far from the smallest floats
_FAR = 40.0  # points that exp(-40) speaks against, for every cell, are left out


@dataclass(frozen=True, eq=False)
class Odds:
    """Odds of true counts, for bins of noisy counts that are as good as equal.

    Attributes
    ----------
    bins
        Shape (n,), ascending: the bin of every noisy count.
    points
        Shape (points,), ascending from 0: the true counts that are considered.
    posterior
        Shape (bins, points): each row sums to 1.
    """

    bins: Integers
    points: Floats
    posterior: Floats

    def expected(self) -> Floats:
        """Return the mean of every cell's true count, shape (n,), ascending like the noisy counts."""
        # For such noise the means ascend; rounding must not be what breaks the order.
        means = np.maximum.accumulate((self.posterior * self.points).sum(axis=1))
        return means[self.bins]


def odds(ascending: Integers, noise: Noise) -> Odds:
    """Return the odds of the counts behind noisy ones.

    ``ascending``: Shape (n,), n >= 1: noisy counts, ascending. ``noise``: Its distribution in every one of
    them.
    """
    scale = noise.scale
    marks = np.floor(_FINE * np.arcsinh(ascending / (8 * scale)))
    opens = np.append(True, marks[1:] != marks[:-1])
    bins = np.cumsum(opens) - 1
    cells = np.bincount(bins).astype(np.float64)
    noisy = np.bincount(bins, weights=ascending) / cells
    points = _points(scale, float(noisy[-1]))
    # A point stands for the counts up to the next one: where those are far apart, for more than the noise.
    width = np.sqrt(scale**2 + (np.append(np.diff(points), 1.0) - 1) ** 2)
    distance = np.abs(noisy[:, None] - points) / width
    exponent = distance if noise.family == "laplace" else distance**2 / 2
    near = exponent.min(axis=0) < _FAR
    near[0] = True
    points, likelihood = points[near], np.exp(-exponent[:, near]) / width[near] + _LEAST
    prevalence = _fit(likelihood, np.ascontiguousarray(likelihood.T), cells, ROUNDS)
    joint = likelihood * prevalence
    return Odds(bins, points, joint / joint.sum(axis=1, keepdims=True))


def relative_errors(found: Odds, released: Floats) -> tuple[Floats, Floats]:
    """Return, for each point, how many cells are expected to have that count, and their relative errors' sum.

    ``released``: Shape (n,): what was released for each of the cells, in the order of the noisy counts.

    Returns
    -------
    cells, errors
        Shape (points,): expected number of cells, and expected sum of |x - released|/max(x, 1) over them.
    """
    changes = (found.bins[1:] != found.bins[:-1]) | (released[1:] != released[:-1])
    firsts = np.flatnonzero(np.append(True, changes))
    alike = np.diff(np.append(firsts, released.size)).astype(np.float64)
    cells, errors = np.zeros(found.points.size), np.zeros(found.points.size)
    least = np.maximum(found.points, 1.0)
    for start in range(0, firsts.size, 4096):  # bounds the memory, whatever was released
        part = slice(start, start + 4096)
        weight = found.posterior[found.bins[firsts[part]]] * alike[part, None]
        away = np.abs(found.points - released[firsts[part], None]) / least
        cells += weight.sum(axis=0)
        errors += (weight * away).sum(axis=0)
    return cells, errors


def _points(scale: float, top: float) -> Floats:
    """Return 0 and further counts up to ``top``, a quarter of the noise scale or 1/64 of themselves apart."""
    step = max(1.0, scale / 4)
    even = step * np.arange(_FINE)
    ratio = log1p(1 / _FINE)
    folds = max(0, ceil(log(max(top, 1.0) / (step * _FINE)) / ratio)) + 1
    wider = step * _FINE * np.exp(ratio * np.arange(folds))
    points: Floats = np.floor(np.append(even, wider))
    return points[: np.searchsorted(points, top) + 1]


@compiled
def _fit(likelihood: Floats, turned: Floats, cells: Floats, rounds: int) -> Floats:
    """Return the likeliest prevalences, shape (points,), from a uniform start.

    Inner loops run along rows, so that the compiler can use wide instructions without changing any sum.

    ``likelihood``, ``turned``: Shape (bins, points), and its transpose. ``cells``: Shape (bins,): how many
    noisy counts each bin holds.
    """
    bins, points = likelihood.shape
    prevalence = np.full(points, 1.0 / points)
    seen = np.empty(bins)
    pull = np.empty(points)
    total = cells.sum()
    for _ in range(rounds):
        seen[:] = 0.0
        for point in range(points):
            seen += turned[point] * prevalence[point]
        pull[:] = 0.0
        for one in range(bins):
            pull += likelihood[one] * (cells[one] / seen[one])
        prevalence = prevalence * pull / total + _LEAST
    return prevalence
