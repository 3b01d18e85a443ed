"""P-HPartition: cut the row of bins in two, again and again, by private choices; then one sum per part.

Sensitivity and privacy: one record changes the absolute deviation of the one part that holds it by less than
2, hence by at most 2 after rounding: a score, minus a sum of rounded deviations, has sensitivity 2. Parts of
a level are disjoint, so the choices of each of d levels cost ε/4d together; the choice among the partitions
that they go through costs ε/4; given that, one sum changes by 1, at the rest. Sorting first
(``unattributed``) keeps neighbours. What is made of the sums (``sign``, pruning) sees only them.

O(n log² n) time, O(n) memory. Source: Acs, Castelluccia, Chen 2012, Algorithms 3 and 4, Lemma 2, Theorem 8;
parameters beyond the paper: docs/reference/mechanisms/p_hpartition.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import log, pi, prod, sinh, sqrt
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import isotonic_regression

from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.arrays import LARGEST_SUM, Integers
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.parameter_checks import one_of, share_of_budget, switch, whole_number
from tabularium.mechanisms.histograms.segmentation import first_from
from tabularium.mechanisms.inference.family_projection import common_reduction
from tabularium.mechanisms.kernels.compiled import compiled
from tabularium.mechanisms.linear_measurements.linear_measurement import LinearMeasurement
from tabularium.mechanisms.linear_measurements.noisy_tree import NoisyTree
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise_distributions import noise_in, variance_of

SENSITIVITY = 2  # of a score
MOST_CELLS = 1 << 21  # times counts of at most 2^40: sums stay within 2^61
MOST_LEVELS = 64


@dataclass(frozen=True)
class PHPartition(Mechanism):
    """Private bisections, then one noisy mean per part.

    Parameters
    ----------
    structure
        Share of the budget for the cuts, divided equally among the levels.
    choice
        Share for choosing one of the partitions that the cuts went through; the sums get what ``structure``
        and ``choice`` leave. With 0 there is no choice: the finest partition is measured, and cuts that the
        sums speak against are taken back, at no cost.
    depth
        Number of levels, 1 to 64. By default ⌈log2 n⌉ for n bins.
    balance
        How strongly balanced cuts are preferred, 0 to 8. A cut that leaves the share s of a part on its
        shorter side is chosen as if it were (2s)^balance times as likely.
    leave_whole
        Whether a part may be left whole before the last level.
    unattributed
        Sort the counts first and release them in ascending order, without saying which bin has which. Noisy
        means that do not ascend are pooled.
    sign
        ``"free"``: noisy means as they are, as in the paper. ``"total"``: no negative counts, and the total
        that the noisy sums add up to.
    """

    structure: Fraction = Fraction(1, 4)
    choice: Fraction = Fraction(1, 4)
    depth: int | None = None
    balance: int = 0
    leave_whole: bool = True
    unattributed: bool = False
    sign: Literal["free", "total"] = "free"

    name: ClassVar[str] = "p_hpartition"

    def __post_init__(self) -> None:
        structure, choice = (
            share_of_budget(self.structure, "structure"),
            share_of_budget(self.choice, "choice", zero=True),
        )
        if structure + choice >= 1:
            raise MechanismError(
                "nothing would remain for the sums",
                where="choice",
                hint="let structure + choice stay below 1",
            )
        object.__setattr__(self, "structure", structure)
        object.__setattr__(self, "choice", choice)
        if self.depth is not None:
            whole_number(self.depth, 1, MOST_LEVELS, "depth")
        whole_number(self.balance, 0, 8, "balance")
        switch(self.leave_whole, "leave_whole")
        switch(self.unattributed, "unattributed")
        one_of(self.sign, ("free", "total"), "sign")

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as JSON-able values; ``sign`` only where it is not the paper's."""
        result = super().parameters()
        if self.sign == "free":
            del result["sign"]
        return result

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Choose the cuts, choose how many of them to keep, and measure the parts that they leave."""
        if counts.size > MOST_CELLS:
            raise MechanismError(
                f"there are more than {MOST_CELLS} cells", where=self.name, hint="release a coarser table"
            )
        bins = np.sort(counts.reshape(-1)) if self.unattributed else counts.reshape(-1)
        budget = channel.remaining
        cuts = self._cut(bins, channel)
        kept = self._keep(cuts, budget * self.choice, channel)
        starts, levels = cuts.parts_after(kept)
        sums = channel.add_noise(np.add.reduceat(bins, starts), channel.remaining, purpose="sums")
        meta = {"shape": list(counts.shape), "cuts_per_level": [level.size for level in cuts.places]}
        return {"starts": starts, "levels": levels, "sums": sums}, meta

    def finish(self, measured: Measured) -> Release:
        """Return each part's noisy mean for each of its bins, float64, in the shape of the counts.

        With ``sign`` ``"total"`` means below zero become zero, and the others smaller.
        """
        cells, starts = prod(measured.meta["shape"]), measured.arrays["starts"]
        kept, sums, levels = starts, measured.arrays["sums"], measured.arrays["levels"]
        if not self.choice:  # then cuts that the sums speak against are taken back
            variance = variance_of(measured.transcript[-1])
            kept = pruned(sums, starts, levels, cells, variance, max(2.0, log(starts.size)))
        sums = np.add.reduceat(sums, np.searchsorted(starts, kept))
        sizes = np.diff(kept, append=cells)
        means = sums / sizes
        if self.unattributed:
            # Their noise variances go with 1/size².
            means = np.asarray(isotonic_regression(means, weights=sizes.astype(np.float64) ** 2).x)
        if self.sign == "total":
            # Sums have the same noise each. Counts without owners are reduced alike, and stay in order.
            rows, weights = (np.repeat(means, sizes), 1) if self.unattributed else (sums, sizes)
            means = np.maximum(means - common_reduction(rows[None].astype(np.float64)) / weights, 0.0)
        return measured.release(
            np.repeat(means, sizes).reshape(measured.meta["shape"]),
            cuts_per_level=measured.meta["cuts_per_level"],
            parts_measured=int(starts.size),
            parts=int(kept.size),
            largest_part=int(sizes.max()),
            scale=float(measured.transcript[-1].scale),
        )

    def linear_measurements(self, measured: Measured) -> LinearMeasurement | None:
        """Return the noisy sums of the parts; None where counts were sorted and belong to no cell."""
        if self.unattributed:
            return None
        starts, sums = measured.arrays["starts"], measured.arrays["sums"]
        sizes = np.diff(starts, append=prod(measured.meta["shape"]))
        part = np.repeat(np.arange(starts.size), sizes)
        return NoisyTree.flat(part, sums, noise_in(measured.transcript[-1]))

    def _cut(self, bins: Counts, channel: Channel) -> _Cuts:
        """Choose the cuts of all levels, each level with its part of the budget for them."""

        budget = channel.remaining
        depth = self.depth or max(1, (bins.size - 1).bit_length())
        epsilon = channel.pure_epsilon(budget * self.structure / depth)
        price = round(_mean_noise(budget * (1 - self.structure - self.choice), channel.definition))
        frontier, cuts = Frontier(bins), _Cuts()
        for level in range(1, depth + 1):
            if not frontier.starts.size:
                break
            costs, firsts = frontier.costs(), frontier.firsts
            scores = self._preference(frontier.sizes, firsts, epsilon) - costs - price
            scores[firsts] += price
            begin = firsts
            if not self.leave_whole:
                scores, begin = np.delete(scores, firsts), firsts - np.arange(firsts.size)
            places = channel.pick_each(
                scores, begin, epsilon, sensitivity=SENSITIVITY, purpose=f"level {level}"
            ) + int(not self.leave_whole)
            changes = costs[firsts + places] - costs[firsts]
            cuts.add((frontier.starts + places)[places > 0], changes[places > 0])
            frontier.cut(places)
        return cuts

    def _preference(self, sizes: Counts, firsts: Counts, epsilon: Fraction) -> Counts:
        """Return what balanced cuts are given in advance, in units of score, shape (candidates,)."""
        if not self.balance:
            return np.zeros(1, dtype=np.int64)
        size = np.repeat(sizes, sizes)
        left = np.arange(size.size) - np.repeat(firsts, sizes)
        left[firsts] = (sizes + 1) // 2  # leaving a part whole is as good as the best cut
        unit = self.balance * 2 * SENSITIVITY / float(epsilon)
        preferred = unit * np.log(2 * np.minimum(left, size - left) / size)
        return np.asarray(np.maximum(np.rint(preferred), -float(LARGEST_SUM)), dtype=np.int64)

    def _keep(self, cuts: _Cuts, share: Fraction, channel: Channel) -> int:
        """Choose how many of the cuts, in their order, make the partition that is measured."""
        changes = np.concatenate([*cuts.changes, np.zeros(0, dtype=np.int64)])
        if not (self.choice and changes.size):
            return changes.size
        price = _mean_noise(channel.remaining - share, channel.definition)
        charge = np.minimum(np.floor(price * np.arange(changes.size + 1)), float(LARGEST_SUM)).astype(
            np.int64
        )
        costs = np.concatenate([[0], np.cumsum(changes)]) + charge
        return channel.pick(-costs, channel.pure_epsilon(share), sensitivity=SENSITIVITY, purpose="partition")


class _Cuts:
    """The cuts, level after level, each from left to right.

    ``places``: For each level, the first bin after each of its cuts: as the channel gave them. ``changes``:
    For each level, by how much each of its cuts changed the sum of deviations: true, and secret.
    """

    def __init__(self) -> None:
        self.places: list[Counts] = []
        self.changes: list[Counts] = []

    def add(self, places: Counts, changes: Counts) -> None:
        """Take in a level."""
        self.places.append(places)
        self.changes.append(changes)

    def parts_after(self, number: int) -> tuple[Counts, Counts]:
        """Return the first bins of the parts that the first cuts leave, and the level that made each."""
        sizes = [1, *(level.size for level in self.places)]
        starts = np.concatenate([np.zeros(1, dtype=np.int64), *self.places])[: number + 1]
        levels = np.repeat(np.arange(len(sizes)), sizes)[: number + 1]
        order = np.argsort(starts)
        return starts[order], levels[order]


def _mean_noise(amount: Fraction, definition: Definition) -> float:
    """Return λ = E|Z| of the noise that ``amount`` buys for a sum: 1/sinh ε, or σ·√(2/π); at most 2^60.

    The paper has 1/ε, which is what continuous noise would have.
    """
    rate = sinh(min(float(amount), 700.0)) if definition == "pure" else sqrt(pi * float(amount))
    return 1 / max(rate, 1 / LARGEST_SUM)


def pruned(
    sums: Integers, starts: Integers, levels: Integers, cells: int, variance: float, price: float
) -> Integers:
    """Return the first bins of the parts that the best pruning leaves, ascending, int64.

    Parameters
    ----------
    sums
        Noisy sum of each finest part, shape (parts,).
    starts
        First bin of each, ascending from 0.
    levels
        The level, from 1, of the cut that made a part begin there; 0 for the first part. A level cuts each
        of the parts that it finds at most once.
    cells
        Number of bins.
    variance
        v, of each sum.
    price
        Of a part, in units of v/w.
    """
    total, width = sums.astype(np.float64), np.diff(starts, append=cells).astype(np.float64)
    spread = (total**2 - variance) / width
    least = (price - 1) * variance / width
    depth = int(levels.max())
    pays: list[NDArray[np.bool_]] = []
    for level in range(depth, 0, -1):
        # Entry a has stood for what begins there after this level; from here on it is the part that was cut.
        a, b = _sides(levels, level)
        apart = least[a] + least[b]
        total[a], width[a], spread[a] = total[a] + total[b], width[a] + width[b], spread[a] + spread[b]
        whole = spread[a] + (price * variance - total[a] ** 2) / width[a]
        least[a] = np.minimum(apart, whole)
        pays.append(apart < whole)
    standing = np.zeros(starts.size, dtype=np.bool_)
    standing[0] = True
    kept = standing.copy()
    for level, pay in zip(range(1, depth + 1), reversed(pays), strict=True):
        a, b = _sides(levels, level)
        standing[a] = standing[b] = standing[a] & pay  # inside what is taken back whole, nothing stands
        kept[b] = standing[b]
    return np.compress(kept, starts)


def _sides(levels: Integers, level: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the entries where the parts that a level cuts begin, and where their right sides do."""
    right = np.flatnonzero(levels == level)
    earlier = np.flatnonzero(levels < level)
    return earlier[np.searchsorted(earlier, right) - 1], right


