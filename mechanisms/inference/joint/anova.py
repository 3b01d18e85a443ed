"""Tables that must agree, where variances do not depend on the cell: a direct and exact solution.

Split every table's cells at a node into orthogonal components, one for each subset A of its flat dimensions
(the analysis of variance): average over the dimensions not in A, then remove the average along each
dimension in A. With equal variances within a node the components of the noise are independent, agreement on
a margin is agreement on the components of all subsets of its dimensions, and adding up along the hierarchy
holds component by component. So the joint problem falls apart into one hierarchy for every A:

- in sums, table t shows S_A = N component, N = number of cells averaged over, with variance s_v N;
- all tables that have the dimensions A show the same S_A: inverse-variance mean;
- ``consistency`` on the deepest of their hierarchies, in two linear passes. Tables without the hierarchy
  measure the node above its roots.

x of table t is the sum over A of S_A / N. The variance at a node is exact,

    sum over A of  V_A / N^2  times  prod over d in A of (1 - 1 / size_d),

the product being the diagonal of the projection that removes averages. 2^d components for d flat dimensions,
each of the size of its margin, so O(cells) in all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
from numpy.typing import NDArray

from mechanisms.errors import MechanismError
from mechanisms.inference.consistency import consistency
from mechanisms.inference.estimate import Estimate
from mechanisms.inference.hierarchy import Hierarchy
from mechanisms.inference.joint.shared_marginals import Frame, Overlap

Floats = NDArray[np.float64]

DIMENSIONS = 12
"""Flat dimensions of one table beyond which 2^d components are too many to be the quicker way."""


def separable(overlap: Overlap, variances: Mapping[str, Floats]) -> bool:
    """Say whether the problem falls apart: equal variances within nodes, at most one hierarchy."""
    frames = overlap.frames.values()
    return (
        all(given.shape[1] == 1 for given in variances.values())
        and len({frame.along for frame in frames} - {None}) <= 1
        and all(len(frame.flat) <= DIMENSIONS for frame in frames)
    )


def by_components(
    overlap: Overlap, values: Mapping[str, Floats], variances: Mapping[str, Floats]
) -> dict[str, Estimate]:
    """Return the joint least-squares estimates, with exact variances (nodes, 1)."""
    found = {
        name: Estimate(np.zeros(frame.shape), np.zeros((frame.tree.nodes, 1)))
        for name, frame in overlap.frames.items()
    }
    for chosen in _subsets(overlap):
        parts = [
            _Part.of(name, frame, chosen)
            for name, frame in overlap.frames.items()
            if set(chosen) <= set(frame.flat)
        ]
        above, answer = _component(parts, values, variances, chosen)
        for part in parts:
            rows = answer.values[part.rows(above)]
            found[part.name].values[...] += part.spread(rows / part.folds)
            share = part.share / part.folds**2
            found[part.name].variances[...] += share * answer.variances[part.rows(above)]
    return found


@dataclass(frozen=True, eq=False, slots=True)
class _Part:
    """A component of a table: ``folds`` cells are averaged over, axes ``away`` dropped, ``kept`` centred."""

    name: str
    frame: Frame
    kept: tuple[int, ...]
    away: tuple[int, ...]
    folds: int
    share: float

    @classmethod
    def of(cls, name: str, frame: Frame, chosen: tuple[str, ...]) -> _Part:
        names, sizes = tuple(frame.flat), tuple(frame.flat.values())
        kept = tuple(1 + names.index(each) for each in chosen)
        away = tuple(axis for axis in range(1, 1 + len(names)) if axis not in kept)
        folds = prod(sizes[axis - 1] for axis in away)
        share = prod(1.0 - 1.0 / sizes[axis - 1] for axis in kept)
        return cls(name, frame, kept, away, folds, share)

    def rows(self, above: int) -> slice:
        """Where the table's nodes stand in the common hierarchy."""
        first = above if self.frame.along else 0
        return slice(first, first + self.frame.tree.nodes)

    def sums(self, table: Floats) -> Floats:
        """Return S_A of (nodes, cells): (nodes, product of the chosen sizes)."""
        full = table.reshape(len(table), *self.frame.flat.values()).sum(axis=self.away, keepdims=True)
        for axis in self.kept:
            full = full - full.mean(axis=axis, keepdims=True)
        order = (0, *self.kept, *self.away)
        flat: Floats = full.transpose(order).reshape(len(table), -1)
        return flat

    def spread(self, rows: Floats) -> Floats:
        """Hand S_A / N back to (nodes, cells)."""
        sizes = tuple(self.frame.flat.values())
        order = (0, *self.kept, *self.away)
        shape = (len(rows), *(sizes[axis - 1] for axis in self.kept), *(1 for _ in self.away))
        full = rows.reshape(shape).transpose(np.argsort(order))
        return np.broadcast_to(full, (len(rows), *sizes)).reshape(len(rows), -1)


