"""Non-negative values for several tables that keep agreeing, totals settled before parts.

As for one table (``nonnegativity``), a number that is far from zero keeps its unbiased estimate because it
is settled before anything that it is made of. With several tables there are more such numbers: the grand
total, then each shared margin, then the tables given their margins (``walk``). At every step the numbers are
the nearest non-negative ones, each weighed by the inverse of its variance, under what is settled.

A table that shares several margins inside a hierarchy can find no such numbers. Then all margins and tables
of this depth are projected at once, with their parents as settled before: that has a solution (share out
every parent alike), at the price of moving margins for the sake of cells. How often this happened is returned.

Exact values stay. Bounds for the numbers above them are worked out first, as for one table. Scattered exact
cells can still leave a depth without a solution; then everything is projected at once, and if that has no
solution either, the exact values contradict each other, and the call raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from mechanisms.errors import MechanismError
from mechanisms.inference.estimate import Estimate
from mechanisms.inference.joint import Joint
from mechanisms.inference.overlap import Frame, Key, Overlap, View
from mechanisms.inference.polytope import InfeasibleError, incidence, project, project_families
from mechanisms.inference.walk import Margins, Step, canonical, margins_of, show, tables_of, walk

Floats = NDArray[np.float64]

CERTAIN = 1e-9
"""Variances below this part of the largest one are exact."""


@dataclass(frozen=True, eq=False, slots=True)
class NonNegative(Joint):
    """Non-negative estimates; ``variances`` are still those of the linear ones.

    Attributes
    ----------
    at_once
        How many depths had to be projected at once, with their margins.
    """

    at_once: int = 0


def joint_nonnegativity(joint: Joint) -> NonNegative:
    """Return estimates >= 0 that add up and agree as before.

    Parameters
    ----------
    joint
        What ``joint_consistency`` returned. Cells of variance 0 are kept as they are.

    Raises
    ------
    MechanismError
        When an exact value is negative, or exact values leave no non-negative solution.
    """
    overlap = joint.overlap
    margins = margins_of(overlap, {name: each.values for name, each in joint.estimates.items()})
    weights = weights_of(joint)
    bounds = _bounds(overlap, margins, weights)
    settled = {key: np.zeros_like(table) for key, table in margins.items()}
    at_once = 0
    depths = list(walk(overlap))
    try:
        for steps in depths:
            at_once += _settle_depth(steps, margins, weights, bounds, settled)
    except InfeasibleError:
        at_once = len(depths)
        try:
            _settle_at_once([step for steps in depths for step in steps], margins, weights, bounds, settled)
        except InfeasibleError:
            raise MechanismError(
                "exact values leave no non-negative tables that agree",
                where="inference",
                mend="drop one of the invariants, or leave non-negativity out",
            ) from None
    values = tables_of(overlap, settled)
    estimates = {name: Estimate(values[name], each.variances) for name, each in joint.estimates.items()}
    return NonNegative(
        overlap, estimates, joint.method, joint.variances, joint.probes, overlap.gap(values), at_once
    )


def weights_of(joint: Joint) -> Margins:
    """Return variances of every margin's numbers, good enough to weigh them: the least of any table's sum."""
    found = {}
    for key in joint.overlap.keys:
        frame = joint.overlap.frame_of(key)
        least = np.full((frame.tree.nodes, frame.cells), np.inf)
        for name in joint.overlap.holding(key):
            shown = show(joint.overlap, name, key, joint.estimates[name].variances)
            least[: len(shown)] = np.minimum(least[: len(shown)], shown)
        least[least <= CERTAIN * least.max()] = 0.0
        found[key] = least
    return found


def _bounds(overlap: Overlap, margins: Margins, weights: Margins) -> Margins:
    """Return what exact values demand of every number: itself, its children, its cells."""
    bounds = {}
    for key, table in margins.items():
        exact = weights[key] == 0
        grain = 1e-6 + 1e-9 * float(np.abs(table).max())
        if (exact & (table < -grain)).any():
            raise MechanismError(
                f"an exact value of the margin {key} is negative",
                where="inference",
                mend="exact values of counts must be at least zero",
            )
        bounds[key] = np.where(exact, np.maximum(table, 0.0), 0.0)
    if not any(bound.any() for bound in bounds.values()):
        return bounds
    frames = {key: overlap.frame_of(key) for key in overlap.keys}
    for key in reversed(overlap.keys):
        exact, bound = weights[key] == 0, bounds[key]
        for block in frames[key].tree.up(bound.shape[1]):
            demand = np.maximum(bound[block.parents], block.total(bound[block.children]))
            bound[block.parents] = np.where(exact[block.parents], bound[block.parents], demand)
        for sub in overlap.keys:
            if sub != key and sub.within(key):
                nodes = min(frames[sub].tree.nodes, frames[key].tree.nodes) if sub.along else 1
                shown = _grouped(key, sub, bound, frames)[:nodes]
                demand = np.maximum(bounds[sub][:nodes], shown)
                free = weights[sub][:nodes] > 0
                bounds[sub][:nodes] = np.where(free, demand, bounds[sub][:nodes])
    return bounds


def _grouped(key: Key, sub: Key, table: Floats, frames: Mapping[Key, Frame]) -> Floats:
    nodes = min(frames[sub].tree.nodes, frames[key].tree.nodes)
    rows = np.arange(nodes) if sub.along else None
    return View(canonical(frames[key]), sub, rows).gather(table)


def _settle_depth(
    steps: list[Step], margins: Margins, weights: Margins, bounds: Margins, settled: Margins
) -> bool:
    """Settle one depth; say whether it had to be done at once."""
    try:
        for step in steps:
            settled[step.key][step.rows] = _settle(step, margins, weights, bounds, settled)
    except InfeasibleError:
        _settle_at_once(steps, margins, weights, bounds, settled)
        return True
    return False


def _settle(step: Step, margins: Margins, weights: Margins, bounds: Margins, settled: Margins) -> Floats:
    """Return the step's numbers (rows, cells)."""
    shape = settled[step.key][step.rows].shape
    values, spread, least = (each[step.key][step.rows].ravel() for each in (margins, weights, bounds))
    sums = [condition.sums(settled) for condition in step.conditions]
    exact = spread == 0
    if not step.conditions:
        return np.maximum(values, least).reshape(shape)
    moved = np.zeros_like(values)
    free = ~exact
    labels = [condition.labels[free] for condition in step.conditions]
    left = [
        total - np.bincount(condition.labels[held], weights=least[held], minlength=len(total))
        for condition, total in zip(step.conditions, sums, strict=True)
        for held in [condition.labels >= 0]
    ]
    if len(labels) == 1:
        _refuse_short(labels[0], left[0])
        part = project_families(values[free] - least[free], spread[free], labels[0], left[0])
    else:
        system = incidence(labels, [len(total) for total in sums])
        part = project(values[free] - least[free], spread[free], system, np.concatenate(left))
    moved[free] = part
    return (least + moved).reshape(shape)


