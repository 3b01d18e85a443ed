"""The average over all recursive dyadic partitions of a table, each weighted by how likely it is.

A tree prior says how a table comes about: a box is flat (one level for all its cells) with a probability that
depends on its size, otherwise it is halved along one of its axes, the means of the halves differ by a random
amount, and each half comes about in the same way. In a sparse table a halving may also leave one half empty.
Given the noisy table, the probability of every halving follows in one pass from small boxes to large, and the
expected level of each cell in one pass back. The time is that of a few exponentials per box.

Every pass takes ``sparse``, which is None where no half is empty: numba compiles the two cases apart. Passes
are long functions, as a call in their innermost loop that is handed arrays doubles their time.

Source: Willems, Shtarkov, Tjalkens 1995 (context-tree weighting); Wong, Ma 2010 (optional Pólya tree).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Bools, Floats, Integers
from tabularium.mechanisms.histograms.denoise.boxes import (
    Boxes,
    advance,
    ancestor_box,
    ancestor_chain,
    chain_room,
    retreat,
    sibling_box,
)
from tabularium.mechanisms.kernels.compiled import compiled

Shares = NDArray[np.float32]

_NEVER = 1e-7  # halvings less likely than this are not followed
_NO_TERMS = -1e300  # logarithm of nothing
_POWERS = np.array([2.0**-k for k in range(64)])
_LN2 = 0.6931471805599453
_PER_LN2 = 1.4426950408889634


class Prior(NamedTuple):
    """The tree prior in the form the passes need; rows of tables are points t = 0, 1/32, 2/32, …

    t is a gap between the means of two halves, in its own standard deviations under the noise.

    Attributes
    ----------
    stop
        Shape (classes,): logarithm of the probability that a box is flat.
    go
        Shape (classes, 2^d, d): logarithm of the probability that it is halved along an axis of a table of d
        axes, given the set of axes (a bit each) along which it has more than one cell.
    ratio
        Shape (classes, points): logarithm of how much likelier t is when the halves differ than when not.
    kept
        Shape (classes, points): the expected true gap, in points.
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


class Sparse(NamedTuple):
    """What else is known where halves may be empty: the densities themselves, in place of their ratio.

    Attributes
    ----------
    apart
        Shape (classes, points): logarithm of the density of a gap t between halves that differ, times the
        probability that somebody is in both.
    alike
        Shape (classes, points): logarithm of the density of a gap between halves that do not differ, which
        is also that of the mean of an empty box.
    fall
        Shape (classes,): by how much that falls from point to point, beyond the last.
    empty
        Shape (classes,): logarithm of the probability that nobody is in the left half, or in the right one,
        in the unit of the densities.
    whole
        Shape (classes, points): logarithm of the density of the mean of a whole table that somebody is in.
    inflation
        Shape (boxes,): see ``variance_inflation``.
    spiky
        Class of boxes from which on single measurements do not matter; 0: none do.
    density
        Points per unit of t.
    """

    apart: Floats
    alike: Floats
    fall: Floats
    empty: Floats
    whole: Floats
    inflation: Floats
    spiky: int
    density: float


class Counts(NamedTuple):
    """The expected numbers of halvings that ``descend`` adds to.

    Attributes
    ----------
    splits
        Shape (classes, 2^d, d + 1): along each axis, by the set of axes there was to choose from; last the
        number of boxes left flat.
    gaps
        Shape (classes, points): with a gap t, and somebody in both halves.
    empties
        Shape (classes,): with an empty half.
    """

    splits: Floats
    gaps: Floats
    empties: Floats


@compiled
def between(table: Floats, kind: int, place: float) -> float:
    """Return what stands in a table at a place before its last point."""
    i = int(place)
    low = table[kind, np.uint64(i)]  # unsigned: an index that is not tested for being negative
    result: float = low + (place - i) * (table[kind, np.uint64(i + 1)] - low)
    return result


@compiled
def log_bayes_factor(ratio: Floats, slope: Floats, kind: int, place: float) -> float:
    """Return the logarithm of how much likelier a gap is if the halves differ; ``place`` is t in points."""
    last = ratio.shape[1] - 1
    if place >= last:
        far: float = ratio[kind, last] + slope[kind] * (place - last)
        return far
    return between(ratio, kind, place)


@compiled
def shrinkage(kept: Floats, kind: int, place: float) -> float:
    """Return the share of a gap that is expected to be true; ``place`` is t in points."""
    last = kept.shape[1] - 1
    if place <= 0.0:
        return 0.0
    if place >= last:  # what is taken off falls like 1/t from here on
        far: float = 1.0 - (last - kept[kind, last]) * (last / place / place)
        return far
    return between(kept, kind, place) / place


