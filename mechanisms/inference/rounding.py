"""Whole numbers that still add up: controlled rounding, family by family, from the top down.

The cells of a root are rounded down or up so that their sum is the nearest whole number to what it was
(halves to the even one); a root of one cell is simply rounded. Rounded one by one, the many small remainders
of empty cells would all be lost, and the total with them. Then, parent N settled, every child of the family
is rounded down, and the K = N - sum floor(x_v) units that are missing go, one each, to the K
children with the largest remainders.

*Within 1 everywhere.* Claim: every node ends at the floor or the ceiling of its own unrounded value, so
less than 1 away. It holds for the roots. Let it hold for a parent with unrounded value x = sum x_v and
settled value N, and let r_v = x_v - floor(x_v) in [0, 1). Then R = sum r_v = x - sum floor(x_v) differs from
x by a whole number, so N in {floor x, ceil x} gives K in {floor R, ceil R}. Hence K >= 0, and K <= ceil R <=
the number of children with r_v > 0, since each contributes less than 1. So K children with r_v > 0 exist,
each goes to its ceiling, the others stay at their floor. The parent's own rounding, decided first, can
always be absorbed, and nothing piles up on the way down: the bound is against the *unrounded* value at
every depth. (In floating point the values add up to about 1e-16 of their size only. A family short of
remainders by such an error raises a whole child by exactly 1, so within 1 still holds.)

*Never below zero.* The floor of a non-negative number is not negative.

*Almost whole numbers.* A value within 1e-6 of a whole number takes that number: 2.9999999 has the largest
remainder and is served first, 3.0000001 the smallest and is served last. So remainders need not be altered
before they are ranked; they are compared in steps of 2^-20 (9.5e-7), which keeps rounding errors in the
last bits from deciding between equals.

*Invariants.* A whole number has remainder 0 and K <= the number of children with r_v > 0, so exact whole
values are kept without special care; they are also barred from the ranking, so that an estimate that does
not honour its invariants raises instead of breaking them.

*Deterministic.* Equal remainders go by node number, the smaller first. No randomness: the bias of a single
cell is at most its remainder, and sums are settled before their parts.
"""

from __future__ import annotations

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats, Indices, Integers
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference.estimate import (
    Estimate,
    Invariants,
    finite_estimate,
    invariants_of,
    refuse_values,
)
from tabularium.mechanisms.inference.hierarchy import Block, Hierarchy
from tabularium.mechanisms.limits import LARGEST_WHOLE

STEPS = 1 << 20
"""Remainders are compared in steps of 1 / STEPS."""

SNAP = 1e-6
"""A value this close to a whole number takes it."""


def rounding(tree: Hierarchy, est: Estimate, invariants: Invariants | None = None) -> Integers:
    """Return whole numbers that add up in every family, each within 1 of its unrounded value.

    Parameters
    ----------
    tree
        The hierarchy of the rows.
    est
        What ``consistency`` or ``nonnegativity`` returned: values (nodes, cells) that add up.
    invariants
        Node number to exact values, kept exactly; whole numbers, the same ones the earlier steps were
        given. A node and cell of variance 0 whose value is whole is kept as well.

    Returns
    -------
    (nodes, cells) int64.

    Raises
    ------
    MechanismError
        When a value is not finite or too large for exact integers (2^53), an invariant is not whole, or
        the values do not add up.

    Examples
    --------
    >>> import numpy as np
    >>> est = Estimate(np.array([[10.0], [3.4], [3.3], [3.3]]), np.ones((4, 1)))
    >>> rounding(Hierarchy([-1, 0, 0, 0]), est).ravel().tolist()
    [10, 4, 3, 3]
    """
    table = np.empty(np.shape(est.values), dtype=np.int64)
    round_into(table, tree, est, invariants)
    return table


def round_into(
    table: Integers | Floats, tree: Hierarchy, est: Estimate, invariants: Invariants | None = None
) -> None:
    """Write the whole numbers of :func:`rounding` into ``table``, (nodes, cells), some families at a time."""
    values, variances = finite_estimate(tree, est)
    refuse_values(_inexact, values, "has a value beyond exact whole numbers", "rescale the counts")
    values, pinned = _pinned(tree, values, variances, invariants)

    table[tree.roots] = _round_roots(values[tree.roots], None if pinned is None else pinned[tree.roots])
    for block in tree.down(values.shape[1]):
        for strip in block.strips(values.shape[1]):
            table[block.children, strip] = _round_families(
                block,
                values[block.children, strip],
                None if pinned is None else pinned[block.children, strip],
                table[block.parents, strip].astype(np.int64, copy=False),
            )


