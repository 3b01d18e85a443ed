"""The error of an estimate, estimated from the noisy table; and what to do with negative levels.

The mean squared error of an estimate f of a table Y = x + Z, Var Z = V, is estimated without bias by

    mean (Y - f)² - V + 2·mean Z·f,

the last term by the identity of ``risk`` on probed cells, where f is recomputed, structure and all, with the
cell moved up and down; for wavelets and the noisy table itself in closed form. The prior that was learned,
and the reduction that keeps the total, are held fixed: that leaves out terms of order V/n per parameter.

All of it row by row: one table is a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Literal

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats, Integers
from tabularium.mechanisms.histograms.denoise.forms import CLOSED, Estimate, FormName, Task
from tabularium.mechanisms.histograms.denoise.risk import ramp_covariance
from tabularium.mechanisms.inference.family_projection import common_reduction
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import Noise

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

    Cells are told apart at a quarter, one and four standard deviations of the noise. Of a form that needs no
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