def _subsets(overlap: Overlap) -> list[tuple[str, ...]]:
    """List every subset of any table's flat dimensions once, in alphabetical order.

    What is left of a dimension of one category after removing its average is nothing.
    """
    found = {
        chosen
        for frame in overlap.frames.values()
        for size in range(len(frame.flat) + 1)
        for chosen in combinations(sorted(each for each in frame.flat if frame.flat[each] > 1), size)
    }
    return sorted(found, key=lambda chosen: (len(chosen), chosen))


def _component(
    parts: list[_Part],
    values: Mapping[str, Floats],
    variances: Mapping[str, Floats],
    chosen: tuple[str, ...],
) -> tuple[int, Estimate]:
    """Blend the tables' measurements of one component and make it add up along the hierarchy.

    Returns the number of nodes put above the roots (one, where a table without the hierarchy or a second
    root needs it) and the estimate.
    """
    tree, above = _common(parts)
    cells = prod(parts[0].frame.flat[name] for name in chosen)
    total, weight = np.zeros((tree.nodes, cells)), np.zeros((tree.nodes, 1))
    exact = np.zeros((tree.nodes, 1), dtype=bool)
    for part in parts:
        rows = part.rows(above)
        spread = variances[part.name] * part.folds
        shown = np.where(np.isinf(spread), 0.0, values[part.name])
        shown = part.sums(shown)
        sure = (spread == 0) & ~exact[rows]
        _refuse_contradiction(part, total[rows], shown, (spread == 0) & exact[rows])
        # Exact values replace what was blended before, and nothing noisy is added to them afterwards.
        total[rows] = np.where(sure, shown, total[rows])
        exact[rows] |= sure
        precision = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
        fresh = np.where(exact[rows], 0.0, precision)
        share = np.divide(fresh, weight[rows] + fresh, out=np.zeros_like(fresh), where=fresh > 0)
        total[rows] += share * (shown - total[rows])
        weight[rows] += fresh
    spread = np.divide(1.0, weight, out=np.full_like(weight, np.inf), where=weight > 0)
    spread[exact] = 0.0
    return above, consistency(tree, total, spread)


def _common(parts: list[_Part]) -> tuple[Hierarchy, int]:
    trees = [part.frame.tree for part in parts if part.frame.along]
    if not trees:
        return parts[0].frame.tree, 0
    deepest = max(trees, key=lambda tree: tree.nodes)
    if len(trees) == len(parts):
        return deepest, 0
    return Hierarchy(np.concatenate(([-1], deepest.parents + 1))), 1


def _refuse_contradiction(part: _Part, known: Floats, shown: Floats, both: NDArray[np.bool_]) -> None:
    if not both.any():
        return
    size = np.maximum(1.0, np.maximum(np.abs(known), np.abs(shown)))
    wrong = both & (np.abs(known - shown) > 1e-9 * size)
    if wrong.any():
        node = int(wrong.any(axis=1).argmax())
        raise MechanismError(
            f"the exact values of table {part.name} at node {node} contradict those of another table",
            where="inference",
            mend="drop one of the invariants",
        )
