"""Non-negative values for several tables that keep agreeing, totals settled before parts.

As for one table (``nonnegativity``), a number that is far from zero keeps its unbiased estimate because it
is settled before anything that it is made of. With several tables there are more such numbers: the grand
total, then each shared margin, then the tables given their margins (``walk``). At every step the numbers are
the nearest non-negative ones, each weighed by the inverse of its variance, under what is settled.

A table that shares several margins inside a hierarchy can find no such numbers. Then all margins and tables
of this family are projected at once, with the parent as settled before: that has a solution (share out
every parent alike), at the price of moving margins for the sake of cells. How often is returned.

Exact values stay. Bounds for the numbers above them are worked out first, as for one table. Scattered exact
cells can still leave a family without a solution; then everything is projected at once, and if that has no
solution either, the exact values contradict each other, and the call raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mechanisms.errors import MechanismError
from mechanisms.inference.estimate import Estimate
from mechanisms.inference.joint.joint_consistency import checked_estimates
from mechanisms.inference.joint.nonnegative_projection import incidence, project, project_families
from mechanisms.inference.joint.settling_order import (
    Margins,
    Step,
    below,
    joined,
    margins_of,
    parted,
    tables_of,
    walk,
    weights_of,
)
from mechanisms.inference.joint.shared_marginals import Key, Overlap, View
from mechanisms.inference.nonnegativity import nonnegativity

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Whole = NDArray[np.intp]


@dataclass(frozen=True, eq=False, slots=True)
class NonNegative:
    """Non-negative estimates of several tables.

    Attributes
    ----------
    estimates
        Table name to its estimate; ``variances`` are still those of the linear ones.
    gap
        Largest difference left between two views of a shared margin (rounding).
    families
        How many families had to be projected at once with their margins.
    everything
        True where all numbers of all tables had to be.
    """

    estimates: dict[str, Estimate]
    gap: float
    families: int
    everything: bool

    def diagnostics(self) -> dict[str, object]:
        """Return how the numbers were made, as JSON-able values."""
        return {
            "largest_gap": self.gap,
            "families_at_once": self.families,
            "everything_at_once": self.everything,
        }


def joint_nonnegativity(overlap: Overlap, estimates: Mapping[str, Estimate]) -> NonNegative:
    """Return estimates >= 0 that add up and agree as before.

    Parameters
    ----------
    overlap
        The tables' shapes.
    estimates
        Table name to the estimate that ``joint_consistency`` returned. Cells of variance 0 are kept.

    Raises
    ------
    MechanismError
        For estimates that are missing, not finite or of the wrong shape, when an exact value is negative,
        or when exact values leave no non-negative solution.

    Notes
    -----
    One table alone is left to ``nonnegativity``. Otherwise time is about linear in the number of cells, with
    some twenty sparse factorisations for every depth of a table that shares a margin along its hierarchy.

    Examples
    --------
    Both tables have 10 people; the middle age cannot be -1, so its lack is taken from the other two alike.

    >>> import numpy as np
    >>> from mechanisms.inference.joint.shared_marginals import Frame
    >>> tables = Overlap({"all": Frame(), "ages": Frame({"age": 3})})
    >>> given = {"all": Estimate(np.array([[10.0]]), np.ones((1, 1))),
    ...          "ages": Estimate(np.array([[8.0, -1.0, 3.0]]), np.ones((1, 1)))}
    >>> joint_nonnegativity(tables, given).estimates["ages"].values.tolist()
    [[7.5, 0.0, 2.5]]
    """
    given = checked_estimates(overlap, estimates)
    if len(overlap.frames) == 1:
        ((name, frame),) = overlap.frames.items()
        return NonNegative({name: nonnegativity(frame.tree, given[name])}, 0.0, 0, False)
    work = _Projection(overlap, given)
    settled, everything = work.run()
    values = tables_of(overlap, settled)
    found = {name: Estimate(values[name], each.variances) for name, each in given.items()}
    return NonNegative(found, overlap.gap(values), work.families, everything)


class _Projection:
    """Numbers of all margins on their way to non-negative ones.

    Attributes
    ----------
    families
        Families projected at once so far.
    """

    def __init__(self, overlap: Overlap, estimates: Mapping[str, Estimate]) -> None:
        self.families = 0
        self._overlap = overlap
        self._margins = margins_of(overlap, {name: each.values for name, each in estimates.items()})
        self._weights = weights_of(overlap, {name: each.variances for name, each in estimates.items()})
        self._bounds = _bounds(overlap, self._margins, self._weights)

    def run(self) -> tuple[Margins, bool]:
        """Return the numbers, and whether all of them had to be projected at once."""
        settled = {key: np.zeros_like(table) for key, table in self._margins.items()}
        depths = list(walk(self._overlap))
        if all(self._settle_depth(steps, settled) for steps in depths):
            return settled, False
        if not self._settle_at_once([step for steps in depths for step in steps], settled):
            raise MechanismError(
                "exact values leave no non-negative tables that agree",
                where="inference",
                mend="drop one of the invariants, or leave non-negativity out",
            )
        return settled, True

    def _settle_depth(self, steps: list[Step], settled: Margins) -> bool:
        """Settle one depth, families without a solution at once; say whether all is well."""
        stuck: list[Whole] = []
        for step in steps:
            wrong = self._settle(step, settled)
            if wrong.any():
                if step.key.along is None or step.conditions[0].source != step.key:
                    # There is no parent to tell one family from another.
                    self.families += 1
                    return self._settle_at_once(steps, settled)
                tree = self._overlap.shapes[step.key].tree
                stuck.append(tree.parents[step.rows[wrong]])
        if not stuck:
            return True
        parents = np.unique(np.concatenate(stuck))
        self.families += len(parents)
        return self._settle_at_once([below(self._overlap, step, parents) for step in steps], settled)

    def _settle(self, step: Step, settled: Margins) -> Bools:
        """Settle the step's numbers; return which rows have no solution (rows,)."""
        shape = settled[step.key][step.rows].shape
        values, spread, least = self._taken(step)
        if not step.conditions:
            settled[step.key][step.rows] = np.maximum(values, least).reshape(shape)
            return np.zeros(shape[0], dtype=bool)
        free = spread > 0
        labels, left, size = [], [], 0.0
        for condition in step.conditions:
            total, held = condition.sums(settled), condition.labels >= 0
            size = max(size, float(np.abs(total).max(initial=0.0)))
            labels.append(condition.labels)
            left.append(total - np.bincount(condition.labels[held], least[held], len(total)))
        loose = [label[free] for label in labels]
        if len(labels) == 1:
            part, wrong = project_families(values[free] - least[free], spread[free], loose[0], left[0], size)
        else:
            system = incidence(loose, [len(total) for total in left])
            target, apart = values[free] - least[free], _longest(left)
            part, wrong = project(target, spread[free], system, np.concatenate(left), apart, size)
        moved = np.zeros_like(values)
        moved[free] = part
        settled[step.key][step.rows] = (least + moved).reshape(shape)
        failed, here = np.zeros(values.size, dtype=bool), 0
        for label, total in zip(labels, left, strict=True):
            failed[(label >= 0) & wrong[here + label]] = True
            here += len(total)
        return np.asarray(failed.reshape(shape).any(axis=1), dtype=bool)

    def _settle_at_once(self, steps: Sequence[Step], settled: Margins) -> bool:
        """Project all margins of these steps together; conditions between them become equations."""
        whole, sums, _ = joined(steps, settled)
        values, spread, least = (
            np.concatenate(each) for each in zip(*(self._taken(step) for step in steps), strict=True)
        )
        left = np.concatenate(sums) - whole @ least
        free = np.flatnonzero(spread > 0)
        found = least.copy()
        target = values[free] - least[free]
        size = max(float(np.abs(each).max(initial=0.0)) for each in (*sums, least))
        moved, wrong = project(target, spread[free], whole[:, free], left, _longest(sums), size)
        found[free] += moved
        parted(steps, found, settled)
        return not wrong.any()

    def _taken(self, step: Step) -> tuple[Floats, Floats, Floats]:
        """Return the step's values, weights and bounds, (rows x cells,) each."""
        values, spread, least = (
            each[step.key][step.rows].ravel() for each in (self._margins, self._weights, self._bounds)
        )
        return values, spread, least


