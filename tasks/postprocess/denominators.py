"""What rates are over: the counts of another table, an invariant or public figures, cell by cell.

They have the dimensions of the rate's table or fewer: over the others, a number stands for all cells. Along a
hierarchy they go down as far as the table at least, and their upper nodes are sums.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.inference import Estimate, Hierarchy
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.validations.domains.domains import HierarchyDomain, nodes_to
from tabularium.validations.domains.known_marginals import KnownMarginal
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.measures.measure import PART, Measure

Floats = NDArray[np.float64]
Nodes = slice | NDArray[np.intp]
"""Which nodes of a table are wanted."""


def known_on_tree(loaded: Loaded, known: KnownMarginal) -> tuple[Hierarchy, Floats]:
    """Return public numbers at their level, and the sums above it, (nodes, cells); one node without one."""
    if known.along is None:
        return Hierarchy(np.array([-1])), known.values.astype(np.float64)
    domain = loaded.domains[known.along]
    assert isinstance(domain, HierarchyDomain)  # noqa: S101 - the spec's own check
    assert known.level is not None and known.nodes is not None  # noqa: S101 - they go with along
    tree = Hierarchy(domain.parents[: nodes_to(domain, known.level)])
    values = np.zeros((tree.nodes, known.values.shape[1]))
    values[known.nodes] = known.values
    for block in tree.up(values.shape[1]):
        values[block.parents] = block.total(values[block.children])
    return tree, values


def whole_of(loaded: Loaded, layout: Layout, estimates: Mapping[str, Estimate]) -> Estimate | None:
    """Return what a rate is over, (nodes, cells of its table); None where it is of its own records.

    Parameters
    ----------
    layout
        Of the array of the rate.
    estimates
        Of the counts of all tables; public numbers have the variance 0.
    """
    found = whole_at(loaded, layout, estimates)
    return None if found is None else found(slice(None))


def whole_at(
    loaded: Loaded, layout: Layout, estimates: Mapping[str, Estimate]
) -> Callable[[Nodes], Estimate] | None:
    """Return what gives the numbers that a rate is over at some nodes; as :func:`whole_of`."""
    measure = layout.table.measured
    if measure is None or measure.denominator is None:
        return None
    for known in (*loaded.known, *loaded.figures):
        if known.name == measure.denominator:
            _, values = known_on_tree(loaded, known)
            shown = _spread(loaded, layout, known.flat, values, known.along is not None)
            return lambda nodes: Estimate(_rows(shown, nodes), np.zeros((1, 1)))
    other = next(table for table in loaded.spec.tables if table.name == measure.denominator)
    names = [name for name in other.dimensions if name != other.along]
    found = estimates[other.name]
    # Without a hierarchy of its own, or along one that this table has too: the spec's own check.
    treed = other.along is not None
    spread = np.broadcast_to(found.variances, found.values.shape)
    both = [_spread(loaded, layout, names, each, treed) for each in (found.values, spread)]
    return lambda nodes: Estimate(*(_rows(each, nodes) for each in both))


def total_over(
    loaded: Loaded, layouts: Mapping[str, Layout], measure: Measure, estimates: Mapping[str, Estimate]
) -> float | None:
    """Return the total of what a rate is over; None where it is over its own records, or is none."""
    for known in (*loaded.known, *loaded.figures):
        if known.name == measure.denominator:
            return float(known.values.sum())
    if measure.denominator is None:
        return None
    return float(estimates[measure.denominator].values[layouts[measure.denominator].parents < 0].sum())


def _spread(loaded: Loaded, layout: Layout, names: Sequence[str], values: Floats, treed: bool) -> Floats:
    """Return a view of numbers (nodes, cells over ``names``) for a table: nodes, an axis a dimension."""
    grid = values.reshape(len(values), *(loaded.domains[name].size for name in names))
    wanted = [domain for domain in layout.others if domain.name != PART]
    grid = grid.transpose(0, *(1 + list(names).index(each.name) for each in wanted if each.name in names))
    missing = [1 + place for place, each in enumerate(wanted) if each.name not in names]
    grid = np.expand_dims(grid[: layout.nodes] if treed else grid, missing)
    return np.broadcast_to(grid, (layout.nodes, *(domain.size for domain in wanted)))


def _rows(numbers: Floats, nodes: Nodes) -> Floats:
    """Return the numbers at some nodes, (nodes, cells)."""
    some = numbers[nodes]
    return some.reshape(len(some), math.prod(some.shape[1:]))
