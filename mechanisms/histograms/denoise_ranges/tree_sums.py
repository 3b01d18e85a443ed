"""What noisy sums of several levels say together: of each box, and of how it divides.

From the cells up, what the halves of a box say of its sum is averaged with its own measurement, by their
variances. Below the lowest measured level nothing is known but that cells are alike.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.histograms.denoise_ranges.split_tree import SplitTree

Floats = NDArray[np.float64]


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
    rests
        (2, boxes) the contrasts less what they are if all of the box is in its first half, and in its second:
        by how much a half that should be empty is not. 0 on average if it is empty.
    doubts
        (2, boxes) variances of ``rests`` if it is. In this, that the box's sum is known by its halves too is
        allowed for.
    """

    sums: Floats
    variances: Floats
    contrasts: Floats
    noises: Floats
    rests: Floats
    doubts: Floats


def levels_of(tree: SplitTree, measured: Mapping[int, tuple[Floats, float]]) -> list[Level]:
    """Return what is known of each level, the lowest that was measured first (``min(measured)``).

    Parameters
    ----------
    measured
        Level -> its noisy sums, in the order of the tree, and the variance of their noise.
    """
    lowest = min(measured)
    sums, variance = measured[lowest]
    variances = np.full(sums.size, variance)
    nothing = np.zeros(sums.size)
    none = np.zeros((2, sums.size))
    found = [Level(sums, variances, nothing, nothing + inf, none, none)]
    for level in range(lowest + 1, tree.height + 1):
        halves = np.append(variances, 0.0)
        first, second = halves[tree.first[level - 1]], halves[tree.second[level - 1]]
        sums, variances, contrasts, noises = _joined(tree, level, sums, variances)
        own, variance = measured.get(level, (sums, inf))
        trust = variances / (variances + variance)
        sums = sums + trust * (own - sums)
        variances = variances * (1 - trust)
        share = first_share(tree, level)
        rests = np.stack([contrasts - (1 - share) * sums, contrasts + share * sums])
        doubts = np.stack([_doubts(1 - share, trust, first, second), _doubts(share, trust, second, first)])
        found.append(Level(sums, variances, contrasts, noises, rests, doubts))
    return found


def _joined(
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
    alone = (share == 0) | (share == 1)
    contrasts[alone], noises[alone] = 0.0, inf
    return together, spread, contrasts, noises


def _doubts(factor: Floats, trust: Floats, full: Floats, empty: Floats) -> Floats:
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
