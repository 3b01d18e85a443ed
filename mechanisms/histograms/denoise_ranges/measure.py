"""Denoise for sums over ranges: noisy sums of a tree of boxes, smoothed on the tree.

What is drawn, one after the other, and what one record changes in it:

1. The total of the table, with 1/25 of the budget. One record changes it by 1.
2. From the noisy total and what is public, shares of the rest for the levels of the tree (``plan``).
   Of each level with a share the sums of all its boxes, with that share. The boxes of a level do not overlap
   and hold every cell, so one record changes one sum of a level, by 1.

Why it is private: every draw is discrete Laplace noise of scale 1/εᵢ on numbers with L1 sensitivity 1
(discrete Gaussian noise, σ² = 1/2ρᵢ), so it loses εᵢ (ρᵢ). Which levels are drawn, and with what shares,
follows from what has been drawn before. Losses add up, adaptively, to the whole budget. All else sees noisy
sums only: what they say together, smoothing (``tree``), and the table.

Cost: O(n log n) time for n cells, sixteen or twenty-four rounds of learning; O(n) memory for each axis.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.histograms.denoise_ranges.plan import PARTS, TOTAL_SHARE, planned_shares
from tabularium.mechanisms.histograms.denoise_ranges.tree import SplitTree, levels_of, smoothed
from tabularium.mechanisms.histograms.noisy_sums import addable, variance_for
from tabularium.mechanisms.inference.hierarchy import Hierarchy
from tabularium.mechanisms.linear_measurements.linear_measurement import LinearMeasurement
from tabularium.mechanisms.linear_measurements.noisy_tree import NoisyTree
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts
from tabularium.mechanisms.noise_distributions import noise_in, variance_of

_NO_NOISE = 1e-9


@dataclass(frozen=True, eq=False)
class NoisySums:
    """What was measured: the total, and the sums of some levels, each with the variance of its noise.

    ``levels``: Level -> its noisy sums in the order of the tree, and their variance.
    """

    tree: SplitTree
    total: float
    total_variance: float
    levels: Mapping[int, tuple[Floats, float]]


def draw_sums(
    counts: Counts, channel: Channel, apart: tuple[int, ...], longest: int | None
) -> tuple[dict[str, Array], dict[str, Any]]:
    """Measure the total, then the levels that it speaks for, with all of the budget."""
    counts = addable(counts)
    first = channel.remaining * TOTAL_SHARE
    total = channel.add_noise(counts.sum(keepdims=True).reshape(1), first, purpose="total")
    rest = channel.remaining
    # A total that is not above its noise says no more than that there are not more records.
    records = max(float(total[0]), variance_for(first, channel.definition) ** 0.5, _NO_NOISE)
    unit = float(rest) if channel.definition == "pure" else float(rest) ** 0.5
    shares = planned_shares(counts.shape, apart, longest, records / counts.size * unit, channel.definition)
    tree = SplitTree.of(counts.shape, apart)
    arrays = {"total": total}
    chosen = [level for level, share in enumerate(shares) if share]
    for level in chosen:
        loss = channel.remaining if level == chosen[-1] else rest * Fraction(shares[level], PARTS)
        if level == 0:
            arrays["cells"] = channel.add_noise(counts, loss, purpose="cells")
        else:
            purpose = f"sums of level {level}"
            arrays[f"level_{level}"] = channel.add_noise(tree.sums(counts, level), loss, purpose=purpose)
    return arrays, {"shape": list(counts.shape), "levels": chosen}


def noisy_sums(measured: Measured, apart: tuple[int, ...]) -> NoisySums:
    """Return what was measured, in the order of the tree."""
    tree = SplitTree.of(tuple(measured.meta["shape"]), apart)
    total, *events = measured.transcript
    levels = {}
    for level, event in zip(measured.meta["levels"], events, strict=True):
        drawn = measured.arrays[f"level_{level}" if level else "cells"]
        sums = tree.sums(drawn, 0) if level == 0 else drawn
        levels[level] = (sums.astype(np.float64), max(variance_of(event), _NO_NOISE))
    known = max(variance_of(total), _NO_NOISE)
    return NoisySums(tree, float(measured.arrays["total"][0]), known, levels)


def noisy_tree(measured: Measured, apart: tuple[int, ...]) -> LinearMeasurement:
    """Return the noisy sums of all levels as one tree, whose leaves are the boxes of the lowest one.

    The total, from which the levels were chosen, is left out: given it, all other noise is what it was.
    """
    tree, levels = SplitTree.of(tuple(measured.meta["shape"]), apart), measured.meta["levels"]
    down = levels[::-1]
    firsts = np.cumsum([0, *(tree.starts[level].size for level in down)])
    parents = [np.full(tree.starts[down[0]].size, -1)]
    for place, level in enumerate(down[1:]):
        above = np.searchsorted(tree.starts[down[place]], tree.starts[level], side="right") - 1
        parents.append(above + firsts[place])
    values = [
        measured.arrays[f"level_{level}"] if level else tree.sums(measured.arrays["cells"], 0)
        for level in down
    ]
    leaf = np.empty(tree.order.size, np.intp)
    lowest = tree.sizes[down[-1]].astype(np.int64)
    leaf[tree.order] = np.repeat(firsts[-2] + np.arange(lowest.size), lowest)
    return NoisyTree(
        np.concatenate(values),
        tuple(noise_in(event) for event in measured.transcript[:0:-1]),
        tree=Hierarchy(np.concatenate(parents)),
        drawn=np.repeat(np.arange(len(down)), [item.size for item in values]),
        leaf=leaf,
    )


def finish_sums(measured: Measured, apart: tuple[int, ...]) -> Release:
    """Return the smoothed table, float64, in the shape of the counts."""
    sums = noisy_sums(measured, apart)
    tree, levels = sums.tree, levels_of(sums.tree, sums.levels)
    top = levels[-1]
    trust = top.variances[0] / (top.variances[0] + sums.total_variance)
    total = float(top.sums[0] + trust * (sums.total - top.sums[0]))
    lowest = min(sums.levels)
    boxes = smoothed(tree, lowest, levels, total)
    sizes = tree.sizes[lowest]
    cells = np.repeat(boxes / sizes, sizes.astype(np.int64))
    return measured.release(
        tree.table(cells),
        workload="ranges",
        levels=[
            {"level": level, "cells": int(tree.sizes[level].max()), "noise_variance": variance}
            for level, (_, variance) in sums.levels.items()
        ],
    )
