"""Denoise many small tables of one shape, each as if it were alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.histograms.denoise.cycle_spinning import passes_over
from tabularium.mechanisms.histograms.denoise.denoise_table import Wishes, denoise_table, is_none, shifts_for
from tabularium.mechanisms.histograms.denoise.dyadic_boxes import Layout, boxes_of, means_of
from tabularium.mechanisms.histograms.denoise.estimate_forms import (
    SEED,
    SIMULATIONS,
    SPREAD,
    FormName,
    Sign,
    shrunken,
)
from tabularium.mechanisms.histograms.denoise.many_mixtures import (
    Beliefs,
    Changes,
    Gaps,
    add_mixtures,
    learn_each,
)
from tabularium.mechanisms.histograms.denoise.probes import Probes, ramp_covariance
from tabularium.mechanisms.histograms.denoise.tree_prior import ANCHOR, DENSITY, TreePrior, gap_densities
from tabularium.mechanisms.inference.family_projection import common_reduction
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import Noise

_TOGETHER = 64  # tables: what is made of them stays in the processor's cache
_MOST_BOXES = 1 << 14  # of a table: what larger ones need besides the loops no longer counts
_HERE: tuple[FormName, ...] = ("mixture", "wavelet", "none")


@dataclass(frozen=True, eq=False)
class DenoisedTables:
    """Denoised tables.

    Attributes
    ----------
    values
        float64, in the shape of the noisy tables.
    diagnostics
        Of each table, as ``denoise_table`` has them, but for the candidates.
    """

    values: Floats
    diagnostics: list[dict[str, Any]]


def denoise_tables(tables: NDArray[np.int64], noise: Noise, layout: Layout, wishes: Wishes) -> DenoisedTables:
    """Return the tables without most of their noise, each as ``denoise_table`` would return it.

    Tables are shared out to threads in groups; what is made of a table does not depend on its group.

    Parameters
    ----------
    tables
        Noisy whole numbers, (tables, shape of the layout...).
    layout
        Of one of them.
    """
    groups = [tables[k : k + _TOGETHER] for k in range(0, len(tables), _TOGETHER)]
    make = _together if _small(layout, noise, wishes) else _one_by_one
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        made = list(pool.map(lambda group: make(group, noise, layout, wishes), groups))
    return DenoisedTables(
        np.concatenate([each.values for each in made]),
        [about for each in made for about in each.diagnostics],
    )


def _small(layout: Layout, noise: Noise, wishes: Wishes) -> bool:
    forms = set(wishes.candidates(layout.boxes))
    return bool(layout.sides) and layout.boxes <= _MOST_BOXES and forms <= set(_HERE) and not is_none(noise)


def _one_by_one(tables: NDArray[np.int64], noise: Noise, layout: Layout, wishes: Wishes) -> DenoisedTables:
    found = [denoise_table(table, noise, layout, wishes) for table in tables]
    return DenoisedTables(np.stack([one.values for one in found]), [one.diagnostics for one in found])


def _together(tables: NDArray[np.int64], noise: Noise, layout: Layout, wishes: Wishes) -> DenoisedTables:
    stacked = np.stack([layout.stack(table) for table in tables])
    shifts = shifts_for(layout, wishes.shifts)
    probes = [Probes.of(table, layout, noise, shifts) for table in stacked]
    rows = Rows(
        stacked.reshape(*stacked.shape[:2], -1),
        np.stack([probe.places[:, 0] for probe in probes]),
        np.stack([probe.weights for probe in probes]),
        noise,
    )
    found = [
        judge_rows(one, rows, wishes.sign)
        for form, strengths in wishes.candidates(layout.boxes).items()
        for one in _candidates(form, strengths, stacked, layout, noise, shifts, probes)
    ]
    taken, optimism = best_of_rows(found, noise)
    values, about = [], []
    for table, (k, more) in enumerate(zip(taken.tolist(), optimism.tolist(), strict=True)):
        best = found[k]
        sign = wishes.sign if wishes.sign != "auto" else "cut" if best.cut[table] else "total"
        values.append(layout.unstack(best.levels[table].reshape(stacked.shape[1:])))
        about.append(
            {
                "scale": noise.scale,
                "form": best.form,
                "strength": best.strength,
                "sign": sign,
                "shifts": shifts,
                "risk": float(best.risk[table]) + more,
                "risk_standard_error": float(best.standard_error[table]),
                "risk_optimism": more,
                "noise_variance": noise.variance,
            }
        )
    return DenoisedTables(np.stack(values), about)


def _candidates(
    form: FormName,
    strengths: Sequence[float],
    tables: Floats,
    layout: Layout,
    noise: Noise,
    shifts: int,
    probes: list[Probes],
) -> list[Candidate]:
    """Return what one form makes of tables (rows, tables, sides...), one for each strength."""
    number = len(tables)
    shape = (*tables.shape[:2], layout.cells)
    nothing = np.zeros(number)
    if form == "none":
        follows = np.full(shape, noise.variance)
        return [Candidate("none", 1.0, tables.reshape(shape), None, follows, nothing)]
    found = []
    changes = _changes(probes, tables.shape[1:]) if form == "mixture" else None
    for strength in strengths:
        if form == "wavelet":
            flat = tables.reshape(-1, *layout.sides)
            levels, covariance, variance = shrunken(flat, noise, layout.cells, strength, number)
            found.append(
                Candidate(form, strength, levels.reshape(shape), None, covariance.reshape(shape), variance)
            )
        elif changes is not None:
            levels, moved = _mixture(tables, layout, noise, shifts, changes, strength)
            found.append(Candidate(form, strength, levels.reshape(shape), moved, np.zeros(0), nothing))
    return found


def _mixture(
    tables: Floats,
    layout: Layout,
    noise: Noise,
    shifts: int,
    probed: tuple[Changes, NDArray[np.int64]],
    start: float,
) -> tuple[Floats, Floats]:
    """Return the mixture over partitions of every table, and of its probed cells moved up and down."""
    first = TreePrior.of(start, layout.classes, len(layout.sides))
    known = Beliefs(first.flat[None], first.axes[None], first.gaps[None], start, first.gaps[0].copy(), ANCHOR)
    gaps = Gaps(*gap_densities(noise.family), float(DENSITY), DENSITY / sqrt(noise.variance))
    number, together = tables.shape[:2]
    changes, which = probed
    flat = tables.reshape(-1, *layout.sides)
    levels, moved = np.zeros((number, tables[0].size)), np.zeros((2, changes.steps.size))
    cells = (slice(None), slice(None), *(slice(side) for side in layout.sides))
    passes = passes_over(tables[0], layout)
    for offsets in layout.offsets(shifts):
        boxes = boxes_of((together, *layout.sides), offsets)
        means = means_of(flat, boxes_of(flat.shape, offsets)).reshape(number, -1)
        if passes and not any(offsets):  # the first place of the grid, on which the prior is learned
            known = Beliefs(*learn_each(boxes, means, known, gaps, passes), *known[3:])
        added = np.zeros_like(means)
        add_mixtures(boxes, means, known, gaps, changes, added, moved)
        levels += added.reshape(number, *boxes.sides)[cells].reshape(number, -1)
    return levels / shifts, moved[:, which] / shifts


def _changes(probes: list[Probes], sides: tuple[int, ...]) -> tuple[Changes, NDArray[np.int64]]:
    """Return the different changes of the tables' probes, and which is that of each: (tables, probes)."""
    places, steps, which, first = [], [], [], [0]
    for probe in probes:
        cells = np.ravel_multi_index(tuple(probe.places.T), sides)
        sizes = probe.steps.astype(np.int64)
        _, one, own = np.unique(cells * (sizes.max() + 1) + sizes, return_index=True, return_inverse=True)
        places.append(probe.places[one])
        steps.append(probe.steps[one])
        which.append(first[-1] + own)
        first.append(first[-1] + one.size)
    return Changes(np.array(first), np.concatenate(places), np.concatenate(steps)), np.stack(which)


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
