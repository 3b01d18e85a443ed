"""Variances of tables that fall into groups: those of one group are made to agree, and share nothing else.

Tables of different universes count different records, and sums of different columns are different numbers. So
the variances of a group (:mod:`tabularium.mechanisms.planning.linear_variances`) depend on its own
measurements alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tabularium.mechanisms.arrays import Floats, Indices
from tabularium.mechanisms.planning.linear_variances import LinearVariances, Spread


class SeparateVariances:
    """The variances of all groups, as functions of the precisions of all measurements.

    Parameters
    ----------
    groups
        No table is in two of them.

    Attributes
    ----------
    measurements
        (table, level) of each precision, group by group.
    """

    def __init__(self, groups: Sequence[LinearVariances]) -> None:
        self._groups = list(groups)
        self.measurements = [each for group in groups for each in group.measurements]
        ends = np.cumsum([len(group.measurements) for group in groups])
        self._own = [slice(end - len(g.measurements), end) for g, end in zip(groups, ends, strict=True)]
        self._holding = {name: group for group in groups for name in group.tables}

    def depth(self, table: str) -> Indices:
        """Return the depth of every class of a table's nodes."""
        return self._holding[table].depth(table)

    def variances(self, precisions: Floats, *, slopes: bool = False) -> dict[str, Spread]:
        """Return the variance of a cell at every class of nodes; see :class:`LinearVariances`."""
        found: dict[str, Spread] = {}
        for group, own in zip(self._groups, self._own, strict=True):
            for name, spread in group.variances(precisions[own], slopes=slopes).items():
                wide = np.zeros((len(spread.values), len(precisions) if slopes else 0))
                if slopes:
                    wide[:, own] = spread.slopes
                found[name] = Spread(spread.values, wide)
        return found

    def by_node(self, table: str, classes: Floats) -> Floats:
        """Return (nodes,) numbers of a table's nodes, given those of its classes."""
        group = self._holding[table]
        planned = group.tables[table]
        return classes[group.classes[planned.along].of[: planned.tree.nodes]]
