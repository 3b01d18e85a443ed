"""The covariance of one table's least-squares estimate, as a linear map in two passes.

``consistency`` maps measurements to estimates. The same two passes map a vector h, a number at every node and
cell, to Sigma h, where Sigma is the covariance of the estimate: the solution of

    minimise  1/2 sum x_v^2 / s_v - sum h_v x_v   over tables that add up.

h enters where a measurement would: a node has the precision 1/s_v and the information y_v / s_v, and h only
adds to the information, so a subtree's estimate is shifted by t_v h_v. Never a matrix: O(nodes x cells).
Different cells of a table are independent of one another; nodes of one cell are not.
"""

from __future__ import annotations

import numpy as np

from tabularium.mechanisms.inference.arrays import Floats
from tabularium.mechanisms.inference.consistency import in_parallel, sibling_variances
from tabularium.mechanisms.inference.hierarchy import Hierarchy


class Covariance:
    """Sigma of one table.

    Parameters
    ----------
    tree
        The hierarchy of the rows.
    variances
        (nodes, cells) or (nodes, 1) of the measurements; leaves finite, inner nodes also infinite.
    cells
        Number of cells.

    Attributes
    ----------
    own, below
        As given; and the variance of every node from what was measured at and below it.
    diagonal
        (nodes, cells) or (nodes, 1): the variance of every value.
    """

    def __init__(self, tree: Hierarchy, variances: Floats, cells: int) -> None:
        self._up, self._down = list(tree.up(cells)), list(tree.down(cells))
        self.own = variances
        below = variances.copy()
        rest = np.ones_like(variances)
        for block in self._up:
            # The share of the parent's estimate that comes from its children, not from its own measurement.
            children = block.total(below[block.children])
            below[block.parents], weight = in_parallel(children, below[block.parents])
            rest[block.parents] = 1.0 - weight
        self.below = below
        self._rest = [rest[block.parents] for block in self._up]
        self._shares: list[Floats] = []
        self.diagonal = below.copy()
        for block in self._down:
            own = below[block.children]
            within, share = in_parallel(own, sibling_variances(block, own))
            self._shares.append(share)
            above = block.to_children(self.diagonal[block.parents])
            self.diagonal[block.children] = within + share * share * above

    def __call__(self, vector: Floats) -> Floats:
        """Return Sigma times ``vector`` (nodes, cells)."""
        moved: Floats = self.below * vector
        for block, rest in zip(self._up, self._rest, strict=True):
            moved[block.parents] += rest * block.total(moved[block.children])
        for block, share in zip(self._down, self._shares, strict=True):
            below = moved[block.children]
            correction = moved[block.parents] - block.total(below)
            moved[block.children] = below + share * block.to_children(correction)
        return moved
