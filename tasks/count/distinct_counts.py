"""Distinct counts: each level by itself, in the engine, and never as a sum of other cells.

::

    kept records ─▶ different (cell, value) ─▶ at each level different (cell, value) ─▶ values per cell

One statement counts all levels of some arrays, and cells with numbers come back: no value leaves the engine.
Values are compared as text. Those of records that bounding dropped are not counted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from tabularium.tasks.count.contributions import NO_ITEM, OUTSIDE
from tabularium.tasks.count.count_files import Counts, axis_of
from tabularium.validations.domains.domains import Domain, HierarchyDomain, cut, leaf_positions
from tabularium.validations.imported_later import Later
from tabularium.validations.release_spec.tables import Table

if TYPE_CHECKING:
    import ibis
else:
    ibis = Later("ibis")


@dataclass(frozen=True, eq=False)
class DistinctLevel:
    """One level of an array of different values.

    Attributes
    ----------
    cell, value, leaf
        Columns of the kept records; ``leaf``, the code along the hierarchy, is empty without one.
    place
        (leaves,) where in the level each leaf lies.
    array
        (nodes of the level, sizes of the other dimensions), and filled.
    """

    table: Table
    level: str
    cell: str
    value: str
    leaf: str
    place: Counts
    array: Counts

    @classmethod
    def of(cls, table: Table, names: Sequence[str], domains: Mapping[str, Domain]) -> list[DistinctLevel]:
        """Return all measured levels of an array whose columns have these names."""
        axis, (cell, value, *leaf) = axis_of(domains, table), names
        if table.along is None:
            return [cls(table, "", cell, value, "", np.zeros(0, np.int64), np.zeros(axis.shape, np.int64))]
        domain = domains[table.along]
        assert isinstance(domain, HierarchyDomain)  # noqa: S101 - the spec's own check
        return [
            cls(
                table,
                level,
                cell,
                value,
                leaf[0],
                leaf_positions(domain, level),
                np.zeros((len(cut(domain, level)), *axis.shape[1:]), np.int64),
            )
            for level in table.levels
        ]

    def counted(self, records: Any) -> Any:
        """Return the cells of the level with values, and their numbers of distinct values."""
        some = records.filter(records[self.cell] != OUTSIDE, records[self.value] != NO_ITEM)
        number = some[self.cell].cast("int64")
        leaves = {"leaf": some[self.leaf].cast("int64")} if self.leaf else {}
        pairs = some.select(number=number, value=some[self.value], **leaves).distinct()
        if self.leaf and not np.array_equal(self.place, np.arange(len(self.place))):
            inner = math.prod(self.array.shape[1:])
            moved = (self.place - np.arange(len(self.place))) * inner
            codes = pa.table({"at": pa.array(range(len(moved)), pa.int64()), "moved": pa.array(moved)})
            pairs = pairs.inner_join(ibis.memtable(codes), [("leaf", "at")])
            pairs = pairs.select(number=pairs.number + pairs.moved, value=pairs.value).distinct()
        return pairs.group_by("number").aggregate(values=pairs.count())


def all_levels(levels: Sequence[DistinctLevel], records: Any) -> Any:
    """Return the expression that counts levels: ``values`` by level (``place``) and cell (``number``)."""
    levels_counted = []
    for number, level in enumerate(levels):
        counted = level.counted(records)
        levels_counted.append(
            counted.select(
                place=ibis.literal(number, type="int64"),
                number=counted.number,
                values=counted["values"].cast("int64"),
            )
        )
    return ibis.union(*levels_counted) if len(levels_counted) > 1 else levels_counted[0]


def fill(levels: Sequence[DistinctLevel], batch: pa.RecordBatch) -> None:
    """Add the result of the expression to the arrays of the levels."""
    columns = (batch[name].to_numpy(zero_copy_only=False) for name in ("place", "number", "values"))
    positions, number, values = columns
    for at in np.unique(positions):
        in_level, level = positions == at, levels[at]
        measure = level.table.measured
        assert measure is not None  # noqa: S101 - it is the array of one
        flat = level.array.reshape(-1)
        measure.add(flat, number[in_level], [values[in_level]], np.int64(0), np.int64(1))
