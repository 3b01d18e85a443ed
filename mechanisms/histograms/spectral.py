"""FPA, SPA and EFPA: keep the slow waves of a table, each coefficient with noise.

FPA keeps a public number k of frequencies; SPA and EFPA spend a share of the budget on choosing it, by a
score of sensitivity 1 (``choose_radii``), and the rest on **every** kept real coefficient. As printed EFPA is
not private: it publishes phases exactly. The inverse transform is post-processing. O(N log N).

Sensitivity: one record changes one cell by 1, hence the coordinates by one column of an orthonormal real
transform. Of its first z coordinates Δ1 <= z/√N and Δ2 = √(z/N) (dft), or the sums over the kept waves at the
first cell, which is the worst (dct); ``sensitivity="paper"`` has √z and 1. Counts are clipped at a public
cap, and sorted with ``unattributed``: both keep neighbours. Proofs and what differs from the papers:
docs/reference/mechanisms/efpa.md.

Source: Rastogi & Nath 2010 (FPA, SPA); Acs, Castelluccia, Chen 2012, section IV, Algorithms 1 and 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from tabularium.mechanisms.accounting import epsilon_within
from tabularium.mechanisms.accounting.losses import root_above, rounded_up
from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.arrays import LARGEST_COUNT, LARGEST_POINT, Floats
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms import double_fourier
from tabularium.mechanisms.histograms.double_fourier import (
    gathered,
    relative_error,
    square_root,
    tail_energies,
)
from tabularium.mechanisms.histograms.parameter_checks import one_of, share_of_budget, switch, whole_number
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise_distributions import variance_of

COUNT_CAP = 1 << 30


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
    largest = float(plan.largest_norm) + float(added[0])
    error = plan.error + Fraction(2 * largest) * Fraction(4, 1 << 53)
    if 2 * error > LARGEST_INFLATION:
        raise refusal("the scores", where)
    if not candidates[0]:
        raise MechanismError("the noise would be too wide to draw", where=where, hint="use a larger budget")
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
        exact = coordinates(bounded, plan.layout)
        radii = choose_radii(
            exact,
            plan,
            added,
            candidates,
            root_of_sum=self._adds_in_squares(),
            epsilon=epsilon,
            channel=channel,
            where=self.name,
        )
        return measure(bounded, exact, plan, radii, channel), {"shape": list(counts.shape), "radii": radii}

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

    Returns either ``cells``, int64 in the shape of the transform, or ``coefficients``, float64 of shape (z,).
    """
    if plan.on_cells[radii - 1]:
        return {"cells": channel.laplace(bounded, channel.remaining, purpose="cells")}
    kept = int(plan.ends[radii - 1])
    exponent = int(plan.widths[radii - 1])
    # The floats that are handed on are multiples of the width, exactly.
    points = _floor(np.ldexp(coordinates[:, :kept], -exponent))
    values = np.ldexp(np.clip(points, -LARGEST_POINT, LARGEST_POINT), exponent)
    noisy = channel.lattice(
        values,
        channel.remaining,
        sensitivity=plan.bound(radii),
        width=Fraction(2) ** exponent,
        error=rounded_up(plan.error * root_above(Fraction(1, kept))),
        purpose="coefficients",
    )
    return {"coefficients": noisy}


def _floor(words: Floats) -> Floats:
    """Return the floors of double words, as floats (exact below 2^53).

    |low| is at most half a unit in the last place of high: if high is no whole number, the sum has its floor;
    if it is one, the sum lies in the interval of low.
    """
    high = np.floor(words[0])
    return np.asarray(np.where(high == words[0], high + np.floor(words[1]), high), dtype=np.float64)


Places = NDArray[np.int64]

SENSITIVITIES = ("tight", "paper")
LARGEST_INFLATION = Fraction(1, 100)
_FINENESS = 10
_FEW = 1 << 12  # plans of tables up to this size are kept


