"""Several tables of the same records, and the marginals on which they must agree.

Two tables that name the same dimension count the same thing along it, so they agree on the marginal over all
dimensions they share: every pair of tables at least on the grand total. The marginals of all pairs, closed
under intersection, form a small lattice, in whose order consistency, non-negativity and rounding proceed.

A *public invariant* on any marginal is one more table over just these dimensions, with variance 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Indices, Number
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference.hierarchy import Hierarchy


@dataclass(frozen=True, slots=True)
class Marginal:
    """The dimensions of a marginal: at most one hierarchical, and flat ones in alphabetical order."""

    along: str | None
    flat: tuple[str, ...]

    def __str__(self) -> str:
        names = ((self.along,) if self.along else ()) + self.flat
        return " x ".join(names) or "total"

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.flat) + (self.along is not None)

    def within(self, other: Marginal) -> bool:
        """Say whether every dimension of this marginal is one of the other's."""
        return self.along in (None, other.along) and set(self.flat) <= set(other.flat)

    def meet(self, other: Marginal) -> Marginal:
        """Return the marginal over the dimensions of both."""
        flat = tuple(name for name in self.flat if name in other.flat)
        return Marginal(self.along if self.along == other.along else None, flat)


@dataclass(frozen=True, eq=False)
class TableShape:
    """The shape of one table: the nodes of a hierarchy, crossed with flat dimensions.

    Parameters
    ----------
    flat
        Flat dimensions and their sizes, in the order of the table's cells (the last one runs fastest).
    along
        Name of the hierarchical dimension; None for a table without one, which has a single node.
    tree
        The hierarchy. Tables along the same dimension number its nodes alike: the smaller tree is the first
        nodes of the larger one, and holds all children of a node or none.
    """

    flat: Mapping[str, int] = field(default_factory=dict)
    along: str | None = None
    tree: Hierarchy = field(default_factory=lambda: Hierarchy([-1]))

    def __post_init__(self) -> None:
        if self.along is None and self.tree.nodes != 1:
            raise _wrong("a table has a hierarchy that has no name", "name the dimension in `along`")
        if self.along in self.flat:
            raise _wrong(f"dimension {self.along} stands in a table twice", "name every dimension once")
        for name, size in self.flat.items():
            if size < 1:
                raise _wrong(f"dimension {name} has no categories", "give its size, at least 1")

    @property
    def marginal(self) -> Marginal:
        """The dimensions of the table: the largest of its marginals."""
        return Marginal(self.along, tuple(sorted(self.flat)))

    @property
    def cells(self) -> int:
        """Number of cells at each node."""
        return prod(self.flat.values())

    @property
    def shape(self) -> tuple[int, int]:
        """(nodes, cells)."""
        return self.tree.nodes, self.cells


class View:
    """How a table shows one of its marginals: a linear map and its transpose.

    Attributes
    ----------
    rows
        Node numbers that the marginal looks at, or None when the table's roots are added up.
    shape
        (rows, groups) of the marginal.
    groups
        (cells,) the group of the marginal that each cell of the table belongs to.
    """

    def __init__(self, frame: TableShape, marginal: Marginal, rows: Indices | None) -> None:
        self.marginal, self.rows = marginal, rows
        self._roots = frame.tree.roots
        self._sizes = tuple(frame.flat.values())
        names = tuple(frame.flat)
        self._dropped = tuple(1 + axis for axis, name in enumerate(names) if name not in marginal.flat)
        kept = [name for name in names if name in marginal.flat]
        self._order = tuple(1 + kept.index(name) for name in marginal.flat)
        self._back = tuple(1 + marginal.flat.index(name) for name in kept)
        self._kept = tuple(frame.flat[name] for name in marginal.flat)
        self.shape = (1 if rows is None else len(rows), prod(self._kept))
        numbers = np.arange(self.shape[1], dtype=np.int64)[None]
        self.groups: Indices = self._to_cells(numbers)[0].astype(np.intp)

    def gather(self, table: NDArray[Number]) -> NDArray[Number]:
        """Add up (nodes, cells) to the marginal (rows, groups)."""
        rows = table[self._roots].sum(axis=0, keepdims=True) if self.rows is None else table[self.rows]
        if self._dropped == () and self._order == tuple(range(1, 1 + len(self._order))):
            return rows
        kept = rows.reshape(len(rows), *self._sizes).sum(axis=self._dropped)
        return np.asarray(kept.transpose(0, *self._order).reshape(len(rows), -1))

    def scatter(self, numbers: NDArray[Number], table: NDArray[Number]) -> None:
        """Add numbers (rows, groups) to every cell (nodes, cells) of their group, in place."""
        cells = self._to_cells(numbers)
        if self.rows is None:
            table[self._roots] += cells
        else:
            table[self.rows] += cells

    def _to_cells(self, numbers: NDArray[Number]) -> NDArray[Number]:
        rows = numbers.reshape(len(numbers), *self._kept).transpose(0, *self._back)
        for axis in self._dropped:
            rows = np.expand_dims(rows, axis)
        full = np.broadcast_to(rows, (len(numbers), *self._sizes))
        return full.reshape(len(numbers), -1)


