"""b-ary trees over a row of cells, and how exact their consistent answers are, in closed form.

At level d from the leaves a node covers b^d cells in a row, the last one maybe fewer. The nodes of a level
were measured with independent errors of one variance, and made consistent by least squares
(:mod:`~tabularium.mechanisms.inference.tree_least_squares`; the recursion is that of Hay et al. 2010, section
4, read as conditioning). All subtrees of full nodes of a level are alike, so O(h) numbers describe the tree.

A query Σ w·x over the cells below a node v is, given the value of v, of slope a in it, plus a rest:

    a_v = Σ a_u t_u / Σ t_u,        var(rest_v) = Σ var(rest_u) + Σ t_u (a_u - a_v)²    over children u

At the root a² times the variance of the total comes on top. A range has terms at the two nodes of each level
that it cuts, and nowhere else: O(h) for a query.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isinf

import numpy as np

from tabularium.mechanisms.arrays import Floats, Integers


def height(cells: int, branching: int) -> int:
    """Return the least h with branching^h >= cells."""
    levels, reach = 0, 1
    while reach < cells:
        levels, reach = levels + 1, reach * branching
    return levels


@dataclass(frozen=True, eq=False)
class EvenTree:
    """A tree with the variances of its measurements.

    Attributes
    ----------
    cells, branching
        n and b.
    nodes
        Number of nodes of each level, leaves first.
    full, last
        Variance of the subtree estimate of a full node and of the last node of each level, leaves first.
    """

    cells: int
    branching: int
    nodes: tuple[int, ...]
    full: tuple[float, ...]
    last: tuple[float, ...]

    @classmethod
    def of(cls, cells: int, branching: int, variance: float, *, root: bool) -> EvenTree:
        """Return the tree whose levels were all measured with one variance; the root is optional."""
        nodes, full, last = [cells], [variance], [variance]
        while nodes[-1] > 1:
            count = -(-nodes[-1] // branching)
            children = nodes[-1] - branching * (count - 1)  # of the last node
            ends_full = full[-1] * (children - 1) + last[-1]
            own = variance if root or count > 1 else inf
            full.append(_parallel(own, branching * full[-1]))
            last.append(_parallel(own, ends_full))
            nodes.append(count)
        return cls(cells, branching, tuple(nodes), tuple(full), tuple(last))

    def range_variances(self, starts: Integers, stops: Integers) -> Floats:
        """Return the variance of the sum of cells start to stop - 1, for each of the queries.

        ``starts``, ``stops``: Shape (queries,), 0 <= start < stop <= cells.
        """
        left, right = starts, stops - 1
        of_left = of_right = np.ones(starts.shape)
        rest = np.zeros(starts.shape)
        for level in range(len(self.nodes) - 1):
            above_left, above_right = left // self.branching, right // self.branching
            one = above_left == above_right
            first, end = self._children(above_left, level)
            # Its children: outside, cut, inside; cut again when the range ends in the same node.
            inside = self._total(left + 1, np.where(one, right, end), level)
            cut = self._total(left, left + 1, level)
            again = np.where(one & (left != right), self._total(right, right + 1, level), 0.0)
            whole = self._total(first, end, level)
            mean = (of_left * cut + inside + of_right * again) / whole
            rest += cut * (of_left - mean) ** 2 + inside * (1 - mean) ** 2 + again * (of_right - mean) ** 2
            rest += np.maximum(whole - cut - inside - again, 0.0) * mean**2
            first, end = self._children(above_right, level)
            inside, cut = self._total(first, right, level), self._total(right, right + 1, level)
            whole = self._total(first, end, level)
            other = (of_right * cut + inside) / whole
            rest_right = cut * (of_right - other) ** 2 + inside * (1 - other) ** 2
            rest_right += np.maximum(whole - cut - inside, 0.0) * other**2
            rest += np.where(one, 0.0, rest_right)
            of_left, of_right = mean, np.where(one, mean, other)
            left, right = above_left, above_right
        return np.asarray(rest + of_left**2 * self.last[-1], dtype=np.float64)

    def query_variance(self, weights: Floats) -> float:
        """Return the variance of Σ weights·cells, weights of shape (cells,), in O(nodes)."""
        below, rest = weights, 0.0
        for level in range(len(self.nodes) - 1):
            spread = np.full(below.size, self.full[level])
            spread[-1] = self.last[level]
            starts = np.arange(0, below.size, self.branching)
            whole = np.add.reduceat(spread, starts)
            above = np.add.reduceat(below * spread, starts) / whole
            rest += float((spread * (below - np.repeat(above, self.branching)[: below.size]) ** 2).sum())
            below = above
        return rest + float(below[0]) ** 2 * self.last[-1]

    def _children(self, parents: Integers, level: int) -> tuple[Integers, Integers]:
        """Return the first child of each parent, on ``level``, and the one after the last."""
        first = parents * self.branching
        return first, np.minimum(first + self.branching, self.nodes[level])

    def _total(self, first: Integers, end: Integers, level: int) -> Floats:
        """Return the variances of nodes first to end - 1 of a level, added up."""
        number = np.maximum(end - first, 0)
        has_last = (number > 0) & (end == self.nodes[level])
        more = np.where(has_last, self.last[level] - self.full[level], 0.0)
        return np.asarray(number * self.full[level] + more, dtype=np.float64)


def _parallel(one: float, other: float) -> float:
    """Return two variances in parallel; an infinite one says nothing."""
    if isinf(one) or isinf(other):
        return min(one, other)
    return one * other / (one + other)


@dataclass(frozen=True, eq=False)
class Stand:
    """The trees of all bins that have the same number of levels: ⌈log_b w⌉ + 1 for a bin of w cells.

    Every cell lies in exactly one node of every level: one record changes one node per level.

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

    ``starts``: (bins,) first cell of each bin, ascending from 0.
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
