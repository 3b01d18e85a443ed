"""Selection: from a query and a table's axes to the cells that are asked for, and the rows that sum them.

A plan says of every cell whether it is chosen, and what makes the rows (:func:`bind`); laid over the axes of
a table it becomes :class:`Rows`, the number of the sum that each cell is a part of.

Bins without an end. "85+" holds whoever is 85 or older, and ends where the spec had to end somewhere. A sum,
an average or a quantile takes every record at the middle of its bin, which there is the middle of numbers
that hardly anybody has. So such a bin is asked about: the query leaves it out, or says up to which number it
goes, which somebody must know from elsewhere. A last bin has no end to speak of if its label says where it
begins and not where it ends ("85+", "5 or more"), or if it is wider than all other bins together ("0-9",
"20-1000000").
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Bools, Floats, Indices, Integers
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.inference import Hierarchy
from tabularium.mechanisms.linear_measurements.linear_measurement import Sums
from tabularium.mechanisms.queries.attributes import (
    AnyAttribute,
    Attribute,
    Groups,
    TreeAttribute,
    close,
    listed,
    shown_number,
)
from tabularium.mechanisms.queries.grammar import (
    Comparison,
    Either,
    Member,
    Null,
    Query,
    Test,
    Word,
    plain,
    query_error,
)

MOST_ROWS = 1_000_000
"""Rows of an answer."""

_GROUPS = re.compile(r"(?<=\d)[ ,.'_\u00a0\u202f](?=\d{3}\b)")
_DIGITS = re.compile(r"\d+")
_MIXED = -2
Place = tuple[int, str | None]
"""Which attribute, and which of its levels if one is named."""


@dataclass(frozen=True, eq=False)
class Axes:
    """The attributes of a table: a hierarchy, if there is one, crossed with the others.

    Attributes
    ----------
    tree
        The hierarchy, whose nodes are the rows of the table; None for one row.
    others
        The other attributes, in the order of the axes.
    """

    tree: TreeAttribute | None
    others: tuple[Attribute | TreeAttribute, ...]

    @property
    def attributes(self) -> tuple[AnyAttribute, ...]:
        """All of them, the hierarchy first, as a plan numbers them."""
        return (*([] if self.tree is None else [self.tree]), *self.others)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of cells of each of the other attributes."""
        return tuple(attribute.cells for attribute in self.others)

    @property
    def parents(self) -> Integers:
        """(nodes,) of the hierarchy; a single root without one."""
        return np.array([-1]) if self.tree is None else self.tree.parents

    @property
    def leaves(self) -> Indices:
        """Node numbers of the leaves."""
        return np.array([0]) if self.tree is None else self.tree.leaves

    def along(self, place: int, numbers: Integers) -> Integers:
        """Return (cells,) numbers of an attribute so that they broadcast to (leaves, *axes)."""
        axis = place + (self.tree is None)  # a table without a hierarchy has one leaf
        return numbers.reshape([-1 if other == axis else 1 for other in range(len(self.others) + 1)])


@dataclass(frozen=True, eq=False)
class Plan:
    """What is asked of one table.

    Attributes
    ----------
    of
        Which attribute it is computed of; None for a count.
    numbers
        Of it, the smallest and the largest number of each cell that the query chooses; ones for a count.
    chosen
        Which cells are chosen: an axis for each attribute, of one cell where no test is about it.
    by
        Which attributes make the rows, in the order asked for, with their groups.
    headings
        The names of ``by`` as they were asked for.
    """

    of: int | None
    numbers: tuple[Floats, Floats]
    chosen: Bools
    by: tuple[tuple[int, Groups], ...]
    headings: tuple[str, ...]


def bind(query: Query, attributes: Sequence[AnyAttribute]) -> Plan:
    """Bind a query to the attributes of a table.

    Raises
    ------
    InputError
        Naming the character of what is not known, cannot be told apart, or cannot be computed.
    """
    picked = chosen(query.where, attributes)
    of, numbers = None, (np.ones(1), np.ones(1))
    if query.of is not None:
        of, _ = find(query.of, attributes)
        others = tuple(axis for axis in range(picked.ndim) if axis != of)
        mask = np.broadcast_to(picked.any(axis=others), attributes[of].cells)
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
    return Plan(of, numbers, picked, tuple(by), tuple(name.text for name in query.by))