@dataclass(frozen=True, eq=False, slots=True)
class Link:
    """One agreement: two tables, by name, must show the same marginal, in the same rows and groups."""

    marginal: Marginal
    tables: tuple[str, str]
    views: tuple[View, View]

    @property
    def size(self) -> int:
        """Number of equations."""
        return prod(self.views[0].shape)


class TableSet:
    """Tables over overlapping dimensions.

    ``marginals``: The lattice: every table's dimensions, the marginals that two tables share, closed under
    intersection, smallest first. ``links``: Agreements that imply all others.

    Raises
    ------
    MechanismError
        When tables do not fit together: a dimension of two sizes, hierarchies that number nodes
        differently, a dimension that is a hierarchy in one table and flat in another.

    Examples
    --------
    >>> regions = Hierarchy([-1, 0, 0])
    >>> both = TableSet({
    ...     "people": TableShape({"age": 3, "sex": 2}, "region", regions),
    ...     "schooling": TableShape({"education": 4}, "region", regions),
    ... })
    >>> [str(marginal) for marginal in both.marginals]
    ['total', 'region', 'region x education', 'region x age x sex']
    """

    def __init__(self, frames: Mapping[str, TableShape]) -> None:
        if not frames:
            raise _wrong("there are no tables", "give at least one")
        self.tables = dict(frames)
        _check_names(self.tables)
        _check_trees(self.tables)
        self.marginals = _lattice([frame.marginal for frame in self.tables.values()])
        self.links = tuple(self._links())

    def __repr__(self) -> str:
        return f"TableSet(tables={len(self.tables)}, links={[str(link.marginal) for link in self.links]})"

    @cached_property
    def equations(self) -> int:
        """Number of equations between tables."""
        return sum(link.size for link in self.links)

    def holding(self, marginal: Marginal) -> list[str]:
        """Name the tables that have all dimensions of a marginal, the deepest hierarchy first."""
        names = [name for name, frame in self.tables.items() if marginal.within(frame.marginal)]
        return sorted(names, key=lambda name: -self.tables[name].tree.nodes)

    @cached_property
    def shapes(self) -> dict[Marginal, TableShape]:
        """Marginal to its shape: as deep as any two tables share it, or as the table itself is."""
        return {marginal: self._shape(marginal) for marginal in self.marginals}

    def _shape(self, marginal: Marginal) -> TableShape:
        names = self.holding(marginal)
        flat = {name: self.tables[names[0]].flat[name] for name in marginal.flat}
        if marginal.along is None:
            return TableShape(flat)
        own = [name for name in names if self.tables[name].marginal == marginal]
        depth = [self.tables[name] for name in (own[:1] + names[1:2] or names[:1])]
        return TableShape(
            flat, marginal.along, max((frame.tree for frame in depth), key=lambda tree: tree.nodes)
        )

    def gap(self, tables: Mapping[str, NDArray[Number]]) -> float:
        """Return the largest difference between two tables' views of a marginal they share."""
        worst = 0.0
        for link in self.links:
            one, other = (
                view.gather(tables[name]) for name, view in zip(link.tables, link.views, strict=True)
            )
            worst = max(worst, float(np.abs(one - other).max()))
        return worst

    def views(self, one: str, other: str, marginal: Marginal | None = None) -> tuple[View, View]:
        """Return how two tables show a marginal, by default the largest that both have, row by row alike."""
        first, second = self.tables[one], self.tables[other]
        marginal = marginal or first.marginal.meet(second.marginal)
        if marginal.along is None:
            return View(first, marginal, None), View(second, marginal, None)
        tree = min((first.tree, second.tree), key=lambda tree: tree.nodes)
        # Agreement at the leaves of the smaller tree implies agreement at every node above them.
        rows = np.flatnonzero(tree.leaf)
        return View(first, marginal, rows), View(second, marginal, rows)

    def _links(self) -> list[Link]:
        """Return few agreements that imply all: a marginal is linked only where larger ones leave it open."""
        links: list[Link] = []
        for marginal in sorted(self.marginals, key=lambda marginal: (-marginal.rank, str(marginal))):
            holders = self.holding(marginal)
            for depth in sorted({self._depth(marginal, name) for name in holders}, reverse=True):
                deep = [name for name in holders if self._depth(marginal, name) >= depth]
                leader = {name: name for name in deep}
                for link in links:
                    # A link through a shallow table says nothing about the nodes below that table's leaves.
                    reach = min(self._depth(marginal, name) for name in link.tables)
                    if marginal.within(link.marginal) and reach >= depth:
                        one, other = (leader[name] for name in link.tables)
                        leader = {name: other if head == one else head for name, head in leader.items()}
                heads = [name for name in deep if leader[name] == name]
                links += [
                    Link(marginal, (one, other), self.views(one, other, marginal))
                    for one, other in pairwise(heads)
                ]
        return links

    def _depth(self, marginal: Marginal, name: str) -> int:
        return self.tables[name].tree.nodes if marginal.along else 1


