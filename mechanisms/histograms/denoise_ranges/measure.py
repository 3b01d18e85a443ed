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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import log2
from typing import Any

import numpy as np

from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.histograms.denoise_ranges.tree import SplitTree, levels_of, smoothed, split_axes
from tabularium.mechanisms.histograms.noisy_sums import addable, variance_for
from tabularium.mechanisms.inference.hierarchy import Hierarchy
from tabularium.mechanisms.linear_measurements.linear_measurement import LinearMeasurement
from tabularium.mechanisms.linear_measurements.noisy_tree import NoisyTree
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts
from tabularium.mechanisms.noise.synthetic import generator
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


# Levels of the tree that are measured, and their shares of the budget.
#
# All this sees is public: the shape of the table, the budget, the longest range asked for, and the noisy
# total, which was paid for. It looks for the shares that leave random ranges the least error, and single
# cells a little of it, in a model of unseen counts: the total is spread over the boxes of a level by a
# lognormal factor (``_SPREAD`` for each halving); a box of S records divides into S/2 give or take t =
# ``_UNEVEN``·S; smoothing leaves v·t²/(v + t²) of noise of variance v on it. By how much a random range
# would be wrong, if the division of a box were, is summed up for all boxes of a level at once: box and
# range are products of intervals.


TOTAL_SHARE = Fraction(1, 25)
"""The part of the budget that measures the total, from which all else is planned."""

PARTS = 1000
"""Shares are whole numbers of such parts."""

_UNEVEN = 0.5
_SPREAD = 0.8
_CELLS = 0.15
_RANGES = 1000
_STEPS = 4
_LEAST = 0.01
_POINTS, _WEIGHTS = np.polynomial.hermite_e.hermegauss(7)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_BETTER = 1e-5


def planned_shares(
    shape: tuple[int, ...],
    apart: tuple[int, ...],
    longest: int | None,
    signal: float,
    definition: Definition,
) -> tuple[int, ...]:
    """Return the shares of the levels, from the cells up, in thousandths that add up to 1000.

    Parameters
    ----------
    shape, apart
        Of the table, and its axes without order.
    longest
        The longest side of a range; None for any.
    signal
        The mean count of a cell, in units of 1/ε or 1/√ρ; taken to the nearest quarter of a doubling.
    """
    return _planned(shape, apart, longest, round(_STEPS * log2(signal)), definition)


@lru_cache(maxsize=256)
def _planned(
    shape: tuple[int, ...],
    apart: tuple[int, ...],
    longest: int | None,
    steps: int,
    definition: Definition,
) -> tuple[int, ...]:
    signal = 2.0 ** (steps / _STEPS)
    levels = len(split_axes(shape, apart)) + 1
    by_level, by_cell = _exposure(shape, apart, longest), 4 * 0.25 ** np.arange(levels)
    by_cell[0] = 0.25 ** (levels - 1)

    def objective(shares: Floats) -> float:
        risks = _risks(shares / shares.sum(), signal, definition)
        return float(np.log(risks @ by_level) + _CELLS * np.log(risks @ by_cell))

    best = min(_starts(levels), key=objective)
    return _in_parts(_improved(best, objective))


def _starts(levels: int) -> list[Floats]:
    """Return shares to begin with: every second to fifth level, larger boxes with less, as much or more."""
    result = []
    for step in (2, 3, 4, 5):
        for growth in (0.5, 1.0, 1.6):
            shares = np.zeros(levels)
            shares[::step] = growth ** np.arange(len(shares[::step]))
            result.append(shares / shares.sum())
    return result


def _improved(shares: Floats, objective: Callable[[Floats], float]) -> Floats:
    """Return shares that no small move makes better: more, less or nothing for a level, or its neighbour."""
    least = objective(shares)
    for step in (2.0, 1.3):
        while True:
            moved = False
            for level in range(shares.size):
                for other in _moves(shares, level, step):
                    if other.sum() <= 0:
                        continue
                    value = objective(other)
                    if value < least - _BETTER:
                        shares, least, moved = other / other.sum(), value, True
            if not moved:
                break
    return shares


