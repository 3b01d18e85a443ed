"""How to share a budget among the levels of a tree of buckets, for range queries over the cells below.

The workload is every range of cells. A bucket answers for its cells as if they were all alike, so a range
asks for w·x, where x are the buckets' sums and w is 1 for buckets inside it, 0 outside, and the share of its
cells that the range covers for a bucket it cuts. The sum of the answers' variances is tr(G·M) for estimates
with covariance M, where G = Σ w·wᵀ over all ranges. A range is a left end and a right end: for i < j,
G_ij = A_i·B_j with A_i = Σ of the share of bucket i right of every left end, and B_j likewise.

Greedily, from the leaves upwards. Let the subtrees of a level's nodes be measured with the whole budget, and
the children's covariance be block-diagonal M. If the node itself gets a share of the budget such that the
children's variances are multiplied by f, and its own precision is g times that of a bucket measured with
everything, least squares give

    M' = f·(M - μ·M1·(M1)ᵀ/(1 + μ·1ᵀM1)),        μ = f·g,

so all that a level needs of a node is a = tr(GM), t = 1ᵀM1, b = (M1)ᵀG(M1), P = (M1)·A and S = (M1)·B:
these five numbers are sums over the children (b has the products P·S of pairs of them in addition), and M'
changes them by factors. O(nodes) for everything.

A range that covers the parent of a node asks for the parent as a whole, which the levels above answer. So in
the choice of a level's share, a node counts with the ranges that do not cover its parent: for the N that do,
N·1·1ᵀ is taken from G, hence N·t from a and N·t² from b. One share is chosen for all nodes of a level, that
which makes the sum of their tr(G·M') least.

Source: Li, Hay, Miklau, Wang 2014, section 5, which chooses a share for every node, from matrices of the
workload. The inverse after Sherman and Morrison.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.noise_distributions import NoiseFamily

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_GRID = 128
_PARTS = 1 << 16


@dataclass(frozen=True, eq=False)
class Nodes:
    """What is known of the nodes of a level; each attribute has the shape (nodes,)."""

    a: Floats
    t: Floats
    b: Floats
    left: Floats
    right: Floats


def shares_of_levels(starts: Integers, cells: int, branching: int, noise: NoiseFamily) -> list[Fraction]:
    """Return the share of the budget of each level of the tree over the buckets, leaves first.

    Parameters
    ----------
    starts
        Shape (buckets,): first cell of each bucket, ascending from 0.
    cells
        Number of cells.
    branching
        Children of a node, the last of a level maybe fewer.
    noise
        Laplace: a variance falls with the square of the share; Gaussian: with the share.

    Returns
    -------
    Multiples of 2^-16 that add up to 1, that of the leaves above 0. Levels that are not worth measuring
    have 0.
    """
    nodes, edges = buckets(starts, cells), np.append(starts, cells)
    own: list[float] = [1.0]
    while nodes.a.size > 1:
        nodes, edges = _parents(nodes, branching), _every(edges, branching)
        share = _best_share(nodes, _covering(edges, branching), noise)
        nodes = _measured(nodes, *_factors(share, noise))
        own = [*(part * (1 - share) for part in own), share]
    parts = [round(part * _PARTS) for part in own]
    parts[0] = max(1, parts[0])
    parts[int(np.argmax(parts))] += _PARTS - sum(parts)
    return [Fraction(part, _PARTS) for part in parts]


def buckets(starts: Integers, cells: int) -> Nodes:
    """Return the leaves, each measured with the whole budget: variance 1."""
    width = np.diff(starts, append=cells).astype(np.float64)
    before = starts.astype(np.float64)
    after = cells - before - width
    squares = (width + 1) * (2 * width + 1) / (6 * width)  # Σ (c/w)² over c = 1..w
    inside = (width + 1) * squares - (width + 1) ** 2 / 4  # Σ (w - c + 1)·(c/w)²
    weight = before * after + (before + after) * squares + inside
    half = (width + 1) / 2
    return Nodes(weight, np.ones(width.size), weight, before + half, after + half)


def _parents(nodes: Nodes, branching: int) -> Nodes:
    """Return the parents before they are measured themselves."""
    first = np.arange(0, nodes.a.size, branching)
    a, t, b, left, right = (
        np.add.reduceat(part, first) for part in (nodes.a, nodes.t, nodes.b, nodes.left, nodes.right)
    )
    # Pairs of different children: with the left sums that lie before each child within its family.
    earlier = np.cumsum(nodes.left) - nodes.left
    earlier -= np.repeat(earlier[first], np.diff(first, append=nodes.a.size))
    return Nodes(a, t, b + 2 * np.add.reduceat(earlier * nodes.right, first), left, right)


def _every(edges: Integers, branching: int) -> Integers:
    """Return where the parents of a level's nodes begin, and where the last one ends."""
    return np.append(edges[:-1:branching], edges[-1])


def _covering(edges: Integers, branching: int) -> Floats:
    """Return for each node how many ranges cover all of its parent; none for a root."""
    nodes = edges.size - 1
    if nodes == 1:
        return np.zeros(1)
    above = _every(edges, branching).astype(np.float64)
    ranges = (above[:-1] + 1) * (above[-1] - above[1:] + 1)
    return np.repeat(ranges, branching)[:nodes]


def _factors(share: float, noise: str) -> tuple[float, float]:
    """Return f and μ."""
    power = 2 if noise == "laplace" else 1
    factor = 1 / (1 - share) ** power
    return factor, factor * share**power


def _best_share(nodes: Nodes, covering: Floats, noise: str) -> float:
    """Return the share of a level that makes the sum of its nodes' errors least, on a grid."""
    # The trees below a level's nodes are alike, so there are few values of t.
    values, which = np.unique(nodes.t, return_inverse=True)
    a = (nodes.a - covering * nodes.t).sum()
    b = np.bincount(which, weights=nodes.b - covering * nodes.t**2)
    best, found = float(a), 0.0
    for step in range(1, _GRID):
        factor, precision = _factors(step / _GRID, noise)
        error = factor * (a - (precision * b / (1 + precision * values)).sum())
        if error < best:
            best, found = float(error), step / _GRID
    return found


def _measured(nodes: Nodes, factor: float, precision: float) -> Nodes:
    """Return the nodes with a measurement of their own."""
    down = factor / (1 + precision * nodes.t)
    return Nodes(
        factor * (nodes.a - precision * nodes.b / (1 + precision * nodes.t)),
        down * nodes.t,
        down**2 * nodes.b,
        down * nodes.left,
        down * nodes.right,
    )
