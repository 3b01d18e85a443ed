"""The suite for microdata: the rules of the spec, checked on the metrics table.

Shares are divisions of whole numbers, and so are their limits; both are rounded to the nearest double,
which keeps the order, so that a share equal to its limit passes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

from tabularium.mechanisms.errors import RuleFailed
from tabularium.validations.domains.domains import Domain
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
from tabularium.validations.suites.expectations import Bound, Number, RuleResult, Severity, check_suite
from tabularium.validations.suites.metrics import Metrics
from tabularium.validations.suites.microdata_findings import (
    CHANGE,
    REJECTED,
    all_numbers,
    described,
    findings,
)

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
