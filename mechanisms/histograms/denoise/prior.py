"""The tree prior of the mixture over partitions, learned from the noisy table.

The gap between two halves of a box, in standard deviations of its own noise, is t = u + noise. The true gap u
has a mixture of normal distributions around 0 with fixed spreads (one of them 0), and a Cauchy distribution
for large gaps. The weights, the probability that a box is flat or has an empty half, and the axis along which
it is halved depend only on the size of the box. They are learned by expectation maximisation, and held near
their starting values by the weight of a few boxes. The noise has its exact law, a sum of Laplace variables,
up to 64 cells; from there on, and for Gaussian noise, it is normal.

Source: Stephens 2017 (adaptive shrinkage); Johnstone, Silverman 2004.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import lgamma, log, pi, sqrt

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.histograms.denoise.boxes import Boxes
from tabularium.mechanisms.histograms.denoise.mixture import Counts, Prior, Sparse, variance_inflation
from tabularium.mechanisms.noise_distributions import Noise

DENSITY = 32
REACH = 16
POINTS = DENSITY * REACH + 1
SPREADS = (0.0, 0.35, 0.7, 1.4, 2.8, 5.6)
HEAVY = 4.0  # scale of the Cauchy distribution
KINDS = len(SPREADS) + 1

_WEIGHTS = np.array([0.3, 0.15, 0.15, 0.1, 0.1, 0.1, 0.1])
ANCHOR = 2.0  # boxes that the starting values weigh as much as
_NOISE_REACH = 24
_NORMAL_FROM = 6
NORMAL_CELLS = 1 << _NORMAL_FROM

_EMPTY = 0.3  # halvings that leave an empty half
_POOLED = 4.0  # halvings of a class that count towards what all classes have in common
_EITHER = log(2 * sqrt(2))  # one of two halves, and the unit of its mean by that of a gap


@dataclass(frozen=True, eq=False)
class TreePrior:
    """What is believed of boxes by their class (log2 of their cells).

    Attributes
    ----------
    flat
        Shape (classes,): probability that a box is flat.
    axes
        Shape (classes, d): how likely the axes are to be halved, when all can be; sums to 1.
    gaps
        Shape (classes, kinds): weights of the distributions of the true gap; sums to 1.
    start
        The probability to be flat that learning began with, in every class.
    empty
        Shape (classes,): probability that a box that is halved has an empty half; None: no half is empty.
    """

    flat: Floats
    axes: Floats
    gaps: Floats
    start: float
    empty: Floats | None = None

    @classmethod
    def of(cls, start: float, classes: int, axes: int, *, sparse: bool = False) -> TreePrior:
        """Return the prior to begin with; ``sparse``: one in which halves may be empty."""
        even = np.full((classes, axes), 1 / axes)
        empty = np.full(classes, _EMPTY) if sparse else None
        return cls(np.full(classes, start), even, np.tile(_WEIGHTS, (classes, 1)), start, empty)

    def inflation(self, boxes: Boxes, means: Floats, noise: Noise) -> Floats:
        """Return the variance inflation of the boxes' means; nothing where no half may be empty."""
        if self.empty is None:
            return np.zeros(0)
        return variance_inflation(boxes, means, DENSITY / sqrt(noise.variance), float(DENSITY), _spiky(noise))

    def tables(self, noise: Noise, inflation: Floats) -> tuple[Prior, Sparse | None]:
        """Return the prior in the form that the kernels need."""
        classes, d = self.axes.shape
        density, mean, noise_density = (table[_rows(classes)] for table in gap_densities(noise.family))
        weighted = density * self.gaps[:, :, None]
        total = weighted.sum(axis=1)
        ratio = np.log(total) - noise_density
        kept = np.clip((weighted * mean).sum(axis=1) / total, 0, _points())
        kept = np.maximum.accumulate(kept, axis=1) * DENSITY
        prior = Prior(
            stop=np.log(self.flat),
            go=self._go(d),
            ratio=ratio,
            kept=kept,
            slope=ratio[:, -1] - ratio[:, -2],
            unit=DENSITY / sqrt(noise.variance),
        )
        if self.empty is None:
            return prior, None
        return prior, Sparse(
            apart=ratio + noise_density + np.log1p(-self.empty)[:, None],
            alike=noise_density,
            fall=noise_density[:, -2] - noise_density[:, -1],
            empty=np.log(self.empty) - _EITHER,
            whole=np.log(density[:, -1]),
            inflation=inflation,
            spiky=_spiky(noise),
            density=float(DENSITY),
        )

    def empty_counts(self) -> Counts:
        """Return zeros for ``descend`` to count in."""
        classes, d = self.axes.shape
        return Counts(np.zeros((classes, 1 << d, d + 1)), np.zeros((classes, POINTS)), np.zeros(classes))

    def _go(self, d: int) -> Floats:
        free = (np.arange(1 << d)[:, None] >> np.arange(d)) & 1
        weights = self.axes[:, None, :] * free
        total = weights.sum(axis=2, keepdims=True)
        shares = np.divide(weights, total, out=np.ones_like(weights), where=weights > 0)
        return np.asarray(np.log((1 - self.flat)[:, None, None]) + np.log(shares))

    def learned(self, counts: Counts, noise: Noise) -> TreePrior:
        """Return the prior that fits what ``descend`` counted under this one."""
        splits, gaps = counts.splits, counts.gaps
        classes, d = self.axes.shape
        halved = splits[:, :, :d].sum(axis=(1, 2))
        flat = (splits[:, :, d].sum(axis=1) + ANCHOR * self.start) / (splits.sum(axis=(1, 2)) + ANCHOR)
        # An axis is compared with those that it could have been preferred to (Hunter 2004).
        free = (np.arange(1 << d)[:, None] >> np.arange(d)) & 1
        rivals = (self.axes[:, None, :] * free).sum(axis=2)
        per_set = np.divide(splits[:, :, :d].sum(axis=2), rivals, out=np.zeros_like(rivals), where=rivals > 0)
        exposure = per_set @ free + ANCHOR
        axes = (splits[:, :, :d].sum(axis=1) + ANCHOR / d) / exposure
        density = gap_densities(noise.family)[0][_rows(classes)]
        weighted = density * self.gaps[:, :, None]
        expected = np.einsum("ckp,cp->ck", weighted / weighted.sum(axis=1, keepdims=True), gaps)
        weights = (expected + ANCHOR * _WEIGHTS) / (halved[:, None] + ANCHOR)
        axes /= axes.sum(axis=1, keepdims=True)
        empty = None if self.empty is None else _empty_halves(counts.empties, halved)
        return TreePrior(flat, axes, weights / weights.sum(axis=1, keepdims=True), self.start, empty)


