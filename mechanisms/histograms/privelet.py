"""Privelet: noise on the Haar wavelet coefficients of a table, so that sums over boxes need little of it.

Sensitivity and privacy: along an axis of n cells one cell is in the total and in at most ⌈log2 n⌉
differences, and moves each by 1. In d dimensions one record changes at most m = Π(1 + ⌈log2 n_i⌉)
coefficients by 1 each: L1 sensitivity m, L2 sensitivity √m, and one draw of that noise is the mechanism. The
paper's weights say the same.

O(n) for each axis. Source: Xiao, Wang, Gehrke 2010, sections IV to VI; what differs:
docs/reference/mechanisms/privelet.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from math import prod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.arrays import Bools, Floats, Indices, Integers
from tabularium.mechanisms.channel import Channel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.noisy_sums import addable, some_ranges, variance_for
from tabularium.mechanisms.histograms.parameter_checks import one_of, whole_number
from tabularium.mechanisms.linear_measurements.linear_measurement import (
    LinearMeasurement,
    Sums,
    added_up,
    coalesced,
    variance_in,
)
from tabularium.mechanisms.measured import Array, Measured, Release
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tabularium.mechanisms.noise_distributions import noise_in, variance_of

MOST_AXES = 64


@dataclass(frozen=True)
class Privelet(Mechanism):
    """Noisy Haar wavelet coefficients, for sums over ranges and boxes.

    Parameters
    ----------
    axes
        Which axes are transformed. ``"all"``; ``"chosen"``, those long enough to gain from it (about 500
        cells under ``pure``, 6 under ``zcdp``; the paper's Privelet+); or a list of their numbers, from 0.
        Along the others every layer gets noise of its own.
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
                hint="use all, chosen, or a list of numbers such as [0, 2]",
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
            np.asarray(reduce(cells_from, axes, noisy.astype(np.float64)), order="C"),
            np.asarray(variance * _over_cells(noisy.shape, axes)),
            axes=axes,
            touched=touched(noisy.shape, axes),
            noise_of_a_coefficient=variance**0.5,
        )

    def linear_measurements(self, measured: Measured) -> LinearMeasurement | None:
        """Return the noisy coefficients."""

        noise = noise_in(measured.transcript[0])
        return NoisyWavelets(measured.arrays["coefficients"], (noise,), axes=tuple(measured.meta["axes"]))

    def axes_for(self, shape: tuple[int, ...], definition: Definition = "pure") -> tuple[int, ...]:
        """Return the numbers of the axes that are transformed in a table of this shape."""
        if self.axes == "all":
            return tuple(range(len(shape)))
        if self.axes == "chosen":
            return tuple(axis for axis, cells in enumerate(shape) if _gains(cells, definition))
        numbers = tuple(int(axis) for axis in self.axes)
        if numbers and numbers[-1] >= len(shape):
            raise MechanismError(
                "the table has fewer axes than are to be transformed",
                where="axes",
                hint="count the dimensions from 0",
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
                "a box is empty or beyond the table", where=self.name, hint="give 0 <= start < stop <= length"
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


_ENTRIES = 1 << 23
"""Factors that are held at a time."""


@dataclass(frozen=True, eq=False)
class NoisyWavelets(LinearMeasurement):
    """Haar coefficients with noise; ``values`` is the table of them.

    ``axes``: Along which axes the table was transformed.
    """

    axes: tuple[int, ...] = field(kw_only=True)

    @property
    def variances(self) -> float:
        """Of the noise of a coefficient."""
        return variance_in(self.noise[0])

    @property
    def cells(self) -> int:
        """Number of cells."""
        return int(self.values.size)

    def estimates(self) -> Floats:
        """Return the cells that the coefficients belong to."""
        return reduce(cells_from, self.axes, self.values.astype(np.float64)).reshape(-1)

    def known(self, sums: Sums) -> Bools:
        """Return true: the coefficients give back every cell."""
        return np.ones(sums.number, bool)

    def covariances(self, sums: Sums) -> Floats:
        """Return the covariances of any sums."""
        result = np.zeros((sums.rows, sums.columns, sums.columns))
        inside = np.flatnonzero(sums.of >= 0)
        inside = inside[np.argsort(sums.of[inside], kind="stable")]
        rows = sums.of[inside] // sums.columns
        most = max(1, _ENTRIES // prod(1 + depth(self.values.shape[axis]) for axis in self.axes))
        begin = 0
        while begin < len(inside):  # whole rows at a time, one row at least
            end = int(np.searchsorted(rows, rows[min(begin + most, len(inside)) - 1], side="left"))
            end = end if end > begin else int(np.searchsorted(rows, rows[begin], side="right"))
            first, here = int(rows[begin]), int(rows[end - 1] - rows[begin]) + 1
            own = Sums(sums.of[inside[begin:end]] - first * sums.columns, here, sums.columns)
            keys, factors = inside[begin:end] * own.number + own.of, np.ones(end - begin)
            for axis in self.axes:
                keys, factors = self._along(axis, keys, factors, own.number)
            keys, factors = coalesced(keys, factors)
            noise = np.full(len(keys), self.variances)
            result[first : first + here] = added_up(own, keys, factors, noise)
            begin = end
        return result

    def _along(self, axis: int, keys: Indices, factors: Floats, number: int) -> tuple[Indices, Floats]:
        """Transform sparse factors, (place·number + sum) each, along an axis."""
        shape = self.values.shape
        step, size = prod(shape[axis + 1 :]) * number, shape[axis]
        done_keys, done = [], []
        while size > 1:
            pairs = size // 2
            place = keys // step % shape[axis]
            rest = keys - place * step
            unpaired = place == 2 * pairs  # goes up as it is
            half = np.where(unpaired, factors, factors / 2)
            side = np.where(place % 2, -half, half)[~unpaired]
            finer, own = coalesced(rest[~unpaired] + (size - pairs + place[~unpaired] // 2) * step, side)
            some = own != 0
            done_keys.append(finer[some])
            done.append(own[some])
            keys, factors = coalesced(rest + place // 2 * step, half)
            size -= pairs
        return np.concatenate([keys, *done_keys]), np.concatenate([factors, *done])


def depth(cells: int) -> int:
    """Return ⌈log2 cells⌉: in how many differences a cell lies at most."""
    return (cells - 1).bit_length()


def sums_and_differences(table: Integers, axis: int) -> Integers:
    """Return the coefficients along an axis: the total first, then the differences, coarse to fine."""
    result = np.moveaxis(table, axis, -1).copy()
    for size in _sizes(result.shape[-1])[::-1]:
        left, right = _pair_up(result, size)
        result[..., : size // 2] = left + right
        result[..., size - size // 2 : size] = left - right
    return np.moveaxis(result, -1, axis)


def factors(weights: Floats, axis: int) -> Floats:
    """Return the factors that a linear query gives the coefficients along an axis."""
    result = np.moveaxis(weights, axis, -1).copy()
    for size in _sizes(result.shape[-1])[::-1]:
        left, right = _pair_up(result, size)
        result[..., : size // 2] = (left + right) / 2
        result[..., size - size // 2 : size] = (left - right) / 2
    return np.moveaxis(result, -1, axis)


def cells_from(coefficients: Floats, axis: int) -> Floats:
    """Return what ``sums_and_differences`` was made from, up to rounding in the last place."""
    result = np.moveaxis(coefficients, axis, -1).copy()
    for size in _sizes(result.shape[-1]):
        pairs, kept = size // 2, size - size // 2
        sums, differences = result[..., :kept].copy(), result[..., kept:size].copy()
        result[..., 0 : 2 * pairs : 2] = (sums[..., :pairs] + differences) / 2
        result[..., 1 : 2 * pairs : 2] = (sums[..., :pairs] - differences) / 2
        if size % 2:
            result[..., size - 1] = sums[..., pairs]
    return np.moveaxis(result, -1, axis)


def cell_energies(cells: int) -> Floats:
    """Return the sum of squared factors of each cell as a query, shape (cells,)."""
    energies = np.ones(1)
    for size in _sizes(cells):
        pairs = size // 2
        finer = np.empty(size)
        finer[0 : 2 * pairs : 2] = finer[1 : 2 * pairs : 2] = (energies[:pairs] + 1) / 4
        finer[2 * pairs :] = energies[pairs:]
        energies = finer
    return energies


def range_energies(cells: int, starts: Integers, stops: Integers) -> Floats:
    """Return the sum of squared factors of each range of cells, start to stop - 1, shape (queries,)."""
    left, right, size = starts, stops - 1, cells
    of_left = of_right = np.ones(starts.shape)
    energy = np.zeros(starts.shape)
    while size > 1:
        apart = left // 2 != right // 2
        unpaired = (right == size - 1) & (right % 2 == 0)  # goes up as it is
        # The other half of each pair: inside the range, outside, or the range's other end.
        left_pair = np.where(left % 2 == 1, 0.0, np.where(apart, 1.0, np.where(left == right, 0.0, of_right)))
        right_pair = np.where(right % 2 == 0, 0.0, 1.0)
        right_pair = np.where(unpaired, of_right, right_pair)
        left_pair = np.where(unpaired & ~apart, of_left, left_pair)
        energy += ((of_left - left_pair) / 2) ** 2
        energy += np.where(apart, ((of_right - right_pair) / 2) ** 2, 0.0)
        of_left = (of_left + left_pair) / 2
        of_right = np.where(apart, (of_right + right_pair) / 2, of_left)
        left, right, size = left // 2, right // 2, size - size // 2
    return np.asarray(energy + of_left**2, dtype=np.float64)


def _pair_up(table: NDArray[Any], size: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return both partners of the first ``size`` numbers of each row, and move up a last one without any."""
    pairs = size // 2
    left, right = table[..., 0 : 2 * pairs : 2].copy(), table[..., 1 : 2 * pairs : 2].copy()
    if size % 2:
        table[..., pairs] = table[..., size - 1]
    return left, right


def _sizes(cells: int) -> list[int]:
    """Return how many sums there are on each level that has pairs, the coarsest first."""
    sizes = [cells]
    while sizes[-1] > 1:
        sizes.append(sizes[-1] - sizes[-1] // 2)
    return sizes[-2::-1]
