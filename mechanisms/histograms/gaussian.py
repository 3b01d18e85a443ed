"""Gaussian: every cell plus discrete Gaussian noise, under zero-concentrated differential privacy.

What one record changes: one cell, by 1. Hence the L2 sensitivity of the whole table is 1, and one draw of
σ² = 1/2ρ per cell is ρ-zCDP (Canonne, Kamath, Steinke 2020, Theorem 4).
Cost: O(n) time; any number of dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.linear_measurements.linear_measurement import NoisyCells, noisy_counts
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise_distributions import gaussian_variance


@dataclass(frozen=True)
class Gaussian(Mechanism):
    """Discrete Gaussian noise on every cell. No parameters."""

    name: ClassVar[str] = "gaussian"
    definitions: ClassVar = ("zcdp",)
    releases_noisy_cells: ClassVar = True

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Add noise of σ² = 1/2ρ to each cell, for the whole budget."""
        return {"cells": channel.gaussian(counts, channel.remaining, purpose="cells")}, {}

    def finish(self, measured: Measured) -> Release:
        """Return the noisy cells, int64, in the shape of the counts."""
        parameter = float(measured.transcript[0].scale_squared)
        return measured.release(
            measured.arrays["cells"],
            gaussian_variance(parameter),
            scale=parameter**0.5,
        )

    def noisy_cells(self, measured: Measured) -> NoisyCells | None:
        """Return the noisy counts of all cells."""
        return noisy_counts(measured)
