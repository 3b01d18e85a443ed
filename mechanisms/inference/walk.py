"""The order in which several tables are settled: totals before parts, shared margins before tables.

The lattice of an ``Overlap`` (all tables' dimensions and all margins that they share) is walked from the
grand total up, and down each hierarchy depth by depth. At every step one margin's numbers at one depth are
settled, given what was settled before:

- its own parents: children add up to them, cell by cell;
- the largest smaller margins at the same nodes: cells add up to their groups.

With one such condition the numbers fall into separate families, with two they are a transportation table,
which always has a non-negative solution, and a whole one if the conditions are whole. Three and more
(a table that shares several margins, inside a hierarchy) may have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.inference.overlap import Frame, Key, Overlap, View

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]
Margins = dict[Key, NDArray[np.float64]]
"""Numbers of every margin of the lattice: (nodes, groups), flat dimensions in alphabetical order."""


@dataclass(frozen=True, eq=False, slots=True)
class Condition:
    """Groups of a step's numbers that must add up to numbers settled before.

    Attributes
    ----------
    source
        The margin that holds the sums; the step's own for parents.
    labels
        (rows x cells,) index of the sum in ``sums`` that each number belongs to, -1 for none.
    rows
        Nodes of the source; its sums are ``settled[source][rows].ravel()``.
    """

    source: Key
    labels: Whole
    rows: Whole

    def sums(self, settled: Mapping[Key, NDArray[np.float64]]) -> Floats:
        """Return what each group must add up to."""
        flat: Floats = settled[self.source][self.rows].ravel()
        return flat


@dataclass(frozen=True, eq=False, slots=True)
class Step:
    """One margin at one depth.

    Attributes
    ----------
    key
        The margin.
    rows
        (rows,) its nodes at this depth.
    conditions
        What is settled already; a condition on parents comes first.
    """

    key: Key
    rows: Whole
    conditions: tuple[Condition, ...]


def walk(overlap: Overlap) -> Iterator[list[Step]]:
    """Yield the steps of one depth together: first all margins without a hierarchy, then depth by depth."""
    frames = {key: overlap.frame_of(key) for key in overlap.keys}
    yield [_step(key, 0, frames) for key in overlap.keys if key.along is None]
    for along in sorted({key.along for key in overlap.keys if key.along is not None}):
        keys = [key for key in overlap.keys if key.along == along]
        for depth in range(max(frames[key].tree.depths for key in keys)):
            yield [_step(key, depth, frames) for key in keys if frames[key].tree.depths > depth]


def _step(key: Key, depth: int, frames: Mapping[Key, Frame]) -> Step:
    frame = frames[key]
    rows = np.flatnonzero(frame.tree.depth == depth)
    conditions = [_parents(key, rows, frame)] if depth else []
    below = [
        sub
        for sub in frames
        if sub != key and sub.within(key) and (not depth or sub.along) and frames[sub].tree.depths > depth
    ]
    for sub in below:
        if not any(sub != other and sub.within(other) and _covers(other, sub, rows, frames) for other in below):
            conditions.append(_groups(key, sub, rows, frames))
    return Step(key, rows, tuple(conditions))


def _covers(other: Key, sub: Key, rows: Whole, frames: Mapping[Key, Frame]) -> bool:
    """Say whether a larger margin already fixes all that the smaller one would fix at these nodes."""
    if sub.along is None:
        return True
    reach = frames[sub].tree.nodes
    return bool((rows[rows < reach] < frames[other].tree.nodes).all())


def _parents(key: Key, rows: Whole, frame: Frame) -> Condition:
    above, place = np.unique(frame.tree.parents[rows], return_inverse=True)
    labels = place[:, None] * frame.cells + np.arange(frame.cells)
    return Condition(key, labels.ravel(), above)


def _groups(key: Key, sub: Key, rows: Whole, frames: Mapping[Key, Frame]) -> Condition:
    frame = canonical(frames[key])
    if sub.along is None:
        view = View(frame, sub, None)
        return Condition(sub, np.tile(view.groups, len(rows)), np.array([0]))
    held = rows < frames[sub].tree.nodes
    view = View(frame, sub, rows[held])
    labels = np.full((len(rows), frame.cells), -1, dtype=np.intp)
    labels[held] = np.arange(int(held.sum()))[:, None] * view.shape[1] + view.groups
    return Condition(sub, labels.ravel(), rows[held])


def canonical(frame: Frame) -> Frame:
    """Return the frame with its flat dimensions in alphabetical order."""
    return Frame(dict(sorted(frame.flat.items())), frame.along, frame.tree)


def margins_of(overlap: Overlap, tables: Mapping[str, NDArray[np.float64]]) -> Margins:
    """Return the numbers of every margin, each from the deepest table that shows it."""
    found = {}
    for key in overlap.keys:
        name = overlap.holding(key)[0]
        found[key] = show(overlap, name, key, tables[name])
    return found


def show(overlap: Overlap, name: str, key: Key, table: NDArray[np.float64]) -> Floats:
    """Return a table's view of a margin at all nodes that both have."""
    frame = overlap.frames[name]
    nodes = min(overlap.frame_of(key).tree.nodes, frame.tree.nodes)
    rows = np.arange(nodes) if key.along else None
    return View(frame, key, rows).gather(np.broadcast_to(table, frame.shape))


def tables_of(overlap: Overlap, margins: Mapping[Key, NDArray[np.float64]]) -> dict[str, Floats]:
    """Return every table's numbers from those of its own margin, in the table's own order of cells."""
    tables = {}
    for name, frame in overlap.frames.items():
        table = np.zeros(frame.shape)
        rows = np.arange(frame.tree.nodes) if frame.along else None
        View(frame, frame.key, rows).scatter(margins[frame.key][: frame.tree.nodes], table)
        tables[name] = table
    return tables
