"""Noisy counts shrunk towards a table that was published before (an empirical Bayes estimate).

    expected = scale · prior + offset of its class       (both learnt from the noisy counts, or 1 and 0)
               or 0, where that is the better guess for its class
    estimate = expected + E(change | noisy - expected)   (the distribution of changes learnt class by class)

A class holds cells of like size in the prior. The distribution of changes is a mixture of a point at 0 and of
uniform ones, by maximum likelihood (Stephens 2017; docs/explanation/margins-of-error.md). A prior that fits
is trusted; one that has nothing to do with the counts leaves wide residuals, and little is shrunk.

*Privacy.* The prior is public and the noisy counts are paid for; nothing else is looked at.
*Bias.* On average over a class the estimate is right; of a true change only a part is shown (``shown``).
*Intervals* hold over the cells of a class with the same residual, of ``LEAST`` cells or more.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, sqrt

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats, Integers
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference.margins_of_error.half_widths import quantile
from tabularium.mechanisms.noise_distributions import NOTHING, Noise

LEAST = 200
"""Cells of a class: below, none is drawn, or the class is joined to the one of larger cells."""
CHANGES = (1, 2, 4, 8)
"""Changes whose visible part is reported, in standard deviations of the noise."""
_FIRST, _GROWTH, _CLASSES = 1 / 4, sqrt(2), 64
_PLAINLY = 3.0  # by which the logarithm of a likelihood has to be larger
_OUTLIER = 8  # standard deviations, beyond which a residual tells nothing of what is expected


@dataclass(frozen=True, eq=False, slots=True)
class Shrunk:
    """Noisy counts after they were drawn.

    Attributes
    ----------
    values
        (cells,) estimates.
    variances
        (cells,) mean squared errors, one for each class of size in the prior.
    half
        (cells,) half-widths of intervals around the estimates.
    cells
        How many were drawn towards the prior: for the others nothing was published, or zero is the better
        guess.
    scale
        Of the prior.
    shown
        Changes against the prior, and which part of them the estimates show on average.
    """

    values: Floats
    variances: Floats
    half: Floats
    cells: int
    scale: float
    shown: tuple[tuple[int, float], ...]


def shrink_to_prior(
    noisy: Floats, prior: Floats, noise: Noise, level: float, *, scaled: bool = True
) -> Shrunk:
    """Shrink noisy counts towards what was published before.

    Parameters
    ----------
    noisy
        (cells,) whole numbers: counts with independent noise of one law.
    prior
        (cells,) what was published for them before; not a number where nothing was: those are not changed.
    scaled
        Whether the prior is of another time, so that all counts together may have grown since.

    Raises
    ------
    MechanismError
        The two do not have the same shape, or the prior holds numbers below zero or infinite ones.

    Examples
    --------
    One cell in a thousand is far from what was published: only it is not changed.

    >>> noise = Noise("laplace", 10.0, whole=True)
    >>> away = np.rint(10 * np.log(np.linspace(0.002, 1, 500)))
    >>> noisy = 50 + np.concatenate((away, -away))
    >>> noisy[0] = 900.0
    >>> drawn = shrink_to_prior(noisy, np.full(1000, 50.0), noise, 0.9)
    >>> noisy[[0, 100, 900]].tolist(), drawn.values[[0, 100, 900]].round().tolist()
    ([900.0, 34.0, 52.0], [900.0, 49.0, 50.0])
    """
    if noisy.shape != prior.shape or noisy.ndim != 1:
        raise MechanismError(
            "noisy counts and prior differ in shape", where="prior", hint="give one number for each cell"
        )
    known = ~np.isnan(prior)
    if np.isinf(prior).any() or (prior[known] < 0).any():
        raise MechanismError(
            "a prior holds counts that cannot be", where="prior", hint="give counts that are zero or more"
        )
    values = noisy.astype(np.float64)
    variances = np.full(noisy.shape, noise.variance)
    half = np.full(noisy.shape, quantile(level) * sqrt(noise.variance))
    if int(known.sum()) < LEAST or noise.variance <= NOTHING:
        return Shrunk(values, variances, half, 0, 1.0, ())
    scale = _scale(noisy[known], prior[known], noise.variance) if scaled else 1.0
    own, size = noisy[known], scale * prior[known]
    of = _classes(size, sqrt(noise.variance))
    grid = Grid.of(noise)
    expected = np.rint(size + _offsets(own - size, of, noise.variance)[of])
    expected, trusted = _or_zero(grid, own, expected, of)
    counts = _seen(grid, own - expected, of)
    laws = [Posterior.of(grid, law, level) for law in change_distributions(grid, counts)[0]]
    near = np.abs(own - expected) <= grid.trusted
    at = (own - expected) / grid.step + len(grid.points) // 2
    values[known] = np.where(near, expected + _between([law.mean for law in laws], of, at), own)
    half[known] = np.where(near, _between([law.half for law in laws], of, at), half[known])
    spread = np.stack([law.variance for law in laws])
    variances[known] = ((counts * spread).sum(axis=1) / counts.sum(axis=1))[of]
    sizes = np.bincount(of) * trusted
    shown = _shown(grid, laws, sizes, (np.bincount(of, expected) / np.bincount(of)).tolist())
    return Shrunk(values, variances, half, int(sizes.sum()), scale, shown)


def _scale(noisy: Floats, prior: Floats, variance: float) -> float:
    """Return by how much all counts together have grown, as far as that is more than chance."""
    total = float(prior.sum())
    if total <= 0:
        return 1.0
    growth = float(noisy.sum()) / total - 1
    return 1 + float(_beyond_chance(np.array(growth), np.array(len(noisy) * variance / total**2)))


def _beyond_chance(found: Floats, variance: Floats) -> Floats:
    """Shrink estimates to 0 by the share of their squares that chance explains (James and Stein)."""
    square = np.maximum(found**2, 1e-300)
    return np.asarray(found * np.maximum(0.0, 1 - variance / square))


def _classes(size: Floats, deviation: float) -> Integers:
    """Return the class of each cell, by what the prior says that it holds: (cells,), from 0 up.

    Zeros, then classes from a quarter of the noise up, each half as wide again as the last; of cells that are
    too few the largest are put together first.
    """
    ends = np.concatenate(([0.5], max(0.75, _FIRST * deviation) * _GROWTH ** np.arange(_CLASSES)))
    of = np.searchsorted(ends, size, side="right")
    sizes = np.bincount(of, minlength=len(ends) + 1)
    joined, number, cells = np.zeros(len(sizes), np.int64), 0, 0
    for item in range(len(sizes) - 1, -1, -1):
        joined[item], cells = number, cells + int(sizes[item])
        if cells >= LEAST and sizes[:item].sum() >= LEAST:
            number, cells = number + 1, 0
    return np.asarray(number - joined[of])


def _offsets(residuals: Floats, of: Integers, variance: float) -> Floats:
    """Return by how much the cells of each class lie off the prior on average, beyond chance."""
    most = _OUTLIER * sqrt(variance)
    inside = np.clip(residuals, -most, most)
    sizes = np.bincount(of)
    mean = np.bincount(of, inside) / sizes
    spread = np.bincount(of, inside**2) / sizes - mean**2
    return _beyond_chance(mean, spread / sizes)


def _or_zero(grid: Grid, own: Floats, expected: Floats, of: Integers) -> tuple[Floats, Bools]:
    """Return what is expected of each cell, and (classes,) whether that is what the prior says and not 0."""
    by_prior = change_distributions(grid, _seen(grid, own - expected, of))[1]
    by_zero = change_distributions(grid, _seen(grid, own, of))[1]
    trusted: Bools = by_zero <= by_prior + _PLAINLY
    return np.where(trusted[of], expected, 0.0), trusted


def _seen(grid: Grid, residuals: Floats, of: Integers) -> Integers:
    """Return how many residuals of each class lie at each point of the grid, (classes, points)."""
    points = len(grid.points)
    at: Integers = of * points + grid.places(residuals)
    return np.asarray(np.bincount(at, minlength=(int(of.max()) + 1) * points).reshape(-1, points))


def _between(rows: list[Floats], of: Integers, at: Floats) -> Floats:
    """Return numbers of each cell's class at a place between points, by linear interpolation."""
    table = np.stack(rows)
    low = np.clip(np.floor(at), 0, table.shape[1] - 2).astype(np.int64)
    part = np.clip(at - low, 0.0, 1.0)
    return np.asarray((1 - part) * table[of, low] + part * table[of, low + 1])


