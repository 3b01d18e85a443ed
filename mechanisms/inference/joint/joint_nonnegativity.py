"""Non-negative values for several tables that keep agreeing, totals settled before parts.

As for one table (``nonnegativity``), a number that is far from zero keeps its unbiased estimate because it
is settled before anything that it is made of. With several tables there are more such numbers: the grand
total, then each shared marginal, then the tables given their marginals (``settling_order``). At every step
the numbers are the nearest non-negative ones, each weighed by the inverse of its variance, under the sums
that are settled.

A table that shares several marginals inside a hierarchy can find no such numbers. Then all marginals and
tables of this family are projected at once, with the parent as settled before. That has a solution (every
parent shared out alike), at the price of moving marginals for the sake of cells. How often this was needed is
returned.

Exact values stay. Bounds for the numbers above them are worked out first, as for one table. Scattered exact
cells can still leave a family without a solution; then everything is projected at once, and if that has no
solution either, the exact values contradict each other, and the call raises.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference.estimate import Estimate
from tabularium.mechanisms.inference.joint.joint_consistency import checked_estimates
from tabularium.mechanisms.inference.joint.nonnegative_projection import project, project_families
from tabularium.mechanisms.inference.joint.settling_order import (
    MarginalTables,
    Step,
    failed_families,
    incidence,
    marginal_tables,
    marginal_variances,
    settling_order,
    stacked,
    step_for_children,
    tables_of,
    unstacked,
)
from tabularium.mechanisms.inference.joint.shared_marginals import Marginal, Overlap, View
from tabularium.mechanisms.inference.nonnegativity import nonnegativity


@dataclass(frozen=True, eq=False, slots=True)
class NonNegative:
    """Non-negative estimates of several tables.

    Attributes
    ----------
    estimates
        Table name to its estimate; ``variances`` are still those of the linear ones.
    gap
        Largest difference left between two views of a shared marginal (rounding).
    families
        How many families had to be projected at once with their marginals.
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
    some twenty sparse factorisations for every depth of a table that shares a marginal along its hierarchy.

    Examples
    --------
    Both tables have 10 people; the middle age cannot be -1, so its lack is taken from the other two alike.

    >>> import numpy as np
    >>> from tabularium.mechanisms.inference.joint.shared_marginals import Frame
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
    """Numbers of all marginals on their way to non-negative ones.

    Attributes
    ----------
    families
        Families projected at once so far.
    """

    def __init__(self, overlap: Overlap, estimates: Mapping[str, Estimate]) -> None:
        self.families = 0
        self._overlap = overlap
        self._marginals = marginal_tables(overlap, {name: each.values for name, each in estimates.items()})
        variances = {name: each.variances for name, each in estimates.items()}
        self._variances = marginal_variances(overlap, variances)
        self._bounds = _bounds(overlap, self._marginals, self._variances)

    def run(self) -> tuple[MarginalTables, bool]:
        """Return the numbers, and whether all of them had to be projected at once."""
        settled = {marginal: np.zeros_like(table) for marginal, table in self._marginals.items()}
        depths = list(settling_order(self._overlap))
        if all(self._settle_depth(steps, settled) for steps in depths):
            return settled, False
        if not self._settle_at_once([step for steps in depths for step in steps], settled):
            raise MechanismError(
                "exact values leave no non-negative tables that agree",
                where="inference",
                hint="drop one of the invariants, or leave non-negativity out",
            )
        return settled, True

    def _settle_depth(self, steps: list[Step], settled: MarginalTables) -> bool:
        """Settle one depth, families without a solution at once; say whether all is well."""
        parents = failed_families(self._overlap, steps, lambda step: self._settle(step, settled))
        if parents is None:
            self.families += 1
            return self._settle_at_once(steps, settled)
        if not parents.size:
            return True
        self.families += len(parents)
        families = [step_for_children(self._overlap, step, parents) for step in steps]
        return self._settle_at_once(families, settled)

    def _settle(self, step: Step, settled: MarginalTables) -> Bools:
        """Settle the step's numbers; return which rows have no solution (rows,)."""
        values, variances, least = self._taken(step)
        if not step.conditions:
            step.put(np.maximum(values, least), settled)
            return np.zeros(len(step.rows), dtype=bool)
        free = variances > 0
        left, size = [], 0.0
        for condition in step.conditions:
            total, held = condition.sums(settled), condition.labels >= 0
            size = max(size, float(np.abs(total).max(initial=0.0)))
            left.append(total - np.bincount(condition.labels[held], least[held], len(total)))
        labels = [condition.labels[free] for condition in step.conditions]
        target, weights = values[free] - least[free], variances[free]
        if len(labels) == 1:
            part, wrong = project_families(target, weights, labels[0], left[0], size)
        else:
            system = incidence(labels, [len(total) for total in left])
            part, wrong = project(target, weights, system, np.concatenate(left), _longest(left), size)
        moved = np.zeros_like(values)
        moved[free] = part
        step.put(least + moved, settled)
        failed, first = np.zeros(values.size, dtype=bool), 0
        for condition, total in zip(step.conditions, left, strict=True):
            failed[(condition.labels >= 0) & wrong[first + condition.labels]] = True
            first += len(total)
        return np.asarray(failed.reshape(len(step.rows), -1).any(axis=1), dtype=bool)

    def _settle_at_once(self, steps: Sequence[Step], settled: MarginalTables) -> bool:
        """Project all marginals of these steps together; conditions between them become equations."""
        system, sums, _ = stacked(steps, settled)
        values, variances, least = (
            np.concatenate(each) for each in zip(*(self._taken(step) for step in steps), strict=True)
        )
        left = np.concatenate(sums) - system @ least
        free = np.flatnonzero(variances > 0)
        found = least.copy()
        target = values[free] - least[free]
        size = max(float(np.abs(each).max(initial=0.0)) for each in (*sums, least))
        moved, wrong = project(target, variances[free], system[:, free], left, _longest(sums), size)
        found[free] += moved
        unstacked(steps, found, settled)
        return not wrong.any()

    def _taken(self, step: Step) -> tuple[Floats, Floats, Floats]:
        """Return the step's values, variances and bounds, (rows x cells,) each."""
        return step.take(self._marginals), step.take(self._variances), step.take(self._bounds)


