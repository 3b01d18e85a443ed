"""Arguments of the primitives: exact amounts, integers, real values on a lattice, scores of candidates.

Clipping at a public bound brings no two neighbours further apart; refusing a value once noise has been drawn
would throw away what is paid for, and tell of the data that they are large.
"""

from __future__ import annotations

import math
from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabularium.mechanisms.arrays import LARGEST_POINT, LARGEST_VALUE
from tabularium.mechanisms.errors import MechanismError

Amount = Fraction | int | str


def exact(amount: Amount, where: str, *, zero: bool = False) -> Fraction:
    """Return an amount as a fraction; a float is refused, since it is not the number that was meant."""
    if type(amount) is Fraction and amount > 0:
        return amount
    if isinstance(amount, bool) or not isinstance(amount, Fraction | int | str):
        raise MechanismError(
            f"an amount must be exact, not {type(amount).__name__}",
            where=where,
            hint="give a Fraction, a whole number, or text such as 1/3 or 0.1",
        )
    try:
        value = Fraction(amount)
    except (ValueError, ZeroDivisionError):
        raise MechanismError(
            "an amount is not a number", where=where, hint="write it as 1/3 or 0.1"
        ) from None
    if value < 0 or (value == 0 and not zero):
        raise MechanismError("an amount must be positive", where=where)
    return value


def check_integers(values: ArrayLike, where: str) -> NDArray[np.int64]:
    """Return integer ``values`` as int64, clipped to ±2^61."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu":
        raise MechanismError(
            f"integer noise needs integer values, not {array.dtype}",
            where=where,
            hint="use the lattice for real values",
        )
    if array.size and (int(array.max()) > LARGEST_VALUE or int(array.min()) < -LARGEST_VALUE):
        array = np.clip(array, -LARGEST_VALUE if array.dtype.kind == "i" else 0, LARGEST_VALUE)
    return array.astype(np.int64, copy=False)


def on_lattice(values: ArrayLike, width: Fraction, where: str) -> NDArray[np.int64]:
    """Return ``floor(values / width)`` as int64, clipped to ±2^52 steps; the width is 2^k, |k| <= 900."""
    top, bottom = width.numerator, width.denominator
    if top & (top - 1) or bottom & (bottom - 1) or max(top, bottom).bit_length() > 900:
        raise MechanismError("a lattice width must be a power of two", where=where, hint="use 2^k or 1/2^k")
    array = np.asarray(values)
    if array.dtype not in (np.float64, np.float32):
        raise MechanismError(
            f"the lattice takes floats, not {array.dtype}", where=where, hint="use laplace for integers"
        )
    if np.isnan(array).any():
        raise MechanismError("a value to be measured is not a number", where=where)
    with np.errstate(over="ignore"):  # what overflows is clipped
        steps = np.floor(array.astype(np.float64) * float(1 / width))
    return np.clip(steps, -LARGEST_POINT, LARGEST_POINT).astype(np.int64)


def lattice_sensitivity(
    bound: Fraction, width: Fraction, error: Fraction, *, size: int, squared: bool
) -> Fraction:
    """Return the sensitivity, in steps, of ``size`` values rounded down to a lattice.

    Each coordinate moves by less than one step more than it did before rounding, and each of two
    computed values may be off by ``error``: Δ/g + z(1 + 2η/g) in L1, Δ/g + √z·(1 + 2η/g) in L2
    (``squared``; the triangle inequality), the root rounded up.
    """
    apart = 1 + 2 * error / width
    if not squared:
        return bound / width + size * apart
    return bound / width + Fraction(math.isqrt(size << 64) + 1, 1 << 32) * apart


_FINENESS = 1 << 12  # float scores are rounded to a step at least this much finer than the sensitivity
_LARGEST_INFLATION = Fraction(1, 100)


def gaps_below_best(
    scores: ArrayLike, sensitivity: Fraction, error: Fraction, where: str
) -> tuple[NDArray[np.int64], Fraction, Fraction]:
    """Return how far each score is below the best, in whole units.

    ``scores``: Shape (m,), integers or floats. ``sensitivity``, ``error``: Δ of the exact scores, and η of
    their computation.

    Returns
    -------
    gaps
        int64, shape (m,), non-negative.
    unit
        What one step of a gap is worth in score.
    sensitivity
        Of the scores as they are used: Δ for exact integers, otherwise Δ + 2η rounded up to whole steps.
        If |a - b| is at most N steps then so is the distance between floor(a) and floor(b).
    """
    array = np.asarray(scores)
    if array.ndim != 1 or array.size == 0:
        raise MechanismError("a choice needs a vector of at least one score", where=where)
    total = sensitivity + 2 * error
    if array.dtype.kind in "iu":
        integers, unit = _within_bounds(array), Fraction(1)
    elif array.dtype in (np.float64, np.float32):
        unit = Fraction(2) ** (-ceil(Fraction(_FINENESS) / total).bit_length())
        if np.isnan(array).any():
            raise MechanismError("a score is not a number", where=where)
        with np.errstate(over="ignore"):  # what overflows is clipped
            steps = np.floor(array.astype(np.float64) * float(1 / unit))
        integers = np.clip(steps, -float(LARGEST_VALUE), float(LARGEST_VALUE)).astype(np.int64)
        total = ceil(total / unit) * unit
    else:
        raise MechanismError(f"scores must be integers or floats, not {array.dtype}", where=where)
    if total > sensitivity * (1 + _LARGEST_INFLATION):
        raise MechanismError(
            "the stated error of the scores would add more than 1 % to the noise",
            where=where,
            hint="compute the scores in integers, or lower the cap on counts",
        )
    return integers.max() - integers, unit, total


def gaps_in_groups(
    scores: ArrayLike, starts: ArrayLike, where: str
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how far each score is below the best of its group, and where the groups begin.

    ``scores``: Integers, shape (m,). ``starts``: Integers, shape (groups,): ascending from 0, each below m.
    """
    array, firsts = np.asarray(scores), np.asarray(starts)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise MechanismError(
            "choices in groups need a vector of at least one integer score",
            where=where,
            hint="compute the scores in integers",
        )
    if firsts.ndim != 1 or firsts.size == 0 or firsts.dtype.kind not in "iu":
        raise MechanismError("choices in groups need the first position of each group", where=where)
    ends = np.append(firsts.astype(np.int64), array.size)
    if ends[0] != 0 or bool((np.diff(ends) < 1).any()):
        raise MechanismError(
            "groups must begin at 0, ascend, and hold at least one candidate each", where=where
        )
    integers = _within_bounds(array)
    best = np.maximum.reduceat(integers, ends[:-1])
    gaps: NDArray[np.int64] = np.repeat(best, np.diff(ends)) - integers
    return gaps, ends[:-1]


def _within_bounds(array: NDArray[Any]) -> NDArray[np.int64]:
    """Return integers clipped to ±2^61."""
    capped = np.minimum(array, array.dtype.type(min(LARGEST_VALUE, np.iinfo(array.dtype).max)))
    return np.asarray(np.maximum(capped.astype(np.int64), -LARGEST_VALUE), dtype=np.int64)
