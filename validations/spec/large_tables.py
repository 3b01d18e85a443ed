"""Tables of more cells than are held at once: how they are cut into slabs, and what they must be for that.

Such a table is counted and measured some nodes of its hierarchy at a time, and finished family by family
(``docs/explanation/scale.md``). For that its noise must know nothing of other cells, and no other table may
have to agree with it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from tabularium.validations.domains.domains import HierarchyDomain
from tabularium.validations.spec.draft import Draft
from tabularium.validations.spec.parts.table_parts import APART, Table

HELD = 10**8
"""Cells that are held at once: of a table over its measured levels, of a level, of the children of a node.
What is drawn is known by whether its level is cut, and by its slab: with another number here or below, a
release that was cut off would be drawn once more. So both stay."""
LARGEST = 2 * 10**10
"""Cells of the largest table, over its measured levels."""
SLAB = 1 << 24
"""Cells of a slab, about."""


def fits(cells: int) -> bool:
    """Whether so many cells are held at once."""
    return cells <= HELD


def slabs(shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Yield the slabs of a level, each as its first row and the one after its last.

    Parameters
    ----------
    shape
        In which the level is counted: its nodes first.
    """
    step = max(1, SLAB // max(1, math.prod(shape[1:])))
    return ((first, min(first + step, shape[0])) for first in range(0, shape[0], step))


def why_not(draft: Draft, table: Table, cells: int) -> str | None:
    """Return what keeps a table of more than `HELD` cells from being done in slabs; None if nothing does."""
    steps, source = draft.postprocessing, draft.source
    reasons = {
        f"{LARGEST:,} is the most": cells > LARGEST,
        "it has no hierarchy along which it could be cut": table.along is None,
        "it must be the only table of its spec": len(draft.tables) + len(draft.histograms) > 1,
        f"it must be measured with {' or '.join(APART)}, without per and margin_share": (
            table.mechanism not in APART or table.per is not None or bool(table.margin_share)
        ),
        "it can have no where, no measures, no prior, no invariants and no impossible cells": bool(
            table.where or table.measures or table.prior or draft.invariants or draft.impossible
        ),
        "all steps of post-processing must be on": steps is not None
        and not (steps.consistency and steps.nonnegativity and steps.rounding),
        "it must be counted by DuckDB, without source.engine": source is not None
        and source.engine != "duckdb",
        f"a family, or all roots, have more than {HELD:,} cells: a level between or above would mend that": (
            _largest_family(draft, table) > HELD
        ),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _largest_family(draft: Draft, table: Table) -> int:
    """Return the cells of the largest family, of which all roots are one; 0 without a hierarchy."""
    domain = None if table.along is None else draft.domains[table.along]
    if not isinstance(domain, HierarchyDomain):
        return 0
    inner = math.prod(draft.domains[name].size for name in table.dimensions if name != table.along)
    children = np.bincount(domain.parents[domain.parents >= 0], minlength=1)
    return max(int(children.max()), int((domain.parents < 0).sum())) * inner
