"""Whole numbers near given ones under overlapping sum conditions: controlled rounding as a linear program.

Every number x starts at its floor and may be raised or lowered by whole units, which cost

- to the ceiling of a fractional number: what |n - x| changes by;
- one unit away from a whole number, still within 1 of it: 1;
- any unit further: ``FAR``, so only where the sums cannot be reached otherwise;
- a unit by which a sum is missed: ``MISSED``, and ten times that in a condition that is ``firm``.

With one or two sets of disjoint conditions (a transportation table) the matrix is totally unimodular: the
simplex method ends on whole numbers (Hoffman and Kruskal 1956), and if the sums can be met at all, they are.
With three sets it may end on fractional numbers, and finding whole ones is NP-hard (Irving and Jerrum 1994).
Then the fractional ones alone are settled by branch and bound, all others staying; where that misses a sum,
the whole part is tried, up to ``NODES`` nodes. The numbers themselves show the caller what they still miss.
Both solvers are those of HiGHS, through SciPy.

Connected parts of the conditions are separate programs. First only the fractional numbers may move, and only
upwards, which is nearly always enough; parts where it is not are solved again with all moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats, Indices, Integers
from tabularium.mechanisms.errors import MechanismError

if TYPE_CHECKING:
    from scipy import sparse


FAR = 100.0
MISSED = 1e4
INTEGRAL = 1e-6
"""Distance from a whole number that is rounding."""
BATCH = 4000
"""Numbers per linear program: connected parts are put together up to this many."""
NODES = 500
"""Branch and bound nodes for a part whose fractional numbers alone cannot meet the sums."""
LARGE = 3000
"""Numbers of a part beyond which it is not searched as a whole."""


@dataclass(frozen=True, eq=False, slots=True)
class Conditions:
    """Conditions to be met by whole numbers.

    Attributes
    ----------
    system
        (conditions, numbers) with entries 1, or -1 for a sum that is itself sought.
    sums
        (conditions,) whole.
    firm
        (conditions,) which of them are to be missed last.
    sets
        How many sets of disjoint conditions these are.
    """

    system: sparse.csr_array
    sums: Integers
    firm: Bools
    sets: int


def round_to_sums(values: Floats, conditions: Conditions) -> Integers:
    """Return (numbers,) whole numbers near ``values`` that meet the conditions as far as possible.

    Numbers that are not negative stay so. Deterministic.
    """
    from scipy.sparse.csgraph import connected_components

    whole = np.rint(values).astype(np.int64)
    system = conditions.system
    turned = system.T.tocsr()
    held = np.flatnonzero(np.diff(turned.indptr))
    if not held.size:
        return whole
    count, part = connected_components(system @ turned, directed=False)
    home = part[turned.indices[turned.indptr[held]]]
    # Three sets: every part for itself, since branch and bound does not see that parts are separate.
    batch = _batches(np.bincount(home, minlength=count), 1 if conditions.sets > 2 else BATCH)
    columns, rows = held[np.argsort(batch[home], kind="stable")], np.argsort(batch[part], kind="stable")
    inner = system[rows][:, columns]
    ends = np.arange(int(batch.max()) + 2)
    column_ends = np.searchsorted(np.sort(batch[home]), ends)
    row_ends = np.searchsorted(np.sort(batch[part]), ends)
    for here in range(len(ends) - 1):
        across = slice(int(row_ends[here]), int(row_ends[here + 1]))
        along = slice(int(column_ends[here]), int(column_ends[here + 1]))
        chosen = rows[across]
        if along.stop > along.start:
            sums, firm = conditions.sums[chosen], conditions.firm[chosen]
            local = Conditions(inner[across, along], sums, firm, conditions.sets)
            whole[columns[along]] = _settle(values[columns[along]], local)
    return whole


def _batches(sizes: Indices, most: int) -> Indices:
    """Number parts of these sizes so that equal numbers add up to about ``most``."""
    before = np.cumsum(sizes) - sizes
    _, batch = np.unique(before // most if most > 1 else np.arange(len(sizes)), return_inverse=True)
    numbered: Indices = batch.astype(np.intp)
    return numbered


def _settle(values: Floats, conditions: Conditions) -> Integers:
    floors = np.floor(values)
    base = floors.astype(np.int64)
    rest = values - floors
    left = (conditions.sums - conditions.system @ base).astype(float)
    fractional = np.flatnonzero(rest > 0)
    if fractional.size:
        moves = _Moves(
            fractional, np.ones(fractional.size), 1.0 - 2.0 * rest[fractional], np.ones(fractional.size)
        )
        found = base + moves.made(conditions, left)
        if (conditions.system @ found == conditions.sums).all():
            return found
    elif not left.any():
        return base
    return base + _all_moves(values).made(conditions, left)


@dataclass(frozen=True, eq=False, slots=True)
class _Moves:
    """Ways to change numbers: which number, how often at most, at what cost each, up (1) or down (-1)."""

    numbers: Indices
    most: Floats
    cost: Floats
    sign: Floats

    def made(self, conditions: Conditions, left: Floats) -> Integers:
        """Return the change of every number (numbers,) that brings the sums ``left`` nearest to zero."""
        from scipy import sparse

        size = conditions.system.shape[1]
        some = self.most > 0
        numbers, sign = self.numbers[some], self.sign[some]
        effect = conditions.system.tocsc()[:, numbers] * sign[None, :]
        one = sparse.eye_array(len(left), format="csc")
        missed = MISSED * np.where(conditions.firm, 10.0, 1.0)
        program = _Program(
            np.concatenate([self.cost[some], missed, missed]),
            sparse.hstack([effect, one, -one]).tocsc(),
            left,
            np.concatenate([self.most[some], np.full(2 * len(left), np.inf)]),
            numbers.size,
        )
        times = np.rint(program.solve()[: numbers.size] * sign)
        return np.bincount(numbers, times, size).astype(np.int64)


def _all_moves(values: Floats) -> _Moves:
    floors = np.floor(values)
    rest = values - floors
    room = np.where(values >= 0, floors, np.inf)
    inside, every = rest == 0, np.arange(values.size)
    ones, far = np.ones(values.size), np.full(values.size, FAR)
    # (most, cost, sign) of: to the ceiling, or one above a whole number; further up; one below a whole
    # number; further down.
    kinds = (
        (ones, np.where(inside, 1.0, 1.0 - 2.0 * rest), 1.0),
        (np.full(values.size, np.inf), far, 1.0),
        (np.where(inside, np.minimum(room, 1.0), 0.0), ones, -1.0),
        (np.where(inside, np.maximum(room - 1.0, 0.0), room), far, -1.0),
    )
    return _Moves(
        np.tile(every, len(kinds)),
        np.concatenate([most for most, _, _ in kinds]),
        np.concatenate([cost for _, cost, _ in kinds]),
        np.concatenate([sign * ones for _, _, sign in kinds]),
    )


@dataclass(frozen=True, eq=False, slots=True)
class _Program:
    """Minimise cost x with matrix x = sums, 0 <= x <= most, x whole.

    The columns after the first ``moves`` are units by which sums are missed.
    """

    cost: Floats
    matrix: sparse.csc_array
    sums: Floats
    most: Floats
    moves: int

    def solve(self) -> Floats:
        """Return whole x: the best, or with three sets of conditions a good one."""
        from scipy.optimize import linprog

        relaxed = linprog(
            self.cost,
            A_eq=self.matrix,
            b_eq=self.sums,
            bounds=np.column_stack([np.zeros_like(self.most), self.most]),
            method="highs-ds",
        )
        if relaxed.x is None:
            raise MechanismError(
                "the linear program of controlled rounding was not solved",
                where="inference",
                hint="leave rounding out for these tables",
            )
        near: Floats = np.rint(relaxed.x)
        fractional = np.abs(relaxed.x - near) > INTEGRAL
        if not fractional.any():
            return near
        moves = slice(0, self.moves)
        least, most = np.zeros_like(self.most), self.most.copy()
        least[moves] = np.where(fractional, 0.0, near)[moves]
        most[moves] = np.where(fractional, self.most, near)[moves]
        found = self._branch(least, most)
        missed = np.inf if found is None else float(self.cost @ found) - float(relaxed.fun)
        if missed > MISSED / 2 and self.moves <= LARGE:
            wider = self._branch(np.zeros_like(self.most), self.most)
            if wider is not None and (found is None or self.cost @ wider < self.cost @ found):
                found = wider
        # Nobody found whole numbers: the nearest ones will do, and what they miss is reported.
        return near if found is None else found

    def _branch(self, least: Floats, most: Floats) -> Floats | None:
        from scipy.optimize import Bounds, LinearConstraint, milp

        whole = np.zeros_like(self.cost)
        whole[: self.moves] = 1
        result = milp(
            self.cost,
            integrality=whole,
            bounds=Bounds(least, most),
            constraints=LinearConstraint(self.matrix, self.sums, self.sums),
            options={"node_limit": NODES, "mip_rel_gap": 1e-6},
        )
        found: Floats | None = None if result.x is None else np.rint(result.x)
        return found
