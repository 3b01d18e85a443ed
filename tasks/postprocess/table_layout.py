"""The layout of a table in memory: the nodes of one hierarchy, crossed with the other dimensions.

Every table is an array (nodes, cells). A table without a hierarchical dimension has one node. Nodes are
the breadth-first prefix of the code list down to the deepest measured level, so that node i of the table
is node i of the code list.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import strips
from tabularium.mechanisms.errors import PublicationError
from tabularium.mechanisms.inference import Estimate, Hierarchy
from tabularium.mechanisms.noise_distributions import NOTHING
from tabularium.validations.domains.domains import Domain, HierarchyDomain, cut, nodes_to
from tabularium.validations.domains.known_marginals import KnownMarginal
from tabularium.validations.release_spec.checks.table_checks import MECHANISM
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.measures.measure import PART
from tabularium.validations.release_spec.tables import Histogram, Table


@dataclass(frozen=True, eq=False)
class Layout:
    """Shape of one table.

    Attributes
    ----------
    along
        The hierarchical dimension whose levels are measured, if there is one.
    others
        The other dimensions, in the order of the spec.
    parents
        (nodes,) parent of each node, -1 for a root.
    cuts
        Measured level -> indices of the nodes measured with it; ``""`` for a table without a hierarchy.
    impossible
        (nodes, cells) which numbers are exactly zero because nobody can be there; None where none is.
    """

    table: Table
    along: HierarchyDomain | None
    others: tuple[Domain, ...]
    parents: NDArray[np.int64]
    cuts: dict[str, NDArray[np.int64]]
    impossible: NDArray[np.bool_] | None = None

    @classmethod
    def of(cls, loaded: Loaded, table: Table) -> Layout:
        """Lay out ``table`` of the spec."""
        others = tuple(loaded.domain_of(table, name) for name in table.dimensions if name != table.along)
        if table.along is None:
            cuts = {"": np.array([0])}
            return cls(table, None, others, np.array([-1]), cuts, loaded.impossible_in(table))
        domain = loaded.domains[table.along]
        assert isinstance(domain, HierarchyDomain)  # noqa: S101 - the spec's own check
        cuts = {level: cut(domain, level) for level in table.levels}
        nodes = max(nodes_to(domain, level) for level in table.levels)
        return cls(table, domain, others, domain.parents[:nodes], cuts, loaded.impossible_in(table))

    @classmethod
    def of_histogram(cls, histogram: Histogram) -> Layout:
        """Return a layout of a histogram's measurement, whose cells have no meaning."""
        table = Table(
            name=histogram.name, dimensions=(), share=histogram.share, levels={}, mechanism=MECHANISM
        )
        return cls(table, None, (), np.array([-1]), {"": np.array([0])})

    @property
    def finest(self) -> str:
        """The deepest measured level."""
        return list(self.cuts)[-1]

    def shape(self, level: str) -> tuple[int, ...]:
        """Return the shape in which a level is counted: its nodes, then the other dimensions."""
        sizes = tuple(domain.size for domain in self.others)
        return sizes if self.along is None else (len(self.cuts[level]), *sizes)

    def measured_at(self, level: str) -> NDArray[np.bool_] | None:
        """Return which numbers of a level are measured, (nodes, sizes of the others); None where all are."""
        if self.impossible is None:
            return None
        nodes = self.cuts[level]
        possible = ~self.impossible[nodes].reshape(len(nodes), *(domain.size for domain in self.others))
        return None if possible.all() else possible

    def possible(self, level: str) -> NDArray[np.bool_] | None:
        """Return which numbers of a level are measured, in the shape of counting; None where all are."""
        possible = self.measured_at(level)
        return None if possible is None else possible.reshape(self.shape(level))

    def measured_shape(self, level: str) -> tuple[int, ...]:
        """Return the shape in which a level is measured: flat where some of its numbers are impossible."""
        possible = self.possible(level)
        return self.shape(level) if possible is None else (int(possible.sum()),)

    def tops(self, *, consistent: bool) -> NDArray[np.intp]:
        """Return the nodes that together hold every record once.

        ``consistent``: all nodes have numbers, so that these are the roots; otherwise only what was measured
        has some.
        """
        return np.flatnonzero(self.parents < 0) if consistent else next(iter(self.cuts.values()))

    def impossible_rows(self, *, consistent: bool) -> dict[str, int]:
        """Return the certificate's entry on impossible cells: how many are published, if any.

        ``consistent``: all nodes are published, and not only those that were measured.
        """
        if self.impossible is None:
            return {}
        nodes = slice(None) if consistent else np.unique(np.concatenate(list(self.cuts.values())))
        return {"impossible": int(self.impossible[nodes].sum())}

    def in_shape(self, level: str, measured: NDArray[Any]) -> NDArray[Any]:
        """Return measured numbers in the shape of the level, 0 in impossible cells.

        Raises
        ------
        PublicationError
            They are not as many as are measured.
        """
        possible = self.possible(level)
        if possible is None:
            return measured
        if measured.shape != self.measured_shape(level):
            raise PublicationError(
                f"table {self.table.name} has {math.prod(self.measured_shape(level))} possible numbers, "
                "and another number was measured",
                where="measurements",
                hint="restore the measurements from the backup",
            )
        everywhere = np.zeros(possible.shape, measured.dtype)
        everywhere[possible] = measured
        return everywhere

    @property
    def signed(self) -> bool:
        """Whether its numbers may be negative: sums of values that may be."""
        return self.table.measured is not None and self.table.measured.signed

    @property
    def adds_up(self) -> bool:
        """Whether its numbers are sums over records, so that cells add up."""
        return self.table.measured is None or self.table.measured.adds_up

    @property
    def nodes(self) -> int:
        """Number of nodes of the tree."""
        return len(self.parents)

    @property
    def cells(self) -> int:
        """Number of cells at each node."""
        return math.prod(domain.size for domain in self.others)


