"""Means and rates of noisy numbers, which of them are shown, and intervals that hold for each cell.

A mean is A/(A + B), of two sums with independent noise. For the true p, L(p) = (1 - p)·A - p·B has the true
value 0 and the variance (1 - p)²·Var A + p²·Var B, whatever the size of the cell: the interval is the set of
all p in [0, 1] that a test of L(p) = 0 does not reject (Fieller 1954). Negative parts are lifted to 0 first,
which brings no true p further off. A rate over another table is A/B, with L(p) = A - p·B. ``steady_half`` is
a least half-width that does not depend on whether the test errs; ``Shown`` keeps the false discovery and the
false coverage rate. Derivations: docs/explanation/margins-of-error.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats
from tabularium.mechanisms.inference.margins_of_error.half_widths import quantile
from tabularium.mechanisms.noise_distributions import laplace_scale


def ratio_of(parts: Floats) -> Floats:
    """Return A/(A + B) of pairs (..., 2) that are not negative; not a number where both are zero.

    Pairs in which noise made one negative give a ratio that is cut at 0 and 1.
    """
    above = np.maximum(parts, 0.0)
    whole = above.sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        result: Floats = np.where(whole > 0, above[..., 0] / whole, np.nan)
    return result


def ratio_interval(parts: Floats, variances: Floats, level: float) -> tuple[Floats, Floats]:
    """Return the smallest and largest A/(A + B) that independent estimates (..., 2) leave possible.

    Examples
    --------
    >>> low, high = ratio_interval(np.array([300.0, 100.0]), np.array([25.0, 25.0]), 0.9)
    >>> float(low.round(3)), float(high.round(3))
    (0.734, 0.766)
    >>> [float(end) for end in ratio_interval(np.array([3.0, 1.0]), np.array([25.0, 25.0]), 0.9)]
    [0.0, 1.0]
    """
    one, other = (np.maximum(parts[..., place], 0.0) for place in (0, 1))
    spread_one, spread_other = (quantile(level) ** 2 * variances[..., place] for place in (0, 1))
    # (one - p·(one + other))² <= (1 - p)²·spread_one + p²·spread_other, a quadratic in p
    square = (one + other) ** 2 - spread_one - spread_other
    middle = one * (one + other) - spread_one
    rest = one**2 - spread_one
    with np.errstate(invalid="ignore", divide="ignore"):
        root = np.sqrt(np.maximum(middle**2 - square * rest, 0.0))
        low, high = (middle - root) / square, (middle + root) / square
    bounded = (square > 0) & (one + other > 0)
    return (
        np.where(bounded, np.clip(low, 0.0, 1.0), 0.0),
        np.where(bounded, np.clip(high, 0.0, 1.0), 1.0),
    )


def steady_half(
    one: Floats, other: Floats, spread_one: Floats, spread_other: Floats, level: float, *, over: bool
) -> Floats:
    """Return half-widths of ratios that do not depend on where noise moved each of them.

    Infinite where nothing speaks for any record; zero where there is no ratio of all cells that are compared.
    ``over``: the ratios are one/other; else one/(one + other).

    Examples
    --------
    >>> ill, healthy = np.array([0.0, 40.0]), np.array([200.0, 160.0])
    >>> steady_half(ill, healthy, np.full(2, 100.0), np.full(2, 100.0), 0.9, over=False).round(3).tolist()
    [0.068, 0.083]
    """
    total = float(other.sum()) if over else float(one.sum() + other.sum())
    if not total > 0:
        return np.zeros(one.shape)
    p = min(max(float(one.sum()) / total, 0.0), np.inf if over else 1.0)
    rest = 1.0 if over else 1.0 - p  # of N records, p·N are counted in one and rest·N in the other
    # The estimate of N is that of least squares; multiplied out, since a known number has the variance 0.
    of_both = p**2 * spread_other + rest**2 * spread_one
    with np.errstate(invalid="ignore", divide="ignore"):
        number = (p * one * spread_other + rest * other * spread_one) / of_both
        half = quantile(level) * np.sqrt(rest**2 * spread_one + p**2 * spread_other) / number
    return np.where(of_both <= 0, 0.0, np.where(number > 0, half, np.inf))


def quotient_of(part: Floats, whole: Floats) -> Floats:
    """Return part/whole; not a number where the whole is not above zero."""
    with np.errstate(invalid="ignore", divide="ignore"):
        result: Floats = np.where(whole > 0, np.maximum(part, 0.0) / whole, np.nan)
    return result


def quotient_interval(
    part: Floats, whole: Floats, spread_part: Floats, spread_whole: Floats, level: float
) -> tuple[Floats, Floats]:
    """Return the smallest and largest quotient that linear estimates of part and whole leave possible.

    Errors are independent, truths not negative, the variance of a whole that is known is 0. The upper end is
    infinite where a whole of zero cannot be excluded.

    Examples
    --------
    >>> thirty, hundred = np.array(30.0), np.array(100.0)
    >>> [float(end.round(3)) for end in quotient_interval(thirty, hundred, hundred, 0 * hundred, 0.9)]
    [0.136, 0.464]
    >>> [float(end.round(3)) for end in quotient_interval(thirty, hundred, hundred, hundred, 0.9)]
    [0.134, 0.483]
    """
    part, whole = np.maximum(part, 0.0), np.maximum(whole, 0.0)
    # (part - p·whole)² <= spread_part + p²·spread_whole, a quadratic in p
    near_part, near_whole = (quantile(level) ** 2 * item for item in (spread_part, spread_whole))
    square, middle = whole**2 - near_whole, part * whole
    with np.errstate(invalid="ignore", divide="ignore"):
        root = np.sqrt(np.maximum(middle**2 - square * (part**2 - near_part), 0.0))
        low, high = (middle - root) / square, (middle + root) / square
    bounded = (square > 0) & (whole > 0) & np.isfinite(near_part)
    return (
        np.where(bounded, np.maximum(low, 0.0), 0.0),
        np.where(bounded, np.maximum(high, 0.0), np.inf),
    )


EMPTY = 0.01
"""Largest share of what is shown that is expected to be of cells without any record."""


@dataclass(frozen=True, eq=False, slots=True)
class Shown:
    """What is shown of some numbers.

    Attributes
    ----------
    there
        Which are shown, the shape of what was given.
    among
        How many could have been.
    level
        At which their intervals hold.
    without
        What share of those that are shown is expected to be of cells without any record, at most.
    deviations
        How many standard deviations above zero the least of the estimates lies that are shown; infinite where
        none is, or all are known exactly.
    """

    there: Bools
    among: int
    level: float
    without: float
    deviations: float

    @classmethod
    def of(cls, records: Floats, variances: Floats, possible: Bools, level: float) -> Shown:
        """Choose among the ``possible`` cells by unbiased estimates that are zero where there is no record.

        Examples
        --------
        >>> found = Shown.of(np.array([90.0, 3.0, -4.0, 60.0]), np.full(4, 50.0), np.ones(4, bool), 0.9)
        >>> found.there.tolist(), found.level
        ([True, False, False, True], 0.95)
        """
        chance = chance_if_empty(records, variances)
        candidates = possible & np.isfinite(variances) & ~((variances == 0) & (records <= 0))
        among = int(candidates.sum())
        ordered = np.sort(chance[candidates])
        allowed = EMPTY * np.arange(1, among + 1) / max(among, 1)
        enough = np.flatnonzero(ordered <= allowed)
        if not len(enough):
            return cls(np.zeros(records.shape, bool), among, level, 0.0, np.inf)
        last = ordered[enough[-1]]
        there = candidates & (chance <= last)
        number = int(there.sum())
        noisy = there & (variances > 0)
        least = (records[noisy] / np.sqrt(variances[noisy])).min() if noisy.any() else np.inf
        false = float(last * among / number)
        return cls(there, among, 1 - (1 - level) * number / among, false, float(least))

    def as_json(self) -> dict[str, float | int | None]:
        """Return what a certificate says of it."""
        far = self.deviations if np.isfinite(self.deviations) else None
        return {
            "cells": self.among,
            "shown": int(self.there.sum()),
            "least_standard_deviations": None if far is None else float(f"{far:.4g}"),
            "without_records_at_most": float(f"{self.without:.4g}"),
            "margins_at": float(f"{self.level:.10g}"),
        }


def chance_if_empty(records: Floats, variances: Floats) -> Floats:
    """Return a bound of the probability that mere noise reaches ``records``, where that is above zero."""
    known = variances <= 0
    spread = np.where(known | np.isinf(variances), 1.0, variances)
    above = np.maximum(records, 0.0)
    scale = laplace_scale(spread)
    one = np.exp(-above / scale) / (1 + np.exp(-1 / scale))
    result: Floats = np.maximum(one, 0.5 * np.exp(-(above**2) / (2 * spread)))
    return np.where(known, np.where(records > 0, 0.0, 1.0), result)
