"""Sums, means and medians through the whole chain: published beside counts, verified, and no more than paid."""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tasks.publish.certificate.certificate_schema import against_schema
from tasks.verify.subject import Subject
from tasks.verify.verify_release import verify_release
from tests.flows.release.scene import publish, write_scene

MEASURES = """\
    measures:
      income: {sum: income, from: 0, to: 1000, step: 10, share: "1/4"}
      balance: {sum: balance, from: -50, to: 100, share: "1/8"}
      mean_income: {mean: income, from: 0, to: 1000, step: 10, share: "1/8"}
      typical: {median: income, from: 0, to: 1000, step: 50, weight: {column: weight, to: 4}, share: "1/8"}
"""
SHARED = """\
    measures: {total: {sum: income, from: 0, to: 1000, step: 10}}
"""


def incomes(rows: int) -> list[tuple[str, ...]]:
    """Rows (area, age, sex, income, balance, weight), some of them empty or not numbers."""
    odd = ["", "nan", "inf", "-inf", "abc", "1e2", "-7"]
    found = []
    for i in range(rows):
        income = odd[i % 70 // 10] if i % 70 < 70 and i % 10 == 0 else str(i * 37 % 1200)
        row = (("A1", "A2", "B1")[i % 3], str(i * 7 % 100), str(1 + i % 2))
        found.append((*row, income, str(i * 11 % 200 - 80), str(1 + i % 5)))
    return found


def with_measures(folder: Path, *, budget: str = "1", edit: Any = None, **options: Any) -> tuple[Path, Any]:
    spec, home = write_scene(folder, budget=budget, **options)
    text = spec.read_text()
    text = text.replace('    share: "2/3"\n', '    share: "2/3"\n' + MEASURES)
    text = text.replace('    share: "1/3"\n', '    share: "1/3"\n' + SHARED)
    text = text.replace(
        "publication: {", "publication: {formats: [csv, parquet, xlsx, sdmx], sdmx: {agency: TEST}, "
    )
    spec.write_text(edit(text) if edit else text)
    with (folder / "people.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("area", "age", "sex", "income", "balance", "weight"))
        writer.writerows(incomes(600))
    return spec, home


def require_verified(folder: Path) -> None:
    found = list(verify_release(Subject(folder)))
    assert [each for each in found if each.outcome == "failed"] == []
    assert not [each for each in found if each.outcome == "unchecked" and each.group == "Tables"]


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_a_release_with_measures_is_published_and_verified(tmp_path: Path, definition: str) -> None:
    spec, home = with_measures(tmp_path, definition=definition)
    folder = Path(publish(spec, home).folder)
    certificate = json.loads((folder / "certificate.json").read_bytes())
    assert list(against_schema(certificate)) == []
    require_verified(folder)
    parts = {(each["name"], each["level"]): Fraction(each["share"]) for each in certificate["allocation"]}
    assert sum(parts.values()) == 1
    assert parts["area_age_sex-income", "place"] == Fraction(2, 3) * Fraction(1, 4) * Fraction(1, 2)
    said = certificate["tables"]["area_age_sex"]["measures"]
    assert said["balance"]["largest_change_by_one_record"] == "100"
    assert said["typical"]["largest_change_by_one_record"] == "4"
    draws = {each["purpose"]: each["draws"][0] for each in certificate["measured"]}
    assert draws["area_age_sex-mean_income/place"]["sensitivity"] == "100/1"
