"""What is known of the noise in a cell: its moments, and its division into parts.

Only for post-processing: the simulated parts come from a seeded generator and protect nobody.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import exp, expm1, inf, pi, sqrt
from numbers import Real
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.accounting.transcript import GAUSSIANS, Definition, Event
from tabularium.mechanisms.errors import MechanismError

NoiseFamily = Literal["laplace", "gaussian"]
FAMILIES = ("laplace", "gaussian")
NOTHING = 1e-12
"""Variance of whole noise below which it is none: one draw in a million million is not zero."""
_SMOOTH = 8.0  # from this σ on, sums over integers of the Gaussian curve are its integrals (1 in 10^100)


@dataclass(frozen=True)
class Noise:
    """The distribution of the noise in one cell.

    Attributes
    ----------
    family
        ``"laplace"``: P(z) ∝ exp(-|z|/s); ``"gaussian"``: P(z) ∝ exp(-z²/2s²).
    scale
        s.
    whole
        Whether z is a whole number.
    """

    family: NoiseFamily
    scale: float
    whole: bool

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

    def part(self, share: int, size: int, rng: np.random.Generator) -> NDArray[Any]:
        """Return independent draws of the distribution of which ``share`` added up give this one.

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
    """Return the noise of a family by name.

    Raises
    ------
    MechanismError
        No such family, or a scale that is not a positive number.
    """
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
