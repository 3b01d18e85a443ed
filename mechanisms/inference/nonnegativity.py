"""Non-negative values that still add up: a weighted projection, family by family, from the top down.

A parent is settled before its children, which are then the nearest non-negative numbers that add up to it,
each weighed by the inverse of its variance (``family_projection``). So a total far from zero keeps its
unbiased estimate: what is taken from one child is given to another. Clipping, or one quadratic program over
all nodes, would push totals up.

Exact values stay; what they need from above is a lower bound of every node, and the projection is the same
one for x_v minus its bound. The variances handed back are those of the linear estimate that came in.
"""

from __future__ import annotations

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats, Indices
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference.estimate import (
    AGREEMENT,
    Estimate,
    Invariants,
    finite_estimate,
    into,
    invariants_of,
    refuse_node,
)
from tabularium.mechanisms.inference.family_projection import Families
from tabularium.mechanisms.inference.hierarchy import Block, Hierarchy


def nonnegativity(
    tree: Hierarchy, est: Estimate, invariants: Invariants | None = None, *, out: Floats | None = None
) -> Estimate:
    """Return the estimate with every value at least zero, adding up as before.

    Parameters
    ----------
    est
        What ``consistency`` returned: values (nodes, cells) and variances that broadcast to them, finite.
        A node and cell of variance 0 is kept as it is.
    invariants
        Node number to exact values, kept exactly; the same ones as ``consistency`` was given.
    out
        (nodes, cells) float64 for the result, which may be the values of ``est``.

    Returns
    -------
    Estimate
        Values (nodes, cells) >= 0 with every family adding up to 1e-9 relative or better; the variances
        of ``est``, with 0 at the invariants.

    Raises
    ------
    MechanismError
        For non-finite estimates, negative exact values, and exact values that contradict each other.

    Notes
    -----
    Roots are clipped at zero (or at the sum of the exact values beneath them), so a root near zero is
    biased upwards by at most 0.4 standard deviations; far from zero it is not touched.

    Examples
    --------
    The middle child cannot be -1, so its lack is taken from the other two alike.

    >>> est = Estimate(np.array([[10.0], [8.0], [-1.0], [3.0]]), np.ones((4, 1)))
    >>> nonnegativity(Hierarchy([-1, 0, 0, 0]), est).values.ravel().tolist()
    [10.0, 7.5, 0.0, 2.5]
    """
    given, variances = finite_estimate(tree, est)
    known, exact = invariants_of(tree, invariants, given.shape[1])
    values = into(out, given)
    if known.size:
        values[known], variances = exact, variances.copy()
        variances[known] = 0.0
    bounds, variances = _lower_bounds(tree, values, variances)

    roots = tree.roots
    values[roots] = np.maximum(values[roots], 0.0 if bounds is None else bounds[roots])
    for block in tree.down(values.shape[1]):
        for strip in block.strips(values.shape[1]):
            target, members = values[block.parents, strip], values[block.children, strip]
            weights = variances[block.children, strip if variances.shape[1] > 1 else slice(None)]
            least: Floats | None = None
            if bounds is not None:
                least = bounds[block.children, strip]
                target, members = target - block.total(least), members - least
            moved = _project_table(members, weights, target, block)
            values[block.children, strip] = moved if least is None else moved + least
    return Estimate(values, variances)


def _lower_bounds(tree: Hierarchy, values: Floats, variances: Floats) -> tuple[Floats | None, Floats]:
    """Return what exact values demand of every node, (nodes, cells), and variances with derived zeros.

    The bounds are None when nothing below a root is exact. An inner node whose children are all exact is
    exact itself, whatever variance it came with.
    """
    exact = variances == 0
    if not exact.any():
        return None, variances
    # A value that is exact by subtraction may be a rounding error below zero.
    grain = 1e-6 + 1e-12 * float(np.abs(values).max())
    refuse_node(
        exact & (values < -grain), "is exact and negative", "exact values of counts must be at least zero"
    )
    if not np.delete(exact, tree.roots, axis=0).any():
        return None, variances
    bounds = np.where(exact, np.maximum(values, 0.0), 0.0)
    for block in tree.up(values.shape[1]):
        parents = block.parents
        demand = block.total(bounds[block.children])
        every = block.total((~exact[block.children]).astype(np.int64)) == 0
        _refuse_contradiction(parents, bounds[parents], demand, exact[parents], every)
        bounds[parents] = np.where(exact[parents], bounds[parents], demand)
        exact[parents] |= every
    return bounds, np.where(exact, 0.0, variances)


def _refuse_contradiction(
    parents: Indices, value: Floats, demand: Floats, exact: Bools, every: Bools
) -> None:
    """Raise when children demand more than an exact parent has, or all are exact and do not add up to it."""
    slack = AGREEMENT * np.maximum(1.0, np.maximum(value, demand))
    wrong = exact & ((demand > value + slack) | (every & (demand < value - slack)))
    if wrong.any():
        node = int(parents[wrong.any(axis=1).argmax()])
        raise MechanismError(
            f"the exact values of node {node} and of nodes beneath it contradict each other",
            where="inference",
            hint="drop one of the invariants",
        )


def _project_table(members: Floats, weights: Floats, totals: Floats, block: Block) -> Floats:
    """Project (members, cells) onto the families' totals (families, cells).

    Cell by cell the families follow one another in one long row, so that cells are only more families.
    """
    rows, cells = members.shape
    families = Families(
        values=members.T.ravel(),
        weights=np.broadcast_to(weights, members.shape).T.ravel(),
        totals=totals.T.ravel(),
        starts=(np.arange(cells)[:, None] * rows + block.starts).ravel(),
        sizes=np.tile(block.sizes, cells),
    )
    return families.project().reshape(cells, rows).T
