"""The average over all recursive partitions of a table in which halves may be empty.

In a table of a few peaks nobody is in most of the boxes. So a box that is halved has one empty half with a
probability of its own; the other half then has all there is. Of an empty box nothing more is asked: the level
of all its cells is zero. All else is as in ``partition_mixture``. What flat, apart and empty halves say of
the gap is in ``gap_terms``.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.histograms.denoise.cycle_spinning import LevelsIf, Smoother, passes_over
from tabularium.mechanisms.histograms.denoise.dyadic_boxes import (
    Boxes,
    Layout,
    advance,
    around,
    beside,
    boxes_of,
    chain_room,
    follow,
    means_of,
    retreat,
    shape_of,
    spread,
)
from tabularium.mechanisms.histograms.denoise.partition_mixture import believed, logarithm, power, row_of
from tabularium.mechanisms.histograms.denoise.tree_prior import ANCHOR, DENSITY, TreePrior, gap_densities
from tabularium.mechanisms.kernels.compiled import compiled
from tabularium.mechanisms.noise_distributions import Noise

Shares = NDArray[np.float32]

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


_NO_TERMS = -1e300  # logarithm of nothing


class EmptiesTables(NamedTuple):
    """What is believed of a table before it is seen, in the form the passes need.

    Attributes
    ----------
    stop, go, kept, unit
        As in ``partition_mixture.Prior``.
    apart
        Shape (classes, points): logarithm of the density of a gap t between halves that differ, times the
        probability that somebody is in both; at t = 0, 1/32, 2/32, …
    alike
        Shape (classes, points): logarithm of the density of a gap between halves that do not differ, which
        is also that of the mean of a box that nobody is in.
    fall
        Shape (classes,): by how much that falls from point to point, beyond the last.
    empty
        Shape (classes,): logarithm of the probability that nobody is in the left half, or in the right one,
        in the unit of the densities.
    whole
        Shape (classes, points): logarithm of the density of the mean of a whole table that somebody is in.
    spiky
        Class of boxes from which on single measurements do not matter; 0: none do.
    density
        Points per unit of t.
    """

    stop: Floats
    go: Floats
    apart: Floats
    kept: Floats
    alike: Floats
    fall: Floats
    empty: Floats
    whole: Floats
    spiky: int
    unit: float
    density: float


@compiled
def between(table: Floats, kind: int, place: float) -> float:
    """Return what stands in a table at a place before its last point."""
    i = int(place)
    low = table[kind, np.uint64(i)]  # unsigned: an index that is not tested for being negative
    found: float = low + (place - i) * (table[kind, np.uint64(i + 1)] - low)
    return found


@compiled
def if_apart(apart: Floats, kind: int, place: float) -> float:
    """Return the logarithm of the density of a gap if the halves differ; ``place`` is t in points.

    Beyond the table it falls like 1/t: a half has any share of what is in the box.
    """
    last = apart.shape[1] - 1
    if place >= last:
        far: float = apart[kind, last] - logarithm(place / last)
        return far
    return between(apart, kind, place)


@compiled
def if_alike(
    alike: Floats, fall: Floats, kind: int, place: float, left: float, right: float, share: float
) -> float:
    """Return the logarithm of the density of a gap if the halves are alike.

    ``left`` and ``right`` say how loose their means are, ``share`` is the left half's part of the cells.
    """
    more = 0.0
    if max(left, right) > 1.0:
        loose = max(1.0, left) * (1 - share) + max(1.0, right) * share
        place /= np.sqrt(loose)
        more = logarithm(loose) / 2
    last = alike.shape[1] - 1
    if place >= last:
        far: float = alike[kind, last] - fall[kind] * (place - last) - more
        return far
    return between(alike, kind, place) - more


@compiled
def if_empty(alike: Floats, kind: int, place: float) -> float:
    """Return the logarithm of the density of the mean of an empty box of a class."""
    return between(alike, kind, place) if place < alike.shape[1] - 1 else _NO_TERMS


@compiled
def inhabited(boxes: Boxes, prior: EmptiesTables, kind: int, place: float, evidence: float) -> float:
    """Return the probability that somebody is in a table, given its mean and the evidence for halvings.

    Of several tables none is taken to be empty: what is in all of them together may be well known.
    """
    if boxes.first[1] > 1 or place >= prior.alike.shape[1] - 1:
        return 1.0
    more = between(prior.whole, kind, place) + evidence - between(prior.alike, kind, place)
    return 1 / (1 + power(-more)) if more >= 0 else 1 - 1 / (1 + power(more))


@compiled
def looseness(boxes: Boxes, means: Floats, prior: EmptiesTables) -> Floats:
    """Return by how much the variance of small boxes' means exceeds that of the noise; below 1 it does not.

    Returns
    -------
    Shape (boxes,): squared deviations from the mean over 2·m·V; 0 for boxes of the class ``spiky`` and above.
    """
    first, strides, left_of, right_of = boxes.first, boxes.strides, boxes.left, boxes.right
    d = strides.size
    loose = np.zeros(means.size)
    if prior.spiky == 0:
        return loose
    at, sides = np.zeros(d, dtype=np.int64), first[1:] - first[:-1]
    for box in range(means.size):
        kind, axis = 0, 0
        for a in range(1, d):
            node = first[a] + at[a]
            kind += boxes.order[node]
            if left_of[node] >= 0:
                axis = a
        if 0 < kind < prior.spiky:
            node = first[axis] + at[axis]
            left = box + (left_of[node] - at[axis]) * strides[axis]
            right = box + (right_of[node] - at[axis]) * strides[axis]
            gap = (means[left] - means[right]) * boxes.lever[node] * prior.unit / prior.density
            share = boxes.share[node]
            loose[box] = loose[left] * share + loose[right] * (1 - share) + gap * gap / 2
        advance(at, sides)
    return loose


_EMPTY = 0.3  # halvings that leave an empty half
_POOLED = 4.0  # halvings of a class that count towards what all classes have in common
_EITHER = log(2 * sqrt(2))  # one of two halves, and the unit of its mean by that of a gap


@dataclass(frozen=True, eq=False)
class EmptiesPrior:
    """What is believed of boxes by their class (log2 of their cells).

    Attributes
    ----------
    tree
        Of boxes with somebody in both halves.
    empty
        Shape (classes,): probability that a box that is halved has an empty half.
    """

    tree: TreePrior
    empty: Floats

    @classmethod
    def of(cls, start: float, classes: int, axes: int) -> EmptiesPrior:
        """Return the prior to begin with."""
        return cls(TreePrior.of(start, classes, axes), np.full(classes, _EMPTY))

    def tables(self, noise: Noise) -> EmptiesTables:
        """Return the prior in the form that the kernels need."""
        tree = self.tree.tables(noise)
        density, _, alone = gap_densities(noise.family)
        largest = len(alone) - 1
        rows = np.minimum(np.arange(self.empty.size), largest)
        alike = alone[rows]
        return EmptiesTables(
            stop=tree.stop,
            go=tree.go,
            apart=tree.ratio + alike + np.log1p(-self.empty)[:, None],
            kept=tree.kept,
            alike=alike,
            fall=alike[:, -2] - alike[:, -1],
            empty=np.log(self.empty) - _EITHER,
            whole=np.log(density[rows, -1]),
            spiky=largest if noise.family == "laplace" else 0,
            unit=tree.unit,
            density=float(DENSITY),
        )

    def nothing_seen(self) -> Seen:
        """Return zeros for ``descend`` to count in."""
        return Seen(*self.tree.nothing_seen(), np.zeros(self.empty.size))

    def learned(self, seen: Seen, noise: Noise) -> EmptiesPrior:
        """Return the prior that fits what ``descend`` saw under this one."""
        halved = seen.turns[:, :, :-1].sum(axis=(1, 2))
        # In a table of one peak each class has one box that is not empty: together they tell what none does.
        few = np.divide(_POOLED, halved, out=np.ones_like(halved), where=halved > _POOLED)
        pooled = ((few * seen.empties).sum() + ANCHOR * _EMPTY) / ((few * halved).sum() + ANCHOR)
        empty = (seen.empties + ANCHOR * pooled) / (halved + ANCHOR)
        return EmptiesPrior(self.tree.learned(seen.turns, seen.gaps, noise), empty)


_MOST_PASSES = 16
_NOTHING = 0.02  # standard deviations of the noise
_OCCUPIED = 0.5  # share of the cells
_NOT_POSITIVE = 0.2  # share of noisy cells; a quarter is expected where half of the cells are empty
_DEVIATIONS = 2.0


def may_be_empty(tables: Floats, layout: Layout) -> bool:
    """Return whether most of noisy tables may be empty, at a glance: of empty cells half are not positive."""
    return passes_over(tables, layout) > 0 and bool((tables <= 0).mean() >= _NOT_POSITIVE)


def mostly_empty(tables: Floats, levels: Floats, noise: Noise) -> bool:
    """Return whether levels that take most of noisy tables for empty are borne out by them."""
    deviation = sqrt(noise.variance)
    lost = float((tables - levels).sum())
    occupied = float((np.abs(levels) > _NOTHING * deviation).mean())
    return occupied <= _OCCUPIED and lost <= _DEVIATIONS * deviation * sqrt(tables.size)


def mixture_with_empties(noise: Noise, prior: EmptiesPrior, *, adapt: bool) -> Smoother:
    """Return the smoother that averages over all partitions in which halves may be empty.

    ``adapt`` as in ``cycle_spinning.mixture``.
    """
    common = prior.tables(noise)

    def smoother(boxes: Boxes, means: Floats) -> tuple[Floats, LevelsIf]:
        loose = looseness(boxes, means, common)
        tables = _seen(prior, noise, [(boxes, means, loose)]).tables(noise) if adapt else common
        evidence, shares = ascend(boxes, means, loose, tables)
        levels = descend(boxes, means, evidence, shares, tables, prior.nothing_seen())
        spread(boxes, levels)
        return levels, lambda places, steps: levels_if(boxes, means, loose, evidence, tables, places, steps)

    return smoother


def learn_empties(tables: Floats, layout: Layout, noise: Noise, start: float, classes: int) -> EmptiesPrior:
    """Return the prior that fits noisy tables; see ``cycle_spinning.learn``."""
    prior = EmptiesPrior.of(start, classes, max(1, len(layout.sides)))
    passes = min(passes_over(tables, layout), _MOST_PASSES)
    known, tiles = prior.tables(noise), []
    for tile in layout.tiles() if passes else []:
        boxes = boxes_of(shape_of(tile), (0,) * len(layout.sides))
        means = means_of(tables[tile], boxes)
        tiles.append((boxes, means, looseness(boxes, means, known)))
    for _ in range(passes):
        prior = _seen(prior, noise, tiles)
    return prior


def _seen(prior: EmptiesPrior, noise: Noise, tiles: list[tuple[Boxes, Floats, Floats]]) -> EmptiesPrior:
    """Return the prior after one pass over the boxes of tables."""
    seen = prior.nothing_seen()
    known = prior.tables(noise)
    for boxes, means, loose in tiles:
        evidence, shares = ascend(boxes, means, loose, known)
        descend(boxes, means, evidence, shares, known, seen)
    return prior.learned(seen, noise)
