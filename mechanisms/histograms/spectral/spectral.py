"""What ``fpa``, ``spa`` and ``efpa`` do alike: choose how many slow waves to keep, measure, transform back.

The sensitivities and their proofs are in ``tabularium.mechanisms.histograms.spectral.spectral_plan``.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.accounting import epsilon_within
from tabularium.mechanisms.accounting.exact_roots import root_above, rounded_up
from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.parameter_checks import one_of, switch, whole_number
from tabularium.mechanisms.histograms.spectral.spectral_plan import (
    LARGEST_INFLATION,
    SENSITIVITIES,
    Plan,
    plan_for,
    refusal,
)
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import LARGEST_COUNT, Counts, Mechanism
from tabularium.mechanisms.noise_distributions import variance_of

if TYPE_CHECKING:
    from tabularium.mechanisms.histograms.spectral.transforms import Layout

Floats = NDArray[np.float64]

COUNT_CAP = 1 << 30
_LARGEST_POINT = float(1 << 52)  # of the channel's lattice


def choose_radii(
    coordinates: Floats,
    plan: Plan,
    added: Floats,
    candidates: NDArray[np.bool_],
    *,
    root_of_sum: bool,
    epsilon: Fraction,
    channel: Channel,
    where: str,
) -> int:
    """Choose how many radii to keep, privately, and return that number.

    With T the norm of what is dropped and ``added`` a public term c, the score is -√(T² + c²)
    (``root_of_sum``) or -(T + c). One record changes the dropped coordinates by at most 1 in norm, and
    √(T² + c²) is the norm of a vector with one more entry: sensitivity 1 (the reverse triangle inequality).

    A computed score is off by at most E, plus four roundings of relative error 2^-53 of a number that is
    below 2·(cap·√N + c_1), since candidates with c > cap·√N + c_1 are left out: for no counts are they better
    than the first one.

    Parameters
    ----------
    coordinates
        Double words, shape (2, N).
    added
        c for the first 1, 2, ... radii, shape (m,).
    candidates
        Which numbers of radii may be chosen, shape (m,).
    """
    from tabularium.mechanisms.histograms.spectral.fourier_passes import tail_energies

    largest = float(plan.largest_norm) + float(added[0])
    error = plan.error + Fraction(2 * largest) * Fraction(4, 1 << 53)
    if 2 * error > LARGEST_INFLATION:
        raise refusal("the scores", where)
    if not candidates[0]:
        raise MechanismError("the noise would be too wide to draw", where=where, mend="use a larger budget")
    places = np.flatnonzero(candidates & (added <= largest))
    tails, terms = tail_energies(coordinates, plan.ends[places]), added[places]
    worse = np.sqrt(tails + terms * terms) if root_of_sum else np.sqrt(tails) + terms
    chosen = channel.pick(-worse, epsilon, error=rounded_up(error), purpose="frequencies")
    return int(places[chosen]) + 1


def pure_budget(total: Fraction, definition: Definition) -> Fraction:
    """Return the ε that the papers' scores mean: the whole budget, or √2ρ."""
    return total if definition == "pure" else epsilon_within(total)


