"""Least squares over several tables: what they share agrees, each hierarchy adds up, invariants stay.

Two ways to the same answer. Where variances do not depend on the cell and there is one hierarchy, the
analysis of variance splits every table into orthogonal terms, one for each subset A of its flat dimensions:
all tables with the dimensions A show the same sums, so the problem falls apart into one hierarchy for every A
(``anova_estimates``). Direct, with exact variances at any size, O(cells).

All other cases (cells of their own variances, unmeasured or exact single cells, several hierarchies) are
solved by ``joint_system`` on the shared marginals; their variances are exact on small systems and estimated
on large ones. Derivations: docs/explanation/inference.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabularium.mechanisms.arrays import Bools, Floats, Indices
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference.estimate import (
    Estimate,
    contradiction,
    finite_estimate,
    table_of,
    variances_of,
)
from tabularium.mechanisms.inference.hierarchy import Hierarchy
from tabularium.mechanisms.inference.joint.shared_marginals import Link, TableSet, TableShape, View
from tabularium.mechanisms.inference.tree_least_squares import TreeLeastSquares, consistency
from tabularium.mechanisms.noise.synthetic import generator

SMALL = 4_000_000
"""Cells times agreements up to which the variances of the general way are exact."""
PROBES = 32


@dataclass(frozen=True, eq=False, slots=True)
class Joint:
    """Estimates of several tables that agree.

    Attributes
    ----------
    estimates
        Table name to its estimate; variances (nodes, cells), or (nodes, 1) where they do not depend on the
        cell.
    method
        ``one table`` (left to ``consistency``), ``ANOVA`` or ``conjugate gradients``.
    variances
        ``exact``, or ``estimated`` with so many probes.
    probes
        Number of probes, 0 where exact.
    gap
        Largest difference left between two views of a shared marginal (rounding).
    """

    table_set: TableSet
    estimates: dict[str, Estimate]
    method: Literal["one table", "ANOVA", "conjugate gradients"]
    variances: Literal["exact", "estimated"]
    probes: int
    gap: float

    def diagnostics(self) -> dict[str, object]:
        """Return how the estimates were made, as JSON-able values."""
        return {
            "method": self.method,
            "variances": self.variances,
            "probes": self.probes,
            "largest_gap": self.gap,
            "shared_marginals": [[str(link.marginal), *link.tables] for link in self.table_set.links],
        }


def joint_consistency(
    table_set: TableSet,
    values: Mapping[str, ArrayLike],
    variances: Mapping[str, ArrayLike],
    *,
    probes: int = PROBES,
    method: Literal["auto", "conjugate gradients"] = "auto",
) -> Joint:
    """Return the weighted least-squares estimates of all tables that add up and agree.

    Parameters
    ----------
    values
        Table name to (nodes, cells) measurements; ignored where the variance is infinite.
    variances
        Table name to variances: one number, (nodes,), or (nodes, cells). 0 means exact (a public invariant),
        infinity not measured.
    probes
        Number of probes where variances are estimated; with 0 the general way gives those of each table's own
        estimate, which are too large, in no time.
    method
        ``conjugate gradients`` to leave the direct way out, for comparison.

    Raises
    ------
    MechanismError
        For tables that are missing or of the wrong shape, exact values that contradict each other, cells
        that nothing determines.

    Examples
    --------
    Two tables measured their common total as 10 and as 4 + 3, all with variance 1: x = 10 - 3/3 * 1.

    >>> from tabularium.mechanisms.inference.joint.shared_marginals import TableShape
    >>> tables = TableSet({"all": TableShape(), "sexes": TableShape({"sex": 2})})
    >>> made = joint_consistency(tables, {"all": [[10.0]], "sexes": [[4.0, 3.0]]}, {"all": 1.0, "sexes": 1.0})
    >>> made.estimates["all"].values.round(6).tolist(), made.estimates["sexes"].values.round(6).tolist()
    ([[9.0]], [[5.0, 4.0]])
    """
    given, known = _checked(table_set, values, variances)
    if len(table_set.tables) == 1 and method == "auto":
        ((name, frame),) = table_set.tables.items()
        single = consistency(frame.tree, given[name], known[name])
        return Joint(table_set, {name: single}, "one table", "exact", 0, 0.0)
    if method == "auto" and separable(table_set, known):
        result = anova_estimates(table_set, given, known)
        gap = table_set.gap({name: item.values for name, item in result.items()})
        return Joint(table_set, result, "ANOVA", "exact", 0, gap)
    joint = JointSystem(table_set, known)
    tables = joint.estimates(given)
    small = probes > 0 and table_set.equations * sum(table.size for table in tables.values()) <= SMALL
    if probes:
        made = exact_variances(joint) if small else estimated_variances(joint, probes)
    else:
        made = joint.own_variances()
    estimates = {name: Estimate(table, made[name]) for name, table in tables.items()}
    kind: Literal["exact", "estimated"] = "exact" if small else "estimated"
    return Joint(
        table_set, estimates, "conjugate gradients", kind, 0 if small else probes, table_set.gap(tables)
    )


def _checked(
    table_set: TableSet, values: Mapping[str, ArrayLike], variances: Mapping[str, ArrayLike]
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return values, 0 where nothing was measured, and variances (nodes, cells or 1) of every table."""
    given, known = {}, {}
    for name, frame in table_set.tables.items():
        if name not in values or name not in variances:
            raise MechanismError(
                f"table {name} has no values or no variances",
                where="inference",
                hint="give both for every table; infinite variances where nothing was measured",
            )
        with _naming(name):
            table = table_of(frame.tree, values[name])
            known[name] = variances_of(frame.tree, variances[name], frame.cells)
            _refuse_shape(table, frame)
        measured = np.broadcast_to(np.isfinite(known[name]), frame.shape)
        if not np.isfinite(table[measured]).all():
            raise MechanismError(
                f"table {name} has a measurement that is not finite",
                where="inference",
                hint="give it infinite variance",
            )
        given[name] = np.where(measured, table, 0.0)
    return given, known