def _inexact(values: Floats) -> Bools:
    beyond: Bools = np.abs(values) > LARGEST_WHOLE
    return beyond


def _pinned(
    tree: Hierarchy, values: Floats, variances: Floats, invariants: Invariants | None
) -> tuple[Floats, Bools | None]:
    """Return values with the invariants put in, and where they may not move, (nodes, cells) or None."""
    known, exact = invariants_of(tree, invariants, values.shape[1])
    broken = np.rint(exact) != exact
    if broken.any():
        raise MechanismError(
            f"the invariant of node {int(known[broken.any(axis=1).argmax()])} is not a whole number",
            where="invariants",
            hint="give whole numbers, or leave the table unrounded",
        )
    certain = variances == 0
    if known.size == 0 and not certain.any():
        return values, None
    pinned = certain & (np.abs(values - np.rint(values)) <= SNAP)
    if known.size:
        values = values.copy()
        values[known], pinned[known] = exact, True
    return values, pinned


def _floors(values: Floats, pinned: Bools | None) -> tuple[Floats, Integers]:
    """Return numbers rounded down, and remainders in steps; pinned ones are rounded, with a step of -1."""
    floors = np.floor(values)
    steps = np.rint((values - floors) * STEPS).astype(np.int64)
    if pinned is not None:
        floors = np.where(pinned, np.rint(values), floors)
        steps[pinned] = -1
    return floors, steps


def _round_roots(values: Floats, pinned: Bools | None) -> Integers:
    """Round (roots, cells) down or up; every row keeps the nearest whole number to its sum."""
    roots, cells = values.shape
    floors, steps = _floors(values, pinned)
    missing = np.rint(values.sum(axis=1)) - floors.sum(axis=1)
    number = np.clip(missing, 0, (steps > 0).sum(axis=1)).astype(np.int64)
    whole = floors.astype(np.int64).ravel()
    whole[largest(steps.ravel(), np.arange(roots) * cells, np.full(roots, cells), number)] += 1
    return whole.reshape(roots, cells)


def _round_families(block: Block, values: Floats, pinned: Bools | None, totals: Integers) -> Integers:
    """Round (members, cells) so that every family reaches its total (families, cells)."""
    floors, steps = _floors(values, pinned)
    whole = floors.astype(np.int64)
    missing = totals - block.total(whole)
    _refuse_inconsistent(block, missing, steps)

    rows, cells = values.shape
    # Cell by cell the families follow one another in one long row, so that cells are only more families.
    sizes = np.tile(block.sizes, cells)
    starts = (np.arange(cells)[:, None] * rows + block.starts).ravel()
    chosen = largest(steps.T.ravel(), starts, sizes, missing.T.ravel())
    raised = whole.T.ravel()
    raised[chosen] += 1
    return raised.reshape(cells, rows).T


def largest(steps: Integers, starts: Indices, sizes: Indices, number: Integers) -> Integers:
    """Return the positions of each family's ``number`` largest steps; equals go by position."""
    rank = np.arange(steps.size) - np.repeat(starts, sizes)
    place, family = max(1, steps.size.bit_length()), np.repeat(np.arange(len(starts)), sizes)
    if 2 * place + 21 > 62:
        return np.lexsort((-steps, family))[rank < np.repeat(number, sizes)]
    # Family, descending steps and position packed into one integer: sorting the keys themselves is several
    # times faster than an argsort, and no two keys are equal.
    keys = ((family << 21 | (STEPS - steps)) << place) | np.arange(steps.size)
    keys.sort()
    return keys[rank < np.repeat(number, sizes)] & ((1 << place) - 1)


def _refuse_inconsistent(block: Block, missing: Integers, steps: Integers) -> None:
    able = block.total((steps >= 0).astype(np.int64))
    wrong = (missing < 0) | (missing > able)
    if wrong.any():
        raise MechanismError(
            f"the values below node {int(block.parents[wrong.any(axis=1).argmax()])} do not add up to it",
            where="inference",
            hint="run consistency, and nonnegativity if wanted, with the same invariants first",
        )
