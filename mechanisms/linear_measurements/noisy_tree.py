"""Noisy sums on a forest over a table: weighted least squares, and covariances of any sums.

The leaves are groups of cells, single cells mostly, that share no cell and are all of the table. Every leaf
was measured; of the nodes above them any may have been.

With t_v the variance of the best estimate of node v from its own subtree, and T_v the sum of those of its
children u, a sum F of leaves is, given the value of v, of slope m_v in it, so that

    m_v = Σ m_u·t_u / T_v,      Cov(F, G) = Σ_roots t·m·m' + Σ_v (Σ_u t_u·m_u·m'_u - T_v·m_v·m'_v)

(docs/explanation/errors-of-answers.md). A sum has slopes other than 0 only above its own leaves: the slopes
of all sums are carried up together as a sparse matrix, level by level, in O(cells·depth).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from tabularium.mechanisms.arrays import Bools, Floats, Indices
from tabularium.mechanisms.inference.hierarchy import Hierarchy
from tabularium.mechanisms.inference.tree_least_squares import TreeLeastSquares, consistency
from tabularium.mechanisms.linear_measurements.linear_measurement import (
    LinearMeasurement,
    NoisyCells,
    Sums,
    added_up,
    coalesced,
    variance_in,
)
from tabularium.mechanisms.measured import Array
from tabularium.mechanisms.noise_distributions import Noise


@dataclass(frozen=True, eq=False)
class NoisyTree(LinearMeasurement):
    """Noisy sums at nodes of a forest.

    Attributes
    ----------
    tree
        The forest; ``values`` has one number for each node.
    drawn
        (nodes,) which of the distributions of ``noise`` each was drawn with; -1 where it was not measured.
    leaf
        (cells,) the leaf that each cell is in.
    """

    tree: Hierarchy = field(kw_only=True)
    drawn: Indices = field(kw_only=True)
    leaf: Indices = field(kw_only=True)

    @classmethod
    def flat(
        cls, leaf: ArrayLike, values: Array, noise: Noise, *, chosen_by: LinearMeasurement | None = None
    ) -> NoisyTree:
        """Return noisy sums of groups of cells with nothing above them."""
        return cls(
            values.reshape(-1),
            (noise,),
            tree=Hierarchy(np.full(values.size, -1)),
            drawn=np.zeros(values.size, np.intp),
            leaf=np.asarray(leaf, np.intp).reshape(-1),
            chosen_by=chosen_by,
        )

    @cached_property
    def variances(self) -> Floats:
        """(nodes,) of what was measured; infinite where nothing was."""
        return np.array([*map(variance_in, self.noise), np.inf])[self.drawn]

    def single_cells(self) -> NoisyCells | None:
        """Return the leaves, if each is a cell and all were drawn alike."""
        drawn = np.unique(self.drawn[self.leaf])
        if len(drawn) > 1 or len(np.unique(self.leaf)) < len(self.leaf):
            return None
        return NoisyCells(self.values[self.leaf], (self.noise[int(drawn[0])],))

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.leaf)

    def estimates(self) -> Floats:
        """Return the leaves' estimates, spread evenly over their cells."""
        values = np.where(self.drawn >= 0, self.values, 0).astype(np.float64)
        result = consistency(self.tree, values[:, None], self.variances).values[:, 0]
        sizes = np.bincount(self.leaf, minlength=self.tree.nodes)
        return np.asarray((result / np.maximum(sizes, 1))[self.leaf])

    def known(self, sums: Sums) -> Bools:
        """Return which sums cut no leaf."""
        one = self._sum_of_leaves(sums)[self.leaf]
        result = np.ones(sums.number + 1, bool)
        cut = one != sums.of
        result[one[cut]] = result[sums.of[cut]] = False
        return result[:-1]

    def covariances(self, sums: Sums) -> Floats:
        """Return the covariances of sums that cut no leaf."""
        t, total = self._subtree
        of, number = self._sum_of_leaves(sums), max(sums.number, 1)
        inside = np.flatnonzero(of >= 0)
        inside = inside[np.argsort(self.tree.depth[inside], kind="stable")]
        starts = np.searchsorted(self.tree.depth[inside], np.arange(self.tree.depths + 1))
        share = np.zeros(self.tree.nodes)
        parents, below = self.tree.parents, self.tree.parents >= 0
        share[below] = t[below] / total[parents[below]]
        result = np.zeros((sums.rows, sums.columns, sums.columns))
        keys, slopes = np.empty(0, np.intp), np.empty(0)
        for depth in range(self.tree.depths - 1, -1, -1):
            if keys.size:  # slopes of nodes above those of the last round
                result -= added_up(sums, keys, slopes, total[keys // number])
            leaves = inside[starts[depth] : starts[depth + 1]]
            if leaves.size:
                keys = np.concatenate([keys, leaves * number + of[leaves]])
                slopes = np.concatenate([slopes, np.ones(len(leaves))])
                keys, slopes = coalesced(keys, slopes)
            if keys.size:
                nodes = keys // number
                result += added_up(sums, keys, slopes, t[nodes])
                if depth:
                    keys, slopes = coalesced(parents[nodes] * number + keys % number, slopes * share[nodes])
        return np.where(np.eye(sums.columns, dtype=bool), np.maximum(result, 0.0), result)

    def _sum_of_leaves(self, sums: Sums) -> Indices:
        """Return (nodes,) the sum that a cell of each leaf is in; -1 where there is none."""
        result = np.full(self.tree.nodes, -1, np.intp)
        result[self.leaf] = sums.of
        return result

    @cached_property
    def _subtree(self) -> tuple[Floats, Floats]:
        """(nodes,) variances of estimates from subtrees, and their sums over the children of each node."""
        below = TreeLeastSquares(self.tree, self.variances[:, None]).below[:, 0]
        total = np.full(self.tree.nodes, np.inf)
        for block in self.tree.up():
            total[block.parents] = block.total(below[block.children])
        return below, total


def side_by_side(
    parts: Sequence[LinearMeasurement | None], places: Sequence[Indices], shape: tuple[int, ...]
) -> LinearMeasurement | None:
    """Return the measurement of a table whose parts were measured one by one; None if one was not.

    ``places``: of each part, whose noise it shares with none, the places of its cells in the table.
    """
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    before = [part.chosen_by for part in known]
    chosen_by = side_by_side(before, places, shape) if any(before) else None
    noise = tuple(dict.fromkeys(noise for part in known for noise in part.noise))
    cells = [part for part in known if isinstance(part, NoisyCells)]
    if len(cells) == len(known) and len(noise) == 1:
        table = np.empty(sum(map(len, places)), cells[0].values.dtype)
        for part, own in zip(cells, places, strict=True):
            table[own] = part.values.reshape(-1)
        return NoisyCells(table.reshape(shape), noise, chosen_by=chosen_by)
    trees = [part for part in known if isinstance(part, NoisyTree)]
    if len(trees) == len(known):
        return _forest(trees, places, noise, chosen_by)
    values = np.concatenate([part.values.reshape(-1) for part in known])
    return SideBySide(values, noise, parts=tuple(known), places=tuple(places), chosen_by=chosen_by)


def _forest(
    trees: Sequence[NoisyTree],
    places: Sequence[Indices],
    noise: tuple[Noise, ...],
    chosen_by: LinearMeasurement | None,
) -> NoisyTree:
    firsts = np.cumsum([0, *(part.tree.nodes for part in trees)])
    leaf = np.empty(sum(map(len, places)), np.intp)
    parents, drawn = [], []
    for part, own, first in zip(trees, places, firsts, strict=False):
        above = part.tree.parents
        parents.append(np.where(above < 0, -1, above + first))
        drawn.append(np.array([*map(noise.index, part.noise), -1])[part.drawn])
        leaf[own] = part.leaf + first
    values = np.concatenate([part.values for part in trees])
    tree = Hierarchy(np.concatenate(parents))
    return NoisyTree(values, noise, tree=tree, drawn=np.concatenate(drawn), leaf=leaf, chosen_by=chosen_by)


@dataclass(frozen=True, eq=False)
class SideBySide(LinearMeasurement):
    """Measurements of parts of a table that share no cell and, together, are all of it, in these places."""

    parts: tuple[LinearMeasurement, ...] = field(kw_only=True)
    places: tuple[Indices, ...] = field(kw_only=True)

    @property
    def variances(self) -> Floats:
        """Of the values of each part, part after part."""
        return np.concatenate(
            [np.broadcast_to(part.variances, part.values.size).reshape(-1) for part in self.parts]
        )

    @property
    def cells(self) -> int:
        """Number of cells of all parts."""
        return sum(map(len, self.places))

    def estimates(self) -> Floats:
        """Return the estimates of every part where its cells lie."""
        result = np.empty(self.cells)
        for part, places in zip(self.parts, self.places, strict=True):
            result[places] = part.estimates()
        return result

    def known(self, sums: Sums) -> Bools:
        """Return which sums each part knows its share of."""
        result = np.ones((sums.rows, sums.columns), bool)
        for part, places in zip(self.parts, self.places, strict=True):
            own, rows = sums.within(places)
            result[rows] &= part.known(own).reshape(len(rows), sums.columns)
        return result.reshape(-1)

    def covariances(self, sums: Sums) -> Floats:
        """Return the covariances of the shares of all parts, added up: no noise is in two of them."""
        result = np.zeros((sums.rows, sums.columns, sums.columns))
        for part, places in zip(self.parts, self.places, strict=True):
            own, rows = sums.within(places)
            result[rows] += part.covariances(own)
        return result
