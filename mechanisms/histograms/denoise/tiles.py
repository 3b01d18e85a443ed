"""How a table is laid out for smoothing: tables side by side, cut into tiles that fit into memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from math import ceil, log2, prod

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.errors import MechanismError

Tile = tuple[slice, ...]

MOST_AXES = 10
"""Axes that can be smoothed over at once: there are up to 2^d boxes to a cell."""
MOST_BOXES = 1 << 23
"""In a tile: about 400 MiB of working memory with two axes."""


def axes_of(shape: tuple[int, ...], categorical: tuple[int, ...]) -> tuple[int, ...]:
    """Return axes in ascending order, none twice; negative ones count from the end.

    Raises
    ------
    MechanismError
        There is no such axis.
    """
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

    Attributes
    ----------
    shape
        Of the table as it is given.
    apart
        Axes that are never smoothed across, ascending: they number the tables.
    """

    shape: tuple[int, ...]
    apart: tuple[int, ...]

    @classmethod
    def of(cls, shape: tuple[int, ...], categorical: tuple[int, ...]) -> Layout:
        """Return the layout of a table with these ``categorical`` axes (negative ones count from the end).

        Raises
        ------
        MechanismError
            There is no such axis, or there are too many axes to smooth over.
        """
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
        found = np.concatenate([tables[tile] for tile in cut])
        return found, Layout(found.shape, (0,))

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
