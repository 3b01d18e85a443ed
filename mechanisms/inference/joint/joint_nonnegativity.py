"""Non-negative values for several tables that keep agreeing, totals settled before parts.

At every step of ``projection_schedule`` the numbers are the nearest non-negative ones, each weighed by the
inverse of its variance, under the sums that are settled: as for one table, totals keep their unbiased
estimates. A family without such numbers (a table that shares several marginals inside a hierarchy) is
projected at once with its marginals; how often that was needed is returned. Exact values stay, as lower
bounds of the numbers above them; where they leave no solution at all the call raises.

A step is an interior-point method (Mehrotra 1992) with a last exact solve, O(cells) but for some twenty
sparse factorisations: docs/explanation/inference.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats, Indices
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference.estimate import Estimate
from tabularium.mechanisms.inference.family_projection import Families
from tabularium.mechanisms.inference.joint.joint_consistency import checked_estimates
from tabularium.mechanisms.inference.joint.projection_schedule import (
    CERTAIN,
    MarginalTables,
    Step,
    failed_families,
    incidence,
    marginal_tables,
    marginal_variances,
    projection_schedule,
    stacked,
    step_for_children,
    summed,
    tables_of,
    unstacked,
)
from tabularium.mechanisms.inference.joint.shared_marginals import TableSet
from tabularium.mechanisms.inference.nonnegativity import nonnegativity

if TYPE_CHECKING:
    from scipy import sparse


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


def joint_nonnegativity(
    table_set: TableSet, estimates: Mapping[str, Estimate], *, certain: float = CERTAIN
) -> NonNegative:
    """Return estimates >= 0 that add up and agree as before.

    Parameters
    ----------
    estimates
        Table name to the estimate that ``joint_consistency`` returned. Cells of variance 0 are kept.
    certain
        As of ``marginal_variances``.

    Raises
    ------
    MechanismError
        For estimates that are missing, not finite or of the wrong shape, when an exact value is negative,
        or when exact values leave no non-negative solution.

    Notes
    -----
    A single table is left to ``nonnegativity``. Otherwise time is about linear in the number of cells, with
    some twenty sparse factorisations for every depth of a table that shares a marginal along its hierarchy.

    Examples
    --------
    Both tables have 10 people; the middle age cannot be -1, so its lack is taken from the other two alike.

    >>> from tabularium.mechanisms.inference.joint.shared_marginals import TableShape
    >>> tables = TableSet({"all": TableShape(), "ages": TableShape({"age": 3})})
    >>> given = {"all": Estimate(np.array([[10.0]]), np.ones((1, 1))),
    ...          "ages": Estimate(np.array([[8.0, -1.0, 3.0]]), np.ones((1, 1)))}
    >>> joint_nonnegativity(tables, given).estimates["ages"].values.tolist()
    [[7.5, 0.0, 2.5]]
    """
    given = checked_estimates(table_set, estimates)
    if len(table_set.tables) == 1:
        ((name, frame),) = table_set.tables.items()
        return NonNegative({name: nonnegativity(frame.tree, given[name])}, 0.0, 0, False)
    work = _Projection(table_set, given, certain)
    settled, everything = work.run()
    values = tables_of(table_set, settled)
    result = {name: Estimate(values[name], item.variances) for name, item in given.items()}
    return NonNegative(result, table_set.gap(values), work.families, everything)


class _Projection:
    """Numbers of all marginals on their way to non-negative ones.

    ``families``: Families projected at once so far.
    """

    def __init__(self, table_set: TableSet, estimates: Mapping[str, Estimate], certain: float) -> None:
        self.families = 0
        self._table_set = table_set
        self._marginals = marginal_tables(table_set, {name: item.values for name, item in estimates.items()})
        variances = {name: item.variances for name, item in estimates.items()}
        self._variances = marginal_variances(table_set, variances, certain)
        self._bounds = _bounds(table_set, self._marginals, self._variances)

    def run(self) -> tuple[MarginalTables, bool]:
        """Return the numbers, and whether all of them had to be projected at once."""
        settled = {marginal: np.zeros_like(table) for marginal, table in self._marginals.items()}
        depths = list(projection_schedule(self._table_set))
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
        parents = failed_families(self._table_set, steps, lambda step: self._settle(step, settled))
        if parents is None:
            self.families += 1
            return self._settle_at_once(steps, settled)
        if not parents.size:
            return True
        self.families += len(parents)
        families = [step_for_children(self._table_set, step, parents) for step in steps]
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
            np.concatenate(item) for item in zip(*(self._taken(step) for step in steps), strict=True)
        )
        left = np.concatenate(sums) - system @ least
        free = np.flatnonzero(variances > 0)
        result = least.copy()
        target = values[free] - least[free]
        size = max(float(np.abs(item).max(initial=0.0)) for item in (*sums, least))
        moved, wrong = project(target, variances[free], system[:, free], left, _longest(sums), size)
        result[free] += moved
        unstacked(steps, result, settled)
        return not wrong.any()

    def _taken(self, step: Step) -> tuple[Floats, Floats, Floats]:
        """Return the step's values, variances and bounds, (rows x cells,) each."""
        return step.take(self._marginals), step.take(self._variances), step.take(self._bounds)


