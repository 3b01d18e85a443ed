"""Bounded sums: every number of an array plus discrete noise, where a record adds more than one to a cell.

The array of a measure has one number, or several, for each cell of a table. What one record changes: the
numbers of one cell, by at most Δ = ``largest`` in L1 and hence in L2 (the array of a sum by |x| <= Δ; that of
a mean by x - from and to - x, which are not negative and add to Δ; that of a histogram by 1, times the
record's weight). So one draw of scale Δ/ε per number is ε-differentially private, and one of σ² = Δ²/2ρ is
ρ-zCDP: Dwork, McSherry, Nissim, Smith 2006, Proposition 1; Canonne, Kamath, Steinke 2020, Theorem 4. A value
that is clamped and put on the grid by itself alone moves no other record's.

An array of several levels holds each record once on every level: what it changes is then L times as much in
L1, and √L times in L2, since the changes of different levels are of different numbers.
Cost: O(n) time; any number of dimensions.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from mechanisms.accounting.exact_roots import root_above
from mechanisms.channel import Channel
from mechanisms.errors import MechanismError
from mechanisms.histograms.parameter_checks import whole_number
from mechanisms.measured import Array, Measured, Release
from mechanisms.mechanism import Counts, Mechanism
from mechanisms.noise_distributions import variance_of

LARGEST_SUM = 1 << 61  # what the channel takes
MOST_LEVELS = 64


@dataclass(frozen=True)
class BoundedSums(Mechanism):
    """Discrete noise for the largest change by one record: Laplace under pure, Gaussian under zcdp.

    Parameters
    ----------
    largest
        Δ: the most by which one record changes a level of the array, in L1 and L2; whole steps.
    levels
        L: how many levels there are.
    """

    largest: int = 1
    levels: int = 1
    name: ClassVar[str] = "bounded_sums"

    def __post_init__(self) -> None:
        if type(self.largest) is not int or self.largest < 1:
            raise MechanismError(
                "the largest change by one record must be a whole number above zero",
                where="largest",
                mend="write the larger of |from| and |to| in steps",
            )
        whole_number(self.levels, 1, MOST_LEVELS, "levels")

    def bounded(self, counts: ArrayLike) -> Counts:
        """Return the sums, which may be negative; to cut them off at ±2^61 brings no two further apart."""
        array = np.asarray(counts)
        if array.size == 0 or array.dtype.kind not in "iu":
            raise MechanismError("sums must be an array of integers, and not empty", where=self.name)
        cut = np.clip(array, -LARGEST_SUM, LARGEST_SUM)
        return np.ascontiguousarray(cut, dtype=np.int64).reshape(array.shape)

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Add noise to each number, for the whole budget."""
        pure = channel.definition == "pure"
        draw = channel.laplace if pure else channel.gaussian
        change = Fraction(self.largest * self.levels) if pure else root_above(self.largest**2 * self.levels)
        return {"cells": draw(counts, channel.remaining, sensitivity=change, purpose="cells")}, {}

    def finish(self, measured: Measured) -> Release:
        """Return the noisy numbers, int64, in the shape of the sums."""
        event = measured.transcript[0]
        return measured.release(measured.arrays["cells"], variance_of(event), scale=float(event.scale))
