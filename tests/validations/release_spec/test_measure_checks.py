"""Measures that cannot be: each is refused with one line that says how to mend it."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from tabularium.validations.release_spec.load import Examined, examine
from tabularium.validations.release_spec.summary import summarise

GOOD = "{sum: pay, from: 0, to: 1000}"
HALF = "{median: pay, from: 0, to: 1000, step: 10}"


def examined(folder: Path, measures: str, **changes: str) -> Examined:
    text = TEXT
    for old, new in changes.items():
        text = text.replace(old, new)
    path = folder / "spec.yaml"
    path.write_text(text.format(measures=measures))
    return examine(path)


TEXT = """\
product: pay
dataset: census
period: "2026"
source: {{path: people.csv}}
privacy: {{unit: record, budget: "1/1000"}}
columns:
  sex: {{categories: [f, m]}}
tables:
  - name: pay
    dimensions: [sex]
    measures: {{{measures}}}
"""


@pytest.mark.parametrize(
    "measures",
    [
        f"a: {GOOD}, b: {GOOD}",
        "a: {mean: pay, from: -10, to: 10, step: '0.01', share: '1/3'}",
        "a: {median: pay, from: 0, to: 100, step: 5, weight: {column: w, to: 400}}",
        f"a: {HALF[:-1]}, method: choice, margin_share: '1/3'}}, b: {HALF}",
    ],
)
def test_good_measures(tmp_path: Path, measures: str) -> None:
    found = examined(tmp_path, measures)
    assert found.problems == ()
    assert found.loaded is not None
    assert sum(found.loaded.spec.losses.values()) == found.loaded.spec.main_record_budget


@pytest.mark.parametrize(
    ("measures", "field", "what"),
    [
        ("a: {from: 0, to: 9}", "a", "has none of"),
        ("a: {sum: pay, mean: pay, from: 0, to: 9}", "a", "has `sum` and `mean`"),
        ("a: {sum: pay, from: 9, to: 9}", "a.to", "is not above `from`"),
        ("a: {sum: pay, from: 0, to: 9, step: 2}", "a.to", "is not a whole number of steps"),
        ("a: {sum: pay, from: 1, to: 9, step: 2}", "a.from", "is not a whole number of steps"),
        ("a: {sum: pay, from: 0, to: 9, step: 0}", "a.step", "must be above zero"),
        ("a: {sum: pay, from: 0, to: 9, step: 0.5}", "a.step", "is a YAML float"),
        ("a: {sum: pay, from: 0, to: 9.5}", "a.to", "must be a whole number"),
        ("a: {sum: pay, from: 0, to: 20000000}", "a.step", "one record may add"),
        ("a: {sum: pay, from: 0, to: 100000, weight: {column: w, to: 200}}", "a.step", "one record may add"),
        ("a: {mean: pay, from: 9007199254740990, to: 9007199254740993}", "a.to", "lies beyond 2^53"),
        ("a: {mean: pay, from: -99999999999999, to: 9, step: '0.01'}", "a.from", "lies beyond 2^53"),
        ("a: {median: pay, from: 0, to: 20000}", "a.step", "20001 values"),
        ("a: {quantile: pay, from: 0, to: 9}", "a.at", "is missing"),
        ("a: {quantile: pay, at: 1, from: 0, to: 9}", "a.at", "is no rank that can be measured"),
        ("a: {quantile: pay, at: 1/1001, from: 0, to: 9}", "a.at", "is no rank that can be measured"),
        ("a: {median: pay, at: 1/4, from: 0, to: 9}", "a.at", "a median has no rank"),
        ("a: {mean: pay, method: tree, from: 0, to: 9}", "a.method", "a mean has no `method`"),
        ("a: {median: pay, method: chioce, from: 0, to: 9}", "a.method", "is no way to measure a quantile"),
        ("a: 3", "a", "must hold `key: value` lines"),
        (
            "a: {median: pay, margin_share: 1/9, from: 0, to: 9}",
            "a.margin_share",
            "a median or quantile has no `margin_share`",
        ),
        (
            f"a: {HALF[:-1]}, share: 1/9}}, b: {HALF[:-1]}, share: 1/9}}",
            "b.share",
            "whose share pays for both",
        ),
        ("a: {sum: pay, from: 0, to: 9, weight: {column: w, to: 0}}", "a.weight.to", "must be 1 or more"),
        ("sex: {sum: pay, from: 0, to: 9}", "sex", "another column `sex`"),
        ("count: {sum: pay, from: 0, to: 9}", "count", "another column `count`"),
        (f"a: {GOOD}, a_margin: {GOOD}", "a_margin", "another column `a_margin`"),
        (f"a: {GOOD[:-1]}, share: '1/3'}}, b: {GOOD}", "", "one measure has a share and another has none"),
        (f"a: {GOOD[:-1]}, share: '1'}}", "", "leave the count nothing"),
    ],
)
def test_bad_measures(tmp_path: Path, measures: str, field: str, what: str) -> None:
    problems = examined(tmp_path, measures).problems
    assert [each.field for each in problems] == ["tables[0].measures" + (f".{field}" if field else "")]
    assert what in problems[0].what


def test_quantiles_of_the_same_values_are_paid_for_once(tmp_path: Path) -> None:
    """The second has no array; one on another grid, and one that is chosen, have their own."""
    quarter = HALF.replace("median: pay", "quantile: pay, at: 25%")
    coarse, chosen = HALF.replace("step: 10", "step: 50"), quarter.replace("step", "method: choice, step")
    found = examined(tmp_path, f"a: {HALF}, b: {quarter}, c: {coarse}, d: {chosen}, e: {quarter}")
    assert found.loaded is not None
    arrays = {array.name: array for array in found.loaded.spec.arrays}
    assert {name: list(array.measures) for name, array in arrays.items() if array.measured} == {
        "pay-a": ["a", "b", "e"],
        "pay-c": ["c"],
        "pay-d": ["d"],
    }
    assert {array.share for array in arrays.values()} == {Fraction(1, 4)}
    assert [table.measure for table in summarise(found.loaded).tables[1:]] == [
        "median and 1/4 quantile and 1/4 quantile of pay",
        "median of pay",
        "1/4 quantile of pay",
    ]


def test_noise_that_cannot_be_drawn_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    change = {'budget: "1/1000"': 'definition: zcdp, delta: "1/1000000", budget: "1/1000000"'}
    (problem,) = examined(tmp_path, "a: {sum: pay, from: 0, to: 1000000}", **change).problems
    assert (problem.field, problem.what) == (
        "tables[0].measures.a",
        "its noise would be larger than what can be drawn",
    )
