"""SReB_GCA: cells of about the same size share one noisy mean, small cells first.

A first part of the budget measures every cell. These noisy counts are sorted, and a greedy scan joins
neighbours into groups as long as the mean *relative* error falls. The rest of the budget measures the sum of
each group, and every cell of a group is released as the group's mean.

What one record changes: one cell, by 1. So the first measurement has sensitivity 1 (L1 and L2) and costs its
share. The order and the groups are computed from those noisy numbers alone, ties by position. Given the
groups, which do not overlap, one record changes one group's sum, by 1: the sums cost the rest.

What differs from the paper, and why:

- One draw for each **group**. As printed, line 10 draws the group's mean for every cell anew: that spends ε2
  as many times as the group has cells.
- After a group is closed the scan goes on from the cell after the next group's first (the printed index
  starts again one cell late).
- Noise is added to the group's sum, in integers, and divided by the group's size afterwards.
- ``grouping="expected"``, the default, groups by each cell's expected count given its noisy one (see
  ``tabularium.mechanisms.kernels.prevalence``) instead of the noisy count itself, of which the largest and
  smallest are mostly noise; large counts, where the odds are coarser than the noise of a cell on its own,
  stay noisy. ``"noisy"`` is the paper's, with counts below zero taken for zero.
- ``nonnegative``: a mean below zero is released as zero.

Cost: O(n log n) for the sort, O(n) for the groups.

Source: Chen, Zhou, Qiu, Xu, Zeng, Fang, Chen, Huang, Xu, Chen 2024, Algorithms 1 and 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from math import pi, sinh, sqrt
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.accounting.transcript import Definition, Event
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.histograms.noisy_sums import addable
from tabularium.mechanisms.histograms.parameter_checks import one_of, share_of_budget, switch
from tabularium.mechanisms.kernels.compiled import compiled
from tabularium.mechanisms.kernels.prevalence import odds, relative_errors
from tabularium.mechanisms.linear_measurements.linear_measurement import (
    LinearMeasurement,
    NoisyCells,
    draws,
    noisy_counts,
)
from tabularium.mechanisms.linear_measurements.noisy_tree import NoisyTree
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise_distributions import noise_in

_COARSE = 4 * 64  # what a count is to a quarter of the distance between points of the odds
DELTA = 1
"""The paper's δ: smaller counts are replaced by it in denominators."""


@dataclass(frozen=True)
class SrebGca(Mechanism):
    """Sort by noisy count, group greedily by mean relative error, release one noisy mean per group.

    Parameters
    ----------
    share
        Share of the budget for the noisy counts that decide order and groups (the paper's ε1/ε); an exact
        text such as ``"9/10"``.
    grouping
        ``"expected"``: by expected counts given the noisy ones. ``"noisy"``: by the noisy counts themselves.
    nonnegative
        Release zero where a group's mean is below zero.
    """

    share: Fraction = Fraction(9, 10)
    grouping: str = "expected"
    nonnegative: bool = True

    name: ClassVar[str] = "sreb_gca"

    def __post_init__(self) -> None:
        object.__setattr__(self, "share", share_of_budget(self.share, "share"))
        one_of(self.grouping, ("expected", "noisy"), "grouping")
        switch(self.nonnegative, "nonnegative")

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Measure every cell, group the cells by what came out, and measure the groups' sums."""
        rest = channel.remaining * (1 - self.share)
        noisy = channel.add_noise(counts, channel.remaining - rest, purpose="order")
        order = _order(noisy)
        starts = self._starts(noisy.reshape(-1)[order], channel.transcript[-1], rest)
        sums = np.add.reduceat(addable(counts).reshape(-1)[order], starts)
        return {"cells": noisy, "starts": starts, "sums": channel.add_noise(sums, rest, purpose="groups")}, {}

    def finish(self, measured: Measured) -> Release:
        """Return each group's mean for each of its cells, float64, in the shape of the counts."""
        noisy, starts, sums = (measured.arrays[key] for key in ("cells", "starts", "sums"))
        order = _order(noisy)
        sizes = np.diff(np.append(starts, order.size))
        means = sums / sizes
        if self.nonnegative:
            means = np.maximum(means, 0.0)
        ranked = np.repeat(means, sizes)
        values = np.empty(order.size)
        values[order] = ranked
        return measured.release(
            values.reshape(noisy.shape),
            groups=int(starts.size),
            largest_group=int(sizes.max()),
            relative_error=_relative_error(noisy.reshape(-1)[order], ranked, measured.transcript[-2]),
        )

    def noisy_cells(self, measured: Measured) -> NoisyCells | None:
        """Return the noisy counts that decide order and groups."""
        return noisy_counts(measured, "order")

    def linear_measurements(self, measured: Measured) -> LinearMeasurement | None:
        """Return the groups' noisy sums, which were chosen by the noisy counts of all cells."""
        noisy, starts, sums = (measured.arrays[key] for key in ("cells", "starts", "sums"))
        of = np.empty(noisy.size, np.intp)
        of[_order(noisy)] = np.repeat(np.arange(starts.size), np.diff(starts, append=noisy.size))
        noise = noise_in(draws(measured, "groups")[0])
        return NoisyTree.flat(of, sums, noise, chosen_by=self.noisy_cells(measured))

    def _starts(self, ascending: Counts, event: Event, rest: Fraction) -> NDArray[np.int64]:
        """Return where the groups begin, from released numbers only."""

        noise = _mean_deviation(event.definition, rest)
        by = np.maximum(ascending, 0).astype(np.float64)
        if self.grouping == "expected":
            by = _expected(ascending, event, noise)
        return group_starts(by, noise, float(DELTA))