def _empty_halves(empties: Floats, halved: Floats) -> Floats:
    """Return how likely an empty half is in each class, from the counted halvings."""
    # In a table of one peak each class has one box that is not empty: together they tell what none does.
    few = np.divide(_POOLED, halved, out=np.ones_like(halved), where=halved > _POOLED)
    pooled = ((few * empties).sum() + ANCHOR * _EMPTY) / ((few * halved).sum() + ANCHOR)
    return np.asarray((empties + ANCHOR * pooled) / (halved + ANCHOR))


def _spiky(noise: Noise) -> int:
    """Return the class of boxes from which on single values of the noise do not matter; 0: none do."""
    return _NORMAL_FROM if noise.family == "laplace" else 0


def _rows(classes: int) -> NDArray[np.int64]:
    return np.minimum(np.arange(classes), _NORMAL_FROM)


def _points() -> Floats:
    return np.arange(POINTS) / DENSITY


@lru_cache(maxsize=2)
def gap_densities(family: str) -> tuple[Floats, Floats, Floats]:
    """Return, per class, the density of t and E[u | t] by distribution of u; and the log density of noise."""
    grid = np.arange(-_NOISE_REACH * DENSITY, _NOISE_REACH * DENSITY + 1) / DENSITY
    wide = np.arange(-(_NOISE_REACH + REACH) * DENSITY, (_NOISE_REACH + REACH) * DENSITY + 1) / DENSITY
    density = np.zeros((_NORMAL_FROM + 1, KINDS, POINTS))
    mean, noise_density = np.zeros_like(density), np.zeros((_NORMAL_FROM + 1, POINTS))
    for kind in range(_NORMAL_FROM + 1):
        cells = 1 << kind
        log_density = sum_of_laplaces if family == "laplace" and kind < _NORMAL_FROM else _normal
        noise_density[kind] = log_density(_points(), cells)
        noise = np.exp(log_density(grid, cells)) / DENSITY
        density[kind, 0] = np.exp(noise_density[kind])
        for number, spread in enumerate((*SPREADS[1:], None), 1):
            if spread is None:
                prior = 1 / (pi * HEAVY * (1 + (wide / HEAVY) ** 2))
            else:
                prior = np.exp(_normal(wide / spread, 1)) / spread
            density[kind, number] = np.convolve(prior, noise, "valid")[-POINTS:]
            mean[kind, number] = np.convolve(prior * wide, noise, "valid")[-POINTS:] / density[kind, number]
    return density, mean, noise_density


def _normal(t: Floats, cells: int) -> Floats:
    """Return the log density of the normal distribution of variance 1."""
    return np.asarray(-(t**2) / 2 - np.log(2 * pi) / 2)


def sum_of_laplaces(t: Floats, cells: int) -> Floats:
    """Return the log density of a sum of Laplace variables that has variance 1."""
    unit = np.sqrt(2 * cells)
    x = np.maximum(np.abs(t) * unit, 1e-300)
    terms = [
        lgamma(cells + k) - lgamma(cells - k) - lgamma(k + 1) - k * np.log(2) + (cells - 1 - k) * np.log(x)
        for k in range(cells)
    ]
    return np.asarray(np.logaddexp.reduce(terms) - x - lgamma(cells) - cells * np.log(2) + np.log(unit))
