"""The attributes of a table as queries see them: what they are called, what values they have, which cells
those are.

A value is named by its code, its label, or a number that falls into a bin of its own. Ranges need numbers,
and may not cut a bin in two: how the records of a bin are spread inside it has not been published.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Bools, Floats, Indices, Integers
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.queries.grammar import Op, Word, plain, query_error

_NUMBER = re.compile(r"[+-]?\d{1,15}(\.\d{1,15})?")
_COMPARED = 20_000  # names that are looked through for a close one


@dataclass(frozen=True)
class Groups:
    """The rows that an attribute, or a level of it, makes.

    Attributes
    ----------
    of
        (cells,) the group of each cell.
    codes, labels
        Of each group.
    nodes
        (groups,) the node of each group, for a hierarchy.
    """

    of: Indices
    codes: tuple[str, ...]
    labels: tuple[str, ...]
    nodes: Indices | None = None


@dataclass(frozen=True, eq=False)
class Attribute:
    """An attribute whose values are the cells of one axis.

    Attributes
    ----------
    name
        Of the attribute.
    codes, labels
        One text per cell, in order.
    low, high
        (cells,) smallest and largest number that a record of the cell may have, both included; NaN for cells
        without numbers. None where no cell has one.
    end
        (cells,) the number at which a cell ends, where they are no whole numbers: the first number of the
        next cell, and of the last one its largest.

    Examples
    --------
    >>> age = Attribute.bins("age", [0, 20, 65, 100])
    >>> age.codes, age.low.tolist(), age.high.tolist()
    (('0-19', '20-64', '65-99'), [0.0, 20.0, 65.0], [19.0, 64.0, 99.0])
    """

    name: str
    codes: tuple[str, ...]
    labels: tuple[str, ...]
    low: NDArray[np.float64] | None = None
    high: NDArray[np.float64] | None = None
    end: NDArray[np.float64] | None = None

    @classmethod
    def bins(cls, name: str, edges: Sequence[int], labels: Sequence[str] | None = None) -> Attribute:
        """Return whole numbers cut into bins: bin i holds ``edges[i] <= value < edges[i + 1]``.

        More labels than bins belong to cells without numbers.
        """
        low, high = np.asarray(edges[:-1], float), np.asarray(edges[1:], float) - 1
        names = tuple(labels or (_span(a, b) for a, b in zip(low, high, strict=True)))
        rest = np.full(len(names) - len(low), np.nan)
        return cls(name, names, names, np.append(low, rest), np.append(high, rest))

    @classmethod
    def intervals(cls, name: str, edges: Sequence[float], labels: Sequence[str]) -> Attribute:
        """Return decimals cut into bins: ``edges[i] <= value < edges[i + 1]``, in the last one both included.

        More labels than bins belong to cells without numbers.

        Examples
        --------
        >>> bmi = Attribute.intervals("bmi", [10, 18.5, 90], ["10 to under 18.5", "18.5 to 90"])
        >>> bmi.low.tolist(), bmi.end.tolist(), bool(bmi.high[0] < 18.5)
        ([10.0, 18.5], [18.5, 90.0], True)
        """
        low, end = np.asarray(edges[:-1], float), np.asarray(edges[1:], float)
        high = np.append(np.nextafter(end[:-1], -np.inf), end[-1])
        names, rest = tuple(labels), np.full(len(labels) - len(low), np.nan)
        return cls(name, names, names, *(np.append(item, rest) for item in (low, high, end)))

    @classmethod
    def categories(cls, name: str, codes: Sequence[str], labels: Sequence[str] | None = None) -> Attribute:
        """Return a list of categories.

        Codes that are numbers and have no other label (household sizes, say) are taken as numbers.
        """
        given = tuple(codes)
        shown = given if labels is None else tuple(labels)
        numbers = np.array(
            [
                float(c) if c == s and _NUMBER.fullmatch(c) else np.nan
                for c, s in zip(given, shown, strict=True)
            ]
        )
        some = None if np.isnan(numbers).all() else numbers
        return cls(name, given, shown, some, some)

    @property
    def cells(self) -> int:
        """Number of cells along the axis."""
        return len(self.codes)

    @property
    def levels(self) -> tuple[str, ...]:
        """Names of levels; a plain attribute has none."""
        return ()

    def mask(self, values: Iterable[Word], level: str | None = None) -> Bools:
        """Return the cells that have one of the values; refuse one that is not there, or could be several."""
        result = np.zeros(self.cells, bool)
        for value in values:
            result[self._cell(value)] = True
        return result

    def span(self, op: Op, bound: Word, level: str | None = None) -> Bools:
        """Return the cells whose numbers all lie on one side of a bound, which may not lie inside a bin."""
        number = self._number(bound)
        low, high = self._numbers(bound.at)
        inside, outside = {
            "<": (high < number, low >= number),
            "<=": (high <= number, low > number),
            ">": (low > number, high <= number),
            ">=": (low >= number, high < number),
        }[op]
        cut = ~inside & ~outside & ~np.isnan(low)
        if cut.any():
            self._refuse_cut(int(cut.argmax()), op, bound)
        return np.asarray(inside)

    def groups(self, level: str | None = None) -> Groups:
        """Return one group per cell."""
        return Groups(np.arange(self.cells), self.codes, self.labels)

    def values(self, chosen: Bools, at: int) -> tuple[Floats, Floats]:
        """Return the smallest and largest numbers to calculate with; refuse a chosen cell that has none."""
        low, high = self._numbers(at)
        without = chosen & np.isnan(low)
        if without.any():
            label = plain(self.labels[int(without.argmax())])
            raise query_error(
                at,
                f"{label} of {plain(self.name)} is not a number",
                f"leave it out: where {self.name} != {self.labels[int(without.argmax())]!r}",
            )
        return low, high if self.end is None else self.end

    def _numbers(self, at: int) -> tuple[Floats, Floats]:
        if self.low is None or self.high is None:
            raise query_error(
                at,
                f"the values of {plain(self.name)} are not numbers",
                f"write {self.name} = VALUE or {self.name} in (…); known are {listed(self.labels)}",
            )
        return self.low, self.high

    def _number(self, word: Word) -> float:
        if _NUMBER.fullmatch(word.text) is None:
            self._numbers(word.at)
            raise query_error(word.at, f"{plain(word.text)} is not a number", "write it like 20 or -1.5")
        return float(word.text)

    def _cell(self, value: Word) -> int:
        place = one_of(value, self.codes, self.labels)
        if place is not None:
            return place
        if self.low is not None and self.high is not None and _NUMBER.fullmatch(value.text):
            number = float(value.text)
            within = np.flatnonzero((self.low <= number) & (number <= self.high))
            if len(within) and self.low[within[0]] == self.high[within[0]]:
                return int(within[0])
            if len(within):
                label = self.labels[int(within[0])]
                raise query_error(
                    value.at,
                    f"{plain(value.text)} lies inside the bin {plain(label)}, which is published as one",
                    f"write {self.name} = {label}",
                )
        raise unknown_value(value, self.name, self.codes, self.labels)

    def _refuse_cut(self, cell: int, op: Op, bound: Word) -> NoReturn:
        assert self.low is not None and self.high is not None  # noqa: S101 - only these have bins
        low, high = self.low[cell], self.high[cell]
        if self.end is not None:
            op, first, second = "<" if op in {"<", "<="} else ">=", low, self.end[cell]
        else:
            first, second = (low, high + 1) if op in {"<", ">="} else (low - 1, high)
        raise query_error(
            bound.at,
            f"{plain(bound.text)} lies inside the bin {plain(self.labels[cell])}, which is published as one",
            f"write {self.name} {op} {shown_number(first)} or {self.name} {op} {shown_number(second)}",
        )


@dataclass(frozen=True, eq=False)
class TreeAttribute:
    """An attribute whose values are the nodes of a hierarchy; its cells are the leaves.

    Attributes
    ----------
    name
        Of the attribute.
    codes, labels
        One text per node.
    parents, depth
        (nodes,) parent of each node, -1 for a root; 0 for a root. Parents come before their children.
    levels
        Name of each depth, root level first.
    hidden
        Codes and labels further down that are known but not published.
    """

    name: str
    codes: tuple[str, ...]
    labels: tuple[str, ...]
    parents: Integers
    depth: Integers
    levels: tuple[str, ...]
    hidden: frozenset[str] = frozenset()
    leaves: Indices = field(init=False)

    def __post_init__(self) -> None:
        inner = np.zeros(len(self.parents), bool)
        inner[self.parents[self.parents >= 0]] = True
        object.__setattr__(self, "leaves", np.flatnonzero(~inner))

    @property
    def cells(self) -> int:
        """Number of leaves."""
        return len(self.leaves)

    def mask(self, values: Iterable[Word], level: str | None = None) -> Bools:
        """Return the leaves below (or at) one of the named nodes; of a level, only its own nodes count."""
        chosen = np.zeros(len(self.parents), bool)
        at_level = None if level is None else self._cut(level)
        for value in values:
            chosen[self._node(value, at_level, level)] = True
        for depth in range(1, int(self.depth.max()) + 1):
            nodes = np.flatnonzero(self.depth == depth)
            chosen[nodes] |= chosen[self.parents[nodes]]
        return chosen[self.leaves]

    def span(self, op: Op, bound: Word, level: str | None = None) -> Bools:
        """Refuse: nodes are not numbers."""
        raise query_error(
            bound.at,
            f"the values of {plain(level or self.name)} have no order",
            f"write {level or self.name} = VALUE or {level or self.name} in (…)",
        )

    def groups(self, level: str | None = None) -> Groups:
        """Return one group per node of a level; per leaf without one."""
        nodes = self.leaves if level is None else self._cut(level)
        above = self.leaves.astype(np.int64)
        deepest = int(self.depth.max()) if level is None else self.levels.index(level)
        while (deeper := self.depth[above] > deepest).any():
            above[deeper] = self.parents[above[deeper]]
        return Groups(
            np.searchsorted(nodes, above),
            tuple(self.codes[i] for i in nodes),
            tuple(self.labels[i] for i in nodes),
            nodes,
        )

    def values(self, chosen: Bools, at: int) -> NoReturn:
        """Refuse: nodes are not numbers."""
        raise query_error(
            at, f"the values of {plain(self.name)} are not numbers", "name an attribute that is a number"
        )

    def _cut(self, level: str) -> Indices:
        """Return the nodes of a level: those at its depth and the leaves above it, ascending."""
        depth = self.levels.index(level)
        return np.union1d(np.flatnonzero(self.depth == depth), self.leaves[self.depth[self.leaves] < depth])

    def _node(self, value: Word, among: Indices | None, level: str | None) -> int:
        nodes: Iterable[int] = range(len(self.codes)) if among is None else among.tolist()
        places = list(nodes)
        codes, labels = [self.codes[i] for i in places], [self.labels[i] for i in places]
        place = one_of(value, codes, labels)
        if place is not None:
            return places[place]
        if among is not None and one_of(value, self.codes, self.labels) is not None:
            raise query_error(
                value.at,
                f"{plain(value.text)} is not a {plain(level or '')}",
                f"write {self.name} = {value.text}",
            )
        if value.text in self.hidden:
            raise query_error(
                value.at,
                f"{plain(value.text)} lies below what this table is published for",
                f"its deepest level is {plain(self.levels[-1])}",
            )
        raise unknown_value(value, level or self.name, codes, labels)


AnyAttribute = Attribute | TreeAttribute


def one_of(value: Word, codes: Sequence[str], labels: Sequence[str]) -> int | None:
    """Return the place that a code or label names, as written first, then in any case; refuse several."""
    for result in _matches(value.text, codes, labels):
        if len(result) == 1:
            return result[0]
        if result:
            raise query_error(
                value.at,
                f"{plain(value.text)} names several values",
                f"write the code: {listed([codes[i] for i in result])}",
            )
    return None


def _matches(text: str, codes: Sequence[str], labels: Sequence[str]) -> Iterator[list[int]]:
    yield [i for i, code in enumerate(codes) if code == text]
    yield [i for i, label in enumerate(labels) if label == text]
    folded = text.casefold()
    yield [
        i
        for i, (code, label) in enumerate(zip(codes, labels, strict=True))
        if folded in (code.casefold(), label.casefold())
    ]


def unknown_value(value: Word, name: str, codes: Sequence[str], labels: Sequence[str]) -> InputError:
    """Return the error for a value that is not there, naming a close one, or what there is."""
    names = list(dict.fromkeys([*labels[:_COMPARED], *codes[:_COMPARED]]))
    near = close(value.text, names)
    # A label names the cell; its code says the same in fewer letters.
    both = [_both(code, label) for code, label in zip(codes[:_COMPARED], labels[:_COMPARED], strict=True)]
    hint = f"did you mean {plain(near)}?" if near is not None else f"known are {listed(both)}"
    return query_error(value.at, f"{plain(name)} has no value {plain(value.text)}", hint)


def _both(code: str, label: str) -> str:
    return code if code == label else f"{code} ({label})"


def close(text: str, names: Sequence[str]) -> str | None:
    """Return the name that ``text`` was probably meant to be, or None."""
    return next(iter(near(text, names, (), 1)), None)


def near(text: str, codes: Sequence[str], labels: Sequence[str], most: int = 3) -> list[str]:
    """Return the codes that ``text`` was probably meant to be: those that look alike or whose label does."""
    folded: dict[str, str] = {}
    for names in (codes[:_COMPARED], labels[:_COMPARED]):
        for code, name in zip(codes, names, strict=False):
            folded.setdefault(name.casefold(), code)
    result = difflib.get_close_matches(text.casefold(), folded, n=most, cutoff=0.6)
    return list(dict.fromkeys(folded[item] for item in result))


def listed(names: Sequence[str], limit: int = 8) -> str:
    """Return ``a, b, c``, cut after ``limit`` names."""
    shown = [plain(name) for name in names[:limit]]
    return ", ".join([*shown, "…"] if len(names) > limit else shown)


def shown_number(value: float) -> str:
    """Return a number as a query would write it."""
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _span(low: float, high: float) -> str:
    first, last = shown_number(low), shown_number(high)
    if low == high:
        return first
    return f"{first}-{last}" if low >= 0 else f"{first} to {last}"
