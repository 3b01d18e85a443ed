"""AHP: cells of about the same size, wherever they lie, share one noisy mean.

A first part of the budget measures every cell. These noisy counts are cleared of what is likely to be noise
alone, sorted, and cut greedily into clusters that balance the squared error of a mean against the noise it
saves. The rest of the budget measures the sum of each cluster, and every cell of a cluster is released as the
cluster's mean.

What one record changes: one cell, by 1. So the first measurement has sensitivity 1 (L1 and L2) and costs its
share. The order, with ties by position, and the clusters are computed from those noisy numbers alone. Given
the clusters, which do not overlap, one record changes one cluster's sum, by 1: the sums cost the rest.

The same argument covers the published algorithm. Two things that its published code does are not private and
are not done here: the variant with adaptive parameters (AHP*) looks up share and threshold by the **true**
number of records; and noise is a floating-point number, whose last digits tell the count it was added to.

What differs from the paper, and why:

- ``grouping="expected"``, the default, sorts and clusters by each cell's expected count given its noisy one
  (see ``tabularium.mechanisms.kernels.prevalence``). A threshold clears small noisy counts of noise, but
  large ones are noisy too: the largest are mostly those with the largest noise. ``"threshold"`` is the
  paper's: noisy counts of at most η·ln(n)·s become zero, s being the noise scale (1/ε1; σ under zCDP).
- The search for the least error of a cluster yet to be opened tries lengths that grow by an eighth.
- v is the variance of the discrete noise; noise is added to a cluster's sum, in integers.
- ``nonnegative``: a mean below zero is released as zero.

Cost: O(n log n). Sums do not overflow: see ``tabularium.mechanisms.histograms.noisy_sums.addable``.

Source: Zhang, Chen, Xu, Meng, Xie 2014; the defaults of its parameters after Hay and others 2016 (DPBench).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import log
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.accounting.transcript import Event
from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.noisy_sums import addable, variance_for
from tabularium.mechanisms.histograms.parameter_checks import exact_number, one_of, share_of_budget, switch
from tabularium.mechanisms.kernels.compiled import compiled
from tabularium.mechanisms.kernels.prevalence import odds
from tabularium.mechanisms.linear_measurements.linear_measurement import (
    LinearMeasurement,
    NoisyCells,
    draws,
    noisy_counts,
)
from tabularium.mechanisms.linear_measurements.noisy_tree import NoisyTree
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise_distributions import Noise, noise_in


@dataclass(frozen=True)
class Ahp(Mechanism):
    """Sort by noisy count, cluster greedily by squared error, release one noisy mean per cluster.

    Parameters
    ----------
    share
        Share of the budget for the noisy counts that decide order and clusters; an exact text such as
        ``"17/20"``, the usual one with ``grouping="threshold"``.
    grouping
        ``"expected"``: by expected counts given the noisy ones. ``"threshold"``: by the noisy counts, those
        below the threshold taken for zero.
    threshold
        η of that threshold, an exact text from ``"0"`` to ``"10"``; of no use otherwise.
    nonnegative
        Release zero where a cluster's mean is below zero.
    """

    share: Fraction = Fraction(9, 10)
    grouping: str = "expected"
    threshold: Fraction = Fraction(7, 20)
    nonnegative: bool = True

    name: ClassVar[str] = "ahp"

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

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Measure every cell, cluster the cells by what came out, and measure the clusters' sums."""
        rest = channel.remaining * (1 - self.share)
        noisy = channel.add_noise(counts, channel.remaining - rest, purpose="order")
        order = _order(noisy)
        starts = self._starts(noisy.reshape(-1)[order], channel.transcript[-1], rest)
        sums = np.add.reduceat(addable(counts).reshape(-1)[order], starts)
        noisy_sums = channel.add_noise(sums, rest, purpose="clusters")
        return {"cells": noisy, "starts": starts, "sums": noisy_sums}, {}

    def finish(self, measured: Measured) -> Release:
        """Return each cluster's mean for each of its cells, float64, in the shape of the counts."""
        noisy, starts, sums = (measured.arrays[key] for key in ("cells", "starts", "sums"))
        sizes = np.diff(starts, append=noisy.size)
        means = sums / sizes
        if self.nonnegative:
            means = np.maximum(means, 0.0)
        values = np.empty(noisy.size)
        values[_order(noisy)] = np.repeat(means, sizes)
        return measured.release(
            values.reshape(noisy.shape),
            clusters=int(starts.size),
            largest_cluster=int(sizes.max()),
            single_cells=int((sizes == 1).sum()),
        )

    def noisy_cells(self, measured: Measured) -> NoisyCells | None:
        """Return the noisy counts that decide order and clusters."""
        return noisy_counts(measured, "order")

    def linear_measurements(self, measured: Measured) -> LinearMeasurement | None:
        """Return the clusters' noisy sums, which were chosen by the noisy counts of all cells."""
        noisy, starts, sums = (measured.arrays[key] for key in ("cells", "starts", "sums"))
        of = np.empty(noisy.size, np.intp)
        of[_order(noisy)] = np.repeat(np.arange(starts.size), np.diff(starts, append=noisy.size))
        noise = noise_in(draws(measured, "clusters")[0])
        return NoisyTree.flat(of, sums, noise, chosen_by=self.noisy_cells(measured))

    def _starts(self, ascending: Counts, event: Event, rest: Fraction) -> NDArray[np.int64]:
        """Return where the clusters begin, from released numbers only."""

        return cluster_starts(self._cleared(ascending, event), variance_for(rest, event.definition))

    def _cleared(self, ascending: Counts, event: Event) -> NDArray[np.float64]:
        """Return the noisy counts with less noise in them, ascending, shape (n,)."""
        if self.grouping == "expected":
            return _expected(ascending, noise_in(event))
        bound = float(self.threshold) * log(ascending.size) * float(event.scale)
        return np.where(ascending <= bound, 0.0, ascending.astype(np.float64))


