"""A hidden Markov tree: which boxes divide evenly, how far the others do not, and the table that follows.

Every box is even (its halves hold what their sizes say) or uneven: its contrast is of some width, or all of
it is in one half. Below an even box uneven ones are rare.
How rare, how frequent they are below uneven ones, and how wide the true contrasts of a level are spread, is
learned from the noisy contrasts themselves by expectation maximisation: one pass up the tree gives what each
box and all below it say, one pass down how likely each box is uneven. Only ratios of likelihoods are kept,
whose logarithms neither overflow nor vanish.

Then the table is rebuilt from the total down: each box is divided by the mean of its contrast, cut so that no
half is negative. That gives every box an estimated sum, and a contrast cannot be larger than half of it: so
all is learned a second time with that bound, and rebuilt.

Whether a half is empty is judged by the sum of its box as it was rebuilt, smoother than the noisy one.
In a table of a few peaks in a void that is not good enough: the sums of peaks are known so well, and the void
is so large, that a little that is left over in it spoils all sums there. There the noisy sums alone judge,
with their exact variance, all is learned once more, and a half that may well be empty (a fifth) gets nothing:
by the mean it would get a little, and a range that is nowhere near a peak covers many such halves.

Noise is taken for normal. The law of Laplace noise, as a mixture of normal ones, was tried: it made no set of
data clearly better, and took twice as long.

Source: Crouse, Nowak, Baraniuk 1998 (hidden Markov trees of wavelet coefficients); Chipman, Kolaczyk,
McCulloch 1997 (mixtures in place of thresholds). The bounds and the whole are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import exp, isfinite, log

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.histograms.denoise_ranges.split_tree import Level, SplitTree, first_share
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


@dataclass
class _Law:
    """What is learned of one level: how often boxes are uneven, and how wide their contrasts are."""

    below_even: float = 0.05
    below_uneven: float = 0.7
    width: float = 1.0
    weights: Floats = field(default_factory=lambda: np.full(_WAYS, 1 / _WAYS))


@dataclass(frozen=True, eq=False)
class _Judged:
    means: Floats
    ways: Floats
    squares: Floats
    ratios: Floats


def smoothed(tree: SplitTree, lowest: int, levels: list[Level], total: float) -> Floats:
    """Return the estimated sums of the boxes of level ``lowest``, none of them negative.

    Parameters
    ----------
    lowest
        The level that ``levels`` begins with.
    levels
        What is known of each.
    total
        The estimated total of the table.
    """
    laws = [_Law() for _ in levels]
    for law, level in zip(laws, levels, strict=True):
        known = level.noises[np.isfinite(level.noises)]
        law.width = max(float(known.mean()), _LEAST_BOUND) if known.size else 1.0
    sums = [np.maximum(level.sums, 0.0) for level in levels]
    bounds = [each**2 / 4 + level.variances for each, level in zip(sums, levels, strict=True)]
    for _ in range(2):
        halves = [
            _if_empty(tree, lowest + place, levels[place], sums[place]) for place in range(1, len(levels))
        ]
        judged, uneven = _learned(tree, lowest, levels, laws, bounds, halves)
        sums = _rebuilt(tree, lowest, judged, uneven, total)
    if few_peaks(sums[0], float(levels[0].variances[0])):
        halves = [(level.rests, level.doubts) for level in levels[1:]]
        judged, uneven = _learned(tree, lowest, levels, laws, bounds, halves)
        sums = _rebuilt(tree, lowest, judged, uneven, total, empty_if_likely=True)
    return sums[0]


def few_peaks(sums: Floats, variance: float) -> bool:
    """Return whether nearly all boxes come out empty beside their noise, and most records are in peaks."""
    noise = variance**0.5
    void = (sums < _NOTHING * noise).mean()
    peaks = sums[sums > _PEAK * noise].sum()
    return bool(void >= _VOID and peaks >= _PEAKED * sums.sum())


def _if_empty(tree: SplitTree, level: int, known: Level, sums: Floats) -> tuple[Floats, Floats]:
    """Return rests and doubts, as in ``Level``, with boxes' sums as they were rebuilt."""
    share = first_share(tree, level)
    factors = np.stack([1 - share, -share])
    return known.contrasts - factors * sums, known.noises + factors**2 * known.variances


def _learned(
    tree: SplitTree,
    lowest: int,
    levels: list[Level],
    laws: list[_Law],
    bounds: list[Floats],
    halves: list[tuple[Floats, Floats]],
) -> tuple[list[_Judged], list[Floats]]:
    """Learn the laws, and return what each box says and how likely it is uneven."""
    for _ in range(_ROUNDS):
        judged = _upwards(tree, lowest, levels, laws, bounds, halves)
        uneven = _downwards(tree, lowest, levels, laws, judged)
    return judged, uneven


def _upwards(
    tree: SplitTree,
    lowest: int,
    levels: list[Level],
    laws: list[_Law],
    bounds: list[Floats],
    halves: list[tuple[Floats, Floats]],
) -> list[_Judged]:
    """Return what each box and all below it say; nothing of the lowest boxes, which are not divided."""
    nothing = np.zeros(levels[0].sums.size)
    found = [_Judged(nothing, np.empty((0, 0)), np.empty((0, 0)), nothing)]
    for place in range(1, len(levels)):
        level, law = levels[place], laws[place]
        said, uneven = _messages(
            tree, lowest + place, found[-1].ratios, laws[place - 1], lowest_one=place == 1
        )
        own, means, ways, squares = judge(
            level.contrasts,
            level.noises,
            bounds[place],
            np.append(law.width * _WIDTHS, np.inf),
            law.weights,
            *halves[place - 1],
            uneven,
        )
        own += said
        found.append(_Judged(means, ways, squares, np.clip(own, -_SURE, _SURE)))
    return found


