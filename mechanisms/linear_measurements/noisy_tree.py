"""Noisy sums on a forest over a table: weighted least squares, and covariances of any sums.

The leaves are groups of cells, single cells mostly, that share no cell and are all of the table. Every leaf
was measured; of the nodes above them any may have been.

The variance of a sum. Let t_v be the variance of the best estimate of node v from its own subtree, and T_v
the sum of those of its children: t_v = 1/(1/s_v + 1/T_v), where s_v is the variance of what was measured at v
(:mod:`tabularium.mechanisms.inference.consistency`, whose estimates these are). With errors taken as Gaussian
for a moment, the children u of v are, given the value of v, independent Gaussians of variances t_u
conditioned on their sum. A sum F of leaves is, given the value of v, of slope m_v in it, so that

    m_v = Σ m_u·t_u / T_v,      Cov(F, G) = Σ_roots t·m·m' + Σ_v (Σ_u t_u·m_u·m'_u - T_v·m_v·m'_v).

A sum has slopes other than 0 only above its own leaves. So the slopes of all sums are carried up together as
a sparse matrix, level by level: O(cells·depth) for all rows of an answer, however many there are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from tabularium.mechanisms.arrays import Bools, Floats, Indices
from tabularium.mechanisms.inference.consistency import consistency
from tabularium.mechanisms.inference.hierarchy import Hierarchy
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
        found = consistency(self.tree, values[:, None], self.variances).values[:, 0]
        sizes = np.bincount(self.leaf, minlength=self.tree.nodes)
        return np.asarray((found / np.maximum(sizes, 1))[self.leaf])

    def known(self, sums: Sums) -> Bools:
        """Return which sums cut no leaf."""
        one = self._sum_of_leaves(sums)[self.leaf]
        found = np.ones(sums.number + 1, bool)
        cut = one != sums.of
        found[one[cut]] = found[sums.of[cut]] = False
        return found[:-1]

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
        found = np.zeros((sums.rows, sums.columns, sums.columns))
        keys, slopes = np.empty(0, np.intp), np.empty(0)
        for depth in range(self.tree.depths - 1, -1, -1):
            if keys.size:  # slopes of nodes above those of the last round
                found -= added_up(sums, keys, slopes, total[keys // number])
            leaves = inside[starts[depth] : starts[depth + 1]]
            if leaves.size:
                keys = np.concatenate([keys, leaves * number + of[leaves]])
                slopes = np.concatenate([slopes, np.ones(len(leaves))])
                keys, slopes = coalesced(keys, slopes)
            if keys.size:
                nodes = keys // number
                found += added_up(sums, keys, slopes, t[nodes])
                if depth:
                    keys, slopes = coalesced(parents[nodes] * number + keys % number, slopes * share[nodes])
        return np.where(np.eye(sums.columns, dtype=bool), np.maximum(found, 0.0), found)

    def _sum_of_leaves(self, sums: Sums) -> Indices:
        """Return (nodes,) the sum that a cell of each leaf is in; -1 where there is none."""
        found = np.full(self.tree.nodes, -1, np.intp)
        found[self.leaf] = sums.of
        return found

    @cached_property
    def _subtree(self) -> tuple[Floats, Floats]:
        """(nodes,) variances of estimates from subtrees, and their sums over the children of each node."""
        t, total = self.variances.astype(np.float64), np.full(self.tree.nodes, np.inf)
        for block in self.tree.up():
            total[block.parents] = block.total(t[block.children])
            t[block.parents] = 1 / (1 / t[block.parents] + 1 / total[block.parents])
        return t, total
