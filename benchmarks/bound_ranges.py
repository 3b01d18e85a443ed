"""How little error random ranges of a row can have where nothing can be smoothed.

    python -m benchmarks.bound_ranges [--cells 1024] [--rows 64] [--starts 2]

Root mean square errors at ε = 1 under Laplace noise, a range having two uniform ends: of `boost`, of the best
shares for the levels of a tree of halves, of the shares that `denoise` plans for large counts, of the best
strategy "identity and some rows of weights" that a descent finds (McKenna, Miklau, Hay, Machanavajjhala 2018:
p-identity strategies), and the bound by singular values (Li, Miklau 2013), below which no such strategy goes.
"""

from __future__ import annotations

import argparse
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.bench_histograms import one_core
from tabularium.mechanisms.histograms.boost import Boost
from tabularium.mechanisms.histograms.denoise_ranges.measure import (
    TOTAL_SHARE,
    _exposure,
    _improved,
    _risks,
    _starts,
    planned_shares,
)
from tabularium.mechanisms.histograms.noisy_sums import some_ranges
from tabularium.mechanisms.noise.synthetic import generator

Floats = NDArray[np.float64]
LARGE = 1e12  # counts beside their noise: smoothing leaves all of it


def ranges_of(cells: int) -> Floats:
    """Return how likely a random range covers both of two cells, (cells, cells)."""
    place = np.arange(cells)
    low, high = np.minimum.outer(place, place), np.maximum.outer(place, place)
    pairs: Floats = 2.0 * (low + 1) * (cells - high) - np.eye(cells)
    return np.asarray(pairs / cells**2)


def of_identity_and(weights: Floats, ranges: Floats) -> tuple[float, Floats]:
    """Return the mean squared error of a strategy, and its gradient.

    The rows are those of the identity and ``weights``, each column divided by its sum s, so that one record
    changes them by 1 in all. With D = diag(s) and X = (I + weightsᵀ·weights)⁻¹ the error is 2·tr(X·D·ranges·D).
    """
    sums = 1 + weights.sum(axis=0)
    inner = np.linalg.inv(np.eye(len(weights)) + weights @ weights.T) @ weights
    scaled = ranges * np.outer(sums, sums)
    solved = scaled - (scaled @ weights.T) @ inner
    by_sums = 2 * np.diag(solved) / sums
    by_weights = -2 * (weights - (weights @ weights.T) @ inner) @ solved
    return 2 * float(np.trace(solved)), 2 * (by_weights + by_sums)


def best_strategy(ranges: Floats, rows: int, starts: int) -> float:
    """Return the least mean squared error that descents from random weights have found."""
    shape = rows, len(ranges)

    def objective(flat: Floats) -> tuple[float, Floats]:
        error, gradient = of_identity_and(flat.reshape(shape), ranges)
        return error, gradient.reshape(-1)

    found = []
    for seed in range(starts):
        begin = generator(seed).random(rows * len(ranges)) / 2
        limits = {"maxiter": 1000, "maxfun": 1200}
        bounds = [(0, None)] * begin.size
        found.append(
            minimize(objective, begin, jac=True, method="L-BFGS-B", bounds=bounds, options=limits).fun
        )
    return float(min(found))


def main() -> None:
    """Print the errors, one a line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", type=int, default=1024)
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--starts", type=int, default=2)
    options = parser.parse_args()
    one_core()
    cells, shape = options.cells, (options.cells,)
    exposure = _exposure(shape, (), None)

    def of_shares(shares: Floats) -> float:
        return float(_risks(shares / shares.sum(), LARGE, "pure") @ exposure)

    boost = Boost()
    tree = boost._tree(cells, boost.branching_for(cells, Fraction(1)), Fraction(1), "pure")
    starts = _starts(exposure.size)
    best = min(of_shares(_improved(start, of_shares)) for start in starts)
    planned = np.array(planned_shares(shape, (), None, LARGE, "pure"), dtype=np.float64)
    ranges = ranges_of(cells)
    roots = np.sqrt(np.maximum(np.linalg.eigvalsh(ranges), 0)).sum()
    for name, squared in {
        "boost": float(tree.range_variances(*some_ranges(cells)).mean()),
        "best tree of halves": best,
        "denoise, as planned": of_shares(planned) / float(1 - TOTAL_SHARE) ** 2,
        "identity and rows of weights": best_strategy(ranges, options.rows, options.starts),
        "bound by singular values": 2 * roots**2 / cells,
    }.items():
        print(f"{name:<30}{squared**0.5:8.2f}", flush=True)


if __name__ == "__main__":
    main()
