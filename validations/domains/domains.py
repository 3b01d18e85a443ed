"""Public domains: what values a column may take, decided before anyone looks at the data.

A domain maps each raw value to a *cell code* 0..size-1 along one axis of a table. Nothing here is read
from microdata: a domain that came from the data would itself reveal who is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
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

    @property
    def size(self) -> int:
        """Number of cells along this axis."""
        return len(self.codes)


@dataclass(frozen=True)
class IntegerDomain:
    """Whole numbers cut into bins: bin i holds ``edges[i] <= value < edges[i + 1]``."""

    name: str
    edges: tuple[int, ...]
    labels: tuple[str, ...]  # one per cell, the ``other`` cell last if there is one
    nulls: Treatment = "reject"
    invalid: Treatment = "reject"
    other: str | None = None  # label of an extra last cell

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

    @property
    def leaves(self) -> NDArray[np.int64]:
        """(cells,) node index of each cell of the axis, ascending."""
        inner = np.zeros(len(self.parents), bool)
        inner[self.parents[self.parents >= 0]] = True
        return np.flatnonzero(~inner)

    @property
    def codes(self) -> tuple[str, ...]:
        """The codes of the leaves, in cell order."""
        return tuple(self.node_codes[i] for i in self.leaves)

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels of the leaves, in cell order."""
        return tuple(self.node_labels[i] for i in self.leaves)

    @property
    def size(self) -> int:
        """Number of cells along this axis: the leaves."""
        return len(self.leaves)


Domain = CategoryDomain | IntegerDomain | HierarchyDomain
