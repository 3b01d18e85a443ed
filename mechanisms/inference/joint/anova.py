"""Tables that must agree, where variances do not depend on the cell: an exact analysis of variance.

Every table's cells at a node are split into orthogonal terms, one for each subset A of its flat dimensions.
In sums, table t shows S_A = N·term, N the cells averaged over, with variance s_v·N; all tables with the
dimensions A show the same S_A. So the joint problem falls apart into one hierarchy for every A, solved by
``consistency``; tables without the hierarchy measure the node above its roots. The variance at a node is
exact, Σ_A V_A / N² · Π over d in A of (1 - 1/size_d). Cost: O(cells), 2^d terms for d dimensions. Derivation:
docs/explanation/inference.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference.estimate import Estimate, contradiction
from tabularium.mechanisms.inference.hierarchy import Hierarchy
from tabularium.mechanisms.inference.joint.shared_marginals import TableSet, TableShape
from tabularium.mechanisms.inference.tree_least_squares import consistency

DIMENSIONS = 12
"""Flat dimensions of one table beyond which 2^d terms are too many to be the quicker way."""


def separable(overlap: TableSet, variances: Mapping[str, Floats]) -> bool:
    """Say whether the problem falls apart: equal variances within nodes, at most one hierarchy."""
    frames = overlap.frames.values()
    return (
        all(given.shape[1] == 1 for given in variances.values())
        and len({frame.along for frame in frames} - {None}) <= 1
        and all(len(frame.flat) <= DIMENSIONS for frame in frames)
    )


def anova_estimates(
    overlap: TableSet, values: Mapping[str, Floats], variances: Mapping[str, Floats]
) -> dict[str, Estimate]:
    """Return the joint least-squares estimates, with exact variances (nodes, 1)."""
    found = {
        name: Estimate(np.zeros(frame.shape), np.zeros((frame.tree.nodes, 1)))
        for name, frame in overlap.frames.items()
    }
    for chosen in _subsets_of_dimensions(overlap):
        terms = [
            _Term.of(name, frame, chosen)
            for name, frame in overlap.frames.items()
            if set(chosen) <= set(frame.flat)
        ]
        above, answer = _blended(terms, values, variances, chosen)
        for term in terms:
            rows = answer.values[term.rows(above)]
            found[term.name].values[...] += term.to_cells(rows / term.averaged)
            share = term.share / term.averaged**2
            found[term.name].variances[...] += share * answer.variances[term.rows(above)]
    return found


@dataclass(frozen=True, eq=False, slots=True)
class _Term:
    """A term of a table: an average over so many cells; axes ``away`` dropped, ``kept`` centred."""

    name: str
    frame: TableShape
    kept: tuple[int, ...]
    away: tuple[int, ...]
    averaged: int
    share: float

    @classmethod
    def of(cls, name: str, frame: TableShape, chosen: tuple[str, ...]) -> _Term:
        names, sizes = tuple(frame.flat), tuple(frame.flat.values())
        kept = tuple(1 + names.index(each) for each in chosen)
        away = tuple(axis for axis in range(1, 1 + len(names)) if axis not in kept)
        averaged = prod(sizes[axis - 1] for axis in away)
        share = prod(1.0 - 1.0 / sizes[axis - 1] for axis in kept)
        return cls(name, frame, kept, away, averaged, share)

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

    def to_cells(self, rows: Floats) -> Floats:
        """Hand S_A / N back to (nodes, cells)."""
        sizes = tuple(self.frame.flat.values())
        order = (0, *self.kept, *self.away)
        shape = (len(rows), *(sizes[axis - 1] for axis in self.kept), *(1 for _ in self.away))
        full = rows.reshape(shape).transpose(np.argsort(order))
        return np.broadcast_to(full, (len(rows), *sizes)).reshape(len(rows), -1)


def _subsets_of_dimensions(overlap: TableSet) -> list[tuple[str, ...]]:
    """List every subset of any table's flat dimensions once, small ones first.

    Dimensions of one category are left out: nothing remains of them once their average is removed.
    """
    found = {
        chosen
        for frame in overlap.frames.values()
        for size in range(len(frame.flat) + 1)
        for chosen in combinations(sorted(each for each in frame.flat if frame.flat[each] > 1), size)
    }
    return sorted(found, key=lambda chosen: (len(chosen), chosen))


def _blended(
    terms: list[_Term],
    values: Mapping[str, Floats],
    variances: Mapping[str, Floats],
    chosen: tuple[str, ...],
) -> tuple[int, Estimate]:
    """Blend the tables' measurements of one term and make it add up along the hierarchy.

    Returns the number of nodes put above the roots (one, where a table without the hierarchy needs it) and
    the estimate.
    """
    tree, above = _common_tree(terms)
    cells = prod(terms[0].frame.flat[name] for name in chosen)
    total, weight = np.zeros((tree.nodes, cells)), np.zeros((tree.nodes, 1))
    exact = np.zeros((tree.nodes, 1), dtype=bool)
    for term in terms:
        rows = term.rows(above)
        variance = variances[term.name] * term.averaged
        shown = term.sums(np.where(np.isinf(variance), 0.0, values[term.name]))
        node = contradiction(total[rows], shown, (variance == 0) & exact[rows])
        if node is not None:
            raise MechanismError(
                f"the exact values of table {term.name} at node {node} contradict those of another table",
                where="inference",
                hint="drop one of the invariants",
            )
        # Exact values replace what was blended before, and nothing noisy is added to them afterwards.
        total[rows] = np.where((variance == 0) & ~exact[rows], shown, total[rows])
        exact[rows] |= variance == 0
        precision = np.divide(1.0, variance, out=np.zeros_like(variance), where=variance > 0)
        fresh = np.where(exact[rows], 0.0, precision)
        share = np.divide(fresh, weight[rows] + fresh, out=np.zeros_like(fresh), where=fresh > 0)
        total[rows] += share * (shown - total[rows])
        weight[rows] += fresh
    variance = np.divide(1.0, weight, out=np.full_like(weight, np.inf), where=weight > 0)
    variance[exact] = 0.0
    return above, consistency(tree, total, variance)


def _common_tree(terms: list[_Term]) -> tuple[Hierarchy, int]:
    trees = [term.frame.tree for term in terms if term.frame.along]
    if not trees:
        return terms[0].frame.tree, 0
    deepest = max(trees, key=lambda tree: tree.nodes)
    if len(trees) == len(terms):
        return deepest, 0
    return Hierarchy(np.concatenate(([-1], deepest.parents + 1))), 1
