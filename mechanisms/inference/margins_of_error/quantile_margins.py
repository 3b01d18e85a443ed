"""Quantiles from trees of noisy counts and from choices, with intervals that hold for each cell.

A *tree* counts the bins of a public grid in groups, those in smaller ones, down to single bins; every level
is measured, the total is not, and least squares give the bins. The quantile of rank q is the first bin b with

    L(b) = (number up to b) - q·(number in all)  >=  0,

a weighted sum of noisy numbers whose variance is known, whatever is in the cell. The interval leaves out the
bins that L rules out on either side at the stated level. Of K levels of ⌈bins^(1/K)⌉ children, L has about
the variance K³·b/4 (K²·b under zCDP): the K that makes K³·b smallest is taken, for all tables of one grid.

A *choice* (``quantile_choices``) is drawn by permute-and-flip, with sums next to it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.inference.even_trees import EvenTree, one_tree
from tabularium.mechanisms.inference.hierarchy import Hierarchy
from tabularium.mechanisms.inference.margins_of_error.half_widths import quantile
from tabularium.mechanisms.inference.tree_least_squares import consistency
from tabularium.mechanisms.kernels.outward_cells import reaches

ROUNDING = 1e-6
"""What least squares may be off by in doubles: less than this below zero is zero."""


@dataclass(frozen=True)
class QuantileTree:
    """A tree over ``bins`` positions of a grid, without its root.

    ``bins``: Positions of the grid, at least 2. ``branching``, ``levels``: Children of a node, and levels
    below the root. Nodes are numbered level by level, bins last.
    """

    bins: int
    branching: int
    levels: int

    @property
    def parts(self) -> int:
        """How many nodes there are."""
        return sum(-(-self.bins // self.span(level)) for level in range(self.levels))

    def span(self, level: int) -> int:
        """Return how many bins a node of a level holds, level 0 next to the root."""
        return int(self.branching ** (self.levels - 1 - level))

    def nodes_of(self, bins: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Return the number of the node that each of some bins lies in, one array for each level."""
        result, before = [], 0
        for level in range(self.levels):
            result.append(before + bins // self.span(level))
            before += -(-self.bins // self.span(level))
        return result

    def bins_of(self, numbers: Floats) -> Floats:
        """Return what least squares make of the bins of trees (..., parts): (..., bins)."""
        if self.levels == 1:
            return numbers
        flat = numbers.reshape(-1, self.parts).T
        root = np.zeros((1, flat.shape[1]))
        spread = np.ones(self.parts + 1)
        spread[0] = np.inf
        parents = one_tree(self.bins, self.branching).parents
        made = consistency(Hierarchy(parents), np.concatenate([root, flat]), spread)
        return np.ascontiguousarray(made.values[-self.bins :].T).reshape(*numbers.shape[:-1], self.bins)

    def quantile_of(self, numbers: Floats, rank: Fraction) -> Floats:
        """Return the position of a quantile of trees (..., parts); not a number where a tree holds nothing.

        It is the number of positions up to which lies less than the part ``rank``: where sorted noisy numbers
        would cross it. So quantiles of a tree rise with their rank.
        """
        bins = self.bins_of(numbers)
        at = (_excess(bins, rank) < -ROUNDING).sum(axis=-1)
        result: Floats = np.minimum(at, self.bins - 1).astype(np.float64)
        return np.where(bins.sum(axis=-1) > ROUNDING, result, np.nan)

    def interval(
        self, numbers: Floats, variances: Floats, rank: Fraction, level: float
    ) -> tuple[Floats, Floats]:
        """Return the first and the last position of a quantile that linear estimates leave possible.

        ``numbers``, ``variances``: (..., parts) with independent errors, of one variance in all parts of a
        tree.
        """
        excess = _excess(self.bins_of(numbers), rank)
        reach = quantile(level) * np.sqrt(variances[..., :1]) * np.array(_deviations(self, rank))
        last = self.bins - 1
        # The true quantile m has L(m) >= 0 and L(m - 1) < 0: neither is far from it for any that is left.
        possible = excess >= -reach - ROUNDING
        low = np.where(possible.any(axis=-1), possible.argmax(axis=-1), last)
        before = (excess <= reach + ROUNDING)[..., :-1]
        # Of m = 0 there is nothing to rule out.
        high = np.where(before.any(axis=-1), last - before[..., ::-1].argmax(axis=-1), 0)
        return low.astype(np.float64), np.maximum(high, low).astype(np.float64)


@lru_cache
def tree_over(bins: int) -> QuantileTree:
    """Return the tree over a grid.

    Examples
    --------
    >>> tree_over(151)
    QuantileTree(bins=151, branching=13, levels=2)
    """
    best = min(
        range(1, bins.bit_length() + 1), key=lambda levels: (levels**3 * _children(bins, levels), levels)
    )
    return QuantileTree(bins, _children(bins, best), best)


def _children(bins: int, levels: int) -> int:
    """Return the least b with b^levels >= bins."""
    b = 2
    while int(b**levels) < bins:
        b += 1
    return b


@lru_cache(maxsize=64)
def _deviations(tree: QuantileTree, rank: Fraction) -> tuple[float, ...]:
    """Return the standard deviation of L at each position, where every node has a variance of 1."""
    even = EvenTree.of(tree.bins, tree.branching, 1.0, root=False)
    weights = np.full(tree.bins, -float(rank))
    result = []
    for position in range(tree.bins):
        weights[position] += 1.0
        result.append(even.query_variance(weights) ** 0.5)
    return tuple(result)


def _excess(bins: Floats, rank: Fraction) -> Floats:
    """Return how much more than the part ``rank`` lies up to each position."""
    return np.asarray(np.cumsum(bins, axis=-1) - float(rank) * bins.sum(axis=-1, keepdims=True))


NUMBERS_BEFORE_SUMS = 2
"""The numbers of a row before its sums: position and rate."""
_OF_CHOICE = 0.2
_LEAST_LEVEL = 0.8
"""Two-sided; below it the quantile of sums of Laplace errors was not looked at."""


def chosen_position(rows: Floats) -> Floats:
    """Return the chosen positions of rows (..., numbers); not a number where nothing was measured."""
    return np.asarray(np.where(rows[..., 1] > 0, rows[..., 0], np.nan))


def chosen_interval(rows: Floats, variances: Floats, bins: int, level: float) -> tuple[Floats, Floats]:
    """Return the first and the last position of the true quantile that are left possible.

    ``rows``, ``variances``: (..., numbers) what was released, and the variance of the noise in its sums.
    """
    outside = 1.0 - level
    with np.errstate(divide="ignore"):
        known = np.log(bins / (2 * _OF_CHOICE * outside)) / rows[..., 1]
    z = quantile(max(_LEAST_LEVEL, 1 - 2 * (1 - _OF_CHOICE) * outside))
    at, count = rows[..., 0], reaches(bins)
    far = [math.ldexp(1, j + 1) - 1 for j in range(count)]

    def reach(sums: Floats) -> Floats:
        """Return how far the last cell reaches that M may lie in."""
        result = np.full(at.shape, far[0])
        for j in range(1, count):
            least = sums[..., :j].sum(axis=-1) - z * np.sqrt(j * variances[..., 0])
            result = np.where(least < known, far[j], result)
        return result

    up, down = (
        rows[..., NUMBERS_BEFORE_SUMS : NUMBERS_BEFORE_SUMS + count],
        rows[..., NUMBERS_BEFORE_SUMS + count :],
    )
    return np.maximum(at - reach(down), 0.0), np.minimum(at + reach(up), bins - 1.0)