def _expected(ascending: Counts, noise: Noise) -> NDArray[np.float64]:
    """Return each cell's expected count given its noisy one, ascending.

    The odds of counts are known on points that lie a 64th of themselves apart. Where that is more than a
    quarter of the noise scale, noisy counts say more, and stay as they are.
    """
    near = int(np.searchsorted(ascending, 16 * noise.scale))
    found = ascending.astype(np.float64)
    found[:near] = odds(ascending, noise).expected()[:near]
    return np.maximum.accumulate(found)


def _order(noisy: Array) -> NDArray[np.intp]:
    """Return the flat positions in ascending order of noisy count; ties by position, which is public."""
    return np.argsort(noisy.reshape(-1), kind="stable")


def _threshold(value: Any) -> Fraction:
    """Return η, from text or a fraction; zero is allowed."""
    hint = 'write a number from 0 to 10 as text, such as "7/20" or "0.35"'
    number = exact_number(value, "threshold", called="a threshold", hint=hint)
    if not 0 <= number <= 10:
        raise MechanismError("a threshold lies between 0 and 10", where="threshold", hint=hint)
    return number


# JOINED greedy_clusters.py
# Greedy clusters of ascending counts by squared error: the second loop of AHP.
#
# A cluster of m counts that is released as its noisy mean has the expected squared error
#
#     Σ(h - mean)² + v/m,
#
# v being the variance of the noise of its sum. A count h that does not join the cluster before it opens one of
# its own; there it costs at least the least, over the lengths m of that cluster, of
#
#     (h - mean of h and the m - 1 counts after it)² + v/m².
#
# It joins when the cluster's error with it is below the error without it plus that least.
#
# Source: Zhang, Chen, Xu, Meng, Xie 2014, section 4.2 (greedy clustering).


_EVERY = 3


@compiled
def cluster_starts(ascending: Floats, variance: float) -> NDArray[np.int64]:
    """Return where the clusters of a greedy scan begin.

    Parameters
    ----------
    ascending
        Shape (n,), n >= 1.
    variance
        v, of the noise of a cluster's sum.

    Returns
    -------
    int64, shape (clusters,): the position of each cluster's first count, from 0. O(n log n).
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
    """Return the least that the count at ``here`` costs in a cluster that begins with it.

    All lengths up to nine are tried, and from there on each an eighth longer than the one before, where the
    published code tries every one: with many equal counts that takes it O(n) for each of them. The first
    term only rises with the length; once it outweighs all that the second can still fall by, the search
    ends.
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
