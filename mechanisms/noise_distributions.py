"""The law of the noise: moments, quantiles and parts of discrete Laplace and Gaussian noise, and its price.

Discrete Laplace noise of scale s has P(z) ∝ exp(-|z|/s), and for s = Δ/ε the variance 1 / (2 sinh²(ε/2Δ));
discrete Gaussian noise has P(z) ∝ exp(-z²/2σ²), and for σ² = Δ²/2ρ a variance that is below σ² by less than
one part in 10^15 from σ = 2 on. Only for post-processing and planning: the simulated parts come from a seeded
generator and protect nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, exp, expm1, inf, log, log2, pi, sqrt
from numbers import Real
from statistics import NormalDist
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.accounting.transcript import GAUSSIANS, Definition, Event
from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.errors import MechanismError

NoiseFamily = Literal["laplace", "gaussian"]
FAMILIES = ("laplace", "gaussian")
NOTHING = 1e-12
"""Variance of whole noise below which it is none: one draw in a million million is not zero."""
_POINTS = 1 << 20  # of the lattice on which the characteristic function of a sum is inverted
_REACH = 24  # standard deviations of a sum that the lattice holds on either side; the rest is below 1e-14
_WIDE = 1000.0  # σ beyond which steps between whole numbers are below a thousandth of a standard deviation
_LARGEST_RATE = 300.0  # of ε/Δ: beyond it a sinh² would overflow, and noise of variance e^-300 is none
_PLAIN = 4.0  # σ² from which on the discrete Gaussian variance is σ² to the last bit
_STEP = 1e-6
_LEAST = 1e-200
_SMOOTH = 8.0  # from this σ on, sums over integers of the Gaussian curve are its integrals (1 in 10^100)


@dataclass(frozen=True)
class Noise:
    """The distribution of the noise in one cell.

    ``family``: ``"laplace"``: P(z) ∝ exp(-|z|/s); ``"gaussian"``: P(z) ∝ exp(-z²/2s²).
    """

    family: NoiseFamily
    scale: float
    whole: bool

    @classmethod
    def for_loss(cls, loss: Fraction, definition: Definition) -> Noise:
        """Return the noise on whole numbers that a loss buys at sensitivity 1: scale 1/ε, or σ² = 1/2ρ."""
        if definition == "pure":
            return cls("laplace", float(1 / loss), whole=True)
        return cls("gaussian", sqrt(1 / (2 * loss)), whole=True)

    @property
    def variance(self) -> float:
        """E z²: 2s² and s²; discrete Laplace 2p/(1-p)² with p = exp(-1/s)."""
        if self.family == "gaussian":
            return _gaussian_sum(self.scale, 2) if self._coarse else self.scale**2
        if not self.whole:
            return 2 * self.scale**2
        return laplace_variance(self.scale)

    @property
    def deviation(self) -> float:
        """E |z|: s and s·√(2/π); discrete Laplace 2p/(1-p²), discrete Gaussian less by 1/12s² of it."""
        if self.family == "gaussian":
            if self._coarse:
                return _gaussian_sum(self.scale, 1)
            return self.scale * sqrt(2 / pi) * (1 - self.whole / (12 * self.scale**2))
        return self.scale if not self.whole else 2 * exp(-1 / self.scale) / -expm1(-2 / self.scale)

    @property
    def _coarse(self) -> bool:
        return self.whole and self.scale < _SMOOTH

    def chances(self, step: int, half: int) -> Floats:
        """Return the chance of -half .. half steps: exact for a step of 1, else that of the nearest step."""
        away = np.abs(np.arange(-half, half + 1)) * float(step)
        if self.family == "gaussian":
            chance = np.exp(-0.5 * (away / self.scale) ** 2)
        elif step == 1:
            chance = np.exp(-away / self.scale)
        else:
            beyond = exp(-step / (2 * self.scale))
            chance = np.exp(-away / self.scale) * (1 / beyond - beyond) / 2
            chance[half] = 1 - beyond
        return np.asarray(chance / chance.sum())

    def part(self, share: int, size: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return independent draws such that the sum of ``share`` of them has this distribution.

        Laplace noise is a difference of two exponential variables, which are sums of gamma variables of shape
        1/share; in whole numbers, of two geometric ones and negative binomials. Exact but for the discrete
        Gaussian one, for which the continuous one of the same variance stands.
        """
        if self.family == "gaussian":
            return rng.normal(0.0, sqrt(self.variance / share), size)
        if not self.whole:
            return rng.gamma(1 / share, self.scale, size) - rng.gamma(1 / share, self.scale, size)
        stop = -expm1(-1 / self.scale)
        return rng.negative_binomial(1 / share, stop, size) - rng.negative_binomial(1 / share, stop, size)


