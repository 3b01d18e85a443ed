"""Least squares over several tables: what they share agrees, each hierarchy adds up, invariants stay.

Two ways to the same answer. Where variances do not depend on the cell and there is one hierarchy, the
problem falls apart into orthogonal components (``components``): direct, exact variances at any size. In all
other cases (cells of their own variances, unmeasured or exact single cells, several hierarchies) it is solved
by conjugate gradients on the shared margins (``coupling``).

Its variances are exact on small systems and estimated on large ones (``spread``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mechanisms.errors import MechanismError
from mechanisms.inference.consistency import consistency
from mechanisms.inference.estimate import Estimate, finite_estimate, table_of, variances_of
from mechanisms.inference.joint.anova import by_components, separable
from mechanisms.inference.joint.conjugate_gradients import Coupled
from mechanisms.inference.joint.joint_variances import estimated_variances, exact_variances
from mechanisms.inference.joint.shared_marginals import Overlap

Floats = NDArray[np.float64]

SMALL = 4_000_000
"""Cells times agreements up to which the variances of the general way are exact."""
PROBES = 32


@dataclass(frozen=True, eq=False, slots=True)
class Joint:
    """Estimates of several tables that agree.

    Attributes
    ----------
    overlap
        The tables' shapes.
    estimates
        Table name to its estimate; variances (nodes, cells), or (nodes, 1) where they do not depend on the
        cell.
    method
        ``one table`` (left to ``consistency``), ``components`` or ``conjugate gradients``.
    variances
        ``exact``, or ``estimated`` with so many probes.
    probes
        Number of probes, 0 where exact.
    gap
        Largest difference left between two views of a shared margin (rounding).
    """

    overlap: Overlap
    estimates: dict[str, Estimate]
    method: Literal["one table", "components", "conjugate gradients"]
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
            "shared_margins": [[str(link.key), *link.tables] for link in self.overlap.links],
        }


def joint_consistency(
    overlap: Overlap,
    values: Mapping[str, ArrayLike],
    variances: Mapping[str, ArrayLike],
    *,
    probes: int = PROBES,
    method: Literal["auto", "conjugate gradients"] = "auto",
) -> Joint:
    """Return the weighted least-squares estimates of all tables that add up and agree.

    Parameters
    ----------
    overlap
        The tables' shapes.
    values
        Table name to (nodes, cells) measurements; ignored where the variance is infinite.
    variances
        Table name to variances: one number, (nodes,), or (nodes, cells). 0 means exact (a public invariant),
        infinity not measured.
    probes
        Number of probes where variances are estimated. With 0 the general way gives those of each table's own
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

    >>> import numpy as np
    >>> from mechanisms.inference.joint.shared_marginals import Frame
    >>> tables = Overlap({"all": Frame(), "sexes": Frame({"sex": 2})})
    >>> made = joint_consistency(tables, {"all": [[10.0]], "sexes": [[4.0, 3.0]]}, {"all": 1.0, "sexes": 1.0})
    >>> made.estimates["all"].values.round(6).tolist(), made.estimates["sexes"].values.round(6).tolist()
    ([[9.0]], [[5.0, 4.0]])
    """
    given, spread = _checked(overlap, values, variances)
    if len(overlap.frames) == 1 and method == "auto":
        ((name, frame),) = overlap.frames.items()
        single = consistency(frame.tree, given[name], spread[name])
        return Joint(overlap, {name: single}, "one table", "exact", 0, 0.0)
    if method == "auto" and separable(overlap, spread):
        found = by_components(overlap, given, spread)
        gap = overlap.gap({name: each.values for name, each in found.items()})
        return Joint(overlap, found, "components", "exact", 0, gap)
    coupled = Coupled(overlap, spread)
    tables = coupled.estimates(given)
    small = probes > 0 and overlap.equations * sum(table.size for table in tables.values()) <= SMALL
    made = coupled.alone() if probes == 0 else {}
    if probes:
        made = exact_variances(coupled) if small else estimated_variances(coupled, probes)
    estimates = {name: Estimate(table, made[name]) for name, table in tables.items()}
    gap = overlap.gap(tables)
    kind: Literal["exact", "estimated"] = "exact" if small else "estimated"
    return Joint(overlap, estimates, "conjugate gradients", kind, 0 if small else probes, gap)


def _checked(
    overlap: Overlap, values: Mapping[str, ArrayLike], variances: Mapping[str, ArrayLike]
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    given, spread = {}, {}
    for name, frame in overlap.frames.items():
        if name not in values or name not in variances:
            raise MechanismError(
                f"table {name} has no values or no variances",
                where="inference",
                mend="give both for every table; infinite variances where nothing was measured",
            )
        with _naming(name):
            table = table_of(frame.tree, values[name])
            spread[name] = variances_of(frame.tree, variances[name], frame.cells)
            if table.shape != frame.shape:
                raise MechanismError(
                    f"the values are not of shape {frame.shape}",
                    where="inference",
                    mend="give one column per cell of the flat dimensions",
                )
        known = np.broadcast_to(np.isfinite(spread[name]), frame.shape)
        if not np.isfinite(table[known]).all():
            raise MechanismError(
                f"table {name} has a measurement that is not finite",
                where="inference",
                mend="give it infinite variance",
            )
        given[name] = np.where(known, table, 0.0)
    return given, spread


def checked_estimates(overlap: Overlap, estimates: Mapping[str, Estimate]) -> dict[str, Estimate]:
    """Return the estimates with values (nodes, cells) and finite variances (nodes, cells or 1), or raise."""
    found = {}
    for name, frame in overlap.frames.items():
        if name not in estimates:
            raise MechanismError(f"table {name} has no estimate", where="inference", mend="give every table")
        with _naming(name):
            values, variances = finite_estimate(frame.tree, estimates[name])
            if values.shape != frame.shape:
                raise MechanismError(
                    f"the values are not of shape {frame.shape}",
                    where="inference",
                    mend="give one column per cell of the flat dimensions",
                )
        found[name] = Estimate(values, variances)
    return found


@contextmanager
def _naming(table: str) -> Iterator[None]:
    try:
        yield
    except MechanismError as wrong:
        raise MechanismError(f"table {table}: {wrong.what}", where=wrong.where, mend=wrong.mend) from None
