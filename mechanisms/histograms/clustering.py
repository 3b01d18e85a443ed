"""AHP and SReB_GCA: cells of about the same size, wherever they lie, share one noisy mean.

The first share of the budget measures every cell. The noisy counts are sorted and cut greedily, AHP by the
squared error of a mean, SReB_GCA by its relative error; the rest measures the sum of each part, and a cell is
released as the mean of its part. O(n log n).

Sensitivity: one record changes one cell by 1, so the first measurement has sensitivity 1 and costs its share.
Order, with ties by position, and parts depend only on those noisy counts. Parts are disjoint: one record
changes one sum by 1, and the sums cost the rest.

Sources: Zhang, Chen, Xu, Meng, Xie 2014 (AHP; defaults after Hay and others 2016, DPBench); Chen and others
2024 (SReB_GCA). What differs from them, and why: docs/reference/mechanisms, ahp and sreb_gca.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import ceil, log, log1p, pi, sinh, sqrt
from typing import Any, ClassVar

import numpy as np

from tabularium.mechanisms.accounting.transcript import Definition, Event
from tabularium.mechanisms.arrays import Floats, Indices, Integers
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.noisy_sums import addable, variance_for
from tabularium.mechanisms.histograms.parameter_checks import exact_number, one_of, share_of_budget, switch
from tabularium.mechanisms.kernels.compiled import compiled
from tabularium.mechanisms.linear_measurements.linear_measurement import LinearMeasurement, draws
from tabularium.mechanisms.linear_measurements.noisy_tree import NoisyTree
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise_distributions import Noise, noise_in

DELTA = 1
"""The δ of SReB_GCA: smaller counts are replaced by it in denominators."""


class SortedParts(Mechanism):
    """Sort by noisy count, cut into parts, release one noisy mean per part."""

    share: Fraction
    nonnegative: bool
    part: ClassVar[str]
    noisy_cells_purpose: ClassVar = "order"

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Measure every cell, cut by what came out, and measure the sums of the parts."""
        rest = channel.remaining * (1 - self.share)
        noisy = channel.add_noise(counts, channel.remaining - rest, purpose="order")
        order = _order(noisy)
        starts = self._starts(noisy.reshape(-1)[order], channel.transcript[-1], rest)
        sums = np.add.reduceat(addable(counts).reshape(-1)[order], starts)
        noisy_sums = channel.add_noise(sums, rest, purpose=f"{self.part}s")
        return {"cells": noisy, "starts": starts, "sums": noisy_sums}, {}

    def finish(self, measured: Measured) -> Release:
        """Return the mean of each part for each of its cells, float64, in the shape of the counts."""
        noisy, starts, sums = (measured.arrays[key] for key in ("cells", "starts", "sums"))
        sizes = np.diff(starts, append=noisy.size)
        means = sums / sizes
        if self.nonnegative:
            means = np.maximum(means, 0.0)
        order, ranked = _order(noisy), np.repeat(means, sizes)
        values = np.empty(noisy.size)
        values[order] = ranked
        return measured.release(
            values.reshape(noisy.shape),
            **{f"{self.part}s": int(starts.size), f"largest_{self.part}": int(sizes.max())},
            **self._described(noisy.reshape(-1)[order], ranked, sizes, measured.transcript[-2]),
        )

    def linear_measurements(self, measured: Measured) -> LinearMeasurement | None:
        """Return the noisy sums of the parts, which were chosen by the noisy counts of all cells."""
        noisy, starts, sums = (measured.arrays[key] for key in ("cells", "starts", "sums"))
        of = np.empty(noisy.size, np.intp)
        of[_order(noisy)] = np.repeat(np.arange(starts.size), np.diff(starts, append=noisy.size))
        noise = noise_in(draws(measured, f"{self.part}s")[0])
        return NoisyTree.flat(of, sums, noise, chosen_by=self.noisy_cells(measured))

    def _starts(self, ascending: Counts, event: Event, rest: Fraction) -> Integers:
        """Return where the parts begin, from released numbers only."""
        raise NotImplementedError

    def _described(self, ascending: Counts, ranked: Floats, sizes: Integers, event: Event) -> dict[str, Any]:
        """Return further diagnostics."""
        raise NotImplementedError