def _longest(sums: Sequence[Floats]) -> Bools:
    """Mark the largest of several sets of conditions, laid end to end."""
    sizes = np.array([len(total) for total in sums])
    marked: Bools = np.repeat(np.arange(len(sizes)) == sizes.argmax(), sizes)
    return marked


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
    for key in reversed(overlap.keys):
        exact, bound = weights[key] == 0, bounds[key]
        for block in overlap.shapes[key].tree.up(bound.shape[1]):
            demand = np.maximum(bound[block.parents], block.total(bound[block.children]))
            bound[block.parents] = np.where(exact[block.parents], bound[block.parents], demand)
        for sub in overlap.keys:
            if sub != key and sub.within(key):
                shown = _grouped(overlap, key, sub, bound)
                nodes = len(shown)
                demand = np.maximum(bounds[sub][:nodes], shown)
                bounds[sub][:nodes] = np.where(weights[sub][:nodes] > 0, demand, bounds[sub][:nodes])
    return bounds


def _grouped(overlap: Overlap, key: Key, sub: Key, table: Floats) -> Floats:
    frame = overlap.shapes[key]
    nodes = min(overlap.shapes[sub].tree.nodes, frame.tree.nodes)
    return View(frame, sub, np.arange(nodes) if sub.along else None).gather(table)
