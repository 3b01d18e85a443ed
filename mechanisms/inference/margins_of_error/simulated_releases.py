"""What a simulation takes for the truth, what its releases publish, and how many there are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
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
        (kept,) how many nodes of the release each one stands for; None for only itself.
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
    """(nodes, cells) numbers, asked for a few rows at a time."""

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


SIZES: tuple[tuple[int, int | None], ...] = ((0, 0), (1, 9), (10, 99), (100, 999), (1000, None))
"""Classes of counts: first and last."""

_FIRSTS = np.array([low for low, _ in SIZES[1:]])
# Absolute errors are kept to about 1 %: exact to 128, then 128 steps for every doubling.
_EXACT = 128
_BINS = 4096


@dataclass(frozen=True, eq=False, slots=True)
class Line:
    """One line of a tally.

    Attributes
    ----------
    depth
        Of the level in the hierarchy.
    size
        First and last count of the class; the last may be open.
    cells
        Mean number of cells in a release; in proportion where a part of a level was simulated.
    median, ninety
        Errors that half and nine tenths of the cells do not exceed.
    largest
        Mean over releases of the largest error of the cells that were simulated.
    held
        Share of cells whose interval holds the assumed truth.
    held_of_true
        The same of cells whose *assumed true* count is of this size, or None.
    width
        Mean half-width.
    """

    depth: int
    size: tuple[int, int | None]
    cells: float
    median: float
    ninety: float
    largest: float
    held: float
    held_of_true: float | None
    width: float


class Tally:
    """Counts over simulated releases, by depth and size of what was published; of ``counted`` cells only."""

    def __init__(self, tree: Hierarchy, counted: Bools | None = None) -> None:
        self._counted = counted
        groups = tree.depths * len(SIZES)
        self._depth = tree.depth.astype(np.int64)
        self._nodes = np.zeros(tree.depths)  # of each depth, with their weights, summed over releases
        self._kept = 0  # nodes, summed over releases
        self._releases = 0
        self._errors = np.zeros((groups, _BINS))
        self._held, self._true_held, self._true_cells = np.zeros((3, groups))
        self._width, self._squares = np.zeros((2, groups))
        self._largest = np.zeros(groups)  # summed over releases
        self._seen = np.zeros(groups, np.int64)  # releases with such a cell

    def add(self, made: Made, truth: Floats, half: Floats) -> None:
        """Count one release: what it published, (kept, cells) half-widths, and (nodes, cells) the truth."""
        groups = len(self._held)
        largest = np.full(groups, -1.0)
        for rows, nodes in made.strips():
            base, assumed = self._depth[nodes][:, None] * len(SIZES), truth[nodes]
            # Fractions go with the whole number they are nearest to.
            group, true = (
                (base + np.searchsorted(_FIRSTS, np.rint(numbers), side="right")).ravel()
                for numbers in (made.values[rows], assumed)
            )
            error, width = np.abs(made.values[rows] - assumed).ravel(), half[rows].ravel()
            weight = None if made.weights is None else np.repeat(made.weights[rows], truth.shape[1])
            if self._counted is not None:
                some = self._counted[nodes].ravel()
                group, true, error, width = group[some], true[some], error[some], width[some]
                weight = None if weight is None else weight[some]
            held = error <= width + 1e-9
            bins = summed(group * _BINS + _bin(error), None, weight, groups * _BINS)
            self._errors += bins.reshape(groups, _BINS)
            self._held += summed(group, held, weight, groups)
            self._width += summed(group, width, weight, groups)
            self._squares += summed(group, error**2, weight, groups)
            np.maximum.at(largest, group, error)
            self._true_cells += summed(true, None, weight, groups)
            self._true_held += summed(true, held, weight, groups)
        there = largest >= 0
        self._largest += np.where(there, largest, 0.0)
        self._seen += there
        depth = self._depth if made.nodes is None else self._depth[made.nodes]
        self._nodes += np.bincount(depth, made.weights, len(self._nodes))
        self._kept += len(made.values)
        self._releases += 1

    @property
    def part(self) -> float:
        """The part of all nodes that a release had, on average."""
        return self._kept / (len(self._depth) * self._releases)

    def lines(self) -> Iterator[Line]:
        """Yield a line for every level and size that occurs."""
        cells, weight = self._errors.sum(axis=1), self._weight()
        for group, (depth, size) in enumerate(product(range(len(self._nodes)), SIZES)):
            number, true = float(cells[group]), float(self._true_cells[group])
            if not number:
                continue
            below = np.cumsum(self._errors[group])
            yield Line(
                depth,
                size,
                number / self._releases * weight[depth],
                _upper(int(np.argmax(below >= 0.5 * number))),
                _upper(int(np.argmax(below >= 0.9 * number - 1e-9))),
                float(self._largest[group] / self._seen[group]),
                float(self._held[group] / number),
                float(self._true_held[group] / true) if true else None,
                float(self._width[group] / number),
            )

    def overall(self) -> tuple[float, float, float]:
        """Return the share held, the mean half-width and the root mean squared error over all cells."""
        weight = np.repeat(self._weight(), len(SIZES))
        number = max(1.0, float(weight @ self._errors.sum(axis=1)))
        return (
            float(weight @ self._held / number),
            float((weight * self._width).sum() / number),
            float(np.sqrt((weight * self._squares).sum() / number)),
        )

    def _weight(self) -> Floats:
        """Return by what the nodes of a depth, with their weights, fall short of all of them, (depths,)."""
        every = np.bincount(self._depth) * self._releases
        return np.asarray(every / np.maximum(self._nodes, 1e-300))


def _bin(error: Floats) -> Integers:
    """Return the bin of every error: rounded up to a whole number, and to 1/128 of itself above 128."""
    whole = np.ceil(error - 1e-9)
    power = np.maximum(np.floor(np.log2(np.maximum(whole, 1) / _EXACT)), 0)
    bins = np.ceil(whole / 2**power) + power * _EXACT
    return np.asarray(np.minimum(bins, _BINS - 1).astype(np.int64))


def _upper(index: int) -> float:
    """Return the largest error of a bin."""
    if index < 2 * _EXACT:
        return float(index)
    power = index // _EXACT - 1
    return float((index - power * _EXACT) * 2**power)
