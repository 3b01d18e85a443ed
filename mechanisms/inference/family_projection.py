"""The weighted projection of many families at once onto non-negative numbers of given sums.

    minimise Σ (x_v - e_v)² / w_v   subject to   x_v >= 0,  Σ x_v = S

has the solution x_v = max(0, e_v + lam·w_v) for the one lam at which the sum is S (Held, Wolfe and Crowder
1974). Newton's method from "nobody is at zero" only drops children, and ends on the exact set of positive
ones (Michelot 1986) after a handful of sweeps; a family that needs more than ``SWEEPS`` is finished by
sorting: O(n log n) at worst.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Bools, Element, Floats, Indices

SWEEPS = 30
"""Newton sweeps before a family is finished by sorting."""


@dataclass(frozen=True, eq=False, slots=True)
class Families:
    """Many small projection problems, laid end to end.

    Attributes
    ----------
    values, weights
        (members,) estimates and their variances, family after family. A member of weight 0 does not move
        and has value 0.
    totals
        (families,) the sums to reach; a negative one counts as 0.
    starts, sizes
        (families,) first member and number of members of each family.
    """

    values: Floats
    weights: Floats
    totals: Floats
    starts: Indices
    sizes: Indices

    def project(self) -> Floats:
        """Return (members,) the nearest non-negative numbers that add up to the totals."""
        result = np.maximum(self.values + self.to_members(_multipliers(self)) * self.weights, 0.0)
        # The sums are right to the size of the *values*; make them right to the size of the totals as well.
        reached, wanted = self.total(result), np.maximum(self.totals, 0.0)
        scale = np.divide(wanted, reached, out=np.ones_like(reached), where=reached > 0)
        result *= self.to_members(scale)
        lost = (reached <= 0) & (wanted > 0)
        if lost.any():
            # A total so small for its members that it vanished in their rounding: any split is as near.
            free = self.total(self.weights)
            share = np.divide(wanted, free, out=np.zeros_like(free), where=lost & (free > 0))
            result += self.to_members(share) * self.weights
        return result

    def choose(self, chosen: Bools) -> Families:
        """Keep the chosen (families,) only."""
        members, sizes = self.to_members(chosen), self.sizes[chosen]
        return Families(
            self.values[members], self.weights[members], self.totals[chosen], np.cumsum(sizes) - sizes, sizes
        )

    def to_members(self, per_family: NDArray[Element]) -> NDArray[Element]:
        """Give every member its family's number."""
        return np.repeat(per_family, self.sizes)

    def total(self, members: Floats) -> Floats:
        """Sum the members family by family."""
        return np.asarray(np.add.reduceat(members, self.starts))

    def count(self, mask: Bools) -> Indices:
        """Count where the mask holds, family by family."""
        return np.asarray(np.add.reduceat(mask, self.starts, dtype=np.intp))

    def positive(self, multiplier: Floats) -> Bools:
        """Say which members are above zero at the families' lam."""
        return np.asarray(self.values + self.to_members(multiplier) * self.weights > 0)

    def step(self, positive: Bools, otherwise: Floats) -> Floats:
        """Return the lam at which only the positive members reach the total; ``otherwise`` without any."""
        slope = self.total(self.weights * positive)
        offset = self.totals - self.total(self.values * positive)
        return np.divide(offset, slope, out=otherwise.copy(), where=slope > 0)


def _multipliers(families: Families) -> Floats:
    """Return lam of every family (families,): Newton's method, exact once the set of positives stands."""
    multiplier = np.zeros(len(families.starts))
    # A family with nothing to share out is all zero and needs no search.
    pending = np.flatnonzero(families.totals > 0)
    left = families.choose(families.totals > 0)
    positive = left.weights > 0
    for _ in range(SWEEPS):
        if pending.size == 0:
            return multiplier
        before = left.count(positive)
        multiplier[pending] = left.step(positive, multiplier[pending])
        positive = left.positive(multiplier[pending])
        # Positives are only ever lost: as many as before means the same ones, and the sum is exact.
        moving = left.count(positive) < before
        positive = positive[left.to_members(moving)]
        pending, left = pending[moving], left.choose(moving)
    if pending.size:
        multiplier[pending] = _sorted_multipliers(left)
    return multiplier


def _sorted_multipliers(families: Families) -> Floats:
    """Return lam of every family by sorting its members by the lam at which each becomes positive."""
    values, weights = families.values, families.weights
    enters = np.divide(-values, weights, out=np.full_like(values, np.inf), where=weights > 0)
    order = np.lexsort((enters, families.to_members(np.arange(len(families.starts)))))
    values, weights, enters = values[order], weights[order], enters[order]
    slope, offset = np.cumsum(weights), np.cumsum(values)
    slope -= families.to_members((slope - weights)[families.starts])
    offset -= families.to_members((offset - values)[families.starts])
    reached = np.divide(
        families.to_members(families.totals) - offset, slope, out=np.zeros_like(slope), where=slope > 0
    )
    # With only its first k members, a family's lam still lets in the k-th exactly as long as k is not above
    # the true number of positives.
    number = np.maximum(families.count(reached > enters), 1)
    multiplier: Floats = reached[families.starts + number - 1]
    # Running sums over a long row gather rounding errors; Newton steps, now close by, remove them.
    for _ in range(2):
        multiplier = families.step(families.positive(multiplier), multiplier)
    return multiplier


def common_reduction(tables: Floats) -> Floats:
    """Return (tables,) what to take off every cell of (tables, cells) before cutting off at zero.

    max(level - t, 0) is the least-squares projection of a table onto those without negative cells and with
    the same total. A table with a total below zero becomes all zeros. Found by leaving out cells until none
    is below t (Michelot 1986), in ten or twenty rounds of O(n).
    """
    totals = np.maximum(tables.sum(axis=1), 0.0)
    reduction = np.zeros(tables.shape[0])
    counted = np.zeros(tables.shape[0], dtype=np.int64)
    while True:
        above = tables > reduction[:, None]
        count = above.sum(axis=1)
        if np.array_equal(count, counted):
            return reduction
        counted = count
        surplus = np.where(above, tables, 0.0).sum(axis=1) - totals
        # Nothing above: all cells are at most t, and become zero.
        reduction = np.maximum(np.divide(surplus, count, out=reduction.copy(), where=count > 0), reduction)
