"""Public domains: what values a column may take, decided before anyone looks at the data.

A domain maps each raw value to a *cell code* 0..size-1 along one axis of a table. Nothing here is read
from microdata: a domain that came from the data would itself reveal who is in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.queries import Attribute, TreeAttribute
from tabularium.validations.release_spec.problems import quoted

Treatment = Literal["reject", "other"]


@dataclass(frozen=True)
class CategoryDomain:
    """A list of categories; ``codes`` are the raw values as text, in cell order."""

    name: str
    codes: tuple[str, ...]
    labels: tuple[str, ...]
    nulls: Treatment = "reject"
    invalid: Treatment = "reject"
    other: str | None = None  # one of ``codes``: where nulls or invalid values go
    languages: tuple[str, ...] = ()  # of each label, empty where it is the release's; () where all are

    @property
    def size(self) -> int:
        """Number of cells along this axis."""
        return len(self.codes)


@dataclass(frozen=True)
class NumberDomain:
    """Numbers cut into bins, counted in steps: bin i holds ``edges[i] <= step < edges[i + 1]``.

    For whole numbers a step is 1. Decimals have two steps for each 10^-digits: an even one is a number
    of so many digits, and an odd one is all that lies between two of these. So every comparison with an edge
    is one of whole numbers, and exact; the last edge is the step after the largest value.

    Examples
    --------
    >>> bmi = NumberDomain("bmi", (200, 370, 901), ("10 to under 18.5", "18.5 to 45"), digits=1)
    >>> bmi.step(Decimal("18.5")), bmi.number(369), bmi.number(370)
    (370, 18.45, 18.5)
    """

    name: str
    edges: tuple[int, ...]
    labels: tuple[str, ...]  # one per cell, the ``other`` cell last if there is one
    nulls: Treatment = "reject"
    invalid: Treatment = "reject"
    other: str | None = None  # label of an extra last cell
    digits: int | None = None  # after the point, of the edges; None of whole numbers
    floor: bool = False  # whether decimals are read as the whole number below

    @property
    def per_one(self) -> int:
        """Number of steps from 0 to 1."""
        return 1 if self.digits is None else 2 * 10**self.digits

    def step(self, number: int | Decimal) -> int:
        """Return the step of a number with no more digits than the edges have.

        Raises
        ------
        ValueError
            If it has more.
        """
        steps = Fraction(number) * self.per_one
        if steps.denominator != 1 or (self.digits is not None and steps.numerator % 2):
            raise ValueError("the number has more digits than the edges")
        return steps.numerator

    def number(self, step: int) -> float:
        """Return the number of a step; of an odd one, one of the numbers that it stands for."""
        return step if self.digits is None else step / self.per_one

    def edges_at(self, digits: int) -> tuple[int, ...]:
        """Return the edges in the steps of more digits, of decimals."""
        scale = 10 ** (digits - (self.digits or 0))
        return (*(edge * scale for edge in self.edges[:-1]), (self.edges[-1] - 1) * scale + 1)

    @property
    def bins(self) -> int:
        """Number of bins, without the extra cell."""
        return len(self.edges) - 1

    @property
    def size(self) -> int:
        """Number of cells along this axis."""
        return self.bins + (self.other is not None)

    @property
    def codes(self) -> tuple[str, ...]:
        """The published code of each cell."""
        return self.labels


@dataclass(frozen=True, eq=False)
class HierarchyDomain:
    """A code list with parents: microdata hold codes of leaves; every node can be published.

    Nodes are in breadth-first order: level by level, a parent's children together, in the order of the
    code list inside a family. ``parents[i]`` is -1 for a root.
    """

    name: str
    node_codes: tuple[str, ...]
    node_labels: tuple[str, ...]
    parents: NDArray[np.int64]  # (nodes,)
    depth: NDArray[np.int64]  # (nodes,), 0 for a root
    levels: tuple[str, ...]  # name of each depth, root level first
    nulls: Treatment = "reject"
    invalid: Treatment = "reject"
    other: str | None = None  # code of a leaf
    languages: tuple[str, ...] = ()  # of each label, empty where it is the release's; () where all are

    @cached_property
    def leaves(self) -> NDArray[np.int64]:
        """(cells,) node index of each cell of the axis, ascending; read-only."""
        inner = np.zeros(len(self.parents), bool)
        inner[self.parents[self.parents >= 0]] = True
        return _frozen(np.flatnonzero(~inner))

    @cached_property
    def codes(self) -> tuple[str, ...]:
        """The codes of the leaves, in cell order."""
        return tuple(self.node_codes[i] for i in self.leaves.tolist())

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The labels of the leaves, in cell order."""
        return tuple(self.node_labels[i] for i in self.leaves.tolist())

    @property
    def size(self) -> int:
        """Number of cells along this axis: the leaves."""
        return len(self.leaves)

    @cached_property
    def cuts(self) -> tuple[NDArray[np.int64], ...]:
        """For each depth, the nodes there and the leaves above them, ascending; read-only."""
        depth = self.depth[self.leaves]
        return tuple(
            _frozen(np.union1d(np.flatnonzero(self.depth == level), self.leaves[depth < level]))
            for level in range(len(self.levels))
        )


