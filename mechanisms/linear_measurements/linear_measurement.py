"""Linear measurements of a table: noisy values of sums of its cells, and least squares over them.

A mechanism names the linear measurements that it made (``Mechanism.linear_measurements``): weighted sums of
cells, with weights fixed before the noise was drawn, plus independent noise of a known distribution. Weighted
least squares gives any sum of cells that is a combination of them without bias, with its exact variance.

Where a mechanism chose by noisy sums what to measure next, the first noise is no longer independent of the
choice, so the two are not averaged: the later measurement names the earlier one as ``chosen_by``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod

import numpy as np

from tabularium.mechanisms.accounting.transcript import Event
from tabularium.mechanisms.arrays import Bools, Floats, Indices
from tabularium.mechanisms.measured import Array, Measured
from tabularium.mechanisms.noise_distributions import NOTHING, Noise, noise_in

SMALLEST_VARIANCE = 1e-60
"""Stands for that of noise which is always 0, so that weights by the inverse of variances stay finite."""
_PAIRS = 1 << 22


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over cells of a table that share no cell, laid out in rows and columns.

    ``of``: (cells,) the sum that each cell is a part of, row·columns + column; -1 where it is in none.
    """

    of: Indices
    rows: int
    columns: int = 1

    @property
    def number(self) -> int:
        """Rows times columns."""
        return self.rows * self.columns

    def within(self, cells: Indices) -> tuple[Sums, Indices]:
        """Return the sums over some of the cells, without rows that have none, and which rows stay."""
        of = self.of[cells]
        row, inside = of // self.columns, of >= 0
        kept = np.unique(row[inside])
        place = np.searchsorted(kept, row) * self.columns + of % self.columns
        return Sums(np.where(inside, place, -1), len(kept), self.columns), kept


@dataclass(frozen=True, eq=False)
class LinearMeasurement(ABC):
    """Noisy values of sums of a table's cells.

    Attributes
    ----------
    values, variances
        What was measured, and the variance of the noise of each value: one number where all are alike,
        infinite where something was not measured.
    noise
        The distributions that the noise was drawn from, all of one family.
    chosen_by
        The earlier measurement of the same cells by whose noise it was chosen what to measure here. None
        where that is public, or was chosen by a draw that measured no sums.
    """

    values: Array
    noise: tuple[Noise, ...]
    chosen_by: LinearMeasurement | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def variances(self) -> Floats | float:
        """See above."""

    @property
    @abstractmethod
    def cells(self) -> int:
        """Number of cells of the table, which are read row by row."""

    @abstractmethod
    def estimates(self) -> Floats:
        """Return (cells,) numbers whose sums are the least-squares estimates of all sums that are known."""

    @abstractmethod
    def known(self, sums: Sums) -> Bools:
        """Return (sums,) which sums are combinations of what was measured."""

    @abstractmethod
    def covariances(self, sums: Sums) -> Floats:
        """Return (rows, columns, columns) covariances of the estimates of known sums, row by row."""

    def single_cells(self) -> NoisyCells | None:
        """Return the noisy counts of all cells among the values, if they have noise of one distribution."""
        return None

    @property
    def least_variance(self) -> float:
        """The least variance of a value whose noise is not always 0; SMALLEST_VARIANCE if there is none.

        A whole number of noise more moves an estimate of variance V by √(V/this) at most: with the weights g,
        V = Σ g²·variance.
        """
        result = [variance for noise in self.noise if (variance := noise.variance) >= NOTHING]
        return min(result, default=SMALLEST_VARIANCE)

    def estimate(self, chosen: Bools) -> tuple[float, float]:
        """Return the estimate of the sum of chosen cells, and its variance; nan and infinite if unknown."""
        sums = Sums(np.where(chosen.reshape(-1), 0, -1), rows=1)
        if not self.known(sums)[0]:
            return np.nan, np.inf
        value = float(self.estimates()[chosen.reshape(-1)].sum())
        return value, float(self.covariances(sums)[0, 0, 0])

    def stages(self) -> Iterator[LinearMeasurement]:
        """Yield this measurement, the one that it was chosen by, and so on."""
        stage: LinearMeasurement | None = self
        while stage is not None:
            yield stage
            stage = stage.chosen_by


