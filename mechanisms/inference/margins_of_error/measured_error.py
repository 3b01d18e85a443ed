"""How far a released table lies from the truth, where its mechanism cannot tell: measured, for a price.

The sum T = Σ min(|x - r|, cap) over the cells, x the true counts and r the released numbers, is measured once
with noise. Why that is private: r comes from measurements that have been paid for, so it is fixed here; one
record changes one x by 1, hence T by 1 at most (a cap, and a cap on the sum, only bring numbers nearer to
each other). T is computed exactly, in whole 1/256ths, so no rounding stands between counts and noise: what
is not exact is only r, which is first brought onto that lattice.

Large tables have such a sum for each class of released size (``error_classes``). Which cell belongs to which
class is read from r alone, and a record is in one cell, hence in one class: all sums together change by 1 at
most, in one place, and cost what one of them costs. Large counts among small ones are what mechanisms that
merge cells get most wrong: they then have margins of their own.

What it says. T/n is the mean absolute error over the cells. As the noise may have made it too small, a
one-sided bound of 95 % is taken. It becomes a mean squared error, and then a margin, as if the errors over
the cells followed a Laplace distribution: the mean square is twice the square of the mean. A margin of level
1 - a is then about ln(1/a) mean absolute errors, 2.30 at 90 %. That is enough for exponential errors and for
more even ones (normal: 2.06, lognormal of any width: at most 2.27). Errors that sit in a few cells need more
in those and less elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.accounting import Definition
from tabularium.mechanisms.arrays import Integers
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.limits import LARGEST_COUNT, LARGEST_SUM

UNIT = 256
"""Parts of a record in which errors are counted; one record changes the sum by this many parts."""

ONE_SIDED = 0.95
"""Probability that the bound on the mean absolute error holds, over the noise of its measurement."""

FEWEST = 256
"""Cells of the class of the largest released numbers; every class below has twice as many."""

_CELLS_AT_ONCE = 1 << 12  # 2^12 errors of at most 2^48 parts: no overflow


def total_error(counts: Integers, released: NDArray[Any]) -> int:
    """Return Σ min(|counts - released|, cap) in parts of 1/256. **Confidential**: to be measured with noise.

    Parameters
    ----------
    counts
        True counts from 0 to 2^40, any shape.
    released
        Finite numbers in the same shape, which depend on measurements only.

    Returns
    -------
    A whole number from 0 to 2^60, of sensitivity 256.

    Raises
    ------
    MechanismError
        A released number is not finite: found before the counts are looked at.

    Examples
    --------
    >>> total_error(np.array([3, 5]), np.array([2.5, 7.0])) / UNIT
    2.5
    """
    flat, near = counts.reshape(-1), np.asarray(released).reshape(-1)
    if near.dtype.kind == "f" and not np.isfinite(near).all():
        raise MechanismError("a released number is not finite", where="released", hint="mend the mechanism")
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

    From the top, classes have 256, 512, 1024, ... cells and whoever shares the last one's number; what is
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
    classes: Integers = np.searchsorted(np.array(bounds[::-1]), flat, side="right").astype(np.int64)
    return classes


def class_errors(
    counts: Integers, released: NDArray[Any], total: Callable[..., int] = total_error
) -> Integers:
    """Return the total error of each class, in parts of 1/256. **Confidential**, like ``total_error``.

    Returns
    -------
    Shape (classes,): a record changes one of them, by 256 at most.
    """
    of, flat, near = error_classes(released), counts.reshape(-1), np.asarray(released).reshape(-1)
    return np.array([total(flat[of == k], near[of == k]) for k in range(int(of.max()) + 1)], np.int64)


def bounded_risk(noisy: int, cells: int, scale: float, definition: Definition) -> float:
    """Return a mean squared error per cell that goes with a measured total error.

    Parameters
    ----------
    noisy
        The total in parts, with noise.
    cells
        How many cells were summed.
    scale
        Of the noise, in parts: s of Laplace noise (pure), σ of Gaussian noise (zcdp).

    Returns
    -------
    Twice the square of the upper bound on the mean absolute error, in squared records; never below that of
    an error of half a part in each cell.
    """
    if definition == "pure":
        slack = math.log(1 / (2 * (1 - ONE_SIDED))) * scale
    else:
        slack = NormalDist().inv_cdf(ONE_SIDED) * scale
    parts = max(noisy + slack, 0.0) / cells + 0.5  # bringing r onto the lattice hides at most half a part
    return 2 * (parts / UNIT) ** 2