def _longest(sums: Sequence[Floats]) -> Bools:
    """Mark the largest of several sets of conditions, laid end to end."""
    sizes = np.array([len(total) for total in sums])
    return np.asarray(np.repeat(np.arange(len(sizes)) == sizes.argmax(), sizes))


def _bounds(table_set: TableSet, marginals: MarginalTables, variances: MarginalTables) -> MarginalTables:
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
    for marginal in reversed(table_set.marginals):
        exact, bound = variances[marginal] == 0, bounds[marginal]
        for block in table_set.shapes[marginal].tree.up(bound.shape[1]):
            demand = np.maximum(bound[block.parents], block.total(bound[block.children]))
            bound[block.parents] = np.where(exact[block.parents], bound[block.parents], demand)
        for sub in table_set.marginals:
            if sub != marginal and sub.within(marginal):
                nodes = table_set.shapes[sub].tree.nodes
                shown = summed(table_set.shapes[marginal], bound, sub, nodes)
                above = bounds[sub][: len(shown)]
                free = variances[sub][: len(shown)] > 0
                bounds[sub][: len(shown)] = np.where(free, np.maximum(above, shown), above)
    return bounds


STEPS = 50
"""Interior-point steps before a part is taken to have no solution; none that has one took more than 25."""
EXACT = 1e-11
"""Residual, relative to a part's largest sum, at which the conditions are met."""
GRAIN = 1e-11
"""Part of the largest number that sums of doubles, after least squares, may be off by."""
ENOUGH = 1e-8
"""Residual that is accepted at the end."""
CLOSE = 1e-20
"""Complementarity, relative to its start, at which the search ends: its square root is the distance."""
SHORT = 0.3
"""A step shorter than this was misled by its corrector."""
DENSE = 20_000
"""Conditions times numbers up to which plain arrays are quicker than sparse ones."""
TINY = 1e-300
RIDGE = 1e-13
"""Added to the diagonal, relatively."""


def project_families(
    values: Floats, weights: Floats, labels: Indices, sums: Floats, size: float = 0.0
) -> tuple[Floats, Bools]:
    """Project under disjoint conditions; numbers of label -1 are cut off at zero.

    Returns the numbers, and which conditions have no solution: a negative sum, or one that no number counts
    towards and is not zero. The other arguments are those of ``project``.
    """
    slack = max(ENOUGH * max(1.0, float(np.abs(sums).max(initial=0.0))), GRAIN * size)
    result: Floats = np.maximum(values, 0.0)
    order = np.argsort(labels, kind="stable")
    order = order[np.searchsorted(labels[order], 0) :]
    sizes = np.bincount(labels[order], minlength=len(sums))
    used = sizes > 0
    wrong = np.where(used, sums < -slack, np.abs(sums) > slack)
    starts = (np.cumsum(sizes) - sizes)[used]
    families = Families(values[order], weights[order], sums[used], starts, sizes[used])
    if order.size:
        result[order] = families.project()
    return result, wrong