class Frontier:
    """The parts of a histogram that may still be cut, from left to right.

    The bins are sorted once. A cut divides the sorted positions of a part without changing their order, so
    no level sorts again.

    ``counts``: int64, shape (n,), 0 to 2^40, n at most 2^21.

    ``starts``, ``sizes``: First bin and number of bins of each part, int64, shape (parts,). Parts of one bin
    are left out.
    """

    def __init__(self, counts: Integers) -> None:
        self._counts = counts
        self._order = np.argsort(counts, kind="stable").astype(np.int64)
        several = counts.size > 1
        self.starts = np.zeros(int(several), dtype=np.int64)
        self.sizes = np.full(int(several), counts.size, dtype=np.int64)

    @property
    def firsts(self) -> Integers:
        """Where each part's costs begin in ``costs``, shape (parts,)."""
        return np.cumsum(self.sizes) - self.sizes

    def costs(self) -> Integers:
        """Return each part's absolute deviation, then those of its two sides under every cut.

        See ``deviations.bisection_costs``.
        """
        return bisection_costs(self._counts, self._order, self.starts, self.sizes)

    def cut(self, places: Integers) -> None:
        """Cut each part after ``places`` of its bins, or leave it for good if that is 0."""
        chosen = np.flatnonzero(places)
        starts, sizes, places = self.starts[chosen], self.sizes[chosen], places[chosen]
        if chosen.size:
            split_order(self._order, starts, sizes, places)
        sides = np.column_stack([starts, starts + places]).reshape(-1)
        widths = np.column_stack([places, sizes - places]).reshape(-1)
        self.starts, self.sizes = sides[widths > 1], widths[widths > 1]


