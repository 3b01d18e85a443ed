"""A tree of boxes over a table, and its smoothing as a hidden Markov tree.

The table is halved again and again, along its longest axis first, down to single cells; sides need not be
powers of two. A cell's code has a bit for each halving, so the boxes of a level are runs of the sorted codes.

Every box is even (its halves hold what their sizes say) or uneven: its contrast is of some width, or all of
it is in one half. How often boxes are uneven below even and uneven ones, and how wide true contrasts are, is
learned by level from the noisy contrasts by expectation maximisation. Then the table is rebuilt from the
total down, each box divided by the mean of its contrast, so that no half is negative; that bounds contrasts,
and all is learned a second time. Noise is taken for normal. Time O(n log n).

Source: Crouse, Nowak, Baraniuk 1998 (hidden Markov trees of wavelet coefficients); Chipman, Kolaczyk,
McCulloch 1997 (mixtures in place of thresholds). The bounds and the whole are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import exp, inf, isfinite, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Bools, Floats, Integers
from tabularium.mechanisms.kernels.compiled import compiled

_WIDTHS = np.array([1.0, 16.0, 256.0])
_WAYS = _WIDTHS.size + 3  # of being uneven: a contrast of some width, or as wide as can be, or an empty half
_ROUNDS = 8
_NARROWEST = 0.02
_LEAST_BOUND = 0.05
_SURE = 500.0
_VOID, _NOTHING = 0.9, 0.02
_PEAKED, _PEAK = 0.75, 5.0
_DOUBTFUL = 0.2  # of 0.5, 0.3 and 0.15 in trials; the less, the less is left over, and the more is missed


@dataclass(frozen=True, eq=False)
class SplitTree:
    """The boxes of a table, by levels: level 0 holds the cells, the last level the whole table.

    Attributes
    ----------
    shape
        Of the table.
    order
        (cells,) flat places of the cells in the order of the tree.
    split
        (levels - 1,) the axis along which the boxes of level l + 1 are halved.
    starts
        For each level the place in ``order`` where each box begins.
    sizes
        For each level the number of cells of each box.
    first, second
        For each level but the lowest the places, on the level below, of the halves of each box; one past the
        last where there is none.
    """

    shape: tuple[int, ...]
    order: Integers
    split: tuple[int, ...]
    starts: tuple[Integers, ...]
    sizes: tuple[Floats, ...]
    first: tuple[Integers, ...]
    second: tuple[Integers, ...]

    @property
    def height(self) -> int:
        """The number of the last level."""
        return len(self.split)

    @classmethod
    def of(cls, shape: tuple[int, ...], apart: tuple[int, ...] = ()) -> SplitTree:
        """Return the tree of a table; axes ``apart`` have no order, and are halved before all others."""
        split = split_axes(shape, apart)
        codes = _codes(shape, split)
        order = np.argsort(codes, kind="stable") if len(shape) > 1 else np.arange(codes.size)
        codes = codes[order]
        starts, firsts, seconds = [np.arange(codes.size)], [], []
        sizes = [np.ones(codes.size)]
        for _ in split:
            halves = codes >> 1
            opens = np.ones(codes.size, dtype=bool)
            opens[1:] = halves[1:] != halves[:-1]
            begin = np.flatnonzero(opens)
            end = np.append(begin[1:], codes.size)
            single, odd = end - begin == 1, codes[begin] & 1 == 1
            firsts.append(np.where(odd, codes.size, begin))
            seconds.append(np.where(odd, begin, np.where(single, codes.size, begin + 1)))
            sizes.append(np.add.reduceat(sizes[-1], begin))
            starts.append(starts[-1][begin])
            codes = halves[begin]
        return cls(shape, order, split, tuple(starts), tuple(sizes), tuple(firsts), tuple(seconds))

    def sums(self, table: NDArray[Any], level: int) -> NDArray[Any]:
        """Return the sums of a table over the boxes of a level, in the order of the tree."""
        cells = table.reshape(-1)[self.order]
        return cells if level == 0 else np.add.reduceat(cells, self.starts[level])

    def table(self, cells: Floats) -> Floats:
        """Return the table whose cells, in the order of the tree, are given."""
        result = np.empty(cells.size)
        result[self.order] = cells
        return result.reshape(self.shape)


def split_axes(shape: tuple[int, ...], apart: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Return along which axis each level is halved, from the level of pairs of cells to the whole table.

    The axis with the most halvings to come is first; those ``apart`` before all others, so that no smaller
    box reaches across them.
    """
    left = [(side - 1).bit_length() for side in shape]
    result = []
    for group in (apart, tuple(axis for axis in range(len(shape)) if axis not in apart)):
        while any(left[axis] for axis in group):
            axis = max(group, key=lambda axis: left[axis])
            left[axis] -= 1
            result.append(axis)
    return tuple(result[::-1])


