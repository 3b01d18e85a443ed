"""Privelet: noise on the Haar wavelet coefficients of a table, so that sums over boxes need little of it.

Along each axis the table is replaced by its total and by the differences of halves, of halves of halves and
so on (``tabularium.mechanisms.histograms.privelet.haar_sums``). Every range is a combination of few of these,
whatever its length.

What one record changes, and why the loss is at most ε: along an axis of n cells one cell is in the total and
in at most ⌈log2 n⌉ differences, each of which moves by 1. In d dimensions the coefficients that hold a cell
are all combinations of those along the axes: one record changes at most m = Π(1 + ⌈log2 n_i⌉) coefficients,
each by 1. So the L1 sensitivity is m and the L2 sensitivity √m, and noise of scale m/ε (σ² = m/2ρ) on every
coefficient is all that is drawn. The paper's weighted noise is the same thing: there a coefficient is the
difference divided by the number of cells below it, which is its weight W, and gets noise of scale m/(ε·W);
its generalised sensitivity is m for one record more or less (2m for one changed). Multiplied by W all is in
whole numbers.

What differs from the paper: whole numbers, hence exact noise, with no floating point before it; any length
of an axis without padding (a last one without a partner goes up as it is); the exact variance of every cell
and of every box; Gaussian noise under zCDP. Transforms along the hierarchy of a categorical attribute are
left out; an axis whose categories have no order is better not transformed at all (``axes``).

With d axes transformed the noise grows with m², so short axes are better left alone: the paper's Privelet+.
``axes="chosen"`` decides that for each axis by the mean variance of a range, from the lengths alone.

Cost: O(n) for each axis.

Source: Xiao, Wang, Gehrke 2010, "Differential privacy via wavelet transforms" (ICDE; TKDE 2011), sections IV
to VI.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.noisy_sums import addable, some_ranges, variance_for
from tabularium.mechanisms.histograms.parameter_checks import one_of, whole_number
from tabularium.mechanisms.histograms.privelet.haar_sums import (
    cell_energies,
    cells_from,
    depth,
    factors,
    range_energies,
    sums_and_differences,
)
from tabularium.mechanisms.linear_measurements.linear_measurement import LinearMeasurement
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise_distributions import noise_in, variance_of

MOST_AXES = 64


@dataclass(frozen=True)
class Privelet(Mechanism):
    """Noisy Haar wavelet coefficients: for sums over ranges and boxes.

    Parameters
    ----------
    axes
        Which axes are transformed: ``"all"``; ``"chosen"``, those that are long enough to gain from it; or a
        list of their numbers, from 0. Along the others every layer gets its own noise.
    """

    axes: str | Sequence[int] = "all"

    name: ClassVar[str] = "privelet"

    def __post_init__(self) -> None:
        if isinstance(self.axes, str):
            one_of(self.axes, ("all", "chosen"), "axes")
            return
        if not isinstance(self.axes, list | tuple):
            raise MechanismError(
                f"these are not axes, but {type(self.axes).__name__}",
                where="axes",
                mend="use all, chosen, or a list of numbers such as [0, 2]",
            )
        numbers = tuple(sorted({whole_number(axis, 0, MOST_AXES - 1, "axes") for axis in self.axes}))
        object.__setattr__(self, "axes", numbers)

    def draw(self, counts: Counts, channel: Channel) -> tuple[dict[str, Array], dict[str, Any]]:
        """Measure all coefficients with the whole budget."""
        axes = self.axes_for(counts.shape, channel.definition)
        coefficients = reduce(sums_and_differences, axes, addable(counts))
        changed = touched(counts.shape, axes)
        noisy = channel.add_noise(coefficients, channel.remaining, touched=changed, purpose="coefficients")
        return {"coefficients": noisy}, {"axes": list(axes)}

    def finish(self, measured: Measured) -> Release:
        """Return the cells that the noisy coefficients belong to, float64, with their variances."""
        noisy, axes = measured.arrays["coefficients"], measured.meta["axes"]
        variance = variance_of(measured.transcript[0])
        return measured.release(
            np.ascontiguousarray(reduce(cells_from, axes, noisy.astype(np.float64))),
            variance * _over_cells(noisy.shape, axes),
            axes=axes,
            touched=touched(noisy.shape, axes),
            noise_of_a_coefficient=variance**0.5,
        )

    def linear_measurements(self, measured: Measured) -> LinearMeasurement | None:
        """Return the noisy coefficients."""
        from tabularium.mechanisms.histograms.privelet.noisy_wavelets import NoisyWavelets

        noise = noise_in(measured.transcript[0])
        return NoisyWavelets(measured.arrays["coefficients"], (noise,), axes=tuple(measured.meta["axes"]))

    def axes_for(self, shape: tuple[int, ...], definition: Definition = "pure") -> tuple[int, ...]:
        """Return the numbers of the axes that are transformed in a table of this shape.

        Raises
        ------
        MechanismError
            An axis was asked for that the table does not have.
        """
        if self.axes == "all":
            return tuple(range(len(shape)))
        if self.axes == "chosen":
            return tuple(axis for axis, cells in enumerate(shape) if _gains(cells, definition))
        numbers = tuple(int(axis) for axis in self.axes)
        if numbers and numbers[-1] >= len(shape):
            raise MechanismError(
                "the table has fewer axes than are to be transformed",
                where="axes",
                mend="count the dimensions from 0",
            )
        return numbers

    def box_variance(
        self,
        shape: tuple[int, ...],
        starts: ArrayLike,
        stops: ArrayLike,
        budget: Fraction,
        definition: Definition = "pure",
    ) -> NDArray[np.float64]:
        """Return the exact variance of the sum over each box of cells, in O(log n) a box.

        Parameters
        ----------
        shape
            Of the table, d numbers.
        starts, stops
            Whole numbers of shape (queries, d): along each axis the cells start to stop - 1.
        budget
            ε, or ρ under zCDP.
        """
        first = np.asarray(starts, dtype=np.int64).reshape(-1, len(shape))
        end = np.asarray(stops, dtype=np.int64).reshape(-1, len(shape))
        if not bool(((first >= 0) & (first < end) & (end <= np.array(shape, dtype=np.int64))).all()):
            raise MechanismError(
                "a box is empty or beyond the table", where=self.name, mend="give 0 <= start < stop <= length"
            )
        axes = self.axes_for(shape, definition)
        variance = np.full(len(first), self._noise(shape, axes, budget, definition))
        for axis, cells in enumerate(shape):
            low, high = first[:, axis], end[:, axis]
            variance *= range_energies(cells, low, high) if axis in axes else high - low
        return variance

    def query_variance(self, weights: ArrayLike, budget: Fraction, definition: Definition = "pure") -> float:
        """Return the exact variance of Σ weights·values; weights in the shape of the counts. O(n) an axis."""
        table = np.asarray(weights, dtype=np.float64)
        axes = self.axes_for(table.shape, definition)
        energy = float(np.square(reduce(factors, axes, table)).sum())
        return energy * self._noise(table.shape, axes, budget, definition)

    def _noise(
        self, shape: tuple[int, ...], axes: Sequence[int], budget: Fraction, definition: Definition
    ) -> float:
        return variance_for(budget, definition, touched=touched(shape, axes))


def touched(shape: tuple[int, ...], axes: Sequence[int]) -> int:
    """Return how many coefficients hold one cell, at most."""
    return prod(1 + depth(shape[axis]) for axis in axes)


def _gains(cells: int, definition: Definition) -> bool:
    """Say whether the mean variance of a range is smaller with the transform along an axis than without."""
    starts, stops = some_ranges(cells)
    noise = (1 + depth(cells)) ** (2 if definition == "pure" else 1)
    return bool(noise * range_energies(cells, starts, stops).mean() < (stops - starts).mean())


def _over_cells(shape: tuple[int, ...], axes: Sequence[int]) -> NDArray[np.float64]:
    """Return the energy of every cell as a query, in the shape of the table."""
    energies = np.ones(shape)
    for axis in axes:
        along = [1] * len(shape)
        along[axis] = shape[axis]
        energies *= cell_energies(shape[axis]).reshape(along)
    return energies