# Absolute deviations Σ|x - mean| of both sides of every cut of a part, in O(m log m) for m bins.
#
# One pass over the bins gives all prefixes, one more all suffixes; everything is exact in int64 for counts
# up to 2^40 and up to 2^21 bins, and deviations stay within 2^60
# (docs/reference/mechanisms/p_hpartition.md).
#
# Source: Acs, Castelluccia, Chen 2012, section V; there it costs O(m²) for a part.


_SHIFT = 5
_WITHIN = (1 << _SHIFT) - 1
_MOST_LEVELS = 8


@compiled
def bisection_costs(values: Integers, order: Integers, starts: Integers, sizes: Integers) -> Integers:
    """Return the absolute deviation of each part, and of its two sides under every cut.

    Parameters
    ----------
    values
        Counts, int64, shape (n,), 0 to 2^40.
    order
        Positions in ``values``, int64, shape (n,): the places of a part hold its positions, sorted by value.
    starts, sizes
        First position and number of bins of each part, int64, shape (parts,); parts are disjoint.

    Returns
    -------
    int64, shape (sum of sizes,), part after part: first the deviation of the part, then, for the cut after
    1, 2, …, m - 1 of its bins, the deviations of both sides together. Every single deviation is rounded to
    the nearest integer, halves downwards.
    """
    largest = sizes.max()
    costs = np.zeros(sizes.sum(), dtype=np.int64)
    ranks = np.empty(largest, dtype=np.int64)
    levels = np.empty(largest, dtype=np.int64)
    bases = np.zeros(_MOST_LEVELS, dtype=np.int64)
    tree = np.empty((bases[_lay_out(largest, bases)], 2), dtype=np.int64)
    first = 0
    for part in range(sizes.size):
        start, size = starts[part], sizes[part]
        number = _rank(values, order[start : start + size], start, ranks, levels)
        if number > 1:  # a part of equal bins has no deviation under any cut
            depth = _lay_out(number, bases)
            nodes, bins = tree[: bases[depth]], values[start : start + size]
            own, rank = costs[first : first + size], ranks[:size]
            # Slices with a step, both of them: one type of array, hence one compiled function.
            own[0] = _deviations(bins[::1], rank[::1], levels[:number], nodes, bases[:depth], own[1::1])
            _deviations(bins[::-1], rank[::-1], levels[:number], nodes, bases[:depth], own[:0:-1])
        first += size
    return costs