@dataclass(frozen=True)
class Ahp(SortedParts):
    """Noisy counts are sorted and clustered by squared error, then one noisy mean per cluster.

    Parameters
    ----------
    share
        Share of the budget for the noisy counts that decide order and clusters; the clusters' sums get the
        rest.
    grouping
        ``"expected"``: sort and cluster by the count that a cell is expected to have, given its noisy one.
        ``"threshold"``: by the noisy counts, with zero for small ones, as in the paper.
    threshold
        η for ``grouping="threshold"``, ``"0"`` to ``"10"``: noisy counts of at most η·ln(n) times the scale
        of the noise become zero.
    nonnegative
        Release zero where the mean of a cluster is below zero.
    """

    share: Fraction = Fraction(9, 10)
    grouping: str = "expected"
    threshold: Fraction = Fraction(7, 20)
    nonnegative: bool = True

    name: ClassVar[str] = "ahp"
    part: ClassVar[str] = "cluster"

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", share_of_budget(self.share, "share"))
        one_of(self.grouping, ("expected", "threshold"), "grouping")
        object.__setattr__(self, "threshold", _threshold(self.threshold))
        switch(self.nonnegative, "nonnegative")
        if self.grouping != "threshold" and self.threshold != _threshold(type(self).threshold):
            raise MechanismError(
                "this has no effect here",
                where="threshold",
                hint="leave it out; it counts with grouping: threshold",
            )

    def _starts(self, ascending: Counts, event: Event, rest: Fraction) -> Integers:
        return cluster_starts(self._cleared(ascending, event), variance_for(rest, event.definition))

    def _cleared(self, ascending: Counts, event: Event) -> Floats:
        """Return the noisy counts with less noise in them, ascending."""
        if self.grouping == "expected":
            return _expected(ascending, event, 16 * noise_in(event).scale, ascending)
        bound = float(self.threshold) * log(ascending.size) * float(event.scale)
        return np.where(ascending <= bound, 0.0, ascending.astype(np.float64))

    def _described(self, ascending: Counts, ranked: Floats, sizes: Integers, event: Event) -> dict[str, Any]:
        return {"single_cells": int((sizes == 1).sum())}


@dataclass(frozen=True)
class SrebGca(SortedParts):
    """Noisy counts are sorted and grouped by mean relative error, then one noisy mean per group.

    Parameters
    ----------
    share
        Share of the budget for the noisy counts that decide order and groups (the paper's ε1/ε); the groups'
        means get the rest.
    grouping
        ``"expected"``: group by the count that a cell is expected to have, given its noisy one. ``"noisy"``:
        by the noisy counts, with zero for those below zero, as in the paper.
    nonnegative
        Release zero where the mean of a group is below zero.
    """

    share: Fraction = Fraction(9, 10)
    grouping: str = "expected"
    nonnegative: bool = True

    name: ClassVar[str] = "sreb_gca"
    part: ClassVar[str] = "group"

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", share_of_budget(self.share, "share"))
        one_of(self.grouping, ("expected", "noisy"), "grouping")
        switch(self.nonnegative, "nonnegative")

    def _starts(self, ascending: Counts, event: Event, rest: Fraction) -> Integers:
        noise = _mean_deviation(event.definition, rest)
        by = np.maximum(ascending, 0)
        if self.grouping == "expected":
            # Expected counts lie on points, a 64th of themselves apart: cells of one point are one group, a
            # quarter of that distance off on average. Where that is more than the noise, counts stay noisy.
            return group_starts(_expected(ascending, event, 4 * 64 * noise, by), noise, float(DELTA))
        return group_starts(by.astype(np.float64), noise, float(DELTA))

    def _described(self, ascending: Counts, ranked: Floats, sizes: Integers, event: Event) -> dict[str, Any]:
        return {"relative_error": _relative_error(ascending, ranked, event)}


