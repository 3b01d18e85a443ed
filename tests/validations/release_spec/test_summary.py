"""What `tabularium check` answers."""

from __future__ import annotations

import io
import json
import math
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tabularium.mechanisms.inference import laplace_margin
from tabularium.tasks.forecast.describe_check import render
from tabularium.tasks.forecast.forecast import forecast
from tabularium.validations.release_spec.load import load_spec
from tabularium.validations.release_spec.summary import check, summarise
from tests.validations.release_spec.spec_samples import changed, write_spec


def tail(epsilon: float, margin: int) -> float:
    """P(|Z| > margin), summed term by term."""
    p = math.exp(-epsilon)
    inside = sum((1 - p) / (1 + p) * p ** abs(z) for z in range(-margin, margin + 1))
    return 1 - inside


@pytest.mark.parametrize(
    ("epsilon", "confidence", "margin"),
    [
        # p = e^-1, P(|Z| > m) = 2 p^(m+1) / (1 + p): 0.538, 0.198, 0.073, 0.027 for m = 0, 1, 2, 3
        (Fraction(1), Fraction(46, 100), 0),
        (Fraction(1), Fraction(47, 100), 1),
        (Fraction(1), Fraction(80, 100), 1),
        (Fraction(1), Fraction(81, 100), 2),
        (Fraction(1), Fraction(90, 100), 2),
        (Fraction(1), Fraction(95, 100), 3),
        (Fraction(20), Fraction(9, 10), 0),
    ],
)
def test_margins_by_hand(epsilon: Fraction, confidence: Fraction, margin: int) -> None:
    assert laplace_margin(float(1 / epsilon), float(confidence)) == margin


@given(st.fractions(Fraction(1, 50), 5), st.fractions(Fraction(1, 10), Fraction(99, 100)))
def test_a_margin_is_the_smallest_that_attains_its_confidence(
    epsilon: Fraction, confidence: Fraction
) -> None:
    margin = laplace_margin(float(1 / epsilon), float(confidence))
    allowed = float(1 - confidence)
    assert tail(float(epsilon), margin) <= allowed + 1e-9
    assert margin == 0 or tail(float(epsilon), margin - 1) > allowed - 1e-9


def test_the_summary_of_the_sample(tmp_path: Path) -> None:
    summary = summarise(load_spec(write_spec(tmp_path)))
    first, second = summary.tables
    assert [(level.level, level.cells, level.loss) for level in first.levels] == [
        ("nation", 8, Fraction(1, 9)),
        ("region", 16, Fraction(2, 9)),
        ("place", 24, Fraction(1, 3)),
    ]
    assert [level.scale for level in first.levels] == [9.0, 4.5, 3.0]
    assert [(level.level, level.cells, level.loss) for level in second.levels] == [("", 6, Fraction(1, 3))]
    assert (first.cells, first.dimensions) == (48, {"area": 3, "age": 4, "sex": 2})
    spent = sum(level.loss for table in summary.tables for level in table.levels)
    privacy = summary.spec.privacy
    assert spent == privacy.record_budget == privacy.budget == 1
    assert (summary.advice, summary.kept) == ((), "")


def test_the_budget_of_a_unit_with_several_records(tmp_path: Path) -> None:
    text = changed("unit: record", "unit: {column: id}, max_contributions: 4")
    summary = summarise(load_spec(write_spec(tmp_path, text)))
    assert sum(level.loss for table in summary.tables for level in table.levels) == Fraction(1, 4)
    privacy = summary.spec.privacy
    assert (privacy.budget, privacy.record_budget, privacy.protects) == (1, Fraction(1, 4), "id")
    assert "at most 4 records of each unit (id), for which each has 1/4 of ε." in summary.kept


def test_advice(tmp_path: Path) -> None:
    text = changed('budget: "1"', 'budget: "11"')
    text = changed('{nation: "1/6", region: "1/3", place: "1/2"}', '{nation: "1/2", region: "1/2"}', text)
    text = changed("[area, age, sex]", "[area, sex]", text)
    advice = summarise(load_spec(write_spec(tmp_path, text))).advice
    assert len(advice) == 3
    assert "ε = 11" in advice[0]
    assert "`age`" in advice[1]
    assert advice[2] == "table area_age is published down to region, not to place"


@pytest.mark.parametrize(
    ("labels", "noted"),
    [
        ('{M: male, F: "=1+1"}', "`=1+1`"),
        ('{M: male, "+F": female}', "`+F`"),
        ('{M: "- and more", F: female}', "`- and more`"),
        ('{M: male, F: "@home"}', "`@home`"),
        ('{M: male, "-1": "+3.5"}', None),  # numbers stay numbers
        ('{M: "1=1", F: "a-b"}', None),
    ],
)
def test_labels_that_a_spreadsheet_takes_for_formulas(tmp_path: Path, labels: str, noted: str | None) -> None:
    text = changed('categories: {"1": male, "2": female}', f"categories: {labels}")
    advice = summarise(load_spec(write_spec(tmp_path, text))).advice
    assert [line for line in advice if "formula" in line] == ([] if noted is None else list(advice))
    assert noted is None or noted in advice[0]
    only = text + "publication: {formats: [parquet]}\n"
    assert summarise(load_spec(write_spec(tmp_path, only))).advice == ()


@pytest.mark.parametrize(
    ("categories", "noted"),
    [
        ('{"1": male, _T: all of them}', "_T"),
        ("{M: uomini, F: donne, X: Totale (generale)}", "X"),
        ('{M: Männer, "9": INSGESAMT}', "9"),
        ("{M: men, TOTAL: both}", "TOTAL"),
        ("{A: agriculture, T: Households as employers}", None),
        ("{T: total hip replacement, K: knee}", None),
        ("{A: all, B: some}", None),
        ("{T: Total}", None),
    ],
)
def test_a_total_beside_the_categories_is_noted(tmp_path: Path, categories: str, noted: str | None) -> None:
    text = changed('{"1": male, "2": female}', categories)
    advice = [each for each in summarise(load_spec(write_spec(tmp_path, text))).advice if "seems" in each]
    assert len(advice) == (noted is not None)
    assert all(f"column sex: the code `{noted}`" in each for each in advice)


def test_check_as_json(tmp_path: Path) -> None:
    good = json.loads(json.dumps(check(write_spec(tmp_path)).as_json(), allow_nan=False))
    assert (good["ok"], good["problems"]) == (True, [])
    assert good["summary"]["tables"][0]["levels"][0]["epsilon_per_record"] == "1/9"
    assert good["summary"]["privacy"]["epsilon"] == "1"
    assert good["summary"]["privacy"]["unit"] == {"entity": "record", "column": None, "population": None}
    bad = json.loads(json.dumps(check(write_spec(tmp_path, changed("unit: record", "unit: x"))).as_json()))
    assert (bad["ok"], bad["summary"]) == (False, None)
    assert bad["problems"][0]["field"] == "privacy.unit"
    assert bad["problems"][0]["line"] == 5


def test_it_prints(tmp_path: Path) -> None:
    loaded = load_spec(write_spec(tmp_path))
    out = io.StringIO()
    Console(file=out, width=120).print(render(summarise(loaded), forecast(loaded)))
    text = out.getvalue()
    for word in (
        "persons 2026",
        "ε = 1",
        "census",
        "area_age",
        "nation",
        "identity",
        "1/9",
        "4.5",
        "± (0.9)",
    ):
        assert word in text