def checked_estimates(table_set: TableSet, estimates: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """Return the estimates with values (nodes, cells) and finite variances (nodes, cells or 1), or raise."""
    result = {}
    for name, frame in table_set.tables.items():
        if name not in estimates:
            raise MechanismError(f"table {name} has no estimate", where="inference", hint="give every table")
        with _naming(name):
            result[name] = Estimate(*finite_estimate(frame.tree, estimates[name]))
            _refuse_shape(result[name].values, frame)
    return result


def _refuse_shape(table: Floats, frame: TableShape) -> None:
    if table.shape != frame.shape:
        raise MechanismError(
            f"the values are not of shape {frame.shape}",
            where="inference",
            hint="give one column per cell of the flat dimensions",
        )


@contextmanager
def _naming(table: str) -> Iterator[None]:
    """Name the table in whatever is raised inside."""
    try:
        yield
    except MechanismError as wrong:
        raise MechanismError(f"table {table}: {wrong.what}", where=wrong.where, hint=wrong.hint) from None


DIMENSIONS = 12
"""Flat dimensions of one table beyond which 2^d terms are too many to be the quicker way."""


def separable(table_set: TableSet, variances: Mapping[str, Floats]) -> bool:
    """Say whether the problem falls apart: equal variances within nodes, at most one hierarchy."""
    frames = table_set.tables.values()
    return (
        all(given.shape[1] == 1 for given in variances.values())
        and len({frame.along for frame in frames} - {None}) <= 1
        and all(len(frame.flat) <= DIMENSIONS for frame in frames)
    )


def anova_estimates(
    table_set: TableSet, values: Mapping[str, Floats], variances: Mapping[str, Floats]
) -> dict[str, Estimate]:
    """Return the joint least-squares estimates, with exact variances (nodes, 1)."""
    result = {
        name: Estimate(np.zeros(frame.shape), np.zeros((frame.tree.nodes, 1)))
        for name, frame in table_set.tables.items()
    }
    for chosen in _subsets_of_dimensions(table_set):
        terms = [
            _Term.of(name, frame, chosen)
            for name, frame in table_set.tables.items()
            if set(chosen) <= set(frame.flat)
        ]
        above, answer = _blended(terms, values, variances, chosen)
        for term in terms:
            rows = answer.values[term.rows(above)]
            result[term.name].values[...] += term.to_cells(rows / term.averaged)
            share = term.share / term.averaged**2
            result[term.name].variances[...] += share * answer.variances[term.rows(above)]
    return result


@dataclass(frozen=True, eq=False, slots=True)
class _Term:
    """A term of a table: an average over so many cells; axes ``away`` dropped, ``kept`` centred."""

    name: str
    frame: TableShape
    kept: tuple[int, ...]
    away: tuple[int, ...]
    averaged: int
    share: float

    @classmethod
    def of(cls, name: str, frame: TableShape, chosen: tuple[str, ...]) -> _Term:
        names, sizes = tuple(frame.flat), tuple(frame.flat.values())
        kept = tuple(1 + names.index(item) for item in chosen)
        away = tuple(axis for axis in range(1, 1 + len(names)) if axis not in kept)
        averaged = prod(sizes[axis - 1] for axis in away)
        share = prod(1.0 - 1.0 / sizes[axis - 1] for axis in kept)
        return cls(name, frame, kept, away, averaged, share)

    def rows(self, above: int) -> slice:
        """Where the table's nodes stand in the common hierarchy."""
        first = above if self.frame.along else 0
        return slice(first, first + self.frame.tree.nodes)

    def sums(self, table: Floats) -> Floats:
        """Return S_A of (nodes, cells): (nodes, product of the chosen sizes)."""
        full = table.reshape(len(table), *self.frame.flat.values()).sum(axis=self.away, keepdims=True)
        for axis in self.kept:
            full = full - full.mean(axis=axis, keepdims=True)
        order = (0, *self.kept, *self.away)
        return np.asarray(full.transpose(order).reshape(len(table), -1))

    def to_cells(self, rows: Floats) -> Floats:
        """Hand S_A / N back to (nodes, cells)."""
        sizes = tuple(self.frame.flat.values())
        order = (0, *self.kept, *self.away)
        shape = (len(rows), *(sizes[axis - 1] for axis in self.kept), *(1 for _ in self.away))
        full = rows.reshape(shape).transpose(np.argsort(order))
        return np.broadcast_to(full, (len(rows), *sizes)).reshape(len(rows), -1)


def _subsets_of_dimensions(table_set: TableSet) -> list[tuple[str, ...]]:
    """List every subset of any table's flat dimensions once, small ones first.

    Dimensions of one category are left out: nothing remains of them once their average is removed.
    """
    result = {
        chosen
        for frame in table_set.tables.values()
        for size in range(len(frame.flat) + 1)
        for chosen in combinations(sorted(item for item in frame.flat if frame.flat[item] > 1), size)
    }
    return sorted(result, key=lambda chosen: (len(chosen), chosen))


def _blended(
    terms: list[_Term],
    values: Mapping[str, Floats],
    variances: Mapping[str, Floats],
    chosen: tuple[str, ...],
) -> tuple[int, Estimate]:
    """Blend the tables' measurements of one term and make it add up along the hierarchy.

    Returns the number of nodes put above the roots (one, where a table without the hierarchy needs it) and
    the estimate.
    """
    tree, above = _common_tree(terms)
    cells = prod(terms[0].frame.flat[name] for name in chosen)
    total, weight = np.zeros((tree.nodes, cells)), np.zeros((tree.nodes, 1))
    exact = np.zeros((tree.nodes, 1), dtype=bool)
    for term in terms:
        rows = term.rows(above)
        variance = variances[term.name] * term.averaged
        shown = term.sums(np.where(np.isinf(variance), 0.0, values[term.name]))
        node = contradiction(total[rows], shown, (variance == 0) & exact[rows])
        if node is not None:
            raise MechanismError(
                f"the exact values of table {term.name} at node {node} contradict those of another table",
                where="inference",
                hint="drop one of the invariants",
            )
        # Exact values replace what was blended before, and nothing noisy is added to them afterwards.
        total[rows] = np.where((variance == 0) & ~exact[rows], shown, total[rows])
        exact[rows] |= variance == 0
        precision = np.divide(1.0, variance, out=np.zeros_like(variance), where=variance > 0)
        fresh = np.where(exact[rows], 0.0, precision)
        share = np.divide(fresh, weight[rows] + fresh, out=np.zeros_like(fresh), where=fresh > 0)
        total[rows] += share * (shown - total[rows])
        weight[rows] += fresh
    variance = np.divide(1.0, weight, out=np.full_like(weight, np.inf), where=weight > 0)
    variance[exact] = 0.0
    return above, consistency(tree, total, variance)


def _common_tree(terms: list[_Term]) -> tuple[Hierarchy, int]:
    trees = [term.frame.tree for term in terms if term.frame.along]
    if not trees:
        return terms[0].frame.tree, 0
    deepest = max(trees, key=lambda tree: tree.nodes)
    if len(trees) == len(terms):
        return deepest, 0
    return Hierarchy(np.concatenate(([-1], deepest.parents + 1))), 1


# Tables that must agree on shared marginals, for any variances: conjugate gradients on the dual problem.
#
# One unknown per cell of a shared marginal; products with Sigma are two passes over a table, O(nodes x
# cells). The preconditioner is exact for one link with equal variances. Leaves that are not measured are
# found by the proximal point method. Variances are exact for small systems, simulated for large ones.
# Derivation: docs/explanation/inference.md.


FLOOR = 1e-6
"""Exact measurements count as this much of the largest variance: an approximation needs no zeros."""


class LinkPreconditioner:
    """Approximately (B_1 + B_2)^-1 for one link."""

    def __init__(
        self,
        link: Link,
        frames: tuple[TableShape, TableShape],
        covariances: tuple[TreeLeastSquares, TreeLeastSquares],
    ):
        self._shape = link.views[0].shape
        tree = min((frame.tree for frame in frames), key=lambda tree: tree.nodes)
        self._rows = link.views[0].rows
        if self._rows is None:
            total = sum(
                view.gather(np.broadcast_to(covariance.variances, frame.shape))
                for view, frame, covariance in zip(link.views, frames, covariances, strict=True)
            )
            self._scale: Floats = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
            return
        self._tree = tree
        self._precisions = [
            _precision(tree, view, frame, covariance)
            for view, frame, covariance in zip(link.views, frames, covariances, strict=True)
        ]
        both = self._precisions[0] + self._precisions[1]
        with np.errstate(divide="ignore"):
            self._both = TreeLeastSquares(tree, 1.0 / both, self._shape[1])

    def __call__(self, numbers: Floats) -> Floats:
        """Return the approximate inverse times ``numbers`` (equations,)."""
        given = numbers.reshape(self._shape)
        if self._rows is None:
            return (self._scale * given).ravel()
        full = np.zeros((self._tree.nodes, self._shape[1]))
        full[self._rows] = given
        moved = self._both.times(self._times_precision(full, self._precisions[1]))
        return self._times_precision(moved, self._precisions[0])[self._rows].ravel()

    def _times_precision(self, table: Floats, precision: Floats) -> Floats:
        """Return the precision times values at the leaves, in place; inner nodes are ignored."""
        table[~self._tree.leaf] = 0.0
        for block in self._tree.up(table.shape[1]):
            table[block.parents] = block.total(table[block.children])
        table *= precision
        for block in self._tree.down(table.shape[1]):
            table[block.children] += block.to_children(table[block.parents])
        table[~self._tree.leaf] = 0.0
        return table


def _precision(tree: Hierarchy, view: View, frame: TableShape, covariance: TreeLeastSquares) -> Floats:
    """Return 1 / variance with which the table measures the marginal at every node of ``tree``.

    A leaf of the smaller tree may be an inner node of the table's own: then it counts with all that was
    measured below it.
    """
    variances = np.where(
        tree.leaf[:, None], covariance.below[: tree.nodes], covariance.measured[: tree.nodes]
    )
    full = np.broadcast_to(variances, (tree.nodes, frame.cells))
    summed = View(frame, view.marginal, np.arange(tree.nodes)).gather(full)
    finite = summed[np.isfinite(summed)]
    least = FLOOR * (float(finite.max()) if finite.size else 1.0) or 1.0
    return np.asarray(1.0 / np.maximum(summed, least))


Tables = dict[str, Floats]

TOLERANCE = 1e-12
"""Agreement aimed at, relative to the largest number of the marginal."""
REFUSED = 1e-7
"""Disagreement that is no rounding any more: exact values contradict each other."""
PROXIMAL = 1e3
"""M, the invented variance of an unmeasured leaf, in units of the largest finite variance."""
STALLED = 1e-10
"""Disagreement after conjugate gradients that calls for eigenvalues, where the system is small."""
FEW_EQUATIONS = 2000
"""Agreements up to which S may be written out."""
PRODUCTS = 400
"""Products with S in one run of conjugate gradients."""
PATIENCE = 30
"""Products without a smaller residual after which a run ends."""
RELATIVE, ROUGH = 1e-10, 1e-5
"""Residual, relative to its start, that one run aims at; and for synthetic noise."""
ROUNDS = 60
"""Moves of p before giving up; usually a handful."""
CUT = 1e-11
"""Relative eigenvalues of S below this are redundant agreements."""


class JointSystem:
    """Tables with given variances, ready to be estimated together from any measurements.

    ``variances``: Table name to (nodes, cells) or (nodes, 1) variances; 0 exact, infinity not measured.
    ``proximal``: M in units of the largest finite variance.
    """

    def __init__(
        self, table_set: TableSet, variances: Mapping[str, Floats], proximal: float = PROXIMAL
    ) -> None:
        self.table_set = table_set
        self.variances = variances
        self.unmeasured: dict[str, Bools] = {}
        self.finite: Tables = {}
        finite = [given[np.isfinite(given)] for given in variances.values()]
        largest = max((float(some.max()) for some in finite if some.size), default=1.0)
        self.proximal_variance = proximal * (largest or 1.0)
        for name, frame in table_set.tables.items():
            unmeasured = np.isinf(variances[name]) & frame.tree.leaf[:, None]
            self.unmeasured[name] = np.broadcast_to(unmeasured, frame.shape)
            self.finite[name] = np.where(unmeasured, self.proximal_variance, variances[name])
        self.any_unmeasured = any(bool(unmeasured.any()) for unmeasured in self.unmeasured.values())
        self.covariance = {
            name: TreeLeastSquares(frame.tree, self.finite[name], frame.cells)
            for name, frame in table_set.tables.items()
        }
        self._preconditioners = []
        for link in table_set.links:
            one, other = link.tables
            frames = (table_set.tables[one], table_set.tables[other])
            pair = (self.covariance[one], self.covariance[other])
            self._preconditioners.append(LinkPreconditioner(link, frames, pair))
        self.relative = RELATIVE

    def disagreement(self, tables: Mapping[str, Floats]) -> Floats:
        """Return C x: the differences between views, link after link."""
        parts = []
        for link in self.table_set.links:
            (one, other), (first, second) = link.tables, link.views
            parts.append((first.gather(tables[one]) - second.gather(tables[other])).ravel())
        return np.concatenate(parts) if parts else np.zeros(0)

    def apply_covariance(self, multipliers: Floats) -> Tables:
        """Return Sigma C' lam of every table."""
        pushed = {name: np.zeros(frame.shape) for name, frame in self.table_set.tables.items()}
        for link, part in self._by_link(multipliers):
            numbers = part.reshape(link.views[0].shape)
            link.views[0].scatter(numbers, pushed[link.tables[0]])
            link.views[1].scatter(-numbers, pushed[link.tables[1]])
        return {name: self.covariance[name].times(table) for name, table in pushed.items()}

    def enforce_agreement(self, tables: Tables, rounds: int = ROUNDS) -> float:
        """Move ``tables``, which add up, to the nearest that agree, in place; return what is left open.

        What is left is relative to the largest number of each marginal. Where conjugate gradients stall (many
        single exact cells make S nearly singular in odd directions) a small system is solved by its
        eigenvalues instead.
        """
        left = self._refined(tables, self._multipliers, 1 if rounds == 1 else 4)
        if rounds > 1 and left > STALLED and self.table_set.equations <= FEW_EQUATIONS:
            root = self._root
            left = self._refined(tables, lambda wrong: root.T @ (root @ wrong), 4)
        return left

    @cached_property
    def _root(self) -> Floats:
        return pseudo_inverse_root(self.responses()[1])

    def _refined(self, tables: Tables, solve: Callable[[Floats], Floats], rounds: int) -> float:
        wrong = self.disagreement(tables)
        left = self._worst(wrong, tables)
        for _ in range(rounds):
            if left <= TOLERANCE:
                break
            moves = self.apply_covariance(solve(wrong))
            for name, move in moves.items():
                tables[name] -= move
            wrong, before = self.disagreement(tables), left
            left = self._worst(wrong, tables)
            if not left <= before / 2:
                if not left <= before:
                    for name, move in moves.items():
                        tables[name] += move
                    left = before
                break
        return left

    def _by_link(self, numbers: Floats) -> Iterator[tuple[Link, Floats]]:
        """Cut (equations,) into the parts of the links."""
        first = 0
        for link in self.table_set.links:
            yield link, numbers[first : first + link.size]
            first += link.size

    def responses(self) -> tuple[Floats, Floats]:
        """Return Sigma C' e for every agreement e, (equations, all numbers), and S; small systems only."""
        number = self.table_set.equations
        size = sum(frame.tree.nodes * frame.cells for frame in self.table_set.tables.values())
        moved, system = np.empty((number, size)), np.empty((number, number))
        for row in range(number):
            unit = np.zeros(number)
            unit[row] = 1.0
            tables = self.apply_covariance(unit)
            moved[row] = np.concatenate([tables[name].ravel() for name in self.table_set.tables])
            system[row] = self.disagreement(tables)
        return moved, system

    def estimates(self, values: Mapping[str, Floats]) -> Tables:
        """Return the least-squares estimates of all tables, which add up and agree."""
        first = self._solve(values, None)
        if self.any_unmeasured:
            rng = generator(1)
            size = max(float(np.abs(table).max()) for table in first.values())
            start = {name: (1 + size) * rng.standard_normal(table.shape) for name, table in first.items()}
            self._refuse_undetermined(first, self._solve(values, start))
        return first

    def own_variances(self) -> Tables:
        """Return the variances (nodes, cells) of each table's own estimate."""
        return {
            name: np.broadcast_to(self.covariance[name].variances, frame.shape)
            for name, frame in self.table_set.tables.items()
        }

    def simulated_errors(self, rng: np.random.Generator) -> tuple[Tables, Tables]:
        """Draw synthetic measurement errors; return the errors of separate and joint estimates."""
        separate = {}
        for name, frame in self.table_set.tables.items():
            variances = self.finite[name]
            deviation = np.sqrt(np.where(np.isinf(variances), 0.0, variances))
            errors = deviation * rng.standard_normal(frame.shape)
            separate[name] = consistency(frame.tree, errors, variances).values
        together = {name: table.copy() for name, table in separate.items()}
        self.relative = ROUGH
        self.enforce_agreement(together, rounds=1)
        self.relative = RELATIVE
        return separate, together

    def _solve(self, values: Mapping[str, Floats], start: Tables | None) -> Tables:
        guess, tables = {}, {}
        for name, frame in self.table_set.tables.items():
            invented = 0.0 if start is None else start[name]
            guess[name] = np.where(self.unmeasured[name], invented, values[name])
            tables[name] = consistency(frame.tree, guess[name], self.finite[name]).values
        left = self.enforce_agreement(tables)
        for _ in range(ROUNDS if self.any_unmeasured else 0):
            moved, size = 0.0, 1.0
            for name in self.table_set.tables:
                news = np.where(self.unmeasured[name], tables[name] - guess[name], 0.0)
                guess[name] = guess[name] + news
                tables[name] += self.covariance[name].times(news / self.proximal_variance)
                moved = max(moved, float(np.abs(news).max()))
                size = max(size, float(np.abs(tables[name]).max()))
            left = self.enforce_agreement(tables)
            if moved <= TOLERANCE * size:
                break
        if left > REFUSED:
            self._refuse_contradiction(tables)
        return tables

    def _multipliers(self, wrong: Floats) -> Floats:
        """Return lam with S lam = ``wrong`` by conjugate gradients, or the best that was met on the way.

        Redundant agreements differ by rounding; what is no multiple of S's columns grows when iterated on.
        """
        result = best = np.zeros_like(wrong)
        left, along = wrong.copy(), np.zeros_like(wrong)
        least, since, energy = float(np.linalg.norm(wrong)), 0, 1.0
        enough = self.relative * least
        for _ in range(PRODUCTS):
            parts = zip(self._preconditioners, self._by_link(left), strict=True)
            near = np.concatenate([precondition(part) for precondition, (_, part) in parts])
            before, energy = energy, float(left @ near)
            along = near + (energy / before) * along
            moved = self.disagreement(self.apply_covariance(along))
            curvature = float(along @ moved)
            if not curvature > 0 or not energy > 0:
                break
            result = result + (energy / curvature) * along
            left -= (energy / curvature) * moved
            size, since = float(np.linalg.norm(left)), since + 1
            if size < least:
                best, least, since = result, size, 0
            if least <= enough or since > PATIENCE:
                break
        return best

    def _worst(self, wrong: Floats, tables: Mapping[str, Floats]) -> float:
        """Largest disagreement, each relative to its marginal's largest number (at least 1)."""
        if not np.isfinite(wrong).all():
            return np.inf
        worst = 0.0
        for link, part in self._by_link(wrong):
            size = float(np.abs(link.views[0].gather(tables[link.tables[0]])).max())
            worst = max(worst, float(np.abs(part).max()) / max(1.0, size))
        return worst

    def _refuse_contradiction(self, tables: Mapping[str, Floats]) -> None:
        place = int(np.abs(self.disagreement(tables)).argmax())
        for link in self.table_set.links:
            if place < link.size:
                break
            place -= link.size
        row, group = divmod(place, link.views[0].shape[1])
        node = link.views[0].rows
        at = f"node {int(node[row])}, " if node is not None else ""
        raise MechanismError(
            f"exact values of {link.tables[0]} and {link.tables[1]} contradict each other on their "
            f"marginal {link.marginal} ({at}group {group})",
            where="inference",
            hint="drop one of the invariants",
        )

    def _refuse_undetermined(self, one: Tables, other: Tables) -> None:
        for name, table in one.items():
            open_ = np.abs(table - other[name]) > 1e-6 * (1.0 + np.abs(table).max())
            open_ &= self.unmeasured[name]
            if open_.any():
                node, cell = (int(result[0]) for result in np.nonzero(open_))
                raise MechanismError(
                    f"table {name}: node {node}, cell {cell} is not measured and nothing determines it",
                    where="inference",
                    hint="measure it, or leave it out of the tables",
                )


def pseudo_inverse_root(system: Floats) -> Floats:
    """Return R with R'R the pseudo-inverse of a symmetric semidefinite matrix."""
    if not len(system):
        return system
    scale = np.sqrt(np.maximum(np.diag(system), 0.0))
    scale = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
    roots, vectors = np.linalg.eigh(scale[:, None] * (system + system.T) / 2 * scale)
    keep = roots > CUT * roots.max(initial=0.0)
    return np.asarray((vectors[:, keep] / np.sqrt(roots[keep])).T * scale)


def exact_variances(joint: JointSystem) -> dict[str, Floats]:
    """Return the exact variances (nodes, cells) of every table: O(agreements x cells) memory.

    The invented measurements of unmeasured leaves are taken away again by the Woodbury identity.
    """
    if joint.any_unmeasured:
        # A huge invented variance would swallow the digits of what is left when it is taken away.
        joint = JointSystem(joint.table_set, joint.variances, proximal=1.0)
    diagonal = _stacked(joint, joint.own_variances())
    responses, system = joint.responses()
    halves = pseudo_inverse_root(system) @ responses
    variances = diagonal - (halves**2).sum(axis=0)
    if joint.any_unmeasured:
        columns, unmeasured = _unmeasured_columns(joint, halves)
        # (P - I/M)^-1 = Sigma + Sigma_U (M - Sigma_UU)^-1 Sigma_U': what was invented for these leaves goes.
        inner = joint.proximal_variance * np.eye(unmeasured.size) - columns[:, unmeasured]
        variances += (columns * np.linalg.solve((inner + inner.T) / 2, columns)).sum(axis=0)
    return _unstacked(joint, np.maximum(variances, 0.0))


def estimated_variances(joint: JointSystem, probes: int) -> dict[str, Floats]:
    """Return estimates of the variances (nodes, cells) from ``probes`` draws of pure noise."""
    rng = generator(2)
    separate = _stacked(joint, joint.own_variances())
    together, apart = np.zeros_like(separate), np.zeros_like(separate)
    for _ in range(probes):
        before, after = (_stacked(joint, errors) for errors in joint.simulated_errors(rng))
        together, apart = together + after**2 / probes, apart + (before - after) ** 2 / probes
    less = separate - apart
    best = np.where(less > separate / 2, less, together)
    return _unstacked(joint, np.minimum(best, separate))


def _unmeasured_columns(joint: JointSystem, halves: Floats) -> tuple[Floats, Indices]:
    """Return the joint covariances (unmeasured leaves, all cells), and which cells those leaves are."""
    unmeasured = np.flatnonzero(_stacked(joint, joint.unmeasured))
    columns = np.empty((unmeasured.size, halves.shape[1]))
    for row, place in enumerate(unmeasured):
        unit = np.zeros(halves.shape[1])
        unit[place] = 1.0
        moved = {name: joint.covariance[name].times(table) for name, table in _unstacked(joint, unit).items()}
        columns[row] = _stacked(joint, moved) - halves[:, place] @ halves
    return columns, unmeasured


def _stacked(joint: JointSystem, tables: Mapping[str, NDArray[np.generic]]) -> Floats:
    """Lay all tables end to end."""
    return np.concatenate([np.asarray(tables[name], float).ravel() for name in joint.table_set.tables])


def _unstacked(joint: JointSystem, numbers: Floats) -> dict[str, Floats]:
    """Cut what ``_stacked`` laid end to end into tables again."""
    shapes = {name: frame.shape for name, frame in joint.table_set.tables.items()}
    ends = np.cumsum([prod(shape) for shape in shapes.values()])
    parts = np.split(numbers, ends[:-1])
    return {name: part.reshape(shapes[name]) for name, part in zip(shapes, parts, strict=True)}
