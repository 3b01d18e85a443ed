"""The suite for tables about to be published: whole, non-negative, additive, complete."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from validations.suites.expectations import Bound, RuleResult, judge

# Relative slack for sums of doubles; whole numbers are compared exactly.
_SLACK = 1e-9


def judge_publication(
    name: str,
    tree_parents: NDArray[np.int64],
    table: NDArray[Any],
    *,
    integral: bool = True,
    nonnegative: bool = True,
    additive: bool = True,
    cells: int | None = None,
    results: Path | None = None,
) -> tuple[RuleResult, ...]:
    """Judge a published table.

    Parameters
    ----------
    name
        Of the table; it names the suite.
    tree_parents
        (nodes,) parent of each node, -1 for a root, parents before their children.
    table
        (nodes, cells) the values, in the order of the tree's nodes.
    integral, nonnegative, additive
        What post-processing promised; a rule that was not promised is left out.
    cells
        Number of cells per node in the declared domain; not checked if None.
    results
        File for the results of Great Expectations; nowhere if None.

    Returns
    -------
    One result per rule: ``complete``, then ``integral``, ``non-negative`` and ``additive`` as promised.
    """
    values = np.asarray(table)
    numbers: dict[str, list[int | float | None]] = {"missing": [_missing(tree_parents, values, cells)]}
    suite = [Bound("complete", "missing", 0, 0)]
    if integral:
        numbers["broken"] = [_broken(values)]
        suite.append(Bound("integral", "broken", 0, 0))
    if nonnegative:
        numbers["negative"] = [int(np.count_nonzero(values < 0))]
        suite.append(Bound("non-negative", "negative", 0, 0))
    if additive:
        comparable = values.ndim == 2 and len(values) == len(tree_parents)
        numbers["unequal"] = [_unequal(tree_parents, values) if comparable else 1]
        suite.append(Bound("additive", "unequal", 0, 0))
    return judge(f"publication of {name}", numbers, suite, results)


def judge_agreement(differences: int, *, named: int, results: Path | None = None) -> tuple[RuleResult, ...]:
    """Judge whether tables show the same numbers where they share them.

    Parameters
    ----------
    differences
        Shared numbers, over all pairs of tables, on which the two differ.
    named
        How many of them rounding could not avoid, and has named.
    results
        As for a table.

    Returns
    -------
    One result: ``in agreement``, which holds when no difference goes unnamed.
    """
    numbers: dict[str, list[int | float | None]] = {"unnamed": [abs(differences - named)]}
    return judge("agreement of tables", numbers, [Bound("in agreement", "unnamed", 0, 0)], results)


def _missing(parents: NDArray[np.int64], values: NDArray[Any], cells: int | None) -> int:
    """Count nodes or cells that the domain has and the table lacks, or the other way round."""
    if values.ndim != 2:
        return 1
    nodes = abs(values.shape[0] - len(parents))
    width = 0 if cells is None else abs(values.shape[1] - cells)
    infinite = int(np.count_nonzero(~np.isfinite(values))) if _is_float(values) else 0
    return int(nodes + width + infinite)


def _broken(values: NDArray[Any]) -> int:
    """Count values that are no whole number."""
    return int(np.count_nonzero(values != np.rint(values))) if _is_float(values) else 0


def _unequal(parents: NDArray[np.int64], values: NDArray[Any]) -> int:
    """Count cells of inner nodes that differ from the sum of their children."""
    children = np.flatnonzero(parents >= 0)
    if not len(children):
        return 0
    # Stable order by parent turns each family into a run, also where siblings are not neighbours.
    order = children[np.argsort(parents[children], kind="stable")]
    families, starts = np.unique(parents[order], return_index=True)
    sorted_already = bool((np.diff(order) == 1).all())
    below = values[order[0] : order[-1] + 1] if sorted_already else values[order]
    sums = np.add.reduceat(below, starts, axis=0)
    above = values[families]
    if not _is_float(values):
        return int(np.count_nonzero(sums != above))
    slack = _SLACK * np.add.reduceat(np.abs(below), starts, axis=0) + _SLACK
    # Written so that not-a-number counts as unequal.
    return int(np.count_nonzero(~(np.abs(sums - above) <= slack)))


def _is_float(values: NDArray[Any]) -> bool:
    return np.issubdtype(values.dtype, np.floating)
