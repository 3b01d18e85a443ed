"""The average over all recursive partitions of a table in which halves may be empty.

In a table of a few peaks nobody is in most of the boxes. So a box that is halved has one empty half with a
probability of its own; the other half then has all there is. Of an empty box nothing more is asked: the level
of all its cells is zero. All else is as in ``partition_mixture``. What flat, apart and empty halves say of
the gap is in ``gap_terms``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.histograms.denoise.dyadic_boxes import (
    Boxes,
    advance,
    around,
    beside,
    chain_room,
    follow,
    retreat,
)
from tabularium.mechanisms.histograms.denoise.empties.gap_terms import (
    EmptiesTables,
    if_alike,
    if_apart,
    if_empty,
    inhabited,
)
from tabularium.mechanisms.histograms.denoise.partition_mixture import believed, logarithm, power, row_of
from tabularium.mechanisms.kernels.compiled import compiled

Floats = NDArray[np.float64]
Shares = NDArray[np.float32]
Integers = NDArray[np.int64]

_NEVER = 1e-7  # halvings less likely than this are not followed


class Seen(NamedTuple):
    """What was counted on the way down.

    Attributes
    ----------
    turns
        Shape (classes, 2^d, d + 1): as in ``partition_mixture.descend``.
    gaps
        Shape (classes, points): the expected number of halvings with a gap t and somebody in both halves.
    empties
        Shape (classes,): the expected number of halvings with an empty half.
    """

    turns: Floats
    gaps: Floats
    empties: Floats


@compiled
def ascend(boxes: Boxes, means: Floats, loose: Floats, prior: EmptiesTables) -> tuple[Floats, Shares]:
    """Weigh the halvings of every box against each other and against its being flat.

    Parameters
    ----------
    loose
        Shape (boxes,): see ``gap_terms.looseness``.

    Returns
    -------
    evidence
        Shape (boxes,): logarithm of how much likelier the cells of a box are under the prior than if flat.
    shares
        Shape (boxes, 2·d): the probabilities, given that a box is reached, of halvings along each axis: with
        somebody in both halves, and with one of them empty.
    """
    # Arrays by their own names, and a plain loop along the last axis: twice as fast.
    first, strides, left_of, right_of = boxes.first, boxes.strides, boxes.left, boxes.right
    root, order, lever, share = boxes.root, boxes.order, boxes.lever, boxes.share
    stops, go, apart, alike, fall = prior.stop, prior.go, prior.apart, prior.alike, prior.fall
    d = strides.size - 1
    evidence = np.zeros(means.size)
    shares = np.zeros((means.size, 2 * d), dtype=np.float32)
    scores = np.zeros(2 * d)
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
                    base = go[kind, axes, a - 1]
                    base -= if_alike(alike, fall, kind, place, loose[left], loose[right], share[node])
                    scores[2 * a - 2] = base + if_apart(apart, kind, place) + evidence[left] + evidence[right]
                    one, other = _distances(means[left], means[right], share[node])
                    half, beyond = (left_of[node], right) if one <= other else (right_of[node], left)
                    row = kind - order[node] + order[first[a] + half]
                    none = if_empty(alike, row, min(one, other) * unit)
                    scores[2 * a - 1] = base + prior.empty[kind] + none + evidence[beyond]
                    top = max(top, scores[2 * a - 2], scores[2 * a - 1])
            evidence[box] = _weigh(scores, axes, stops[kind], top)
            for a in range(2 * d):
                if axes >> a // 2 & 1:
                    shares[box, a] = scores[a]
        advance(at[:d], rows)
    return evidence, shares


@compiled
def _distances(left: float, right: float, share: float) -> tuple[float, float]:
    """Return how far the means of two halves are from zero, in the unit of the whole box's mean.

    ``share`` is the left half's part of the cells. The half that is nearer is the one that may be empty.
    """
    return abs(left) * np.sqrt(share), abs(right) * np.sqrt(1 - share)


@compiled
def _begin(boxes: Boxes, means: Floats, evidence: Floats, prior: EmptiesTables) -> tuple[Floats, Floats]:
    """Return how likely each whole table is to hold somebody, and its mean times that; elsewhere zeros."""
    reached, levels = np.zeros(means.size), np.zeros(means.size)
    d = boxes.strides.size - 1
    unit, kind = prior.unit, 0
    for a in range(1, d + 1):
        unit *= boxes.root[boxes.first[a + 1] - 1]
        kind += boxes.order[boxes.first[a + 1] - 1]
    for table in range(boxes.first[1]):
        whole = (table + 1) * boxes.strides[0] - 1
        reached[whole] = inhabited(boxes, prior, kind, abs(means[whole]) * unit, evidence[whole])
        levels[whole] = reached[whole] * means[whole]
    return reached, levels


@compiled
def descend(
    boxes: Boxes, means: Floats, evidence: Floats, shares: Shares, prior: EmptiesTables, seen: Seen
) -> Floats:
    """Return what each box adds to the expected level of its cells; ``spread`` adds it up.

    That is the expected level of the box as far as it is left flat. A halving moves the level of a half away
    from that of the whole by the part of the measured gap that is believed; beside an empty half the level of
    the other is its own mean.

    Parameters
    ----------
    seen
        Is added to.
    """
    first, strides, left_of, right_of = boxes.first, boxes.strides, boxes.left, boxes.right
    root, order, lever, part = boxes.root, boxes.order, boxes.lever, boxes.share
    d = strides.size - 1
    last = prior.apart.shape[1] - 1
    reached, levels = _begin(boxes, means, evidence, prior)
    sides = first[1:] - first[:-1]
    at = sides - 1
    for box in range(means.size - 1, -1, -1):
        here = reached[box]
        if here > _NEVER:
            flat, level = here, levels[box] / here
            unit, kind, axes = prior.unit, 0, 0
            for a in range(1, d + 1):
                node = first[a] + at[a]
                unit *= root[node]
                kind += order[node]
                if left_of[node] >= 0:
                    axes += 1 << a - 1
            for a in range(1, d + 1):
                turn, none = here * shares[box, 2 * a - 2], here * shares[box, 2 * a - 1]
                if max(turn, none) > _NEVER:
                    node = first[a] + at[a]
                    left = box + (left_of[node] - at[a]) * strides[a]
                    right = box + (right_of[node] - at[a]) * strides[a]
                    gap = means[left] - means[right]
                    place = abs(gap) * unit * lever[node]
                    move = gap * believed(prior.kept, kind, place)
                    seen.gaps[kind, int(min(place, last))] += turn
                    seen.empties[kind] += none
                    seen.turns[kind, axes, a - 1] += turn + none
                    flat -= turn + none
                    reached[left] += turn
                    reached[right] += turn
                    levels[left] += turn * (level + move * (1 - part[node]))
                    levels[right] += turn * (level - move * part[node])
                    one, its = _distances(means[left], means[right], part[node])
                    other = right if one <= its else left
                    reached[other] += none
                    levels[other] += none * means[other]
            if axes > 0:
                seen.turns[kind, axes, d] += flat
            levels[box] = flat * level
        retreat(at, sides)
    return levels


class _Way(NamedTuple):
    """The boxes around a cell, from the cell up to the table, as they would be with another measurement.

    ``evidence``, ``means``, ``loose`` (boxes,) as elsewhere; ``shares`` (boxes, 2·d) the probabilities of
    halvings, by axis, with somebody in both halves and with one empty; ``moves`` (boxes, d) by how much the
    half with the cell differs in level; ``gone`` (boxes, d) whether it would be the empty one.
    """

    evidence: Floats
    means: Floats
    loose: Floats
    shares: Floats
    moves: Floats
    gone: NDArray[np.bool_]


@compiled
def levels_if(
    boxes: Boxes,
    means: Floats,
    loose: Floats,
    evidence: Floats,
    prior: EmptiesTables,
    cells: Integers,
    changes: Floats,
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
    way = _Way(
        np.zeros(room),
        np.zeros(room),
        np.zeros(room),
        np.zeros((room, 2 * d)),
        np.zeros((room, d)),
        np.zeros((room, d), dtype=np.bool_),
    )
    long = np.zeros(d, dtype=np.int64)
    steps = np.zeros(d, dtype=np.int64)
    at = np.zeros(d, dtype=np.int64)
    levels = np.zeros(changes.size)
    per_variance = (prior.unit / prior.density) ** 2
    for k in range(changes.size):
        count = follow(boxes, cells[k], chain, long, steps)
        at[:] = 0
        measured = means[around(boxes, chain, at, 1.0)[0]]
        for here in range(count):
            box, size, unit, kind, axes = around(boxes, chain, at, prior.unit)
            way.means[here] = means[box] + changes[k] / size
            way.loose[here] = loose[box]
            if kind < prior.spiky:
                more = changes[k] * (2 * (measured - means[box]) + changes[k] * (1 - 1 / size))
                way.loose[here] += more * per_variance / (2 * size)
            way.evidence[here] = 0.0
            top = prior.stop[kind]
            for a in range(d):
                if at[a] > 0:
                    node = boxes.first[a] + chain[a, at[a]]
                    inner, _, other = beside(boxes, chain, at, a, box)
                    down, on_left = here - steps[a], boxes.left[node] == inner
                    part = boxes.size[boxes.first[a] + inner] / boxes.size[node]
                    gap = way.means[down] - means[other]
                    place = abs(gap) * unit * boxes.lever[node]
                    way.moves[here, a] = gap * believed(prior.kept, kind, place) * (1 - part)
                    base = prior.go[kind, axes >> 1, a - 1]
                    base -= if_alike(
                        prior.alike, prior.fall, kind, place, way.loose[down], loose[other], part
                    )
                    score = base + if_apart(prior.apart, kind, place) + way.evidence[down] + evidence[other]
                    own, outer = _distances(way.means[down], means[other], part)
                    way.gone[here, a] = own < outer or (own == outer and on_left)
                    half = inner if way.gone[here, a] else boxes.left[node] + boxes.right[node] - inner
                    row = kind - boxes.order[node] + boxes.order[boxes.first[a] + half]
                    none = if_empty(prior.alike, row, min(own, outer) * unit)
                    beyond = evidence[other] if way.gone[here, a] else way.evidence[down]
                    way.shares[here, 2 * a] = score
                    way.shares[here, 2 * a + 1] = base + prior.empty[kind] + none + beyond
                    top = max(top, score, way.shares[here, 2 * a + 1])
            if axes > 0:
                way.evidence[here] = _weigh(way.shares[here], axes, prior.stop[kind], top)
            advance(at, long)
        place = abs(way.means[count - 1]) * unit
        levels[k] = _level(way, long, steps, count)
        levels[k] *= inhabited(boxes, prior, kind, place, way.evidence[count - 1])
    return levels


@compiled
def _weigh(scores: Floats, axes: int, stop: float, top: float) -> float:
    """Turn log scores of halvings along some axes into their probabilities; return the log of their sum.

    ``stop`` is the score of not halving at all, and ``top`` the largest of all scores.
    """
    total = power(stop - top)
    for a in range(scores.size):
        if axes >> (a // 2) & 1:
            scores[a] = power(scores[a] - top)
            total += scores[a]
    for a in range(scores.size):
        if axes >> (a // 2) & 1:
            scores[a] /= total
    return top + logarithm(total)


@compiled
def _level(way: _Way, long: Integers, steps: Integers, count: int) -> float:
    """Return a cell's expected level if somebody is in the table, over all ways down to it."""
    reached, levels = np.zeros(count), np.zeros(count)
    reached[count - 1], levels[count - 1] = 1.0, way.means[count - 1]
    at = long - 1
    level = 0.0
    for here in range(count - 1, 0, -1):
        flat = 1.0
        for a in range(long.size):
            if at[a] > 0:
                down = here - steps[a]
                turn, none = way.shares[here, 2 * a], way.shares[here, 2 * a + 1]
                flat -= turn + none
                reached[down] += turn * reached[here]
                levels[down] += turn * (levels[here] + reached[here] * way.moves[here, a])
                if not way.gone[here, a]:
                    reached[down] += none * reached[here]
                    levels[down] += none * reached[here] * way.means[down]
        level += flat * levels[here]
        retreat(at, long)
    whole: float = level + levels[0]
    return whole
