"""The examples of an agency: what sample writes, and releases of it that add up and are verified."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tabularium.lab.sample.samples import EXAMPLES as PACKAGED
from tabularium.lab.sample.samples import KINDS
from tabularium.validations.release_spec.load import load_spec
from tests.lab.sample.example_files import EXAMPLES, write_examples
from tests.lab.sample.published_examples import (
    Rows,
    added,
    publish_example,
    read_certificate,
    require_additive,
    require_verified,
    rows_of,
)
from tests.sizes import full

pytestmark = [pytest.mark.slow]
FEW = ("population", "single_years", "households")


def test_the_examples_are_what_sample_writes(tmp_path: Path) -> None:
    """If this fails: `python -m tests.lab.sample.example_files`."""
    for path in write_examples(tmp_path, rows=10):
        assert (EXAMPLES / path.name).read_text(encoding="utf-8") == path.read_text(encoding="utf-8"), (
            path.name
        )


@pytest.mark.parametrize("name", ["census", "census-household-unit", "labour-force", "hospital"])
def test_an_example_loads(name: str) -> None:
    assert load_spec(EXAMPLES / f"{name}.yaml").spec.product == name


def test_every_example_of_the_package_is_one_of_a_kind() -> None:
    assert {path.stem for path in PACKAGED.glob("*")} == {
        kind.example for kind in KINDS.values() if kind.example
    }


def codes_of(rows: Rows, column: str) -> list[str]:
    return list(dict.fromkeys(row[column] for row in rows))


def test_a_census(tmp_path: Path) -> None:
    text = (EXAMPLES / "census.yaml").read_text(encoding="utf-8")
    folder = publish_example(
        "households", "census", tmp_path, rows=8000, spec="" if full() else some_of(text)
    )
    require_verified(folder)
    require_additive(folder, "population", "district", "census-areas.csv")
    groups = added(rows_of(folder, "population"), ("age_group", "sex"), level="nation")
    ages = added(rows_of(folder, "single_years"), ("age", "sex"))
    stages = added(rows_of(folder, "households"), ("life_stage", "sex"))
    bounds = {"children": (0, 15), "young": (15, 25), "working age": (25, 65), "old": (65, 85)}
    for sex in "MF":
        for label in codes_of(rows_of(folder, "population"), "age_group"):
            first, last = map(int, label.split("-"))
            assert groups[label, sex] == sum(ages[str(age), sex] for age in range(first, last + 1)), label
        for stage, (first, after) in bounds.items():
            assert stages[stage, sex] == sum(ages[str(age), sex] for age in range(first, after)), stage
    if full():
        require_additive(folder, "occupations", "occupation", "census-occupations.csv")
        jobs = [added(rows_of(folder, name), ("sex",), level="all") for name in ("occupations", "industries")]
        assert jobs[0] == jobs[1]
    sizes = {int(row["size"]): int(row["number"]) for row in rows_of(folder, "household_sizes")}
    assert abs(sum(sizes.values()) - 3200) < 1500


def some_of(text: str) -> str:
    """Return the spec with some of its tables only, in equal parts of the budget."""
    spec = yaml.safe_load(text)
    spec["tables"] = [
        {key: value for key, value in table.items() if key != "share"}
        for table in spec["tables"]
        if table["name"] in FEW
    ]
    spec["targets"] = [each for each in spec["targets"] if each["table"] in FEW]
    return yaml.safe_dump(spec, sort_keys=False, allow_unicode=True)


def test_a_labour_force_survey(tmp_path: Path) -> None:
    folder = publish_example("labour", "labour-force", tmp_path, rows=8000)
    require_verified(folder)
    for value in ("count", "people"):
        require_additive(folder, "labour_status", "district", "labour-force-areas.csv", value)
        require_additive(folder, "hours", "industry", "labour-force-industries.csv", value)
        regions = added(rows_of(folder, "labour_status"), ("status", "sex"), value, level="region")
        assert regions == added(rows_of(folder, "labour_by_age"), ("status", "sex"), value)
        workers = [
            added(rows_of(folder, name), ("sex",), value, level=level)
            for name, level in (("occupations", "all"), ("hours", "all"))
        ]
        assert workers[0] == workers[1]
    people = sum(int(row["people"]) for row in rows_of(folder, "labour_by_age"))
    adults = sum(int(row["count"]) for row in rows_of(folder, "labour_by_age"))
    assert 100 < people / adults < 220  # the weights
    for row in rows_of(folder, "hours"):
        assert row["level"] != "all" or abs(float(row["hours"]) - 36) < 5 + 5 * float(row["hours_margin"])


def test_hospital_stays(tmp_path: Path) -> None:
    folder = publish_example("hospital", "hospital", tmp_path, rows=8000)
    require_verified(folder)
    require_additive(folder, "stays", "district", "hospital-areas.csv")
    require_additive(folder, "hospitals", "hospital", "hospital-hospitals.csv")
    for value in ("count", "nights"):
        require_additive(folder, "diagnoses", "diagnosis", "hospital-diagnoses.csv", value)
    patients = added(rows_of(folder, "stays"), ("age", "sex"), level="region")
    assert patients == added(rows_of(folder, "outcomes"), ("age", "sex"))
    men = [row for row in rows_of(folder, "diagnoses") if row["diagnosis"] == "XV" and row["sex"] == "M"]
    assert [(row["count"], row["margin"], row["nights"]) for row in men] == [("0", "0", "0")]  # impossible
    (total,) = added(rows_of(folder, "hospitals"), (), level="hospital").values()
    assert total == sum(patients.values())
    sizes = [int(row["size"]) for row in rows_of(folder, "stays_of_patients")]
    assert max(sizes) <= 10
    certificate = read_certificate(folder)
    assert (
        certificate["tables"]["stays"]["counted"]
        == "at most 10 records of each patient; the others are left out at random"
    )
    assert certificate["tallies"][0]["of"] == "cut_units"


def test_a_household_as_the_unit(tmp_path: Path) -> None:
    text = (EXAMPLES / "census-household-unit.yaml").read_text(encoding="utf-8")
    folder = publish_example("households", "census", tmp_path, rows=8000, spec=text)
    require_verified(folder)
    require_additive(folder, "population", "district", "census-areas.csv")
    require_additive(folder, "households", "district", "census-areas.csv")
    tenures = added(rows_of(folder, "households"), ("tenure",), level="nation")  # looked up
    assert tenures["mortgaged",] > tenures["institution",]
    assert max(int(row["size"]) for row in rows_of(folder, "household_sizes")) <= 8
