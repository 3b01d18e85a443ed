"""The metrics table: one row of numbers about the microdata, computed in one pass of the engine.

Rules are checked only on these numbers (:mod:`tabularium.validations.suites.microdata`), so that no
tool that checks them ever sees a record. The numbers are exact and confidential: they stay in the secure
workspace.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabularium.mechanisms.errors import Finding, RuleFailed
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
from tabularium.validations.release_spec.privacy import (
    InvalidRule,
    NullsRule,
    NumbersRule,
    RangeRule,
    RowCountRule,
    Rule,
    UniqueRule,
)
from tabularium.validations.release_spec.tables import Table
from tabularium.validations.suites.expectations import Bound, Number, RuleResult, Severity, check_suite
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
    read = {name: f"measured{index}" for index, name in enumerate(spec.measured_columns)}
    values = {new: number_of(table, raw[name]) for name, new in read.items()}
    table = table.mutate(**values) if values else table
    good = kept(table, domains, unit)
    numbers: dict[str, Any] = {"rows": table.count(), "kept": table.count(where=good)}
    numbers["unit_nulls"] = table.count(where=is_missing(table[unit])) if unit else ibis.literal(0)
    if spec.impossible:
        numbers[IMPOSSIBLE] = table.count(where=table[IMPOSSIBLE])
    for index, (name, names) in enumerate(coded_names(domains).items()):
        numbers |= _column_numbers(table, index, names)
        if spec.columns[name].is_made:
            code = table[names.code]
            numbers |= {f"least{index}": code.min(), f"most{index}": code.max()}
    for index, (name, new) in enumerate(read.items()):
        numbers[f"no_number{index}"] = table.count(where=is_missing(table[raw[name]]))
        numbers[f"number{index}"] = table[new].count()
    for index, array in enumerate(spec.arrays):
        numbers |= _beyond(table, good, index, array, read, domains)
    numbers_row = table.aggregate(**numbers)
    extra = {
        f"distinct{index}": table.select(*(raw[name] for name in rule.columns)).distinct().count().as_scalar()
        for index, rule in enumerate(_unique_rules(spec))
    }
    if unit is not None and _compares_with_last(spec):
        extra["counted"] = _bounded_total(table.filter(good), unit, spec.privacy.max_contributions)
    return numbers_row.mutate(**extra) if extra else numbers_row


def read_metrics(row: Mapping[str, Any], domains: Mapping[str, Domain], spec: ReleaseSpec) -> Metrics:
    """Return the metrics of the one row that the expression gave."""
    columns = {}
    for index, name in enumerate(domains):
        columns[name] = ColumnMetrics(
            nulls=int(row[f"nulls{index}"] or 0),
            invalid=int(row[f"invalids{index}"] or 0),
            read=row.get(f"read{index}"),
            low=_number(domains[name], row.get(f"low{index}")),
            high=_number(domains[name], row.get(f"high{index}")),
            least=row.get(f"least{index}"),
            most=row.get(f"most{index}"),
        )
    rows = int(row["rows"])
    duplicates = {
        rule.name: rows - int(row[f"distinct{index}"]) for index, rule in enumerate(_unique_rules(spec))
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
            name: (int(row[f"no_number{index}"] or 0), int(row[f"number{index}"] or 0))
            for index, name in enumerate(spec.measured_columns)
        },
        impossible=int(row.get(IMPOSSIBLE) or 0),
        beyond={
            index: (int(row.get(f"beyond{index}") or 0), int(row.get(f"heavier{index}") or 0))
            for index, array in enumerate(spec.arrays)
            if array.measured is not None
        },
    )


def _beyond(
    table: Any,
    good: Any,
    index: int,
    array: Table,
    read: Mapping[str, str],
    domains: Mapping[str, Domain],
) -> dict[str, Any]:
    """Return how many counted records have a value, or a weight, beyond the bounds of a measure."""
    measure = array.measured
    if measure is None:
        return {}
    counted, result = good, {}
    if array.where is not None:
        counted &= universe_of(array.where, domains).holds(table, domains)
    if isinstance(measure, OfColumn):
        group = None if measure.by is None else table[coded_names(domains)[measure.by].code]
        low, high = (of_group(group, bounds, "float64") for bounds in (measure.bottoms, measure.tops))
        value = table[read[measure.of]]
        result[f"beyond{index}"] = table.count(where=counted & ((value < low) | (value > high)))
    if measure.weight is not None:
        weight = table[read[measure.weight.column]]
        result[f"heavier{index}"] = table.count(where=counted & ((weight < 0) | (weight > measure.heaviest)))
    return result


def _number(domain: Domain, step: int | None) -> float | None:
    return domain.number(step) if isinstance(domain, NumberDomain) and step is not None else None


def _column_numbers(table: Any, index: int, names: CodedNames) -> dict[str, Any]:
    numbers = {
        f"nulls{index}": table.count(where=table[names.null]),
        f"invalids{index}": table.count(where=table[names.invalid]),
    }
    if names.value is not None:
        value = table[names.value]
        numbers |= {f"read{index}": value.count(), f"low{index}": value.min(), f"high{index}": value.max()}
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


# The suite for microdata: the rules of the spec, checked on the metrics table.
#
# Shares are divisions of whole numbers, and so are their limits; both are rounded to the nearest double,
# which keeps the order, so that a share equal to its limit passes.


_NO_LAST = "no earlier period has been published"


def check_microdata(
    spec: ReleaseSpec,
    metrics: Metrics,
    last_total: int | None,
    results: Path | None = None,
    domains: Mapping[str, Domain] | None = None,
) -> tuple[RuleResult, ...]:
    """Check the metrics of a source by the rules of its spec.

    Returns a result per rule, ``max_rejected`` first.

    Parameters
    ----------
    spec
        With ``rules`` and ``source.max_rejected``, which is a rule of severity stop. So is that all
        values of a measured column are numbers or null, where no rule says otherwise.
    last_total
        The total published for the period before; None if there is none, and the comparison passes.
    results
        File for the results of Great Expectations inside the secure workspace.
    domains
        Declared column -> its domain, to see that columns made from others have codes of theirs and no other.
    """
    numbers: dict[str, Number] = {}
    suite: list[Bound] = []
    # The names are kept in order, with the rules that cannot be checked this time among them.
    order: dict[str, RuleResult | None] = {}

    def expect(rule: str, severity: Severity, column: str, number: Number, low: Number, high: Number) -> None:
        numbers[column] = number
        suite.append(Bound(rule, column, low, high, severity))
        order[rule] = None

    limit = spec.source.max_rejected
    rejected = metrics.rows - metrics.kept
    exact = isinstance(limit, int)
    expect(REJECTED, "stop", "rejected", rejected if exact else _share(rejected, metrics), 0, _plain(limit))
    for rule in (*all_numbers(spec), *(candidate for candidate in spec.rules if candidate.noisy is None)):
        for column, number, low, high in _bounds(rule, metrics):
            expect(rule.name, rule.severity, column, number, low, high)
        if isinstance(rule, RowCountRule) and rule.change_from_last is not None:
            if last_total is None:
                order[CHANGE] = RuleResult(CHANGE, rule.severity, True, _NO_LAST)
            else:
                low, high = around(last_total, rule.change_from_last)
                expect(CHANGE, rule.severity, "counted", metrics.counted, low, high)
    for name, domain in (domains or {}).items():
        if spec.columns[name].is_made:
            made = metrics.columns[name]
            for end, number in (("least", made.least), ("most", made.most)):
                expect(f"codes of {name}", "stop", f"{end} code of {name}", number, 0, domain.size - 1)
    table = {column: [number] for column, number in numbers.items()}
    checked = {result.name: result for result in check_suite("microdata", table, suite, results)}
    return tuple(result or checked[name] for name, result in order.items())


def stop_if_failed(
    results: tuple[RuleResult, ...],
    spec: ReleaseSpec,
    domains: Mapping[str, Domain],
    metrics: Metrics,
    last_total: int | None,
) -> None:
    """Stop when a rule of severity stop failed.

    Raises
    ------
    RuleFailed
        Naming the rules, and the columns and kinds of fault that broke them.
    """
    failed = [result.name for result in results if result.severity == "stop" and not result.passed]
    if not failed:
        return
    hint = "correct the source, or change the rules of the spec"
    if REJECTED in failed:
        hint = (
            "see that the codes and ranges under `columns` are those of the source, send nulls and invalid "
            "values to `other`, or raise source.max_rejected; workspace.keep keeps metrics.json, which says "
            "how many"
        )
    elif any(name.startswith("numbers(") for name in failed):
        hint = (
            "say how numbers are written (source.thousands, source.decimal), name texts that mean null under "
            "source.nulls, correct the source, or allow some by a rule: numbers"
        )
    reasons = findings(failed, spec, domains, metrics, last_total)
    raise RuleFailed(f"the microdata break {described(reasons)}", where="source", hint=hint, findings=reasons)


def _bounds(rule: Rule, metrics: Metrics) -> list[tuple[str, Number, Number, Number]]:
    """Return (column of the metrics table, number, lowest, highest) for what a rule asks."""
    if isinstance(rule, RowCountRule):
        if rule.min is None and rule.max is None:
            return []
        return [("rows", metrics.rows, rule.min, rule.max)]
    if isinstance(rule, NullsRule | InvalidRule):
        numbers = metrics.columns[rule.column]
        part = numbers.nulls if isinstance(rule, NullsRule) else numbers.invalid
        return [(rule.name, _share(part, metrics), 0, _plain(rule.at_most))]
    if isinstance(rule, NumbersRule):
        return [(rule.name, _share(metrics.no_numbers(rule.column), metrics), 0, _plain(rule.at_most))]
    if isinstance(rule, RangeRule):
        column = metrics.columns[rule.column]
        least, most = (None if end is None else _plain(end) for end in (rule.min, rule.max))
        ends = [("low", column.low, least, None), ("high", column.high, None, most)]
        return [
            (f"{end} of {rule.column}", number, low, high)
            for end, number, low, high in ends
            if low is not None or high is not None
        ]
    return [(rule.name, metrics.duplicates[rule.name], 0, 0)] if isinstance(rule, UniqueRule) else []


def _share(part: int, metrics: Metrics) -> float:
    return part / metrics.rows if metrics.rows else 0.0


def _plain(limit: int | Fraction | Decimal) -> Number:
    return limit if isinstance(limit, int) else float(limit)


def around(last: int, change: Fraction) -> tuple[int, int]:
    """Return the smallest and the largest whole number within ``change`` of ``last``."""
    return math.ceil(last * (1 - change)), math.floor(last * (1 + change))


# Findings name columns and kinds of fault, never a value or a number. They are for the home and the local
# terminal (:class:`~tabularium.mechanisms.errors.DataRefused`): one record could change them.

#: The names of the limits that are no rules of their own.
REJECTED = "max_rejected"
CHANGE = "change_from_last"
_NULL, _FOREIGN, _NOT_INTEGER, _OUTSIDE = "null", "not in the code list", "not a whole number", "out of range"
_NO_NUMBER = "not a number"
_IMPOSSIBLE = "impossible together"


def findings(
    failed: Collection[str],
    spec: ReleaseSpec,
    domains: Mapping[str, Domain],
    metrics: Metrics,
    last_total: int | None,
) -> tuple[Finding, ...]:
    """Return why each of the rules that failed did.

    Parameters
    ----------
    failed
        Names of rules.
    last_total
        The total published for the period before.
    """
    result = []
    if REJECTED in failed:
        result += [Finding(REJECTED, column, kind) for column, kind in _rejecting(spec, domains, metrics)]
    for rule in (*spec.rules, *all_numbers(spec)):
        if rule.name in failed:
            result += [
                Finding(rule.name, ", ".join(rule.about), kind) for kind in _kinds(rule, domains, metrics)
            ]
        if isinstance(rule, RowCountRule) and CHANGE in failed and last_total is not None:
            result.append(Finding(CHANGE, "", _size(metrics.counted < last_total)))
    explained = {finding.rule for finding in result}
    return (*result, *(Finding(rule) for rule in failed if rule not in explained))


def all_numbers(spec: ReleaseSpec) -> list[NumbersRule]:
    """Return the rules that hold without being written: measured columns hold only numbers and nulls."""
    watched = {rule.column for rule in spec.rules if isinstance(rule, NumbersRule)}
    unwatched = (name for name in spec.measured_columns if name not in watched)
    return [NumbersRule(rule="numbers", column=name, at_most=Fraction(0)) for name in unwatched]


def local_notes(spec: ReleaseSpec, domains: Mapping[str, Domain], metrics: Metrics) -> Iterator[str]:
    """Yield what of the records is counted as something else than they say, and how often. Confidential."""
    for name, domain in domains.items():
        column = metrics.columns[name]
        moved = [
            f"{_counted(number, 'record')} that {'is' if number == 1 else 'are'} {kind}"
            for kind, number, treatment in (
                ("null", column.nulls, domain.nulls),
                ("invalid", column.invalid, domain.invalid),
            )
            if number and treatment == "other"
        ]
        if moved:
            yield f"column {name}: {' and '.join(moved)} went to {domain.other!r}"
    for name in spec.measured_columns:
        if number := metrics.no_numbers(name):
            of = _counted(metrics.rows, "record")
            yield f"column {name}: {number:,} of {of} hold no number and no null"
    for index, (values, weights) in metrics.beyond.items():
        array = spec.arrays[index]
        what, measure = f"table {array.name.replace('-', ', measure ')}", array.measured
        beyond = "beyond" if measure is None or measure.by is None else "beyond the bounds of their groups,"
        if values and measure is not None:
            ends = f"{beyond} {measure.bottom:,} to {measure.top:,}"
            yield f"{what}: {_counted(values, 'value')} of {measure.of} {ends}, counted as the nearer bound"
        if weights and measure is not None and measure.weight is not None:
            ends = f"{measure.weight.column} beyond 0 to {measure.heaviest:,}, counted as the nearer of them"
            yield f"{what}: {_counted(weights, 'weight')} of {ends}"


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def described(findings_shown: Sequence[Finding]) -> str:
    """Say in one line why rules failed: ``max_rejected (age: null, out of range; sex: null), row_count``."""
    rules = []
    for rule, ours in groupby(findings_shown, lambda finding: finding.rule):
        columns = []
        for column, same in groupby(ours, lambda finding: finding.column):
            kinds = ", ".join(finding.kind for finding in same)
            columns.append(f"{column}: {kinds}" if column and column not in rule else kinds)
        rules.append(f"{rule} ({'; '.join(columns)})" if any(columns) else rule)
    return ", ".join(rules)


def _rejecting(
    spec: ReleaseSpec, domains: Mapping[str, Domain], metrics: Metrics
) -> Iterator[tuple[str, str]]:
    """Yield the columns whose values led to a rejection, with the kinds of fault."""
    for column, domain in domains.items():
        numbers = metrics.columns[column]
        if domain.nulls == "reject" and numbers.nulls:
            yield column, _NULL
        if domain.invalid == "reject":
            for kind in _invalid(domain, numbers, metrics):
                yield column, kind
    if metrics.impossible:
        yield ", ".join(dict.fromkeys(n for fact in spec.impossible for n in fact.cells)), _IMPOSSIBLE
    if spec.privacy.unit.column is not None and metrics.unit_nulls:
        yield spec.privacy.unit.column, _NULL


def _invalid(domain: Domain, numbers: ColumnMetrics, metrics: Metrics) -> Iterator[str]:
    if not isinstance(domain, NumberDomain):
        if numbers.invalid:
            yield _FOREIGN
        return
    unread = metrics.rows - numbers.nulls - (numbers.read or 0)
    if unread:
        yield _NOT_INTEGER if domain.digits is None and not domain.floor else _NO_NUMBER
    if numbers.invalid > unread:
        yield _OUTSIDE


def _kinds(rule: Rule, domains: Mapping[str, Domain], metrics: Metrics) -> Iterator[str]:
    if isinstance(rule, NullsRule):
        yield _NULL
    elif isinstance(rule, InvalidRule):
        yield from _invalid(domains[rule.column], metrics.columns[rule.column], metrics)
    elif isinstance(rule, RangeRule):
        yield _OUTSIDE
    elif isinstance(rule, NumbersRule):
        yield "not a number"
    elif isinstance(rule, UniqueRule):
        yield "not unique"
    else:
        yield _size(rule.min is not None and metrics.rows < rule.min)


def _size(fewer: bool) -> str:
    return "too few" if fewer else "too many"
