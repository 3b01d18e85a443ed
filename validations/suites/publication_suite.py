"""The suite for tables about to be published: whole, non-negative, additive, complete."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.validations.spec.parts.output_options import PostProcessing
from tabularium.validations.suites.expectations import Bound, Number, RuleResult, check_suite
from tabularium.validations.suites.published_table_rules import (
    NEGATIVE,
    NO_NUMBER,
    NOT_THE_SUM,
    NOT_WHOLE,
    failing_cells,
)

_RULES = {NOT_WHOLE: "integral", NEGATIVE: "non-negative", NOT_THE_SUM: "additive"}


def check_table(
    name: str,
    parents: NDArray[np.int64],
    values: NDArray[Any],
    *,
    promised: PostProcessing,
    cells: int | None = None,
    results: Path | None = None,
) -> tuple[RuleResult, ...]:
    """Check a table about to be published.

    Parameters
    ----------
    name
        Of the table; it names the suite.
    parents
        (nodes,) parent of each node, -1 for a root, parents before their children.
    values
        (nodes, cells) in the order of the tree's nodes.
    promised
        The steps of post-processing that were done; a rule that none of them promises is left out.
    cells
        Number of cells per node in the declared domain; not checked if None.
    results
        File for the results of Great Expectations; nowhere if None.

    Returns
    -------
    One result per rule: ``complete``, then ``integral``, ``non-negative`` and ``additive`` as promised.
    """
    fits = values.ndim == 2 and len(values) == len(parents)
    # A table of another shape has no family to add up: what holds for each cell by itself is checked still.
    tree = parents if fits else np.full(len(values), -1)
    found: Counter[str] = Counter()
    for check, _, mask in failing_cells(tree, values.reshape(len(tree), -1), promised):
        found[check] += int(mask.sum())
    misfits = int(not fits) + int(cells is not None and values.shape[1:] != (cells,))
    if not fits and promised.consistency:
        found[NOT_THE_SUM] = 1
    numbers: dict[str, list[Number]] = {"complete": [misfits + found.pop(NO_NUMBER)]}
    numbers |= {_RULES[check]: [count] for check, count in found.items()}
    return check_suite(
        f"publication of {name}", numbers, [Bound(rule, rule, 0, 0) for rule in numbers], results
    )


def check_agreement(differences: int, *, named: int, results: Path | None = None) -> tuple[RuleResult, ...]:
    """Check that tables show the same numbers where they share them.

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
    numbers: dict[str, list[Number]] = {"unnamed": [abs(differences - named)]}
    return check_suite("agreement of tables", numbers, [Bound("in agreement", "unnamed", 0, 0)], results)
