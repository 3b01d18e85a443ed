"""The mixture over partitions for many tables of one shape, each under a tree prior of its own.

What ``cycle_spinning`` and ``tree_prior`` do for one table, in one loop over tables: their small arrays
stay near the processor, and threads can share the tables out. Sums over a prior's points are taken in another
order than NumPy's, so that results agree to about twelve digits and not bit by bit.
"""

from __future__ import annotations

from math import log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.histograms.denoise.dyadic_boxes import Boxes, spread
from tabularium.mechanisms.histograms.denoise.many.lines import add_line_levels
from tabularium.mechanisms.histograms.denoise.partition_mixture import Prior, ascend, descend, levels_if
from tabularium.mechanisms.kernels.compiled import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Beliefs(NamedTuple):
    """Tree priors of many tables, as ``tree_prior.TreePrior`` has that of one.

    Attributes
    ----------
    flat, axes, gaps
        Shapes (tables, classes), (tables, classes, d), (tables, classes, kinds); one row if all are alike.
    start, weights, anchor
        What learning begins with: the probability that a box is flat, the weights (kinds,) of the gaps, and
        as many boxes as they count for.
    """

    flat: Floats
    axes: Floats
    gaps: Floats
    start: float
    weights: Floats
    anchor: float


class Gaps(NamedTuple):
    """What is known of gaps under each distribution, and how finely.

    Attributes
    ----------
    density, mean
        Shape (rows, kinds, points): of t, and E[u | t]; the last row stands for all larger boxes.
    alone
        Shape (rows, points): log density of noise.
    fine
        Points per unit of t.
    unit
        Points per unit of t, by the standard deviation of the noise of one cell.
    """

    density: Floats
    mean: Floats
    alone: Floats
    fine: float
    unit: float


class Changes(NamedTuple):
    """Single cells to be changed, those of one table after those of another.

    Attributes
    ----------
    first
        Shape (tables + 1,): where the changes of a table begin.
    places
        Shape (changes, 1 + d).
    steps
        Shape (changes,).
    """

    first: Integers
    places: Integers
    steps: Floats


@compiled
def _prior(flat: Floats, axes: Floats, weights: Floats, gaps: Gaps) -> Prior:
    """Return a prior in the form that the passes need."""
    classes, d = axes.shape
    points = gaps.alone.shape[1]
    ratio, kept = np.zeros((classes, points)), np.zeros((classes, points))
    go = np.zeros((classes, 1 << d, d))
    stop, slope = np.zeros(classes), np.zeros(classes)
    for c in range(classes):
        row = min(c, gaps.alone.shape[0] - 1)
        stop[c] = log(flat[c])
        most = 0.0
        for p in range(points):
            total, true = 0.0, 0.0
            for k in range(weights.shape[1]):
                share = weights[c, k] * gaps.density[row, k, p]
                total += share
                true += share * gaps.mean[row, k, p]
            ratio[c, p] = log(total) - gaps.alone[row, p]
            most = max(most, min(true / total, p / gaps.fine))
            kept[c, p] = most * gaps.fine
        slope[c] = ratio[c, points - 1] - ratio[c, points - 2]
        for free in range(1, 1 << d):
            rivals = 0.0
            for a in range(d):
                if free >> a & 1:
                    rivals += axes[c, a]
            for a in range(d):
                if free >> a & 1 and axes[c, a] > 0:
                    go[c, free, a] = log(1 - flat[c]) + log(axes[c, a] / rivals)
    return Prior(stop, go, ratio, kept, slope, gaps.unit)


@compiled
def _learned(
    old: Floats, weights: Floats, turns: Floats, seen: Floats, known: Beliefs, gaps: Gaps
) -> tuple[Floats, Floats, Floats]:
    """Return flat, axes and gaps after one pass, from those of axes and gaps before and what was counted."""
    classes, d = old.shape
    flat, axes, fresh = np.zeros(classes), np.zeros((classes, d)), np.zeros(weights.shape)
    for c in range(classes):
        row = min(c, gaps.alone.shape[0] - 1)
        halved, left = 0.0, 0.0
        exposure = np.full(d, known.anchor)
        for free in range(1 << d):
            own, rivals = 0.0, 0.0
            for a in range(d):
                own += turns[c, free, a]
                if free >> a & 1:
                    rivals += old[c, a]
            halved += own
            left += turns[c, free, d]
            for a in range(d):
                if free >> a & 1 and rivals > 0:
                    exposure[a] += own / rivals
        flat[c] = (left + known.anchor * known.start) / (halved + left + known.anchor)
        whole = 0.0
        for a in range(d):
            own = known.anchor / d
            for free in range(1 << d):
                own += turns[c, free, a]
            axes[c, a] = own / exposure[a]
            whole += axes[c, a]
        for a in range(d):
            axes[c, a] /= whole
        _weigh_gaps(weights[c], seen[c], gaps.density[row], halved, known, fresh[c])
    return flat, axes, fresh