class Spectral(Mechanism):
    """Base of the three: checks, the transform, the noise, and the way back."""

    sensitivity: str
    transform: str
    unattributed: bool
    count_cap: int

    def _check_parameters(self) -> None:
        from tabularium.mechanisms.histograms.spectral.transforms import TRANSFORMS

        one_of(self.sensitivity, SENSITIVITIES, "sensitivity")
        one_of(self.transform, TRANSFORMS, "transform")
        switch(self.unattributed, "unattributed")
        whole_number(self.count_cap, 1, LARGEST_COUNT, "count_cap")

    def _shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of what is transformed: a sorted table has no axes; nor has a single number."""
        return (prod(shape),) if self.unattributed or not shape else shape

    def _plan(self, counts: Counts, channel: Channel) -> Plan:
        return plan_for(
            self._shape(counts.shape),
            self.transform,
            self.sensitivity,
            channel.definition,
            self.count_cap,
            self.name,
        )

    def _bounded(self, counts: Counts) -> Counts:
        """Return the counts cut off at the cap; in ascending order if ``unattributed``."""
        capped = np.minimum(counts, self.count_cap)
        return np.sort(capped.reshape(-1)) if self.unattributed else capped

    def finish(self, measured: Measured) -> Release:
        """Drop the other coordinates and transform back: float64, in the shape of the counts."""
        from tabularium.mechanisms.histograms.spectral.transforms import forward, inverse, layout

        shape, radii = tuple(measured.meta["shape"]), measured.meta["radii"]
        plan = layout(self._shape(shape), self.transform)
        kept = int(plan.ends[radii - 1])
        (place,) = measured.arrays
        noisy = measured.arrays[place]
        coefficients = forward(noisy, plan)[:kept] if place == "cells" else noisy
        noise = measured.transcript[-1]
        variance = variance_of(noise) * float(noise.width) ** 2
        weights = self._weights(coefficients, variance, plan)
        return measured.release(
            inverse(coefficients * weights, plan).reshape(shape),
            radii=radii,
            radii_of=int(plan.ends.size),
            coefficients=kept,
            coefficients_of=int(plan.size),
            noise_on=place,
            noise_per_coefficient=variance**0.5,
            noise_per_cell=float((variance * np.square(weights).sum() / plan.size) ** 0.5),
        )

    def _weights(self, coefficients: Floats, variance: float, plan: Layout) -> Floats:
        """Return what each noisy coefficient is multiplied by, shape (z,)."""
        return np.ones(coefficients.size)


class ChosenSpectral(Spectral):
    """Base of the two that choose how many waves to keep: ``share`` of the budget goes to the choice."""

    share: str | Fraction

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Choose with the share, measure with the rest."""
        plan, total = self._plan(counts, channel), channel.remaining
        epsilon = channel.pure_epsilon(total * Fraction(self.share))
        added, candidates = self._weighed(plan, total - channel.pure_cost(epsilon), total)
        bounded = self._bounded(counts)
        coordinates = exact_coordinates(bounded, plan)
        radii = choose_radii(
            coordinates,
            plan,
            added,
            candidates,
            root_of_sum=self._adds_in_squares(),
            epsilon=epsilon,
            channel=channel,
            where=self.name,
        )
        return measure(bounded, coordinates, plan, radii, channel), public(counts, radii)

    def _adds_in_squares(self) -> bool:
        """Say whether the score is -√(T² + c²) rather than -(T + c)."""
        return False

    def _weighed(self, plan: Plan, rest: Fraction, total: Fraction) -> tuple[Floats, NDArray[np.bool_]]:
        """Return c of ``choose_radii`` and which numbers of radii may be chosen; ``rest`` buys the noise."""
        raise NotImplementedError


def measure(
    bounded: Counts, coordinates: Floats, plan: Plan, radii: int, channel: Channel
) -> dict[str, Array]:
    """Spend all there is on noise for the first ``radii`` radii.

    Returns
    -------
    Either ``cells``, int64 in the shape of the transform, or ``coefficients``, float64 of shape (z,).
    """
    if plan.on_cells[radii - 1]:
        return {"cells": channel.laplace(bounded, channel.remaining, purpose="cells")}
    kept = int(plan.ends[radii - 1])
    exponent = int(plan.widths[radii - 1])
    # The floats that are handed on are multiples of the width, exactly.
    points = _floor(np.ldexp(coordinates[:, :kept], -exponent))
    values = np.ldexp(np.clip(points, -_LARGEST_POINT, _LARGEST_POINT), exponent)
    noisy = channel.lattice(
        values,
        channel.remaining,
        sensitivity=plan.bound(radii),
        width=Fraction(2) ** exponent,
        error=rounded_up(plan.error * root_above(Fraction(1, kept))),
        purpose="coefficients",
    )
    return {"coefficients": noisy}


def exact_coordinates(bounded: Counts, plan: Plan) -> Floats:
    """Return the coordinates of a table, double words of shape (2, N)."""
    from tabularium.mechanisms.histograms.spectral.transforms import coordinates

    return coordinates(bounded, plan.layout)


def public(counts: Counts, radii: int) -> dict[str, Any]:
    """Return what a measurement says besides its noisy numbers."""
    return {"shape": list(counts.shape), "radii": radii}


def _floor(words: Floats) -> Floats:
    """Return the floors of double words, as floats (exact below 2^53).

    |low| is at most half a unit in the last place of high: if high is no whole number, the sum has its floor;
    if it is one, the sum lies in the interval of low.
    """
    high = np.floor(words[0])
    return np.asarray(np.where(high == words[0], high + np.floor(words[1]), high), dtype=np.float64)
