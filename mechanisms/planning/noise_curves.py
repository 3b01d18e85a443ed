"""From the loss of a measurement to the precision of its noise, one over the variance, and its slope.

Discrete Laplace noise of scale Δ/ε has the variance 1 / (2 sinh²(ε/2Δ)); discrete Gaussian noise of
σ² = Δ²/2ρ has σ², but for less than one part in 10^15 from σ = 2 on. So the precision is linear in ρ wherever
it matters, and about ε²/2Δ² in ε.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tabularium.mechanisms.accounting import Definition
from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.noise_distributions import gaussian_variance

_LARGEST = 300.0  # of ε/Δ: beyond it a sinh² would overflow, and noise of variance e^-300 is none
_SMOOTH = 4.0  # σ² from which on the discrete Gaussian variance is σ² to the last bit
_STEP = 1e-6
_LEAST = 1e-200


@dataclass(frozen=True)
class NoiseCurve:
    """The noise of one kind of measurement.

    Attributes
    ----------
    definition
        Of the loss: ``pure`` (ε, Laplace noise) or ``zcdp`` (ρ, Gaussian noise).
    sensitivity
        Δ: by how much one record changes what is measured, in whole steps. A count has 1; a sum of values on
        a grid has the largest value in steps.
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
            found: Floats = 2 * self.sensitivity * np.arcsinh(np.sqrt(precisions / 2))
            return found
        return precisions * self.sensitivity**2 / 2

    def slope(self, losses: Floats) -> Floats:
        """Return the derivative of :meth:`precision`."""
        if self.definition == "pure":
            return np.sinh(self._rates(losses)) / self.sensitivity
        parameter = self.sensitivity**2 / 2 / np.maximum(losses, _LEAST)
        smooth = np.full(len(losses), 2 / self.sensitivity**2)
        if (parameter >= _SMOOTH).all():
            return smooth
        step = _STEP * np.maximum(losses, _LEAST)
        change = self.precision(losses + step) - self.precision(losses - step)
        return np.where(parameter >= _SMOOTH, smooth, change / (2 * step))

    def _rates(self, losses: Floats) -> Floats:
        return np.minimum(losses / self.sensitivity, _LARGEST)

    def _gaussian(self, loss: float) -> float:
        square = self.sensitivity**2
        parameter = square / (2 * loss) if loss > 0 else np.inf
        if parameter >= _SMOOTH:
            return 2 * loss / square
        return 1 / gaussian_variance(max(parameter, 1 / _LARGEST))
