"""Weighted least squares on a hierarchy, exactly, in two linear passes.

Source: Hay, Rastogi, Miklau and Suciu (2010), "Boosting the accuracy of differentially private
histograms through consistency", section 4, generalised from equal variances and a full k-ary tree to any
forest, any variances (zero: exact; infinite: not measured) and any number of cells at once.

The estimate sought is x minimising sum (y_v - x_v)^2 / s_v over all measured nodes v, subject to
x_parent = sum of x_children in every family. With independent errors of variance s_v it is the best linear
unbiased estimate (Gauss-Markov).

Up. Let z_v, t_v be the best estimate of x_v from the measurements at and below v, and its variance. The
children's subtrees share no measurement, so their estimates add: C = sum z_u, with variance T = sum t_u.
Blending this with v's own measurement by inverse variance gives z_v and 1/t_v = 1/s_v + 1/T. A leaf has
z = y, t = s.

Down. At a root nothing lies outside the subtree: x = z, V = t. Given its parent's value x_p, a family is
independent of everything outside it, so the only news from outside is the correction x_p - C, which goes
to the children in proportion to their variances:

    x_v = z_v + g_v (x_p - C),        g_v = t_v / T.

Variance. Take the errors to be Gaussian for a moment (the variance of a linear estimate does not depend on
the shape of the errors) and the prior flat, so that posterior and sampling variance agree. Given x_p, the
child has mean z_v + g_v (x_p - C) and variance t_v - t_v^2 / T = t_v (1 - g_v): independent Gaussians
conditioned on their sum. Averaging over what is still unknown of x_p, whose variance is V_p,

    V_v = t_v (1 - g_v) + g_v^2 V_p,

a sum of non-negative terms, hence stable. ``t_v (1 - g_v)`` is t_v and the sum R of the siblings' variances
"in parallel", t_v R / (t_v + R), which is how it is computed: no cancellation, and the limits t_v -> infinity
(an unmeasured child is the parent minus its siblings) and t_v -> 0 (an exact child moves for nobody) come out
of the same formula.

Not measured at all. In a family with one child of infinite t, that child is its parent minus its siblings.
With two or more, only their sum is determined. No even split is invented for them: it would be a number
without an error margin. The call raises and names a node that would have to be measured.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tabularium.mechanisms.arrays import Bools, Floats, Index, strips
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference.estimate import (
    Estimate,
    Invariants,
    contradiction,
    infinite,
    into,
    invariants_of,
    refuse_values,
    table_of,
    variances_of,
)
from tabularium.mechanisms.inference.hierarchy import Block, Hierarchy


def consistency(
    tree: Hierarchy,
    values: ArrayLike,
    variances: ArrayLike,
    invariants: Invariants | None = None,
    *,
    out: Floats | None = None,
) -> Estimate:
    """Return the weighted least-squares estimate that adds up in every family, with its exact variances.

    Parameters
    ----------
    tree
        The hierarchy of the rows.
    values
        (nodes, cells) measurements. Ignored, and free to be NaN, where the variance is infinite.
    variances
        Variances of the measurements, in squared units of ``values``: one number, (nodes,), or (nodes,
        cells). 0 means exact, infinity not measured.
    invariants
        Node number to exact values, which replace whatever was measured there.
    out
        (nodes, cells) float64 for the result, which may be ``values`` itself.

    Returns
    -------
    Estimate
        ``values`` (nodes, cells); ``variances`` (nodes, 1), or (nodes, cells) when the given ones depend on
        the cell. Neither argument is changed, but what is ``out``.

    Raises
    ------
    MechanismError
        For wrong shapes or non-finite measurements, for exact values that contradict each other, and for
        nodes that the measurements do not determine.

    Notes
    -----
    O(nodes x cells) time; memory is the result plus, when variances depend on the cell, as much again. All
    work is done some families at a time: where ``values`` and ``out`` are mapped from disk no more is held.

    Examples
    --------
    A parent of 10 and children of 4 and 3, all with variance 1: the missing 3 is shared out equally
    between the three measurements.

    >>> import numpy as np
    >>> est = consistency(Hierarchy([-1, 0, 0]), np.array([[10.0], [4.0], [3.0]]), 1.0)
    >>> est.values.ravel().round(6).tolist(), est.variances.ravel().round(6).tolist()
    ([9.0, 5.0, 4.0], [0.666667, 0.666667, 0.666667])
    """
    estimate, measured = _measurements(tree, values, variances, invariants, out)
    below = measured.copy()
    _upward(tree, estimate, below, measured)
    _downward(tree, estimate, below)
    return Estimate(estimate, below)


def _measurements(
    tree: Hierarchy,
    values: ArrayLike,
    variances: ArrayLike,
    invariants: Invariants | None,
    out: Floats | None,
) -> tuple[Floats, Floats]:
    """Return fresh values, with 0 where nothing was measured, and the measurements' variances."""
    given = table_of(tree, values)
    measured = variances_of(tree, variances, given.shape[1])
    known, exact = invariants_of(tree, invariants, given.shape[1])
    estimate = into(out, given)
    if known.size:
        measured = measured.copy()
        measured[known] = 0.0
        estimate[known] = exact
    unknown = np.isinf(measured)
    for rows in strips(*estimate.shape) if unknown.any() else ():
        estimate[rows][np.broadcast_to(unknown[rows], estimate[rows].shape)] = 0.0
    refuse_values(infinite, estimate, "has a measurement that is not finite", "give it infinite variance")
    return estimate, measured


