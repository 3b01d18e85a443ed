"""How far noisy counts may lie from the truth: what Xiao et al. prove, and what is exactly so.

All of it depends on public numbers only (the scale, how many cells are summed), never on a release.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, exp, log, sqrt

import numpy as np
from numpy.typing import NDArray

_LARGEST_GRID = 1 << 22
_TAIL_FOLDS = 45  # exp(-45) < 10^-19: what lies beyond is lost in a double anyway


def xiao_bound(cells: int, epsilon: float, delta: float) -> float:
    """Return an error that no count query exceeds with probability 1 - δ: β·ln(β/δ)/ε for β cells.

    Source: Xiao, Xiong, Yuan 2010, Theorem 4.2: a query sums at most β cells, each within ln(β/δ)/ε.
    """
    return cells * log(cells / delta) / epsilon


def cell_margin(scale: float, delta: float) -> int:
    """Return the least t with P(|Z| > t) <= δ, for one discrete Laplace draw: 2p^(t+1)/(1+p)."""
    rate = 1 / scale
    beyond = log(2 / (1 + exp(-rate))) - log(delta)  # rate·(t + 1) must be at least this
    return max(0, ceil(beyond / rate - 1e-12) - 1)


def sum_margin(scale: float, cells: int, delta: float) -> int:
    """Return the least t with P(|sum of Z_i| > t) <= δ, for the noise in a sum of ``cells`` cells.

    The probabilities of the sum come from its characteristic function, ((1-p)²/(1-2p·cos θ+p²))^cells, by one
    fast Fourier transform. Very wide sums are taken in steps of more than 1, with the answer rounded up;
    the distribution on the coarse steps has the variance of the true one. (Scale s has the variance
    2s² - 1/6 and less than 1/s² besides; a coarse one of scale s/step would be narrower by step²/6.)
    """
    step = 1
    while _grid(scale / step, cells) > _LARGEST_GRID:
        step *= 2
    coarse = sqrt(scale**2 + (step**2 - 1) / 12) / step
    tail = _sum_tails(coarse, cells)
    return (int(np.argmax(tail <= delta)) + (step > 1)) * step


def gaussian_margin(variance: float, delta: float) -> float:
    """Return a t with P(|Z| > t) <= δ for discrete Gaussian noise: σ·√(2 ln(2/δ)).

    Source: Canonne, Kamath, Steinke 2020, Corollary 9 and Proposition 25: it is sub-Gaussian with σ.
    """
    return sqrt(2 * variance * log(2 / delta))


def laplace_accuracy(epsilon: Fraction, cells: int, delta: float) -> dict[str, float]:
    """Return both statements for ``identity``: the paper's bound and the exact margins.

    Keys: ``xiao_any_query``, ``one_cell``, ``all_cells`` (every cell at once, exact), ``total`` (all cells
    summed).
    """
    scale = float(1 / epsilon)
    each = -np.expm1(np.log1p(-delta) / cells)  # independent cells: (1 - each)^cells = 1 - δ
    return {
        "delta": delta,
        "xiao_any_query": xiao_bound(cells, float(epsilon), delta),
        "one_cell": cell_margin(scale, delta),
        "all_cells": cell_margin(scale, float(each)),
        "total": sum_margin(scale, cells, delta),
    }


def _grid(scale: float, cells: int) -> int:
    """Return a power of two that holds all but a negligible part of the sum on both sides."""
    reach = _TAIL_FOLDS * (scale + 1) + 14 * sqrt(2 * cells) * (scale + 1)
    return 1 << ceil(log(2 * reach + 1, 2))


def _sum_tails(scale: float, cells: int) -> NDArray[np.float64]:
    """Return P(|sum| > t) for t = 0, 1, 2, ..."""
    size = _grid(scale, cells)
    angles = 2 * np.pi * np.arange(size // 2 + 1) / size
    rate = 1 / scale
    # (1-p)² / ((1-p)² + 2p(1 - cos θ)), without cancellation for small θ
    ratio = 4 * exp(-rate) * np.sin(angles / 2) ** 2 / np.expm1(-rate) ** 2
    probabilities = np.fft.irfft(np.exp(-cells * np.log1p(ratio)), size)
    both = np.append(probabilities[0], 2 * probabilities[1 : size // 2])
    beyond = np.append(np.cumsum(both[::-1])[::-1][1:], 0.0)
    return np.maximum.accumulate(beyond[::-1])[::-1]
