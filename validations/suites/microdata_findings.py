"""Why microdata break a rule: which columns, and by what kind of fault; never by which value or how often.

What is found here is for the home and the local terminal
(:class:`~tabularium.mechanisms.errors.DataRefused`): one record could change it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import groupby

from tabularium.mechanisms.errors import Finding
from tabularium.validations.domains.domains import Domain, NumberDomain
from tabularium.validations.spec.model import ReleaseSpec
from tabularium.validations.spec.parts.rules import (
    InvalidRule,
    NullsRule,
    NumbersRule,
    RangeRule,
    RowCountRule,
    Rule,
    UniqueRule,
)
from tabularium.validations.suites.metrics import ColumnMetrics, Metrics

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
