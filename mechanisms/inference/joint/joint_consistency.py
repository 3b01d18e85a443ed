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

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference.estimate import (
    Estimate,
    contradiction,
    finite_estimate,
    table_of,
    variances_of,
)
from tabularium.mechanisms.inference.hierarchy import Hierarchy
from tabularium.mechanisms.inference.joint.joint_system import (
    JointSystem,
    estimated_variances,
    exact_variances,
)
from tabularium.mechanisms.inference.joint.shared_marginals import TableSet, TableShape
from tabularium.mechanisms.inference.tree_least_squares import consistency

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
