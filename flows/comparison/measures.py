"""How far a release is from the truth, in the measures of the literature. For public data only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mechanisms.noise.synthetic import generator

Values = NDArray[np.float64]


def mean_absolute(truth: Values, release: Values) -> float:
    """Return the mean |error| of a bin."""
    return float(np.abs(release - truth).mean())


def mean_squared(truth: Values, release: Values) -> float:
    """Return the mean squared error of a bin."""
    return float(((release - truth) ** 2).mean())


def divergence(truth: Values, release: Values) -> float:
    """Return the Kullback-Leibler divergence Σ p·ln(p/q) of the normalised release from the truth.

    Released counts are floored at 1 before normalising, as Acs, Castelluccia and Chen (2012, section VI)
    do, so that no bin that holds someone is given probability 0.
    """
    floored = np.maximum(release, 1.0)
    p, q = truth / truth.sum(), floored / floored.sum()
    some = p > 0
    return float((p[some] * np.log(p[some] / q[some])).sum())


def mean_relative(truth: Values, release: Values, least: float = 1.0) -> float:
    """Return the mean of |error| / max(truth, least) (Chen et al. 2024, with δ = ``least``)."""
    return float((np.abs(release - truth) / np.maximum(truth, least)).mean())


def range_error(truth: Values, release: Values, length: int, queries: int = 1000, seed: int = 1) -> float:
    """Return the mean squared error of the sum of ``length`` neighbouring bins, over seeded ranges."""
    starts = generator(seed).integers(0, truth.size - length + 1, queries)
    running = np.concatenate([[0.0], np.cumsum((release - truth).reshape(-1))])
    return float(((running[starts + length] - running[starts]) ** 2).mean())


MEASURES = {
    "mean |error|": mean_absolute,
    "mean squared": mean_squared,
    "KL": divergence,
    "mean relative": mean_relative,
}