def _expected(ascending: Counts, event: Event, bound: float, otherwise: Counts) -> Floats:
    """Return the expected count of each cell given its noisy one, below ``bound``; ascending, shape (n,)."""
    result = otherwise.astype(np.float64)
    near = int(np.searchsorted(ascending, bound))
    result[:near] = odds(ascending, noise_in(event)).expected()[:near]
    return np.maximum.accumulate(result)


def _order(noisy: Array) -> Indices:
    """Return the flat positions in ascending order of noisy count; ties by position, which is public."""
    return np.argsort(noisy.reshape(-1), kind="stable")


def _threshold(value: Any) -> Fraction:
    """Return η, from text or a fraction; zero is allowed."""
    hint = 'write a number from 0 to 10 as text, such as "7/20" or "0.35"'
    number = exact_number(value, "threshold", called="a threshold", hint=hint)
    if not 0 <= number <= 10:
        raise MechanismError("a threshold lies between 0 and 10", where="threshold", hint=hint)
    return number


def _mean_deviation(definition: Definition, budget: Fraction) -> float:
    """Return E|Z| of the noise that the budget buys at sensitivity 1: 1/sinh ε, or σ·√(2/π).

    The paper has 1/ε, which is what continuous noise would have. A huge ε has none.
    """
    if definition == "pure":
        return 1 / sinh(min(float(budget), 700.0))
    return sqrt(2 / pi) / sqrt(2 * float(budget))


def _relative_error(ascending: Counts, released: Floats, event: Event) -> dict[str, Any]:
    """Return an estimate of the mean relative error |x - released|/max(x, 1), in all and by true count.

    The true counts are unknown; their odds come from the noisy counts of the first measurement. Counts that
    the noise cannot tell from zero are taken for zero, which makes the estimate too high rather than too low.
    """
    result = odds(ascending, noise_in(event))
    cells, errors = relative_errors(result, released)
    bounds = [0, 1]
    while bounds[-1] <= result.points[-1]:
        bounds.append(10 * bounds[-1])
    firsts = np.searchsorted(result.points, bounds)
    classes = []
    for number, (first, last) in enumerate(pairwise(firsts)):
        expected = float(cells[first:last].sum())
        if expected >= 0.5:
            mean = float(errors[first:last].sum()) / expected
            classes.append(
                {
                    "from": bounds[number],
                    "to": bounds[number + 1] - 1,
                    "cells": round(expected, 1),
                    "mean": mean,
                }
            )
    return {"mean": float(errors.sum() / ascending.size), "by_count": classes}


_EVERY = 3


@compiled
def cluster_starts(ascending: Floats, variance: float) -> Integers:
    """Return where the clusters of a greedy scan begin: the second loop of AHP, in O(n log n).

    A cluster of m counts costs Σ(h - mean)² + v/m. The next count joins it when its cost with it is below its
    cost without it plus the least that the count costs in a cluster of its own.

    ``ascending``: Shape (n,), n >= 1. ``variance``: v, of the noise of a cluster's sum.

    int64, shape (clusters,): the position of each cluster's first count, from 0.
    """
    size = ascending.size
    sums = np.zeros(size + 1)
    for here in range(size):
        sums[here + 1] = sums[here] + ascending[here]
    starts = np.empty(size, dtype=np.int64)
    starts[0] = 0
    clusters = 1
    members, mean, spread, error = 1.0, ascending[0], 0.0, variance
    for here in range(1, size):
        apart = ascending[here] - mean
        more = members + 1.0
        wider = spread + apart * apart * members / more
        joined = wider + variance / more
        if joined < error + least_error(ascending, sums, here, variance):
            members, mean, spread, error = more, mean + apart / more, wider, joined
        else:
            starts[clusters] = here
            clusters += 1
            members, mean, spread, error = 1.0, ascending[here], 0.0, variance
    return starts[:clusters].copy()


@compiled
def least_error(ascending: Floats, sums: Floats, here: int, variance: float) -> float:
    """Return the least over lengths m of (h - mean of h and the m - 1 counts after it)² + v/m².

    All lengths up to nine are tried, then each an eighth longer. The first term only rises with the length;
    once it outweighs all that the second can still fall by, the search ends.
    """
    left = ascending.size - here
    count = ascending[here]
    smallest = variance / (float(left) * float(left))
    best = variance
    length = 1
    while length < left:
        length = min(length + 1 + (length >> _EVERY), left)
        apart = count - (sums[here + length] - sums[here]) / length
        moved = apart * apart
        if moved + smallest >= best:
            break
        best = min(best, moved + variance / (float(length) * float(length)))
    return best


