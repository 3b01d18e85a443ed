"""Half-widths of intervals around a published number, from the variance of its noise.

A released value is the true value plus a weighted sum of independent discrete Laplace errors. Its
distribution lies between two extremes of the same variance V: a single error (Laplace, heavy tails) and very
many (normal). The half-width is the larger of the two quantiles, for a level 1 - a:

    max( z_{1 - a/2} * sqrt(V),  ln(1/a) * sqrt(V / 2) ),

exact at both ends; how honest it is in between, and for whole numbers, is measured in
docs/explanation/margins-of-error.md. The margins are for linear estimates. Around what non-negativity and
rounding made of them ``widen_to_cover`` gives intervals that are valid for every cell by itself, and in
sparse tables much too wide; narrower ones are simulated (``simulation``).
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.noise_distributions import (
    check_level,
    gaussian_margin,
    gaussian_variance,
    laplace_margin,
    laplace_variance,
)


def margins(
    variances: ArrayLike,
    level: float = 0.9,
    *,
    scale: float | None = None,
    sigma: float | None = None,
    whole: bool = False,
) -> Floats:
    """Return the half-width of an interval for every variance; infinite where that is infinite.

    Parameters
    ----------
    variances
        Variances of weighted sums of independent discrete Laplace errors, any shape, in squared counts.
    level
        Probability that the interval holds the true value, in (0, 1).
    scale, sigma
        Of the discrete Laplace or Gaussian noise of one measurement. Where the variance is that of a single
        such error, the exact smallest half-width is given, a whole number.
    whole
        The errors are whole numbers: round the half-widths up to whole numbers.

    Raises
    ------
    MechanismError
        For a level outside (0, 1), a negative or undefined variance, or a scale that is not positive.

    Examples
    --------
    >>> margins([0.0, 100.0]).round(3).tolist()
    [0.0, 16.449]
    """
    check_level(level)
    given = np.asarray(variances, dtype=np.float64)
    if not (given >= 0).all():
        raise MechanismError(
            "a variance is negative or not a number", where="margins", hint="use the variances of an estimate"
        )
    widths: Floats = np.sqrt(given) * quantile(level)
    if whole:
        widths = np.ceil(widths)
    if scale is not None:
        single = np.isclose(given, laplace_variance(scale), rtol=1e-9, atol=0.0)
        widths = np.where(single, float(laplace_margin(scale, level)), widths)
    if sigma is not None:
        single = np.isclose(given, gaussian_variance(sigma**2), rtol=1e-6, atol=0.0)
        widths = np.where(single, gaussian_margin(sigma, level), widths)
    return widths


def quantile(level: float) -> float:
    """Return how many standard deviations a half-width has: the larger of the normal and the Laplace one."""
    return max(NormalDist().inv_cdf(0.5 + level / 2), -math.log(1.0 - level) / math.sqrt(2))


def widen_to_cover(
    published: ArrayLike, linear: ArrayLike, half: ArrayLike, *, whole: bool = False
) -> Floats:
    """Return half-widths around published numbers that hold the intervals linear ± half, cut at zero.

    What was counted is no less than zero: nothing below needs to be held. Where it is published as a whole
    number as well, an interval is as good as the whole numbers inside it, and half-widths are whole.

    Examples
    --------
    >>> widen_to_cover([0, 4, 30], [-12.0, 7.0, 30.5], 10.0).tolist()
    [0.0, 13.0, 10.5]
    >>> widen_to_cover([0, 4, 30], [-12.0, 7.0, 30.5], 10.0, whole=True).tolist()
    [0.0, 13.0, 10.0]
    """
    at, around, reach = (np.asarray(item, np.float64) for item in (published, linear, half))
    low, high = np.maximum(around - reach, 0.0), np.maximum(around + reach, 0.0)
    if whole:
        # A shade outside of the ends first: an error in the last bits is not a person.
        inside = np.ceil(low - 1e-9), np.floor(high + 1e-9)
        none = inside[0] > inside[1]
        low, high = np.where(none, np.floor(low), inside[0]), np.where(none, np.ceil(high), inside[1])
    return np.asarray(np.maximum(np.maximum(at - low, high - at), 0.0))
