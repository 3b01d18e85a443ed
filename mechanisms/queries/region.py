"""Cells chosen by tests on several attributes, as boxes that share no cell.

A box is a product: of every attribute some cells. ``age < 20 or sex = F`` chooses no box, but the boxes
"age < 20" and "sex = F, age >= 20". The boxes of a region differ in the cells of an attribute other than the
hierarchy along which a table is estimated: noise is independent between cells of different columns, not
between nodes of one column, so that sums over different boxes have independent errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tabularium.mechanisms.arrays import Bools
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.queries.attributes import AnyAttribute

MOST = 200
"""Boxes of a region."""

Box = tuple[Bools, ...]


@dataclass(frozen=True, eq=False)
class Region:
    """Chosen cells.

    Attributes
    ----------
    boxes
        Of each the chosen cells of every attribute; none of them is empty.
    tree
        Whether the first attribute is the hierarchy of the table.
    """

    boxes: tuple[Box, ...]
    tree: bool

    @classmethod
    def everything(cls, attributes: Sequence[AnyAttribute], *, tree: bool) -> Region:
        """Return all cells."""
        return cls((tuple(np.ones(attribute.cells, bool) for attribute in attributes),), tree)

    def where(self, place: int, mask: Bools) -> Region:
        """Return the cells that have one of some values of an attribute."""
        return self._of([_with(box, place, box[place] & mask) for box in self.boxes])

    def __and__(self, other: Region) -> Region:
        """Return the cells in both."""
        return self._of([_both(one, two) for one in self.boxes for two in other.boxes])

    def __or__(self, other: Region) -> Region:
        """Return the cells in either."""
        boxes = [*self._beyond(other), *other._beyond(self)]
        for one in self.boxes:
            for two in other.boxes:
                both = _both(one, two)
                # In columns of both the nodes of the hierarchy are joined, not laid side by side.
                boxes.append(_with(both, 0, one[0] | two[0]) if self.tree else both)
        return self._of(boxes)

    def _beyond(self, other: Region) -> list[Box]:
        """Return the boxes without the columns of another region's."""
        left = list(self.boxes)
        for taken in other.boxes:
            left = [piece for box in left for piece in self._without(box, taken)]
        return left

    def _without(self, box: Box, taken: Box) -> list[Box]:
        pieces = []
        for place in range(int(self.tree), len(box)):
            pieces.append(_with(box, place, box[place] & ~taken[place]))
            box = _with(box, place, box[place] & taken[place])
        return [piece for piece in pieces if _some(piece)]

    def _of(self, boxes: list[Box]) -> Region:
        """Return the region of these boxes, those joined that are one."""
        kept: list[Box] = []
        for each in filter(_some, boxes):
            box, place = each, 0
            while place < len(kept):
                joined = self._joined(kept[place], box)
                if joined is None:
                    place += 1
                else:
                    box, place = joined, 0
                    kept = [other for other in kept if not _within(other, box)]
            kept.append(box)
        if len(kept) > MOST:
            raise InputError(
                "there are too many alternatives", where="query", hint="ask about a part of them at a time"
            )
        return Region(tuple(kept), self.tree)

    @staticmethod
    def _joined(one: Box, two: Box) -> Box | None:
        """Return two boxes as one, if they differ along one attribute at most."""
        apart = [place for place in range(len(one)) if not np.array_equal(one[place], two[place])]
        if len(apart) > 1:
            return None
        return tuple(a | b for a, b in zip(one, two, strict=True))


def _with(box: Box, place: int, mask: Bools) -> Box:
    return (*box[:place], mask, *box[place + 1 :])


def _both(one: Box, two: Box) -> Box:
    return tuple(a & b for a, b in zip(one, two, strict=True))


def _some(box: Box) -> bool:
    return all(mask.any() for mask in box)


def _within(one: Box, two: Box) -> bool:
    return all(not (a & ~b).any() for a, b in zip(one, two, strict=True))
