"""The forms of denoising, each as estimates that can be judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial
from math import sqrt
from statistics import NormalDist
from typing import Literal

import numpy as np

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.histograms.denoise.cycle_spinning import (
    Smoother,
    learn,
    mixture,
    partition,
    passes_over,
    spun,
)
from tabularium.mechanisms.histograms.denoise.empties import EmptiesPrior, learn_empties, mixture_with_empties
from tabularium.mechanisms.histograms.denoise.noise_correlation import threshold_covariance
from tabularium.mechanisms.histograms.denoise.probes import Probes
from tabularium.mechanisms.histograms.denoise.tiles import Layout
from tabularium.mechanisms.histograms.denoise.tree_prior import NORMAL_CELLS, TreePrior, sum_of_laplaces
from tabularium.mechanisms.histograms.denoise.wavelet import haar_shrinkage
from tabularium.mechanisms.noise_distributions import Noise

FormName = Literal["mixture", "sparse", "partition", "wavelet", "none"]

STRENGTHS: dict[FormName, tuple[float, ...]] = {
    "mixture": (0.9, 0.5),
    "sparse": (0.5,),
    "partition": (0.7, 1.0),
    "wavelet": (0.6, 0.8, 1.0),
    "none": (1.0,),
}
"""What is tried when no strength is given."""
_ADAPT_BOXES = 1 << 21
_nothing = partial(np.zeros, 0)


@dataclass(frozen=True, eq=False)
class Estimate:
    """An estimate of the tables, and how it follows their noise.

    Attributes
    ----------
    form, strength
        Where it comes from.
    levels
        Shape (tables, sides...).
    higher, lower
        Shape (probes,): the level of each probed cell, had that cell been measured higher or lower; empty
        where the covariance is known in closed form.
    covariance
        In the shape of the levels: unbiased estimates of E[Z·f], if there is a closed form; else empty.
    variance
        Of the mean of these; else 0.
    """

    form: FormName
    strength: float
    levels: Floats
    higher: Floats = field(default_factory=_nothing)
    lower: Floats = field(default_factory=_nothing)
    covariance: Floats = field(default_factory=_nothing)
    variance: float = 0.0


@dataclass(frozen=True, eq=False)
class Task:
    """Noisy tables, and how they are to be looked at.

    Attributes
    ----------
    tables
        Shape (tables, sides...).
    sample, sample_layout
        The same, or tiles of large ones: to learn from, and to try what is to be tried.
    whole
        The layout of all there is: that of the tables, unless these are the sample themselves.
    shifts
        Number of places of the dyadic grid.
    priors, with_empties
        What was learned from the sample, by the strength that learning began with.
    """

    tables: Floats
    layout: Layout
    sample: Floats
    sample_layout: Layout
    whole: Layout
    noise: Noise
    shifts: int
    probes: Probes
    priors: dict[float, TreePrior]
    with_empties: dict[float, EmptiesPrior]


def estimates(task: Task, form: FormName, strengths: tuple[float, ...]) -> Iterator[Estimate]:
    """Yield the estimates of one form, one for each strength."""
    yield from _OF[form](task, strengths)


def _none(task: Task, strengths: tuple[float, ...]) -> Iterator[Estimate]:
    follows = np.full(task.tables.shape, task.noise.variance)
    yield Estimate("none", 1.0, task.tables, covariance=follows)


def _mixture(task: Task, strengths: tuple[float, ...]) -> Iterator[Estimate]:
    """Take the mixture over all partitions; its strength: how likely flatness is when learning begins."""
    for start in strengths:
        if start not in task.priors:
            prior = learn(task.sample, task.sample_layout, task.noise, start, task.whole.classes)
            task.priors[start] = prior
    adapt = task.whole.boxes <= _ADAPT_BOXES
    smoothers = [mixture(task.noise, task.priors[start], adapt=adapt) for start in strengths]
    yield from _spun(task, "mixture", strengths, smoothers)


def _sparse(task: Task, strengths: tuple[float, ...]) -> Iterator[Estimate]:
    """Take the mixture in which halves may be empty; its strength is that of the mixture."""
    for start in strengths:
        if start not in task.with_empties:
            prior = learn_empties(task.sample, task.sample_layout, task.noise, start, task.whole.classes)
            task.with_empties[start] = prior
    adapt = task.whole.boxes <= _ADAPT_BOXES and passes_over(task.tables, task.layout) > 0
    smoothers = [
        mixture_with_empties(task.noise, task.with_empties[start], adapt=adapt) for start in strengths
    ]
    yield from _spun(task, "sparse", strengths, smoothers)


def _partition(task: Task, strengths: tuple[float, ...]) -> Iterator[Estimate]:
    """Take the best partition; its strength is the price of a part, in ln(cells)·V."""
    smoothers = [partition(task.noise, task.whole.cells, strength) for strength in strengths]
    yield from _spun(task, "partition", strengths, smoothers)


def _spun(
    task: Task, form: FormName, strengths: tuple[float, ...], smoothers: list[Smoother]
) -> Iterator[Estimate]:
    """Yield what each smoother makes of the tables, averaged over places of the grid."""
    fits = spun(task.tables, task.layout, task.shifts, task.probes, smoothers)
    for strength, fit in zip(strengths, fits, strict=True):
        yield Estimate(form, strength, fit.levels, fit.higher, fit.lower)


def _wavelet(task: Task, strengths: tuple[float, ...]) -> Iterator[Estimate]:
    """Shrink wavelet coefficients; the strength is the threshold, in what pure noise exceeds once."""
    for strength in strengths:
        levels, covariance, variance = shrunken(task.tables, task.noise, task.whole.cells, strength)
        yield Estimate("wavelet", strength, levels, covariance=covariance, variance=float(variance[0]))


def shrunken(
    tables: Floats, noise: Noise, whole: int, strength: float, groups: int = 1
) -> tuple[Floats, Floats, Floats]:
    """Return tables (tables, sides...) without their small wavelet coefficients; see ``haar_shrinkage``.

    ``whole``: the cells of a whole table.
    """
    tail = 1 / (2 * max(whole, 2))

    def threshold(cells: int) -> float:
        return strength * noise_quantile(noise.family, cells, tail) * sqrt(noise.variance / cells)

    levels, covariance, variance = haar_shrinkage(tables, threshold, threshold_covariance(noise), groups)
    # Near the edges cells count for less than elsewhere: totals are put right again.
    axes = tuple(range(1, levels.ndim))
    levels += (tables - levels).mean(axis=axes, keepdims=True)
    covariance += noise.variance / (tables[0].size)
    return levels, covariance, variance


_OF = {"mixture": _mixture, "sparse": _sparse, "partition": _partition, "wavelet": _wavelet, "none": _none}


@lru_cache(maxsize=512)
def noise_quantile(family: str, cells: int, tail: float) -> float:
    """Return what a mean over ``cells`` cells of noise, with signs, exceeds with probability ``tail``.

    In standard deviations of that mean. Of few Laplace variables it grows like ln(1/tail), not like its root.
    """
    if family != "laplace" or cells >= NORMAL_CELLS:
        return -NormalDist().inv_cdf(tail)
    grid = np.arange(0, 40, 1 / 256)
    density = np.exp(sum_of_laplaces(grid, cells))
    beyond = np.cumsum(((density[1:] + density[:-1]) / 512)[::-1])[::-1]
    return float(np.interp(-np.log(tail), -np.log(beyond[:-1]), grid[:-2]))
