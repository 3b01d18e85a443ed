"""What records add to the arrays of tables and measures, and how many records of a unit count.

A record adds its value on the public grid, times its weight. The engine clamps and rounds record by record;
whole numbers are added up here, in 64 bits. A null value or weight adds nothing and does not reject the
record, nor does a value that is no number, where a rule allows it. Infinities are clamped. The value of a
test is 1 or 0, and null where it is neither true nor false.

At most so many records of each unit count (:func:`bounded`), chosen by the unit's own records only.

An engine that keeps its records counts all arrays in one scan (:func:`grouped_sql`)::

    records, coded and bounded ─▶ GROUP BY GROUPING SETS ─▶ (cell, number, sums), (cell, value, weight)

A sum needs for each cell the sum of values times weights and the sum of weights: bounds are the same for all
records of a cell. A tree or a choice needs the number of records, or their weight, at each value of each
cell. All of these are whole numbers, so that the arrays equal those of :func:`accumulate`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tabularium.tasks.count.count_files import Counts
from tabularium.validations.domains.domains import Domain
from tabularium.validations.domains.encoding import coded_names, is_missing, number_of, of_group
from tabularium.validations.imported_later import Later
from tabularium.validations.release_spec.measures.measure import Measure
from tabularium.validations.universes.universe import test_of

if TYPE_CHECKING:
    import ibis
else:
    ibis = Later("ibis")

NOTHING = -1  # stands for a null: values and weights are zero or more
NO_ITEM = "-"
"""Stands for a null among values that are compared as text."""


def engine_columns(
    measure: Measure,
    table: Any,
    raw: dict[str, str],
    name: str,
    domains: Mapping[str, Domain],
    leaf: str | None = None,
) -> dict[str, Any]:
    """Return the expressions that an array needs from each record, under names that begin with ``name``.

    The value in steps above ``from``, 0 to T, and where there is a weight, the weight; `NOTHING` for nulls.
    Of different values the value as text, `NO_ITEM` for nulls, and the code along ``leaf``, if there is one.
    """
    if measure.identifier is not None:
        along = {} if leaf is None else {f"{name}_leaf": table[coded_names(domains)[leaf].code]}
        return {f"{name}_value": as_item(table[raw[measure.identifier]]), **along}
    if measure.test is not None:
        truth = test_of(measure.test, domains).truth(table, domains, raw)
        expressions = {
            f"{name}_value": ibis.cases((truth.isnull(), NOTHING), (truth, 1), else_=0).cast("int64")
        }
    else:
        group = None if measure.by is None else table[coded_names(domains)[measure.by].code]
        low, high = (of_group(group, bounds, "float64") for bounds in (measure.bottoms, measure.tops))
        most, step = of_group(group, measure.widths, "int64"), measure.grid
        value = number_of(table, raw[measure.of])
        # Clamped before it is put on the grid, so that nothing overflows, and after: nothing rounds out.
        shifted = (_between(value, low, high) - low) * step.denominator / step.numerator
        expressions = {f"{name}_value": _whole(value, shifted, most)}
    if measure.weight is not None:
        weight = number_of(table, raw[measure.weight.column])
        most = measure.weight.end
        expressions[f"{name}_weight"] = _whole(weight, _between(weight, 0.0, float(most)), most)
    return expressions


def as_item(value: Any) -> Any:
    """Return a raw value as text in which null differs from any value, and which can be concatenated."""
    text = value.cast("string")
    # With its length before it: what is strung together in an order must not be read in two ways.
    marked = text.length().cast("string").concat(":", text)
    return ibis.ifelse(is_missing(value), ibis.literal(NO_ITEM), marked)


def accumulate(
    array: Counts,
    cells: Counts,
    measure: Measure,
    value: Counts,
    weight: Counts | None,
    groups: Counts | None = None,
) -> None:
    """Add a batch of records to the array of a measure, in place.

    Parameters
    ----------
    array
        Flat: the parts of each cell side by side.
    value, weight
        As `engine_columns` has them.
    groups
        The group of each record, where bounds differ by groups.
    """
    some = value != NOTHING
    if weight is not None:
        some &= weight != NOTHING
    at, steps = cells[some].astype(np.int64), value[some].astype(np.int64)
    times = np.int64(1) if weight is None else weight[some].astype(np.int64)
    low, width = _lows_and_widths(measure, None if groups is None else groups[some])
    weights = np.broadcast_to(times, steps.shape)
    if measure.by_value:
        powers = [weights, steps]
    else:
        powers = [weights * steps**power for power in range(measure.powers + 1)]
    measure.add(array, at, powers, low, width)


def _lows_and_widths(measure: Measure, groups: Counts | None) -> tuple[Counts, Counts]:
    """Return ``from`` and ``to`` minus ``from`` in steps, for each record or for all."""
    group = np.int64(0) if groups is None else groups
    return np.array(measure.lows, np.int64)[group], np.array(measure.widths, np.int64)[group]


def _between(value: Any, low: Any, high: Any) -> Any:
    return ibis.cases((value < low, low), (value > high, high), else_=value)


def _whole(known: Any, value: Any, most: Any) -> Any:
    """Return a number of 0 to ``most``, rounded to a whole number; `NOTHING` where ``known`` is null."""
    # Halves go up, on which engines' own rounding does not agree; the difference is exact, the value >= 0.
    floor = value.floor().cast("float64")
    rounded = (floor + ibis.ifelse(value - floor >= 0.5, 1.0, 0.0)).cast("int64")
    inside = ibis.cases((rounded < 0, 0), (rounded > most, most), else_=rounded)
    return ibis.ifelse(known.isnull(), NOTHING, inside).cast("int64")


_DIGITS = 12  # of the ticket: short texts sort quickly, and two of 2^48 are hardly ever the same


def bounded(table: Any, unit: str, cells: Sequence[str], most: int, key: str) -> Any:
    """Keep at most ``most`` records of each unit, chosen uniformly by a keyed order.

    Parameters
    ----------
    unit
        Name of the column of the privacy unit.
    cells
        Names of the columns of cell numbers, one per table.
    most
        The number of records a unit may contribute.
    key
        Hexadecimal; the release's own. It stands in the text of the query and need not be secret: for any
        key, the kept records of a unit depend only on that unit.

    Notes
    -----
    The order is total but for equal records: ticket, cells, number among equals. A ticket is the beginning of
    a SHA-256, which is the same in every engine, so that one key keeps the same records in all of them.
    """
    who = table[unit].cast("string")
    # Equal records of a unit are numbered, so that each of them has its own place in the order; which of
    # them is which does not matter, since they fall into the same cells.
    table = table.mutate(twin=ibis.row_number().over(group_by=[unit, *cells]))
    parts = [part for cell in cells for part in (table[cell].cast("string"), ibis.literal(","))]
    text = ibis.literal(key).concat(*parts, table.twin.cast("string"), ibis.literal("|"), who)
    table = table.mutate(ticket=text.hexdigest("sha256").substr(0, _DIGITS))
    order = [table.ticket, *(table[cell] for cell in cells), table.twin]
    turn = ibis.row_number().over(group_by=table[unit], order_by=order)
    return table.mutate(turn=turn).filter(ibis._.turn < most).drop("twin", "ticket", "turn")


def unit_numbers(records: Any, unit: str | None, most: int, up_to: int) -> Any:
    """Return one row: the number of ``units``, and of units ``cut`` with more than ``most`` records.

    And the number of all ``records``, of those ``left_out``, and of these again where each unit counts for
    ``up_to`` at most, ``limited``.

    ``unit``: name of the column of the privacy unit; None where each record is one.
    """
    if unit is None:
        nothing = {name: ibis.literal(0) for name in ("cut", "left_out", "limited")}
        return records.aggregate(units=records.count(), records=records.count(), **nothing)
    unit_counts = records.group_by(unit).aggregate(number=records.count())
    over = ibis.ifelse(unit_counts.number > most, unit_counts.number - most, 0)
    return unit_counts.aggregate(
        units=unit_counts.count(),
        cut=unit_counts.count(where=unit_counts.number > most),
        records=unit_counts.number.sum().coalesce(0),
        left_out=over.sum().coalesce(0),
        limited=ibis.ifelse(over > up_to, up_to, over).sum().coalesce(0),
    )


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
        """The sums that it needs: name -> SQL."""
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
        """The highest power of values that the engine sums; it does not sum values that group the rows."""
        return 0 if self.measured is None or self.measured.by_value else self.measured.powers

    def add(self, rows: dict[str, Counts]) -> None:
        """Add rows of this array's set."""
        inside = rows[self.keys[0]] != OUTSIDE
        at = self.finest(rows[self.keys[0]][inside])
        if self.measured is None:
            np.add.at(self.array, at, rows["number"][inside])
            return
        measure, value, groups = self.measured, self.columns[1], self.groups(at)
        powers = [rows[f"{value}_power{power}"][inside] for power in range(self._powers + 1)]
        low, width = _lows_and_widths(measure, groups)
        if measure.by_value:
            powers.append(rows[value][inside])
        measure.add(self.array, at, powers, low, width)


