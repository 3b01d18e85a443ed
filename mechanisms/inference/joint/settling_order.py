"""The order in which several tables are settled: totals before parts, shared margins before tables.

The lattice of an ``Overlap`` (all tables' dimensions and all margins that they share) is walked from the
grand total up, and down each hierarchy depth by depth. At every step one margin's numbers at one depth are
settled, given what was settled before:

- its own parents: children add up to them, cell by cell;
- the largest smaller margins at the same nodes: cells add up to their groups.

With one such condition the numbers fall into separate families, with two they are a transportation table,
which always has a non-negative solution, and a whole one if the sums are whole. Three and more
(a table that shares several margins, inside a hierarchy) may have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mechanisms.inference.joint.nonnegative_projection import incidence
from mechanisms.inference.joint.shared_marginals import Frame, Key, Number, Overlap, View

if TYPE_CHECKING:
    from scipy import sparse

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]
Bools = NDArray[np.bool_]
Margins = dict[Key, NDArray[np.float64]]
"""Numbers of every margin of the lattice: (nodes, groups), flat dimensions in alphabetical order."""
WholeMargins = dict[Key, NDArray[np.int64]]

CERTAIN = 1e-9
"""Variances below this part of the margin's largest one are exact."""


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

    def sums(self, settled: Mapping[Key, NDArray[Number]]) -> NDArray[Number]:
        """Return what each group must add up to."""
        flat: NDArray[Number] = settled[self.source][self.rows].ravel()
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
    frames = overlap.shapes
    yield [step_at(key, np.array([0]), 0, frames) for key in overlap.keys if key.along is None]
    for along in sorted({key.along for key in overlap.keys if key.along is not None}):
        keys = [key for key in overlap.keys if key.along == along]
        for depth in range(max(frames[key].tree.depths for key in keys)):
            yield [
                step_at(key, np.flatnonzero(frames[key].tree.depth == depth), depth, frames)
                for key in keys
                if frames[key].tree.depths > depth
            ]


def below(overlap: Overlap, step: Step, parents: Whole) -> Step:
    """Return what the step has to say of the children of ``parents`` alone."""
    frames = overlap.shapes
    tree = frames[step.key].tree
    rows = step.rows[np.isin(tree.parents[step.rows], parents)]
    return step_at(step.key, rows, 1, frames)


def step_at(key: Key, rows: Whole, depth: int, frames: Mapping[Key, Frame]) -> Step:
    """Return the step that settles these nodes of a margin, all at one depth."""
    frame = frames[key]
    conditions = [_parents(key, rows, frame)] if depth else []
    inside = [sub for sub in frames if sub != key and sub.within(key) and (not depth or sub.along)]
    inside = [sub for sub in inside if not sub.along or (rows < frames[sub].tree.nodes).any()]
    for sub in inside:
        larger = [other for other in inside if other != sub and sub.within(other)]
        if not any(_covers(other, sub, rows, frames) for other in larger):
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
    frame = frames[key]
    if sub.along is None:
        view = View(frame, sub, None)
        return Condition(sub, np.tile(view.groups, len(rows)), np.array([0]))
    held = rows < frames[sub].tree.nodes
    view = View(frame, sub, rows[held])
    labels = np.full((len(rows), frame.cells), -1, dtype=np.intp)
    labels[held] = np.arange(int(held.sum()))[:, None] * view.shape[1] + view.groups
    return Condition(sub, labels.ravel(), rows[held])


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
    nodes = min(overlap.shapes[key].tree.nodes, frame.tree.nodes)
    rows = np.arange(nodes) if key.along else None
    return View(frame, key, rows).gather(np.broadcast_to(table, frame.shape))


def tables_of(overlap: Overlap, margins: Mapping[Key, NDArray[Number]]) -> dict[str, NDArray[Number]]:
    """Return every table's numbers from those of its own margin, in the table's own order of cells."""
    tables = {}
    for name, frame in overlap.frames.items():
        shown = margins[frame.key]
        table = np.zeros(frame.shape, dtype=shown.dtype)
        rows = np.arange(frame.tree.nodes) if frame.along else None
        View(frame, frame.key, rows).scatter(shown[: frame.tree.nodes], table)
        tables[name] = table
    return tables


def weights_of(overlap: Overlap, variances: Mapping[str, Floats]) -> Margins:
    """Return variances of every margin's numbers, good enough to weigh them: the least of any table's sum."""
    found = {}
    for key in overlap.keys:
        frame = overlap.shapes[key]
        least = np.full((frame.tree.nodes, frame.cells), np.inf)
        for name in overlap.holding(key):
            shown = show(overlap, name, key, variances[name])
            least[: len(shown)] = np.minimum(least[: len(shown)], shown)
        least[least <= CERTAIN * least.max()] = 0.0
        found[key] = least
    return found


def joined(
    steps: Sequence[Step], settled: Mapping[Key, NDArray[Number]]
) -> tuple[sparse.csr_array, list[NDArray[Number]], list[Bools]]:
    """Return the conditions on all numbers of these steps, laid end to end, as A x = b.

    A sum that is itself one of the numbers sought enters A with -1, and b with 0.

    Returns
    -------
    system
        A (conditions, numbers).
    sums
        b, one vector for each set of conditions.
    given
        For each set, which of its sums are settled already.
    """
    from scipy import sparse

    here = np.cumsum([0, *(settled[step.key][step.rows].size for step in steps)])
    columns = {step.key: np.full(settled[step.key].shape, -1) for step in steps}
    for step, first in zip(steps, here, strict=False):
        shape = settled[step.key][step.rows].shape
        columns[step.key][step.rows] = first + np.arange(shape[0] * shape[1]).reshape(shape)
    systems, sums, given = [], [], []
    for step, first in zip(steps, here, strict=False):
        for condition in step.conditions:
            total = condition.sums(settled).copy()
            known = np.ones(len(total), dtype=bool)
            labels = np.full(here[-1], -1)
            labels[first : first + condition.labels.size] = condition.labels
            system = incidence([labels], [len(total)])
            if condition.source in columns:
                sought = columns[condition.source][condition.rows].ravel()
                known = sought < 0
                held = np.flatnonzero(~known)
                entries = (np.ones(held.size), (held, sought[held]))
                system = system - sparse.csr_array(entries, shape=system.shape)
                total[held] = 0
            systems.append(system)
            sums.append(total)
            given.append(known)
    return sparse.vstack(systems).tocsr(), sums, given


def parted(steps: Sequence[Step], numbers: NDArray[Number], settled: Mapping[Key, NDArray[Number]]) -> None:
    """Put numbers laid end to end into the margins, in place."""
    first = 0
    for step in steps:
        rows = settled[step.key][step.rows]
        settled[step.key][step.rows] = numbers[first : first + rows.size].reshape(rows.shape)
        first += rows.size
