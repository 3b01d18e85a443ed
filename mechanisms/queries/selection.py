"""Selection: from a query and a table's axes to the cells that are asked for, and the rows that sum them.

A plan says which tests choose cells, and what makes the rows (:func:`bind`). Over the axes of a table it
becomes :class:`Rows`: the number of the sum that each cell is a part of. Cells of an attribute that all tests
and groups treat alike are one class (:class:`CellClasses`), so that few numbers stand for a large table.

Bins without an end. "85+" holds all of 85 or more, and ends where the spec had to end somewhere. A sum,
an average or a quantile takes every record at the middle of its bin, which there is the middle of numbers
that hardly anybody has. So such a bin is asked about: the query leaves it out, or says up to which number it
goes, which somebody must know from elsewhere. A last bin has no end to speak of if its label says where it
begins and not where it ends ("85+", "5 or more"), or if it is wider than all other bins together ("0-9",
"20-1000000").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import product
from math import prod
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
AttributeLevel = tuple[int, str | None]
"""Which attribute, and which of its levels if one is named."""


@dataclass(frozen=True, eq=False)
class Axes:
    """The attributes of a table: a hierarchy, if there is one, crossed with the others.

    ``tree``: The hierarchy, whose nodes are the rows of the table; None for one row. ``others``: The other
    attributes, in the order of the axes.
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
class Mask:
    """A test of one attribute, by its ``place``, as the (cells,) of it that pass."""

    place: int
    cells: Bools


Condition = Mask | tuple[tuple["Condition", ...], ...]
"""A test, or lists of tests, one to be passed."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What is asked of one table.

    Attributes
    ----------
    of
        Which attribute it is computed of; None for a count.
    numbers
        Of it, the smallest and the largest number of each cell that the query chooses; ones for a count.
    tests
        The chosen cells pass all of them.
    by
        Which attributes make the rows, in the order asked for, with their groups.
    headings
        The names of ``by`` as they were asked for.
    """

    of: int | None
    numbers: tuple[Floats, Floats]
    tests: tuple[Condition, ...]
    by: tuple[tuple[int, Groups], ...]
    headings: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class CellClasses:
    """The cells of an attribute in classes that plans treat alike.

    Attributes
    ----------
    of
        (kept cells,) the class of each.
    first
        (classes,) the first cell of each.
    kept
        The cells that are in a class; None where all are.
    """

    of: Indices
    first: Indices
    kept: Indices | None = None

    @cached_property
    def sizes(self) -> Integers:
        """(classes,) how many cells each has."""
        return np.bincount(self.of, minlength=len(self.first))

    @classmethod
    def single(cls, cells: int) -> CellClasses:
        """Return every cell as a class of its own."""
        return cls(np.arange(cells), np.arange(cells))

    def only(self, used: Bools) -> CellClasses:
        """Return some of the classes, with only the cells of these."""
        if used.all():
            return self
        kept = np.flatnonzero(used[self.of])
        return CellClasses((np.cumsum(used) - 1)[self.of[kept]], self.first[used], kept)

    @classmethod
    def of_plans(cls, attributes: Sequence[AnyAttribute], *plans: Plan) -> tuple[CellClasses, ...]:
        """Return the fewest classes of the cells of each attribute within which no plan tells cells apart."""
        labels: list[list[tuple[Indices | Bools, int]]] = [[] for _ in attributes]
        for plan in plans:
            for place, groups in plan.by:
                labels[place].append((groups.of, len(groups.codes)))
            for mask in _masks(plan.tests):
                labels[mask.place].append((mask.cells, 2))
        single = {plan.of for plan in plans}
        return tuple(
            cls.single(attribute.cells) if place in single else cls._split(attribute.cells, labels[place])
            for place, attribute in enumerate(attributes)
        )

    @classmethod
    def _split(cls, cells: int, labels: Sequence[tuple[Indices | Bools, int]]) -> CellClasses:
        """Return classes of cells that all labels, each of so many values, have in common."""
        of, size = np.zeros(cells, np.intp), 1
        for values, number in labels:
            of, present = numbered(of * number + values, size * number)
            size = len(present)
            if size == cells:
                return cls.single(cells)
        first = np.empty(size, np.intp)
        first[of[::-1]] = np.arange(cells)[::-1]
        return cls(of, first)


