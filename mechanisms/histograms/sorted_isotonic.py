"""Sorted counts plus noise, made monotone again: an anonymized histogram over a known number of items.

What one record changes: one count, by 1. Sorting keeps that: if x <= x' cell by cell, then the j-th smallest
of x is at most the j-th smallest of x', and the sums differ by 1; so the sorted vectors differ by 1 in one
place. One draw of discrete Laplace noise of scale 1/ε on the sorted counts is ε-differentially private, one
of discrete Gaussian noise, σ² = 1/2ρ, is ρ-zCDP. Isotonic regression and rounding see noisy counts only.

The number of items is public: items of count 0 are in the list, and their number is not protected. Where it
is private too, take ``privhist``.

Cost: O(n log n) for the sort, O(n) for the rest.

Source: Hay, Li, Miklau, Jensen 2009; Hay, Rastogi, Miklau, Suciu 2010, section 3 (unattributed histograms;
"BoostMM" where it is compared).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.histograms.parameter_checks import switch
from tabularium.mechanisms.inference.isotonic import isotonic, whole
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism


@dataclass(frozen=True)
class SortedIsotonic(Mechanism):
    """Sorted counts with noise, made monotone again, without saying which cell has which.

    Parameters
    ----------
    rounded
        Release whole counts, none below zero, as Hay et al. do. ``false``: the regression as it is.
    """

    rounded: bool = True

    name: ClassVar[str] = "sorted_isotonic"
    attributed: ClassVar[bool] = False

    def __post_init__(self) -> None:
        switch(self.rounded, "rounded")

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Add noise to the sorted counts, for the whole budget."""
        ascending = np.sort(counts.reshape(-1)).reshape(counts.shape)
        return {"sorted": channel.add_noise(ascending, channel.remaining, purpose="sorted counts")}, {}

    def finish(self, measured: Measured) -> Release:
        """Return the counts in ascending order, row by row, in the shape of the counts.

        int64 if ``rounded``, else float64. Their errors depend on the data.
        """
        noisy = measured.arrays["sorted"]
        fitted = isotonic(noisy.reshape(-1))
        values = whole(fitted) if self.rounded else fitted
        return measured.release(
            values.reshape(noisy.shape),
            scale=float(measured.transcript[0].scale),
            levels=int(np.unique(fitted).size),
        )
