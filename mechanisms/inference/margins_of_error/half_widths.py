"""Margins of error: half-widths of intervals around a published number, from the variance of its noise.

A released value is the true value plus a weighted sum of independent discrete Laplace errors (identity:
one of them; consistency: many, with unequal weights). Its distribution lies between two extremes of the
same variance V: one error alone (Laplace, heavy tails) and very many (normal). The half-width given here is
the larger of the two quantiles, for a level 1 - a:

    max( z_{1 - a/2} * sqrt(V),  ln(1/a) * sqrt(V / 2) ).

How honest that is. It is exact at both ends. In between, sums of continuous Laplace errors have smaller
quantiles: a search over thousands of random weightings of two to four terms at seven levels from 80 % to
99.9 % found none above the bound (largest: 0.9999 of it, at the Laplace end). The most it wastes is where
the two ends differ: 1 % at 90 % (normal 1.645, Laplace 1.628 standard deviations), 8 % at 95 %, 26 % at 99 %.

Whole-number errors jump from one integer to the next, so an interval of a real half-width w holds only what
floor(w) holds. At 90 % that can be as little as 89.8 % for noise of scale 10 and more, 88.7 % from 3, 86.4 %
from 1, and 73 % below 1. Where published values are whole, ask for ``whole=True``, which rounds up (in an
exact comparison never below what is needed, for sums of 1 to 100 terms, scales .15 to 30, levels 80 to
99 %), or for the smallest sufficient half-width with ``laplace_margin``.

The margins are for linear estimates. Non-negativity and rounding are not linear. What they did to a number is
known, so an interval around what they made of it can be as wide as it takes to hold the interval of the
linear estimate (``covering``): valid for every cell by itself, and in sparse tables much too wide. Narrower
ones are simulated (:mod:`tabularium.mechanisms.inference.margins_of_error.simulation`).
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from tabularium.mechanisms import noise_distributions
from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.errors import MechanismError

POINTS = 1 << 20
"""Lattice points of the numerical inversion of a sum's characteristic function."""

WIDE = 1000.0
"""Discrete Gaussian noise of a larger sigma is taken to be continuous."""

REACH = 24
"""Standard deviations of a sum that the lattice must hold on either side; the rest is below 1e-14."""


def margins(
    variances: ArrayLike,
    level: float = 0.9,
    *,
    scale: float | None = None,
    sigma: float | None = None,
    whole: bool = False,
) -> Floats:
    """Return the half-width of an interval for every variance.

    Parameters
    ----------
    variances
        Variances of weighted sums of independent discrete Laplace errors, any shape, in squared counts.
    level
        Probability that the interval holds the true value, in (0, 1).
    scale
        Scale of the discrete Laplace noise (sensitivity / epsilon) of one measurement. Where the variance is
        that of a single such error, the exact smallest half-width is given, a whole number.
    sigma
        The same for discrete Gaussian noise, P(z) proportional to exp(-z^2 / (2 sigma^2)).
    whole
        The errors are whole numbers: round the half-widths up to whole numbers.

    Returns
    -------
    Half-widths, the shape of ``variances``; 0 where the variance is 0 and infinite where it is infinite.

    Raises
    ------
    MechanismError
        For a level outside (0, 1), a negative or undefined variance, or a scale that is not positive.

    Examples
    --------
    >>> margins([0.0, 100.0]).round(3).tolist()
    [0.0, 16.449]
    >>> margins(100.0, 0.99).round(3).tolist()
    32.563
    """
    _check_level(level)
    given = np.asarray(variances, dtype=np.float64)
    if not (given >= 0).all():
        raise MechanismError(
            "a variance is negative or not a number", where="margins", hint="use the variances of an estimate"
        )
    widths: Floats = np.sqrt(given) * quantile(level)
    if whole:
        widths = np.ceil(widths)
    if scale is not None:
        alone = np.isclose(given, laplace_variance(scale), rtol=1e-9, atol=0.0)
        widths = np.where(alone, float(laplace_margin(scale, level)), widths)
    if sigma is not None:
        variance, smallest = _gaussian(sigma, 1.0 - level)
        widths = np.where(np.isclose(given, variance, rtol=1e-6, atol=0.0), smallest, widths)
    return widths


def quantile(level: float) -> float:
    """Return how many standard deviations a half-width has: the larger of the normal and the Laplace one."""
    return max(NormalDist().inv_cdf(0.5 + level / 2), -math.log(1.0 - level) / math.sqrt(2))


def covering(published: ArrayLike, linear: ArrayLike, half: ArrayLike, *, whole: bool = False) -> Floats:
    """Return half-widths around published numbers that hold the intervals linear ± half, cut at zero.

    What was counted is no less than zero: nothing below needs to be held. Where it is published as a whole
    number as well, an interval is as good as the whole numbers inside it.

    Parameters
    ----------
    published
        Numbers, any shape.
    linear, half
        Estimates of the same numbers and the half-widths of their intervals; infinite where nothing is known.
    whole
        Published numbers are whole: so are the half-widths.

    Returns
    -------
    Half-widths, the shape of ``published``: each interval holds the true count whenever linear ± half does.

    Examples
    --------
    >>> covering([0, 4, 30], [-12.0, 7.0, 30.5], 10.0).tolist()
    [0.0, 13.0, 10.5]
    >>> covering([0, 4, 30], [-12.0, 7.0, 30.5], 10.0, whole=True).tolist()
    [0.0, 13.0, 10.0]
    """
    at, around, reach = (np.asarray(each, np.float64) for each in (published, linear, half))
    low, high = np.maximum(around - reach, 0.0), np.maximum(around + reach, 0.0)
    if whole:
        # A shade outside of the ends first: an error in the last bits is not a person.
        inside = np.ceil(low - 1e-9), np.floor(high + 1e-9)
        none = inside[0] > inside[1]
        low, high = np.where(none, np.floor(low), inside[0]), np.where(none, np.ceil(high), inside[1])
    widths: Floats = np.maximum(np.maximum(at - low, high - at), 0.0)
    return widths