def _moves(shares: Floats, level: int, step: float) -> list[Floats]:
    result = []
    own = shares[level]
    for value in (own * step, own / step, 0.0) if own > 0 else (0.05, 0.15):
        other = shares.copy()
        other[level] = value
        result.append(other)
    for neighbour in (level - 1, level + 1):
        if own > 0 and 0 <= neighbour < shares.size:
            other = shares.copy()
            other[neighbour] += own
            other[level] = 0
            result.append(other)
    return result


def _in_parts(shares: Floats) -> tuple[int, ...]:
    shares = np.where(shares < _LEAST, 0, shares)
    ends = np.rint(np.cumsum(shares) / shares.sum() * PARTS).astype(int)
    return tuple(int(after - before) for before, after in pairwise([0, *ends.tolist()]))


def _risks(shares: Floats, signal: float, definition: Definition) -> Floats:
    """Return what smoothing leaves of the noise on the division of a box of each level; first, on the total.

    In units of 1/ε² or 1/ρ. Sums over boxes that lie k levels below add up 2^k noises.
    """
    precision = shares**2 / 2 if definition == "pure" else 2 * shares
    height = shares.size - 1
    risks = np.empty(shares.size)
    known = 0.0
    for level in range(1, shares.size):
        known = (known + precision[level - 1]) / 2
        spread = _SPREAD * np.sqrt(height - level)
        count = signal * 2.0**level * np.exp(spread * _POINTS - spread**2 / 2)
        signals = (_UNEVEN * count) ** 2
        risks[level] = _WEIGHTS @ (signals / (1 + signals * known * 4))
    risks[0] = 1 / max(known + precision[height], 1e-12)
    return risks


@lru_cache(maxsize=64)
def _exposure(shape: tuple[int, ...], apart: tuple[int, ...], longest: int | None) -> Floats:
    """Return the mean square of what the error of a box's division does to a random range, by level.

    Along each axis a range is random, no side longer than ``longest``; along an axis without order it is a
    single place. First that of the total.
    """
    split = split_axes(shape, apart)
    most = [1 if axis in apart else longest for axis in range(len(shape))]
    ends = [_random_range(axis, side, most[axis]) for axis, side in enumerate(shape)]
    inside = [np.zeros(_RANGES) for _ in shape]  # Σ over intervals of the squared share that is covered
    across = [np.zeros(_RANGES) for _ in shape]
    halvings = [0] * len(shape)
    for axis, (start, stop) in enumerate(ends):
        inside[axis], _ = _covered(start, stop, 0)
    result = np.empty(len(split) + 1)
    for level, axis in enumerate(split, start=1):
        halvings[axis] += 1
        inside[axis], across[axis] = _covered(*ends[axis], halvings[axis])
        rest = [inside[other] for other in range(len(shape)) if other != axis]
        result[level] = np.prod([across[axis], *rest], axis=0).mean()
    result[0] = np.prod(inside, axis=0).mean()
    return result


def _random_range(axis: int, side: int, longest: int | None) -> tuple[Integers, Integers]:
    rng = generator(axis + 1)
    if longest is None:
        ends = np.sort(rng.integers(0, side, (2, _RANGES)), axis=0)
        return ends[0].astype(np.int64), ends[1].astype(np.int64) + 1
    most = min(longest, side)
    length = rng.integers(min(2, most), most + 1, _RANGES)
    start = (rng.random(_RANGES) * (side - length + 1)).astype(np.int64)
    return start, start + length


def _covered(start: Integers, stop: Integers, halvings: int) -> tuple[Floats, Floats]:
    """Over intervals of 2^halvings cells, Σ(share covered)² and Σ(first half's less the second's)²."""
    size = 1 << halvings
    first, into = np.divmod(start, size)
    last, end = np.divmod(stop, size)
    same = first == last
    head, tail = 1 - into / size, end / size
    squares = np.where(same, (tail - into / size) ** 2, head**2 + tail**2 + (last - first - 1))
    tent_in, tent_out = 1 - np.abs(2 * into / size - 1), 1 - np.abs(2 * end / size - 1)
    contrasts = np.where(same, (tent_in - tent_out) ** 2, tent_in**2 + tent_out**2)
    return np.asarray(squares, dtype=np.float64), np.asarray(contrasts, dtype=np.float64)
