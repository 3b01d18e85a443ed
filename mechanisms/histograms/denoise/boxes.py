"""Dyadic boxes of a table, and how tables are laid out for them.

An axis of n cells is laid over the dyadic intervals [k·2^j, (k + 1)·2^j), shifted by an offset: a binary tree
of 2n - 1 intervals, from single cells to the whole axis. An interval that sticks out is cut off; no cells are
added. A box is a product of one interval per axis; there are at most 2^d boxes to a cell.

Boxes are numbered like the elements of an array whose side a has one place per interval of axis a: cells
first, then longer and longer intervals, the axis itself last, so that halves precede their whole. Several
tables of one shape are treated at once: a first axis, never halved, says which.

Source: Donoho 1997; Blanchard, Schäfer, Rozenholc, Müller 2007 (dynamic programming over dyadic boxes).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from math import ceil, log2, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Floats, Integers
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.kernels.compiled import compiled


class Boxes(NamedTuple):
    """The boxes of tables of d - 1 axes, which are numbered along a first one.

    Attributes
    ----------
    strides
        Shape (d,): from a box to the one with the next interval of an axis.
    first
        Shape (d + 1,): where the intervals of an axis begin in the arrays below, which all have that length.
    left, right, parent
        The halves of an interval and the one it is half of, as places on its axis; -1.
    size, order, start, root
        Cells, log2 of that rounded up, first cell, √cells.
    lever
        √(m·m')/(m + m') for halves of m and m' cells; 0 for a cell.
    share
        The left half's share of the cells.
    """

    strides: Integers
    first: Integers
    left: Integers
    right: Integers
    parent: Integers
    size: Integers
    order: Integers
    start: Integers
    root: Floats
    lever: Floats
    share: Floats

    @property
    def sides(self) -> tuple[int, ...]:
        """Number of intervals of each axis."""
        return tuple(np.diff(self.first).tolist())


def boxes_of(shape: tuple[int, ...], offsets: tuple[int, ...]) -> Boxes:
    """Return the boxes of ``shape[0]`` tables of ``shape[1:]``.

    ``offsets``, one for each axis of a table, not negative: where on the dyadic grid its first cell stands.
    """
    sides = [shape[0], *(2 * side - 1 for side in shape[1:])]
    first = np.concatenate([[0], np.cumsum(sides)]).astype(np.int64)
    strides = np.cumprod([1, *sides[:0:-1]])[::-1].astype(np.int64)
    counts = [np.full(first[-1], fill, dtype=np.int64) for fill in (-1, -1, -1, 1, 0, 0)]
    reals = [np.full(first[-1], fill) for fill in (1.0, 0.0, 0.0)]
    boxes = Boxes(np.ascontiguousarray(strides), first, *counts, *reals)
    boxes.start[: shape[0]] = np.arange(shape[0])
    for a, (side, offset) in enumerate(zip(shape[1:], offsets, strict=True), 1):
        _halve(boxes, first[a], side, offset)
    return boxes


@compiled
def _halve(boxes: Boxes, first: int, side: int, offset: int) -> None:
    """Fill in the dyadic intervals of one axis, whose places begin at ``first``."""
    level = np.arange(side)
    for cell in range(side):
        boxes.start[first + cell] = cell
    held, made, shift = side, side, 0
    while held > 1:
        shift += 1
        kept, k = 0, 0
        while k < held:
            one = level[k]
            block = boxes.start[first + one] + offset >> shift
            if k + 1 < held and boxes.start[first + level[k + 1]] + offset >> shift == block:
                other = level[k + 1]
                m_one, m_other = boxes.size[first + one], boxes.size[first + other]
                size = m_one + m_other
                order = 0
                while 1 << order < size:
                    order += 1
                whole = first + made
                boxes.left[whole], boxes.right[whole] = one, other
                boxes.parent[first + one], boxes.parent[first + other] = made, made
                boxes.size[whole], boxes.order[whole] = size, order
                boxes.start[whole] = boxes.start[first + one]
                boxes.root[whole] = np.sqrt(size)
                boxes.lever[whole] = np.sqrt(m_one * m_other) / size
                boxes.share[whole] = m_one / size
                one = made
                made += 1
                k += 1
            level[kept] = one
            kept += 1
            k += 1
        held = kept


def means_of(table: Floats, boxes: Boxes) -> Floats:
    """Return the mean of the cells of every box, flat. Sums of whole numbers are exact up to 2^53."""
    means = np.zeros(boxes.sides)
    means[tuple(slice(side) for side in table.shape)] = table
    flat = means.reshape(-1)
    add_up(boxes, flat)
    for a, side in enumerate(boxes.sides):
        size = boxes.size[boxes.first[a] : boxes.first[a + 1]]
        means /= size.reshape((side,) + (1,) * (means.ndim - 1 - a))
    return flat


@compiled
def advance(at: Integers, long: Integers) -> None:
    """Step to the next place of an array with sides ``long``; from the last to the first."""
    for a in range(at.size - 1, -1, -1):
        at[a] += 1
        if at[a] < long[a]:
            break
        at[a] = 0


@compiled
def retreat(at: Integers, long: Integers) -> None:
    """Step to the place before, in an array with sides ``long``; from the first to the last."""
    for a in range(at.size - 1, -1, -1):
        at[a] -= 1
        if at[a] >= 0:
            break
        at[a] = long[a] - 1


@compiled
def add_up(boxes: Boxes, sums: Floats) -> None:
    """Fill in the sums of all boxes, where those of the single cells are given."""
    first, strides, left_of, right_of = boxes.first, boxes.strides, boxes.left, boxes.right
    d = strides.size
    at, sides = np.zeros(d, dtype=np.int64), first[1:] - first[:-1]
    for box in range(sums.size):
        for a in range(1, d):
            node = first[a] + at[a]
            if left_of[node] >= 0:
                left = box + (left_of[node] - at[a]) * strides[a]
                right = box + (right_of[node] - at[a]) * strides[a]
                sums[box] = sums[left] + sums[right]
                break
        advance(at, sides)


@compiled
def spread(boxes: Boxes, values: Floats) -> None:
    """Give what stands in a box to every cell in it: each cell ends with the sum over all boxes around it."""
    first, strides, left_of, right_of = boxes.first, boxes.strides, boxes.left, boxes.right
    for axis in range(1, strides.size):
        step, side = strides[axis], first[axis + 1] - first[axis]
        for block in range(values.size // (step * side)):
            for place in range(side - 1, -1, -1):
                left = left_of[first[axis] + place]
                if left >= 0:
                    begin = block * step * side
                    here, down = begin + place * step, begin + left * step
                    other = begin + right_of[first[axis] + place] * step
                    for k in range(step):
                        values[down + k] += values[here + k]
                        values[other + k] += values[here + k]


@compiled
def chain_room(boxes: Boxes) -> Integers:
    """Return, per axis, the most intervals that can lie around one cell; an offset may make one more."""
    room = np.zeros(boxes.strides.size, dtype=np.int64)
    for a in range(room.size):
        room[a] = boxes.order[boxes.first[a + 1] - 1] + 2
    return room


@compiled
def ancestor_chain(boxes: Boxes, cell: Integers, chain: Integers, long: Integers, steps: Integers) -> int:
    """Write down the intervals around a cell on each axis, from the cell up, and return the number of boxes.

    ``long`` (d,) becomes the number of intervals per axis, ``steps`` (d,) the strides of an array of them.
    """
    d = boxes.strides.size
    count = 1
    for a in range(d - 1, -1, -1):
        node, k = cell[a], 0
        while node >= 0:
            chain[a, k] = node
            k += 1
            node = boxes.parent[boxes.first[a] + node]
        long[a] = k
        steps[a] = count
        count *= k
    return count


@compiled
def ancestor_box(
    boxes: Boxes, chain: Integers, at: Integers, root: float
) -> tuple[int, int, float, int, int]:
    """Return a box around a cell: number, size, ``root``·√size, class, axes on which it can be halved."""
    box, size, kind, axes = 0, 1, 0, 0
    for a in range(at.size):
        node = boxes.first[a] + chain[a, at[a]]
        box += chain[a, at[a]] * boxes.strides[a]
        size *= boxes.size[node]
        root *= boxes.root[node]
        kind += boxes.order[node]
        if at[a] > 0:
            axes += 1 << a
    return box, size, root, kind, axes


@compiled
def sibling_box(boxes: Boxes, chain: Integers, at: Integers, axis: int, box: int) -> tuple[int, int, int]:
    """Return the half along an axis that holds the cell, as an interval and as a box, and the other half."""
    whole = chain[axis, at[axis]]
    inner = chain[axis, at[axis] - 1]
    outer = boxes.left[boxes.first[axis] + whole] + boxes.right[boxes.first[axis] + whole] - inner
    step = boxes.strides[axis]
    return inner, box + (inner - whole) * step, box + (outer - whole) * step


def cells_of(boxes: Boxes, values: Floats) -> Floats:
    """Return the part of an array over boxes that belongs to single cells, in the shape of the tables."""
    tables, *sides = boxes.sides
    return values.reshape(boxes.sides)[(slice(tables), *(slice((side + 1) // 2) for side in sides))]


Tile = tuple[slice, ...]

MOST_AXES = 10
"""Axes that can be smoothed over at once: there are up to 2^d boxes to a cell."""
MOST_BOXES = 1 << 23
"""In a tile: about 400 MiB of working memory with two axes."""


def axes_of(shape: tuple[int, ...], categorical: tuple[int, ...]) -> tuple[int, ...]:
    """Return axes in ascending order, none twice; negative ones count from the end."""
    if any(not -len(shape) <= axis < len(shape) for axis in categorical):
        raise MechanismError(
            f"a table of {len(shape)} dimensions has no such axis",
            where="categorical",
            hint="number the axes from 0, in the order of the table's dimensions",
        )
    return tuple(sorted({axis % len(shape) for axis in categorical}))


@dataclass(frozen=True)
class Layout:
    """A table as several tables of the same sides, which have nothing to do with one another.

    ``shape``: Of the table as it is given. ``apart``: Axes that are never smoothed across, ascending: they
    number the tables.
    """

    shape: tuple[int, ...]
    apart: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], categorical: tuple[int, ...]) -> Layout:
        """Return the layout of a table with these ``categorical`` axes (negative ones count from the end)."""
        layout = cls(shape, axes_of(shape, categorical))
        if len(layout.sides) > MOST_AXES:
            raise MechanismError(
                f"a table can be smoothed over {MOST_AXES} axes at most, not over {len(layout.sides)}",
                where="categorical",
                hint="name the axes without a natural order",
            )
        return layout

    @property
    def tables(self) -> int:
        """Number of tables."""
        return prod(self.shape[axis] for axis in self.apart)

    @property
    def sides(self) -> tuple[int, ...]:
        """Sides of each table; axes of one cell are left out."""
        return tuple(side for axis, side in enumerate(self.shape) if axis not in self.apart and side > 1)

    @property
    def cells(self) -> int:
        """Cells of each table."""
        return prod(self.sides)

    @property
    def boxes(self) -> int:
        """Dyadic boxes of all the tables."""
        return self.tables * _boxes(self.sides)

    @property
    def classes(self) -> int:
        """Number of classes of boxes by size: log2 of the cells, each side rounded up."""
        return sum(ceil(log2(side)) for side in self.sides) + 1

    def stack(self, table: NDArray[np.generic]) -> Floats:
        """Return the cells as float64, shape (tables, sides...)."""
        moved = np.moveaxis(table, self.apart, range(len(self.apart)))
        return np.ascontiguousarray(moved, dtype=np.float64).reshape(self.tables, *self.sides)

    def unstack(self, tables: Floats) -> Floats:
        """Return the cells in the shape of the table as it was given."""
        rest = [side for axis, side in enumerate(self.shape) if axis not in self.apart]
        whole = tables.reshape([self.shape[axis] for axis in self.apart] + rest)
        return np.ascontiguousarray(np.moveaxis(whole, range(len(self.apart)), self.apart)).reshape(
            self.shape
        )

    def tiles(self, boxes: int = MOST_BOXES) -> list[Tile]:
        """Return slices that cut (tables, sides...) into tiles of at most so many boxes, about equal ones.

        Nothing is smoothed across the edge of a tile; a tile is so large that this does not matter.
        """
        pieces = [1] * len(self.sides)
        sides = list(self.sides)
        while _boxes(tuple(sides)) > boxes:
            longest = int(np.argmax(sides))
            pieces[longest] *= 2
            sides[longest] = ceil(self.sides[longest] / pieces[longest])
        together = max(1, boxes // max(1, _boxes(tuple(sides))))
        ends = [[*range(0, self.tables, together), self.tables]]
        ends += [[side * k // n for k in range(n + 1)] for side, n in zip(self.sides, pieces, strict=True)]
        return list(product(*([slice(*pair) for pair in pairwise(along)] for along in ends)))

    def sample(self, tables: Floats, boxes: int) -> tuple[Floats, Layout]:
        """Return about so many boxes of the tables: all of them, or equal tiles from all over them."""
        if self.boxes <= boxes:
            return tables, self
        tiles = self.tiles(boxes // 8)
        sides = np.min([shape_of(tile) for tile in tiles], axis=0).tolist()
        count = max(1, boxes // (sides[0] * _boxes(tuple(sides[1:]))))
        golden = (5**0.5 - 1) / 2
        chosen = sorted({int(k * golden % 1 * len(tiles)) for k in range(min(count, len(tiles)))})
        starts = [[part.start for part in tiles[k]] for k in chosen]
        cut = [tuple(slice(s, s + n) for s, n in zip(start, sides, strict=True)) for start in starts]
        result = np.concatenate([tables[tile] for tile in cut])
        return result, Layout(result.shape, (0,))

    @property
    def spans(self) -> tuple[int, ...]:
        """Lengths of the shortest dyadic intervals that the sides fit into: so many offsets differ."""
        return tuple(1 << ceil(log2(side)) for side in self.sides)

    def offsets(self, count: int) -> Iterator[tuple[int, ...]]:
        """Yield ``count`` offsets of the dyadic grid, spread evenly over all there are; the first is 0.

        All of them, if there are no more. Otherwise the R-sequence of Roberts 2018: multiples of powers of
        the root of x^(d+1) = x + 1.
        """
        if count >= prod(self.spans):
            yield from product(*map(range, self.spans))
            return
        d = len(self.sides)
        root = 1.5
        for _ in range(60):
            root = (1 + root) ** (1 / (d + 1))
        for k in range(count):
            yield tuple(int(span * (k * root ** -(a + 1) % 1)) for a, span in enumerate(self.spans))


def shape_of(tile: Tile) -> tuple[int, ...]:
    """Return the shape that a tile cuts out."""
    return tuple(part.stop - part.start for part in tile)


def _boxes(sides: tuple[int, ...]) -> int:
    return prod(2 * side - 1 for side in sides)
