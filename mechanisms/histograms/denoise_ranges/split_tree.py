"""A table halved again and again, along its longest axis first, down to single cells.

A cell's place is written in bits, one number for each axis; the bits of all axes, in the order in which the
axes are halved, make one number, the cell's code. All cells of a box of the tree share the first bits of
their codes, so the boxes of a level are runs of the sorted codes. Sides need not be powers of two: boxes
beyond the table do not exist.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


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
