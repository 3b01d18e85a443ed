"""Events before they are paid for: what a primitive at some place of a channel would write down."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from tabularium.mechanisms.accounting.transcript import Definition, Event, Primitive
from tabularium.mechanisms.errors import MechanismError


@dataclass(frozen=True, slots=True)
class Place:
    """Where a channel stands below the one that was opened."""

    path: str = ""
    branches: tuple[tuple[str, int], ...] = ()

    def named(self, purpose: str) -> str:
        """Return the whole path of ``purpose``."""
        return f"{self.path}/{purpose}" if self.path else purpose


@dataclass(frozen=True, slots=True)
class EventBuilder:
    """Makes the events of one channel: losses in its definition, purposes and branches of its place."""

    definition: Definition
    place: Place

    def _cost(self, epsilon: Fraction) -> Fraction:
        return epsilon if self.definition == "pure" else epsilon**2 / 2

    def laplace(
        self, primitive: Primitive, epsilon: Fraction, bound: Fraction, shape: tuple[int, ...], purpose: str
    ) -> Event:
        """Return a draw of Laplace noise of scale Δ/ε."""
        from tabularium.mechanisms.noise.discrete_laplace import LARGEST_SCALE

        scale = bound / epsilon
        if scale > LARGEST_SCALE:
            raise MechanismError("the noise scale would exceed 2^40", where=purpose, hint="spend more on it")
        return self._event(
            primitive,
            purpose,
            loss=self._cost(epsilon),
            sensitivity=bound,
            scale_squared=scale**2,
            shape=shape,
        )

    def gaussian(
        self, primitive: Primitive, rho: Fraction, bound: Fraction, shape: tuple[int, ...], purpose: str
    ) -> Event:
        """Return a draw of Gaussian noise, σ² = Δ²/2ρ."""
        from tabularium.mechanisms.noise.discrete_gaussian import LARGEST_VARIANCE

        if self.definition != "zcdp":
            raise MechanismError(
                "Gaussian noise is not pure differential privacy",
                where=purpose,
                hint="open the channel with definition zcdp, or use Laplace noise",
            )
        variance = bound**2 / (2 * rho)
        if variance > LARGEST_VARIANCE:
            raise MechanismError("the noise scale would exceed 2^26", where=purpose, hint="spend more on it")
        return self._event(
            primitive, purpose, loss=rho, sensitivity=bound, scale_squared=variance, shape=shape
        )

    def choice(
        self, method: Primitive, epsilon: Fraction, bound: Fraction, shape: tuple[int, ...], purpose: str
    ) -> Event:
        """Return a choice by scores or by noisy costs, of scale 2Δ/ε."""
        return self._event(
            method,
            purpose,
            loss=self._cost(epsilon),
            sensitivity=bound,
            scale_squared=(2 * bound / epsilon) ** 2,
            shape=shape,
        )

    def _event(self, primitive: Primitive, purpose: str, **numbers: Any) -> Event:
        return Event(
            primitive=primitive,
            definition=self.definition,
            purpose=self.place.named(purpose),
            branches=self.place.branches,
            **numbers,
        )