def grouped_sql(cells: str, arrays: Sequence[ArrayAggregate]) -> tuple[str, pa.Schema]:
    """Return the statement that counts arrays over the query of all cells, and the schema of its result."""
    sets = list(dict.fromkeys(array.keys for array in arrays))
    keys = list(dict.fromkeys(key for keys_of_set in sets for key in keys_of_set))
    sums = {name: sql for array in arrays for name, sql in array.sums.items()}
    wanted = [*(f"CAST({key} AS bigint) AS {key}" for key in keys), "COUNT(*) AS number"]
    wanted += [f"{sql} AS {name}" for name, sql in sums.items()]
    grouping = ", ".join(f"({', '.join(keys_of_set)})" for keys_of_set in sets)
    sql = f"SELECT {', '.join(wanted)} FROM ({cells}) AS cells GROUP BY GROUPING SETS ({grouping})"
    return sql, pa.schema([(name, pa.int64()) for name in (*keys, "number", *sums)])


def add_grouped(batches: Iterator[pa.RecordBatch], arrays: Sequence[ArrayAggregate]) -> None:
    """Add the statement's rows to the arrays; a row belongs to the set that is not null in it."""
    keys = {key for array in arrays for key in array.keys}
    for batch in batches:
        known = {name: pc.is_valid(batch[name]).to_numpy(zero_copy_only=False) for name in keys}
        columns = {name: pc.fill_null(batch[name], 0).to_numpy() for name in batch.schema.names}
        for array in arrays:
            rows = np.logical_and.reduce([known[key] == (key in array.keys) for key in keys])
            if rows.any():
                array.add({name: column[rows] for name, column in columns.items()})
