"""Weighted least squares on a hierarchy, exactly, in two linear passes.

Source: Hay, Rastogi, Miklau and Suciu (2010), "Boosting the accuracy of differentially private
histograms through consistency", section 4, generalised to any forest, any variances (zero: exact; infinite:
not measured) and any number of cells at once. Derivation: docs/explanation/inference.md, "Two passes over a
hierarchy".

Up: z and t, the best estimate of a node from what was measured at and below it, and its variance. Down: x and
V, that from all measurements. Privacy: only measurements are looked at. Cost: O(nodes x cells).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

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

    >>> est = consistency(Hierarchy([-1, 0, 0]), np.array([[10.0], [4.0], [3.0]]), 1.0)
    >>> est.values.ravel().round(6).tolist(), est.variances.ravel().round(6).tolist()
    ([9.0, 5.0, 4.0], [0.666667, 0.666667, 0.666667])
    """
    estimate, measured = _measurements(tree, values, variances, invariants, out)
    below = measured.copy()
    for block, variance, weight in _upward(tree, below, estimate.shape[1]):
        parents = block.parents
        own, total = estimate[parents], block.total(estimate[block.children])
        wrong = contradiction(own, total, (measured[parents] == 0) & (variance == 0))
        if wrong is not None:
            raise MechanismError(
                f"the exact values of node {int(parents[wrong])} and of its children contradict each other",
                where="inference",
                hint="drop one of the invariants",
            )
        # As a weighted mean, not total + weight * (own - total): exact values come out to the last bit.
        estimate[parents] = weight * own + (1.0 - weight) * total
    for block, share in _downward(tree, below, estimate.shape[1]):
        subtree = estimate[block.children]
        correction = estimate[block.parents] - block.total(subtree)
        estimate[block.children] = subtree + share * block.to_children(correction)
    return Estimate(estimate, below)


class TreeLeastSquares:
    """What least squares make of measurements of given variances, before there are any.

    ``variances``: (nodes, cells), or (nodes, 1) where they do not depend on the cell: 0 exact, infinite not
    measured. ``cells``: Cells of the tables that it is for.

    ``below``: (nodes, cells or 1) variance of each node's best estimate from what was measured at and below
    it.

    Raises
    ------
    MechanismError
        For nodes that the measurements do not determine, as soon as more than ``below`` is asked for.

    Examples
    --------
    Two parts measured with variance 1, and their whole too: each has the variance 2/3, and so has their sum.

    >>> squares = TreeLeastSquares(Hierarchy([-1, 0, 0]), np.ones((3, 1)))
    >>> squares.variances.ravel().round(3).tolist()
    [0.667, 0.667, 0.667]
    >>> squares.sum_variances(np.array([False, True, True])).round(3).tolist()
    [0.667, 0.667, 0.667]
    """

    def __init__(self, tree: Hierarchy, variances: Floats, cells: int = 1) -> None:
        self.tree, self.measured, self._cells = tree, variances, cells
        self.below = variances.copy()
        self._up = [(block, 1.0 - weight) for block, _, weight in _upward(tree, self.below, cells)]

    @property
    def variances(self) -> Floats:
        """(nodes, cells or 1) variance of each node's estimate from all measurements."""
        return self._passed_down[0]

    @cached_property
    def _passed_down(self) -> tuple[Floats, list[tuple[Block, Floats]]]:
        variances = self.below.copy()
        down = list(_downward(self.tree, variances, self._cells))
        return variances, down

    def times(self, vector: Floats) -> Floats:
        """Return the covariance of the estimates times ``vector`` (nodes, cells); leaves are measured."""
        moved: Floats = self.below * vector
        for block, rest in self._up:
            moved[block.parents] += rest * block.total(moved[block.children])
        for block, share in self._passed_down[1]:
            below = moved[block.children]
            correction = moved[block.parents] - block.total(below)
            moved[block.children] = below + share * block.to_children(correction)
        return moved

    def sum_variances(self, chosen: Bools) -> Floats:
        """Return the variance of the sum of the estimates of the chosen leaves below each node.

        ``chosen`` (nodes,), or (nodes, sums), says which leaves are summed; the result has its shape.
        Derivation: docs/explanation/errors-of-answers.md.
        """
        slope = np.where(self.tree.leaf[:, None] & chosen.reshape(self.tree.nodes, -1), 1.0, 0.0)
        rest = np.zeros_like(slope)
        for block in self.tree.up():
            own = self.below[block.children]
            total = block.total(own)
            # Children that are all exactly known err in nothing: any slope will do.
            mean = block.total(slope[block.children] * own) / np.where(total > 0, total, 1.0)
            apart = (slope[block.children] - block.to_children(mean)) ** 2 * own
            slope[block.parents] = mean
            rest[block.parents] = block.total(rest[block.children] + apart)
        return np.asarray(slope**2 * self.variances + rest).reshape(chosen.shape)


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


def _in_parallel(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Return two variances in parallel, a b / (a + b), and the share a / (a + b); exact at 0 and infinity."""
    low, high = np.minimum(one, other), np.maximum(one, other)
    ratio = np.divide(low, high, out=np.zeros_like(low), where=(high > 0) & (low < np.inf))
    both = 1.0 / (1.0 + ratio)
    return low * both, np.where(one <= other, ratio * both, both)


def _upward(tree: Hierarchy, below: Floats, cells: int) -> Iterator[tuple[Block, Floats, Floats]]:
    """Turn variances of measurements into those of subtree estimates, in place: s to t.

    Yields for each block the variance of the sum of its children, (families, cells or 1), and the weight of
    the parent's own measurement next to it.
    """
    for block in tree.up(cells):
        children = block.total(below[block.children])
        below[block.parents], weight = _in_parallel(children, below[block.parents])
        yield block, children, weight


def _downward(tree: Hierarchy, below: Floats, cells: int) -> Iterator[tuple[Block, Floats]]:
    """Turn variances of subtree estimates into those of final ones, in place: t to V.

    Yields for each block the children's shares of what is missing, (members, cells or 1).
    """
    some_unknown = bool(np.isinf(below).any())
    if some_unknown:
        _refuse_undetermined(tree, below, tree.roots, np.isinf(below[tree.roots]))
    for block in tree.down(cells):
        own = below[block.children]
        if some_unknown:
            unknown = np.isinf(own)
            several = block.to_children(block.total(unknown.astype(np.int64)) > 1) & unknown
            _refuse_undetermined(tree, below, block.children, several)
        within, share = _in_parallel(own, _sibling_variances(block, own))
        yield block, share
        below[block.children] = within + share * share * block.to_children(below[block.parents])


def _sibling_variances(block: Block, own: Floats) -> Floats:
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
    at, cell = (int(result[0]) for result in np.nonzero(wrong))
    node = int(np.arange(tree.nodes)[rows][at])
    while not tree.leaf[node]:
        # An unknown sum has an unknown term.
        node = int(np.flatnonzero((tree.parents == node) & np.isinf(below[:, cell]))[0])
    raise MechanismError(
        f"node {node} is not measured and the other measurements do not determine it",
        where="inference",
        hint="measure it, or leave its level out of the hierarchy",
    )