@dataclass(frozen=True, eq=False)
class Plan:
    """All that is known before the counts are seen.

    Attributes
    ----------
    layout
        Of the transform.
    definition, sensitivity
        ``"pure"`` (Laplace noise, L1) or ``"zcdp"`` (Gaussian noise, L2); ``"tight"`` or ``"paper"``.
    cap
        Counts are cut off there.
    error
        E: how far all computed coordinates together may lie from the exact ones, in L2.
    """

    layout: Layout
    definition: Definition
    sensitivity: str
    cap: int
    error: Fraction

    @property
    def ends(self) -> Places:
        """Shape (m,): how many coordinates the first 1, 2, ... radii have."""
        return self.layout.ends

    @cached_property
    def on_cells(self) -> NDArray[np.bool_]:
        """Whether the noise for the first 1, 2, ... radii is put on the cells, shape (m,)."""
        return (self.bounds > 1) & (self.definition == "pure") & (self.sensitivity == "tight")

    @property
    def largest_norm(self) -> Fraction:
        """Above the L2 norm of any table."""
        return self.cap * root_above(self.layout.size)

    @cached_property
    def bounds(self) -> Floats:
        """Δ of the coordinates of the first 1, 2, ... radii, shape (m,), as floats."""
        kept = self.ends.astype(np.float64)
        pure = self.definition == "pure"
        if self.sensitivity == "paper":
            return np.sqrt(kept) if pure else np.ones(kept.size)
        if self.layout.transform == "dft":
            return kept / np.sqrt(self.layout.size) if pure else np.sqrt(kept / self.layout.size)
        waves = corner(self.layout)
        sums = np.cumsum(waves if pure else waves * waves)[self.ends - 1]
        return sums if pure else np.asarray(np.sqrt(sums), dtype=np.float64)

    def bound(self, radii: int) -> Fraction:
        """Return Δ of the coordinates of the first ``radii`` radii, rounded up."""
        kept, size, pure = int(self.ends[radii - 1]), self.layout.size, self.definition == "pure"
        if self.sensitivity == "paper":
            return root_above(kept) if pure else Fraction(1)
        if self.layout.transform == "dft":
            return kept * root_above(Fraction(1, size)) if pure else root_above(Fraction(kept, size))
        # Every rounding, up to the running sum over N < 2^31 positive terms, is within 2^-53 of what it is
        # applied to: 2^-21 of the result in all.
        return rounded_up(Fraction(float(self.bounds[radii - 1])) * (1 + Fraction(1, 1 << 21)))

    @cached_property
    def widths(self) -> Places:
        """The exponent of the lattice width for the first 1, 2, ... radii, shape (m,)."""
        kept = self.ends.astype(np.float64)
        per_coordinate = self.bounds / (kept if self.definition == "pure" else np.sqrt(kept))
        return np.frexp(per_coordinate)[1].astype(np.int64) - 1 - _FINENESS

    def spreads(self, loss: Fraction) -> tuple[Floats, NDArray[np.bool_]]:
        """Return the standard deviation of the noise on a coordinate, and whether it can be drawn.

        Both of shape (m,), for noise that costs ``loss`` on the first 1, 2, ... radii. To weigh candidates
        by: approximate, computed from public numbers.
        """
        kept, width = self.ends.astype(np.float64), np.ldexp(1.0, self.widths)
        if self.definition == "pure":
            steps = np.where(self.on_cells, 1.0, self.bounds / width + kept) / float(loss)
            return np.sqrt(2.0) * steps * np.where(self.on_cells, 1.0, width), steps < float(1 << 39)
        spreads = (self.bounds + np.sqrt(kept) * width) / np.sqrt(2 * float(loss))
        return spreads, spreads / width < float(1 << 25)


def plan_for(
    shape: tuple[int, ...], transform: str, sensitivity: str, definition: Definition, cap: int, where: str
) -> Plan:
    """Return the plan for a table, or refuse it."""
    small = prod(shape) <= _FEW
    return (_small_plan if small else _plan)(shape, transform, sensitivity, definition, cap, where)


def _plan(
    shape: tuple[int, ...], transform: str, sensitivity: str, definition: Definition, cap: int, where: str
) -> Plan:
    size = prod(shape)
    if size >= 1 << 31:
        raise MechanismError("the table has 2^31 cells or more", where=where, hint="use fewer cells")
    root = root_above(size)
    error = rounded_up(relative_error(shape) * cap * root)
    if 2 * error * root > LARGEST_INFLATION:  # no Δ1/√z, no Δ2 is below 1/√N
        raise refusal("the coefficients", where)
    return Plan(layout(shape, transform), definition, sensitivity, cap, error)


_small_plan = lru_cache(maxsize=16)(_plan)


def refusal(what: str, where: str) -> MechanismError:
    """Return the error for a cap that is too high for the precision of the computation."""
    return MechanismError(
        f"at this count_cap and number of cells the error of {what} could add more than 1 % to the noise",
        where=where,
        hint="lower count_cap, or use fewer cells",
    )