def family_for(definition: Definition) -> NoiseFamily:
    """Return the family of the noise that a channel of this definition adds."""
    return "laplace" if definition == "pure" else "gaussian"


def noise_in(event: Event) -> Noise:
    """Return the distribution of the noise that one draw put on whole numbers."""
    return Noise("gaussian" if event.primitive in GAUSSIANS else "laplace", float(event.scale), whole=True)


def noise_of(family: str, scale: float | Fraction, *, whole: bool) -> Noise:
    """Return the noise of a family by name."""
    size = float(scale) if isinstance(scale, Real) else 0.0
    if not 0 < size < inf:
        raise MechanismError(
            "the noise scale must be a positive number",
            where="scale",
            hint="write sensitivity/epsilon for Laplace noise, sigma for Gaussian noise",
        )
    if family == "laplace":
        return Noise("laplace", size, whole)
    if family == "gaussian":
        return Noise("gaussian", size, whole)
    raise MechanismError("there is no such noise", where="noise", hint=f"write {' or '.join(FAMILIES)}")


def laplace_variance(scale: float) -> float:
    """Return the variance of the discrete Laplace distribution: 2p/(1-p)², p = exp(-1/scale)."""
    rate = 1 / scale
    return 2 * exp(-rate) / expm1(-rate) ** 2


def laplace_scale(variances: Floats) -> Floats:
    """Return the scale of the discrete Laplace distribution of each variance."""
    return 0.5 / np.arcsinh(np.sqrt(0.5 / variances))


def gaussian_variance(parameter: float) -> float:
    """Return the variance of the discrete Gaussian distribution with parameter σ².

    It is below σ², by less than one part in 10^15 from σ = 2 on. For small σ the defining sum is taken; for
    large σ the dual sum (Poisson summation), whose first term is all that is left.
    """
    if parameter >= 1:
        dual = [exp(-2 * pi**2 * parameter * k * k) for k in (1, 2)]
        slope = sum(2 * k * k * weight for k, weight in zip((1, 2), dual, strict=True))
        return parameter * (1 - 4 * pi**2 * parameter * slope / (1 + 2 * sum(dual)))
    weights = [exp(-k * k / (2 * parameter)) for k in range(1, 40)]
    return 2 * sum(k * k * w for k, w in enumerate(weights, 1)) / (1 + 2 * sum(weights))


def variance_of(event: Event) -> float:
    """Return the exact variance of the noise of one draw, in steps of its lattice."""
    squared = float(event.scale_squared)
    return gaussian_variance(squared) if event.primitive in GAUSSIANS else laplace_variance(squared**0.5)


def _gaussian_sum(scale: float, power: int) -> float:
    """Return E |z|^power of the discrete Gaussian distribution of a small σ, by its defining sum."""
    steps = np.arange(1, 16 * int(_SMOOTH))
    weights = np.exp(-(steps**2) / (2 * scale**2))
    return float(2 * (weights * steps**power).sum() / (1 + 2 * weights.sum()))


def laplace_margin(scale: float, level: float = 0.9, terms: int = 1) -> int:
    """Return the smallest m with P(|Z_1 + ... + Z_terms| <= m) >= level, Z independent discrete Laplace.

    One term in closed form; several from the characteristic function of the sum by a fast Fourier transform.
    Where a sum is too wide for 2^20 lattice points, it is put on a coarser lattice of the same variance and
    the answer rounded up: it is then within 1/5 000 of a standard deviation.

    Examples
    --------
    >>> laplace_margin(10.0), laplace_margin(10.0, terms=100)
    (23, 232)
    """
    check_level(level)
    if not 0.0 < scale < inf:
        raise MechanismError(
            "the scale is not a positive number", where="margins", hint="use sensitivity / epsilon"
        )
    if terms < 1:
        raise MechanismError("the number of terms is below 1", where="margins", hint="give at least 1")
    if terms == 1:
        return _single(scale, 1.0 - level)
    deviation = sqrt(terms * laplace_variance(scale))
    coarse = ceil(2 * _REACH * deviation / _POINTS)
    if coarse <= 1:
        return _summed(scale, 1.0 - level, terms)
    return coarse * (
        _summed(float(laplace_scale(np.array(laplace_variance(scale) / coarse**2))), 1.0 - level, terms) + 1
    )


