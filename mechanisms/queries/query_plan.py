"""From a query and a table's attributes to the cells that are asked for.

A plan is a product: of every attribute the chosen cells, and the rows that they are shared out to. A query
with ``or`` over several attributes becomes several plans that share no cell (:mod:`.region`).

Bins without an end. "85+" holds whoever is 85 or older, and ends where the spec had to end somewhere. A sum,
an average or a quantile takes every record at the middle of its bin, which there is the middle of numbers
that hardly anybody has. So such a bin is asked about: the query leaves it out, or says up to which number it
goes, which somebody must know from elsewhere. A last bin has no end to speak of if its label says where it
begins and not where it ends ("85+", "5 or more"), or if it is wider than all other bins together ("0-9",
"20-1000000").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.queries.attributes import AnyAttribute, Groups, close, listed, shown_number
from tabularium.mechanisms.queries.grammar import (
    Comparison,
    Either,
    Measure,
    Member,
    Null,
    Query,
    Test,
    Word,
    plain,
    query_error,
)

_GROUPS = re.compile(r"(?<=\d)[ ,.'_\u00a0\u202f](?=\d{3}\b)")
_DIGITS = re.compile(r"\d+")
Place = tuple[int, str | None]
"""Which attribute, and which of its levels if one is named."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What is asked of one table.

    Attributes
    ----------
    measure
        What is computed.
    of
        Which attribute it is computed of; None for a count.
    numbers
        Of it, the smallest and the largest number of each cell that the query chooses; ones for a count.
    masks
        Of every attribute, (cells,): which cells are chosen.
    by
        Which attributes make the rows, in the order asked for, with their groups.
    headings
        The names of ``by`` as they were asked for.
    """

    measure: Measure
    of: int | None
    numbers: tuple[Floats, Floats]
    masks: tuple[Bools, ...]
    by: tuple[tuple[int, Groups], ...]
    headings: tuple[str, ...]


def plans(query: Query, attributes: Sequence[AnyAttribute], *, tree: bool = False) -> tuple[Plan, ...]:
    """Bind a query to the attributes of a table.

    Parameters
    ----------
    tree
        Whether the first attribute is the hierarchy whose nodes are the rows of the table.

    Returns
    -------
    Plans that together choose each chosen cell once; of a query without ``or`` over several attributes, one.
    All have the same ``numbers``, those of the cells that any of them chooses. Two of them differ in the
    cells of another attribute than the hierarchy, whose noise is independent of each other.

    Raises
    ------
    InputError
        Naming the character of what is not known, cannot be told apart, or cannot be computed.
    """
    region = chosen(query.where, attributes, tree=tree)
    boxes = region.boxes or (tuple(np.zeros(attribute.cells, bool) for attribute in attributes),)
    of, numbers = None, (np.ones(1), np.ones(1))
    if query.of is not None:
        of, _ = find(query.of, attributes)
        mask = np.logical_or.reduce([box[of] for box in boxes])
        low, high = attributes[of].values(mask, query.of.at)  # which refuses what is not a number
        if query.measure in {"sum", "average", "quantile"}:
            high = closed(attributes[of], (low, high), mask, query.of, query.up_to)
        numbers = low[mask], high[mask]
    by: list[tuple[int, Groups]] = []
    for name in query.by:
        place, level = find(name, attributes)
        if place == of:
            raise query_error(
                name.at,
                f"{query.measure} of {plain(name.text)} by itself says nothing",
                "leave it out of `by`",
            )
        if any(place == other for other, _ in by):
            raise query_error(name.at, f"{plain(name.text)} is here twice", "name one level of it")
        by.append((place, attributes[place].groups(level)))
    headings = tuple(name.text for name in query.by)
    return tuple(Plan(query.measure, of, numbers, box, tuple(by), headings) for box in boxes)


def chosen(tests: Sequence[Test], attributes: Sequence[AnyAttribute], *, tree: bool = False) -> Region:
    """Return the cells in which all tests hold.

    Raises
    ------
    InputError
        As for :func:`plans`.
    """
    region = Region.everything(attributes, tree=tree)
    for test in tests:
        if isinstance(test, Either):
            options = [chosen(option, attributes, tree=tree) for option in test.options]
            region &= reduce(Region.__or__, options)
        else:
            place, mask = bound(test, attributes)
            region &= Region.everything(attributes, tree=tree).where(place, mask)
    return region


def known_names(attributes: Sequence[AnyAttribute]) -> list[str]:
    """Return every name that a query may use, attributes first."""
    names = [attribute.name for attribute in attributes]
    return list(dict.fromkeys([*names, *(level for a in attributes for level in a.levels)]))


def find(word: Word, attributes: Sequence[AnyAttribute]) -> Place:
    """Return the attribute, and the level, that a name means.

    An attribute's own name comes before names of levels; ``attribute.level`` is never ambiguous.

    Raises
    ------
    InputError
        If there is no such name, or several attributes have a level of that name.
    """
    place = _find(word, attributes)
    if place is not None:
        return place
    names = known_names(attributes)
    near = close(word.text, names)
    guess = f"did you mean {plain(near)}? " if near is not None else ""
    raise query_error(
        word.at, f"there is no attribute {plain(word.text)}", f"{guess}known are {listed(names, 16)}"
    )


def _find(word: Word, attributes: Sequence[AnyAttribute]) -> Place | None:
    text = word.text.casefold()
    for place, attribute in enumerate(attributes):
        if attribute.name.casefold() == text:
            return place, None
    places = [
        (place, level)
        for place, attribute in enumerate(attributes)
        for level in attribute.levels
        if text in (level.casefold(), f"{attribute.name}.{level}".casefold())
    ]
    if len(places) > 1:
        full = [f"{attributes[place].name}.{level}" for place, level in places]
        raise query_error(
            word.at, f"several attributes have a level {plain(word.text)}", f"write {listed(full)}"
        )
    return places[0] if places else None


def bound(test: Comparison | Member | Null, attributes: Sequence[AnyAttribute]) -> tuple[int, Bools]:
    """Return which attribute a test is about, and in which of its cells it holds."""
    if isinstance(test, Null):
        raise query_error(test.name.at, "a release does not say which values were null", "leave the test out")
    if isinstance(test, Member):
        place, level = find(test.name, attributes)
        mask = attributes[place].mask(test.values, level)
        return place, ~mask if test.negated else mask
    if test.either and _find(test.left, attributes) is None and _find(test.right, attributes) is not None:
        test = test.flipped
    place, level = find(test.left, attributes)
    attribute = attributes[place]
    if test.op in {"=", "!="}:
        mask = attribute.mask([test.right], level)
        return place, mask if test.op == "=" else ~mask
    return place, attribute.span(test.op, test.right, level)


def closed(
    attribute: AnyAttribute, numbers: tuple[Floats, Floats], chosen: Bools, of: Word, up_to: Word | None
) -> Floats:
    """Return the largest number of each cell, the last one's as the query says it.

    Parameters
    ----------
    numbers
        (cells,) smallest and largest of each cell, NaN for cells without numbers.
    chosen
        (cells,) which are asked for.
    of, up_to
        The attribute as the query names it, and where it says that the last bin ends.

    Raises
    ------
    InputError
        If a bin without an end is asked for and the query does not say where it ends, or says what cannot be.
    """
    low, high = numbers
    last = int(np.nanargmax(high))
    label = attribute.labels[last]
    if up_to is None:
        if chosen[last] and _open(label, low, high, last):
            begins = shown_number(low[last])
            raise query_error(
                of.at,
                f"the bin {plain(label)} of {plain(of.text)} has no end to reckon with",
                f"write {of.text} up to NUMBER if the largest value is public, or leave it out: "
                f"where {of.text} < {begins}",
            )
        return high
    try:
        end = float(up_to.text)
    except ValueError:
        end = np.nan
    if not (chosen[last] and low[last] <= end <= high[last]):
        raise query_error(
            up_to.at,
            f"{plain(up_to.text)} does not end the bin {plain(label)}",
            f"write a number from {shown_number(low[last])} to {shown_number(high[last])}",
        )
    ended = high.copy()
    ended[last] = end
    return ended


def _open(label: str, low: Floats, high: Floats, last: int) -> bool:
    """Say whether a last bin has no end to speak of."""
    widths = high - low + 1
    others = float(np.nansum(widths) - widths[last])
    if widths[last] <= 1 or not others:
        return False
    said = {int(text) for text in _DIGITS.findall(_GROUPS.sub("", label))}
    begins = bool(said & {abs(int(low[last])), abs(int(low[last]) - 1)})
    ends = bool(said & {abs(int(high[last])), abs(int(high[last]) + 1)})
    return (begins and not ends) or float(widths[last]) > others


# A box is a product: of every attribute some cells. ``age < 20 or sex = F`` chooses no box, but the boxes
# "age < 20" and "sex = F, age >= 20". The boxes of a region differ in the cells of an attribute other than
# the hierarchy along which a table is estimated: noise is independent between cells of different columns,
# not between nodes of one column, so that sums over different boxes have independent errors.

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