@compiled
def fast_exp(x: float) -> float:
    """Return exp(x) for x <= 0, within 1e-8 of its value; the same bits on every machine."""
    if x < -42.0:
        return 0.0
    k = int(0.5 - x * _PER_LN2)
    r = x + k * _LN2
    series = 1 / 24 + r * (1 / 120 + r * (1 / 720 + r * (1 / 5040)))
    series = 1 + r * (1 + r * (1 / 2 + r * (1 / 6 + r * series)))
    result: float = series * _POWERS[np.uint64(k)]
    return result


@compiled
def fast_log(x: float) -> float:
    """Return ln(x) for x from 1 to 16, within 1e-8; the same bits on every machine."""
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
def _log_if_alike(
    alike: Floats, fall: Floats, kind: int, place: float, left: float, right: float, share: float
) -> float:
    """Return the logarithm of the density of a gap if the halves are alike.

    ``left`` and ``right`` are the variance inflations of the halves, ``share`` the left one's part of cells.
    """
    more = 0.0
    if max(left, right) > 1.0:
        inflation = max(1.0, left) * (1 - share) + max(1.0, right) * share
        place /= np.sqrt(inflation)
        more = fast_log(inflation) / 2
    last = alike.shape[1] - 1
    if place >= last:
        far: float = alike[kind, last] - fall[kind] * (place - last) - more
        return far
    return between(alike, kind, place) - more


@compiled
def _log_if_apart(apart: Floats, kind: int, place: float) -> float:
    """Return the logarithm of the density of a gap if the halves differ.

    Beyond the table it falls like 1/t: a half has any share of what is in the box.
    """
    last = apart.shape[1] - 1
    if place >= last:
        far: float = apart[kind, last] - fast_log(place / last)
        return far
    return between(apart, kind, place)


@compiled
def _log_if_empty(alike: Floats, kind: int, place: float) -> float:
    """Return the logarithm of the density of the mean of an empty box of a class."""
    return between(alike, kind, place) if place < alike.shape[1] - 1 else _NO_TERMS


@compiled
def _distances(left: float, right: float, share: float) -> tuple[float, float]:
    """Return how far the means of two halves are from zero, in the unit of the whole box's mean.

    ``share`` is the left half's part of the cells. The half that is nearer is the one that may be empty.
    """
    return abs(left) * np.sqrt(share), abs(right) * np.sqrt(1 - share)


@compiled
def _prob_nonempty(boxes: Boxes, prior: Prior, sparse: Sparse, mean: float, evidence: float) -> float:
    """Return the probability that somebody is in a table, given its mean and the evidence for halvings.

    Of several tables none is taken to be empty: what is in all of them together may be well known.
    """
    place, kind = prior.unit, 0
    for a in range(1, boxes.strides.size):
        place *= boxes.root[boxes.first[a + 1] - 1]
        kind += boxes.order[boxes.first[a + 1] - 1]
    place *= abs(mean)
    if boxes.first[1] > 1 or place >= sparse.alike.shape[1] - 1:
        return 1.0
    more = between(sparse.whole, kind, place) + evidence - between(sparse.alike, kind, place)
    return 1 / (1 + fast_exp(-more)) if more >= 0 else 1 - 1 / (1 + fast_exp(more))


@compiled
def variance_inflation(boxes: Boxes, means: Floats, unit: float, density: float, spiky: int) -> Floats:
    """Return by how much the variance of small boxes' means exceeds that of the noise; below 1 it does not.

    Shape (boxes,): squared deviations from the mean over 2·m·V; 0 for boxes of the class ``spiky`` and above.
    """
    first, strides, left_of, right_of = boxes.first, boxes.strides, boxes.left, boxes.right
    d = strides.size
    result = np.zeros(means.size)
    if spiky == 0:
        return result
    at, sides = np.zeros(d, dtype=np.int64), first[1:] - first[:-1]
    for box in range(means.size):
        kind, axis = 0, 0
        for a in range(1, d):
            node = first[a] + at[a]
            kind += boxes.order[node]
            if left_of[node] >= 0:
                axis = a
        if 0 < kind < spiky:
            node = first[axis] + at[axis]
            left = box + (left_of[node] - at[axis]) * strides[axis]
            right = box + (right_of[node] - at[axis]) * strides[axis]
            gap = (means[left] - means[right]) * boxes.lever[node] * unit / density
            share = boxes.share[node]
            result[box] = result[left] * share + result[right] * (1 - share) + gap * gap / 2
        advance(at, sides)
    return result