def _expected(ascending: Counts, event: Event, noise: float) -> NDArray[np.float64]:
    """Return each cell's expected count given its noisy one, ascending, shape (n,).

    Those are known on points that lie a 64th of themselves apart: cells of one point would be one group, a
    quarter of that distance off on average. Where that is more than ``noise``, the mean absolute noise of a
    cell on its own, noisy counts stay as they are.
    """
    found = np.maximum(ascending, 0).astype(np.float64)
    near = int(np.searchsorted(ascending, _COARSE * noise))
    found[:near] = odds(ascending, noise_in(event)).expected()[:near]
    return np.maximum.accumulate(found)


def _order(noisy: Array) -> NDArray[np.intp]:
    """Return the flat positions in ascending order of noisy count; ties by position, which is public."""
    return np.argsort(noisy.reshape(-1), kind="stable")


def _mean_deviation(definition: Definition, budget: Fraction) -> float:
    """Return E|Z| of the noise that the budget buys at sensitivity 1: 1/sinh ε, or σ·√(2/π).

    The paper has 1/ε, which is what continuous noise would have. A huge ε has none.
    """
    if definition == "pure":
        return 1 / sinh(min(float(budget), 700.0))
    return sqrt(2 / pi) / sqrt(2 * float(budget))


def _relative_error(ascending: Counts, released: NDArray[np.float64], event: Event) -> dict[str, Any]:
    """Return an estimate of the mean relative error |x - released|/max(x, 1), in all and by true count.

    The true counts are unknown; their odds come from the noisy counts of the first measurement. Counts that
    the noise cannot tell from zero are taken for zero, which makes the estimate too high rather than too low.
    """
    found = odds(ascending, noise_in(event))
    cells, errors = relative_errors(found, released)
    bounds = [0, 1]
    while bounds[-1] <= found.points[-1]:
        bounds.append(10 * bounds[-1])
    firsts = np.searchsorted(found.points, bounds)
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


# JOINED greedy_groups.py
# Greedy groups of ascending counts by mean relative error: the loop of SReB_GCA.
#
# Source: Chen et al. 2024, Definition 5 and Algorithm 2 (GGS), with the two slips mended that
# ``tabularium.mechanisms.histograms.sreb_gca`` names.


@compiled
def group_starts(ascending: NDArray[np.float64], noise: float, least: float) -> NDArray[np.int64]:
    """Return where the groups of a greedy scan begin.

    A group C with mean μ has the expected relative error Σ (|h - μ| + noise/|C|)/max(h, least). The next
    count h joins it when its error with h is below its error without h plus the least that h could cost in
    a group of its own, noise/((counts left)·max(h, least)); otherwise h opens the next group.

    Cost: O(n) altogether. The counts ascend, so the mean of a growing group never falls, and the place where
    it splits the group only moves to the right: each count passes it once. Sums start anew with every group,
    which keeps them as small as the group and cancellation out of them.

    Parameters
    ----------
    ascending
        Shape (n,), n >= 1, ascending.
    noise
        Expected absolute noise of a group's sum.
    least
        What takes the place of smaller counts in denominators; positive.

    Returns
    -------
    int64, shape (groups,): the position of each group's first count, from 0.
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