def _shown(
    grid: Grid, laws: list[Posterior], cells: Integers, expected: list[float]
) -> tuple[tuple[int, float], ...]:
    """Return changes of some sizes with the part of them that is shown, over cells that can change so."""
    result = []
    for times in CHANGES if cells.any() else ():
        change = grid.step * max(1, round(times * sqrt(grid.variance) / grid.step))
        parts = [
            (law.shown(change) + law.shown(-change)) / 2 if mean >= change else law.shown(change)
            for law, mean in zip(laws, expected, strict=True)
        ]
        result.append((change, float(np.average(parts, weights=cells))))
    return tuple(result)


REACH = 40
"""Largest change that is weighed, in standard deviations of the noise."""
TRUSTED = 24
"""Residuals beyond so many standard deviations are changes: they are left as they are."""
_STEPS = 8  # of the grid in a standard deviation, where that is not less than a whole number
_NARROWEST = 1 / 4
_ROUNDS = 200
_UNSEEN = 1.0
"""Residuals that are taken for seen and spread over all laws equally: no tail is ruled out by a few cells."""


@dataclass(frozen=True, eq=False, slots=True)
class Grid:
    """Changes and residuals on common points, and the law of the noise between them.

    Attributes
    ----------
    step
        Whole number between two points.
    points
        (points,) whole numbers, symmetric about 0.
    noise
        (2 points - 1,) chance of each difference of two points.
    """

    variance: float
    step: int
    points: Floats
    noise: Floats

    @classmethod
    def of(cls, noise: Noise) -> Grid:
        """Lay out the grid for one law of noise."""
        deviation = sqrt(noise.variance)
        step = max(1, floor(deviation / _STEPS))
        half = max(8, round(REACH * deviation / step))
        points = step * np.arange(-half, half + 1).astype(np.float64)
        return cls(noise.variance, step, points, noise.chances(step, 2 * half))

    @property
    def trusted(self) -> float:
        """Largest residual that is drawn."""
        return float(min(self.points[-1], TRUSTED * sqrt(self.variance)))

    def places(self, residuals: Floats) -> Integers:
        """Return the nearest point of each residual, those beyond the ends at them."""
        half = len(self.points) // 2
        return np.asarray(np.clip(np.rint(residuals / self.step), -half, half).astype(np.int64) + half)

    @property
    def laws(self) -> Floats:
        """The laws that are mixed, (laws, points)."""
        result, width = [np.where(self.points == 0, 1.0, 0.0)], max(1.0, _NARROWEST * sqrt(self.variance))
        while width < self.points[-1]:
            result += [
                np.where((side >= 0) & (side <= width), 1.0, 0.0) for side in (self.points, -self.points)
            ]
            width *= _GROWTH
        made = np.stack(result)
        return np.asarray(made / made.sum(axis=1, keepdims=True))

    def with_noise(self, laws: Floats) -> Floats:
        """Return the laws of residuals behind which changes have these laws."""
        size = len(self.points)
        return np.stack([np.convolve(law, self.noise)[size - 1 : 2 * size - 1] for law in laws])


