"""Sums over leaves of a hierarchy: their variance when the leaves are least-squares estimates.

Let x be the weighted least-squares estimate of :mod:`tabularium.mechanisms.inference.consistency`, and F = Σ
a_l·x_l over the leaves l, with a_l 0 or 1. The estimates of different leaves err together, so Var F is not a
sum over leaves. As there, take errors to be Gaussian and the prior flat for a moment (a variance of something
linear does not depend on the shape of the errors). With t_v the variance of node v's subtree estimate and T
the sum of its siblings' and its own, the children of a node are, given its value, independent Gaussians
conditioned on their sum. So F restricted to the subtree of v is, given x_v, of slope m_v in x_v and of a
variance R_v that no longer depends on anything outside:

    leaf:    m_v = a_v,              R_v = 0
    inner:   m_v = Σ m_u·t_u / T,    R_v = Σ R_u + Σ t_u·(m_u - m_v)²      over the children u

and the sum over the leaves below v has the variance m_v²·V_v + R_v, where V_v is the variance of x_v itself.
One upward pass gives it for every node. All terms are sums of squares: nothing cancels.

How much one measurement weighs. F = Σ g_u·y_u over the measurements y. With w_u the weight of y_u in the
estimate of its own subtree, g_u = w_u·K_u, K_root = m_root and K_u = m_u - m_p + (1 - w_p)·K_p below a
parent p. All m lie in [0, 1], being means of numbers that are 0 or 1, so by induction m_u - 1 <= K_u <= m_u:
if that holds for p, (1 - w_p)·K_p lies between m_p - 1 and m_p. Hence |g_u| <= 1: no error counts more than
once. From Var F = Σ g_u²·s_u besides follows |g_u| <= sqrt(Var F / least s).
"""

from __future__ import annotations

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats, Indices, Integers
from tabularium.mechanisms.inference.hierarchy import Hierarchy


def sum_variances(tree: Hierarchy, measured: Floats, estimated: Floats, chosen: Bools) -> Floats:
    """Return, for every node, the variance of the sum of the estimates of the chosen leaves below it.

    Parameters
    ----------
    tree
        The hierarchy.
    measured
        (nodes,) variances of the measurements; infinite where nothing was measured.
    estimated
        (nodes,) variances of the least-squares estimates, as ``consistency`` returns them.
    chosen
        (nodes,) which leaves are summed; inner nodes are not looked at.

    Returns
    -------
    (nodes,) variances.

    Examples
    --------
    Two parts measured with variance 1, and their whole too: each has the variance 2/3, and so has their sum.

    >>> import numpy as np
    >>> tree = Hierarchy([-1, 0, 0])
    >>> both = np.array([False, True, True])
    >>> sum_variances(tree, np.ones(3), np.full(3, 2 / 3), both).round(3).tolist()
    [0.667, 0.667, 0.667]
    """
    below = measured.astype(np.float64)[:, None]
    slope = np.where(tree.leaf & chosen, 1.0, 0.0)[:, None]
    rest = np.zeros_like(slope)
    for block in tree.up():
        own = below[block.children]
        total = block.total(own)
        # Children that are all exactly known err in nothing: any slope will do.
        mean = block.total(slope[block.children] * own) / np.where(total > 0, total, 1.0)
        apart = (slope[block.children] - block.to_children(mean)) ** 2 * own
        slope[block.parents] = mean
        rest[block.parents] = block.total(rest[block.children] + apart)
        with np.errstate(divide="ignore"):
            below[block.parents] = 1.0 / (1.0 / below[block.parents] + 1.0 / total)
    return np.asarray(slope**2 * estimated[:, None] + rest)[:, 0]


def largest_nodes(
    parents: Integers,
    depth: Integers,
    chosen: Bools,
    present: Bools,
    lowest: int,
) -> Indices:
    """Return the fewest nodes, none above a given depth, that together are exactly the chosen leaves.

    Parameters
    ----------
    parents, depth
        (nodes,) of the tree; parents before their children.
    chosen
        (nodes,) which leaves are wanted.
    present
        (nodes,) which nodes may be used; all leaves may.
    lowest
        The smallest depth that a node may have, unless it is a leaf.

    Returns
    -------
    Node numbers, ascending.
    """
    inner = np.zeros(len(parents), bool)
    inner[parents[parents >= 0]] = True
    whole = np.where(inner, True, chosen)
    levels = [np.flatnonzero(depth == d) for d in range(int(depth.max()) + 1)]
    for nodes in reversed(levels[1:]):
        np.logical_and.at(whole, parents[nodes], whole[nodes])
    usable = whole & present & (~inner | (depth >= lowest))
    covered = np.zeros(len(parents), bool)
    for nodes in levels[1:]:
        above = parents[nodes]
        covered[nodes] = covered[above] | usable[above]
    return np.flatnonzero(usable & ~covered)