def _refuse_short(labels: NDArray[np.intp], left: Floats) -> None:
    """Raise when exact values already take more than there is, or leave nobody to take the rest."""
    slack = 1e-6 * (1.0 + np.abs(left).max(initial=0.0))
    filled = np.bincount(labels[labels >= 0], minlength=len(left)) > 0
    if (left < -slack).any() or (np.abs(left[~filled]) > slack).any():
        raise InfeasibleError


def _settle_at_once(
    steps: list[Step], margins: Margins, weights: Margins, bounds: Margins, settled: Margins
) -> None:
    """Project all margins of one depth together; conditions between them become equations."""
    here = np.cumsum([0, *(settled[step.key][step.rows].size for step in steps)])
    columns = {step.key: np.full(settled[step.key].shape, -1) for step in steps}
    for step, first in zip(steps, here, strict=False):
        shape = settled[step.key][step.rows].shape
        columns[step.key][step.rows] = first + np.arange(shape[0] * shape[1]).reshape(shape)
    systems, sums = [], []
    for step, first in zip(steps, here, strict=False):
        for condition in step.conditions:
            total = condition.sums(settled)
            labels = np.full(here[-1], -1)
            labels[first : first + condition.labels.size] = condition.labels
            system = incidence([labels], [len(total)])
            if condition.source in columns:
                # A sum that is not settled yet is one of the numbers sought.
                sought = columns[condition.source][condition.rows].ravel()
                held = np.flatnonzero(sought >= 0)
                entries = (np.ones(held.size), (held, sought[held]))
                system = system - sparse.csr_array(entries, shape=system.shape)
                total[held] = 0.0
            systems.append(system)
            sums.append(total)
    values, spread, least = (
        np.concatenate([each[step.key][step.rows].ravel() for step in steps])
        for each in (margins, weights, bounds)
    )
    whole = sparse.vstack(systems).tocsr()
    left = np.concatenate(sums) - whole @ least
    free = np.flatnonzero(spread > 0)
    found = least.copy()
    found[free] += project(values[free] - least[free], spread[free], whole[:, free], left)
    for step, first in zip(steps, here, strict=False):
        rows = settled[step.key][step.rows]
        settled[step.key][step.rows] = found[first : first + rows.size].reshape(rows.shape)
