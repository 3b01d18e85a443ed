"""What whole numbers of several tables miss: every equation, distance and exact value, computed afresh."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Literal

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats, Integers
from tabularium.mechanisms.inference.joint.shared_marginals import TableSet, TableShape
from tabularium.mechanisms.inference.rounding import SNAP


@dataclass(frozen=True, slots=True)
class Violation:
    """One equation, distance or exact value that the whole numbers miss.

    Attributes
    ----------
    kind
        ``hierarchy``: children miss their parent; ``marginal``: two tables differ on a shared marginal;
        ``cell``: a number is more than 1 from its unrounded value, or newly negative; ``exact``: an exact
        whole value was not kept.
    tables
        The table, or for a marginal the two tables.
    marginal
        Dimensions of the marginal, or of the table.
    node
        Node of the hierarchy (the parent for ``hierarchy``); None where the marginal has no hierarchy.
    group
        Category of every flat dimension of the marginal, by position.
    by
        First table less second; parent less children; whole number less unrounded value.
    """

    kind: Literal["hierarchy", "marginal", "cell", "exact"]
    tables: tuple[str, ...]
    marginal: str
    node: int | None
    group: Mapping[str, int]
    by: float

    def __str__(self) -> str:
        at = ([f"node {self.node}"] if self.node is not None else []) + [
            f"{name} {place}" for name, place in self.group.items()
        ]
        where = ", ".join(at) or "total"
        return f"{self.kind}: {' and '.join(self.tables)} on {self.marginal} ({where}): {self.by:+g}"


def violations(
    overlap: TableSet,
    tables: Mapping[str, Integers],
    values: Mapping[str, Floats],
    exact: Mapping[str, Bools],
) -> tuple[Violation, ...]:
    """Return everything that whole numbers miss, computed from nothing but these numbers.

    ``tables``, ``values``, ``exact``: by name (nodes, cells) whole numbers, unrounded ones, which are exact.
    """
    found: list[Violation] = []
    for name, frame in overlap.frames.items():
        found.extend(_families(name, frame, tables[name]))
        found.extend(_cells(name, frame, tables[name], values[name], exact[name]))
    for one, other in combinations(overlap.frames, 2):
        found.extend(_marginals(overlap, one, other, tables))
    return tuple(found)


def _families(name: str, frame: TableShape, table: Integers) -> Iterator[Violation]:
    for block in frame.tree.down(frame.cells):
        off = table[block.parents] - block.total(table[block.children])
        for row, cell in np.argwhere(off != 0):
            node, group = int(block.parents[row]), _group(cell, frame.flat)
            yield Violation("hierarchy", (name,), str(frame.marginal), node, group, float(off[row, cell]))


def _cells(
    name: str, frame: TableShape, table: Integers, values: Floats, exact: Bools
) -> Iterator[Violation]:
    near = np.rint(values)
    far = (np.abs(table - values) > 1 + SNAP) | ((table < 0) & (values > -SNAP))
    lost = exact & (np.abs(values - near) <= SNAP) & (table != near)
    kinds: tuple[tuple[Literal["cell", "exact"], Bools], ...] = (("cell", far), ("exact", lost))
    for kind, wrong in kinds:
        for row, cell in np.argwhere(wrong):
            node, by = int(row) if frame.along else None, float(table[row, cell] - values[row, cell])
            yield Violation(kind, (name,), str(frame.marginal), node, _group(cell, frame.flat), by)


def _marginals(
    overlap: TableSet, one: str, other: str, tables: Mapping[str, Integers]
) -> Iterator[Violation]:
    first, second = overlap.views(one, other)
    off = first.gather(tables[one]) - second.gather(tables[other])
    sizes = {name: overlap.frames[one].flat[name] for name in first.marginal.flat}
    for row, place in np.argwhere(off != 0):
        node = None if first.rows is None else int(first.rows[row])
        group, by = _group(place, sizes), float(off[row, place])
        yield Violation("marginal", (one, other), str(first.marginal), node, group, by)


def _group(place: int, sizes: Mapping[str, int]) -> dict[str, int]:
    places = np.unravel_index(place, tuple(sizes.values())) if sizes else ()
    return {name: int(at) for name, at in zip(sizes, places, strict=True)}
