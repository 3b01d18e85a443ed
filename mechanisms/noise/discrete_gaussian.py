"""Discrete Gaussian variables with rational σ², exactly.

P(z) ∝ exp(-z²/2σ²) on the integers. By rejection from a discrete Laplace variable Y of scale σ²/m: accept Y
with probability exp(-(|Y| - m)²/2σ²), since

    -|y|·m/σ² - (|y| - m)²/2σ²  =  -y²/2σ² - m²/2σ²

and the last term does not depend on y. This is Algorithm 3 of Canonne, Kamath and Steinke (2020) with the
proposal's scale chosen so that m, near σ, is a whole number (or one over a whole number, for σ < 1). Then
γ is a perfect square times one rational, which ``bernoulli_exp`` decides exactly. About three proposals in
four are accepted.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.noise.bernoulli_exp import bernoulli_exp, bernoulli_exp_each
from tabularium.mechanisms.noise.discrete_laplace import BLOCK, add_laplace
from tabularium.mechanisms.noise.keystream import WordStream

LARGEST_VARIANCE = 1 << 52
_LARGEST_ROOT = (1 << 31) - 1  # its square still fits in 63 bits


def add_gaussian(stream: WordStream, values: NDArray[np.int64], variance: Fraction) -> NDArray[np.int64]:
    """Return ``values`` plus independent discrete Gaussian noise.

    ``values``: int64 array of any shape, at most 2^62 in absolute value. ``variance``: σ² in P(z)
    proportional to exp(-z²/2σ²); positive, at most 2^52.
    """
    if not 0 < variance <= LARGEST_VARIANCE:
        raise MechanismError(
            "the noise variance is not between 0 and 2^52", where="gaussian", hint="use a larger budget"
        )
    noisy = np.array(values, dtype=np.int64, order="C", copy=True)
    flat = noisy.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        block = flat[start : start + BLOCK]
        block += _draws(stream, block.size, variance)
    return noisy


def _draws(stream: WordStream, count: int, variance: Fraction) -> NDArray[np.int64]:
    """Return ``count`` draws. Proposals left over are thrown away whatever they are."""
    peak, parts = _peak(variance)
    scale = variance * parts / peak
    rate = 1 / (2 * variance * parts**2)
    result: list[NDArray[np.int64]] = []
    missing = count
    while missing > 0:
        proposals = add_laplace(stream, np.zeros(missing + missing // 3 + 16, dtype=np.int64), scale)
        roots = np.abs(np.abs(proposals) * parts - peak)
        accepted = bernoulli_exp_each(stream, np.minimum(roots, _LARGEST_ROOT) ** 2, rate)
        for place in np.flatnonzero(roots > _LARGEST_ROOT):
            accepted[place] = bernoulli_exp(stream, rate * int(roots[place]) ** 2)
        kept = proposals[accepted][:missing]
        result.append(kept)
        missing -= kept.size
    return np.concatenate(result)


def _peak(variance: Fraction) -> tuple[int, int]:
    """Return m as a fraction (a, b) near σ: (floor σ, 1), or (1, b) with 1/b just below σ when σ < 1."""
    if variance >= 1:
        return isqrt(int(variance)), 1
    return 1, isqrt(int(1 / variance)) + 1