@dataclass(frozen=True, eq=False, slots=True)
class Posterior:
    """A law of changes, and what is to be thought of a change by its residual, point by point of the grid.

    ``mean``, ``variance``: (points,) of the change, given the residual. ``half``: (points,) half-width of the
    interval around that mean which holds the change as often as was asked.
    """

    grid: Grid
    mean: Floats
    variance: Floats
    half: Floats

    @classmethod
    def of(cls, grid: Grid, law: Floats, level: float) -> Posterior:
        """Return what a law (points,) of the changes says; intervals hold the share ``level`` of them."""
        return cls(grid, *_given_residuals(grid, law, level))

    def shown(self, change: float) -> float:
        """Return which part of a true change is left in what is thought of it, on average over the noise."""
        place = int(self.grid.places(np.array([change]))[0])
        half = len(self.grid.points) // 2
        chance = self.grid.noise[2 * half - place : 4 * half - place + 1]
        return float(chance @ self.mean / chance.sum() / self.grid.points[place])


def change_distributions(grid: Grid, seen: Integers) -> tuple[Floats, Floats]:
    """Learn the law of the changes of each class from how many residuals lie at each point.

    Returns (classes, points) the laws, and (classes,) the logarithms of how likely they make the residuals.
    """
    laws = grid.laws
    likely = grid.with_noise(laws)
    weights = [_weights(likely, number) for number in seen]
    result = [
        number[number > 0] @ np.log(own @ likely[:, number > 0])
        for own, number in zip(weights, seen, strict=True)
    ]
    return np.stack(weights) @ laws, np.array(result)


def _weights(likely: Floats, seen: Integers) -> Floats:
    """Return the weights of laws, (laws,), that make residuals most likely, by expectation-maximisation."""
    there = seen > 0
    likely, number = likely[:, there], seen[there].astype(np.float64)
    weights = np.full(len(likely), 1 / len(likely))
    for _ in range(_ROUNDS):
        weights = weights * (likely @ (number / (weights @ likely))) + _UNSEEN / len(weights)
        weights /= weights.sum()
    return weights


def _given_residuals(grid: Grid, law: Floats, level: float) -> tuple[Floats, Floats, Floats]:
    """Return mean, variance and half-width of the change for a residual at each point.

    Beyond the residuals that are drawn: only of the noise.
    """
    size = len(grid.points)
    windows = np.lib.stride_tricks.sliding_window_view(grid.noise, size)  # noise is symmetric
    mean, variance, half = grid.points.copy(), np.full(size, grid.variance), np.zeros(size)
    begin, end = np.searchsorted(grid.points, (-grid.trusted, grid.trusted), side="right")
    for first in range(max(0, int(begin) - 1), int(end), 256):
        rows = slice(first, min(first + 256, int(end)))
        joint = law * windows[::-1][rows]
        joint /= joint.sum(axis=1, keepdims=True)
        mean[rows] = joint @ grid.points
        away = np.abs(grid.points - mean[rows, None])
        variance[rows] = (joint * away**2).sum(axis=1)
        order = np.argsort(away, axis=1, kind="stable")
        held = np.cumsum(np.take_along_axis(joint, order, axis=1), axis=1)
        last = np.argmax(held >= level - 1e-12, axis=1)
        half[rows] = np.take_along_axis(away, np.take_along_axis(order, last[:, None], 1), 1)[:, 0]
    # Between points a change is nearest to one of them.
    return mean, variance, half + (grid.step - 1) / 2