def _lattice(tables: list[Marginal]) -> tuple[Marginal, ...]:
    """Close the tables' dimensions under intersection; the total is always there."""
    marginals = {*tables, Marginal(None, ())}
    while True:
        more = {one.meet(other) for one, other in combinations(marginals, 2)} - marginals
        if not more:
            return tuple(sorted(marginals, key=lambda marginal: (marginal.rank, str(marginal))))
        marginals |= more


def _check_names(frames: Mapping[str, TableShape]) -> None:
    sizes: dict[str, int] = {}
    hierarchies = {frame.along for frame in frames.values()}
    for frame in frames.values():
        for name, size in frame.flat.items():
            if name in hierarchies:
                raise _wrong(
                    f"dimension {name} is a hierarchy in one table and flat in another",
                    "cross the tables along the same hierarchy",
                )
            if sizes.setdefault(name, size) != size:
                raise _wrong(f"dimension {name} has two sizes", "use one code list in all tables")


def _check_trees(frames: Mapping[str, TableShape]) -> None:
    largest: dict[str, Hierarchy] = {}
    for frame in frames.values():
        if frame.along is not None:
            trees = largest.get(frame.along, frame.tree), frame.tree
            largest[frame.along] = max(trees, key=lambda tree: tree.nodes)
    for frame in frames.values():
        if frame.along is None:
            continue
        tree, nodes = frame.tree, frame.tree.nodes
        above, beyond = np.split(largest[frame.along].parents, [nodes])
        if (tree.parents != above).any() or (beyond < 0).any() or not tree.leaf[beyond[beyond < nodes]].all():
            raise _wrong(
                f"two tables have different hierarchies along {frame.along}",
                "use one code list, cut at whole levels",
            )


def _wrong(what: str, hint: str) -> MechanismError:
    return MechanismError(what, where="tables", hint=hint)
