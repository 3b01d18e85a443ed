"""Noisy tables without most of their noise, one or many of one shape.

All this sees is noisy cells and the distribution of their noise.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod, sqrt
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Bools, Floats, Integers
from tabularium.mechanisms.histograms.denoise.boxes import Layout
from tabularium.mechanisms.histograms.denoise.forms import (
    CLOSED,
    STRENGTHS,
    Estimate,
    FormName,
    Task,
    estimates,
    may_be_empty,
    mostly_empty,
)
from tabularium.mechanisms.histograms.denoise.risk import Probes, ramp_covariance
from tabularium.mechanisms.inference.family_projection import common_reduction
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import Noise

_SMALL = 1 << 17  # boxes: up to here wavelets are tried too
_SAMPLE = 1 << 18  # boxes: above, what is to be tried is tried on so many of them
_SPINS = 3 << 22
_MOST_SHIFTS = 16
_TRIAL_SHIFTS = 4
_MANY = 768  # cells: from here on errors are given by level, as by ``margins_of_error.error_classes``
_NO_NOISE = 1e-6  # variance: hardly a cell in a million is off
_TOGETHER = 64  # tables: what is made of them stays in the processor's cache
_MOST_BOXES = 1 << 14  # of a table: what larger ones need besides the loops no longer counts
CHOOSING = ("auto", "sparse")
"""Forms that are chosen by what the noisy table shows."""
_FOR_SMALL: tuple[FormName, ...] = ("mixture", "wavelet", "none")
_FOR_LARGE: tuple[FormName, ...] = ("mixture", "none")

Candidates = dict[FormName, tuple[float, ...]]


@dataclass(frozen=True)
class DenoiseOptions:
    """How a table is to be denoised; see ``tabularium.mechanisms.histograms.denoise.denoise``.

    Attributes
    ----------
    form, strength
        ``"auto"`` and None: what has the least estimated error. ``"sparse"``: the same, but in a table that
        bears it out most of it is taken for empty, which does not keep its total.
    shifts
        None: as many as the size of the table allows.
    sign
        What to do with negative levels.
    """

    form: FormName | Literal["auto"] = "auto"
    strength: float | None = None
    shifts: int | None = None
    sign: Sign = "auto"

    def candidates(self, boxes: int) -> Candidates:
        """Return what is to be tried on a table of so many boxes: forms and their strengths."""
        if self.form not in CHOOSING:
            form = cast(FormName, self.form)
            return {form: STRENGTHS[form] if self.strength is None else (self.strength,)}
        return {form: STRENGTHS[form] for form in (_FOR_SMALL if boxes <= _SMALL else _FOR_LARGE)}


@dataclass(frozen=True, eq=False)
class Denoised:
    """A denoised table.

    ``values``: float64, in the shape of the noisy table. ``diagnostics``: JSON-able: what was chosen, and the
    estimated errors.
    """

    values: Floats
    diagnostics: dict[str, Any]


def denoise_table(
    table: NDArray[np.int64], noise: Noise, layout: Layout, options: DenoiseOptions
) -> Denoised:
    """Return a table without most of its noise.

    What is to be tried on a large table is tried on tiles from all over it first, and only the best of it on
    the whole.

    ``table``: Noisy whole numbers, in the shape of the layout. ``noise``: Its distribution in every cell.
    """
    return _denoised(table[None], noise, layout, options, together=False)[0]


def denoise_tables(
    tables: NDArray[np.int64], noise: Noise, layout: Layout, options: DenoiseOptions
) -> list[Denoised]:
    """Return many tables of one layout, each as ``denoise_table`` would return it.

    Sums over a prior's points are taken in another order in small tables, so results agree to about twelve
    digits and not bit by bit. Tables are shared out to threads in groups; what is made of a table does not
    depend on its group.
    """
    together = bool(layout.sides) and layout.boxes <= _MOST_BOXES and options.form != "sparse"
    size = _TOGETHER if together else 1
    groups = [tables[k : k + size] for k in range(0, len(tables), size)]
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        made = pool.map(lambda group: _denoised(group, noise, layout, options, together=together), groups)
        return [one for group in made for one in group]


def _denoised(
    tables: NDArray[np.int64], noise: Noise, layout: Layout, options: DenoiseOptions, *, together: bool
) -> list[Denoised]:
    if noise.variance < _NO_NOISE:
        known = {"scale": noise.scale, "form": "none", "noise_variance": noise.variance}
        known |= {"risk": noise.variance, "risk_standard_error": 0.0}
        return [Denoised(np.asarray(table, dtype=np.float64), dict(known)) for table in tables]
    task = _task(np.stack([layout.stack(table) for table in tables]), layout, noise, options.shifts, together)
    tried = options.candidates(layout.boxes)
    optimism, shortlist = 0.0, []
    result = _if_sparse(task, options)
    if not result and task.sample_layout is not task.layout and sum(map(len, tried.values())) > 1:
        shortlist = _score_all(_trial(task), tried, options)
        (first,), (optimism,) = best_of(shortlist, noise)
        tried = {shortlist[first].form: (shortlist[first].strength,)}
    result = result or _score_all(task, tried, options)
    taken, more = best_of(result, noise)
    return [
        _summary(task, result[taken[row]], row, float(more[row]), float(optimism), shortlist or result)
        for row in range(len(tables))
    ]


def _summary(
    task: Task, best: Scored, row: int, more: float, optimism: float, candidates: list[Scored]
) -> Denoised:
    """Return the best estimate of a row, its optimism corrected: by ``more``, and by that of the trial."""
    diagnostics: dict[str, Any] = {
        "scale": task.noise.scale,
        "form": best.form,
        "strength": best.strength,
        "sign": best.sign_of(row),
        "shifts": task.shifts,
        "risk": float(best.risk[row]) + more + optimism,
        "risk_standard_error": float(best.standard_error[row]),
        "risk_optimism": optimism + more,
        "noise_variance": task.noise.variance,
        "candidates": [
            {
                "form": one.form,
                "strength": one.strength,
                "sign": one.sign_of(row),
                "risk": float(one.risk[row]),
            }
            for one in candidates
        ],
    }
    levels = best.levels[row]
    apart = errors_by_level(best, task, row) if levels.size >= _MANY else []
    if apart:
        diagnostics["risk_by_level"] = apart
    return Denoised(task.layout.unstack(levels.reshape(task.tables.shape[1:])), diagnostics)


def _task(tables: Floats, layout: Layout, noise: Noise, shifts: int | None, together: bool) -> Task:
    shifts = shifts or min(_MOST_SHIFTS, max(2, _SPINS // layout.boxes))
    shifts = min(shifts, prod(layout.spans))
    sample, sample_layout = layout.sample(tables[0], _SAMPLE)
    probes = Probes.of(tables, layout, noise, shifts)
    return Task(
        tables, layout, sample[None], sample_layout, layout, noise, shifts, probes, together, priors={}
    )


def _trial(task: Task, *, probed: bool = True) -> Task:
    """Return the task for the sample only."""
    shifts = min(task.shifts, _TRIAL_SHIFTS)
    probes = Probes.none(len(task.layout.sides))
    if probed:
        probes = Probes.of(task.sample, task.sample_layout, task.noise, shifts)
    return replace(task, tables=task.sample, layout=task.sample_layout, shifts=shifts, probes=probes)


def _if_sparse(task: Task, options: DenoiseOptions) -> list[Scored]:
    """Return the sparse form, scored, of a table that bears it out; of others nothing.

    It is tried on the sample first, and checked on the whole.
    """
    if options.form != "sparse" or not may_be_empty(task.sample[0], task.sample_layout):
        return []
    trial = _trial(task, probed=False)
    (first,) = estimates(trial, "sparse", STRENGTHS["sparse"])
    if not mostly_empty(trial.cells, first.levels, task.noise):
        return []
    (result,) = _score_all(task, {"sparse": STRENGTHS["sparse"]}, options)
    return [result] if mostly_empty(task.cells, result.levels, task.noise) else []


def _score_all(task: Task, tried: Candidates, options: DenoiseOptions) -> list[Scored]:
    return [
        score(estimate, task, options.sign)
        for form, strengths in tried.items()
        for estimate in estimates(task, form, strengths)
    ]


# The error of an estimate, estimated from the noisy table; and what to do with negative levels.
#
# The mean squared error of an estimate f of a table Y = x + Z, Var Z = V, is estimated without bias by
#
#     mean (Y - f)² - V + 2·mean Z·f,
#
# the last term by the identity of ``risk`` on probed cells, where f is recomputed, structure and all, with
# the cell moved up and down; for wavelets and the noisy table itself in closed form. The prior that was
# learned, and the reduction that keeps the total, are held fixed: that leaves out terms of order V/n per
# parameter.
#
# All of it row by row: one table is a row.


Sign = Literal["auto", "free", "total", "cut"]

_SPREAD = {"laplace": 5.0, "gaussian": 2.0}  # Var(Z²)/V²
_SIMULATIONS = 2000
_SEED = 75_103
_APART = (0.25, 1.0, 4.0)  # standard deviations of the noise


@dataclass(frozen=True, eq=False)
class Scored:
    """The estimates of one form with their estimated errors.

    Attributes
    ----------
    form, strength
        Where they come from.
    sign
        What was to be done with negative levels.
    cut
        Shape (rows,): whether they were cut off, where that was left open.
    levels
        Shape (rows, tables, cells).
    risk
        Shape (rows,): mean squared error per cell; unbiased, hence sometimes negative.
    standard_error
        Shape (rows,): of that.
    moves
        Shape (rows, probes): unbiased estimates of the mean of Z·f over the cells; all the same where no
        probes were needed.
    variance
        Shape (rows,): of their mean, besides what the draw of probes adds.
    """

    form: FormName
    strength: float
    sign: Sign
    cut: Bools
    levels: Floats
    risk: Floats
    standard_error: Floats
    moves: Floats
    variance: Floats

    def sign_of(self, row: int) -> Sign:
        """Return what was done with the negative levels of a row."""
        if self.sign != "auto":
            return self.sign
        return "cut" if self.cut[row] else "total"


def score(estimate: Estimate, task: Task, sign: Sign) -> Scored:
    """Estimate the errors of an estimate, negative levels treated as ``sign`` says.

    Cutting them off never makes an error larger, but moves the total up; to reduce all levels first keeps the
    total of the estimate, and is as a rule more accurate, but not in a table of a few peaks and much noise.
    ``"auto"`` keeps the total unless cutting off is better by more than two standard errors; of wavelets it
    keeps the total, as cut levels are taken to follow the noise as if they were not.
    """
    if sign != "auto":
        return _scored(estimate, task, sign)
    if estimate.form == "wavelet":
        return _scored(estimate, task, "total")
    kept, cut = _scored(estimate, task, "total"), _scored(estimate, task, "cut")
    doubt = np.sqrt(np.maximum(_covariances([kept, cut], task.noise)[:, 0, 0], 0.0))
    better = cut.risk < kept.risk - 2 * doubt

    def either(one: Floats, other: Floats) -> Floats:
        return np.where(better.reshape(-1, *(1,) * (one.ndim - 1)), one, other)

    return Scored(
        estimate.form,
        estimate.strength,
        sign,
        better,
        either(cut.levels, kept.levels),
        either(cut.risk, kept.risk),
        either(cut.standard_error, kept.standard_error),
        either(cut.moves, kept.moves),
        estimate.variance,
    )


def _scored(estimate: Estimate, task: Task, sign: Sign) -> Scored:
    levels, cells, noise = estimate.levels, task.cells, task.noise
    rows = len(cells)
    reduction = np.zeros(cells.shape[:2])
    if sign == "total":
        reduction = common_reduction(levels.reshape(-1, cells.shape[2])).reshape(cells.shape[:2])
    if sign != "free":
        levels = np.maximum(levels - reduction[:, :, None], 0.0)
    moves = _moves(estimate, task, reduction, sign)
    squares = ((cells - levels) ** 2).reshape(rows, -1)
    return Scored(
        estimate.form,
        estimate.strength,
        sign,
        np.full(rows, sign == "cut"),
        levels,
        risk=squares.mean(axis=1) - noise.variance + 2 * moves.mean(axis=1),
        standard_error=_standard_errors(squares, moves, estimate.variance, noise),
        moves=moves,
        variance=estimate.variance,
    )


def _standard_errors(squares: Floats, moves: Floats, variance: Floats | float, noise: Noise) -> Floats:
    """Return the standard errors of estimated errors: of mean squared residuals, and of mean Z·f.

    The residuals of a few cells do not show how much they vary (the two of a mean are the same). It is not
    less than from the noise that was taken out: Var(Z²)/n, times the share of the noise that is not followed.
    """
    followed = np.clip(moves.mean(axis=1) / noise.variance, 0.0, 1.0)
    least = _SPREAD[noise.family] * noise.variance**2 * (1 - followed)
    doubt = np.maximum(squares.var(axis=1), least) / squares.shape[1]
    return np.asarray(np.sqrt(doubt + 4 * (moves.var(axis=1) / moves.shape[1] + variance)))


def _moves(estimate: Estimate, task: Task, reduction: Floats, sign: Sign) -> Floats:
    """Return unbiased estimates of the mean of Z·f in each row, (rows, probes)."""
    cells, probes = task.cells, task.probes
    if estimate.moved is None:
        follows = estimate.covariance
        if estimate.form == "none" and sign != "free":
            follows = ramp_covariance(cells - reduction[:, :, None], task.noise)
        mean = follows.reshape(len(cells), -1).mean(axis=1)
        return np.repeat(mean[:, None], probes.steps.size, axis=1)
    higher, lower = estimate.moved
    if sign != "free":
        less = np.take_along_axis(reduction, probes.places[:, :, 0], axis=1)
        higher, lower = np.maximum(higher - less, 0.0), np.maximum(lower - less, 0.0)
    return np.asarray(probes.weights * (higher - lower) / cells[0].size)


def errors_by_level(one: Scored, task: Task, row: int) -> list[dict[str, float]]:
    """Return the estimated errors of cells of different levels, apart: the highest are wrong by most.

    Cells are split at a quarter, one and four standard deviations of the noise. Of a form that needs no
    probes it is not known.

    Returns
    -------
    For each class that has cells, upwards: ``above``, the level from which on it holds, its ``cells``, their
    ``risk`` (mean squared error) and its ``standard_error``.
    """
    if one.form in CLOSED:
        return []
    edges = np.array(_APART) * sqrt(task.noise.variance)
    tables, levels = task.tables[row], one.levels[row].reshape(task.tables.shape[1:])
    classes = np.digitize(levels, edges)
    probed = classes[tuple(task.probes.places[row].T)]
    result = []
    for kind in np.unique(classes):
        here = classes == kind
        squares = (tables[here] - levels[here]) ** 2
        moves = one.moves[row] * (probed == kind) * (here.size / squares.size)
        error = _standard_errors(squares[None], moves[None], 0.0, task.noise)
        result.append(
            {
                "above": float(edges[kind - 1]) if kind else 0.0,
                "cells": int(squares.size),
                "risk": float(squares.mean()) - task.noise.variance + 2 * float(moves.mean()),
                "standard_error": float(error[0]),
            }
        )
    return result


def best_of(found: list[Scored], noise: Noise) -> tuple[Integers, Floats]:
    """Return which estimate of least error is taken in each row, (rows,), and the optimism of taking it.

    A form that does not come first has to be better by one standard error of the difference. How optimistic
    the least of several estimates is, is simulated: errors of the size of those of the differences are added
    to the estimates, and the average by which the one then taken lies below its own mean is to be added.
    """
    rows = found[0].risk.size
    if len(found) == 1:
        return np.zeros(rows, dtype=np.int64), np.zeros(rows)
    covariance = _covariances(found, noise)
    doubt = np.sqrt(np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0.0))
    doubt = np.where([one.form == found[0].form for one in found[1:]], 0.0, doubt)
    bar = np.stack([one.risk for one in found], axis=1)
    bar[:, 1:] += doubt
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    errors = np.zeros((rows, _SIMULATIONS, len(found)))
    errors[:, :, 1:] = _normals(len(found) - 1) @ root.transpose(0, 2, 1)
    taken = np.argmin(bar[:, None, :] + errors, axis=2)
    own = np.take_along_axis(errors, taken[:, :, None], axis=2)[:, :, 0]
    return np.argmin(bar, axis=1), np.maximum(-own.mean(axis=1), 0.0)


def _covariances(found: list[Scored], noise: Noise) -> Floats:
    """Return, for each row, the covariance of the estimated errors' differences from the first.

    A difference is off by -2·mean Z·(f - f'), as if f and f' did not depend on Z, and by the draw of probes.
    """
    first = found[0]
    rows, cells = first.levels.shape[0], first.levels[0].size
    apart = np.stack([(one.levels - first.levels).reshape(rows, -1) for one in found[1:]], axis=1)
    moves = np.stack([one.moves - first.moves for one in found[1:]], axis=1)
    moves -= moves.mean(axis=2, keepdims=True)
    total = noise.variance * (apart @ apart.transpose(0, 2, 1)) / cells**2
    total += (moves @ moves.transpose(0, 2, 1)) / moves.shape[2] ** 2
    for k, one in enumerate(found[1:]):
        total[:, k, k] += one.variance
    return np.asarray(4 * (total + first.variance[:, None, None]))


@lru_cache(maxsize=8)
def _normals(count: int) -> Floats:
    return generator(_SEED).standard_normal((_SIMULATIONS, count))
