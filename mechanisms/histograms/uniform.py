"""Uniform: one noisy total, spread evenly over the cells.

What one record changes: the total, by 1. One draw of scale 1/ε (σ² = 1/2ρ under zCDP) is therefore the whole
mechanism; the division by the number of cells, which is public, is post-processing.

It is the yardstick of every comparison: a mechanism that does no better has learnt nothing from its budget
but how many records there are.

Cost: O(n). Source: Dwork, McSherry, Nissim, Smith 2006; "Uniform" of Hay et al. 2016 (DPBench).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.histograms.noisy_sums import addable, variance_for
from tabularium.mechanisms.linear_measurements.linear_measurement import LinearMeasurement
from tabularium.mechanisms.linear_measurements.noisy_tree import NoisyTree
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise_distributions import noise_in, variance_of


@dataclass(frozen=True)
class Uniform(Mechanism):
    """One noisy total, spread evenly over the cells."""

    name: ClassVar[str] = "uniform"

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Measure the total with the whole budget."""
        total = channel.add_noise(addable(counts).sum(keepdims=True), channel.remaining, purpose="total")
        return {"total": total.reshape(1)}, {"shape": list(counts.shape)}

    def finish(self, measured: Measured) -> Release:
        """Return the same number in every cell: float64, in the shape of the counts.

        ``variances`` is None: the noise is known, but not how far a cell lies from the mean of all.
        """
        shape = tuple(measured.meta["shape"])
        cells, variance = prod(shape), variance_of(measured.transcript[0])
        return measured.release(
            np.full(shape, measured.arrays["total"][0] / cells),
            noise_of_total=variance**0.5,
            noise_per_cell=variance**0.5 / cells,
        )

    def linear_measurements(self, measured: Measured) -> LinearMeasurement | None:
        """Return the noisy total."""
        every = np.zeros(prod(measured.meta["shape"]), np.intp)
        return NoisyTree.flat(every, measured.arrays["total"], noise_in(measured.transcript[0]))

    def query_variance(self, weights: ArrayLike, budget: Fraction, definition: Definition = "pure") -> float:
        """Return the noise variance of Σ weights·values; what the even spread gets wrong is not in it.

        ``weights``: One number per cell, in the shape of the counts. ``budget``: ε, or ρ under zCDP.
        """
        mean = float(np.mean(np.asarray(weights, dtype=np.float64)))
        return mean**2 * variance_for(budget, definition)
