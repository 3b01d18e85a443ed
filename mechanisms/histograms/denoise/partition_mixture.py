"""The average over all recursive dyadic partitions of a table, each weighted by how likely it is.

A tree prior says how a table comes about: a box is flat (one level for all its cells) with a probability that
depends on its size, otherwise it is halved along one of its axes, the means of the halves differ by a random
amount, and each half comes about in the same way. Given the noisy table, the probability of every halving
follows from the boxes' halves, in one pass over the boxes from small to large; in one pass back, how often
the random partition reaches each box, and hence the expected level of each cell. The number of partitions is
astronomic, the time is that of a few exponentials per box (context-tree weighting).

The gap between the means of two halves of m and m' cells is measured in its own standard deviations under
the noise alone, t = |gap|·√(m·m'/((m + m')·V)). What the prior and the noise say of t comes in tables
over t, one row per class of sizes (log2 of the cells of the box, rounded up): ``ratio``, the logarithm of how
much likelier t is when the halves differ than when they do not, and ``kept``, the expected true gap. Beyond
the table the ratio goes on along ``slope``, and more and more of the gap is kept.

Source: Willems, Shtarkov, Tjalkens 1995 (context-tree weighting); Wong, Ma 2010 (optional Pólya tree).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.histograms.denoise.dyadic_boxes import (
    Boxes,
    advance,
    around,
    beside,
    chain_room,
    follow,
    retreat,
)
from tabularium.mechanisms.kernels.compiled import compiled

Shares = NDArray[np.float32]

_NEVER = 1e-7  # halvings less likely than this are not followed
_POWERS = np.array([2.0**-k for k in range(64)])
_LN2 = 0.6931471805599453
_PER_LN2 = 1.4426950408889634


class Prior(NamedTuple):
    """What is believed of a table before it is seen, in the form the passes need.

    Attributes
    ----------
    stop
        Shape (classes,): logarithm of the probability that a box is flat.
    go
        Shape (classes, 2^d, d): logarithm of the probability that it is halved along an axis of a table of d
        axes, given the set of axes (a bit each) along which it has more than one cell.
    ratio, kept
        Shape (classes, points): see above; at t = 0, 1/32, 2/32, …; what is kept counts in points.
    slope
        Shape (classes,): growth of the ratio from point to point, beyond the last.
    unit
        Points per unit of t, by the standard deviation of the noise of one cell.
    """

    stop: Floats
    go: Floats
    ratio: Floats
    kept: Floats
    slope: Floats
    unit: float


@compiled
def likelier(ratio: Floats, slope: Floats, kind: int, place: float) -> float:
    """Return the logarithm of how much likelier a gap is if the halves differ; ``place`` is t in points."""
    last = ratio.shape[1] - 1
    if place >= last:
        far: float = ratio[kind, last] + slope[kind] * (place - last)
        return far
    i = int(place)
    low = ratio[kind, np.uint64(i)]  # unsigned: an index that is not tested for being negative
    between: float = low + (place - i) * (ratio[kind, np.uint64(i + 1)] - low)
    return between


@compiled
def believed(kept: Floats, kind: int, place: float) -> float:
    """Return the share of a gap that is believed to be true; ``place`` is t in points."""
    last = kept.shape[1] - 1
    if place <= 0.0:
        return 0.0
    if place >= last:  # what is taken off falls like 1/t from here on
        far: float = 1.0 - (last - kept[kind, last]) * (last / place / place)
        return far
    i = int(place)
    low = kept[kind, np.uint64(i)]
    between: float = (low + (place - i) * (kept[kind, np.uint64(i + 1)] - low)) / place
    return between


@compiled
def power(x: float) -> float:
    """Return exp(x) for x <= 0, within 1e-8 of its value; the same bits on every machine, and fast."""
    if x < -42.0:
        return 0.0
    k = int(0.5 - x * _PER_LN2)
    r = x + k * _LN2
    series = 1 / 24 + r * (1 / 120 + r * (1 / 720 + r * (1 / 5040)))
    series = 1 + r * (1 + r * (1 / 2 + r * (1 / 6 + r * series)))
    result: float = series * _POWERS[np.uint64(k)]
    return result


@compiled
def logarithm(x: float) -> float:
    """Return ln(x) for x from 1 to 16, within 1e-8; the same bits on every machine, and fast."""
    whole = 0.0
    while x >= 2:
        x *= 0.5
        whole += _LN2
    z = (x - 1) / (x + 1)
    q = z * z
    series = 1 / 9 + q * (1 / 11 + q * (1 / 13 + q * (1 / 15)))
    series = 1 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * series)))
    return whole + 2 * z * series


@compiled
def row_of(boxes: Boxes, unit: float, at: Integers) -> tuple[float, int, int]:
    """Return what the boxes of a row have in common: points per gap over √size, class, axes to halve."""
    kind, axes = 0, 0
    for a in range(1, boxes.strides.size - 1):
        node = boxes.first[a] + at[a]
        unit *= boxes.root[node]
        kind += boxes.order[node]
        if boxes.left[node] >= 0:
            axes += 1 << a - 1
    return unit, kind, axes


@compiled
def ascend(boxes: Boxes, means: Floats, prior: Prior) -> tuple[Floats, Shares]:
    """Weigh the halvings of every box against each other and against its being flat.

    Returns
    -------
    evidence
        Shape (boxes,): logarithm of how much likelier the cells of a box are under the prior than if flat.
    shares
        Shape (boxes, d): the probability, given that a box is reached, that it is halved along an axis.
    """
    # Arrays by their own names, and a plain loop along the last axis: twice as fast.
    first, strides, left_of, right_of = boxes.first, boxes.strides, boxes.left, boxes.right
    root, order, lever = boxes.root, boxes.order, boxes.lever
    stops, go, ratio, slope = prior.stop, prior.go, prior.ratio, prior.slope
    d = strides.size - 1
    evidence = np.zeros(means.size)
    shares = np.zeros((means.size, d), dtype=np.float32)
    scores = np.zeros(d)
    at = np.zeros(d + 1, dtype=np.int64)
    rows = first[1 : d + 1] - first[:d]
    side = first[d + 1] - first[d]
    box = -1
    for _ in range(means.size // side):
        row_unit, row_kind, row_axes = row_of(boxes, prior.unit, at)
        for at_last in range(side):
            box += 1
            node = first[d] + at_last
            axes = row_axes
            if left_of[node] >= 0:
                axes += 1 << d - 1
            if axes == 0:
                continue
            unit, kind = row_unit * root[node], row_kind + order[node]
            top = stops[kind]
            for a in range(1, d + 1):
                if axes >> a - 1 & 1:
                    here = at_last if a == d else at[a]
                    node = first[a] + here
                    left = box + (left_of[node] - here) * strides[a]
                    right = box + (right_of[node] - here) * strides[a]
                    place = abs(means[left] - means[right]) * unit * lever[node]
                    score = likelier(ratio, slope, kind, place)
                    score += go[kind, axes, a - 1] + evidence[left] + evidence[right]
                    scores[a - 1] = score
                    top = max(top, score)
            total = power(stops[kind] - top)
            for a in range(d):
                if axes >> a & 1:
                    scores[a] = power(scores[a] - top)
                    total += scores[a]
            for a in range(d):
                if axes >> a & 1:
                    shares[box, a] = scores[a] / total
            evidence[box] = top + logarithm(total)
        advance(at[:d], rows)
    return evidence, shares


@compiled
def descend(boxes: Boxes, means: Floats, shares: Shares, prior: Prior, turns: Floats, gaps: Floats) -> Floats:
    """Return what each box adds to the expected level of its cells; ``spread`` adds it up.

    A halving moves the level of a half away from that of the whole by the part of the measured gap that is
    believed, times the probability that this halving is come to.

    Parameters
    ----------
    turns
        Shape (classes, 2^d, d + 1): the expected number of halvings along each axis, by the set of axes there
        was to choose from, and last the number of boxes left flat, are added to it.
    gaps
        Shape (classes, points): the expected number of halvings with a gap t is added to it.
    """
    first, strides, left_of, right_of = boxes.first, boxes.strides, boxes.left, boxes.right
    root, order, lever, part = boxes.root, boxes.order, boxes.lever, boxes.share
    d = strides.size - 1
    last = prior.ratio.shape[1] - 1
    levels = np.zeros(means.size)
    reached = np.zeros(means.size)
    sides = first[1:] - first[:-1]
    at = sides - 1
    for table in range(first[1]):
        whole = (table + 1) * strides[0] - 1
        reached[whole] = 1.0
        levels[whole] = means[whole]
    for box in range(means.size - 1, -1, -1):
        here = reached[box]
        if here > _NEVER:
            flat = here
            unit, kind, axes = prior.unit, 0, 0
            for a in range(1, d + 1):
                node = first[a] + at[a]
                unit *= root[node]
                kind += order[node]
                if left_of[node] >= 0:
                    axes += 1 << a - 1
            for a in range(1, d + 1):
                turn = here * shares[box, a - 1]
                if turn > _NEVER:
                    node = first[a] + at[a]
                    left = box + (left_of[node] - at[a]) * strides[a]
                    right = box + (right_of[node] - at[a]) * strides[a]
                    gap = means[left] - means[right]
                    place = abs(gap) * unit * lever[node]
                    move = turn * gap * believed(prior.kept, kind, place)
                    gaps[kind, int(min(place, last))] += turn
                    turns[kind, axes, a - 1] += turn
                    flat -= turn
                    reached[left] += turn
                    reached[right] += turn
                    levels[left] += move * (1 - part[node])
                    levels[right] -= move * part[node]
            if axes > 0:
                turns[kind, axes, d] += flat
        retreat(at, sides)
    return levels


@compiled
def levels_if(
    boxes: Boxes, means: Floats, evidence: Floats, prior: Prior, cells: Integers, changes: Floats
) -> Floats:
    """Return what the level of each of some cells would be, had that cell alone been measured differently.

    A change of one cell touches the boxes around it only: one interval per level of each axis, hence
    (log n)^d boxes. Their evidence is computed afresh and the way down to the cell followed; nothing is kept.

    Parameters
    ----------
    cells
        Shape (count, d): places of the cells.
    changes
        Shape (count,): what is added to the measurement of each.

    Returns
    -------
    Shape (count,).
    """
    d = boxes.strides.size  # with the axis that numbers the tables: nothing is ever halved along it
    chains = chain_room(boxes)
    chain = np.zeros((d, chains.max()), dtype=np.int64)
    room = chains.prod()
    new = np.zeros(room)
    shares = np.zeros((room, d))
    moves = np.zeros((room, d))
    long = np.zeros(d, dtype=np.int64)
    steps = np.zeros(d, dtype=np.int64)
    at = np.zeros(d, dtype=np.int64)
    levels = np.zeros(changes.size)
    for k in range(changes.size):
        count = follow(boxes, cells[k], chain, long, steps)
        at[:] = 0
        for here in range(count):
            box, size, unit, kind, axes = around(boxes, chain, at, prior.unit)
            levels[k] = means[box] + changes[k] / size  # in the end that of the last box: the whole table
            new[here] = 0.0
            top = prior.stop[kind]
            for a in range(d):
                if at[a] > 0:
                    node = boxes.first[a] + chain[a, at[a]]
                    inner, own, other = beside(boxes, chain, at, a, box)
                    part = boxes.size[boxes.first[a] + inner] / boxes.size[node]
                    gap = means[own] + changes[k] / (size * part) - means[other]
                    place = abs(gap) * unit * boxes.lever[node]
                    moves[here, a] = gap * believed(prior.kept, kind, place) * (1 - part)
                    score = likelier(prior.ratio, prior.slope, kind, place)
                    score += prior.go[kind, axes >> 1, a - 1] + new[here - steps[a]] + evidence[other]
                    shares[here, a] = score
                    top = max(top, score)
            if axes > 0:
                new[here] = _weigh(shares[here], axes, prior.stop[kind], top)
            advance(at, long)
        levels[k] += _moved(shares, moves, long, steps, count)
    return levels


@compiled
def _weigh(scores: Floats, axes: int, stop: float, top: float) -> float:
    """Turn log scores of halvings along some axes into their probabilities; return the log of their sum.

    ``stop`` is the score of not halving at all, and ``top`` the largest of all scores.
    """
    total = power(stop - top)
    for a in range(scores.size):
        if axes >> a & 1:
            scores[a] = power(scores[a] - top)
            total += scores[a]
    for a in range(scores.size):
        if axes >> a & 1:
            scores[a] /= total
    return top + logarithm(total)


@compiled
def _moved(shares: Floats, moves: Floats, long: Integers, steps: Integers, count: int) -> float:
    """Return how far a cell's level is from its table's mean: all moves on the way, times their chances."""
    reached = np.zeros(count)
    reached[count - 1] = 1.0
    at = long - 1
    level = 0.0
    for here in range(count - 1, 0, -1):
        for a in range(long.size):
            if at[a] > 0:
                turn = reached[here] * shares[here, a]
                level += turn * moves[here, a]
                reached[here - steps[a]] += turn
        retreat(at, long)
    return level
