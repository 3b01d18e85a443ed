"""Measuring sums of cells: what the mechanisms on trees, wavelets and totals do alike."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tabularium.mechanisms.accounting.losses import root_above
from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.arrays import LARGEST_COUNT, LARGEST_VALUE, Integers
from tabularium.mechanisms.mechanism import Counts
from tabularium.mechanisms.noise_distributions import gaussian_variance, laplace_variance

_ALL_RANGES = 64  # up to so many cells, all ranges
_SOME_RANGES = 2048
_STEPS = (3242174889, 2447445414)  # 2^32 over r and r², r³ = r + 1: pairs of multiples fill a square evenly


def addable(counts: Counts) -> Counts:
    """Return counts whose sums, with any signs, stay within what the channel takes (2^61).

    They are cut off at a bound that depends only on the number of cells, which cannot bring two tables
    further apart. Up to 2^21 cells the bound is 2^40, the largest count there is, and nothing is cut off.
    """
    bound = LARGEST_VALUE // max(1, counts.size)
    return counts if bound >= LARGEST_COUNT else np.minimum(counts, bound)


def variance_for(loss: Fraction, definition: Definition, *, touched: int = 1) -> float:
    """Return the exact variance of the noise that ``Channel.add_noise`` adds to each sum for a loss."""
    if definition == "pure":
        return laplace_variance(float(touched / loss))
    return gaussian_variance(float(root_above(touched) ** 2 / (2 * loss)))


def some_ranges(cells: int) -> tuple[Integers, Integers]:
    """Return all ranges of few cells, or some of many that are spread evenly, as starts and stops."""
    if cells <= _ALL_RANGES:
        starts, stops = np.triu_indices(cells + 1, 1)
        return starts.astype(np.int64), stops.astype(np.int64)
    steps = np.arange(1, _SOME_RANGES + 1, dtype=np.int64)
    one, other = (((steps * step) % (1 << 32)) * (cells + 1) >> 32 for step in _STEPS)
    apart = one != other
    return np.minimum(one, other)[apart], np.maximum(one, other)[apart]
