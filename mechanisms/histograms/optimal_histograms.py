"""Optimal histograms on a grid of boundary candidates, exactly, for every prefix and number of bins.

The least total cost of j bins over the first i of m runs is T[j][i] = min over l of T[j-1][l] + c(l, i), in
int64. Costs of bins that end at one edge are computed when needed: O(n + k·m) memory, O(m²·k) time, and for
costs O(n + m²) around means and O((n + m²)·log n) around medians.

Source: Jagadish and others 1998; Xu and others 2013, sections 2.1 and 5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Integers
from tabularium.mechanisms.kernels.compiled import compiled

Ranks = tuple[NDArray[np.int32], Integers, Integers, Integers, Integers]


@dataclass(frozen=True, eq=False)
class Optima:
    """The best histograms of all prefixes.

    ``table``: Shape (k, m + 1): T[j][i] for 1 <= j <= i, zero elsewhere. ``costs_ending_at``: Edge i -> c(l,
    i) for l = 0..i-1.
    """

    table: Integers
    costs_ending_at: Callable[[int], Integers]

    def costs_of_boundary(self, number: int, after: int) -> Integers:
        """Return the least cost with boundary ``number`` at edge q and the next one at edge ``after``.

        Shape (after - number,), for q = number..after-1: the best ``number`` bins up to q, and one from there
        to ``after``.
        """
        return self.table[number, number:after] + self.costs_ending_at(after)[number:]


def optima_around_means(cells: Integers, edges: Integers, bins: int, cap: int, unit: int) -> Optima:
    """Return the optima for squared errors; see ``mean_costs``."""
    sums = np.append(0, np.cumsum(np.add.reduceat(cells, edges[:-1])))
    table = least_costs_around_means(sums, edges, cap, unit, bins - 1)
    return Optima(table, lambda last: mean_costs(sums, edges, cap, unit, last))


def optima_around_medians(cells: Integers, edges: Integers, bins: int) -> Optima:
    """Return the optima for absolute errors; see ``median_costs``."""
    ranks = ranks_of(cells)
    table = least_costs_around_medians(ranks, edges, bins - 1)
    return Optima(table, lambda last: median_costs(ranks, edges, last))


def ranks_of(cells: Integers) -> Ranks:
    """Return the cells' ranks as a wavelet matrix, with sums: O(n log n) time and memory.

    Level by level, from the highest binary digit of the ranks, those with digit 0 are moved before those with
    digit 1, in the order they had.

    Returns
    -------
    lower
        Shape (levels, n + 1): how many of the first i ranks, as the level finds them, have digit 0.
    zeros
        Shape (levels,): how many have, in all.
    sums
        Shape (levels, n + 1): the sum of the cells of the first i ranks, as the level leaves them.
    ordered
        Shape (n,): the cells in ascending order.
    totals
        Shape (n + 1,): the sum of the first i cells.

    Source: Claude, Navarro, Ordóñez 2015, "The wavelet matrix".
    """
    size = cells.size
    order = np.argsort(cells, kind="stable")
    ranks = np.empty(size, np.int64)
    ranks[order] = np.arange(size)
    ordered, levels = cells[order], (size - 1).bit_length()
    lower, sums = np.zeros((levels, size + 1), np.int32), np.zeros((levels, size + 1), np.int64)
    for level in range(levels):
        low = (ranks >> (levels - 1 - level)) & 1 == 0
        np.cumsum(low, out=lower[level, 1:])
        ranks = np.concatenate([ranks[low], ranks[~low]])
        np.cumsum(ordered[ranks], out=sums[level, 1:])
    return lower, lower[:, -1].astype(np.int64), sums, ordered, np.append(0, np.cumsum(cells))


@compiled
def mean_costs(sums: Integers, edges: Integers, cap: int, unit: int, last: int) -> Integers:
    """Return the costs floor(unit·S·(cap - S/w)) of the bins that end at edge ``last``, by first edge.

    S is a bin's sum and w its number of cells; S·(cap - S/w) is the squared error around the mean but for a
    term that all bins together always have (see
    ``tabularium.mechanisms.histograms.structure_first``).

    Parameters
    ----------
    sums
        Shape (m + 1,): sum of the cells before each edge; each cell from 0 to ``cap``.
    edges
        Shape (m + 1,).
    cap, unit
        Such that unit·n·cap² is at most 2^62.
    last
        From 1 to m.

    Returns
    -------
    int64, shape (last,).
    """
    costs = np.empty(last, np.int64)
    for first in range(last):
        width = edges[last] - edges[first]
        total = sums[last] - sums[first]
        mean = total // width
        rest = total - mean * width
        # S·(cap - S/w) = mean·w·(cap - mean) + rest·(cap - 2·mean) - rest²/w, each term at most n·cap²
        whole = mean * width * (cap - mean) + rest * (cap - 2 * mean)
        costs[first] = unit * whole + (-unit * rest * rest) // width
    return costs


@compiled
def median_costs(ranks: Ranks, edges: Integers, last: int) -> Integers:
    """Return Σ|x - median| of the bins that end at edge ``last``, by first edge.

    Each bin's lower median is found by going down the levels of ``ranks``; the sums of the cells that are
    smaller are collected on the way. O(log n) per bin.

    Parameters
    ----------
    ranks
        See ``ranks_of``.
    edges
        Shape (m + 1,).
    last
        From 1 to m.

    Returns
    -------
    int64, shape (last,).
    """
    lower, zeros, sums, ordered, totals = ranks
    costs = np.empty(last, np.int64)
    for first in range(last):
        left, right = edges[first], edges[last]
        width = right - left
        target = wanted = (width - 1) // 2
        rank = smaller = 0
        for level in range(zeros.size):
            left_lower, right_lower = lower[level, left], lower[level, right]
            inside = right_lower - left_lower
            if wanted < inside:
                left, right = left_lower, right_lower
                rank = 2 * rank
            else:
                smaller += sums[level, right_lower] - sums[level, left_lower]
                wanted -= inside
                left += zeros[level] - left_lower
                right += zeros[level] - right_lower
                rank = 2 * rank + 1
        # Σ|x - median| = (larger ones) - (smaller ones) + median·(number of smaller - number of larger)
        whole = totals[edges[last]] - totals[edges[first]]
        costs[first] = whole - 2 * smaller + ordered[rank] * (2 * target - width)
    return costs


@compiled
def _relax(table: Integers, costs: Integers, end: int) -> None:
    """Fill column ``end`` of T from the costs of the bins that end there."""
    table[1, end] = costs[0]
    for bins in range(2, min(table.shape[0], end + 1)):
        # Slices from 0: a loop that the compiler can turn into wide instructions.
        before, bin_costs = table[bins - 1, bins - 1 : end], costs[bins - 1 : end]
        least = before[0] + bin_costs[0]
        for place in range(before.size):
            both = before[place] + bin_costs[place]
            least = both if both < least else least
        table[bins, end] = least


@compiled
def least_costs_around_means(sums: Integers, edges: Integers, cap: int, unit: int, bins: int) -> Integers:
    """Return T of shape (bins + 1, m + 1) for ``mean_costs``, zero where i < j."""
    table = np.zeros((bins + 1, edges.size), np.int64)
    for end in range(1, edges.size):
        _relax(table, mean_costs(sums, edges, cap, unit, end), end)
    return table


@compiled
def least_costs_around_medians(ranks: Ranks, edges: Integers, bins: int) -> Integers:
    """Return T of shape (bins + 1, m + 1) for ``median_costs``, zero where i < j."""
    table = np.zeros((bins + 1, edges.size), np.int64)
    for end in range(1, edges.size):
        _relax(table, median_costs(ranks, edges, end), end)
    return table
