"""Identity: every cell plus discrete Laplace noise.

What one record changes: one cell, by 1. Hence the L1 sensitivity of the whole table is 1, and one draw of
scale 1/ε per cell is ε-differentially private: parallel composition over disjoint cells.
Cost: O(n) time; any number of dimensions.

Source: Dwork, McSherry, Nissim, Smith 2006; Xiao, Xiong, Yuan 2010, Algorithm 1 ("cells"); integer noise
after Ghosh, Roughgarden, Sundararajan 2009.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Any, ClassVar

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.histograms.error_bounds import laplace_accuracy
from tabularium.mechanisms.linear_measurements.linear_measurement import NoisyCells, noisy_counts
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise_distributions import laplace_variance


@dataclass(frozen=True)
class Identity(Mechanism):
    """Discrete Laplace noise on every cell. No parameters."""

    name: ClassVar[str] = "identity"
    definitions: ClassVar = ("pure",)
    releases_noisy_cells: ClassVar = True

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Add noise of scale 1/ε to each cell, for the whole budget."""
        return {"cells": channel.laplace(counts, channel.remaining, purpose="cells")}, {}

    def finish(self, measured: Measured) -> Release:
        """Return the noisy cells, int64, in the shape of the counts."""
        scale = float(measured.transcript[0].scale)
        return measured.release(
            measured.arrays["cells"],
            laplace_variance(scale),
            scale=scale,
        )

    def noisy_cells(self, measured: Measured) -> NoisyCells | None:
        """Return the noisy counts of all cells."""
        return noisy_counts(measured)

    def accuracy(self, shape: tuple[int, ...], epsilon: Fraction, delta: float = 0.05) -> dict[str, float]:
        """Return error bounds that hold with probability 1 - δ; see ``accuracy.laplace_accuracy``."""
        return laplace_accuracy(epsilon, prod(shape), delta)
