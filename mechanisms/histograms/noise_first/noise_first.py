"""NoiseFirst: noise on every cell, then neighbouring cells are merged into bins.

What one record changes: one cell, by 1. The only look at the counts is one draw of discrete Laplace noise of
scale 1/ε per cell, as in ``identity``: ε-differentially private by parallel composition over disjoint cells.
Under zCDP it is one draw of discrete Gaussian noise, σ² = 1/2ρ, as in ``gaussian``. All that follows sees the
noisy counts only: post-processing, which costs nothing.

What differs from the paper: the number of bins is found exactly in near-linear time, where its search takes
O(n³) time and O(n²) memory; the price of a bin (``improvement``); Gaussian noise; counts of several
dimensions, which are read row by row.
Cost: O(n log n) time and O(n) memory. With ``bins`` given that for each bin, and 4·n·bins bytes, which may be
512 MiB at most.

Source: Xu, Zhang, Xiao, Yang, Yu, Winslett 2013, sections 3, 5.1 and 6.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any, ClassVar, Literal

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.histograms.noise_first.merging import Improved, Merging, merge
from tabularium.mechanisms.histograms.noise_first.unbiased_risk import check_runs
from tabularium.mechanisms.linear_measurements.linear_measurement import NoisyCells, noisy_counts
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise_distributions import noise_in


@dataclass(frozen=True)
class NoiseFirst(Mechanism):
    """Noise on every cell, then the bins that balance noise against detail.

    Parameters
    ----------
    centre
        What stands for the cells of a bin: ``"mean"`` (least squared error) or ``"median"`` (least absolute).
    bins
        Number of bins k; by default the best number is found.
    penalty
        Price of a bin when their number is free: ``"selection"``, which grows like ln n, or ``"paper"``.
    range_rule
        Keep the noisy counts of a bin that cannot be expected to gain by merging.
    risk_runs
        Simulations for an unbiased estimate of the mean squared error, 0 for none; each takes as long as the
        merging. It costs no budget, but where hardly anything is left of the noise it is imprecise.

    Raises
    ------
    MechanismError
        A parameter that is none of these.
    """

    centre: Literal["mean", "median"] = "mean"
    bins: int | None = None
    penalty: Literal["selection", "paper"] = "selection"
    range_rule: bool = True
    risk_runs: int = 0

    name: ClassVar[str] = "noise_first"

    def __post_init__(self) -> None:
        self.merging()  # which checks the parameters
        check_runs(self.risk_runs)

    def merging(self) -> Merging:
        """Return the parameters as those of the merging step."""
        return Merging(centre=self.centre, bins=self.bins, penalty=self.penalty, range_rule=self.range_rule)

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Add noise to each cell, for the whole budget.

        Raises
        ------
        MechanismError
            More bins than the counts have cells, or than the search has memory for; nothing was drawn.
        """
        self.check_shape(counts.shape)
        return {"cells": channel.add_noise(counts, channel.remaining, purpose="cells")}, {}

    def noisy_cells(self, measured: Measured) -> NoisyCells | None:
        """Return the noisy counts of all cells."""
        return noisy_counts(measured)

    @property
    def draws_cells_alone(self) -> bool:
        """Yes: all that follows is made of the noisy cells."""
        return True

    def check_shape(self, shape: tuple[int, ...]) -> None:
        """Refuse more bins than there are cells, or memory."""
        self.merging().check(prod(shape))

    def finish(self, measured: Measured) -> Release:
        """Return the merged counts, float64, in the shape of the counts; their errors depend on the data."""
        improved = self.improved(measured)
        return measured.release(
            improved.values,
            **improved.diagnostics,
        )

    def improved(self, measured: Measured) -> Improved:
        """Return the merged counts with their bins."""
        noise = noise_in(measured.transcript[0])
        return merge(measured.arrays["cells"], noise, self.merging(), risk_runs=self.risk_runs)