def chosen(tests: Sequence[Test], attributes: Sequence[AnyAttribute]) -> Bools:
    """Return in which cells all tests hold; along an attribute without a test, one cell stands for all."""
    found = np.ones((1,) * len(attributes), bool)
    for test in tests:
        if isinstance(test, Either):
            found = found & reduce(np.logical_or, (chosen(each, attributes) for each in test.options))
        else:
            place, mask = bound(test, attributes)
            found = found & mask.reshape([-1 if axis == place else 1 for axis in range(len(attributes))])
    return found


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
    """Return the largest number of each cell, the last one's as the query says it with ``up_to``.

    ``numbers`` are the smallest and largest of each cell, NaN for cells without.

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


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of an answer on the axes of a table.

    Attributes
    ----------
    of
        (leaves, cells of the other axes) the sum that each cell is a part of, row·columns + column; -1 where
        it is in none.
    columns
        How many cells the attribute that is measured has among the chosen ones; 1 for a count.
    labels
        (code, label) of the groups of each row.
    tops
        The groups of the hierarchy that make rows; None where they do not.
    """

    axes: Axes
    of: Indices
    columns: int
    labels: list[tuple[tuple[str, str], ...]]
    tops: Groups | None = None

    @classmethod
    def laid(cls, plan: Plan, axes: Axes) -> Rows:
        """Lay a plan over axes; combinations of groups without any chosen cell make no row.

        Raises
        ------
        InputError
            If the answer would have too many rows.
        """
        if math.prod(len(groups.codes) for _, groups in plan.by) > MOST_ROWS:
            hint = f"group by fewer attributes; {MOST_ROWS} rows are possible"
            raise InputError("the answer would have too many rows", where="query", hint=hint)
        shape = (len(axes.leaves), *axes.shape)
        picked = np.broadcast_to(plan.chosen[None] if axes.tree is None else plan.chosen, shape)
        row, columns = np.zeros((1,) * len(shape), np.intp), len(plan.numbers[0])
        for place, groups in plan.by:
            row = row * len(groups.codes) + axes.along(place, groups.of)
        of = np.broadcast_to(row, shape)[picked]
        some = np.bincount(of, minlength=1) > 0
        of = (np.cumsum(some) - 1)[of]
        if plan.of is not None:
            axis = plan.of + (axes.tree is None)
            mask = picked.any(axis=tuple(other for other in range(len(shape)) if other != axis))
            column = np.broadcast_to(axes.along(plan.of, np.cumsum(mask) - 1), shape)
            of = of * columns + column[picked]
        found = np.full(shape, -1, np.intp)
        found[picked] = of
        names = product(*(zip(groups.codes, groups.labels, strict=True) for _, groups in plan.by))
        labels = [each for each, here in zip(names, some, strict=False) if here]
        tops = dict(plan.by).get(0) if axes.tree is not None else None
        return cls(axes, found.reshape(shape[0], -1), columns, labels, tops)

    @classmethod
    def one(cls, axes: Axes, cells: Bools) -> Rows:
        """Return the sum of some cells, (leaves, cells), as the only row."""
        return cls(axes, np.where(cells, 0, -1), 1, [()])

    @property
    def sums(self) -> Sums:
        """The sums over the cells of the table, read row by row."""
        return Sums(self.of.reshape(-1), len(self.labels), self.columns)

    @property
    def number(self) -> Integers:
        """(rows,) how many cells each row sums."""
        return np.bincount(self.of[self.of >= 0] // self.columns, minlength=len(self.labels))

    def summed(self, values: NDArray[Any], of: Indices | None = None) -> Floats:
        """Sum numbers of cells, in the shape of ``of``, into (rows, columns)."""
        of = self.of if of is None else of
        inside = of >= 0
        number = len(self.labels) * self.columns
        return np.asarray(np.bincount(of[inside], values[inside], number), float).reshape(-1, self.columns)

    def at_tops(self, extreme: np.ufunc, numbers: Indices, nothing: int) -> Indices:
        """Return (groups, cells) the largest or least number of the leaves in each group of the hierarchy."""
        if self.tops is None:
            return np.asarray(extreme.reduce(numbers, axis=0, keepdims=True))
        found = np.full((len(self.tops.codes), numbers.shape[1]), nothing)
        extreme.at(found, self.tops.of, numbers)
        return found

    def at_nodes(self, present: Bools) -> Indices:
        """Return (nodes, cells) the sum that each number of a published table is taken into; -1 for none.

        They are the fewest nodes that make up the chosen leaves of each column, of those that are ``present``
        (all leaves are); none lies above the groups that make rows.
        """
        tree = Hierarchy(self.axes.parents)
        found = np.full((tree.nodes, self.of.shape[1]), -1, np.intp)
        found[self.axes.leaves] = self.of
        for block in tree.up():
            low, high = (
                each.reduceat(found[block.children], block.starts, axis=0)
                for each in (np.minimum, np.maximum)
            )
            found[block.parents] = np.where(low == high, low, _MIXED)
        lowest = 0 if self.tops is None else int(tree.depth[self.tops.nodes].max())
        usable = (found >= 0) & (present & (tree.leaf | (tree.depth >= lowest)))[:, None]
        covered = np.zeros_like(usable)
        for block in tree.down():
            covered[block.children] = block.to_children(covered[block.parents] | usable[block.parents])
        return np.where(usable & ~covered, found, -1)