def measured_tree(
    layout: Layout,
    parts: dict[str, tuple[NDArray[Any], Any]],
    out: NDArray[np.float64] | None = None,
) -> Estimate:
    """Bring the measured levels of one table onto its tree.

    Parameters
    ----------
    parts
        Level -> (noisy values in the layout of counting, variance of all or of each).
    out
        (nodes, cells) zeros for the values.

    Returns
    -------
    Estimate
        (nodes, cells) values and (nodes, 1) variances, (nodes, cells) where they differ from cell to cell,
        infinite where nothing was measured. A leaf that stands above the deepest level is measured with
        several levels: inverse-variance mean. Where nobody can be both are 0, whatever was given.
    """
    values = np.zeros((layout.nodes, layout.cells)) if out is None else out
    per_cell = any(np.ndim(variance) for _, variance in parts.values())
    precision = np.zeros((layout.nodes, layout.cells if per_cell else 1))
    for level, (noisy, variance) in parts.items():
        cut = layout.cuts[level]
        given = np.asarray(noisy).reshape(len(cut), layout.cells)
        # Of a huge budget the variance may be zero to the computer: it is a measurement all the same.
        weights = 1 / np.maximum(_as_rows(variance, given), NOTHING)
        for rows in strips(*given.shape):
            nodes, fresh = cut[rows], given[rows].astype(float)
            weight, before = weights[rows] if weights.ndim else weights, precision[nodes]
            if not layout.adds_up:  # each number is one measurement: the better one stands
                weight = np.where(weight > before, weight, 0.0)
                before = np.where(weight > 0, 0.0, before)
            values[nodes] = np.where(
                before > 0, (values[nodes] * before + fresh * weight) / (before + weight), fresh
            )
            precision[nodes] = before + weight
    with np.errstate(divide="ignore"):
        variances = 1 / precision
    if layout.impossible is not None:
        values[layout.impossible] = 0.0
        variances = np.where(layout.impossible, 0.0, variances)
    return Estimate(values, variances)


def _as_rows(variance: Any, given: NDArray[Any]) -> NDArray[np.float64]:
    """Return one variance, or one for each cell, in the shape of a level's rows."""
    spread = np.asarray(variance, float)
    return spread.reshape(given.shape) if spread.ndim else spread


