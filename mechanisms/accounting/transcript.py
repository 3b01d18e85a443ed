"""What a noise channel writes down: one event per draw, in exact numbers.

The transcript is the evidence of an audit. It says what was declared before each draw, never what was
drawn or what was measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt, sqrt
from typing import Any, Literal

Definition = Literal["pure", "zcdp"]
Primitive = Literal[
    "discrete_laplace",
    "discrete_gaussian",
    "lattice_laplace",
    "lattice_gaussian",
    "permute_and_flip",
    "exponential",
    "least_noisy_partition",
    "laplace",  # continuous: never drawn here, but other systems' releases can be accounted for
    "gaussian",
]
GAUSSIANS = frozenset({"discrete_gaussian", "lattice_gaussian", "gaussian"})
CHOICES = frozenset({"permute_and_flip", "exponential"})
CHOOSING = CHOICES | {"least_noisy_partition"}
"""Primitives that return which, not how much."""


@dataclass(frozen=True, slots=True)
class Event:
    """One draw of a primitive.

    Attributes
    ----------
    primitive
        Which exact sampler.
    loss
        The privacy loss charged: ε in a pure channel, ρ in a zCDP channel.
    definition
        Which of the two ``loss`` is.
    sensitivity
        What one record can change: L1 for Laplace, L2 for Gaussian, the largest change of a cost for a
        partition, the largest change of a score for a
        choice, summed over groups. In steps of ``width`` for a lattice.
    scale_squared
        The square of the noise scale: s² for P(z) ∝ exp(-|z|/s), σ² for P(z) ∝ exp(-z²/2σ²), and (2Δ/ε)²
        for a choice. Kept squared because σ² is rational where σ is not.
    shape
        Of what was measured; (m,) for a choice among m candidates, (g, m) for a choice in each of g groups
        with m candidates in all.
    purpose
        Path of purposes, ``outer/inner``.
    width
        Lattice width for real-valued vectors, 1 for integers.
    branches
        The parallel scopes it was drawn in, outermost first, each as (name of the scope, branch):
        branches of one scope look at disjoint bins.
    alike
        How many branches of the outermost scope drew this in the same way; it stands for them all: this
        branch, and others that a scope of many parts has folded into it.
    """

    primitive: Primitive
    loss: Fraction
    definition: Definition
    sensitivity: Fraction
    scale_squared: Fraction
    shape: tuple[int, ...]
    purpose: str
    width: Fraction = Fraction(1)
    branches: tuple[tuple[str, int], ...] = ()
    alike: int = 1

    @property
    def scale(self) -> Fraction | float:
        """The noise scale: exact when it is rational, otherwise a float."""
        top, bottom = isqrt(self.scale_squared.numerator), isqrt(self.scale_squared.denominator)
        exact = Fraction(top, bottom)
        return exact if exact * exact == self.scale_squared else sqrt(self.scale_squared)

    @property
    def epsilon(self) -> Fraction | None:
        """The pure ε of this draw, or None for Gaussian noise, which has none."""
        if self.primitive in GAUSSIANS:
            return None
        folds = 2 if self.primitive in CHOOSING else 1
        return folds * self.sensitivity / Fraction(self.scale)

    @property
    def rho(self) -> Fraction:
        """The zCDP ρ of this draw: sensitivity²/2σ² for Gaussian noise, ε²/2 for any other."""
        epsilon = self.epsilon
        return self.sensitivity**2 / (2 * self.scale_squared) if epsilon is None else epsilon**2 / 2

    def as_dict(self) -> dict[str, Any]:
        """Return the event as JSON-able values, fractions as ``"n/d"`` text."""
        scale = self.scale
        return {
            "primitive": self.primitive,
            "definition": self.definition,
            "loss": ratio(self.loss),
            "sensitivity": ratio(self.sensitivity),
            "scale": ratio(scale) if isinstance(scale, Fraction) else repr(scale),
            "scale_squared": ratio(self.scale_squared),
            "shape": list(self.shape),
            "width": ratio(self.width),
            "purpose": self.purpose,
            "branches": [list(branch) for branch in self.branches],
            **({"alike": self.alike} if self.alike > 1 else {}),
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> Event:
        """Return the event that ``as_dict`` wrote."""
        return cls(
            primitive=document["primitive"],
            loss=Fraction(document["loss"]),
            definition=document["definition"],
            sensitivity=Fraction(document["sensitivity"]),
            scale_squared=Fraction(document["scale_squared"]),
            shape=tuple(document["shape"]),
            purpose=document["purpose"],
            width=Fraction(document["width"]),
            branches=tuple((scope, branch) for scope, branch in document["branches"]),
            alike=document.get("alike", 1),
        )


def ratio(value: Fraction) -> str:
    """Return a fraction as ``"n/d"`` text, always with its denominator."""
    return f"{value.numerator}/{value.denominator}"