def _codes(shape: tuple[int, ...], split: tuple[int, ...]) -> Integers:
    """Return the code of each cell, flat: bit l says in which half of its box of level l + 1 it lies."""
    codes = np.zeros(shape, dtype=np.int64)
    used = [0] * len(shape)
    for level, axis in enumerate(split):
        along = [1] * len(shape)
        along[axis] = shape[axis]
        bit = (np.arange(shape[axis]) >> used[axis] & 1) << level
        codes |= bit.reshape(along)
        used[axis] += 1
    return codes.reshape(-1)


@dataclass(frozen=True, eq=False)
class Level:
    """What is known of the boxes of a level.

    Attributes
    ----------
    sums, variances
        (boxes,) estimates from the level itself and those below, and their variances.
    contrasts
        (boxes,) by how much the first half holds more than its share of the cells; 0 where there is one half.
    noises
        (boxes,) variances of the contrasts; infinite where there is none.
    residuals
        (2, boxes) the contrasts less what they are if all of the box is in its first half, and in its second:
        by how much a half that should be empty is not. 0 on average if it is empty.
    residual_variances
        (2, boxes) of ``residuals`` if it is, given that the box's sum is known by its halves too.
    """

    sums: Floats
    variances: Floats
    contrasts: Floats
    noises: Floats
    residuals: Floats
    residual_variances: Floats


def levels_of(tree: SplitTree, measured: Mapping[int, tuple[Floats, float]]) -> list[Level]:
    """Return what is known of each level from the lowest that was measured on.

    ``measured``: level -> its noisy sums, in the order of the tree, and the variance of their noise.
    """
    lowest = min(measured)
    sums, variance = measured[lowest]
    variances = np.full(sums.size, variance)
    nothing = np.zeros(sums.size)
    none = np.zeros((2, sums.size))
    result = [Level(sums, variances, nothing, nothing + inf, none, none)]
    for level in range(lowest + 1, tree.height + 1):
        halves = np.append(variances, 0.0)
        first, second = halves[tree.first[level - 1]], halves[tree.second[level - 1]]
        sums, variances, contrasts, noises = _joined_halves(tree, level, sums, variances)
        own, variance = measured.get(level, (sums, inf))
        trust = variances / (variances + variance)
        sums = sums + trust * (own - sums)
        variances = variances * (1 - trust)
        share = first_share(tree, level)
        residuals = np.stack([contrasts - (1 - share) * sums, contrasts + share * sums])
        residual_variances = np.stack(
            [
                _residual_variances(1 - share, trust, first, second),
                _residual_variances(share, trust, second, first),
            ]
        )
        result.append(Level(sums, variances, contrasts, noises, residuals, residual_variances))
    return result


