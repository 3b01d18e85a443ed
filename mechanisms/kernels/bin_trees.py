"""A tree inside each bin of a histogram: sums over halves of halves, for consistent range queries.

The tree of a bin with w cells has ⌈log_b w⌉ + 1 levels of nodes; at the last, each cell is a node, and at
level d from the last a node covers b^d cells in a row (the last one of a bin maybe fewer). So every cell lies
in exactly one node of every level: one record changes one node per level.

Bins with as many levels are handled together, as a *stand* of trees. NumPy only, O(nodes).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tabularium.mechanisms.arrays import Integers


@dataclass(frozen=True, eq=False)
class Stand:
    """The trees of all bins that have the same number of levels.

    Attributes
    ----------
    levels
        How many nodes each cell lies in.
    cells
        Shape (cells,): positions of the cells, bin after bin, ascending.
    starts
        One array per level, root first: where its nodes begin in ``cells``.
    parents
        Shape (nodes,): the number of each node's parent, -1 for a root; nodes are numbered level by level.
    """

    levels: int
    cells: Integers
    starts: tuple[Integers, ...]
    parents: Integers

    def sums(self, counts: Integers) -> list[Integers]:
        """Return the sums of the nodes, one array per level, root first."""
        inside = counts[self.cells]
        return [np.add.reduceat(inside, starts) for starts in self.starts]


def stands(starts: Integers, size: int, branching: int) -> Iterator[Stand]:
    """Yield the trees of a histogram, those with the fewest levels first.

    Parameters
    ----------
    starts
        Shape (bins,): first cell of each bin, ascending from 0.
    size
        Number of cells.
    branching
        b, at least 2.
    """
    widths = np.diff(np.append(starts, size))
    levels = np.ones(widths.size, np.int64)
    reach = 1
    while reach < widths.max():
        levels += widths > reach
        reach *= branching
    for depth in np.unique(levels):
        mine = levels == depth
        yield _stand(starts[mine], widths[mine], int(depth), branching)


def one_tree(cells: int, branching: int) -> Stand:
    """Return the tree over a single bin of all cells."""
    return next(stands(np.zeros(1, dtype=np.int64), cells, branching))


def _stand(firsts: Integers, widths: Integers, levels: int, branching: int) -> Stand:
    inside = np.cumsum(widths) - widths  # where each bin begins among the cells of this stand
    cells = np.arange(widths.sum()) + np.repeat(firsts - inside, widths)
    starts, parents = [], [np.full(widths.size, -1)]
    above = np.arange(widths.size)  # number of each bin's first node on the level above
    nodes = 0
    for level in range(levels):
        span = branching ** (levels - 1 - level)
        nodes_of_bin = -(-widths // span)
        first = np.cumsum(nodes_of_bin) - nodes_of_bin
        place = np.arange(nodes_of_bin.sum()) - np.repeat(first, nodes_of_bin)
        starts.append(np.repeat(inside, nodes_of_bin) + place * span)
        if level:
            parents.append(np.repeat(above, nodes_of_bin) + place // branching)
        above, nodes = first + nodes, nodes + place.size
    return Stand(levels, cells, tuple(starts), np.concatenate(parents))
