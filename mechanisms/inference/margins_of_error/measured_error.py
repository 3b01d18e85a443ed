"""The distance of a released table from the truth, measured with noise where its mechanism cannot tell it.

T = Σ min(|x - r|, cap) over the cells, x the true counts and r the released numbers.

*Privacy.* r comes from measurements that have been paid for, so it is fixed here; one record changes one x by
1, hence T by 1 at most (a cap, and a cap on the sum, only bring numbers nearer to each other). T is computed
exactly, in whole 1/256ths. Large tables have such a sum for each class of released size, read only from r: a
record is in one cell, hence in one class, so all sums together cost what one of them costs.

*What it says.* A one-sided bound of 95 % on the mean absolute error becomes a mean squared error as if errors
over the cells followed a Laplace distribution: twice the square of the mean. Enough for exponential errors
and more even ones; errors that sit in a few cells need more there (docs/explanation/margins-of-error.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.accounting import Definition
from tabularium.mechanisms.arrays import LARGEST_COUNT, LARGEST_SUM, Integers
from tabularium.mechanisms.errors import MechanismError

UNIT = 256
"""Parts of a record in which errors are counted; one record changes the sum by this many parts."""

ONE_SIDED = 0.95
"""Probability that the bound on the mean absolute error holds, over the noise of its measurement."""

FEWEST = 256
"""Cells of the class of the largest released numbers; every class below has twice as many."""

_CELLS_AT_ONCE = 1 << 12  # 2^12 errors of at most 2^48 parts: no overflow


def total_error(counts: Integers, released: NDArray[Any]) -> int:
    """Return Σ min(|counts - released|, cap) in parts of 1/256. **Confidential**: to be measured with noise.

    A whole number from 0 to 2^60, of sensitivity 256: counts go up to 2^40, ``released`` depends on
    measurements only. A released number that is not finite raises before the counts are looked at.

    Examples
    --------
    >>> total_error(np.array([3, 5]), np.array([2.5, 7.0])) / UNIT
    2.5
    """
    flat, near = counts.reshape(-1), np.asarray(released).reshape(-1)
    if near.dtype.kind == "f" and not np.isfinite(near).all():
        raise MechanismError(
            "a released number is not finite", where="released", hint="correct the mechanism"
        )
    total = 0
    for start in range(0, flat.size, _CELLS_AT_ONCE):
        part = slice(start, start + _CELLS_AT_ONCE)
        # Between -cap and 2·cap: any further away is capped all the same.
        parts = np.rint(
            np.clip(near[part].astype(np.float64), -LARGEST_COUNT, 2 * LARGEST_COUNT) * UNIT
        ).astype(np.int64)
        total += int(np.minimum(np.abs(flat[part] * UNIT - parts), LARGEST_COUNT * UNIT).sum())
    return min(total, LARGEST_SUM)


def error_classes(released: NDArray[Any]) -> Integers:
    """Return the class of every cell, flat: 0 for the smallest released numbers.

    From the top, classes have 256, 512, 1024, ... cells and any that shares the last one's number; what is
    left when no two more fit is class 0. A table of fewer than 768 cells is one class.

    Examples
    --------
    >>> np.bincount(error_classes(np.arange(2000))).tolist()
    [1232, 512, 256]
    """
    flat = np.asarray(released, np.float64).reshape(-1)
    ordered = np.sort(flat)
    bounds: list[float] = []
    left, wanted = len(ordered), FEWEST
    while left >= 3 * wanted:
        bound = float(ordered[left - wanted])
        below = int(np.searchsorted(ordered, bound))
        if below < 2 * wanted:
            break
        bounds.append(bound)
        left, wanted = below, 2 * wanted
    return np.asarray(np.searchsorted(np.array(bounds[::-1]), flat, side="right").astype(np.int64))


def class_errors(
    counts: Integers, released: NDArray[Any], total: Callable[..., int] = total_error
) -> Integers:
    """Return (classes,) total errors, in parts of 1/256: a record changes one of them, by 256 at most.

    **Confidential**, like ``total_error``.
    """
    of, flat, near = error_classes(released), counts.reshape(-1), np.asarray(released).reshape(-1)
    return np.array([total(flat[of == k], near[of == k]) for k in range(int(of.max()) + 1)], np.int64)


def bounded_risk(noisy: int, cells: int, scale: float, definition: Definition) -> float:
    """Return a mean squared error per cell, in squared records, that goes with a measured total error.

    Twice the square of the upper bound on the mean absolute error; never below that of an error of half a
    part.

    Parameters
    ----------
    noisy
        The total in parts, with noise.
    cells
        How many cells were summed.
    scale
        Of the noise, in parts: s of Laplace noise (pure), σ of Gaussian noise (zcdp).
    """
    if definition == "pure":
        slack = math.log(1 / (2 * (1 - ONE_SIDED))) * scale
    else:
        slack = NormalDist().inv_cdf(ONE_SIDED) * scale
    parts = max(noisy + slack, 0.0) / cells + 0.5  # bringing r onto the lattice hides at most half a part
    return 2 * (parts / UNIT) ** 2
