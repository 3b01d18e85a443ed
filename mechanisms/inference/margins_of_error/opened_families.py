"""A part of a hierarchy that stands for the whole in a simulation: few families opened, the others summed up.

The steps from measurements to published numbers go down a hierarchy family by family: given a parent, what
comes of its children depends on nothing outside of them. So the errors of a level can be learnt from some of
its families, if whatever is above them is as it would be. It is: a node whose children are left out keeps the
best estimate from all measurements at and below it, whose variance t is known without any of them
(:mod:`tabularium.mechanisms.inference.tree_least_squares`: 1/t = 1/s + 1/(sum of the children's t)). As the
measurement of a leaf with that variance it says of all that is above and beside it exactly what the left-out
ones would have said. Its error is a weighted sum of theirs, taken to be normal.

For tables that share marginals below such a node the variance is an upper bound: it is the table's own
estimate, and does not know what the other tables would have told of the children. Where the levels of the
tables stand in the same proportion, nothing is lost.

Families are drawn by systematic sampling with unequal chances (Madow 1949): half of them at random, half in
proportion to what is published of their parents, so that the few large families of a skewed table are seen as
well as the many small ones. Each node carries the inverse of its chance as a weight, and errors are pooled
with these weights. Simulated releases open other families each: the step along the families starts at the
next point of the golden section, so that any number of releases spreads evenly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats, Indices
from tabularium.mechanisms.inference.hierarchy import Hierarchy

GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True, eq=False, slots=True)
class Part:
    """Some nodes of a hierarchy: the roots, and all children of the nodes that are opened.

    Attributes
    ----------
    nodes
        (kept,) their numbers in the whole hierarchy, ascending.
    tree
        The hierarchy that they are.
    cut
        (kept,) which of them have children in the whole hierarchy and none here.
    weights
        (kept,) how many nodes of its depth each one stands for, the inverse of its chance to be kept.
    """

    nodes: Indices
    tree: Hierarchy
    cut: Bools
    weights: Floats

    @classmethod
    def of(cls, tree: Hierarchy, chances: Floats) -> Part:
        """Keep the roots and what hangs below them by opened nodes alone.

        ``chances``: (nodes,) of each opened node to be opened when it is kept; 0 for all others.
        """
        weights = (tree.parents < 0).astype(np.float64)
        for block in tree.down():
            above, chance = weights[block.parents], chances[block.parents]
            each = np.divide(above, chance, out=np.zeros_like(above), where=chance > 0)
            weights[block.children] = block.to_children(each)
        nodes = np.flatnonzero(weights)
        cut = ~tree.leaf[nodes] & (chances[nodes] == 0)
        return cls(nodes, Hierarchy(_among(nodes, tree.parents)), cut, weights[nodes])

    def first(self, tree: Hierarchy) -> Part:
        """Return the part of a smaller hierarchy, the first nodes of this one's."""
        some = self.nodes < tree.nodes
        nodes, cut = self.nodes[some], self.cut[some] & ~tree.leaf[self.nodes[some]]
        return Part(nodes, Hierarchy(_among(nodes, tree.parents)), cut, self.weights[some])


def _among(nodes: Indices, parents: Indices) -> Indices:
    """Return the parents of some nodes, which are among them, by their places."""
    above = parents[nodes]
    return np.where(above < 0, -1, np.searchsorted(nodes, above))


def some_opened(
    tree: Hierarchy, size: Callable[[Indices], Floats], cells: Floats, enough: int, run: int
) -> Part:
    """Open as many families of every depth as have enough cells, at least one; others in every run.

    Parameters
    ----------
    tree
        The whole hierarchy.
    size
        Of nodes, (some,): what is published of them, not negative.
    cells
        (depths,) cells of each node of a depth, over all tables.
    enough
        Cells of a depth that are wanted.
    run
        Number of the simulated release.
    """
    chances = np.zeros(tree.nodes)
    children = np.bincount(tree.parents[tree.parents >= 0], minlength=tree.nodes)
    inner = tree.roots[~tree.leaf[tree.roots]]
    for depth in range(1, tree.depths):
        mean = float(children[inner].mean()) * max(1.0, float(cells[depth]))
        number = max(1, round(enough / mean))
        if number >= len(inner):
            chances[inner] = 1.0
        else:
            sizes = size(inner)
            order = np.argsort(sizes, kind="stable")
            inner, sizes = inner[order], sizes[order]
            even = np.full(len(inner), 1 / len(inner))
            every = float(sizes.sum())
            expected = number * (even + (sizes / every if every > 0 else even)) / 2
            # Hit by one of the points start, start + 1, …; those longer than a step always are.
            ends = np.cumsum(expected) - (run * GOLDEN) % 1.0
            hit = np.ceil(ends) > np.ceil(ends - expected)
            chances[inner[hit]] = np.minimum(expected[hit], 1.0)
            inner = inner[hit]
        if depth + 1 < tree.depths:
            below = np.flatnonzero((tree.depth == depth) & ~tree.leaf)
            inner = below[chances[tree.parents[below]] > 0]
        if not inner.size:
            break
    return Part.of(tree, chances)
