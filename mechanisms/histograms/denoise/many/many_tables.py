"""Denoise many small tables of one shape, each as if it were alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.histograms.denoise.denoise_table import Wishes, denoise_table, is_none, shifts_for
from tabularium.mechanisms.histograms.denoise.estimate_forms import FormName, shrunken
from tabularium.mechanisms.histograms.denoise.many.judgements import Candidate, Rows, best_of_rows, judge_rows
from tabularium.mechanisms.histograms.denoise.probes import Probes
from tabularium.mechanisms.histograms.denoise.tiles import Layout
from tabularium.mechanisms.noise_distributions import Noise

if TYPE_CHECKING:
    from tabularium.mechanisms.histograms.denoise.many.mixtures import Changes

Floats = NDArray[np.float64]

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
    from tabularium.mechanisms.histograms.denoise.cycle_spinning import passes_over
    from tabularium.mechanisms.histograms.denoise.dyadic_boxes import boxes_of, means_of
    from tabularium.mechanisms.histograms.denoise.many.mixtures import Beliefs, Gaps, add_mixtures, learn_each
    from tabularium.mechanisms.histograms.denoise.tree_prior import ANCHOR, DENSITY, TreePrior, gap_densities

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
    from tabularium.mechanisms.histograms.denoise.many.mixtures import Changes

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