def project(
    values: Floats,
    weights: Floats,
    system: sparse.csr_array,
    sums: Floats,
    disjoint: Bools,
    size: float = 0.0,
) -> tuple[Floats, Bools]:
    """Return the nearest non-negative x with ``system`` x = ``sums``, and which conditions cannot be met.

    Parameters
    ----------
    values, weights
        (numbers,) e and w > 0.
    system, sums
        (conditions, numbers) with entries 1 and -1, and (conditions,).
    disjoint
        (conditions,) True for as many conditions as possible, no two of them with a common number.
    size
        The largest number that the sums are differences of: they are no better than its last digits.

    Returns
    -------
    (numbers,) x, and (conditions,) True for those of every connected part that has no solution.
    """
    scale = max(1.0, float(np.abs(sums).max(initial=0.0)))
    result = np.zeros_like(values)
    closed, free = _closed(system, sums, 1e-13 * scale)
    lonely = np.diff(system.tocsc().indptr) == 0
    result[lonely] = np.maximum(values[lonely], 0.0)
    columns = np.flatnonzero(free & ~lonely)
    part = system[:, columns].tocsr()
    empty = np.diff(part.indptr) == 0
    slack = max(ENOUGH * scale, GRAIN * size)
    wrong = (closed & (sums < -slack)) | (empty & (np.abs(sums) > slack))
    rows = np.flatnonzero(~empty)
    if rows.size:
        problem = _Problem.of(values[columns], weights[columns], part[rows], sums[rows], disjoint[rows])
        result[columns], failed = _solve(problem, GRAIN * size)
        wrong[rows] |= failed
    return result, wrong


def _closed(system: sparse.csr_array, sums: Floats, grain: float) -> tuple[Bools, Bools]:
    """Return conditions whose numbers are all zero, and which numbers are not: they have no interior.

    A sum of zero makes all its numbers zero, and that may leave nothing to other conditions with a minus.
    """
    free = np.ones(system.shape[1], dtype=bool)
    closed = np.zeros(system.shape[0], dtype=bool)
    turned = abs(system.T).tocsr()
    while True:
        negative = (system < 0).astype(float) @ free.astype(float) > 0
        fresh = ~closed & ~negative & (sums <= grain)
        positive = (system > 0).astype(float) @ free.astype(float) > 0
        fresh |= ~closed & ~positive & (sums >= -grain) & negative
        if not fresh.any():
            return closed, free
        closed |= fresh
        free &= ~(turned @ fresh.astype(float) > 0)


@dataclass(frozen=True, eq=False, slots=True)
class _Problem:
    """Every number is in some condition; ``part`` (conditions,), ``home`` (numbers,): connected parts."""

    values: Floats
    weights: Floats
    system: sparse.csr_array | Floats
    turned: sparse.csr_array | Floats
    sums: Floats
    part: Indices
    home: Indices
    count: int
    disjoint: Bools
    halves: tuple[sparse.csr_array, sparse.csr_array]

    @classmethod
    def of(
        cls, values: Floats, weights: Floats, system: sparse.csr_array, sums: Floats, disjoint: Bools
    ) -> _Problem:
        from scipy.sparse.csgraph import connected_components

        turned = system.T.tocsr()
        count, part = connected_components(abs(system) @ abs(turned), directed=False)
        part = part.astype(np.intp)
        home = part[turned.indices[turned.indptr[:-1]]]
        halves = system[np.flatnonzero(disjoint)], system[np.flatnonzero(~disjoint)]
        if system.shape[0] * system.shape[1] <= DENSE:
            system = system.toarray()
            turned = system.T
        return cls(values, weights, system, turned, sums, part, home, count, disjoint, halves)

    def most(self, per_condition: Floats) -> Floats:
        """Return the largest of every part's conditions (count,)."""
        largest: Floats = np.zeros(self.count)
        np.maximum.at(largest, self.part, per_condition)
        return largest

    def total(self, per_number: Floats) -> Floats:
        """Add up every part's numbers (count,)."""
        return np.asarray(np.bincount(self.home, per_number, self.count).astype(np.float64))

    def solver(self, diagonal: Floats) -> Callable[[Floats], Floats]:
        """Return the map from b to y with A D A' y = b, for a diagonal (numbers,)."""
        if not isinstance(self.system, np.ndarray):
            return _Factor(self, diagonal).solve
        whole = (self.system * diagonal) @ self.turned
        whole.flat[:: len(whole) + 1] = _ridged(whole.diagonal())

        def solve(right: Floats) -> Floats:
            return np.asarray(np.linalg.solve(whole, right), dtype=np.float64)

        return solve