@compiled
def group_starts(ascending: Floats, noise: float, least: float) -> Integers:
    """Return where the groups of a greedy scan begin.

    A group C with mean μ has the expected relative error Σ (|h - μ| + noise/|C|)/max(h, least). The next
    count h joins it when its error with h is below its error without h plus the least that h could cost in
    a group of its own, noise/((counts left)·max(h, least)); otherwise h opens the next group.

    Cost: O(n) altogether. The counts ascend, so the mean of a growing group never falls, and the place where
    it splits the group only moves to the right: each count passes it once. Sums start again with every group,
    which keeps them as small as the group and cancellation out of them.

    int64, shape (groups,): the position of each group's first count, from 0.

    Parameters
    ----------
    ascending
        Shape (n,), n >= 1, ascending.
    noise
        Expected absolute noise of a group's sum.
    least
        What takes the place of smaller counts in denominators; positive.
    """
    size = ascending.shape[0]
    starts = np.empty(size, np.int64)
    starts[0] = 0
    groups = 1
    first = split = 0  # counts first..split-1 lie below the mean
    total = ascending[0]
    weight = 1.0 / max(ascending[0], least)  # Σ 1/h
    share = ascending[0] * weight  # Σ h/h, which is not their number where h was replaced
    low_weight = low_share = 0.0  # the same below the mean
    error = noise * weight
    for here in range(1, size):
        count = ascending[here]
        own = 1.0 / max(count, least)
        members = here - first + 1
        mean = (total + count) / members
        while split < here and ascending[split] < mean:
            part = 1.0 / max(ascending[split], least)
            low_weight += part
            low_share += ascending[split] * part
            split += 1
        new_weight, new_share = weight + own, share + count * own
        above = (new_share - low_share) - mean * (new_weight - low_weight)
        joined = (mean * low_weight - low_share) + above + noise * new_weight / members
        if joined < error + noise * own / (size - here):
            total, weight, share, error = total + count, new_weight, new_share, joined
        else:
            starts[groups] = here
            groups += 1
            first = split = here
            total, weight, share = count, own, count * own
            low_weight = low_share = 0.0
            error = noise * own
    return starts[:groups].copy()


# What noisy counts say about the counts behind them: how many cells have which count, and each cell's odds.
#
# Given cells y_i = x_i + noise of a known distribution, the prevalences π(x) that make the whole noisy
# table likeliest are found by expectation-maximisation (Kiefer & Wolfowitz 1956; Laird 1978), and Bayes'
# rule then gives every cell the odds of its true count. Post-processing: nothing here has seen a true
# count.
#
# Near zero the noise hides which of several small counts a cell has, and no method can tell. The points at
# which π may lie keep a quarter of the noise scale apart, so that whatever looks like zero is taken for
# zero: for relative errors the careful side.
#
# Cost: O(n) and O(rounds · bins · points), some hundreds each.


ROUNDS = 200
_FINE = 64  # bins of noisy counts, and points of true ones, are at most 1/64 of themselves wide
_LEAST = 1e-100  # keeps odds positive, quotients finite, and products far from the smallest floats
_FAR = 40.0  # points that exp(-40) speaks against, for every cell, are left out


@dataclass(frozen=True, eq=False)
class Odds:
    """Odds of true counts, for bins of noisy counts that are as good as equal.

    Attributes
    ----------
    bins
        Shape (n,), ascending: the bin of every noisy count.
    points
        Shape (points,), ascending from 0: the true counts that are considered.
    posterior
        Shape (bins, points): each row sums to 1.
    """

    bins: Integers
    points: Floats
    posterior: Floats

    def expected(self) -> Floats:
        """Return the mean of every cell's true count, shape (n,), ascending like the noisy counts."""
        # For such noise the means ascend; rounding must not be what breaks the order.
        means = np.maximum.accumulate((self.posterior * self.points).sum(axis=1))
        return means[self.bins]


