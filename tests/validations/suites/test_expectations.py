"""Great Expectations behind a door that lets only pass or fail out."""

from __future__ import annotations

import dataclasses
import json
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tabularium.mechanisms.errors import Finding, InternalError, RuleFailed
from tabularium.validations.suites.expectations import Bound, RuleResult, Same, check_suite
from tabularium.validations.suites.microdata import ColumnMetrics, Metrics, check_microdata, stop_if_failed
from tabularium.validations.suites.published_tables import CountedTable, check_counts
from tests.tasks import front


@pytest.mark.parametrize(
    ("number", "low", "high", "passed"),
    [
        (3, 3, 3, True),
        (2, 3, None, False),
        (4, None, 3, False),
        (0.05, 0, 0.05, True),
        (0.0500001, 0, 0.05, False),
        (None, 1, 2, True),
        (0, 0, 0, True),
    ],
)
def test_a_bound_includes_its_ends(number: Any, low: Any, high: Any, passed: bool) -> None:
    assert check_suite("bounds", {"n": [number]}, [Bound("rule", "n", low, high)])[0].passed is passed


def test_a_rule_holds_if_all_its_expectations_do_in_every_row() -> None:
    numbers = {"a": [1, 2, 3], "b": [5, 5, 5], "c": [5, 5, 6]}
    suite = [
        Bound("first", "a", 0),
        Bound("first", "a", None, 2),  # 3 is above
        Same("second", "b"),
        Same("third", "c", "warn"),
        Bound("fourth", "a", 1, 3),
        Bound("fifth", "a", 1, 3),  # the same expectation twice, for two rules
    ]
    assert check_suite("rows", numbers, suite) == (
        RuleResult("first", "stop", False),
        RuleResult("second", "stop", True),
        RuleResult("third", "warn", False),
        RuleResult("fourth", "stop", True),
        RuleResult("fifth", "stop", True),
    )


def test_results_are_booleans_in_a_closed_file(tmp_path: Path) -> None:
    before = set(Path(tempfile.gettempdir()).iterdir())
    path = tmp_path / "results.json"
    path.write_text("an earlier attempt")
    check_suite("private", {"n": [73190001]}, [Bound("rule", "n", 0, 5)], path)
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    document = json.loads(path.read_text())
    assert document["results"][0]["success"] is False
    assert document["results"][0]["result"] == {}
    assert "73190001" not in path.read_text()
    assert not {p for p in set(Path(tempfile.gettempdir()).iterdir()) - before if "great" in p.name.lower()}


def test_what_cannot_be_checked_is_an_error_without_its_text() -> None:
    with pytest.raises(InternalError, match="could not check") as caught:
        check_suite("broken", {"n": [1]}, [Bound("rule", "secret_column", 0)])
    assert "secret_column" not in str(caught.value)
    assert caught.value.__context__ is None
    assert check_suite("empty", {}, []) == ()


# --- microdata -------------------------------------------------------------------------------------------

RULES = """\
rules:
  - {rule: row_count, min: 10, max: 1000, change_from_last: "20%"}
  - {rule: nulls, column: sex, at_most: "5%"}
  - {rule: invalid, column: age, at_most: "1/3", severity: warn}
  - {rule: range, column: age, min: 0, max: 110}
  - {rule: unique, columns: [person]}
"""
NAMES = [
    "max_rejected",
    "row_count",
    "change_from_last",
    "nulls(sex)",
    "invalid(age)",
    "range(age)",
    "unique(person)",
]


def metrics(**changes: Any) -> Metrics:
    """Numbers that pass every rule, and sit on the edge of those that have one."""
    column = {
        "area": ColumnMetrics(0, 0, None, None, None),
        "age": ColumnMetrics(
            0, changes.pop("invalid_age", 50), 150, changes.pop("low", 0), changes.pop("high", 110)
        ),
        "sex": ColumnMetrics(changes.pop("null_sex", 7), 0, None, None, None),
    }
    given = {"rows": 150, "kept": 147, "counted": 120, "unit_nulls": 0, "duplicates": {"unique(person)": 0}}
    return Metrics(columns=column, **(given | changes))


def failed(
    folder: Path, numbers: Metrics, last: int | None = 100, source: str = ', max_rejected: "2%"'
) -> list[str]:
    loaded = front.spec(folder, source=source, rules=RULES)
    results = check_microdata(loaded.spec, numbers, last)
    assert [result.name for result in results] == NAMES
    return [result.name for result in results if not result.passed]


def test_every_rule_is_checked_at_its_edge(tmp_path: Path) -> None:
    assert failed(tmp_path, metrics()) == []


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"kept": 146}, "max_rejected"),
        ({"rows": 1001, "kept": 1001}, "row_count"),
        ({"counted": 121}, "change_from_last"),
        ({"counted": 79}, "change_from_last"),
        ({"null_sex": 8}, "nulls(sex)"),
        ({"invalid_age": 51}, "invalid(age)"),
        ({"low": -1}, "range(age)"),
        ({"high": 111}, "range(age)"),
        ({"duplicates": {"unique(person)": 1}}, "unique(person)"),
    ],
)
def test_one_more_breaks_exactly_that_rule(changes: dict[str, Any], rule: str, tmp_path: Path) -> None:
    assert failed(tmp_path, metrics(**changes)) == [rule]


@pytest.mark.parametrize(("counted", "passes"), [(80, False), (81, True), (121, True), (122, False)])
def test_a_change_is_measured_exactly(counted: int, passes: bool, tmp_path: Path) -> None:
    # 20 % of 101 around 101 is 80.8 to 121.2
    assert failed(tmp_path, metrics(counted=counted), last=101) == ([] if passes else ["change_from_last"])