def in_parallel(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Return two variances in parallel, a b / (a + b), and the share a / (a + b); exact at 0 and infinity."""
    low, high = np.minimum(one, other), np.maximum(one, other)
    ratio = np.divide(low, high, out=np.zeros_like(low), where=(high > 0) & (low < np.inf))
    both = 1.0 / (1.0 + ratio)
    return low * both, np.where(one <= other, ratio * both, both)


def _upward(tree: Hierarchy, estimate: Floats, below: Floats, measured: Floats) -> None:
    """Turn measurements into subtree estimates, in place: y to z, s to t."""
    for block in tree.up(estimate.shape[1]):
        parents = block.parents
        total, variance = block.total(estimate[block.children]), block.total(below[block.children])
        own, own_variance = estimate[parents], measured[parents]
        wrong = contradiction(own, total, (own_variance == 0) & (variance == 0))
        if wrong is not None:
            raise MechanismError(
                f"the exact values of node {int(parents[wrong])} and of its children contradict each other",
                where="inference",
                hint="drop one of the invariants",
            )
        below[parents], weight = in_parallel(variance, own_variance)
        # As a weighted mean, not total + weight * (own - total): exact values come out to the last bit.
        estimate[parents] = weight * own + (1.0 - weight) * total


def _downward(tree: Hierarchy, estimate: Floats, below: Floats) -> None:
    """Turn subtree estimates into final ones, in place: z to x, t to V."""
    some_unknown = bool(np.isinf(below).any())
    if some_unknown:
        _refuse_undetermined(tree, below, tree.roots, np.isinf(below[tree.roots]))
    for block in tree.down(estimate.shape[1]):
        own = below[block.children]
        siblings = sibling_variances(block, own)
        if some_unknown:
            unknown = np.isinf(own)
            several = block.to_children(block.total(unknown.astype(np.int64)) > 1) & unknown
            _refuse_undetermined(tree, below, block.children, several)
        within, share = in_parallel(own, siblings)
        subtree = estimate[block.children]
        correction = estimate[block.parents] - block.total(subtree)
        estimate[block.children] = subtree + share * block.to_children(correction)
        below[block.children] = within + share * share * block.to_children(below[block.parents])


def sibling_variances(block: Block, own: Floats) -> Floats:
    """Return for every child the sum of its siblings' variances, without cancellation."""
    with np.errstate(invalid="ignore"):
        others = block.to_children(block.total(own)) - own
        # Subtracting loses digits only for a child that outweighs its siblings: at most one a family.
        heavy = ~(own <= others)
    if heavy.any():
        others = np.where(heavy, block.to_children(block.total(np.where(heavy, 0.0, own))), others)
    return others


def _refuse_undetermined(tree: Hierarchy, below: Floats, rows: Index, wrong: Bools) -> None:
    """Raise when a node is wrong, naming an unmeasured leaf at or below it."""
    if not wrong.any():
        return
    at, cell = (int(found[0]) for found in np.nonzero(wrong))
    node = int(np.arange(tree.nodes)[rows][at])
    while not tree.leaf[node]:
        # An unknown sum has an unknown term.
        node = int(np.flatnonzero((tree.parents == node) & np.isinf(below[:, cell]))[0])
    raise MechanismError(
        f"node {node} is not measured and the other measurements do not determine it",
        where="inference",
        hint="measure it, or leave its level out of the hierarchy",
    )