def _single(scale: float, outside: float) -> int:
    def tail(m: int) -> float:
        return 2.0 * exp(-(m + 1) / scale) / (1.0 + exp(-1.0 / scale))

    m = max(0, ceil(-scale * log(outside * (1.0 + exp(-1.0 / scale)) / 2.0)) - 1)
    # The logarithm may have rounded across a whole number.
    while m > 0 and tail(m - 1) <= outside:
        m -= 1
    while tail(m) > outside:
        m += 1
    return m


def _summed(scale: float, outside: float, terms: int) -> int:
    reach = _REACH * sqrt(terms * laplace_variance(scale)) + _REACH * (scale + 1)
    points = 1 << ceil(log2(2 * reach))
    decay = exp(-1.0 / scale)
    angle = 2.0 * np.pi * np.arange(points // 2 + 1) / points
    # 1 - 2p cos t + p^2 = (1 - p)^2 + 4p sin^2(t/2): no cancellation near t = 0.
    bump = 4.0 * decay * np.sin(angle / 2) ** 2 / (1.0 - decay) ** 2
    chances = np.fft.irfft(np.exp(-terms * np.log1p(bump)), points)
    # |Z| <= m holds 0 and both m's; the tail is summed from its small end.
    tails = 2.0 * np.cumsum(chances[points // 2 - 1 : 0 : -1])[::-1]
    return int(np.argmax(tails <= outside))


def gaussian_margin(sigma: float, level: float) -> float:
    """Return the smallest m with P(|Z| <= m) >= level for one discrete Gaussian error."""
    check_level(level)
    if not 0.0 < sigma < inf:
        raise MechanismError("sigma is not a positive number", where="margins", hint="use that of the noise")
    outside = 1.0 - level
    if sigma > _WIDE:
        return ceil(NormalDist().inv_cdf(1 - outside / 2) * sigma)
    points = np.arange(ceil(_REACH * sigma) + 2, dtype=np.float64)
    chances = np.exp(-((points / sigma) ** 2) / 2)
    tails = 2.0 * np.cumsum(chances[:0:-1])[::-1]
    return float(np.argmax(tails <= outside * (chances[0] + tails[0])))


def check_level(level: float) -> None:
    """Raise unless a level is a probability that an interval can have."""
    if not 0.0 < level < 1.0:
        raise MechanismError("the level is not between 0 and 1", where="margins", hint="0.9 means 90 percent")


@dataclass(frozen=True)
class NoiseCurve:
    """The precision of noise, one over its variance, by its loss: linear in ρ, about ε²/2Δ² in ε.

    ``definition``: Of the loss: ``pure`` (ε, Laplace noise) or ``zcdp`` (ρ, Gaussian noise). ``sensitivity``:
    Δ: by how much one record changes what is measured, in whole steps. A count has 1; a sum of values on a
    grid has the largest value in steps.
    """

    definition: Definition
    sensitivity: float = 1.0

    def precision(self, losses: Floats) -> Floats:
        """Return one over the variance of the noise, for every loss (0 for none)."""
        if self.definition == "pure":
            return 2 * np.sinh(self._rates(losses) / 2) ** 2
        return np.array([self._gaussian(float(loss)) for loss in losses])

    def loss(self, precisions: Floats) -> Floats:
        """Return the loss that buys each precision; of Gaussian noise as if it were never coarse."""
        if self.definition == "pure":
            return np.asarray(2 * self.sensitivity * np.arcsinh(np.sqrt(precisions / 2)))
        return precisions * self.sensitivity**2 / 2

    def slope(self, losses: Floats) -> Floats:
        """Return the derivative of :meth:`precision`."""
        if self.definition == "pure":
            return np.sinh(self._rates(losses)) / self.sensitivity
        parameter = self.sensitivity**2 / 2 / np.maximum(losses, _LEAST)
        smooth = np.full(len(losses), 2 / self.sensitivity**2)
        if (parameter >= _PLAIN).all():
            return smooth
        step = _STEP * np.maximum(losses, _LEAST)
        change = self.precision(losses + step) - self.precision(losses - step)
        return np.where(parameter >= _PLAIN, smooth, change / (2 * step))

    def _rates(self, losses: Floats) -> Floats:
        return np.minimum(losses / self.sensitivity, _LARGEST_RATE)

    def _gaussian(self, loss: float) -> float:
        square = self.sensitivity**2
        parameter = square / (2 * loss) if loss > 0 else np.inf
        if parameter >= _PLAIN:
            return 2 * loss / square
        return 1 / gaussian_variance(max(parameter, 1 / _LARGEST_RATE))
