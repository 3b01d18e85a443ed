"""How far true counts lie from what is expected of them: learnt from noisy residuals, without their noise.

The residuals of many cells of one kind are r = d + z, z noise of a known law. The law of d is taken to have
one mode, at 0, and any tails: a mixture of a point at 0 and of uniform laws on [0, b] and [-b, 0], b from a
quarter of the noise's standard deviation to 40 of them, whose weights are found by maximum likelihood
(Stephens 2017, "False discovery rates: a new deal", with the exact law of the noise in the place of a normal
one). Where nothing changed all weight goes to the point and narrow laws; a few large changes among many small
ones give a peak with long tails, by which small residuals are drawn to 0 and large ones are left alone.

Everything lies on a grid of whole numbers, each one where the noise is small, so that nothing is rounded.
Cost: (residuals) once, and some million operations for each law.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, floor, sqrt

import numpy as np

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.noise_distributions import Noise

REACH = 40
"""Largest change that is weighed, in standard deviations of the noise."""
TRUSTED = 24
"""Residuals beyond so many standard deviations are changes: they are left as they are."""
_STEPS = 8  # of the grid in a standard deviation, where that is not less than a whole number
_NARROWEST, _GROWTH = 1 / 4, sqrt(2)
_ROUNDS = 200
_UNSEEN = 1.0
"""Residuals that are taken for seen and spread over all laws alike: no tail is ruled out by a few cells."""


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
        return cls(noise.variance, step, points, _chances(noise, step, 2 * half))

    @property
    def trusted(self) -> float:
        """Largest residual that is drawn."""
        return float(min(self.points[-1], TRUSTED * sqrt(self.variance)))

    def places(self, residuals: Floats) -> Integers:
        """Return the nearest point of each residual, those beyond the ends at them."""
        half = len(self.points) // 2
        nearest: Integers = np.clip(np.rint(residuals / self.step), -half, half).astype(np.int64) + half
        return nearest

    @property
    def laws(self) -> Floats:
        """The laws that are mixed, (laws, points)."""
        found, width = [np.where(self.points == 0, 1.0, 0.0)], max(1.0, _NARROWEST * sqrt(self.variance))
        while width < self.points[-1]:
            found += [
                np.where((side >= 0) & (side <= width), 1.0, 0.0) for side in (self.points, -self.points)
            ]
            width *= _GROWTH
        made = np.stack(found)
        law: Floats = made / made.sum(axis=1, keepdims=True)
        return law

    def with_noise(self, laws: Floats) -> Floats:
        """Return the laws of residuals behind which changes have these laws."""
        size = len(self.points)
        return np.stack([np.convolve(law, self.noise)[size - 1 : 2 * size - 1] for law in laws])


def _chances(noise: Noise, step: int, half: int) -> Floats:
    """Return the chance of -half .. half steps: of whole numbers exactly, else of the nearest of steps."""
    away = np.abs(np.arange(-half, half + 1)) * float(step)
    if noise.family == "gaussian":
        chance = np.exp(-0.5 * (away / noise.scale) ** 2)
    elif step == 1:
        chance = np.exp(-away / noise.scale)
    else:
        beyond = exp(-step / (2 * noise.scale))
        chance = np.exp(-away / noise.scale) * (1 / beyond - beyond) / 2
        chance[half] = 1 - beyond
    total: Floats = chance / chance.sum()
    return total


@dataclass(frozen=True, eq=False, slots=True)
class Law:
    """A law of changes, and what is to be thought of a change by its residual, point by point of the grid.

    Attributes
    ----------
    mean, variance
        (points,) of the change, given the residual.
    half
        (points,) half-width of the interval around that mean which holds the change as often as was asked.
    """

    grid: Grid
    mean: Floats
    variance: Floats
    half: Floats

    @classmethod
    def of(cls, grid: Grid, law: Floats, level: float) -> Law:
        """Return what a law says.

        Parameters
        ----------
        law
            (points,) of the changes.
        level
            Share of changes that intervals are to hold.
        """
        return cls(grid, *_given_residuals(grid, law, level))

    def shown(self, change: float) -> float:
        """Return which part of a true change is left in what is thought of it, on average over the noise."""
        place = int(self.grid.places(np.array([change]))[0])
        half = len(self.grid.points) // 2
        chance = self.grid.noise[2 * half - place : 4 * half - place + 1]
        return float(chance @ self.mean / chance.sum() / self.grid.points[place])


def laws_behind(grid: Grid, seen: Integers) -> tuple[Floats, Floats]:
    """Learn the law of the changes behind the residuals of each class.

    Parameters
    ----------
    seen
        (classes, points) how many residuals of each class lie at each point.

    Returns
    -------
    (classes, points) the laws, and (classes,) the logarithms of how likely they make the residuals.
    """
    laws = grid.laws
    likely = grid.with_noise(laws)
    weights = [_weights(likely, number) for number in seen]
    found = [
        number[number > 0] @ np.log(own @ likely[:, number > 0])
        for own, number in zip(weights, seen, strict=True)
    ]
    return np.stack(weights) @ laws, np.array(found)


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

    Beyond the residuals that are drawn: of the noise alone.
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
