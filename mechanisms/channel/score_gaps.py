"""Scores of candidates, made into integers without breaking their sensitivity."""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabularium.mechanisms.errors import MechanismError

LARGEST_SCORE = 1 << 61
_FINENESS = 1 << 12  # float scores are rounded to a step at least this much finer than the sensitivity
_LARGEST_INFLATION = Fraction(1, 100)


def gaps_below_best(
    scores: ArrayLike, sensitivity: Fraction, error: Fraction, where: str
) -> tuple[NDArray[np.int64], Fraction, Fraction]:
    """Return how far each score is below the best, in whole units.

    Parameters
    ----------
    scores
        Shape (m,), integers or floats.
    sensitivity, error
        Δ of the exact scores, and η of their computation.

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
        integers = np.clip(steps, -float(LARGEST_SCORE), float(LARGEST_SCORE)).astype(np.int64)
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

    Parameters
    ----------
    scores
        Integers, shape (m,).
    starts
        Integers, shape (groups,): ascending from 0, each below m.
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
    """Clip integers to ±2^61: clipping at a public bound cannot bring neighbours further apart."""
    capped = np.minimum(array, array.dtype.type(min(LARGEST_SCORE, np.iinfo(array.dtype).max)))
    return np.asarray(np.maximum(capped.astype(np.int64), -LARGEST_SCORE), dtype=np.int64)