def _ridged(diagonal: Floats) -> Floats:
    """Lift a diagonal a little: repeated conditions, and those of no number, must not divide by zero."""
    return np.asarray(np.where(diagonal > 0, (1.0 + RIDGE) * diagonal, 1.0))


class _Factor:
    """A D A' = [P B; B' Q], with P diagonal since no two ``disjoint`` conditions share a number.

    Eliminating P by hand leaves a sparse matrix as small as the other conditions are few.
    """

    def __init__(self, problem: _Problem, diagonal: Floats) -> None:
        from scipy import sparse
        from scipy.sparse.linalg import splu

        self._disjoint, self._rest = np.flatnonzero(problem.disjoint), np.flatnonzero(~problem.disjoint)
        disjoint, rest = problem.halves
        weighted = disjoint * diagonal[None, :]
        self._top = _ridged(abs(disjoint) @ diagonal)
        self._side = (weighted @ rest.T).tocsr()
        inner = (rest * diagonal[None, :]) @ rest.T
        ridge = _ridged(inner.diagonal()) - inner.diagonal()
        if not self._rest.size:
            return
        less = self._side.T @ (self._side * (1.0 / self._top)[:, None])
        self._inner = splu(
            (inner - less + sparse.diags_array(ridge)).tocsc(),
            permc_spec="MMD_AT_PLUS_A",
            diag_pivot_thresh=0.0,
            options={"SymmetricMode": True},
        )

    def solve(self, right: Floats) -> Floats:
        """Return y (conditions,) with A D A' y = ``right``."""
        top = right[self._disjoint] / self._top
        result = np.empty_like(right)
        if self._rest.size:
            result[self._rest] = self._inner.solve(right[self._rest] - self._side.T @ top)
        result[self._disjoint] = top - (self._side @ result[self._rest]) / self._top
        return result


def _solve(problem: _Problem, grain: float) -> tuple[Floats, Bools]:
    """Return the numbers of all parts, and the conditions of the parts that have no solution.

    Conditions may be missed by ``grain``.
    """
    # Each part in a unit of its own, and weights of about 1, so that one start and one end suit all.
    members = np.bincount(problem.home, minlength=problem.count)
    unit, largest = problem.most(np.abs(problem.sums)), np.full(problem.count, TINY)
    np.maximum.at(largest, problem.home, np.abs(problem.values))
    unit = np.where(unit > 0, unit, largest)
    weight = problem.total(problem.weights) / members
    scaled = replace(
        problem,
        values=problem.values / unit[problem.home],
        weights=problem.weights / weight[problem.home],
        sums=problem.sums / unit[problem.part],
    )
    search = _InteriorPoint(scaled)
    for _ in range(STEPS):
        if not search.step():
            break
    numbers = _polished(scaled, search)
    left = scaled.most(np.abs(scaled.sums - scaled.system @ numbers))
    return numbers * unit[problem.home], (left * unit > np.maximum(ENOUGH * unit, grain))[problem.part]


