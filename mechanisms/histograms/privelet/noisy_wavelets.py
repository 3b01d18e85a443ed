"""Noisy Haar coefficients as linear measurements: as many as cells, so every sum has one estimate.

A sum of cells has a factor for each coefficient (:mod:`tabularium.mechanisms.histograms.privelet.haar_sums`),
and no other coefficient has a part in it. All coefficients have noise of one distribution, so the covariance
of two sums is its variance times the sum of the products of their factors. The factors of all sums are
carried up together as a sparse matrix: a cell is in at most Π(1 + ⌈log2 n_i⌉) coefficients.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from math import prod

import numpy as np

from tabularium.mechanisms.histograms.privelet.haar_sums import cells_from, depth
from tabularium.mechanisms.linear_measurements.linear_measurement import (
    Bools,
    Floats,
    Indices,
    LinearMeasurement,
    Sums,
    added_up,
    coalesced,
    variance_in,
)

_ENTRIES = 1 << 23
"""Factors that are held at a time."""


@dataclass(frozen=True, eq=False)
class NoisyWavelets(LinearMeasurement):
    """Haar coefficients with noise; ``values`` is the table of them.

    Attributes
    ----------
    axes
        Along which axes the table was transformed.
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
        found = np.zeros((sums.rows, sums.columns, sums.columns))
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
            found[first : first + here] = added_up(own, keys, factors, noise)
            begin = end
        return found

    def _along(self, axis: int, keys: Indices, factors: Floats, number: int) -> tuple[Indices, Floats]:
        """Transform sparse factors, (place·number + sum) each, along an axis."""
        shape = self.values.shape
        step, size = prod(shape[axis + 1 :]) * number, shape[axis]
        done_keys, done = [], []
        while size > 1:
            pairs = size // 2
            place = keys // step % shape[axis]
            rest = keys - place * step
            alone = place == 2 * pairs  # goes up as it is
            half = np.where(alone, factors, factors / 2)
            side = np.where(place % 2, -half, half)[~alone]
            finer, own = coalesced(rest[~alone] + (size - pairs + place[~alone] // 2) * step, side)
            some = own != 0
            done_keys.append(finer[some])
            done.append(own[some])
            keys, factors = coalesced(rest + place // 2 * step, half)
            size -= pairs
        return np.concatenate([keys, *done_keys]), np.concatenate([factors, *done])