def _longest(sums: Sequence[Floats]) -> Bools:
    """Mark the largest of several sets of conditions, laid end to end."""
    sizes = np.array([len(total) for total in sums])
    marked: Bools = np.repeat(np.arange(len(sizes)) == sizes.argmax(), sizes)
    return marked


def _bounds(overlap: Overlap, marginals: MarginalTables, variances: MarginalTables) -> MarginalTables:
    """Return what exact values demand of every number: itself, its children, its cells."""
    bounds = {}
    for marginal, table in marginals.items():
        exact = variances[marginal] == 0
        grain = 1e-6 + 1e-9 * float(np.abs(table).max())
        if (exact & (table < -grain)).any():
            raise MechanismError(
                f"an exact value of the marginal {marginal} is negative",
                where="inference",
                hint="exact values of counts must be at least zero",
            )
        bounds[marginal] = np.where(exact, np.maximum(table, 0.0), 0.0)
    if not any(bound.any() for bound in bounds.values()):
        return bounds
    for marginal in reversed(overlap.marginals):
        exact, bound = variances[marginal] == 0, bounds[marginal]
        for block in overlap.shapes[marginal].tree.up(bound.shape[1]):
            demand = np.maximum(bound[block.parents], block.total(bound[block.children]))
            bound[block.parents] = np.where(exact[block.parents], bound[block.parents], demand)
        for sub in overlap.marginals:
            if sub != marginal and sub.within(marginal):
                shown = _summed(overlap, marginal, sub, bound)
                above = bounds[sub][: len(shown)]
                free = variances[sub][: len(shown)] > 0
                bounds[sub][: len(shown)] = np.where(free, np.maximum(above, shown), above)
    return bounds


def _summed(overlap: Overlap, marginal: Marginal, sub: Marginal, table: Floats) -> Floats:
    """Add a marginal's numbers up to those of a smaller one, at all nodes that both have."""
    frame = overlap.shapes[marginal]
    nodes = min(overlap.shapes[sub].tree.nodes, frame.tree.nodes)
    return View(frame, sub, np.arange(nodes) if sub.along else None).gather(table)