@compiled
def _rank(values: Integers, positions: Integers, start: int, ranks: Integers, levels: Integers) -> int:
    """Number the distinct values of a part upwards; fill in the numbers of its bins and the values."""
    number = 0
    for place in range(positions.size):
        value = values[positions[place]]
        if number == 0 or value != levels[number - 1]:
            levels[number] = value
            number += 1
        ranks[positions[place] - start] = number - 1
    return number


@compiled
def _lay_out(number: int, bases: Integers) -> int:
    """Fill in where each level of a tree of ``number`` leaves begins and the last one ends; return the depth.

    Each level has a node more than it needs: the end of a range is then a node too.
    """
    depth, width = 0, number
    while True:
        width = (width >> _SHIFT) + 1
        bases[depth + 1] = bases[depth] + (width << _SHIFT)
        depth += 1
        if width == 1:
            return depth


@compiled
def _deviations(
    bins: Integers, ranks: Integers, levels: Integers, tree: Integers, bases: Integers, costs: Integers
) -> int:
    """Add the deviation of the first 1, 2, …, m - 1 bins to ``costs``; return that of all.

    The quotients are taken in floating point, several times as fast as in integers. S/j is at most 2^40, so
    its error is far below 1; one step corrects it. 4·c·r + j and 2·j are exact doubles, and a quotient that
    is not whole is at least 1/2j from the next integer, more than rounding can bridge.
    """
    tree[:] = 0
    total, above, beyond = 0, 0, 0  # S, c and A
    place = 0  # of the first level above q
    deviation = 0
    for met in range(1, bins.size + 1):
        value, rank = bins[met - 1], ranks[met - 1]
        total += value
        if rank >= place:
            above += 1
            beyond += value
        for level in range(bases.size):
            node = bases[level] + (rank >> (level * _SHIFT))
            tree[node, 0] += 1
            tree[node, 1] += value
        quotient = int(float(total) / float(met))
        rest = total - quotient * met
        if rest < 0:
            quotient, rest = quotient - 1, rest + met
        elif rest >= met:
            quotient, rest = quotient + 1, rest - met
        if place < levels.size and levels[place] <= quotient:
            result = first_from(levels, place, quotient + 1)
            number, amount = _between(tree, bases, place, result)
            above, beyond, place = above - number, beyond - amount, result
        elif place > 0 and levels[place - 1] > quotient:
            result = first_from(levels, place - 1, quotient + 1)
            number, amount = _between(tree, bases, result, place)
            above, beyond, place = above + number, beyond + amount, result
        share = int(float(4 * above * rest + met) / float(2 * met))  # 2·c·r/j to the nearest integer
        deviation = 2 * (beyond - above * quotient) - share
        if met < bins.size:
            costs[met - 1] += deviation
    return deviation