@dataclass(frozen=True)
class Fpa(Spectral):
    """Noise on a fixed number of slow frequencies.

    Parameters
    ----------
    k
        How many frequencies to keep, the constant one included; in several dimensions, how many radii. All of
        them when there are fewer.
    sensitivity
        ``"paper"``: √z for z kept numbers. ``"tight"``: what one record changes, a fraction of that.
    transform
        ``"dft"``: waves that close up around the table, as hours of the day do. ``"dct"``: waves that do not;
        better when the two ends differ.
    unattributed
        Sort the counts first and release them in ascending order, without saying which cell has which.
    count_cap
        Larger counts are cut off here. Public, never taken from the data; at most 2^40.
    """

    k: int
    sensitivity: str = "paper"
    transform: str = "dft"
    unattributed: bool = False
    count_cap: int = COUNT_CAP

    name: ClassVar[str] = "fpa"

    def __post_init__(self) -> None:
        whole_number(self.k, 1, 1 << 31, "k")
        self._check_parameters()

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Measure the first k radii with the whole budget."""
        plan = self._plan(counts, channel)
        radii = min(self.k, plan.ends.size)
        bounded = self._bounded(counts)
        exact = coordinates(bounded, plan.layout)
        return measure(bounded, exact, plan, radii, channel), {"shape": list(counts.shape), "radii": radii}


@dataclass(frozen=True)
class Spa(ChosenSpectral):
    """Noise on frequencies, their number chosen by the score of Rastogi and Nath.

    Parameters
    ----------
    sensitivity
        ``"paper"``: √z for z kept numbers. ``"tight"``: what one record changes, a fraction of that.
    share
        Share of the budget for the choice.
    transform
        ``"dft"``: waves that close up around the table, as hours of the day do. ``"dct"``: waves that do not;
        better when the two ends differ.
    unattributed
        Sort the counts first and release them in ascending order, without saying which cell has which.
    count_cap
        Larger counts are cut off here. Public, never taken from the data; at most 2^40.
    """

    sensitivity: str = "paper"
    share: str | Fraction = Fraction(1, 2)
    transform: str = "dft"
    unattributed: bool = False
    count_cap: int = COUNT_CAP

    name: ClassVar[str] = "spa"

    def __post_init__(self) -> None:
        self._check_parameters()
        object.__setattr__(self, "share", share_of_budget(self.share, "share"))

    def _weighed(self, plan: Plan, rest: Fraction, total: Fraction) -> tuple[Floats, NDArray[np.bool_]]:
        whole = float(pure_budget(total, plan.definition))
        return plan.ends * np.sqrt(plan.layout.size) / whole, plan.spreads(rest)[1]


SCORES = ("norm", "paper")
_WEIGHT = 2.0
_GROWTH = 2**0.5


@dataclass(frozen=True)
class Efpa(ChosenSpectral):
    """Noise on slow frequencies, their number chosen privately.

    Parameters
    ----------
    sensitivity
        ``"tight"``: what one record changes. ``"paper"``: √z for z kept numbers.
    score
        ``"norm"``: the norm of what is dropped and of the noise, for numbers of frequencies that grow by a
        factor √2. ``"paper"``: the sum of the two norms, for every number of frequencies.
    share
        Share of the budget for the choice.
    shrink
        Whether coefficients that do not stand out from their noise are made smaller, or dropped. It costs no
        budget.
    transform
        ``"dft"``: waves that close up around the table, as hours of the day do. ``"dct"``: waves that do not;
        better when the two ends differ.
    unattributed
        Sort the counts first and release them in ascending order, without saying which cell has which.
    count_cap
        Larger counts are cut off here. Public, never taken from the data; at most 2^40. Refused where the
        error of the computation could add over 1 % to the noise (about 2^42/√N for N cells).
    """

    sensitivity: str = "tight"
    score: str = "norm"
    share: str | Fraction = Fraction(1, 8)
    shrink: bool = True
    transform: str = "dft"
    unattributed: bool = False
    count_cap: int = COUNT_CAP

    name: ClassVar[str] = "efpa"

    def __post_init__(self) -> None:
        self._check_parameters()
        one_of(self.score, SCORES, "score")
        switch(self.shrink, "shrink")
        object.__setattr__(self, "share", share_of_budget(self.share, "share"))

    def _adds_in_squares(self) -> bool:
        return self.score == "norm"

    def _weighed(self, plan: Plan, rest: Fraction, total: Fraction) -> tuple[Floats, NDArray[np.bool_]]:
        spreads, drawable = plan.spreads(rest)
        if self.score == "norm":
            return np.sqrt(_WEIGHT * plan.ends) * spreads, drawable & growing(plan.ends)
        return np.sqrt(2.0) * plan.ends / float(pure_budget(total, plan.definition)), drawable

    def _weights(self, coefficients: Floats, variance: float, plan: Layout) -> Floats:
        kept = coefficients.size
        if not self.shrink:
            return np.ones(kept)
        bands = np.append(0, plan.ends[growing(plan.ends) & (plan.ends < kept)])
        sizes = np.diff(bands, append=kept)
        energies = np.add.reduceat(coefficients**2, bands)
        noise = (sizes + 2 * np.sqrt(sizes)) * variance
        noise[0] = 0  # the mean of the table
        standing = energies > noise
        factors = np.where(standing, 1 - noise / np.where(standing, energies, 1), 0)
        return np.asarray(np.repeat(factors, sizes), dtype=np.float64)


def growing(ends: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return which of the ascending ``ends`` are the first to reach 1, √2, 2, 2√2, ..., and the last one."""
    steps = np.arange(2 * int(ends[-1]).bit_length() + 1)
    result = np.searchsorted(ends, np.floor(_GROWTH**steps))
    marked = np.zeros(ends.size, dtype=np.bool_)
    marked[result[result < ends.size]] = True
    marked[-1] = True
    return marked