class _InteriorPoint:
    """The state of the search: numbers x, slopes s >= 0 and multipliers y.

    At the solution (x - e) / w - A'y - s = 0, A x = b and x s = 0; the search keeps x, s > 0.
    """

    def __init__(self, problem: _Problem) -> None:
        self.problem = problem
        members = np.maximum(np.bincount(problem.home, minlength=problem.count), 1)
        share = problem.total(np.maximum(problem.values, 0.0)) / members + 1.0 / members
        self.x = np.maximum(problem.values, 0.0) + share[problem.home]
        slope = (self.x - problem.values) / problem.weights
        self.s = slope + (problem.total(slope) / members)[problem.home]
        self.y = np.zeros(len(problem.sums))
        self._members = members
        self._start = problem.total(self.x * self.s) / members
        self._open = np.ones(problem.count, dtype=bool)

    def step(self) -> bool:
        """Take one step in every part that is not at its end; say whether there was one."""
        p, x, s = self.problem, self.x, self.s
        missing = p.sums - p.system @ x
        gap = p.total(x * s) / self._members
        self._open &= (p.most(np.abs(missing)) > EXACT) | (gap > CLOSE * self._start)
        if not self._open.any():
            return False
        dual_residual = (x - p.values) / p.weights - p.turned @ self.y - s
        diagonal = p.weights * x / (x + p.weights * s)
        solve = p.solver(diagonal)

        def direction(centre: Floats) -> tuple[Floats, Floats, Floats]:
            force = centre / x - dual_residual
            dy = solve(missing - p.system @ (diagonal * force))
            dx = diagonal * (p.turned @ dy + force)
            return dx, dy, (centre - s * dx) / x

        dx, _, ds = direction(-x * s)
        ahead = self._reach(dx, ds, 1.0)[p.home]
        affine = p.total((x + ahead * dx) * (s + ahead * ds)) / self._members
        aim = gap * np.minimum(affine / np.maximum(gap, TINY), 1.0) ** 3
        dx, dy, ds = direction(aim[p.home] - x * s - dx * ds)
        length = self._reach(dx, ds, 0.995)
        far = length[p.home]
        after = p.total((x + far * dx) * (s + far * ds)) / self._members
        stuck = self._open & ((length < SHORT) | (after > 0.7 * gap))
        if stuck.any():
            # The corrector can go round in circles; a plain step towards the centre cannot.
            plain = direction((gap / 2)[p.home] - x * s)
            dx, ds = (np.where(stuck[p.home], new, old) for new, old in ((plain[0], dx), (plain[2], ds)))
            dy = np.where(stuck[p.part], plain[1], dy)
            length = np.where(stuck, self._reach(dx, ds, 0.9), length)
        length = np.where(self._open, length, 0.0)
        self.x = np.maximum(x + length[p.home] * dx, TINY)
        self.s = np.maximum(s + length[p.home] * ds, TINY)
        self.y = self.y + length[p.part] * dy
        return True

    def _reach(self, dx: Floats, ds: Floats, most: float) -> Floats:
        """Return how far every part can go (count,) before a number or a slope turns negative."""
        with np.errstate(divide="ignore", over="ignore"):
            far = np.minimum(np.where(dx < 0, -self.x / dx, np.inf), np.where(ds < 0, -self.s / ds, np.inf))
        least = np.full(self.problem.count, np.inf)
        np.minimum.at(least, self.problem.home, far)
        return np.minimum(1.0, most * least)


def _polished(problem: _Problem, search: _InteriorPoint) -> Floats:
    """Solve for only the positive numbers, which ends the search exactly; where that fails, leave it."""
    positive = search.x > problem.weights * search.s
    active = np.where(positive, problem.weights, 0.0)
    solve = problem.solver(active)
    y = search.y
    for _ in range(3):
        exact = np.where(positive, problem.values + problem.weights * (problem.turned @ y), 0.0)
        y = y + solve(problem.sums - problem.system @ exact)
    exact = np.where(positive, problem.values + problem.weights * (problem.turned @ y), 0.0)
    off = np.zeros(problem.count)
    np.maximum.at(off, problem.home, np.maximum(np.abs(exact - search.x), -exact))
    residual = problem.most(np.abs(problem.sums - problem.system @ exact))
    good = (off <= 1e-6) & (residual <= EXACT)
    good &= np.isfinite(off)
    return np.where(good[problem.home], np.maximum(exact, 0.0), search.x)
