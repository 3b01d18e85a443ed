"""Bounded sums: every number of an array plus discrete noise, where a record adds more than one to a cell.

The array of a measure has one number, or several, for each cell of a table. What one record changes: the
numbers of one cell, by at most Δ = ``largest`` in L1 and hence in L2 (the array of a sum by |x| <= Δ; that of
a mean by x - from and to - x, which are not negative and add to Δ; that of a histogram by 1, times the
record's weight). So one draw of scale Δ/ε per number is ε-differentially private, and one of σ² = Δ²/2ρ is
ρ-zCDP: Dwork, McSherry, Nissim, Smith 2006, Proposition 1; Canonne, Kamath, Steinke 2020, Theorem 4. A value
that is clamped and put on the grid by itself moves no other record's.

An array of several levels holds each record once on every level: what it changes is then L times as much in
L1, and √L times in L2, since the changes of different levels are of different numbers.
Bounds that differ by group, Δ_g for the cells of group g: a record is in one cell, and changes numbers of one
group only, by at most Δ_g. The numbers of each group are drawn with its own Δ_g for the whole budget, in
parallel over disjoint cells (McSherry 2009, Theorem 4): whatever the group of a record, the other draws are
the same with it and without it, and its own costs the budget. Replacing a record is removing and adding one.
Cost: O(n) time; any number of dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from tabularium.mechanisms.accounting.losses import root_above
from tabularium.mechanisms.arrays import LARGEST_VALUE
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.parameter_checks import whole_number
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise_distributions import variance_of

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
    by_group
        Δ of the cells at each place along ``axis``, none above ``largest``; None for the same everywhere.
    axis
        The axis of the array along which Δ differs.
    """

    largest: int = 1
    levels: int = 1
    by_group: Sequence[int] | None = None
    axis: int = 0
    name: ClassVar[str] = "bounded_sums"
    noisy_cells_purpose: ClassVar = "cells"

    def __post_init__(self) -> None:
        if type(self.largest) is not int or self.largest < 1:
            raise MechanismError(
                "the largest change by one record must be a whole number above zero",
                where="largest",
                hint="write the larger of |from| and |to| in steps",
            )
        whole_number(self.levels, 1, MOST_LEVELS, "levels")

        if self.by_group is not None:
            object.__setattr__(self, "by_group", list(self.by_group))
            if not self.by_group or not all(
                type(item) is int and 1 <= item <= self.largest for item in self.by_group
            ):
                raise MechanismError(
                    "the largest changes by group must be whole numbers from 1 to the largest of all",
                    where="by_group",
                    hint="write one for each place along the axis",
                )
        if type(self.axis) is not int or self.axis < 0:
            raise MechanismError("the axis must be a whole number from 0", where="axis", hint="count from 0")

    def validated(self, counts: ArrayLike) -> Counts:
        """Return the sums, which may be negative; to cut them off at ±2^61 brings no two further apart."""
        array = np.asarray(counts)
        if array.size == 0 or array.dtype.kind not in "iu":
            raise MechanismError("sums must be an array of integers, and not empty", where=self.name)
        cut = np.clip(array, -LARGEST_VALUE, LARGEST_VALUE)
        if self.by_group is not None and array.shape[self.axis : self.axis + 1] != (len(self.by_group),):
            raise MechanismError(
                f"there are {len(self.by_group)} groups, and not as many places along axis {self.axis}",
                where=self.name,
                hint="give the largest change of every group",
            )
        return np.ascontiguousarray(cut, dtype=np.int64).reshape(array.shape)

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Add noise to each number, for the whole budget."""
        if self.by_group is None:
            return {"cells": _drawn(counts, channel, self.largest, self.levels)}, {}
        noisy, places = np.empty_like(counts), np.arange(counts.size).reshape(counts.shape)
        with channel.parallel(channel.remaining, cells=counts.size, purpose="groups") as scope:
            for group, largest in enumerate(self.by_group):
                own = self._cells(group)
                branch = scope.branch(places[own].reshape(-1), f"group {group}")
                noisy[own] = _drawn(counts[own], branch, largest, self.levels)
        return {"cells": noisy}, {}

    def _cells(self, group: int) -> tuple[slice, ...]:
        """Return where the cells of a group stand."""
        return (*(slice(None) for _ in range(self.axis)), slice(group, group + 1))

    def finish(self, measured: Measured) -> Release:
        """Return the noisy numbers, int64, in the shape of the sums."""
        values, events = measured.arrays["cells"], measured.transcript
        if self.by_group is None:
            return measured.release(values, variance_of(events[0]), scale=float(events[0].scale))
        variances = np.empty(values.shape)
        for group, event in enumerate(events):
            variances[self._cells(group)] = variance_of(event)
        return measured.release(values, variances, scale=max(float(event.scale) for event in events))


def _drawn(counts: Counts, channel: Channel, largest: int, levels: int) -> Array:
    pure = channel.definition == "pure"
    draw = channel.laplace if pure else channel.gaussian
    change = Fraction(largest * levels) if pure else root_above(largest**2 * levels)
    return draw(counts, channel.remaining, sensitivity=change, purpose="cells")
