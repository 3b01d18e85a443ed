"""The forms of denoising, each as estimates that can be judged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
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
    passes_over,
    spun,
)
from tabularium.mechanisms.histograms.denoise.dyadic_boxes import Layout
from tabularium.mechanisms.histograms.denoise.empties import EmptiesPrior, learn_empties, mixture_with_empties
from tabularium.mechanisms.histograms.denoise.probes import Probes, ramp_covariance, threshold_covariance
from tabularium.mechanisms.histograms.denoise.tree_prior import NORMAL_CELLS, TreePrior, sum_of_laplaces
from tabularium.mechanisms.histograms.denoise.wavelet import haar_shrinkage
from tabularium.mechanisms.inference.family_projection import common_reduction
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import Noise

FormName = Literal["mixture", "sparse", "wavelet", "none"]

STRENGTHS: dict[FormName, tuple[float, ...]] = {
    "mixture": (0.9, 0.5),
    "sparse": (0.5,),
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


_OF = {"mixture": _mixture, "sparse": _sparse, "wavelet": _wavelet, "none": _none}


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


Sign = Literal["free", "total", "cut"]

CLOSED = ("none", "wavelet")  # the forms that need no probes
SPREAD = {"laplace": 5.0, "gaussian": 2.0}  # Var(Z²)/V²
SIMULATIONS = 2000
SEED = 75_103
_APART = (0.25, 1.0, 4.0)  # standard deviations of the noise


@dataclass(frozen=True, eq=False)
class Judged:
    """An estimate with its estimated error.

    Attributes
    ----------
    form, strength
        Where it comes from.
    sign
        What was done with negative levels.
    levels
        Shape (tables, sides...).
    risk
        Mean squared error per cell; unbiased, hence sometimes negative.
    standard_error
        Of that.
    moves
        Shape (probes,): unbiased estimates of the mean of Z·f over the cells; all the same where no probes
        were needed.
    variance
        Of their mean, besides what the draw of probes adds.
    """

    form: FormName
    strength: float
    sign: Sign
    levels: Floats
    risk: float
    standard_error: float
    moves: Floats
    variance: float


def judged(
    estimate: Estimate, tables: Floats, noise: Noise, probes: Probes, sign: Sign | Literal["auto"]
) -> Judged:
    """Estimate the error of an estimate, negative levels treated as ``sign`` says.

    ``"auto"`` keeps the total unless cutting off is clearly better: by more than two standard errors. The
    stated errors of wavelets do not tell the two apart: the total is kept.
    """
    if sign == "auto" and estimate.form == "wavelet":
        sign = "total"
    if sign != "auto":
        return _judged(estimate, tables, noise, probes, sign)
    kept, cut = (_judged(estimate, tables, noise, probes, one) for one in ("total", "cut"))
    doubt = sqrt(max(0.0, float(_covariance([kept, cut], noise)[0, 0])))
    return cut if cut.risk < kept.risk - 2 * doubt else kept


def _judged(estimate: Estimate, tables: Floats, noise: Noise, probes: Probes, sign: Sign) -> Judged:
    levels, reduction = estimate.levels, np.zeros(tables.shape[0])
    if sign == "total":
        reduction = common_reduction(levels.reshape(levels.shape[0], -1))
    if sign != "free":
        levels = np.maximum(levels - _to_cells(reduction, levels), 0.0)
    moves = _moves(estimate, levels, reduction, tables, noise, probes, sign)
    rest = (tables - levels) ** 2
    return Judged(
        estimate.form,
        estimate.strength,
        sign,
        levels,
        risk=float(rest.mean()) - noise.variance + 2 * float(moves.mean()),
        standard_error=_standard_error(rest, moves, estimate.variance, noise),
        moves=moves,
        variance=estimate.variance,
    )


def errors_by_level(one: Judged, tables: Floats, noise: Noise, probes: Probes) -> list[dict[str, float]]:
    """Return the estimated errors of cells of different levels, apart: the highest are wrong by most.

    Where most cells hold little, the error of all of them says little of the few that hold more. Cells are
    told apart at a quarter, one and four standard deviations of the noise. Of a form that needs no probes it
    is not known.

    Returns
    -------
    For each class that has cells, upwards: ``above``, the level from which on it holds, its ``cells``, their
    ``risk`` (mean squared error) and its ``standard_error``. That levels were chosen by the noise is in the
    estimates only as far as the covariance tells it.
    """
    edges = np.array(_APART) * sqrt(noise.variance)
    classes = np.digitize(one.levels, edges)
    probed = classes[tuple(probes.places.T)]
    found = []
    for kind in np.unique(classes):
        here = classes == kind
        rest = (tables[here] - one.levels[here]) ** 2
        moves = one.moves * (probed == kind) * (here.size / rest.size)
        found.append(
            {
                "above": float(edges[kind - 1]) if kind else 0.0,
                "cells": int(rest.size),
                "risk": float(rest.mean()) - noise.variance + 2 * float(moves.mean()),
                "standard_error": _standard_error(rest, moves, 0.0, noise),
            }
        )
    return found


def _standard_error(rest: Floats, moves: Floats, variance: float, noise: Noise) -> float:
    """Return the standard error of an estimated error: of the mean squared residual, and of mean Z·f.

    The residuals of a few cells do not show how much they vary (the two of a mean are the same). It is not
    less than from the noise that was taken out: Var(Z²)/n, times the share of the noise that is not followed.
    """
    followed = min(max(float(moves.mean()) / noise.variance, 0.0), 1.0)
    least = SPREAD[noise.family] * noise.variance**2 * (1 - followed)
    probed = float(moves.var()) / moves.size
    return sqrt(max(float(rest.var()), least) / rest.size + 4 * (probed + variance))


def _to_cells(values: Floats, tables: Floats) -> Floats:
    """Return one value for each table in a shape that goes with all its cells."""
    return values.reshape(-1, *(1,) * (tables.ndim - 1))


def _moves(
    estimate: Estimate,
    levels: Floats,
    reduction: Floats,
    tables: Floats,
    noise: Noise,
    probes: Probes,
    sign: Sign,
) -> Floats:
    """Return unbiased estimates of the mean of Z·f, one for each probe."""
    if estimate.form in CLOSED:
        follows = estimate.covariance
        if estimate.form == "none" and sign != "free":
            follows = ramp_covariance(tables - _to_cells(reduction, tables), noise)
        return np.full(probes.steps.size, follows.mean())
    higher, lower = estimate.higher, estimate.lower
    if sign != "free":
        less = reduction[probes.places[:, 0]]
        higher, lower = np.maximum(higher - less, 0.0), np.maximum(lower - less, 0.0)
    return np.asarray(probes.weights * (higher - lower) / levels.size)


def best_of(found: list[Judged], noise: Noise) -> tuple[Judged, float]:
    """Return the estimate of least error, its optimism mended, and by how much.

    The form that comes first is the best one as a rule; another has to be better by more than the doubt about
    it, one standard error of the difference. The least of several estimates is optimistic. How much, is found
    by simulation: errors of the size of those of the differences are added to the estimates found, and the
    average by which the one then taken lies below its own mean is what the stated error is raised by.
    """
    if len(found) == 1:
        return found[0], 0.0
    covariance = _covariance(found, noise)
    doubt = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    doubt[[one.form == found[0].form for one in found[1:]]] = 0.0
    bar = np.array([one.risk for one in found]) + np.append(0.0, doubt)
    best = found[int(np.argmin(bar))]
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    errors = np.zeros((SIMULATIONS, len(found)))
    errors[:, 1:] = generator(SEED).standard_normal((SIMULATIONS, len(found) - 1)) @ root.T
    taken = np.argmin(bar + errors, axis=1)
    optimism = max(0.0, -float(errors[np.arange(SIMULATIONS), taken].mean()))
    return replace(best, risk=best.risk + optimism), optimism


def _covariance(found: list[Judged], noise: Noise) -> Floats:
    """Return the covariance of the estimated errors' differences from the first.

    A difference is off by -2·mean Z·(f - f'), as if f and f' did not depend on Z, and by the draw of probes.
    """
    first = found[0]
    apart = np.array([(one.levels - first.levels).reshape(-1) for one in found[1:]])
    moves = np.array([one.moves - first.moves for one in found[1:]])
    moves -= moves.mean(axis=1, keepdims=True)
    noisy = noise.variance * (apart @ apart.T) / apart.shape[1] ** 2
    probed = (moves @ moves.T) / moves.shape[1] ** 2
    own = np.diag([one.variance for one in found[1:]])
    return np.asarray(4 * (noisy + probed + own + first.variance))
