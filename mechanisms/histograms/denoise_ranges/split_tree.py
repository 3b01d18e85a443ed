"""A table halved again and again, along its longest axis first, down to single cells.

A cell's place is written in bits, one number for each axis; the bits of all axes, in the order in which the
axes are halved, make one number, the cell's code. All cells of a box of the tree share the first bits of
their codes, so the boxes of a level are runs of the sorted codes. Sides need not be powers of two: boxes
beyond the table do not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Floats, Integers


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
        """Return the tree of a table.

        Parameters
        ----------
        shape
            Of the table.
        apart
            Axes without order: they are halved before all others, so that no smaller box reaches across.
        """
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
            alone, odd = end - begin == 1, codes[begin] & 1 == 1
            firsts.append(np.where(odd, codes.size, begin))
            seconds.append(np.where(odd, begin, np.where(alone, codes.size, begin + 1)))
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
        found = np.empty(cells.size)
        found[self.order] = cells
        return found.reshape(self.shape)


def split_axes(shape: tuple[int, ...], apart: tuple[int, ...] = ()) -> tuple[int, ...]:
    """Return along which axis each level is halved, from the level of pairs of cells to the whole table.

    The axis with the most halvings to come is halved first; those named ``apart`` before all others.
    """
    left = [(side - 1).bit_length() for side in shape]
    found = []
    for group in (apart, tuple(axis for axis in range(len(shape)) if axis not in apart)):
        while any(left[axis] for axis in group):
            axis = max(group, key=lambda axis: left[axis])
            left[axis] -= 1
            found.append(axis)
    return tuple(found[::-1])


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
