"""Noisy tables without most of their noise, one or many of one shape.

All this sees is noisy cells and the distribution of their noise.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.histograms.denoise.boxes import Layout
from tabularium.mechanisms.histograms.denoise.forms import (
    STRENGTHS,
    FormName,
    Task,
    estimates,
    may_be_empty,
    mostly_empty,
)
from tabularium.mechanisms.histograms.denoise.risk import Probes
from tabularium.mechanisms.histograms.denoise.scoring import Scored, Sign, best_of, errors_by_level, score
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
    """Return the best estimate of a row, its optimism mended: by ``more``, and by that of the trial."""
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
