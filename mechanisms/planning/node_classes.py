"""Nodes of a hierarchy that are measured alike and lie alike, taken together.

Two nodes have the same variance when the path from the root to them, and what hangs below every node of that
path, are measured alike. A code list of 70 000 areas has some hundreds of such classes, or one for each level
where all families are of one size. What is worked out for a class holds for each of its nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Bools, Floats, Indices
from tabularium.mechanisms.inference.hierarchy import Hierarchy
from tabularium.mechanisms.noise.synthetic import generator


@dataclass(frozen=True, eq=False)
class NodeClasses:
    """The classes of a hierarchy's nodes, level by level, the classes in one family side by side.

    Attributes
    ----------
    of
        (nodes,) class of every node.
    nodes
        (classes,) one node of each.
    parents
        (classes,) class of the parent, -1 for roots.
    counts
        (classes,) how many nodes of the class one family has; of roots, how many there are.
    depth
        (classes,) 0 for roots.
    """

    of: Indices
    nodes: Indices
    parents: Indices
    counts: Floats
    depth: Indices

    @classmethod
    def among(cls, tree: Hierarchy, measured: Bools) -> NodeClasses:
        """Tell nodes apart by what is measured of them, (nodes, measurements), and by where they lie."""
        depth = tree.depth.astype(np.int64)
        types = _types(tree, depth, _numbered(measured))
        found = np.zeros(tree.nodes, np.int64)
        first = 0
        for level in range(tree.depths):
            there = np.flatnonzero(depth == level)
            above = tree.parents[there]
            families = np.where(above < 0, -1, found[above])
            found[there] = first + _numbered(np.stack([families, types[there]], axis=1))
            first = int(found[there].max()) + 1
        nodes = np.unique(found, return_index=True)[1]
        parents = tree.parents[nodes]
        parents = np.where(parents < 0, -1, found[parents])
        sizes = np.bincount(found)
        return cls(found, nodes, parents, sizes / np.where(parents < 0, 1, sizes[parents]), depth[nodes])


def _types(tree: Hierarchy, depth: Indices, labels: Indices) -> Indices:
    """Return a number for each node that says how it and all below it are measured, deepest level first.

    Families are told apart by the sum of a random number for each type of child: of 64 bits, so that two
    different ones of a million have the same with a chance of one in ten million.
    """
    draw = generator(7)
    types = np.zeros(tree.nodes, np.int64)
    sums = np.zeros(tree.nodes, np.uint64)
    for level in range(tree.depths - 1, -1, -1):
        there = np.flatnonzero(depth == level)
        types[there] = _numbered(np.stack([labels[there], sums[there].view(np.int64)], axis=1))
        marks = draw.integers(1, 2**63, int(types[there].max()) + 1, dtype=np.uint64)
        inner = there[tree.parents[there] >= 0]
        np.add.at(sums, tree.parents[inner], marks[types[inner]])
    return types


def _numbered(rows: NDArray[np.generic]) -> Indices:
    """Number the different rows from 0, in their order."""
    numbers = np.unique(rows, axis=0, return_inverse=True)[1]
    return np.asarray(numbers).reshape(len(rows)).astype(np.int64)