def odds(ascending: Integers, noise: Noise) -> Odds:
    """Return the odds of the counts behind noisy ones.

    ``ascending``: Shape (n,), n >= 1: noisy counts, ascending. ``noise``: Its distribution in every one of
    them.
    """
    scale = noise.scale
    marks = np.floor(_FINE * np.arcsinh(ascending / (8 * scale)))
    opens = np.append(True, marks[1:] != marks[:-1])
    bins = np.cumsum(opens) - 1
    cells = np.bincount(bins).astype(np.float64)
    noisy = np.bincount(bins, weights=ascending) / cells
    points = _points(scale, float(noisy[-1]))
    # A point stands for the counts up to the next one: where those are far apart, for more than the noise.
    width = np.sqrt(scale**2 + (np.append(np.diff(points), 1.0) - 1) ** 2)
    distance = np.abs(noisy[:, None] - points) / width
    exponent = distance if noise.family == "laplace" else distance**2 / 2
    near = exponent.min(axis=0) < _FAR
    near[0] = True
    points, likelihood = points[near], np.exp(-exponent[:, near]) / width[near] + _LEAST
    prevalence = _fit(likelihood, np.ascontiguousarray(likelihood.T), cells, ROUNDS)
    joint = likelihood * prevalence
    return Odds(bins, points, joint / joint.sum(axis=1, keepdims=True))


def relative_errors(found: Odds, released: Floats) -> tuple[Floats, Floats]:
    """Return, for each point, how many cells are expected to have that count, and their relative errors' sum.

    ``released``: Shape (n,): what was released for each of the cells, in the order of the noisy counts.

    Shape (points,): expected number of cells, and expected sum of |x - released|/max(x, 1) over them.
    """
    changes = (found.bins[1:] != found.bins[:-1]) | (released[1:] != released[:-1])
    firsts = np.flatnonzero(np.append(True, changes))
    alike = np.diff(np.append(firsts, released.size)).astype(np.float64)
    cells, errors = np.zeros(found.points.size), np.zeros(found.points.size)
    least = np.maximum(found.points, 1.0)
    for start in range(0, firsts.size, 4096):  # bounds the memory, whatever was released
        part = slice(start, start + 4096)
        weight = found.posterior[found.bins[firsts[part]]] * alike[part, None]
        away = np.abs(found.points - released[firsts[part], None]) / least
        cells += weight.sum(axis=0)
        errors += (weight * away).sum(axis=0)
    return cells, errors


def _points(scale: float, top: float) -> Floats:
    """Return 0 and further counts up to ``top``, a quarter of the noise scale or 1/64 of themselves apart."""
    step = max(1.0, scale / 4)
    even = step * np.arange(_FINE)
    ratio = log1p(1 / _FINE)
    folds = max(0, ceil(log(max(top, 1.0) / (step * _FINE)) / ratio)) + 1
    wider = step * _FINE * np.exp(ratio * np.arange(folds))
    points: Floats = np.floor(np.append(even, wider))
    return points[: np.searchsorted(points, top) + 1]


@compiled
def _fit(likelihood: Floats, turned: Floats, cells: Floats, rounds: int) -> Floats:
    """Return the likeliest prevalences, shape (points,), from a uniform start.

    Inner loops run along rows, so that the compiler can use wide instructions without changing any sum.

    ``likelihood``, ``turned``: Shape (bins, points), and its transpose. ``cells``: Shape (bins,): how many
    noisy counts each bin holds.
    """
    bins, points = likelihood.shape
    prevalence = np.full(points, 1.0 / points)
    seen = np.empty(bins)
    pull = np.empty(points)
    total = cells.sum()
    for _ in range(rounds):
        seen[:] = 0.0
        for point in range(points):
            seen += turned[point] * prevalence[point]
        pull[:] = 0.0
        for one in range(bins):
            pull += likelihood[one] * (cells[one] / seen[one])
        prevalence = prevalence * pull / total + _LEAST
    return prevalence