@compiled
def _weigh_gaps(
    weights: Floats, seen: Floats, density: Floats, halved: float, known: Beliefs, fresh: Floats
) -> None:
    """Fill in the weights of the gaps' distributions that fit what was seen of one class of boxes."""
    for p in range(seen.size):
        if seen[p] > 0:
            total = 0.0
            for k in range(weights.size):
                total += weights[k] * density[k, p]
            for k in range(weights.size):
                fresh[k] += weights[k] * density[k, p] / total * seen[p]
    whole = 0.0
    for k in range(weights.size):
        fresh[k] = (fresh[k] + known.anchor * known.weights[k]) / (halved + known.anchor)
        whole += fresh[k]
    for k in range(weights.size):
        fresh[k] /= whole


@compiled
def _pass(boxes: Boxes, means: Floats, prior: Prior, turns: Floats, seen: Floats) -> None:
    """Count what one table shows under a prior."""
    turns[:] = 0.0
    seen[:] = 0.0
    _, shares = ascend(boxes, means, prior)
    descend(boxes, means, shares, prior, turns, seen)


@compiled
def learn_each(
    boxes: Boxes, means: Floats, known: Beliefs, gaps: Gaps, passes: int
) -> tuple[Floats, Floats, Floats]:
    """Return flat, axes and gaps of every table after so many passes over its boxes.

    Parameters
    ----------
    boxes
        Of one table.
    means
        Shape (tables, boxes).
    known
        One row, to begin with.
    """
    tables, classes, d = means.shape[0], known.axes.shape[1], known.axes.shape[2]
    flat, axes = np.zeros((tables, classes)), np.zeros((tables, classes, d))
    weights = np.zeros((tables, classes, known.gaps.shape[2]))
    turns, seen = np.zeros((classes, 1 << d, d + 1)), np.zeros((classes, gaps.alone.shape[1]))
    for table in range(tables):
        own = known.flat[0], known.axes[0], known.gaps[0]
        for _ in range(passes):
            _pass(boxes, means[table], _prior(own[0], own[1], own[2], gaps), turns, seen)
            own = _learned(own[1], own[2], turns, seen, known, gaps)
        flat[table], axes[table], weights[table] = own
    return flat, axes, weights


@compiled
def add_mixtures(
    boxes: Boxes,
    means: Floats,
    known: Beliefs,
    gaps: Gaps,
    changes: Changes,
    levels: Floats,
    moved: Floats,
) -> None:
    """Add to ``levels`` those of every table on one place of the grid, its prior learned there once more.

    Parameters
    ----------
    boxes
        Of one table.
    means, levels
        Shape (tables, boxes); of levels, those of single cells count.
    moved
        Shape (2, changes): the level of every cell to be changed, had it been measured higher, and lower, is
        added to it.
    """
    classes, d = known.axes.shape[1], known.axes.shape[2]
    turns, seen = np.zeros((classes, 1 << d, d + 1)), np.zeros((classes, gaps.alone.shape[1]))
    before = _prior(known.flat[0], known.axes[0], known.gaps[0], gaps)
    for table in range(means.shape[0]):
        own = min(table, known.flat.shape[0] - 1)
        if own > 0:
            before = _prior(known.flat[own], known.axes[own], known.gaps[own], gaps)
        _pass(boxes, means[table], before, turns, seen)
        found = _learned(known.axes[own], known.gaps[own], turns, seen, known, gaps)
        prior = _prior(found[0], found[1], found[2], gaps)
        evidence, shares = ascend(boxes, means[table], prior)
        level = descend(boxes, means[table], shares, prior, turns, seen)
        spread(boxes, level)
        for box in range(level.size):
            levels[table, box] += level[box]
        own_changes = slice(changes.first[table], changes.first[table + 1])
        cells, steps = changes.places[own_changes], changes.steps[own_changes]
        higher, lower = moved[0, own_changes], moved[1, own_changes]
        if d == 1:
            add_line_levels(boxes, means[table], evidence, prior, cells, steps, higher, lower)
            continue
        up = levels_if(boxes, means[table], evidence, prior, cells, steps)
        down = levels_if(boxes, means[table], evidence, prior, cells, -steps)
        for k in range(steps.size):
            higher[k] += up[k]
            lower[k] += down[k]