@compiled
def _weigh(scores: Floats, sparse: Sparse | None, axes: int, stop: float, top: float) -> float:
    """Turn log scores of halvings along some axes into their probabilities; return the log of their sum.

    ``stop`` is the score of not halving at all, ``top`` the largest of all scores.
    """
    ways = 1 if sparse is None else 2
    total = fast_exp(stop - top)
    for way in range(scores.size):
        if axes >> way // ways & 1:
            scores[way] = fast_exp(scores[way] - top)
            total += scores[way]
    for way in range(scores.size):
        if axes >> way // ways & 1:
            scores[way] /= total
    return top + fast_log(total)


@compiled
def _row_of(boxes: Boxes, unit: float, at: Integers) -> tuple[float, int, int]:
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
def ascend(  # noqa: PLR0912, PLR0915 - see above
    boxes: Boxes, means: Floats, prior: Prior, sparse: Sparse | None
) -> tuple[Floats, Shares]:
    """Weigh the halvings of every box against each other and against its being flat.

    Returns
    -------
    evidence
        Shape (boxes,): logarithm of how much likelier the cells of a box are under the prior than if flat.
    shares
        Shape (boxes, d): the probability, given that a box is reached, that it is halved along an axis; with
        ``sparse`` (boxes, 2·d), for each axis with somebody in both halves, and with one of them empty.
    """
    # Arrays by their own names, and a plain loop along the last axis: twice as fast.
    first, strides, left_of, right_of = boxes.first, boxes.strides, boxes.left, boxes.right
    root, order, lever, part = boxes.root, boxes.order, boxes.lever, boxes.share
    stops, go, ratio, slope = prior.stop, prior.go, prior.ratio, prior.slope
    ways = 1 if sparse is None else 2
    if sparse is not None:
        alike, fall, apart, loose = sparse.alike, sparse.fall, sparse.apart, sparse.inflation
    d = strides.size - 1
    evidence = np.zeros(means.size)
    shares = np.zeros((means.size, ways * d), dtype=np.float32)
    scores = np.zeros(ways * d)
    at = np.zeros(d + 1, dtype=np.int64)
    rows = first[1 : d + 1] - first[:d]
    side = first[d + 1] - first[d]
    box = -1
    for _ in range(means.size // side):
        row_unit, row_kind, row_axes = _row_of(boxes, prior.unit, at)
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
                    if sparse is None:
                        score = log_bayes_factor(ratio, slope, kind, place)
                        score += go[kind, axes, a - 1] + evidence[left] + evidence[right]
                        scores[a - 1] = score
                        top = max(top, score)
                    else:
                        share = part[node]
                        base = go[kind, axes, a - 1]
                        base -= _log_if_alike(alike, fall, kind, place, loose[left], loose[right], share)
                        both = base + _log_if_apart(apart, kind, place)
                        scores[2 * a - 2] = both + evidence[left] + evidence[right]
                        one, other = _distances(means[left], means[right], share)
                        half, beyond = (left_of[node], right) if one <= other else (right_of[node], left)
                        row = kind - order[node] + order[first[a] + half]
                        none = _log_if_empty(alike, row, min(one, other) * unit)
                        scores[2 * a - 1] = base + sparse.empty[kind] + none + evidence[beyond]
                        top = max(top, scores[2 * a - 2], scores[2 * a - 1])
            total = fast_exp(stops[kind] - top)
            for way in range(ways * d):
                if axes >> way // ways & 1:
                    scores[way] = fast_exp(scores[way] - top)
                    total += scores[way]
            for way in range(ways * d):
                if axes >> way // ways & 1:
                    shares[box, way] = scores[way] / total
            evidence[box] = top + fast_log(total)
        advance(at[:d], rows)
    return evidence, shares


@compiled
def descend(  # noqa: PLR0912, PLR0915 - see above
    boxes: Boxes,
    means: Floats,
    evidence: Floats,
    shares: Shares,
    prior: Prior,
    sparse: Sparse | None,
    counts: Counts,
) -> Floats:
    """Return what each box adds to the expected level of its cells; ``spread`` adds it up.

    A halving moves the level of a half away from that of the whole by the part of the measured gap that is
    expected to be true, times the probability that this halving is come to. With ``sparse`` a box adds its
    expected level as far as it is left flat: next to an empty half the level of the other is its own mean.
    ``counts`` is added to.
    """
    first, strides, left_of, right_of = boxes.first, boxes.strides, boxes.left, boxes.right
    root, order, lever, part = boxes.root, boxes.order, boxes.lever, boxes.share
    splits, gaps = counts.splits, counts.gaps
    d = strides.size - 1
    last = prior.kept.shape[1] - 1
    levels = np.zeros(means.size)
    reached = np.zeros(means.size)
    sides = first[1:] - first[:-1]
    at = sides - 1
    for table in range(first[1]):
        whole = (table + 1) * strides[0] - 1
        reached[whole] = 1.0
        if sparse is not None:
            reached[whole] = _prob_nonempty(boxes, prior, sparse, means[whole], evidence[whole])
        levels[whole] = reached[whole] * means[whole]
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
            if sparse is not None:
                level = levels[box] / here
            for a in range(1, d + 1):
                if sparse is None:
                    turn, none = here * shares[box, a - 1], 0.0
                else:
                    turn, none = here * shares[box, 2 * a - 2], here * shares[box, 2 * a - 1]
                if max(turn, none) > _NEVER:
                    node = first[a] + at[a]
                    left = box + (left_of[node] - at[a]) * strides[a]
                    right = box + (right_of[node] - at[a]) * strides[a]
                    gap = means[left] - means[right]
                    place = abs(gap) * unit * lever[node]
                    true = shrinkage(prior.kept, kind, place)
                    gaps[kind, int(min(place, last))] += turn
                    splits[kind, axes, a - 1] += turn + none
                    flat -= turn + none
                    reached[left] += turn
                    reached[right] += turn
                    if sparse is None:
                        move = turn * gap * true
                        levels[left] += move * (1 - part[node])
                        levels[right] -= move * part[node]
                    else:
                        move = gap * true
                        counts.empties[kind] += none
                        levels[left] += turn * (level + move * (1 - part[node]))
                        levels[right] += turn * (level - move * part[node])
                        one, its = _distances(means[left], means[right], part[node])
                        other = right if one <= its else left
                        reached[other] += none
                        levels[other] += none * means[other]
            if axes > 0:
                splits[kind, axes, d] += flat
            if sparse is not None:
                levels[box] = flat * level
        retreat(at, sides)
    return levels


class _Chain(NamedTuple):
    """The boxes around a cell, from the cell up to the table, as they would be with another measurement.

    ``evidence`` (boxes,) as elsewhere; ``shares`` (boxes, d or 2·d) the probabilities of halvings; ``moves``
    (boxes, d) by how much the half with the cell differs in level. With ``sparse``, else empty: ``means`` and
    ``inflation`` (boxes,), and ``gone`` (boxes, d), whether the half with the cell would be the empty one.
    """

    evidence: Floats
    shares: Floats
    moves: Floats
    means: Floats
    inflation: Floats
    gone: Bools


@compiled
def perturbed_levels(  # noqa: PLR0912, PLR0915 - see above
    boxes: Boxes,
    means: Floats,
    evidence: Floats,
    prior: Prior,
    sparse: Sparse | None,
    cells: Integers,
    changes: Floats,
) -> Floats:
    """Return what the level of each of some cells would be, had only that cell been measured differently.

    A change of one cell touches the (log n)^d boxes around it only: their evidence is computed afresh.

    ``cells``: Shape (count, d): places of the cells. ``changes``: Shape (count,), as what is returned: what
    is added to the measurement of each.
    """
    d = boxes.strides.size  # with the axis that numbers the tables: nothing is ever halved along it
    lengths = chain_room(boxes)
    chain = np.zeros((d, lengths.max()), dtype=np.int64)
    room = lengths.prod()
    ways, sparse_room = (1, 0) if sparse is None else (2, room)
    if sparse is not None:
        loose, per_variance = sparse.inflation, (prior.unit / sparse.density) ** 2
    at_box = _Chain(
        np.zeros(room),
        np.zeros((room, ways * d)),
        np.zeros((room, d)),
        np.zeros(sparse_room),
        np.zeros(sparse_room),
        np.zeros((sparse_room, d), dtype=np.bool_),
    )
    new, shares, moves = at_box.evidence, at_box.shares, at_box.moves
    long = np.zeros(d, dtype=np.int64)
    steps = np.zeros(d, dtype=np.int64)
    at = np.zeros(d, dtype=np.int64)
    levels = np.zeros(changes.size)
    for k in range(changes.size):
        count = ancestor_chain(boxes, cells[k], chain, long, steps)
        at[:] = 0
        if sparse is not None:
            measured = means[ancestor_box(boxes, chain, at, 1.0)[0]]
        for here in range(count):
            box, size, unit, kind, axes = ancestor_box(boxes, chain, at, prior.unit)
            levels[k] = means[box] + changes[k] / size  # in the end that of the last box: the whole table
            if sparse is not None:
                at_box.means[here] = levels[k]
                at_box.inflation[here] = loose[box]
                if kind < sparse.spiky:
                    more = changes[k] * (2 * (measured - means[box]) + changes[k] * (1 - 1 / size))
                    at_box.inflation[here] += more * per_variance / (2 * size)
            new[here] = 0.0
            top = prior.stop[kind]
            for a in range(d):
                if at[a] > 0:
                    node = boxes.first[a] + chain[a, at[a]]
                    inner, own, other = sibling_box(boxes, chain, at, a, box)
                    down = here - steps[a]
                    part = boxes.size[boxes.first[a] + inner] / boxes.size[node]
                    if sparse is None:
                        gap = means[own] + changes[k] / (size * part) - means[other]
                    else:
                        gap = at_box.means[down] - means[other]
                    place = abs(gap) * unit * boxes.lever[node]
                    moves[here, a] = gap * shrinkage(prior.kept, kind, place) * (1 - part)
                    go = prior.go[kind, axes >> 1, a - 1]
                    if sparse is None:
                        score = log_bayes_factor(prior.ratio, prior.slope, kind, place)
                        score += go + new[down] + evidence[other]
                        shares[here, a] = score
                        top = max(top, score)
                    else:
                        base = go - _log_if_alike(
                            sparse.alike, sparse.fall, kind, place, at_box.inflation[down], loose[other], part
                        )
                        both = base + _log_if_apart(sparse.apart, kind, place)
                        both = both + new[down] + evidence[other]
                        nearer, outer = _distances(at_box.means[down], means[other], part)
                        on_left = boxes.left[node] == inner
                        gone = nearer < outer or (nearer == outer and on_left)
                        half = inner if gone else boxes.left[node] + boxes.right[node] - inner
                        row = kind - boxes.order[node] + boxes.order[boxes.first[a] + half]
                        none = base + sparse.empty[kind]
                        none += _log_if_empty(sparse.alike, row, min(nearer, outer) * unit)
                        none += evidence[other] if gone else new[down]
                        at_box.gone[here, a] = gone
                        shares[here, 2 * a], shares[here, 2 * a + 1] = both, none
                        top = max(top, both, none)
            if axes > 0:
                new[here] = _weigh(shares[here], sparse, axes, prior.stop[kind], top)
            advance(at, long)
        if sparse is None:
            levels[k] += _moved(at_box, long, steps, count)
        else:
            chance = _prob_nonempty(boxes, prior, sparse, levels[k], new[count - 1])
            levels[k] = _level(at_box, long, steps, count) * chance
    return levels


@compiled
def _moved(chain: _Chain, long: Integers, steps: Integers, count: int) -> float:
    """Return how far a cell's level is from its table's mean: all moves on the way, times their chances."""
    reached = np.zeros(count)
    reached[count - 1] = 1.0
    at = long - 1
    level = 0.0
    for here in range(count - 1, 0, -1):
        for a in range(long.size):
            if at[a] > 0:
                turn = reached[here] * chain.shares[here, a]
                level += turn * chain.moves[here, a]
                reached[here - steps[a]] += turn
        retreat(at, long)
    return level


@compiled
def _level(chain: _Chain, long: Integers, steps: Integers, count: int) -> float:
    """Return a cell's expected level if somebody is in the table, over all ways down to it."""
    reached, levels = np.zeros(count), np.zeros(count)
    reached[count - 1], levels[count - 1] = 1.0, chain.means[count - 1]
    at = long - 1
    level = 0.0
    for here in range(count - 1, 0, -1):
        flat = 1.0
        for a in range(long.size):
            if at[a] > 0:
                down = here - steps[a]
                turn, none = chain.shares[here, 2 * a], chain.shares[here, 2 * a + 1]
                flat -= turn + none
                reached[down] += turn * reached[here]
                levels[down] += turn * (levels[here] + reached[here] * chain.moves[here, a])
                if not chain.gone[here, a]:
                    reached[down] += none * reached[here]
                    levels[down] += none * reached[here] * chain.means[down]
        level += flat * levels[here]
        retreat(at, long)
    whole: float = level + levels[0]
    return whole
