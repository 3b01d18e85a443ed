"""How a table of the spec lies in memory: the nodes of one hierarchy, crossed with the other dimensions.

Every table is an array (nodes, cells). A table without a hierarchical dimension has one node. Nodes are
the breadth-first prefix of the code list down to the deepest measured level, so that node i of the table
is node i of the code list.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from validations.domains.domains import Domain, HierarchyDomain
from validations.domains.levels import cut, nodes_to
from validations.spec.checks.histogram_checks import MECHANISM
from validations.spec.load import Loaded
from validations.spec.parts.table_parts import Histogram, Table


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
    """

    table: Table
    along: HierarchyDomain | None
    others: tuple[Domain, ...]
    parents: NDArray[np.int64]
    cuts: dict[str, NDArray[np.int64]]

    @classmethod
    def of(cls, loaded: Loaded, table: Table) -> Layout:
        """Lay out ``table`` of the spec."""
        others = tuple(loaded.domain_of(table, name) for name in table.dimensions if name != table.along)
        if table.along is None:
            return cls(table, None, others, np.array([-1]), {"": np.array([0])})
        domain = loaded.domains[table.along]
        assert isinstance(domain, HierarchyDomain)  # noqa: S101 - the spec's own check
        cuts = {level: cut(domain, level) for level in table.levels}
        nodes = max(nodes_to(domain, level) for level in table.levels)
        return cls(table, domain, others, domain.parents[:nodes], cuts)

    @classmethod
    def of_histogram(cls, histogram: Histogram) -> Layout:
        """Return a layout without any cell's meaning: what is measured of a histogram lies as it comes."""
        table = Table(
            name=histogram.name, dimensions=(), share=histogram.share, levels={}, mechanism=MECHANISM
        )
        return cls(table, None, (), np.array([-1]), {"": np.array([0])})

    def shape(self, level: str) -> tuple[int, ...]:
        """Return the shape in which a level is counted: its nodes, then the other dimensions."""
        sizes = tuple(domain.size for domain in self.others)
        return sizes if self.along is None else (len(self.cuts[level]), *sizes)

    @property
    def signed(self) -> bool:
        """Whether its numbers may be less than zero: sums of what may be."""
        return self.table.measured is not None and self.table.measured.signed

    @property
    def chosen(self) -> bool:
        """Whether its numbers are what was chosen in each cell, and no sums over records."""
        return self.table.measured is not None and self.table.measured.form == "choice"

    @property
    def nodes(self) -> int:
        """Number of nodes of the tree."""
        return len(self.parents)

    @property
    def cells(self) -> int:
        """Number of cells at each node."""
        return math.prod(domain.size for domain in self.others)
