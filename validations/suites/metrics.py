"""The metrics table: one row of numbers about the microdata, computed in one pass of the engine.

Rules are checked on these numbers alone (:mod:`tabularium.validations.suites.microdata_suite`), so that no
tool that checks them ever sees a record. The numbers are exact and confidential: they stay in the secure
workspace.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tabularium.validations.domains.domains import Domain, NumberDomain
from tabularium.validations.domains.encoding import (
    CodedNames,
    coded_names,
    is_missing,
    kept,
    number_of,
    of_group,
)
from tabularium.validations.imported_later import Later
from tabularium.validations.release_spec.measures.of_column import OfColumn
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.privacy import RowCountRule, UniqueRule
from tabularium.validations.release_spec.tables import Table
from tabularium.validations.universes.impossible_cells import IMPOSSIBLE
from tabularium.validations.universes.universe import universe_of

if TYPE_CHECKING:
    import ibis
else:
    ibis = Later("ibis")


@dataclass(frozen=True)
class ColumnMetrics:
    """Numbers about one declared column.

    Attributes
    ----------
    nulls, invalid
        Number of rows that are null, and that hold a value outside the domain.
    read
        Number of rows in which a number could be read (columns of numbers).
    low, high
        Smallest and largest number that was read, of decimals up to the digits of the domain; None if there
        was none.
    least, most
        Smallest and largest cell code of a column that is made from others; None if there was none.
    """

    nulls: int
    invalid: int
    read: int | None
    low: float | None
    high: float | None
    least: int | None = None
    most: int | None = None


@dataclass(frozen=True)
class Metrics:
    """Numbers about the whole source. Confidential.

    Attributes
    ----------
    rows
        Number of records.
    kept
        Number of records in which every declared column has a cell, and the privacy unit is known.
    counted
        Number of records after contribution bounding.
    unit_nulls
        Number of records without a privacy unit.
    columns
        Declared column -> its numbers.
    duplicates
        Rule name -> rows minus distinct values of its columns.
    numbers
        Column of a measure or weight -> rows that are null, and rows in which a number could be read.
    impossible
        Number of records that are rejected because their values cannot occur together.
    beyond
        Place of an array of a measure -> its kept records whose value lies beyond its bounds, and whose
        weight does.
    """

    rows: int
    kept: int
    counted: int
    unit_nulls: int
    columns: dict[str, ColumnMetrics]
    duplicates: dict[str, int]
    numbers: dict[str, tuple[int, int]] = field(default_factory=dict)
    impossible: int = 0
    beyond: dict[int, tuple[int, int]] = field(default_factory=dict)

    def no_numbers(self, column: str) -> int:
        """Return in how many rows a measured column is neither null nor a number."""
        nulls, read = self.numbers[column]
        return self.rows - nulls - read


def metrics_expression(
    table: Any, raw: Mapping[str, str], domains: Mapping[str, Domain], spec: ReleaseSpec
) -> Any:
    """Return the Ibis expression of the one-row metrics table over a coded table.

    Parameters
    ----------
    table
        What :func:`tabularium.validations.universes.impossible_cells.without_impossible` returned.
    raw
        Every column the spec speaks of -> its name in ``table``.
    domains
        Declared column -> its domain.
    spec
        For the privacy unit and the rules that need numbers of their own.
    """
    unit = raw[spec.privacy.unit.column] if spec.privacy.unit.column is not None else None
    # Apart from what is made of them: then an engine reads each text by pattern once.
    read = {name: f"measured{place}" for place, name in enumerate(spec.measured_columns)}
    values = {new: number_of(table, raw[name]) for name, new in read.items()}
    table = table.mutate(**values) if values else table
    good = kept(table, domains, unit)
    numbers: dict[str, Any] = {"rows": table.count(), "kept": table.count(where=good)}
    numbers["unit_nulls"] = table.count(where=is_missing(table[unit])) if unit else ibis.literal(0)
    if spec.impossible:
        numbers[IMPOSSIBLE] = table.count(where=table[IMPOSSIBLE])
    for place, (name, names) in enumerate(coded_names(domains).items()):
        numbers |= _column_numbers(table, place, names)
        if spec.columns[name].is_made:
            code = table[names.code]
            numbers |= {f"least{place}": code.min(), f"most{place}": code.max()}
    for place, (name, new) in enumerate(read.items()):
        numbers[f"no_number{place}"] = table.count(where=is_missing(table[raw[name]]))
        numbers[f"number{place}"] = table[new].count()
    for place, array in enumerate(spec.arrays):
        numbers |= _beyond(table, good, place, array, read, domains)
    whole = table.aggregate(**numbers)
    extra = {
        f"distinct{place}": table.select(*(raw[name] for name in rule.columns)).distinct().count().as_scalar()
        for place, rule in enumerate(_unique_rules(spec))
    }
    if unit is not None and _compares_with_last(spec):
        extra["counted"] = _bounded_total(table.filter(good), unit, spec.privacy.max_contributions)
    return whole.mutate(**extra) if extra else whole


def read_metrics(row: Mapping[str, Any], domains: Mapping[str, Domain], spec: ReleaseSpec) -> Metrics:
    """Return the metrics of the one row that the expression gave."""
    columns = {}
    for place, name in enumerate(domains):
        columns[name] = ColumnMetrics(
            nulls=int(row[f"nulls{place}"] or 0),
            invalid=int(row[f"invalids{place}"] or 0),
            read=row.get(f"read{place}"),
            low=_number(domains[name], row.get(f"low{place}")),
            high=_number(domains[name], row.get(f"high{place}")),
            least=row.get(f"least{place}"),
            most=row.get(f"most{place}"),
        )
    rows = int(row["rows"])
    duplicates = {
        rule.name: rows - int(row[f"distinct{place}"]) for place, rule in enumerate(_unique_rules(spec))
    }
    good = int(row["kept"])
    counted = row.get("counted")
    return Metrics(
        rows=rows,
        kept=good,
        counted=good if counted is None else int(counted),
        unit_nulls=int(row["unit_nulls"]),
        columns=columns,
        duplicates=duplicates,
        numbers={
            name: (int(row[f"no_number{place}"] or 0), int(row[f"number{place}"] or 0))
            for place, name in enumerate(spec.measured_columns)
        },
        impossible=int(row.get(IMPOSSIBLE) or 0),
        beyond={
            place: (int(row.get(f"beyond{place}") or 0), int(row.get(f"heavier{place}") or 0))
            for place, array in enumerate(spec.arrays)
            if array.measured is not None
        },
    )


def _beyond(
    table: Any,
    good: Any,
    place: int,
    array: Table,
    read: Mapping[str, str],
    domains: Mapping[str, Domain],
) -> dict[str, Any]:
    """Return how many counted records have a value, or a weight, beyond the bounds of a measure."""
    measure = array.measured
    if measure is None:
        return {}
    counted, found = good, {}
    if array.where is not None:
        counted &= universe_of(array.where, domains).holds(table, domains)
    if isinstance(measure, OfColumn):
        group = None if measure.by is None else table[coded_names(domains)[measure.by].code]
        low, high = (of_group(group, bounds, "float64") for bounds in (measure.bottoms, measure.tops))
        value = table[read[measure.of]]
        found[f"beyond{place}"] = table.count(where=counted & ((value < low) | (value > high)))
    if measure.weight is not None:
        weight = table[read[measure.weight.column]]
        found[f"heavier{place}"] = table.count(where=counted & ((weight < 0) | (weight > measure.heaviest)))
    return found


def _number(domain: Domain, step: int | None) -> float | None:
    return domain.number(step) if isinstance(domain, NumberDomain) and step is not None else None


def _column_numbers(table: Any, place: int, names: CodedNames) -> dict[str, Any]:
    numbers = {
        f"nulls{place}": table.count(where=table[names.null]),
        f"invalids{place}": table.count(where=table[names.invalid]),
    }
    if names.value is not None:
        value = table[names.value]
        numbers |= {f"read{place}": value.count(), f"low{place}": value.min(), f"high{place}": value.max()}
    return numbers


def _bounded_total(table: Any, unit: str, most: int) -> Any:
    """Return the number of records that bounding to ``most`` per unit leaves."""
    per_unit = table.group_by(unit).aggregate(records=lambda t: t.count())
    total = per_unit.aggregate(total=ibis.least(per_unit.records, most).sum())
    return ibis.coalesce(total.total.as_scalar(), 0)


def _unique_rules(spec: ReleaseSpec) -> list[UniqueRule]:
    return [rule for rule in spec.rules if isinstance(rule, UniqueRule)]


def _compares_with_last(spec: ReleaseSpec) -> bool:
    return any(
        isinstance(rule, RowCountRule) and rule.noisy is None and rule.change_from_last is not None
        for rule in spec.rules
    )
