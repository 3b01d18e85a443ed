"""The suite for microdata: the rules of the spec, checked on the metrics table.

Shares are divisions of whole numbers, and so are their limits; both are rounded to the nearest double,
which keeps the order, so that a share equal to its limit passes.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from pathlib import Path

from tabularium.mechanisms.errors import Finding, RuleFailed
from tabularium.validations.domains.domains import Domain, NumberDomain
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
from tabularium.validations.suites.expectations import Bound, Number, RuleResult, Severity, check_suite
from tabularium.validations.suites.metrics import ColumnMetrics, Metrics

_NO_LAST = "no earlier period has been published"


def check_microdata(
    spec: ReleaseSpec,
    metrics: Metrics,
    last_total: int | None,
    results: Path | None = None,
    domains: Mapping[str, Domain] | None = None,
) -> tuple[RuleResult, ...]:
    """Check the metrics of a source by the rules of its spec.

    Parameters
    ----------
    spec
        With ``rules`` and ``source.max_rejected``, which is a rule of severity stop. So is that all
        values of a measured column are numbers or null, where no rule says otherwise.
    metrics
        What the engine counted.
    last_total
        The total published for the period before; None if there is none, and the comparison passes.
    results
        File for the results of Great Expectations inside the secure workspace.
    domains
        Declared column -> its domain, to see that columns made from others have codes of theirs and no other.

    Returns
    -------
    One result per rule, ``max_rejected`` first
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
    for rule in (*all_numbers(spec), *(each for each in spec.rules if each.noisy is None)):
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
    hint = "mend the source, or change the rules of the spec"
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
    found = findings(failed, spec, domains, metrics, last_total)
    raise RuleFailed(f"the microdata break {described(found)}", where="source", hint=hint, findings=found)


def _bounds(rule: Rule, metrics: Metrics) -> list[tuple[str, Number, Number, Number]]:
    """Return (column of the metrics table, number, lowest, highest) for what a rule asks."""
    if isinstance(rule, RowCountRule):
        if rule.min is None and rule.max is None:
            return []
        return [("rows", metrics.rows, rule.min, rule.max)]
    if isinstance(rule, NullsRule | InvalidRule):
        found = metrics.columns[rule.column]
        part = found.nulls if isinstance(rule, NullsRule) else found.invalid
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
_NULL, _FOREIGN, _NO_WHOLE, _OUTSIDE = "null", "not in the code list", "not a whole number", "out of range"
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
    found = []
    if REJECTED in failed:
        found += [Finding(REJECTED, column, kind) for column, kind in _rejecting(spec, domains, metrics)]
    for rule in (*spec.rules, *all_numbers(spec)):
        if rule.name in failed:
            found += [
                Finding(rule.name, ", ".join(rule.about), kind) for kind in _kinds(rule, domains, metrics)
            ]
        if isinstance(rule, RowCountRule) and CHANGE in failed and last_total is not None:
            found.append(Finding(CHANGE, "", _size(metrics.counted < last_total)))
    explained = {each.rule for each in found}
    return (*found, *(Finding(rule) for rule in failed if rule not in explained))


def all_numbers(spec: ReleaseSpec) -> list[NumbersRule]:
    """Return the rules that hold without being written: measured columns hold numbers and nulls alone."""
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
    for place, (values, weights) in metrics.beyond.items():
        array = spec.arrays[place]
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


def described(found: Sequence[Finding]) -> str:
    """Say in one line why rules failed: ``max_rejected (age: null, out of range; sex: null), row_count``."""
    rules = []
    for rule, ours in groupby(found, lambda each: each.rule):
        columns = []
        for column, same in groupby(ours, lambda each: each.column):
            kinds = ", ".join(each.kind for each in same)
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
        yield _NO_WHOLE if domain.digits is None and not domain.floor else _NO_NUMBER
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