def _frozen(nodes: NDArray[np.int64]) -> NDArray[np.int64]:
    nodes.setflags(write=False)
    return nodes


Domain = CategoryDomain | NumberDomain | HierarchyDomain


def depth_of(domain: HierarchyDomain, level: str) -> int:
    """Return the depth of the nodes of ``level``, 0 for the roots.

    Raises
    ------
    InputError
        If the hierarchy has no level of that name.
    """
    try:
        return domain.levels.index(level)
    except ValueError:
        pass
    raise InputError(
        f"there is no level {level!r}", where=f"columns.{domain.name}", hint="use one of its level names"
    )


def cut(domain: HierarchyDomain, level: str) -> NDArray[np.int64]:
    """Return the nodes that together cover every record at ``level``.

    Those are the nodes at that depth and the leaves above it, ascending, so that every leaf lies below
    exactly one of them and the cut at the deepest level is ``domain.leaves``.

    (nodes of the cut,) node indices, ascending; read-only.
    """
    return domain.cuts[depth_of(domain, level)]


def nodes_to(domain: HierarchyDomain, level: str) -> int:
    """Return the number of nodes down to ``level``: a prefix, since nodes are in breadth-first order."""
    return int(np.count_nonzero(domain.depth <= depth_of(domain, level)))


def positions(domain: HierarchyDomain, nodes: NDArray[np.int64], level: str) -> NDArray[np.int64]:
    """Return where in ``cut(domain, level)`` the ancestor (or self) of each node lies.

    (m,) positions in the cut.

    Parameters
    ----------
    nodes
        (m,) node indices, each in or below the cut.
    level
        Name of the level of the cut.
    """
    depth = depth_of(domain, level)
    above = np.array(nodes, np.int64)
    # As many steps as the deepest node needs; a node that has arrived stays where it is.
    while (deeper := domain.depth[above] > depth).any():
        above[deeper] = domain.parents[above[deeper]]
    return np.searchsorted(cut(domain, level), above)


def leaf_positions(domain: HierarchyDomain, level: str) -> NDArray[np.int64]:
    """Return, for each cell of the axis (a leaf), its position in ``cut(domain, level)``.

    (cells,) positions.
    """
    return positions(domain, domain.leaves, level)


def attribute_of(domain: Domain) -> Attribute | TreeAttribute:
    """Return a column as queries know it; the cells of both are the same, in the same order."""
    if isinstance(domain, HierarchyDomain):
        return tree_of(domain, len(domain.parents))
    if isinstance(domain, NumberDomain):
        if domain.digits is None:
            return Attribute.bins(domain.name, domain.edges, domain.labels)
        ends = (*domain.edges[:-1], domain.edges[-1] - 1)
        return Attribute.intervals(domain.name, [domain.number(end) for end in ends], domain.labels)
    return Attribute.categories(domain.name, domain.codes, domain.labels)


def tree_of(domain: HierarchyDomain, nodes: int) -> TreeAttribute:
    """Return a hierarchy down to its first ``nodes`` nodes, the others known but not published."""
    depth = domain.depth[:nodes]
    return TreeAttribute(
        domain.name,
        domain.node_codes[:nodes],
        domain.node_labels[:nodes],
        domain.parents[:nodes],
        depth,
        domain.levels[: int(depth.max()) + 1],
        frozenset(domain.node_codes[nodes:]) | frozenset(domain.node_labels[nodes:]),
    )


_SDMX_TOTAL = "_T"
_WORDS = """
total totals totale totali totaux totales totais totaal totalt totalsumma insgesamt gesamt zusammen
summe ensemble complesso ialt samtals yhteensä kokku kopā celkem spolu ogółem razem összesen ukupno
skupaj σύνολο общо всего итого усього разом укупно вкупно toplam iomlán guztira cyfanswm gjithsej 合計
総数 总计 合计 總計 합계
"""
_TOTALS = frozenset((*_WORDS.split(), "i alt", "iš viso", "in complesso", "grand total"))
"""Labels that mean a total, in the languages of Europe and some others."""


def total_notes(domains: Mapping[str, Domain]) -> list[str]:
    """Return what `check` says of columns one of whose categories seems to be the total of the others.

    ``T`` by itself is none: in NACE and ISIC it is a section.
    """
    notes = []
    for name, domain in domains.items():
        if isinstance(domain, NumberDomain) or domain.size == 1:
            continue
        pairs = zip(domain.codes, domain.labels, strict=True)
        code = next((code for code, label in pairs if _is_total(code, label)), None)
        if code is not None:
            notes.append(
                f"column {name}: the code {quoted(code)} seems to be the total of the others, and counts as "
                "a category like them; leave it out, or make it their parent"
            )
    return notes


def _is_total(code: str, label: str) -> bool:
    return code == _SDMX_TOTAL or any(map(_says_total, (code, label)))


def _says_total(text: str) -> bool:
    """Return whether a text is a word for a total, with nothing but brackets and marks around it."""
    words = " ".join(re.sub(r"\([^()]*\)|[^\w\s]", " ", text).split()).casefold()
    return words in _TOTALS
