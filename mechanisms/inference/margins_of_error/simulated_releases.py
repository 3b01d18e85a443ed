"""What a simulation takes for the truth, what its releases publish, and how many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats, Indices, Integers, strips
from tabularium.mechanisms.inference.hierarchy import Hierarchy

CHECKS = 4
"""One simulated release in so many, two at least, is kept for checking the margins that the others gave."""


@dataclass(frozen=True, eq=False, slots=True)
class Assumed:
    """One table of the release that is taken for the truth.

    Attributes
    ----------
    tree
        Its hierarchy.
    values
        (nodes, cells) published numbers.
    variances
        Those of the linear estimate, broadcasting to ``values``; all finite.
    counted
        (nodes, cells) which cells there is something to say of; None for all.
    """

    tree: Hierarchy
    values: Floats
    variances: Floats
    counted: Bools | None = None

    def whole(self, values: Floats) -> Made:
        """Return published numbers of all nodes as a simulated release."""
        return Made(values, self.tree.parents)


@dataclass(frozen=True, eq=False, slots=True)
class Made:
    """What a simulated release published of one table: of all its nodes, or of a part of them.

    Attributes
    ----------
    values
        (kept, cells) published numbers.
    parents
        (kept,) places of their parents among them, -1 for a root.
    nodes
        (kept,) the nodes that they are of, ascending; None for all.
    weights
        (kept,) how many nodes of the release each one stands for; None for itself alone.
    """

    values: Floats
    parents: Indices
    nodes: Indices | None = None
    weights: Floats | None = None

    def strips(self) -> Iterator[tuple[slice, slice | Indices]]:
        """Cut the rows into pieces of about a quarter of a million numbers; yield places, and nodes."""
        for rows in strips(*self.values.shape):
            yield rows, rows if self.nodes is None else self.nodes[rows]


class Rows(Protocol):
    """(nodes, cells) numbers of which some rows are asked for at a time."""

    def __getitem__(self, nodes: Any, /) -> Floats:
        """Return the rows of some nodes."""
        ...


Release = Callable[[int], Mapping[str, Made]]
"""Number of the simulated release to what it published."""


def replicates(cells: int) -> int:
    """Return how many simulated releases so many cells get: 100 down to 8, and 4 beyond 4 million."""
    return 4 if cells > 4_000_000 else int(min(100, max(8, 200_000 // cells)))


@dataclass(frozen=True, slots=True)
class Runs:
    """How many releases are simulated.

    Attributes
    ----------
    least, most
        Fewest and most that give half-widths.
    precision
        Between the two, releases are simulated until the share that a half-width holds is known with this
        standard error, on average over the errors of every level.
    checking
        How many more check those half-widths; by default a third as many, at least two.
    """

    least: int
    most: int
    precision: float = 0.0
    checking: int | None = None

    @classmethod
    def of(cls, number: int) -> Runs:
        """Return so many, at least 3; a quarter of them, at least two, check what the others gave."""
        checking = min(max(2, number // CHECKS), number - 1)
        return cls(number - checking, number - checking, checking=checking)

    @property
    def total(self) -> int:
        """All of them, where their number is fixed; else the fewest."""
        return self.least + self.checks(self.least)

    def checks(self, first: int) -> int:
        """Return how many more check the half-widths that the first ones gave."""
        return self.checking if self.checking is not None else max(2, first // (CHECKS - 1))


def summed(places: Integers, numbers: Floats | Bools | None, weights: Floats | None, length: int) -> Floats:
    """Add up weighted numbers, 1 each if there are none, place by place."""
    if numbers is not None and weights is not None:
        numbers = numbers * weights
    return np.bincount(places, weights if numbers is None else numbers, minlength=length).astype(np.float64)