@dataclass(frozen=True, eq=False)
class NoisyCells(LinearMeasurement):
    """Every cell with noise of one distribution; ``values`` is the table."""

    array: str = field(default="cells", kw_only=True)
    """What the measurement calls it."""

    @property
    def variances(self) -> float:
        """Of the noise of a cell."""
        return variance_in(self.noise[0])

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(self.values.size)

    def single_cells(self) -> NoisyCells:
        """Return itself."""
        return self

    def estimates(self) -> Floats:
        """Return the cells as they were measured."""
        return np.asarray(self.values.reshape(-1), np.float64)

    def known(self, sums: Sums) -> Bools:
        """Return true: every sum is one of cells."""
        return np.ones(sums.number, bool)

    def covariances(self, sums: Sums) -> Floats:
        """Return as many times the variance as each sum has cells; different sums have no noise in common."""
        number = np.bincount(sums.of[sums.of >= 0], minlength=sums.number)
        variances = number.reshape(sums.rows, sums.columns, 1) * self.variances
        return np.asarray(variances * np.eye(sums.columns))


def noisy_counts(measured: Measured, purpose: str = "cells") -> NoisyCells | None:
    """Return the array ``cells`` of a measurement as noisy counts, None where it is not drawn in one draw.

    ``purpose``: the last word of that of the draw. The numbers in the arrays are not looked at.
    """
    values = measured.arrays.get("cells")
    events = draws(measured, purpose)
    if values is None or len(events) != 1:
        return None
    event = events[0]
    plain = event.width == 1 and not event.branches and prod(event.shape) == values.size
    if not plain or event.primitive not in ("discrete_laplace", "discrete_gaussian"):
        return None
    return NoisyCells(values, (noise_in(event),))


def draws(measured: Measured, purpose: str) -> list[Event]:
    """Return the draws for a purpose, in whatever scopes they were made."""
    return [event for event in measured.transcript if event.purpose.rpartition("/")[2] == purpose]


def variance_in(noise: Noise) -> float:
    """Return the variance of noise, SMALLEST_VARIANCE where it is always 0."""
    return max(noise.variance, SMALLEST_VARIANCE)


def added_up(sums: Sums, keys: Indices, factors: Floats, variances: Floats) -> Floats:
    """Return (rows, columns, columns) Σ variance·factor·factor over errors that are independent.

    ``keys``: (entries,) error·sums + sum, ascending: which error is in which sum, by how much, ``factors``.
    """
    columns = sums.columns
    if columns == 1:
        result: Floats = np.bincount(keys % sums.rows, variances * factors**2, sums.rows).astype(np.float64)
        return result.reshape(-1, 1, 1)
    result = np.zeros(sums.rows * columns**2)
    opens = np.flatnonzero(np.diff(keys // columns, prepend=-1))  # the same error in the same row
    sizes = np.diff(opens, append=len(keys))
    first, number = np.repeat(opens, sizes), np.repeat(sizes, sizes)
    pairs = np.cumsum(number)
    cuts = np.searchsorted(pairs, np.arange(_PAIRS, pairs[-1] if len(pairs) else 0, _PAIRS))
    bounds = np.unique([0, *cuts, len(keys)])
    for begin, end in pairwise(bounds):
        here = np.arange(begin, end)
        left = np.repeat(here, number[here])
        step = np.arange(len(left)) - np.repeat(np.cumsum(number[here]) - number[here], number[here])
        right = first[left] + step
        row = keys[left] % sums.number // columns
        place = (row * columns + keys[left] % columns) * columns + keys[right] % columns
        result += np.bincount(place, variances[left] * factors[left] * factors[right], len(result))
    return result.reshape(sums.rows, columns, columns)


def coalesced(keys: Indices, factors: Floats) -> tuple[Indices, Floats]:
    """Return each key once, ascending, with the sum of its factors."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    opens = np.flatnonzero(np.diff(keys, prepend=-1))
    if not len(opens):
        return keys, factors
    return keys[opens], np.add.reduceat(factors[order], opens)