@compiled
def _between(tree: Integers, bases: Integers, low: int, high: int) -> tuple[int, int]:
    """Return how many of the bins met have a rank from ``low`` to ``high - 1``, and their sum.

    On each level the nodes up to the next multiple of 32 are read at both ends, the rest one level up.
    """
    number, amount = 0, 0
    level = 0
    while low < high:
        base = bases[level]
        while low < high and low & _WITHIN:
            number += tree[base + low, 0]
            amount += tree[base + low, 1]
            low += 1
        while low < high and high & _WITHIN:
            high -= 1
            number += tree[base + high, 0]
            amount += tree[base + high, 1]
        low, high, level = low >> _SHIFT, high >> _SHIFT, level + 1
    return number, amount


@compiled
def split_order(order: Integers, starts: Integers, sizes: Integers, cuts: Integers) -> None:
    """Divide the positions of every part into those before its cut and those after, each in their old order.

    ``order``, ``starts``, ``sizes``: As for ``bisection_costs``; ``order`` is changed in place. ``cuts``:
    Number of bins before the cut of each part, int64, shape (parts,).
    """
    spare = np.empty(sizes.max(), dtype=np.int64)
    for part in range(sizes.size):
        start, cut = starts[part], cuts[part]
        own = order[start : start + sizes[part]]
        left, right = 0, 0
        for place in range(own.size):
            if own[place] < start + cut:
                own[left] = own[place]
                left += 1
            else:
                spare[right] = own[place]
                right += 1
        for place in range(right):
            own[left + place] = spare[place]
