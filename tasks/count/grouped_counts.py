"""Counting in an engine that keeps its records: one statement counts every array, and cells come back.

::

    records, coded and bounded ─▶ GROUP BY GROUPING SETS ─▶ (cell, number, sums), (cell, value, weight)

One scan serves all arrays. A sum needs of each cell the sum of values times weights and that of weights
alone: bounds are the same for all records of a cell. A tree or a choice needs how many records, or how much
weight, each cell has at each value. All of it are whole numbers, added up here in 64 bits, so that the arrays
are those that counting record by record gives (:func:`tabularium.tasks.count.contributions.accumulate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tabularium.tasks.count.contributions import NOTHING
from tabularium.tasks.count.count_files import Counts
from tabularium.validations.release_spec.measures.measure import Measure

OUTSIDE = -1


@dataclass(frozen=True, eq=False)
class ArrayAggregate:
    """One array of those that are counted together.

    Attributes
    ----------
    columns
        Of the cell; for a measure also of its value, and of its weight where it has one.
    measured
        The measure, or None for a table.
    finest, groups
        Take cell numbers over the leaves to those of the array; these to the group of a measure's bounds.
    array
        Flat, and added to.
    """

    columns: Sequence[str]
    measured: Measure | None
    finest: Callable[[Counts], Counts]
    groups: Callable[[Counts], Counts | None]
    array: Counts

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that its rows are grouped by."""
        cell = self.columns[0]
        by_value = self.measured is not None and self.measured.by_value
        return (cell, self.columns[1]) if by_value else (cell,)

    @property
    def sums(self) -> dict[str, str]:
        """What is summed for it: name -> SQL."""
        if self.measured is None:
            return {}
        value, *weights = self.columns[1:]
        some = " AND ".join(f"{name} <> {NOTHING}" for name in self.columns[1:])
        weight = weights[0] if weights else "1"
        terms = [" * ".join([*([value] * power), weight]) for power in range(self._powers + 1)]
        return {
            f"{value}_power{power}": f"CAST(SUM(CASE WHEN {some} THEN {term} ELSE 0 END) AS bigint)"
            for power, term in enumerate(terms)
        }

    @property
    def _powers(self) -> int:
        """Up to which power values are added up in the engine: those that rows are grouped by are not."""
        return 0 if self.measured is None or self.measured.by_value else self.measured.powers

    def add(self, rows: dict[str, Counts]) -> None:
        """Add rows of its own set."""
        inside = rows[self.keys[0]] != OUTSIDE
        at = self.finest(rows[self.keys[0]][inside])
        if self.measured is None:
            np.add.at(self.array, at, rows["number"][inside])
            return
        measure, value, groups = self.measured, self.columns[1], self.groups(at)
        powers = [rows[f"{value}_power{power}"][inside] for power in range(self._powers + 1)]
        group = np.int64(0) if groups is None else groups
        low, width = (np.array(each, np.int64)[group] for each in (measure.lows, measure.widths))
        if measure.by_value:
            powers.append(rows[value][inside])
        measure.add(self.array, at, powers, low, width)


def grouped_sql(cells: str, arrays: Sequence[ArrayAggregate]) -> tuple[str, pa.Schema]:
    """Return the statement that counts arrays over the query of all cells, and the types of what it gives."""
    sets = list(dict.fromkeys(array.keys for array in arrays))
    keys = list(dict.fromkeys(key for each in sets for key in each))
    sums = {name: sql for array in arrays for name, sql in array.sums.items()}
    wanted = [*(f"CAST({key} AS bigint) AS {key}" for key in keys), "COUNT(*) AS number"]
    wanted += [f"{sql} AS {name}" for name, sql in sums.items()]
    grouping = ", ".join(f"({', '.join(each)})" for each in sets)
    sql = f"SELECT {', '.join(wanted)} FROM ({cells}) AS cells GROUP BY GROUPING SETS ({grouping})"
    return sql, pa.schema([(name, pa.int64()) for name in (*keys, "number", *sums)])


def add_grouped(batches: Iterator[pa.RecordBatch], arrays: Sequence[ArrayAggregate]) -> None:
    """Add what the statement gave to the arrays; a row is of the set whose columns are not null in it."""
    keys = {key for array in arrays for key in array.keys}
    for batch in batches:
        known = {name: pc.is_valid(batch[name]).to_numpy(zero_copy_only=False) for name in keys}
        columns = {name: pc.fill_null(batch[name], 0).to_numpy() for name in batch.schema.names}
        for array in arrays:
            own = np.logical_and.reduce([known[key] == (key in array.keys) for key in keys])
            if own.any():
                array.add({name: column[own] for name, column in columns.items()})
