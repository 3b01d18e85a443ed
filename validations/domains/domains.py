"""Public domains: what values a column may take, decided before anyone looks at the data.

A domain maps each raw value to a *cell code* 0..size-1 along one axis of a table. Nothing here is read
from microdata: a domain that came from the data would itself reveal who is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

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
    languages: tuple[str, ...] = ()  # of each label, empty where it is that of the release; () where all are

    @property
    def size(self) -> int:
        """Number of cells along this axis."""
        return len(self.codes)


@dataclass(frozen=True)
class NumberDomain:
    """Numbers cut into bins, counted in steps: bin i holds ``edges[i] <= step < edges[i + 1]``.

    Of whole numbers a step is 1. Of decimals there are two steps for each 10^-digits: an even one is a number
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
    languages: tuple[str, ...] = ()  # of each label, empty where it is that of the release; () where all are

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
