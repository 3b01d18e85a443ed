"""Least squares over several tables: what they share agrees, each hierarchy adds up, invariants stay.

Two ways to the same answer. Where variances do not depend on the cell and there is one hierarchy, the
analysis of variance splits the problem into one hierarchy per term (``anova``): direct, with exact variances
at any size. All other cases (cells of their own variances, unmeasured or exact single cells, several
hierarchies) are solved by ``joint_system`` on the shared marginals.

Their variances are exact on small systems and estimated on large ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference.estimate import Estimate, finite_estimate, table_of, variances_of
from tabularium.mechanisms.inference.joint.anova import anova_estimates, separable
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

    overlap: TableSet
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
            "shared_marginals": [[str(link.marginal), *link.tables] for link in self.overlap.links],
        }


def joint_consistency(
    overlap: TableSet,
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
    given, known = _checked(overlap, values, variances)
    if len(overlap.frames) == 1 and method == "auto":
        ((name, frame),) = overlap.frames.items()
        single = consistency(frame.tree, given[name], known[name])
        return Joint(overlap, {name: single}, "one table", "exact", 0, 0.0)
    if method == "auto" and separable(overlap, known):
        found = anova_estimates(overlap, given, known)
        gap = overlap.gap({name: each.values for name, each in found.items()})
        return Joint(overlap, found, "ANOVA", "exact", 0, gap)
    joint = JointSystem(overlap, known)
    tables = joint.estimates(given)
    small = probes > 0 and overlap.equations * sum(table.size for table in tables.values()) <= SMALL
    if probes:
        made = exact_variances(joint) if small else estimated_variances(joint, probes)
    else:
        made = joint.own_variances()
    estimates = {name: Estimate(table, made[name]) for name, table in tables.items()}
    kind: Literal["exact", "estimated"] = "exact" if small else "estimated"
    return Joint(overlap, estimates, "conjugate gradients", kind, 0 if small else probes, overlap.gap(tables))


def _checked(
    overlap: TableSet, values: Mapping[str, ArrayLike], variances: Mapping[str, ArrayLike]
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Return values, 0 where nothing was measured, and variances (nodes, cells or 1) of every table."""
    given, known = {}, {}
    for name, frame in overlap.frames.items():
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


def checked_estimates(overlap: TableSet, estimates: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """Return the estimates with values (nodes, cells) and finite variances (nodes, cells or 1), or raise."""
    found = {}
    for name, frame in overlap.frames.items():
        if name not in estimates:
            raise MechanismError(f"table {name} has no estimate", where="inference", hint="give every table")
        with _naming(name):
            found[name] = Estimate(*finite_estimate(frame.tree, estimates[name]))
            _refuse_shape(found[name].values, frame)
    return found


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
