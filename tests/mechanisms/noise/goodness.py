"""Goodness-of-fit tests with stated error rates.

FALSE_ALARM = 10^-6 is the probability that a right sampler fails one such test; the suite has about a
hundred, and its streams are seeded, so that a pass today is a pass for ever. SAMPLES = 200 000 draws in
about 20 bins tell a scale that is WRONG_BY = 1.3 off from the right one with a probability that differs
from 1 by less than 10^-6: the noncentrality of the chi-square is then above 2 000 (for the smallest scale
too; each test asserts the rejection).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from tabularium.mechanisms.noise.discrete_gaussian import add_gaussian
from tabularium.mechanisms.noise.discrete_laplace import add_laplace
from tabularium.mechanisms.noise.keystream import KeyStream

FALSE_ALARM = 1e-6
SAMPLES = 200_000
WRONG_BY = 1.3

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def laplace_tail(points: Floats, scale: float) -> Floats:
    """P(Z >= z) for whole z."""
    p = np.exp(-1 / scale)
    return np.where(points > 0, p ** np.abs(points) / (1 + p), 1 - p ** (np.abs(points) + 1) / (1 + p))


def gaussian_tail(points: Floats, sigma: float) -> Floats:
    """P(Z >= z) for whole z, summed."""
    reach = int(40 * sigma) + 40
    support = np.arange(-reach, reach + 1)
    weights = np.exp(-(support**2) / (2 * sigma**2))
    beyond = np.append(np.cumsum(weights[::-1])[::-1], 0.0) / weights.sum()
    return beyond[np.clip(points.astype(np.int64) + reach, 0, support.size)]


def draws(kind: str, scale: Fraction, count: int, seed: str) -> Ints:
    """Draw from the seeded stream; ``scale`` is s or σ."""
    zeros = np.zeros(count, dtype=np.int64)
    if kind == "laplace":
        return add_laplace(KeyStream(seed), zeros, scale)
    return add_gaussian(KeyStream(seed), zeros, scale**2)


def tail(kind: str, points: Floats, scale: float) -> Floats:
    return laplace_tail(points, scale) if kind == "laplace" else gaussian_tail(points, scale)


def fit(kind: str, sample: Ints, scale: float) -> float:
    """The p-value of a chi-square test of ``sample`` against the distribution with that scale."""
    step = max(1, round(scale / 2))
    edges = np.arange(-8, 10, dtype=np.float64) * step - step // 2
    beyond = np.concatenate([[1.0], tail(kind, edges, scale), [0.0]])
    expected = -np.diff(beyond) * sample.size
    observed = np.bincount(np.searchsorted(edges, sample, side="right"), minlength=expected.size)
    expected, observed = merged(expected, observed.astype(np.float64))
    return float(stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue)


def merged(expected: Floats, observed: Floats, least: float = 8.0) -> tuple[Floats, Floats]:
    """Join neighbouring bins until each expects at least ``least`` draws."""
    bins: list[list[float]] = [[0.0, 0.0]]
    for hoped, seen in zip(expected, observed, strict=True):
        bins[-1][0] += hoped
        bins[-1][1] += seen
        if bins[-1][0] >= least:
            bins.append([0.0, 0.0])
    rest = bins.pop()
    bins[-1] = [bins[-1][0] + rest[0], bins[-1][1] + rest[1]]
    table = np.array(bins)
    return table[:, 0], table[:, 1]
