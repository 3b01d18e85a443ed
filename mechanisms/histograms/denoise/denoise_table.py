"""Denoise a table that was measured cell by cell.

All this sees is noisy cells and the distribution of their noise.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.histograms.denoise.dyadic_boxes import Layout
from tabularium.mechanisms.histograms.denoise.empties import may_be_empty, mostly_empty
from tabularium.mechanisms.histograms.denoise.estimate_forms import (
    CLOSED,
    STRENGTHS,
    FormName,
    Judged,
    Sign,
    Task,
    best_of,
    errors_by_level,
    estimates,
    judged,
)
from tabularium.mechanisms.histograms.denoise.probes import Probes
from tabularium.mechanisms.noise_distributions import Noise

_SMALL = 1 << 17  # boxes: up to here wavelets are tried too
_SAMPLE = 1 << 18  # boxes: above, what is to be tried is tried on so many of them
_SPINS = 3 << 22
_MOST_SHIFTS = 16
_TRIAL_SHIFTS = 4
_MANY = 768  # cells: from here on errors are told apart by level, as by ``margins_of_error.error_classes``
_NO_NOISE = 1e-6  # variance: hardly a cell in a million is off
CHOOSING = ("auto", "sparse")
"""Forms that are chosen by what the noisy table shows."""
_FOR_SMALL: tuple[FormName, ...] = ("mixture", "wavelet", "none")
_FOR_LARGE: tuple[FormName, ...] = ("mixture", "none")


@dataclass(frozen=True)
class Wishes:
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
    sign: Sign | Literal["auto"] = "auto"

    def candidates(self, boxes: int) -> dict[FormName, tuple[float, ...]]:
        """Return what is to be tried on a table of so many boxes: forms and their strengths."""
        if self.form not in CHOOSING:
            form = cast(FormName, self.form)
            return {form: STRENGTHS[form] if self.strength is None else (self.strength,)}
        return {form: STRENGTHS[form] for form in (_FOR_SMALL if boxes <= _SMALL else _FOR_LARGE)}


@dataclass(frozen=True, eq=False)
class Denoised:
    """A denoised table.

    Attributes
    ----------
    values
        float64, in the shape of the noisy table.
    diagnostics
        JSON-able: what was chosen, and the estimated errors.
    """

    values: Floats
    diagnostics: dict[str, Any]


def denoise_table(table: NDArray[np.int64], noise: Noise, layout: Layout, wishes: Wishes) -> Denoised:
    """Return the table without most of its noise.

    What is to be tried on a large table is tried on tiles from all over it first, and only the best of it on
    the whole.

    Parameters
    ----------
    table
        Noisy whole numbers, in the shape of the layout.
    noise
        Its distribution in every cell.
    """
    if is_none(noise):
        known = {"scale": noise.scale, "form": "none", "noise_variance": noise.variance}
        known |= {"risk": noise.variance, "risk_standard_error": 0.0}
        return Denoised(np.asarray(table, dtype=np.float64), known)
    task = _task(layout.stack(table), layout, noise, wishes.shifts)
    tried = wishes.candidates(layout.boxes)
    optimism, shortlist = 0.0, []
    found = _if_sparse(task, wishes)
    if not found and task.sample is not task.tables and sum(map(len, tried.values())) > 1:
        shortlist = _judge_all(_trial(task), tried, wishes)
        first, optimism = best_of(shortlist, noise)
        tried = {first.form: (first.strength,)}
    found = found or _judge_all(task, tried, wishes)
    best, more = best_of(found, noise)
    apart = {}
    if best.form not in CLOSED and best.levels.size >= _MANY:
        apart["risk_by_level"] = errors_by_level(best, task.tables, noise, task.probes)
    return Denoised(
        layout.unstack(best.levels),
        {
            "scale": noise.scale,
            "form": best.form,
            "strength": best.strength,
            "sign": best.sign,
            "shifts": task.shifts,
            "risk": best.risk + optimism,
            "risk_standard_error": best.standard_error,
            "risk_optimism": optimism + more,
            "noise_variance": noise.variance,
            "candidates": [_summary(one) for one in shortlist or found],
            **apart,
        },
    )


def is_none(noise: Noise) -> bool:
    """Return whether there is next to no noise to remove."""
    return noise.variance < _NO_NOISE


def _task(tables: Floats, layout: Layout, noise: Noise, shifts: int | None) -> Task:
    shifts = shifts_for(layout, shifts)
    sample, sample_layout = layout.sample(tables, _SAMPLE)
    probes = Probes.of(tables, layout, noise, shifts)
    return Task(tables, layout, sample, sample_layout, layout, noise, shifts, probes, {}, {})


def shifts_for(layout: Layout, wanted: int | None) -> int:
    """Return over how many places of the grid is averaged: as many as are wanted, or the size allows."""
    shifts = wanted or min(_MOST_SHIFTS, max(2, _SPINS // layout.boxes))
    return min(shifts, prod(layout.spans))


def _trial(task: Task, *, probed: bool = True) -> Task:
    """Return the task for the sample only."""
    shifts = min(task.shifts, _TRIAL_SHIFTS)
    probes = Probes.none(len(task.layout.sides))
    if probed:
        probes = Probes.of(task.sample, task.sample_layout, task.noise, shifts)
    return replace(task, tables=task.sample, layout=task.sample_layout, shifts=shifts, probes=probes)


def _if_sparse(task: Task, wishes: Wishes) -> list[Judged]:
    """Return the sparse form, judged, of a table that bears it out; of others nothing.

    It is tried on the sample first, and checked on the whole.
    """
    if wishes.form != "sparse":
        return []
    if not may_be_empty(task.sample, task.sample_layout):
        return []
    trial = _trial(task, probed=False)
    (first,) = estimates(trial, "sparse", STRENGTHS["sparse"])
    if not mostly_empty(trial.tables, first.levels, task.noise):
        return []
    (found,) = _judge_all(task, {"sparse": STRENGTHS["sparse"]}, wishes)
    return [found] if mostly_empty(task.tables, found.levels, task.noise) else []


def _judge_all(task: Task, tried: dict[FormName, tuple[float, ...]], wishes: Wishes) -> list[Judged]:
    return [
        judged(estimate, task.tables, task.noise, task.probes, wishes.sign)
        for form, strengths in tried.items()
        for estimate in estimates(task, form, strengths)
    ]


def _summary(one: Judged) -> dict[str, Any]:
    return {"form": one.form, "strength": one.strength, "sign": one.sign, "risk": one.risk}
