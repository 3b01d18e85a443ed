"""A part of a hierarchy that stands for the whole in a simulation: few families opened, the others summed up.

Given a parent, what comes of its children depends on nothing outside of them. So a level's errors can be
learnt from some of its families, if a node whose children are left out keeps the best estimate from all
measurements at and below it, of variance ``TreeLeastSquares.below``: exact, or for tables that share
marginals below it an upper bound. Its error is taken to be normal.

Families are drawn by systematic sampling with unequal chances (Madow 1949): half at random, half in
proportion to what is published of their parents. Errors are weighed by the inverse of the chance. Each
simulated release opens others: the step along the families starts at the next point of the golden section.
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
        """Keep the roots and what hangs below them only by opened nodes.

        ``chances``: (nodes,) of each opened node to be opened when it is kept; 0 for all others.
        """
        weights = (tree.parents < 0).astype(np.float64)
        for block in tree.down():
            above, chance = weights[block.parents], chances[block.parents]
            weight = np.divide(above, chance, out=np.zeros_like(above), where=chance > 0)
            weights[block.children] = block.to_children(weight)
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
    size
        Of nodes, (some,): what is published of them, not negative.
    cells
        (depths,) cells of each node of a depth, over all tables.
    enough
        Cells of a depth that are wanted.
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