# Orthonormal real Fourier and cosine transforms of tables, coordinates ordered from slow waves to fast.
#
# In any number of dimensions. Every frequency has a *radius*: the root of the sum, over the axes, of the
# squared number of turns its wave makes along the axis. All coordinates of one radius come together, so
# that "the first k radii" is a set of coordinates that depends only on the shape.
#
# - ``dft``: for F the discrete Fourier transform over √N, frequency w and its mirror -w give the two
#   coordinates √2·Re F_w and √2·Im F_w; a frequency that is its own mirror (zero or half a turn a cell on
#   every axis: the Nyquist lines of even axes) gives only F_w, which is real.
# - ``dct``: the type II cosine transform, one coordinate for each wave of 0, 1/2, 1, ... turns.
#
# Both are isometries of R^N. The way there is exact to about 100 bits (``double_fourier``), since a privacy
# proof rests on it; the way back acts on noisy numbers and is SciPy's. Cost: O(N log N).


TRANSFORMS = ("dft", "dct")


@dataclass(frozen=True, eq=False)
class Layout:
    """Where the coordinates of a transform of one shape lie.

    Attributes
    ----------
    shape, transform
        What it is the layout of.
    ends
        Shape (m,): how many coordinates have one of the first 1, 2, ... m radii. The last is N.
    places
        Shape (N,): for each coordinate, its place among the unscaled results: real parts of the half
        spectrum, then imaginary parts (dft); waves in C order (dct).
    kinds
        Shape (N,): the coordinate is the unscaled result times √(2^kind/N).
    mirrors
        Shape (2, r): places in the half spectrum that mirror each other, for the inverse.
    """

    shape: tuple[int, ...]
    transform: str
    ends: Places
    places: Places
    kinds: Places
    mirrors: Places

    @property
    def size(self) -> int:
        """N, the number of cells and of coordinates."""
        return prod(self.shape)


def layout(shape: tuple[int, ...], transform: str) -> Layout:
    """Return the layout of a transform. Its arrays are not to be written to: those of small tables are kept.

    Examples
    --------
    >>> layout((5,), "dft").ends
    array([1, 3, 5])
    >>> layout((2, 3), "dct").ends  # squared radii 0, 1, 1, 2, 4, 5 in half turns
    array([1, 3, 4, 5, 6])
    """
    return _few_cells(shape, transform) if prod(shape) <= _FEW else _layout(shape, transform)


def _layout(shape: tuple[int, ...], transform: str) -> Layout:
    return _waves(shape) if transform == "dct" else _frequencies(shape)


_few_cells = lru_cache(maxsize=16)(_layout)


def coordinates(counts: NDArray[np.int64], plan: Layout) -> Floats:
    """Return the coordinates of whole numbers, as double words (high, low) of shape (2, N).

    Their error is bounded by ``double_fourier.relative_error``.
    """
    values = np.zeros((2, *plan.shape))
    values[0] = counts.reshape(plan.shape)
    if plan.transform == "dct":
        unscaled = double_fourier.cosine_spectrum(values).reshape(2, -1)
    else:
        result = double_fourier.spectrum(values).reshape(2, 2, -1)
        unscaled = np.concatenate([result[0], result[1]], axis=1)
    scales = np.array([square_root(1 << kind, plan.size) for kind in range(int(plan.kinds.max()) + 1)]).T
    return gathered(unscaled, plan.places, plan.kinds, np.ascontiguousarray(scales))