def _of_chosen(plan: Plan, classes: Sequence[CellClasses]) -> list[CellClasses]:
    """Return the classes of each attribute that have chosen cells."""
    result, picked = [], passed(plan.tests, classes)
    for place, item in enumerate(classes):
        used = picked.any(axis=tuple(other for other in range(picked.ndim) if other != place))
        result.append(item.only(np.broadcast_to(used, item.first.shape)))
    return result


def numbered(labels: Indices, number: int) -> tuple[Indices, Indices]:
    """Return labels, of so many values, numbered without gaps, and the values that occur, ascending."""
    if number > 4 * labels.size:
        present, of = np.unique(labels, return_inverse=True)
        return of, present
    some = np.bincount(labels, minlength=number) > 0
    present = np.flatnonzero(some)
    return labels if len(present) == number else (np.cumsum(some) - 1)[labels], present


def bind(query: Query, attributes: Sequence[AnyAttribute]) -> Plan:
    """Bind a query to the attributes of a table."""
    plan = Plan(None, (np.ones(1), np.ones(1)), conditions(query.where, attributes), (), ())
    if query.of is not None:
        of, _ = find(query.of, attributes)
        plan = replace(plan, of=of)
        picked = passed(plan.tests, CellClasses.of_plans(attributes, plan))
        others = tuple(axis for axis in range(picked.ndim) if axis != of)
        mask = np.broadcast_to(picked.any(axis=others), attributes[of].cells)
        low, high = attributes[of].values(mask, query.of.at)  # which refuses what is not a number
        if query.measure in {"sum", "average", "quantile"}:
            high = closed(attributes[of], (low, high), mask, query.of, query.up_to)
        plan = replace(plan, numbers=(low[mask], high[mask]))
    by: list[tuple[int, Groups]] = []
    for name in query.by:
        place, level = find(name, attributes)
        if place == plan.of:
            raise query_error(
                name.at,
                f"{query.measure} of {plain(name.text)} by itself says nothing",
                "leave it out of `by`",
            )
        if any(place == other for other, _ in by):
            raise query_error(name.at, f"{plain(name.text)} is here twice", "name one level of it")
        by.append((place, attributes[place].groups(level)))
    return replace(plan, by=tuple(by), headings=tuple(name.text for name in query.by))


def conditions(tests: Sequence[Test], attributes: Sequence[AnyAttribute]) -> tuple[Condition, ...]:
    """Bind tests to the attributes of a table."""
    return tuple(
        tuple(conditions(option, attributes) for option in test.options)
        if isinstance(test, Either)
        else Mask(*bound(test, attributes))
        for test in tests
    )


def _masks(tests: Sequence[Condition]) -> Iterator[Mask]:
    for test in tests:
        yield from [test] if isinstance(test, Mask) else (item for option in test for item in _masks(option))


def passed(tests: Sequence[Condition], classes: Sequence[CellClasses]) -> Bools:
    """Return which combinations of classes of cells pass every test; one along an axis without any."""
    every = np.ones((1,) * len(classes), bool)
    for test in tests:
        if isinstance(test, Mask):
            shape = [-1 if place == test.place else 1 for place in range(len(classes))]
            every = every & test.cells[classes[test.place].first].reshape(shape)
        else:
            every = every & reduce(np.logical_or, (passed(option, classes) for option in test))
    return every


def known_names(attributes: Sequence[AnyAttribute]) -> list[str]:
    """Return every name that a query may use, attributes first."""
    names = [attribute.name for attribute in attributes]
    return list(dict.fromkeys([*names, *(level for a in attributes for level in a.levels)]))


