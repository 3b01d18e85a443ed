"""Bounds that a release proposes: by hand, never from data, and written where they are wanted."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tabularium.mechanisms.errors import InputError
from tabularium.tasks.plan.finished_plan import check_written, planned_text
from tabularium.tasks.plan.planning import plan
from tabularium.tasks.plan.targets import MOST, bounds_like
from tabularium.tasks.publish.read_release import Released
from tabularium.validations.release_spec.load import Loaded, load_spec
from tests.tasks.plan.planned_specs import published, true_counts

SPEC = """\
product: pay
dataset: people
period: "1"
source: {{path: nowhere.csv}}
privacy: {{unit: record, budget: "{budget}"}}
columns:
  sex: {{categories: ["1", "2"]}}
tables:
  - name: pay
    dimensions: [sex]
    measures:
{measures}
targets: [{{table: pay, margin: 30}}]
"""
MEASURES = """\
      income: {sum: income, from: 0, to: 90000, step: 1000}
      mean: {mean: income, from: 0, to: 90000, step: 1000}  # bounds of last year
      typical: {median: income, from: 0, to: 90000, step: 1000}
      gain: {sum: gain, from: -500, to: 500}
      rent: {sum: rent, from: 0, to: 500}"""


def loaded(folder: Path, measures: str = MEASURES, budget: str = "1") -> Loaded:
    path = folder / "spec.yaml"
    path.write_text(SPEC.format(measures=measures, budget=budget))
    return load_spec(path)


def last_year(folder: Path, made: Loaded, lines: list[str]) -> Released:
    """Return a release that published these cells: count, income, mean, typical, each with its margin."""
    like = published(folder / "like", made, true_counts(made, 100))
    heads = ["count", "margin", *(f"{name}{end}" for name in ("income", "mean") for end in ("", "_margin"))]
    heads += ["typical", "typical_margin", "gain", "gain_margin"]
    (folder / "like" / "pay.csv").write_text("\n".join([",".join(heads), *lines]) + "\n")
    spec = like.loaded.spec
    measures = {name: each for name, each in spec.tables[0].measures.items() if name != "rent"}
    table = spec.tables[0].model_copy(update={"measures": measures})
    changed = replace(like.loaded, spec=spec.model_copy(update={"tables": (table,)}))
    return replace(like, loaded=changed)


LINES = [
    # 1000 records of mean 40 000, well known; the mean beside it is not
    "1000,10,40000000,100000,90000,30000,31000,1000,5,1",
    "3000,10,90000000,100000,30000,1000,20000,1000,5,1",
]


def test_the_bound_is_where_clamping_and_noise_are_least(tmp_path: Path) -> None:
    made = loaded(tmp_path)
    found = {each.measure: each for each in bounds_like(made, last_year(tmp_path, made, LINES))}
    # A sixth of the budget: noise of scale 6 b, √72 b; 2 000 records, the median of 1 000 and 3 000.
    times = math.log(2000 / math.sqrt(72))
    assert 5.4 < times < 5.5
    # 40 000 · 5.46 = 218 500 becomes 250 000, in 1 000 steps.
    assert (found["income"].start, found["income"].end, found["income"].step) == (0, 250_000, Fraction(250))
    assert "40,000 (income in table pay)" in found["income"].why
    assert (found["mean"].end, found["mean"].step) == (250_000, Fraction(250))
    # Twice the largest median, 62 000, in 100 steps.
    assert (found["typical"].end, found["typical"].step) == (80_000, Fraction(800))
    for name, why in (("gain", "lie below zero"), ("rent", "publishes no mean of rent")):
        assert not found[name].new
        assert why in found[name].why
        measure = made.spec.tables[0].measures[name]
        assert (found[name].start, found[name].end, found[name].step) == (
            measure.start,
            measure.end,
            measure.step,
        )


def test_the_bound_has_the_least_of_both_errors(tmp_path: Path) -> None:
    """By search over bounds, for values that fall off exponentially; up to the rounding of the bound."""
    made = loaded(tmp_path, budget="1/10")
    end = bounds_like(made, last_year(tmp_path, made, LINES))[0].end
    widths = np.arange(1000, 400_000, 1000)
    both = 2000 * 40_000 * np.exp(-widths / 40_000) + math.sqrt(2) * 60 * widths
    best = int(widths[both.argmin()])
    assert best <= end <= 1.34 * best


def test_more_budget_proposes_wider_bounds_up_to_a_limit(tmp_path: Path) -> None:
    ends = []
    for budget in ("1/100", "1", "1000", "100000000"):
        made = loaded(tmp_path, budget=budget)
        ends.append(bounds_like(made, last_year(tmp_path, made, LINES))[0].end)
    assert ends == sorted(ends)
    assert ends[0] == 120_000  # three times the mean at least
    assert ends[-1] == 500_000 >= MOST * 40_000


def test_bounds_that_begin_elsewhere(tmp_path: Path) -> None:
    """What counts is how far means lie above ``from``; the step divides both bounds."""
    measures = MEASURES.replace("income: {sum: income, from: 0", "income: {sum: income, from: 15000")
    made = loaded(tmp_path, measures)
    first = bounds_like(made, last_year(tmp_path, made, LINES))[0]
    assert first.end == 15_000 + 150_000  # 25 000 · 5.46
    assert first.start % first.step == first.end % first.step == 0
    high = MEASURES.replace("income: {sum: income, from: 0", "income: {sum: income, from: 50000")
    made = loaded(tmp_path, high)
    assert "no more than 50000" in bounds_like(made, last_year(tmp_path, made, LINES))[0].why


def test_they_are_taken_over_and_recorded(tmp_path: Path) -> None:
    made = loaded(tmp_path)
    like = last_year(tmp_path, made, LINES)
    shown, taken = plan(made, like=like), plan(made, like=like, bounds=True)
    assert not shown.bounded
    assert shown.loaded.spec.tables[0].measures["income"].end == 90_000
    assert taken.loaded.spec.tables[0].measures["income"].end == 250_000
    text = planned_text(taken)
    assert "mean: {mean: income, from: 0, to: 250000, step: " in text
    assert "# bounds of last year" in text
    assert "rent: {sum: rent, from: 0, to: 500}" in text
    assert 'tuning: {release: "r-1"' in text
    made.path.write_text(text)
    check_written(made.path, taken)
    again = load_spec(made.path).spec.tables[0].measures["typical"]
    assert (again.end, again.step) == (80_000, Fraction(800))
    with pytest.raises(InputError, match="bounds are proposed by a release"):
        plan(made, bounds=True)