# Denominators of rates: the counts of another table, an invariant or public figures, cell by cell. They
# have the dimensions of the rate's table or fewer; a number stands for all cells of the others. Along a
# hierarchy they go down at least as far as the table, and their upper nodes are sums.


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


def denominator_of(loaded: Loaded, layout: Layout, estimates: Mapping[str, Estimate]) -> Estimate | None:
    """Return the denominator of a rate, (nodes, cells of its table); None for a rate over its own records.

    Parameters
    ----------
    layout
        Of the array of the rate.
    estimates
        Of the counts of all tables; public numbers have the variance 0.
    """
    denominators = denominator_at(loaded, layout, estimates)
    return None if denominators is None else denominators(slice(None))


def denominator_at(
    loaded: Loaded, layout: Layout, estimates: Mapping[str, Estimate]
) -> Callable[[Nodes], Estimate] | None:
    """Return a function of nodes for the denominator of a rate; as :func:`denominator_of`."""
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
    estimate = estimates[other.name]
    # Without a hierarchy of its own, or along one that this table has too: the spec's own check.
    treed = other.along is not None
    spread = np.broadcast_to(estimate.variances, estimate.values.shape)
    both = [_spread(loaded, layout, names, numbers, treed) for numbers in (estimate.values, spread)]
    return lambda nodes: Estimate(*(_rows(numbers, nodes) for numbers in both))


def total_over(
    loaded: Loaded, layouts: Mapping[str, Layout], array: str, estimates: Mapping[str, Estimate]
) -> float | None:
    """Return the total of the denominator of the rate with this array; None where it has none of its own.

    NaN where part of it belongs to cells in which no record of the rate can be.
    """
    layout, consistent = layouts[array], loaded.spec.postprocessing.consistency
    measure, denominators = layout.table.measured, denominator_at(loaded, layout, estimates)
    if measure is None or measure.denominator is None or denominators is None:
        return None
    known = next((k for k in (*loaded.known, *loaded.figures) if k.name == measure.denominator), None)
    if layout.impossible is not None:
        nodes, others = layout.cuts[layout.finest], [other for other in layout.others if other.name != PART]
        sizes = (len(nodes), *(other.size for other in others))
        nobody = layout.impossible[nodes].reshape(*sizes, -1)[..., 0]
        table = None if known is not None else layouts[measure.denominator].table
        along, crossed = (table.along, table.dimensions) if table is not None else (None, ())
        if known is not None:
            along, crossed = known.along, known.flat
        # A number stands for all cells along what it does not cross.
        repeated = [1 + axis for axis, other in enumerate(others) if other.name not in crossed]
        empty = nobody.all(axis=(*([0] if along is None else []), *repeated), keepdims=True)
        if (empty & (denominators(nodes).values.reshape(sizes) != 0)).any():
            return math.nan
    if known is not None:
        return float(known.values.sum())
    over = layouts[measure.denominator]
    return float(estimates[measure.denominator].values[over.tops(consistent=consistent)].sum())


def _spread(loaded: Loaded, layout: Layout, names: Sequence[str], values: Floats, treed: bool) -> Floats:
    """Return a view of numbers (nodes, cells over ``names``) for a table: nodes, an axis a dimension."""
    grid = values.reshape(len(values), *(loaded.domains[name].size for name in names))
    wanted = [domain for domain in layout.others if domain.name != PART]
    grid = grid.transpose(
        0, *(1 + list(names).index(domain.name) for domain in wanted if domain.name in names)
    )
    missing = [1 + index for index, domain in enumerate(wanted) if domain.name not in names]
    grid = np.expand_dims(grid[: layout.nodes] if treed else grid, missing)
    return np.broadcast_to(grid, (layout.nodes, *(domain.size for domain in wanted)))


def _rows(numbers: Floats, nodes: Nodes) -> Floats:
    """Return the numbers at some nodes, (nodes, cells)."""
    some = numbers[nodes]
    return some.reshape(len(some), math.prod(some.shape[1:]))