def forward(values: NDArray[Any], plan: Layout) -> Floats:
    """Return the coordinates of noisy numbers, shape (N,), in plain floats."""
    table = np.asarray(values, dtype=np.float64).reshape(plan.shape)
    if plan.transform == "dct":
        return np.asarray(fft.dctn(table, type=2, norm="ortho"), dtype=np.float64).reshape(-1)[plan.places]
    half = fft.rfftn(table, norm="ortho").reshape(-1)
    return np.asarray(np.concatenate([half.real, half.imag])[plan.places] * np.sqrt(2.0) ** plan.kinds)


def inverse(values: Floats, plan: Layout) -> Floats:
    """Return the table whose first coordinates are ``values``, shape (z,), and whose others are zero."""
    kept = values.size
    half_spectrum = prod(plan.shape[:-1]) * (plan.shape[-1] // 2 + 1)
    unscaled = np.zeros(2 * half_spectrum if plan.transform == "dft" else plan.size)
    unscaled[plan.places[:kept]] = values
    if plan.transform == "dct":
        return np.asarray(fft.idctn(unscaled.reshape(plan.shape), type=2, norm="ortho"), dtype=np.float64)
    unscaled[plan.places[:kept]] *= np.sqrt(0.5) ** plan.kinds[:kept]
    half = unscaled[: unscaled.size // 2] + 1j * unscaled[unscaled.size // 2 :]
    half[plan.mirrors[1]] = half[plan.mirrors[0]].conj()
    half = half.reshape(*plan.shape[:-1], -1)
    return np.asarray(fft.irfftn(half, s=plan.shape, norm="ortho"), dtype=np.float64)


def corner(plan: Layout) -> Floats:
    """Return the values of the cosine waves at the first cell, shape (N,), all positive.

    That is Π √(1/n) for each axis without a wave and Π √(2/n)·cos(πk/2n) for the others.
    """
    values = np.ones(1)
    for size in plan.shape:
        wave = np.cos(np.pi * np.arange(size) / (2 * size)) * np.sqrt(2 / size)
        wave[0] = np.sqrt(1 / size)
        values = (values[:, None] * wave).reshape(-1)
    return values[plan.places]


def _waves(shape: tuple[int, ...]) -> Layout:
    radii, moving = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for size in shape:
        wave = np.arange(size, dtype=np.int64)
        radii = (radii[:, None] + wave**2).reshape(-1)
        moving = (moving[:, None] + (wave > 0)).reshape(-1)
    places = np.argsort(radii, kind="stable")
    ends = _ends(radii[places])
    return Layout(shape, "dct", ends, places, moving[places], np.zeros((2, 0), dtype=np.int64))


def _frequencies(shape: tuple[int, ...]) -> Layout:
    radii, mirror = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for size in (*shape[:-1], None):
        wave = np.arange(size or shape[-1] // 2 + 1, dtype=np.int64)
        opposite = wave if size is None else (-wave) % size
        radii = (radii[:, None] + (wave if size is None else np.minimum(wave, opposite)) ** 2).reshape(-1)
        mirror = (mirror[:, None] * wave.size + opposite).reshape(-1)
    last = np.arange(radii.size) % (shape[-1] // 2 + 1)
    inside = (last > 0) & (2 * last < shape[-1])  # their mirrors lie in the other half
    itself = np.arange(radii.size, dtype=np.int64)
    chosen = np.flatnonzero(inside | (itself <= mirror))
    chosen = chosen[np.argsort(radii[chosen], kind="stable")]
    paired = inside[chosen] | (mirror[chosen] > chosen)
    number = 1 + paired.astype(np.int64)
    first = np.cumsum(number) - number
    places = np.repeat(chosen, number)
    places[first[paired] + 1] += radii.size
    flat = chosen[paired & ~inside[chosen]]
    ends = _ends(np.repeat(radii[chosen], number))
    return Layout(shape, "dft", ends, places, np.repeat(number - 1, number), np.stack([flat, mirror[flat]]))


def _ends(radii: Places) -> Places:
    """Return how many entries of ascending ``radii`` are at most each of its values."""
    return np.append(np.flatnonzero(np.diff(radii)) + 1, radii.size)
