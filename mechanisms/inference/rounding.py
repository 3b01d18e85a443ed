"""Whole numbers that still add up: controlled rounding, family by family, from the top down.

The cells of a root are rounded so that their sum is the nearest whole number to what it was. Then, parent N
settled, every child is rounded down, and the N - Σ floor(x_v) units that are missing go, one each, to the
children with the largest remainders. Every number ends at the floor or the ceiling of its *unrounded* value,
at every depth, and never below zero (proof: docs/explanation/inference.md).

A value within 1e-6 of a whole number takes that number; exact whole values are kept. Remainders are compared
in steps of 2^-20, equal ones go by node number: deterministic.
"""

from __future__ import annotations

import numpy as np

from tabularium.mechanisms.arrays import LARGEST_WHOLE, Bools, Floats, Indices, Integers
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference.estimate import (
    Estimate,
    Invariants,
    finite_estimate,
    invariants_of,
    refuse_values,
)
from tabularium.mechanisms.inference.hierarchy import Block, Hierarchy

STEPS = 1 << 20
"""Remainders are compared in steps of 1 / STEPS."""

SNAP = 1e-6
"""A value this close to a whole number takes it."""


def rounding(tree: Hierarchy, est: Estimate, invariants: Invariants | None = None) -> Integers:
    """Return whole numbers that add up in every family, each within 1 of its unrounded value.

    (nodes, cells) int64.

    Parameters
    ----------
    est
        What ``consistency`` or ``nonnegativity`` returned: values (nodes, cells) that add up.
    invariants
        Node number to exact values, kept exactly; whole numbers, the same ones the earlier steps were
        given. A node and cell of variance 0 whose value is whole is kept as well.

    Raises
    ------
    MechanismError
        When a value is not finite or too large for exact integers (2^53), an invariant is not whole, or
        the values do not add up.

    Examples
    --------
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
    refuse_values(
        lambda strip: np.abs(strip) > LARGEST_WHOLE,
        values,
        "has a value beyond exact whole numbers",
        "rescale the counts",
    )
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
