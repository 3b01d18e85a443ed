"""Measures that cannot be: each is refused with one line that says how to mend it."""

from __future__ import annotations

from pathlib import Path

import pytest

from validations.spec.load import Examined, examine

GOOD = "{sum: pay, from: 0, to: 1000}"


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
        ("a: {median: pay, from: 0, to: 5000}", "a.step", "5001 values"),
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


def test_noise_that_cannot_be_drawn_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    change = {'budget: "1/1000"': 'definition: zcdp, delta: "1/1000000", budget: "1/1000000"'}
    (problem,) = examined(tmp_path, "a: {sum: pay, from: 0, to: 1000000}", **change).problems
    assert (problem.field, problem.what) == (
        "tables[0].measures.a",
        "its noise would be larger than what can be drawn",
    )
