"""An approximate inverse of the dual system of shared marginals, one agreement at a time.

For one link S is B_1 + B_2, the covariances of the marginal as the two tables show it. Where a table's
variances do not depend on the cell, it shows one group of the marginal with the covariance of a hierarchy
that was measured with the group's variances added up. So the inverse of B_t is a *precision*: the sum over
nodes v of 1 1' / s_v over the leaves below v (cheap to apply: add up, divide, hand down). And

    (B_1 + B_2)^-1  =  B_1^-1 (B_1^-1 + B_2^-1)^-1 B_2^-1,

whose middle factor is the covariance of one hierarchy measured by both. Hence linear work, exact for one
link with equal variances, and close where they vary within a node: the iterations then depend on how much
they vary, not on the size of the tables or the shape of the hierarchy. Couplings between links, at most half
as strong as the links, are left to the iteration.
"""

from __future__ import annotations

import numpy as np

from tabularium.mechanisms.inference.arrays import Floats
from tabularium.mechanisms.inference.hierarchy import Hierarchy
from tabularium.mechanisms.inference.joint.covariance import Covariance
from tabularium.mechanisms.inference.joint.shared_marginals import Frame, Link, View

FLOOR = 1e-6
"""Exact measurements count as this much of the largest variance: an approximation needs no zeros."""


class LinkPreconditioner:
    """Approximately (B_1 + B_2)^-1 for one link.

    Parameters
    ----------
    link
        The agreement.
    frames
        The shapes of its two tables.
    covariances
        Their covariances.
    """

    def __init__(self, link: Link, frames: tuple[Frame, Frame], covariances: tuple[Covariance, Covariance]):
        self._shape = link.views[0].shape
        tree = min((frame.tree for frame in frames), key=lambda tree: tree.nodes)
        self._rows = link.views[0].rows
        if self._rows is None:
            total = sum(
                view.gather(np.broadcast_to(covariance.diagonal, frame.shape))
                for view, frame, covariance in zip(link.views, frames, covariances, strict=True)
            )
            self._scale: Floats = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
            return
        self._tree = tree
        self._precisions = [
            _precision(tree, view, frame, covariance)
            for view, frame, covariance in zip(link.views, frames, covariances, strict=True)
        ]
        both = self._precisions[0] + self._precisions[1]
        with np.errstate(divide="ignore"):
            self._both = Covariance(tree, 1.0 / both, self._shape[1])

    def __call__(self, numbers: Floats) -> Floats:
        """Return the approximate inverse times ``numbers`` (equations,)."""
        given = numbers.reshape(self._shape)
        if self._rows is None:
            return (self._scale * given).ravel()
        full = np.zeros((self._tree.nodes, self._shape[1]))
        full[self._rows] = given
        moved = self._both(self._times_precision(full, self._precisions[1]))
        return self._times_precision(moved, self._precisions[0])[self._rows].ravel()

    def _times_precision(self, table: Floats, precision: Floats) -> Floats:
        """Return the precision times values at the leaves, in place; inner nodes are ignored."""
        table[~self._tree.leaf] = 0.0
        for block in self._tree.up(table.shape[1]):
            table[block.parents] = block.total(table[block.children])
        table *= precision
        for block in self._tree.down(table.shape[1]):
            table[block.children] += block.to_children(table[block.parents])
        table[~self._tree.leaf] = 0.0
        return table


def _precision(tree: Hierarchy, view: View, frame: Frame, covariance: Covariance) -> Floats:
    """Return 1 / variance with which the table measures the marginal at every node of ``tree``.

    A leaf of the smaller tree may be an inner node of the table's own: then it counts with all that was
    measured below it.
    """
    variances = np.where(tree.leaf[:, None], covariance.below[: tree.nodes], covariance.own[: tree.nodes])
    each = np.broadcast_to(variances, (tree.nodes, frame.cells))
    summed = View(frame, view.marginal, np.arange(tree.nodes)).gather(each)
    finite = summed[np.isfinite(summed)]
    least = FLOOR * (float(finite.max()) if finite.size else 1.0) or 1.0
    precision: Floats = 1.0 / np.maximum(summed, least)
    return precision