def test_a_limit_of_rejected_records_may_be_a_count(tmp_path: Path) -> None:
    assert failed(tmp_path, metrics(), source=", max_rejected: 3") == []
    assert failed(tmp_path, metrics(), source=", max_rejected: 2") == ["max_rejected"]
    assert failed(tmp_path, metrics(kept=150), source="") == []
    assert failed(tmp_path, metrics(), source="") == ["max_rejected"]


def test_without_an_earlier_period_the_comparison_passes_with_a_note(tmp_path: Path) -> None:
    loaded = front.spec(tmp_path, source=', max_rejected: "2%"', rules=RULES)
    results = {r.name: r for r in check_microdata(loaded.spec, metrics(counted=9999), None)}
    assert results["change_from_last"].passed
    assert results["change_from_last"].note == "no earlier period has been published"


def test_an_empty_column_breaks_no_range(tmp_path: Path) -> None:
    assert failed(tmp_path, metrics(low=None, high=None)) == []


def stopped(folder: Path, numbers: Metrics, last: int | None = None, source: str = "") -> RuleFailed:
    loaded = front.spec(folder, source=source, rules=RULES)
    results = check_microdata(loaded.spec, numbers, last)
    with pytest.raises(RuleFailed) as caught:
        stop_if_failed(results, loaded.spec, loaded.domains, numbers, last)
    assert not any(character.isdigit() for character in str(caught.value))
    return caught.value


def test_stopping_names_rules_columns_and_kinds_but_no_number(tmp_path: Path) -> None:
    error = stopped(tmp_path, metrics(kept=99, null_sex=51))
    assert "max_rejected (age: out of range; sex: null), nulls(sex) (null)" in str(error)
    assert error.findings == (
        Finding("max_rejected", "age", "out of range"),
        Finding("max_rejected", "sex", "null"),
        Finding("nulls(sex)", "sex", "null"),
    )


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"rows": 9}, Finding("row_count", "", "too few")),
        ({"rows": 1001}, Finding("row_count", "", "too many")),
        ({"counted": 121}, Finding("change_from_last", "", "too many")),
        ({"counted": 79}, Finding("change_from_last", "", "too few")),
        ({"low": -1}, Finding("range(age)", "age", "out of range")),
        ({"duplicates": {"unique(person)": 1}}, Finding("unique(person)", "person", "not unique")),
    ],
)
def test_each_rule_says_what_broke_it(changes: dict[str, Any], finding: Finding, tmp_path: Path) -> None:
    numbers = metrics(**{"kept": changes.get("rows", 150), **changes})
    found = stopped(tmp_path, numbers, last=100).findings
    assert [each for each in found if each.rule == finding.rule] == [finding]


def test_a_value_that_is_no_whole_number_and_one_outside_are_told_apart(tmp_path: Path) -> None:
    def kinds(read: int, invalid: int) -> list[str]:
        numbers = metrics(kept=90)
        columns = {**numbers.columns, "age": ColumnMetrics(10, invalid, read, 0, 110)}
        found = stopped(tmp_path, dataclasses.replace(numbers, columns=columns)).findings
        return [each.kind for each in found if each.column == "age"]

    assert kinds(140, 0) == ["null"]
    assert kinds(140, 5) == ["null", "out of range"]
    assert kinds(135, 5) == ["null", "not a whole number"]
    assert kinds(135, 6) == ["null", "not a whole number", "out of range"]


def test_a_warning_does_not_stop(tmp_path: Path) -> None:
    loaded = front.spec(tmp_path, rules=RULES)
    results = (RuleResult("a", "warn", False), RuleResult("b", "stop", True))
    stop_if_failed(results, loaded.spec, loaded.domains, metrics(), None)
    with pytest.raises(RuleFailed, match="break b"):
        both = (RuleResult("a", "warn", False), RuleResult("b", "stop", False))
        stop_if_failed(both, loaded.spec, loaded.domains, metrics(), None)


def test_a_share_equal_to_its_limit_passes_whatever_the_rounding(tmp_path: Path) -> None:
    loaded = front.spec(tmp_path, source=', max_rejected: "30%"', rules="")
    for rows in (10, 70, 130, 1_000_010):
        part = Fraction(3, 10) * rows
        assert part.denominator == 1
        for rejected, passed in ((int(part), True), (int(part) + 1, False)):
            numbers = Metrics(rows, rows - rejected, rows, 0, metrics().columns, {})
            assert check_microdata(loaded.spec, numbers, None)[0].passed is passed


# --- counts ----------------------------------------------------------------------------------------------


def counted(**changes: Any) -> CountedTable:
    return CountedTable(**({"total": 7, "smallest": 0, "shape": (2, 3), "declared": (2, 3)} | changes))


def test_counts_that_agree_pass() -> None:
    results = check_counts({("a", ""): counted(), ("b", "region"): counted(shape=(4,), declared=(4,))})
    assert [result.name for result in results if result.passed] == [
        "totals equal",
        "counts non-negative",
        "shapes as declared",
        "impossible cells empty",
    ]


@pytest.mark.parametrize(
    ("changes", "rule"),
    [
        ({"total": 8}, "totals equal"),
        ({"smallest": -1}, "counts non-negative"),
        ({"shape": (3, 2)}, "shapes as declared"),
        ({"impossible": 1}, "impossible cells empty"),
    ],
)
def test_counts_that_disagree_stop_without_a_number(changes: dict[str, Any], rule: str) -> None:
    with pytest.raises(RuleFailed, match=f"the counts break {rule};") as caught:
        check_counts({("a", ""): counted(), ("b", ""): counted(**changes)})
    assert not any(character.isdigit() for character in str(caught.value))
