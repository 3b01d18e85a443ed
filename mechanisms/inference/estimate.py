"""What the passes hand to one another: an estimate with its variances, and the checks on what comes in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tabularium.mechanisms.arrays import Bools, Floats, Indices, strips
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference.hierarchy import Hierarchy

Invariants = Mapping[int, ArrayLike]
"""Node number to its exact values: (cells,), or one number for all cells."""


@dataclass(frozen=True, eq=False, slots=True)
class Estimate:
    """Values of every node and cell, with the variances of their linear estimates.

    ``values``: (nodes, cells) float64. ``variances``: (nodes, cells), or (nodes, 1) where the variance does
    not depend on the cell; either way it broadcasts against ``values``. Zero means known exactly.
    """

    values: Floats
    variances: Floats


AGREEMENT = 1e-9
"""Exact values may contradict each other by this much, relative to their size, before it is an error."""


def contradiction(one: Floats, other: Floats, exact: Bools) -> int | None:
    """Return the first row in which values (rows, cells) differ where both are ``exact``, or None."""
    if not exact.any():
        return None
    size = np.maximum(1.0, np.maximum(np.abs(one), np.abs(other)))
    wrong = exact & (np.abs(one - other) > AGREEMENT * size)
    return int(wrong.any(axis=1).argmax()) if wrong.any() else None


def refuse_node(mask: Bools, what: str, hint: str) -> None:
    """Raise for the first node (row) where the mask holds anywhere; never quote a value."""
    if mask.any():
        node = int(mask.reshape(len(mask), -1).any(axis=1).argmax())
        raise MechanismError(f"node {node} {what}", where="inference", hint=hint)


def refuse_values(wrong: Callable[[Floats], Bools], values: Floats, what: str, hint: str) -> None:
    """Raise for the first node whose row of (nodes, cells) is ``wrong`` anywhere, looking strip by strip."""
    for rows in strips(*values.shape):
        mask = wrong(values[rows])
        if mask.any():
            node = rows.start + int(mask.any(axis=1).argmax())
            raise MechanismError(f"node {node} {what}", where="inference", hint=hint)


def infinite(values: Floats) -> Bools:
    """Return where values are not finite numbers."""
    return np.asarray(~np.isfinite(values))


def into(out: Floats | None, values: Floats) -> Floats:
    """Return a copy of the values in ``out``; in a new array if there is none, and none if they lie there."""
    if out is None:
        return values.copy()
    if out is not values:
        np.copyto(out, values)
    return out


def table_of(tree: Hierarchy, values: ArrayLike, name: str = "values") -> Floats:
    """Return the values as float64 (nodes, cells), or raise; no copy when they already are."""
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or table.shape[0] != tree.nodes or table.shape[1] == 0:
        raise MechanismError(
            f"the {name} are not of shape (nodes, cells) with {tree.nodes} nodes",
            where="inference",
            hint="give one row per node; a single number per node is a table of shape (nodes, 1)",
        )
    return table


def variances_of(tree: Hierarchy, variances: ArrayLike, cells: int) -> Floats:
    """Return the variances as (nodes, 1) where they do not depend on the cell, else (nodes, cells)."""
    given = np.asarray(variances, dtype=np.float64)
    if given.ndim == 0:
        given = np.broadcast_to(given, (tree.nodes, 1))
    elif given.ndim == 1:
        given = given[:, None]
    if given.ndim != 2 or given.shape[0] != tree.nodes or given.shape[1] not in (1, cells):
        raise MechanismError(
            "the variances fit neither the nodes nor the (nodes, cells) of the values",
            where="inference",
            hint="give one number, one per node, or one per node and cell",
        )
    if given.shape[1] > 1 and (given == given[:, :1]).all():
        given = given[:, :1]
    refuse_node(
        ~(given >= 0),
        "has a variance that is negative or not a number",
        "use 0 for exact, infinity for not measured",
    )
    return given


def invariants_of(tree: Hierarchy, invariants: Invariants | None, cells: int) -> tuple[Indices, Floats]:
    """Return the invariants as (count,) node numbers, ascending, and their (count, cells) values."""
    chosen = sorted((invariants or {}).items())
    exact = np.empty((len(chosen), cells))
    for row, (node, values) in enumerate(chosen):
        if not 0 <= node < tree.nodes:
            raise MechanismError(
                f"there is no node {node}", where="invariants", hint=f"use 0 to {tree.nodes - 1}"
            )
        line = np.asarray(values, dtype=np.float64)
        if line.shape not in ((), (1,), (cells,)) or not np.isfinite(line).all():
            raise MechanismError(
                f"the invariant of node {node} is not one finite number per cell",
                where="invariants",
                hint="give a vector of the table's cells",
            )
        exact[row] = line
    return np.array([node for node, _ in chosen], dtype=np.intp), exact


def finite_estimate(tree: Hierarchy, estimate: Estimate) -> tuple[Floats, Floats]:
    """Return the values and variances of an estimate after checking that both are finite and fit the tree."""
    values = table_of(tree, estimate.values)
    variances = variances_of(tree, estimate.variances, values.shape[1])
    refuse_values(infinite, values, "has a value that is not finite", "run consistency first")
    refuse_node(np.isinf(variances), "has an infinite variance", "run consistency first")
    return values, variances
