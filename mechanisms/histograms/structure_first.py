"""StructureFirst: choose the bins of a histogram privately, then measure one number per bin.

Sensitivity and privacy. Counts are clipped at the public F = ``largest_count``; one record changes the cost
of the one bin that holds it. Around means the cost is c = S·(F - S/w), which moves by at most F (adding F·Σx
- Σx² moves all candidates alike); around medians Σ|x - c|, by at most 1. A score is minus the least total
over structures, so it moves by no more, and rounding costs to a public unit adds nothing. The k - 1
boundaries are chosen from right to left at ε1/(k - 1) each. Given the bins one sum, or one lower median,
moves by at most 1; in a tree of L levels each has the L-th part of the rest. Candidates lie on a grid of
edges that depends only on n.

O(n + m²·k) time and O(n + m·k) memory for m candidates. Source: Xu, Zhang, Xiao, Yang, Yu, Winslett 2013,
Algorithms 3 and 6, sections 4.3, 5.2.3, 6.2; what differs: docs/reference/mechanisms/structure_first.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import inf, isqrt, log, log1p, pi, prod, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.accounting import ratio
from tabularium.mechanisms.arrays import LARGEST_COUNT, Integers
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.noisy_sums import addable
from tabularium.mechanisms.histograms.parameter_checks import one_of, share_of_budget, switch, whole_number
from tabularium.mechanisms.inference import Hierarchy, consistency
from tabularium.mechanisms.inference.even_trees import stands
from tabularium.mechanisms.kernels.compiled import compiled
from tabularium.mechanisms.linear_measurements.linear_measurement import LinearMeasurement
from tabularium.mechanisms.linear_measurements.noisy_tree import NoisyTree
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise_distributions import Noise, gaussian_variance, laplace_variance, noise_in

_LARGEST = 1 << 62
_FINENESS = 1 << 10
MOST_CANDIDATES = 1 << 13


@dataclass(frozen=True)
class StructureFirst(Mechanism):
    """Private choice of bin boundaries, then noisy means, medians or trees.

    Parameters
    ----------
    largest_count
        F, the largest count that the choice of boundaries looks at, at most 2^40. It must be known **without
        the data**: a capacity, a legal limit, the maximum published last year. Larger counts are clipped for
        that choice, and measured unclipped. With ``centre="mean"`` F is lowered so that F² times the number
        of cells is at most 2^62.
    centre
        ``"mean"`` or ``"median"``: which error the boundaries make small, and what is released.
    bins
        k, the number of bins, at most 8 192 and never more than candidates. By default a tenth of the
        candidates.
    candidates
        The most edges that are considered, spread evenly over the cells; at most 8 192.
    structure_share
        Share of the budget for the boundaries. ``"bound"`` minimises the paper's bound on the error.
    boost
        Measure a tree inside each bin and make it consistent, for range queries. Its variances are exact.
    branching
        Children per node of these trees, 2 to 1 024.
    """

    largest_count: int | None = None
    centre: str = "mean"
    bins: int | None = None
    candidates: int = 2048
    structure_share: str | Fraction = "bound"
    boost: bool = False
    branching: int = 2

    name: ClassVar[str] = "structure_first"

    def __post_init__(self) -> None:
        if self.largest_count is None:
            raise MechanismError(
                "the largest count of a cell is not given",
                where="largest_count",
                hint="give a whole number that is known without the data; larger counts are clipped",
            )
        whole_number(self.largest_count, 1, LARGEST_COUNT, "largest_count")
        one_of(self.centre, ("mean", "median"), "centre")
        whole_number(self.candidates, 1, MOST_CANDIDATES, "candidates")
        if self.bins is not None:
            whole_number(self.bins, 1, MOST_CANDIDATES, "bins")
        if self.structure_share != "bound":
            share = share_of_budget(self.structure_share, "structure_share")
            object.__setattr__(self, "structure_share", share)
        switch(self.boost, "boost")
        whole_number(self.branching, 2, 1024, "branching")

    def clipped_at(self, cells: int) -> int:
        """Return F for a table with so many cells: lower than asked if 64-bit costs would overflow."""
        assert self.largest_count is not None  # noqa: S101 - checked when it was built
        return min(
            self.largest_count, isqrt(_LARGEST // cells) if self.centre == "mean" else _LARGEST // cells
        )

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Choose the boundaries, then measure the bins with all that is left."""
        flat = addable(counts).reshape(-1)
        starts = self._choose_starts(flat, channel)
        rest = channel.remaining
        meta = {"shape": list(counts.shape), "rest": ratio(rest)}
        if self.boost:
            measured = self._measure_trees(flat, starts, channel)
        else:
            inside = np.add.reduceat(flat, starts) if self.centre == "mean" else lower_medians(flat, starts)
            measured = channel.add_noise(
                inside, rest, purpose=f"{self.centre}s" if self.centre == "median" else "sums"
            )
        return {"starts": starts, "measured": measured}, meta

    def finish(self, measured: Measured) -> Release:
        """Return the bins' noisy means or medians, or their trees' cells, in the shape of the counts."""
        shape = tuple(measured.meta["shape"])
        size, starts = prod(shape), measured.arrays["starts"]
        widths = np.diff(np.append(starts, size))
        variances = None
        if self.boost:
            flat, spread = self._from_trees(measured, size)
            variances = spread.reshape(shape)
        else:
            noisy = measured.arrays["measured"]
            flat = np.repeat(noisy / widths if self.centre == "mean" else noisy, widths)
        choices = (event for event in measured.transcript if event.primitive == "permute_and_flip")
        total = sum((event.loss for event in choices), Fraction(0))
        return measured.release(
            flat.reshape(shape),
            variances,
            bins=int(starts.size),
            narrowest_bin=int(widths.min()),
            widest_bin=int(widths.max()),
            spent_on_structure=ratio(total),
            spent_on_values=measured.meta["rest"],
        )

    def linear_measurements(self, measured: Measured) -> LinearMeasurement | None:
        """Return the noisy sums of the bins, or of the trees inside them; None where there are medians."""
        starts, noisy = measured.arrays["starts"], measured.arrays["measured"]
        size = prod(measured.meta["shape"])
        if self.boost:
            return self._noisy_trees(measured, size)
        if self.centre == "median":
            return None
        part = np.repeat(np.arange(starts.size), np.diff(starts, append=size))
        return NoisyTree.flat(part, noisy, noise_in(measured.transcript[-1]))

    def _noisy_trees(self, measured: Measured, size: int) -> LinearMeasurement:
        rest, parents, drawn = Fraction(measured.meta["rest"]), [], []
        noise: list[Noise] = []
        leaf, nodes = np.empty(size, np.intp), 0
        for stand in stands(measured.arrays["starts"], size, self.branching):
            parents.append(np.where(stand.parents < 0, -1, stand.parents + nodes))
            drawn.append(np.full(stand.parents.size, len(noise)))
            noise.append(Noise.for_loss(rest / stand.levels, measured.definition))
            nodes += stand.parents.size
            leaf[stand.cells] = np.arange(nodes - stand.cells.size, nodes)
        return NoisyTree(
            measured.arrays["measured"],
            tuple(noise),
            tree=Hierarchy(np.concatenate(parents)),
            drawn=np.concatenate(drawn),
            leaf=leaf,
        )

    def share_for(self, cells: int, budget: Fraction, definition: str = "pure") -> Fraction:
        """Return the share of ``budget`` that goes to the boundaries of a table with so many cells."""
        if isinstance(self.structure_share, Fraction):
            return self.structure_share
        edges = min(cells, self.candidates)
        bound = Bound(cells, edges, self._bins(edges), self.clipped_at(cells), self.centre, definition)
        return least_bound(bound, budget)

    def _choose_starts(self, flat: Counts, channel: Channel) -> NDArray[np.int64]:
        """Return the first cell of each bin; pays for what it chooses from ``channel``."""
        grid = min(flat.size, self.candidates)
        edges = np.arange(grid + 1) * flat.size // grid
        bins = self._bins(grid)
        if bins in {1, grid}:  # nothing to choose
            return edges[:bins]
        optima, sensitivity = self._optima(flat, edges, bins)
        first = channel.remaining * self.share_for(flat.size, channel.remaining, channel.definition)
        epsilon = channel.pure_epsilon(first / (bins - 1))
        ends = [grid]
        for number in range(bins - 1, 0, -1):
            if ends[-1] == number + 1:  # one candidate: every bin left of here is one step wide
                ends += range(number, 0, -1)
                break
            costs = optima.costs_of_boundary(number, ends[-1])
            choice = channel.pick(-costs, epsilon, sensitivity=sensitivity, purpose=f"boundary {number}")
            ends.append(number + choice)
        return edges[[0, *reversed(ends[1:])]]

    def _bins(self, edges: int) -> int:
        return min(edges, self.bins or max(1, edges // 10))

    def _optima(self, flat: Counts, edges: NDArray[np.int64], bins: int) -> tuple[Optima, int]:
        """Return the best histograms of all prefixes, and the sensitivity of their costs."""
        cap = self.clipped_at(flat.size)
        clipped = np.minimum(flat, cap)
        if self.centre == "median":
            return optima_around_medians(clipped, edges, bins), 1
        # Every step of a cost, and every total, stays within unit·n·max(F², n) <= 2^62.
        finest = _LARGEST // (flat.size * max(cap**2, flat.size))
        unit = 1 << (min(_FINENESS, finest).bit_length() - 1)
        return optima_around_means(clipped, edges, bins, cap, unit), unit * cap

    def _measure_trees(self, flat: Counts, starts: NDArray[np.int64], channel: Channel) -> Counts:
        """Return the noisy nodes of all trees, shape (nodes,); bins are disjoint, levels are not."""
        share = channel.remaining
        noisy = []
        with channel.parallel(share, cells=flat.size, purpose="trees") as scope:
            for stand in stands(starts, flat.size, self.branching):
                branch = scope.branch(stand.cells, f"of {stand.levels} levels")
                for level, sums in enumerate(stand.sums(flat)):
                    noisy.append(branch.add_noise(sums, share / stand.levels, purpose=f"level {level + 1}"))
        return np.concatenate(noisy)

    def _from_trees(self, measured: Measured, size: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return consistent cells and their noise variances, shape (size,)."""
        values, variances = np.empty(size), np.empty(size)
        rest, noisy, used = float(Fraction(measured.meta["rest"])), measured.arrays["measured"], 0
        pure = measured.definition == "pure"
        for stand in stands(measured.arrays["starts"], size, self.branching):
            here = stand.levels / rest
            variance = laplace_variance(here) if pure else gaussian_variance(here / 2)
            nodes, leaves = stand.parents.size, slice(-stand.cells.size, None)
            estimate = consistency(
                Hierarchy(stand.parents), noisy[used : used + nodes, None].astype(np.float64), variance
            )
            values[stand.cells] = estimate.values[leaves, 0]
            variances[stand.cells] = estimate.variances[leaves, 0]
            used += nodes
        return values, variances


def lower_medians(flat: Counts, starts: NDArray[np.int64]) -> Counts:
    """Return the lower median of each run of cells, shape (runs,): its (w-1)//2-th smallest from 0."""
    widths = np.diff(np.append(starts, flat.size))
    ordered = flat[np.lexsort((flat, np.repeat(np.arange(starts.size), widths)))]
    return np.asarray(ordered[starts + (widths - 1) // 2])


@dataclass(frozen=True)
class Bound:
    """The public numbers that the bound is made of.

    Attributes
    ----------
    cells, candidates, bins
        n, m and k.
    largest_count
        F.
    centre, definition
        ``"mean"`` or ``"median"``; ``"pure"`` or ``"zcdp"``.
    """

    cells: int
    candidates: int
    bins: int
    largest_count: int
    centre: str
    definition: str

    def log_error(self, structure: float, rest: float) -> float:
        """Return the logarithm of the bound, for a budget divided into ``structure`` and ``rest``."""
        return float(np.logaddexp(self.log_misplaced(structure), self.log_noise(rest)))

    def log_misplaced(self, structure: float) -> float:
        """Return ln of the error that the choices of all boundaries add: (k-1)·m/(2t·α)."""
        choices = self.bins - 1
        if not choices:
            return -inf
        around_means = self.centre == "mean"
        amount = structure / choices
        epsilon = amount if self.definition == "pure" else sqrt(2 * amount)
        rate = epsilon / (2 * (self.largest_count if around_means else 1))
        worst = self.cells * self.largest_count * (self.largest_count / 4 if around_means else 1 / 2)
        flat = -log1p(-rate * worst) if rate * worst < 1 else inf  # ln m/α for the first α
        steep = log(self.candidates) + rate * worst
        return log(choices) - log(2 * rate) + min(flat, steep)

    def log_noise(self, rest: float) -> float:
        """Return ln of the error of the noise: squared, at most k·Var; absolute, n·E|Z|."""
        if self.centre == "mean":
            return log(self.bins) + (log(2) - 2 * log(rest) if self.definition == "pure" else -log(2 * rest))
        deviation = -log(rest) if self.definition == "pure" else log(sqrt(1 / (pi * rest)))
        return log(self.cells) + deviation


def least_bound(bound: Bound, budget: Fraction) -> Fraction:
    """Return the share for the structure, among ``shares()``, that makes the bound least."""
    total = float(budget)
    return min(shares(), key=lambda share: bound.log_error(total * float(share), total * float(1 - share)))


def shares() -> list[Fraction]:
    """Return shares of a budget with five binary digits each, from 2^-30 to 1 - 2^-30, ascending."""
    low = [Fraction(digits, 1 << place) for place in range(35, 6, -1) for digits in range(32, 64)]
    return low + [Fraction(1, 2)] + [1 - share for share in reversed(low)]


# Optimal histograms on a grid of boundary candidates, exactly, for every prefix and number of bins.
#
# The least total cost of j bins over the first i of m runs is T[j][i] = min over l of T[j-1][l] + c(l, i),
# in int64. Costs of bins that end at one edge are computed when needed: O(n + k·m) memory, O(m²·k) time,
# and for costs O(n + m²) around means and O((n + m²)·log n) around medians.
#
# Source: Jagadish and others 1998; Xu and others 2013, sections 2.1 and 5.


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

    Source: Claude, Navarro, Ordóñez 2015, "The wavelet matrix".

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

    int64, shape (last,).

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

    int64, shape (last,).

    Parameters
    ----------
    ranks
        See ``ranks_of``.
    edges
        Shape (m + 1,).
    last
        From 1 to m.
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