def find(word: Word, attributes: Sequence[AnyAttribute]) -> AttributeLevel:
    """Return the attribute, and the level, that a name means.

    An attribute's own name comes before names of levels; ``attribute.level`` is never ambiguous.
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


def _find(word: Word, attributes: Sequence[AnyAttribute]) -> AttributeLevel | None:
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
    numbers = {int(text) for text in _DIGITS.findall(_GROUPS.sub("", label))}
    begins = bool(numbers & {abs(int(low[last])), abs(int(low[last]) - 1)})
    ends = bool(numbers & {abs(int(high[last])), abs(int(high[last]) + 1)})
    return (begins and not ends) or float(widths[last]) > others


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of an answer on the axes of a table.

    Attributes
    ----------
    classes
        Of the cells of each attribute; those of all but the hierarchy make up the *kinds* of cells.
    of
        (classes of leaves, kinds) the sum that their cells are a part of, row·columns + column; -1 where
        they are in none.
    columns
        How many cells the attribute that is measured has among the chosen ones; 1 for a count.
    labels
        (code, label) of the groups of each row.
    tops
        The groups of the hierarchy that make rows; None where they do not.
    """

    axes: Axes
    classes: Sequence[CellClasses]
    of: Indices
    columns: int
    labels: list[tuple[tuple[str, str], ...]]
    tops: Groups | None = None

    @classmethod
    def laid(cls, plan: Plan, axes: Axes, classes: Sequence[CellClasses] = ()) -> Rows:
        """Lay a plan over axes; combinations of groups without any chosen cell make no row.

        ``classes``: within which the plan tells no cells apart; the fewest with chosen cells by default.
        """
        if prod(len(groups.codes) for _, groups in plan.by) > MOST_ROWS:
            hint = f"group by fewer attributes; {MOST_ROWS} rows are possible"
            raise InputError("the answer would have too many rows", where="query", hint=hint)
        no_tree = axes.tree is None  # a table without a hierarchy has one leaf
        if not classes:
            classes = CellClasses.of_plans(axes.attributes, plan)
            classes = [*classes[: 1 - no_tree], *_of_chosen(plan, classes)[1 - no_tree :]]
        shape = (*[1] * no_tree, *(len(item.first) for item in classes))
        picked = np.broadcast_to(passed(plan.tests, classes)[(None,) * no_tree], shape)
        row, columns = np.zeros((1,) * len(shape), np.intp), len(plan.numbers[0])
        for place, groups in plan.by:
            row = row * len(groups.codes) + axes.along(place, groups.of[classes[place].first])
        of = np.broadcast_to(row, shape)[picked]
        some = np.bincount(of, minlength=1) > 0
        of = (np.cumsum(some) - 1)[of]
        if plan.of is not None:
            axis = plan.of + no_tree
            mask = picked.any(axis=tuple(other for other in range(len(shape)) if other != axis))
            column = np.broadcast_to(axes.along(plan.of, np.cumsum(mask) - 1), shape)
            of = of * columns + column[picked]
        result = np.full(shape, -1, np.intp)
        result[picked] = of
        names = product(*(zip(groups.codes, groups.labels, strict=True) for _, groups in plan.by))
        labels = [item for item, here in zip(names, some, strict=False) if here]
        tops = dict(plan.by).get(0) if axes.tree is not None else None
        return cls(axes, classes, result.reshape(shape[0], -1), columns, labels, tops)

    @classmethod
    def one(cls, axes: Axes, cells: Bools) -> Rows:
        """Return the sum of some cells, (leaves, cells), as the only row."""
        classes = [CellClasses.single(attribute.cells) for attribute in axes.attributes]
        return cls(axes, classes, np.where(cells, 0, -1), 1, [()])

    @property
    def leaves(self) -> Indices:
        """(leaves,) the class of each."""
        return np.zeros(1, np.intp) if self.axes.tree is None else self.classes[0].of

    @property
    def _others(self) -> Sequence[CellClasses]:
        """Classes of the cells of every attribute but the hierarchy."""
        return self.classes[int(self.axes.tree is not None) :]

    @property
    def kinds(self) -> Indices:
        """(cells of the other axes that have one,) the kind of each."""
        result = np.zeros(1, np.intp)
        for item in self._others:
            result = (result[:, None] * len(item.first) + item.of).reshape(-1)
        return result

    def kept(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the numbers (m, *axes) of the cells that have a kind."""
        for axis, item in enumerate(self._others, 1):
            if item.kept is not None:
                values = np.take(values, item.kept, axis)
        return values

    @cached_property
    def sizes(self) -> Integers:
        """(kinds,) how many cells of the other axes are of each."""
        result = np.ones(1, np.int64)
        for item in self._others:
            result = np.multiply.outer(result, item.sizes).reshape(-1)
        return result

    @cached_property
    def cells(self) -> Indices:
        """(leaves, cells of the other axes) the sum that each cell is a part of; -1 where it is in none."""
        places = np.arange(prod(self.axes.shape)).reshape(1, *self.axes.shape)
        result = np.full((len(self.axes.leaves), places.size), -1, np.intp)
        result[:, self.kept(places).reshape(-1)] = self.of[self.leaves[:, None], self.kinds]
        return result

    @property
    def sums(self) -> Sums:
        """The sums over the cells of the table, read row by row."""
        return Sums(self.cells.reshape(-1), len(self.labels), self.columns)

    @cached_property
    def counted(self) -> Integers:
        """(rows, columns) how many cells each sum has."""
        leaves = np.ones(1, np.int64) if self.axes.tree is None else self.classes[0].sizes
        return self.summed(np.multiply.outer(leaves, self.sizes), self.of).astype(np.int64)

    @property
    def number(self) -> Integers:
        """(rows,) how many cells each row sums."""
        return np.asarray(self.counted.sum(axis=1))

    def contracted(self, values: NDArray[Any]) -> NDArray[Any]:
        """Sum the numbers of :meth:`kept` cells over the cells of each kind: (m, kinds)."""
        for axis, item in enumerate(self._others, 1):
            if len(item.first) == 1:
                values = values.sum(axis=axis, keepdims=True)
            elif len(item.first) < len(item.of):
                order = np.argsort(item.of, kind="stable")
                if (order[1:] < order[:-1]).any():
                    values = np.take(values, order, axis=axis)
                values = np.add.reduceat(values, np.cumsum(item.sizes) - item.sizes, axis=axis)
        return values.reshape(len(values), -1)

    def summed(self, values: NDArray[Any], of: Indices | None = None) -> Floats:
        """Sum numbers (leaves, kinds), or in the shape of ``of``, into (rows, columns)."""
        of = self.of[self.leaves] if of is None else of
        sums = np.bincount(of.reshape(-1) + 1, values.reshape(-1), len(self.labels) * self.columns + 1)
        return np.asarray(sums[1:], float).reshape(len(self.labels), self.columns)

    def at_tops(self, extreme: np.ufunc, numbers: Indices, nothing: int) -> Indices:
        """Return (groups, kinds) the largest or least number of the classes in each group of leaves."""
        if self.tops is None:
            return np.asarray(extreme.reduce(numbers, axis=0, keepdims=True))
        result = np.full((len(self.tops.codes), numbers.shape[1]), nothing)
        extreme.at(result, self.tops.of[self.classes[0].first], numbers)
        return result

    def at_nodes(self, present: Bools) -> tuple[Indices, Indices]:
        """Return the nodes of a published table that are summed, and (nodes, kinds) the sum; -1 for none.

        They are the fewest nodes that make up the chosen leaves of each kind, of those that are ``present``
        (all leaves are); none lies above the groups that make rows.
        """
        tree = Hierarchy(self.axes.parents)
        inside = self.of >= 0
        least = np.where(inside, self.of, np.iinfo(np.intp).max).min(axis=0)
        patterns, pattern = distinct(np.where(inside, self.of - least, -1))
        result = np.full((tree.nodes, patterns.shape[1]), -1, np.intp)
        result[self.axes.leaves] = patterns[self.leaves]
        for block in tree.up():
            low, high = (
                item.reduceat(result[block.children], block.starts, axis=0)
                for item in (np.minimum, np.maximum)
            )
            result[block.parents] = np.where(low == high, low, _MIXED)
        lowest = 0 if self.tops is None else int(tree.depth[self.tops.nodes].max())
        usable = (result >= 0) & (present & (tree.leaf | (tree.depth >= lowest)))[:, None]
        covered = np.zeros_like(usable)
        for block in tree.down():
            covered[block.children] = block.to_children(covered[block.parents] | usable[block.parents])
        of = np.where(usable & ~covered, result, -1)
        nodes = np.flatnonzero((of >= 0).any(axis=1))
        of = of[nodes][:, pattern]
        return nodes, np.where(of >= 0, of + least, -1)


def distinct(columns: NDArray[Any]) -> tuple[NDArray[Any], Indices]:
    """Return (rows, distinct) columns, and which of them each column is."""
    if (columns == columns[:, :1]).all():
        return columns[:, :1], np.zeros(columns.shape[1], np.intp)
    flat = len(columns) == 1  # which NumPy sorts faster as numbers
    result, of = np.unique(columns[0] if flat else columns, axis=-1, return_inverse=True)
    return result.reshape(len(columns), -1), of.reshape(-1)