def _messages(
    tree: SplitTree, level: int, ratios: Floats, law: _Law, *, lowest_one: bool
) -> tuple[Floats, Floats]:
    """Return what the halves of boxes, with all below them, say of the boxes, in logarithms.

    First by how much they speak for an uneven box above them, rather than an even one, (boxes,); then (2,
    boxes) by how much the second half, and the first, speak for such a box rather than for being empty.
    """
    first, second = tree.first[level - 1], tree.second[level - 1]
    if lowest_one:  # their halves are not divided
        return np.zeros(first.size), np.zeros((2, first.size))
    odds = np.exp(ratios) - 1
    for_uneven = np.append(np.log1p(law.below_uneven * odds), 0.0)
    rather = for_uneven - np.append(np.log1p(law.below_even * odds), 0.0)
    return rather[first] + rather[second], np.stack([for_uneven[second], for_uneven[first]])


def _downwards(
    tree: SplitTree, lowest: int, levels: list[Level], laws: list[_Law], judged: list[_Judged]
) -> list[Floats]:
    """Return how likely each box is uneven, and learn the laws of the levels from it."""
    above = np.ones(1)
    found: list[Floats] = [np.zeros(0)] * len(levels)
    for place in range(len(levels) - 1, 0, -1):
        law, own = laws[place], judged[place]
        odds = np.exp(own.ratios)
        below_uneven = law.below_uneven * odds / (1 + law.below_uneven * (odds - 1))
        below_even = law.below_even * odds / (1 + law.below_even * (odds - 1))
        found[place] = above * below_uneven + (1 - above) * below_even
        known = np.isfinite(levels[place].noises)
        _learn(law, own, found[place], above, below_uneven, below_even, known)
        if place > 1:
            above = _to_halves(tree, lowest + place, found[place], own.ways)
    return found


def _to_halves(tree: SplitTree, level: int, uneven: Floats, ways: Floats) -> Floats:
    """Return, for each half of the boxes of a level, how likely its box is uneven and the half not empty."""
    first, second = tree.first[level - 1], tree.second[level - 1]
    found = np.empty(tree.sizes[level - 1].size + 1)
    found[first] = uneven * (1 - ways[:, -1])
    found[second] = uneven * (1 - ways[:, -2])
    return found[:-1]


def _learn(
    law: _Law,
    own: _Judged,
    uneven: Floats,
    above: Floats,
    below_uneven: Floats,
    below_even: Floats,
    known: NDArray[np.bool_],
) -> None:
    """Bring a law to what is expected of its boxes, with a little of a prior in it."""
    above, uneven = above[known], uneven[known]
    likely = float((above * below_uneven[known]).sum() + 1) / float(above.sum() + 2)
    rare = float(((1 - above) * below_even[known]).sum() + 0.1) / float((1 - above).sum() + 2)
    law.below_uneven = min(max(likely, 0.02), 0.98)
    law.below_even = min(max(rare, 1e-4), 0.9)
    of = own.ways[known] * uneven[:, None]
    number = of.sum(axis=0)
    wide = of[:, : _WIDTHS.size]
    squares = float((wide * own.squares[known][:, : _WIDTHS.size] / _WIDTHS).sum())
    law.width = max((squares + 0.5 * law.width) / (float(wide.sum()) + 0.5), _NARROWEST)
    law.weights = (number + 1 / _WAYS) / (float(number.sum()) + 1)


def _rebuilt(
    tree: SplitTree,
    lowest: int,
    judged: list[_Judged],
    uneven: list[Floats],
    total: float,
    *,
    empty_if_likely: bool = False,
) -> list[Floats]:
    """Return the sums of all boxes, from the total down, none of them negative."""
    sums = np.array([max(total, 0.0)])
    found = [sums]
    for place in range(len(judged) - 1, 0, -1):
        level = lowest + place
        first, second = tree.first[level - 1], tree.second[level - 1]
        share, own = first_share(tree, level), judged[place]
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
        found.append(sums)
    return found[::-1]


@compiled
def judge(
    contrasts: Floats,
    noises: Floats,
    bounds: Floats,
    slabs: Floats,
    weights: Floats,
    rests: Floats,
    doubts: Floats,
    against: Floats,
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return, of each box, what its contrast says if the box is divided unevenly.

    It may be so in several ways: by a contrast from one of some normal laws ("slabs"), or because all of the
    box is in its first half, or in its second.

    Parameters
    ----------
    contrasts, noises
        (boxes,) noisy contrasts and the variances of their noise; infinite: nothing is known.
    bounds
        (boxes,) no slab of a box is wider than this variance.
    slabs
        (slabs,) variances of true contrasts.
    weights
        (slabs + 2,) probabilities of the ways.
    rests, doubts
        (2, boxes) the contrast less what it is if all of the box is in its first half, and in its second, as
        far as the box's sum is known; and the variance of that if it is so.
    against
        (2, boxes) by how much (in logarithms) what lies below speaks against an empty second half, and an
        empty first one.

    Returns
    -------
    The logarithm of the likelihood ratio against an even box, (boxes,); the mean of the true contrast over
    the slabs times their probability, (boxes,); the probabilities of the ways, (boxes, slabs + 2); the mean
    squares by slab, (boxes, slabs).
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
            off, spread = rests[half, box], doubts[half, box]
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
