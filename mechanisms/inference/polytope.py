"""The weighted projection onto non-negative numbers under overlapping sum conditions.

    minimise  1/2 sum (x_i - e_i)^2 / w_i   subject to   A x = b,  x >= 0.

The dual has one unknown per condition: x = max(0, e + w A' lam), and lam maximises a concave, piecewise
quadratic function whose gradient is b - A x. Newton's method on it (semismooth: the active numbers' rows of
A W A', a sparse factorisation by SciPy) with a line search ends on the exact set of positive numbers, in a
handful of steps. With disjoint conditions it is the method of ``projection``, which is then used instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import splu

from mechanisms.inference.projection import Families

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]

STEPS = 100
"""Newton steps before the conditions are taken to have no solution."""
HALVINGS = 30
EXACT = 1e-11
"""Residual, relative to the largest sum, at which the search ends."""
ENOUGH = 1e-8
"""Residual that is accepted when no step improves it."""


class InfeasibleError(Exception):
    """No non-negative numbers meet the conditions. For callers inside this package."""


def incidence(labels: Sequence[Whole], sizes: Sequence[int]) -> sparse.csr_array:
    """Return A (conditions, numbers) from the group of each number in every set of conditions (-1: none)."""
    rows, columns, first = [], [], 0
    for label, size in zip(labels, sizes, strict=True):
        held = np.flatnonzero(label >= 0)
        rows.append(first + label[held])
        columns.append(held)
        first += size
    row, column = np.concatenate(rows), np.concatenate(columns)
    shape = (first, len(labels[0]))
    return sparse.csr_array((np.ones(row.size), (row, column)), shape=shape)


def project_families(values: Floats, weights: Floats, labels: Whole, sums: Floats) -> Floats:
    """Project under disjoint conditions: numbers of label -1 are cut off at zero."""
    result: Floats = np.maximum(values, 0.0)
    order = np.argsort(labels, kind="stable")
    order = order[np.searchsorted(labels[order], 0) :]
    sizes = np.bincount(labels[order], minlength=len(sums))
    used = sizes > 0
    starts = (np.cumsum(sizes) - sizes)[used]
    families = Families(values[order], weights[order], sums[used], starts, sizes[used])
    result[order] = families.project()
    return result


def project(values: Floats, weights: Floats, system: sparse.csr_array, sums: Floats) -> Floats:
    """Return the nearest non-negative x with ``system`` x = ``sums``.

    Parameters
    ----------
    values, weights
        (numbers,) e and w > 0.
    system
        (conditions, numbers) with entries 1 and -1.
    sums
        (conditions,) b.

    Raises
    ------
    InfeasibleError
        There is none.
    """
    scale = max(1.0, float(np.abs(sums).max(initial=0.0)))
    result = np.zeros_like(values)
    if not values.size:
        if (np.abs(sums) > 1e-7 * scale).any():
            raise InfeasibleError
        return result
    closed = (sums <= 1e-13 * scale) & (system.min(axis=1).toarray().ravel() >= 0)
    if (sums[closed] < -1e-7 * scale).any():
        raise InfeasibleError
    # A sum of zero makes all its numbers zero; left in, it would send its multiplier to minus infinity.
    used = abs(system).sum(axis=0) > 0
    result[~used] = np.maximum(values[~used], 0.0)
    free = np.flatnonzero(used & (abs(system[closed]).sum(axis=0) == 0))
    rows = np.flatnonzero(~closed)
    part = system[rows][:, free].tocsr()
    filled = np.diff(part.indptr) > 0
    if (np.abs(sums[rows[~filled]]) > 1e-7 * scale).any():
        raise InfeasibleError
    result[free] = _newton(values[free], weights[free], part[filled], sums[rows[filled]], scale)
    return result


def _newton(values: Floats, weights: Floats, system: sparse.csr_array, sums: Floats, scale: float) -> Floats:
    count, part = connected_components(abs(system) @ abs(system.T), directed=False)
    search = _Search(values, weights, system, sums, part, count)
    for _ in range(STEPS):
        if search.worst() <= EXACT * scale or not search.step(EXACT * scale):
            break
    if search.worst() > ENOUGH * scale:
        raise InfeasibleError
    return search.numbers


class _Search:
    """Newton's method on the dual, with a step length of its own for every connected part of the system."""

    def __init__(
        self,
        values: Floats,
        weights: Floats,
        system: sparse.csr_array,
        sums: Floats,
        part: Whole,
        count: int,
    ) -> None:
        # In units in which weights are about 1, so that multipliers are about as large as the values.
        self._values = values
        self._weights = weights / (float(np.median(weights)) if weights.size else 1.0)
        self._system, self._turned, self._sums = system, system.T.tocsr(), sums
        self._shape, self._sloped = abs(system), abs(system.T).tocsr()
        self._part, self._count = part, count
        # Every number is in some condition, and all of its conditions are in one part.
        self._of = part[self._turned.indices[self._turned.indptr[:-1]]]
        self._multipliers = np.zeros(len(sums))
        self.numbers, self._height, self._missing = self._at(self._multipliers)

    def worst(self) -> float:
        """Return the largest residual."""
        return float(np.abs(self._missing).max(initial=0.0))

    def step(self, enough: float) -> bool:
        """Improve every part that is not finished; say whether any was."""
        open_ = self._largest(self._missing) > enough
        if self._try(self._active(), open_, enough):
            return True
        # The curvature of all numbers is never too small, so that this step always goes down.
        return self._try(self._weights, open_, enough)

    def _active(self) -> Floats:
        positive = self.numbers > 0
        lonely = self._shape @ positive.astype(float) == 0
        # A condition without a positive number has no slope: then all of its numbers show the way.
        positive |= self._sloped @ lonely.astype(float) > 0
        active: Floats = np.where(positive, self._weights, 0.0)
        return active

    def _try(self, active: Floats, open_: NDArray[np.bool_], enough: float) -> bool:
        curved = (self._system * active[None, :]) @ self._turned
        ridge = 1e-12 * curved.diagonal() + 1e-14 * float(active.max())
        solver = splu((curved + sparse.diags_array(ridge)).tocsc(), permc_spec="MMD_AT_PLUS_A")
        step = np.where(open_[self._part], solver.solve(self._missing), 0.0)
        gain = np.bincount(self._part, self._missing * step, self._count)
        before = self._largest(self._missing)
        length, moved = open_.astype(float), False
        for _ in range(HALVINGS):
            shift = length[self._part] * step
            numbers, height, missing = self._at(self._multipliers + shift)
            after = self._largest(missing)
            # Close to the end the height is all rounding, and the residual tells.
            flat = gain * length <= 1e-10 * (1.0 + np.abs(self._height))
            good = np.where(flat, after <= before, height <= self._height - 1e-4 * length * gain)
            failed = (length > 0) & ~good & (after > enough)
            if not failed.any():
                moved = bool((length > 0).any())
                break
            length = np.where(failed, length / 2, length)
        else:
            length = np.where(failed, 0.0, length)
            shift = length[self._part] * step
            numbers, height, missing = self._at(self._multipliers + shift)
            moved = bool((length > 0).any())
        if moved:
            self._multipliers = self._multipliers + shift
            self.numbers, self._height, self._missing = numbers, height, missing
        return moved

    def _at(self, where: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the numbers, each part's dual function (to go down), and the residual."""
        numbers = np.maximum(self._values + self._weights * (self._turned @ where), 0.0)
        energy = np.bincount(self._of, numbers**2 / self._weights, self._count) / 2
        height = energy - np.bincount(self._part, self._sums * where, self._count)
        return numbers, height, self._sums - self._system @ numbers

    def _largest(self, missing: Floats) -> Floats:
        largest = np.zeros(self._count)
        np.maximum.at(largest, self._part, np.abs(missing))
        return largest
