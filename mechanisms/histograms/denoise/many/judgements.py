"""The estimated errors of many tables of one shape, and what is taken of each: ``estimated_error``, by rows.

A row is a table, or several that are judged together; nothing is added up across rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.histograms.denoise.estimate_forms import FormName
from tabularium.mechanisms.histograms.denoise.estimated_error import SEED, SIMULATIONS, SPREAD, Sign
from tabularium.mechanisms.histograms.denoise.noise_correlation import ramp_covariance
from tabularium.mechanisms.histograms.nonnegative_levels import common_reduction
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import Noise

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Rows:
    """Noisy tables, and the probes of each row.

    Attributes
    ----------
    tables
        Shape (rows, tables, cells).
    which, weights
        Shape (rows, probes): the table of each probe, and its weight.
    """

    tables: Floats
    which: Integers
    weights: Floats
    noise: Noise


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way to denoise all rows; shapes as in ``Rows``.

    Attributes
    ----------
    levels
        Shape (rows, tables, cells).
    moved
        Shape (2, rows, probes): of the probed cells, had they been measured higher, and lower; None where
        ``covariance`` is known, in the shape of the levels, with the variance (rows,) of its mean.
    """

    form: FormName
    strength: float
    levels: Floats
    moved: Floats | None
    covariance: Floats
    variance: Floats


@dataclass(frozen=True, eq=False)
class JudgedRows:
    """One way with its estimated errors, (rows,); see ``estimated_error.Judged``."""

    form: FormName
    strength: float
    levels: Floats
    cut: NDArray[np.bool_]
    risk: Floats
    standard_error: Floats
    moves: Floats
    variance: Floats


def judge_rows(one: Candidate, rows: Rows, wanted: Sign | str) -> JudgedRows:
    """Estimate the errors of one candidate, negative levels treated as ``wanted`` says, row by row."""
    sign = "total" if wanted == "auto" and one.form == "wavelet" else wanted
    if sign != "auto":
        return _judged(one, rows, sign)
    kept, cut = _judged(one, rows, "total"), _judged(one, rows, "cut")
    doubt = np.sqrt(np.maximum(covariances([kept, cut], rows.noise)[:, 0, 0], 0.0))
    better = cut.risk < kept.risk - 2 * doubt

    def either(one: Floats, other: Floats) -> Floats:
        return np.where(better.reshape(-1, *(1,) * (one.ndim - 1)), one, other)

    return JudgedRows(
        one.form,
        one.strength,
        either(cut.levels, kept.levels),
        better,
        either(cut.risk, kept.risk),
        either(cut.standard_error, kept.standard_error),
        either(cut.moves, kept.moves),
        one.variance,
    )


def _judged(one: Candidate, rows: Rows, sign: str) -> JudgedRows:
    shape, noise = rows.tables.shape, rows.noise
    reduction = np.zeros(shape[:2])
    if sign == "total":
        reduction = common_reduction(one.levels.reshape(-1, shape[2])).reshape(shape[:2])
    levels = one.levels
    if sign != "free":
        levels = np.maximum(levels - reduction[:, :, None], 0.0)
    moves = _moves(one, rows, reduction, sign)
    rest = ((rows.tables - levels) ** 2).reshape(shape[0], -1)
    mean, cells = moves.mean(axis=1), rest.shape[1]
    followed = np.clip(mean / noise.variance, 0.0, 1.0)
    least = SPREAD[noise.family] * noise.variance**2 * (1 - followed)
    doubt = np.maximum(rest.var(axis=1), least) / cells
    doubt += 4 * (moves.var(axis=1) / moves.shape[1] + one.variance)
    return JudgedRows(
        one.form,
        one.strength,
        levels,
        cut=np.full(shape[0], sign == "cut"),
        risk=rest.mean(axis=1) - noise.variance + 2 * mean,
        standard_error=np.sqrt(doubt),
        moves=moves,
        variance=one.variance,
    )


def _moves(one: Candidate, rows: Rows, reduction: Floats, sign: str) -> Floats:
    """Return unbiased estimates of the mean of Z·f in each row, (rows, probes)."""
    number = rows.tables.shape[0]
    if one.moved is None:
        follows = one.covariance
        if one.form == "none" and sign != "free":
            follows = ramp_covariance(rows.tables - reduction[:, :, None], rows.noise)
        mean = follows.reshape(number, -1).mean(axis=1)
        return np.repeat(mean[:, None], rows.weights.shape[1], axis=1)
    higher, lower = one.moved
    if sign != "free":
        less = np.take_along_axis(reduction, rows.which, axis=1)
        higher, lower = np.maximum(higher - less, 0.0), np.maximum(lower - less, 0.0)
    return np.asarray(rows.weights * (higher - lower) / rows.tables[0].size)


def covariances(found: list[JudgedRows], noise: Noise) -> Floats:
    """Return, for each row, the covariance of the estimated errors' differences from the first."""
    first = found[0]
    number, cells = first.levels.shape[0], first.levels[0].size
    apart = np.stack([(one.levels - first.levels).reshape(number, -1) for one in found[1:]], axis=1)
    moves = np.stack([one.moves - first.moves for one in found[1:]], axis=1)
    moves -= moves.mean(axis=2, keepdims=True)
    total = noise.variance * (apart @ apart.transpose(0, 2, 1)) / cells**2
    total += (moves @ moves.transpose(0, 2, 1)) / moves.shape[2] ** 2
    for k, one in enumerate(found[1:]):
        total[:, k, k] += one.variance
    return np.asarray(4 * (total + first.variance[:, None, None]))


def best_of_rows(found: list[JudgedRows], noise: Noise) -> tuple[Integers, Floats]:
    """Return which is taken in each row, and the optimism of taking it; see ``estimated_error.best_of``."""
    number = found[0].risk.size
    if len(found) == 1:
        return np.zeros(number, dtype=np.int64), np.zeros(number)
    covariance = covariances(found, noise)
    doubt = np.sqrt(np.maximum(np.diagonal(covariance, axis1=1, axis2=2), 0.0))
    doubt = np.where([one.form == found[0].form for one in found[1:]], 0.0, doubt)
    bar = np.stack([one.risk for one in found], axis=1)
    bar[:, 1:] += doubt
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    errors = np.zeros((number, SIMULATIONS, len(found)))
    errors[:, :, 1:] = _normals(len(found) - 1) @ root.transpose(0, 2, 1)
    taken = np.argmin(bar[:, None, :] + errors, axis=2)
    own = np.take_along_axis(errors, taken[:, :, None], axis=2)[:, :, 0]
    return np.argmin(bar, axis=1), np.maximum(-own.mean(axis=1), 0.0)


@lru_cache(maxsize=8)
def _normals(count: int) -> Floats:
    return generator(SEED).standard_normal((SIMULATIONS, count))