def laplace_variance(scale: float) -> float:
    """Return the variance of one discrete Laplace error, P(z) proportional to exp(-|z| / scale)."""
    _check_scale(scale)
    return noise_distributions.laplace_variance(scale)


def laplace_margin(scale: float, level: float = 0.9, terms: int = 1) -> int:
    """Return the smallest m with P(|Z_1 + ... + Z_terms| <= m) >= level, Z independent discrete Laplace.

    One term: P(|Z| > m) = 2 p^(m + 1) / (1 + p), p = exp(-1/scale), in closed form. Several: the sum's
    probabilities from its characteristic function ((1 - p)^2 / (1 - 2 p cos t + p^2))^terms by a fast
    Fourier transform. Where a sum is too wide for ``POINTS`` lattice points, it is put on a coarser lattice
    of the same variance and the answer rounded up: it is then within 1/5 000 of a standard deviation.

    Parameters
    ----------
    scale
        Sensitivity / epsilon of each error.
    level
        Probability in (0, 1).
    terms
        Number of errors added up, at least 1.

    Examples
    --------
    >>> laplace_margin(10.0), laplace_margin(10.0, terms=100)
    (23, 232)
    """
    _check_level(level)
    _check_scale(scale)
    if terms < 1:
        raise MechanismError("the number of terms is below 1", where="margins", hint="give at least 1")
    if terms == 1:
        return _single(scale, 1.0 - level)
    deviation = math.sqrt(terms * laplace_variance(scale))
    coarse = math.ceil(2 * REACH * deviation / POINTS)
    if coarse <= 1:
        return _summed(scale, 1.0 - level, terms)
    return coarse * (_summed(_scale_of(laplace_variance(scale) / coarse**2), 1.0 - level, terms) + 1)


def _single(scale: float, outside: float) -> int:
    def tail(m: int) -> float:
        return 2.0 * math.exp(-(m + 1) / scale) / (1.0 + math.exp(-1.0 / scale))

    m = max(0, math.ceil(-scale * math.log(outside * (1.0 + math.exp(-1.0 / scale)) / 2.0)) - 1)
    # The logarithm may have rounded across a whole number.
    while m > 0 and tail(m - 1) <= outside:
        m -= 1
    while tail(m) > outside:
        m += 1
    return m


def _gaussian(sigma: float, outside: float) -> tuple[float, float]:
    """Return the variance of one discrete Gaussian error and its smallest sufficient half-width."""
    if not 0.0 < sigma < math.inf:
        raise MechanismError("sigma is not a positive number", where="margins", hint="use that of the noise")
    if sigma > WIDE:
        # From here on the steps between whole numbers are below a thousandth of a standard deviation.
        return sigma**2, math.ceil(NormalDist().inv_cdf(1 - outside / 2) * sigma)
    points = np.arange(math.ceil(REACH * sigma) + 2, dtype=np.float64)
    chances = np.exp(-((points / sigma) ** 2) / 2)
    tails = 2.0 * np.cumsum(chances[:0:-1])[::-1]
    whole = chances[0] + tails[0]
    return float(2.0 * (points**2 * chances).sum() / whole), float(np.argmax(tails <= outside * whole))


def _summed(scale: float, outside: float, terms: int) -> int:
    reach = REACH * math.sqrt(terms * laplace_variance(scale)) + REACH * (scale + 1)
    points = 1 << math.ceil(math.log2(2 * reach))
    decay = math.exp(-1.0 / scale)
    angle = 2.0 * np.pi * np.arange(points // 2 + 1) / points
    # 1 - 2p cos t + p^2 = (1 - p)^2 + 4p sin^2(t/2): no cancellation near t = 0.
    bump = 4.0 * decay * np.sin(angle / 2) ** 2 / (1.0 - decay) ** 2
    chances = np.fft.irfft(np.exp(-terms * np.log1p(bump)), points)
    # |Z| <= m holds 0 and both m's; the tail is summed from its small end.
    tails = 2.0 * np.cumsum(chances[points // 2 - 1 : 0 : -1])[::-1]
    return int(np.argmax(tails <= outside))


def _scale_of(variance: float) -> float:
    return 0.5 / math.asinh(math.sqrt(0.5 / variance))


def _check_level(level: float) -> None:
    if not 0.0 < level < 1.0:
        raise MechanismError("the level is not between 0 and 1", where="margins", hint="0.9 means 90 percent")


def _check_scale(scale: float) -> None:
    if not 0.0 < scale < math.inf:
        raise MechanismError(
            "the scale is not a positive number", where="margins", hint="use sensitivity / epsilon"
        )