def _joined_halves(
    tree: SplitTree, level: int, sums: Floats, variances: Floats
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return sums and contrasts of the halves below a level, and the variances of both."""
    first, second = tree.first[level - 1], tree.second[level - 1]
    sums, variances = np.append(sums, 0.0), np.append(variances, 0.0)
    share = first_share(tree, level)
    together = sums[first] + sums[second]
    spread = variances[first] + variances[second]
    contrasts = (1 - share) * sums[first] - share * sums[second]
    noises = (1 - share) ** 2 * variances[first] + share**2 * variances[second]
    single = (share == 0) | (share == 1)
    contrasts[single], noises[single] = 0.0, inf
    return together, spread, contrasts, noises


def _residual_variances(factor: Floats, trust: Floats, full: Floats, empty: Floats) -> Floats:
    """Return the variance of a contrast less factor·sum, if only the half with noise ``full`` holds anything.

    Such a contrast is factor·(true sum + noise of the full half) less (1 - factor) times the noise of the
    other. The sum is that of both noisy halves, moved by ``trust`` towards the box's own measurement, whose
    noise has the variance (full + empty)·(1 - trust)/trust.
    """
    moved = factor * trust
    own = factor**2 * trust * (1 - trust) * (full + empty)
    return np.asarray(moved**2 * full + own + (1 - moved) ** 2 * empty)


def first_share(tree: SplitTree, level: int) -> Floats:
    """Return what part of the cells of each box is in its first half."""
    return np.asarray(np.append(tree.sizes[level - 1], 0.0)[tree.first[level - 1]] / tree.sizes[level])


@dataclass
class _LevelParams:
    """What is learned of one level: how often boxes are uneven, and how wide their contrasts are."""

    below_even: float = 0.05
    below_uneven: float = 0.7
    width: float = 1.0
    weights: Floats = field(default_factory=lambda: np.full(_WAYS, 1 / _WAYS))


@dataclass(frozen=True, eq=False)
class _Posterior:
    means: Floats
    ways: Floats
    squares: Floats
    ratios: Floats


def smoothed(tree: SplitTree, lowest: int, levels: list[Level], total: float) -> Floats:
    """Return the estimated sums of the boxes of level ``lowest``, the first of ``levels``; none is negative.

    Whether a half is empty is judged by its box's sum as it was rebuilt, smoother than the noisy one. Around
    a few peaks in a void that is not good enough, as a little that is left over in so many boxes spoils all
    sums there: only the noisy sums judge, and a half that may well be empty gets nothing.
    """
    params = [_LevelParams() for _ in levels]
    for param, level in zip(params, levels, strict=True):
        known = level.noises[np.isfinite(level.noises)]
        param.width = max(float(known.mean()), _LEAST_BOUND) if known.size else 1.0
    sums = [np.maximum(level.sums, 0.0) for level in levels]
    bounds = [item**2 / 4 + level.variances for item, level in zip(sums, levels, strict=True)]
    for _ in range(2):
        halves = [
            _if_empty(tree, lowest + place, levels[place], sums[place]) for place in range(1, len(levels))
        ]
        posteriors, uneven = _learned(tree, lowest, levels, params, bounds, halves)
        sums = _rebuilt(tree, lowest, posteriors, uneven, total)
    if few_peaks(sums[0], float(levels[0].variances[0])):
        halves = [(level.residuals, level.residual_variances) for level in levels[1:]]
        posteriors, uneven = _learned(tree, lowest, levels, params, bounds, halves)
        sums = _rebuilt(tree, lowest, posteriors, uneven, total, empty_if_likely=True)
    return sums[0]


def few_peaks(sums: Floats, variance: float) -> bool:
    """Return whether nearly all boxes come out empty below their noise, and most records are in peaks."""
    noise = variance**0.5
    void = (sums < _NOTHING * noise).mean()
    peaks = sums[sums > _PEAK * noise].sum()
    return bool(void >= _VOID and peaks >= _PEAKED * sums.sum())


def _if_empty(tree: SplitTree, level: int, known: Level, sums: Floats) -> tuple[Floats, Floats]:
    """Return residuals and residual_variances, as in ``Level``, with boxes' sums as they were rebuilt."""
    share = first_share(tree, level)
    factors = np.stack([1 - share, -share])
    return known.contrasts - factors * sums, known.noises + factors**2 * known.variances


def _learned(
    tree: SplitTree,
    lowest: int,
    levels: list[Level],
    params: list[_LevelParams],
    bounds: list[Floats],
    halves: list[tuple[Floats, Floats]],
) -> tuple[list[_Posterior], list[Floats]]:
    """Learn the parameters of the levels, and return what each box says and how likely it is uneven."""
    for _ in range(_ROUNDS):
        posteriors = _upwards(tree, lowest, levels, params, bounds, halves)
        uneven = _downwards(tree, lowest, levels, params, posteriors)
    return posteriors, uneven


def _upwards(
    tree: SplitTree,
    lowest: int,
    levels: list[Level],
    params: list[_LevelParams],
    bounds: list[Floats],
    halves: list[tuple[Floats, Floats]],
) -> list[_Posterior]:
    """Return what each box and all below it say; nothing of the lowest boxes, which are not divided."""
    nothing = np.zeros(levels[0].sums.size)
    result = [_Posterior(nothing, np.empty((0, 0)), np.empty((0, 0)), nothing)]
    for place in range(1, len(levels)):
        level, param = levels[place], params[place]
        message, uneven = _messages(
            tree, lowest + place, result[-1].ratios, params[place - 1], lowest_one=place == 1
        )
        own, means, ways, squares = split_posterior(
            level.contrasts,
            level.noises,
            bounds[place],
            np.append(param.width * _WIDTHS, np.inf),
            param.weights,
            *halves[place - 1],
            uneven,
        )
        own += message
        result.append(_Posterior(means, ways, squares, np.clip(own, -_SURE, _SURE)))
    return result


def _messages(
    tree: SplitTree, level: int, ratios: Floats, param: _LevelParams, *, lowest_one: bool
) -> tuple[Floats, Floats]:
    """Return what the halves of boxes, with all below them, say of the boxes, in logarithms.

    First by how much they speak for an uneven box above them, rather than an even one, (boxes,); then (2,
    boxes) by how much the second half, and the first, speak for such a box rather than for being empty.
    """
    first, second = tree.first[level - 1], tree.second[level - 1]
    if lowest_one:  # their halves are not divided
        return np.zeros(first.size), np.zeros((2, first.size))
    odds = np.exp(ratios) - 1
    for_uneven = np.append(np.log1p(param.below_uneven * odds), 0.0)
    rather = for_uneven - np.append(np.log1p(param.below_even * odds), 0.0)
    return rather[first] + rather[second], np.stack([for_uneven[second], for_uneven[first]])


def _downwards(
    tree: SplitTree,
    lowest: int,
    levels: list[Level],
    params: list[_LevelParams],
    posteriors: list[_Posterior],
) -> list[Floats]:
    """Return how likely each box is uneven, and learn the parameters of the levels from it."""
    above = np.ones(1)
    result: list[Floats] = [np.zeros(0)] * len(levels)
    for place in range(len(levels) - 1, 0, -1):
        param, own = params[place], posteriors[place]
        odds = np.exp(own.ratios)
        below_uneven = param.below_uneven * odds / (1 + param.below_uneven * (odds - 1))
        below_even = param.below_even * odds / (1 + param.below_even * (odds - 1))
        result[place] = above * below_uneven + (1 - above) * below_even
        known = np.isfinite(levels[place].noises)
        _learn(param, own, result[place], above, below_uneven, below_even, known)
        if place > 1:
            above = _to_halves(tree, lowest + place, result[place], own.ways)
    return result


def _to_halves(tree: SplitTree, level: int, uneven: Floats, ways: Floats) -> Floats:
    """Return, for each half of the boxes of a level, how likely its box is uneven and the half not empty."""
    first, second = tree.first[level - 1], tree.second[level - 1]
    result = np.empty(tree.sizes[level - 1].size + 1)
    result[first] = uneven * (1 - ways[:, -1])
    result[second] = uneven * (1 - ways[:, -2])
    return result[:-1]


def _learn(
    param: _LevelParams,
    own: _Posterior,
    uneven: Floats,
    above: Floats,
    below_uneven: Floats,
    below_even: Floats,
    known: Bools,
) -> None:
    """Bring parameters to what is expected of its boxes, with a little of a prior in it."""
    above, uneven = above[known], uneven[known]
    likely = float((above * below_uneven[known]).sum() + 1) / float(above.sum() + 2)
    rare = float(((1 - above) * below_even[known]).sum() + 0.1) / float((1 - above).sum() + 2)
    param.below_uneven = min(max(likely, 0.02), 0.98)
    param.below_even = min(max(rare, 1e-4), 0.9)
    of = own.ways[known] * uneven[:, None]
    number = of.sum(axis=0)
    wide = of[:, : _WIDTHS.size]
    squares = float((wide * own.squares[known][:, : _WIDTHS.size] / _WIDTHS).sum())
    param.width = max((squares + 0.5 * param.width) / (float(wide.sum()) + 0.5), _NARROWEST)
    param.weights = (number + 1 / _WAYS) / (float(number.sum()) + 1)


def _rebuilt(
    tree: SplitTree,
    lowest: int,
    posteriors: list[_Posterior],
    uneven: list[Floats],
    total: float,
    *,
    empty_if_likely: bool = False,
) -> list[Floats]:
    """Return the sums of all boxes, from the total down, none of them negative."""
    sums = np.array([max(total, 0.0)])
    result = [sums]
    for place in range(len(posteriors) - 1, 0, -1):
        level = lowest + place
        first, second = tree.first[level - 1], tree.second[level - 1]
        share, own = first_share(tree, level), posteriors[place]
        only_first, only_second = own.ways[:, -2], own.ways[:, -1]
        contrast = own.means + (only_first * (1 - share) - only_second * share) * sums
        part = np.clip(share * sums + uneven[place] * contrast, 0.0, sums)
        if empty_if_likely:
            one, other = uneven[place] * only_first, uneven[place] * only_second
            part = np.where(np.maximum(one, other) < _DOUBTFUL, part, np.where(one > other, sums, 0.0))
        part = np.where(share == 1, sums, np.where(share == 0, 0.0, part))
        halves = np.empty(tree.sizes[level - 1].size + 1)
        halves[first] = part
        halves[second] = sums - part
        halves[-1] = 0.0
        sums = halves[:-1]
        result.append(sums)
    return result[::-1]


@compiled
def split_posterior(
    contrasts: Floats,
    noises: Floats,
    bounds: Floats,
    slabs: Floats,
    weights: Floats,
    residuals: Floats,
    residual_variances: Floats,
    against: Floats,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return, of each box, what its contrast says if the box is divided unevenly.

    By a contrast from one of some normal laws ("slabs"), or because all of it is in one of its halves.

    Parameters
    ----------
    contrasts, noises
        (boxes,) noisy contrasts and the variances of their noise; infinite: nothing is known.
    bounds
        (boxes,) no slab of a box is wider than this variance.
    slabs, weights
        (slabs,) variances of true contrasts; (slabs + 2,) probabilities of the ways.
    residuals, residual_variances
        (2, boxes) as in ``Level``.
    against
        (2, boxes) the log odds, by what lies below, against an empty second half, and an empty first one.

    Returns
    -------
    Log likelihood ratio against an even box, (boxes,); mean of the true contrast over the slabs times their
    probability, (boxes,); probabilities of the ways, (boxes, slabs + 2); mean squares by slab,
    (boxes, slabs).
    """
    boxes, kinds = contrasts.size, slabs.size
    ratios, means = np.zeros(boxes), np.zeros(boxes)
    ways, squares = np.zeros((boxes, kinds + 2)), np.zeros((boxes, kinds))
    logs = np.zeros(kinds + 2)
    for box in range(boxes):
        noise, seen = noises[box], contrasts[box]
        if not isfinite(noise):
            for kind in range(kinds + 2):
                ways[box, kind] = weights[kind]
            for kind in range(kinds):
                squares[box, kind] = min(slabs[kind], bounds[box])
            continue
        for kind in range(kinds):
            spread = noise + min(slabs[kind], bounds[box])
            logs[kind] = log(weights[kind]) - 0.5 * log(spread) - 0.5 * seen * seen / spread
        for half in range(2):
            off, spread = residuals[half, box], residual_variances[half, box]
            logs[kinds + half] = log(weights[kinds + half]) - 0.5 * log(spread) - 0.5 * off * off / spread
            logs[kinds + half] -= against[half, box]
        most = logs.max()
        total = 0.0
        for kind in range(kinds + 2):
            ways[box, kind] = exp(logs[kind] - most)
            total += ways[box, kind]
        for kind in range(kinds + 2):
            ways[box, kind] /= total
        for kind in range(kinds):
            slab = min(slabs[kind], bounds[box])
            trust = slab / (slab + noise)
            means[box] += ways[box, kind] * trust * seen
            squares[box, kind] = trust * trust * seen * seen + trust * noise
        ratios[box] = most + log(total) + 0.5 * log(noise) + 0.5 * seen * seen / noise
    return ratios, means, ways, squares
