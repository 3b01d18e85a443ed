"""A release by classes of decimals: codings agree, every format has the classes, queries cut at their edges."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest

from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
from tests.flows.cli.test_plan import tabularium
from tests.flows.release.scene import publish, write_scene

COLUMNS = """\
columns:
  sex: {categories: {"1": male, "2": female}}
  bmi: {from: age, integer: {from: 0.5, to: 99, edges: [18.5, 25, 30]}}
  finer: {from: age, integer: {from: 0.5, to: 99, edges: [18.5, 22.25, 25, 30]}}
  halves: {from: dose, integer: {from: 0, to: 10, width: 0.5}, invalid: other, other: more}
tables:
  - {name: bmis, dimensions: [sex, bmi], share: "1/2"}
  - {name: finers, dimensions: [finer], share: "1/4"}
  - {name: halves, dimensions: [halves], where: "bmi < 18.5", share: "1/4"}
invariants:
  - {name: known, dimensions: [bmi], values: known.csv, reason: known from the register}
rules: [{rule: range, column: bmi, min: 0.5, max: 98.8}]
publication: {folder: releases, formats: [csv, parquet, sdmx, xlsx]}
"""
VALUES = [(3 * place % 394) / 4 + 0.5 for place in range(900)]
NAMES = ["0.5 to under 18.5", "18.5 to under 25", "25 to under 30", "30 to 99"]
COUNTS = [
    sum(low <= value < high for value in VALUES) for low, high in pairwise([0.5, 18.5, 25, 30, math.inf])
]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec, home = write_scene(tmp_path_factory.mktemp("decimals"), rows=0, budget="4000", cap="10000")
    text = spec.read_text()
    rows = [f"A1,{value},{1 + place % 2},{value}" for place, value in enumerate(VALUES)]
    (spec.parent / "people.csv").write_text("\n".join(["area,age,sex,dose", *rows]) + "\n")
    known = [f"{name},{number}" for name, number in zip(NAMES, COUNTS, strict=True)]
    (spec.parent / "known.csv").write_text("\n".join(["bmi,count", *known]) + "\n")
    spec.write_text(text[: text.index("columns:")] + COLUMNS)
    checked = tabularium("check", spec)
    assert checked.exit_code == 0, checked.output
    assert "are nested codings of age" in " ".join(checked.output.split())
    return Path(publish(spec, home).folder)


def test_the_classes_stand_in_every_format_and_agree(release: Path) -> None:
    frame = pd.read_parquet(release / "bmis.parquet")
    assert frame.groupby("bmi")["count"].sum()[NAMES].tolist() == COUNTS
    assert set(pd.read_csv(release / "bmis.csv")["bmi"]) == set(NAMES)
    finer = pd.read_parquet(release / "finers.parquet").set_index("finer")["count"]
    assert finer["18.5 to under 22.25"] + finer["22.25 to under 25"] == COUNTS[1]
    halves = pd.read_parquet(release / "halves.parquet").set_index("halves")["count"]
    assert halves["9.5 to 10"] == sum(9.5 <= value <= 10 for value in VALUES)
    assert halves["more"] == sum(10 < value < 18.5 for value in VALUES)


@pytest.mark.parametrize(
    ("query", "low", "high"),
    [
        ("count where bmi < 25", 0, 24.99),
        ("count where 18.5 <= bmi < 30", 18.5, 29.99),
        ("count where bmi >= 30", 30, 99),
        ("count where bmi <= 99", 0, 99),
        ("count where bmi = '18.5 to under 25'", 18.5, 24.99),
        ("count where 18.5 <= finer < 22.25", 18.5, 22.24),
    ],
)
def test_queries_cut_at_the_edges(release: Path, query: str, low: float, high: float) -> None:
    asked = tabularium("query", release, query, "--json")
    assert asked.exit_code == 0, asked.output
    (row,) = json.loads(asked.output)["rows"]
    assert row["value"] == pytest.approx(sum(low <= value <= high for value in VALUES))


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ("count where bmi < 24", "write bmi < 18.5 or bmi < 25"),
        ("count where bmi <= 25", "write bmi < 25 or bmi < 30"),
        ("count where bmi > 18.5", "write bmi >= 18.5 or bmi >= 25"),
        ("count where bmi = 20", "lies inside the bin"),
    ],
)
def test_a_query_inside_a_class_is_refused(release: Path, query: str, hint: str) -> None:
    asked = tabularium("query", release, query)
    assert asked.exit_code != 0
    assert hint in " ".join(asked.output.replace("`", "").split())


def test_verify_makes_it_again(release: Path) -> None:
    found = list(verify_release(Subject(release)))
    assert found and not [each for each in found if each.outcome == "failed"]
