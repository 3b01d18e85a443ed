"""Sums, means and medians through the whole chain: published beside counts, verified, and no more than paid."""

from __future__ import annotations

import csv
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
from tabularium.validations.release_spec.load import load_spec
from tabularium.validations.release_spec.summary import summarise
from tests.flows.release.scene import publish, write_scene
from tests.tasks.verify.damages import fix_up

MEASURES = """\
    measures:
      income: {sum: income, from: 0, to: 1000, step: 10, share: "1/4"}
      balance: {sum: balance, from: -50, to: 100, share: "1/8"}
      mean_income: {mean: income, from: 0, to: 1000, step: 10, share: "1/8"}
      typical: {median: income, from: 0, to: 1000, step: 50, weight: {column: weight, to: 4}, share: "1/8"}
      upper: {quantile: income, at: "90%", from: 0, to: 1000, step: 50, weight: {column: weight, to: 4}}
      fine: {median: income, from: 0, to: 1000, step: 10, share: "1/16"}
"""
CHOICES = """\
      first: {quantile: income, at: "1/4", from: 0, to: 1000, step: 10, method: choice, share: "1/16"}
      chosen: {median: income, from: 0, to: 1000, step: 10, method: choice, share: "1/16"}
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
    options.setdefault("rules", '[{rule: numbers, column: income, at_most: "5%"}]')
    spec, home = write_scene(folder, budget=budget, **options)
    text = spec.read_text()
    text = text.replace('    share: "2/3"\n', '    share: "2/3"\n' + MEASURES + CHOICES)
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


@pytest.mark.parametrize(("definition", "quality"), [("pure", ""), ("zcdp", 'quality: {suppress: "10%"}, ')])
def test_a_release_with_measures_is_published_and_verified(
    tmp_path: Path, definition: str, quality: str
) -> None:
    spec, home = with_measures(
        tmp_path,
        definition=definition,
        edit=lambda text: text.replace("publication: {", f"publication: {{{quality}"),
    )
    folder = Path(publish(spec, home).folder)
    shown = (folder / "area_age_sex.csv").read_text().replace(chr(34), "")
    assert ("suppressed,,,,,suppressed,,,suppressed," in shown, "reliable," in shown) == (
        bool(quality),
        bool(quality),
    )
    certificate = json.loads((folder / "certificate.json").read_bytes())
    require_verified(folder)
    parts = {(each["name"], each["level"]): Fraction(each["share"]) for each in certificate["allocation"]}
    assert sum(parts.values()) == 1
    assert parts["area_age_sex-income", "place"] == Fraction(2, 3) * Fraction(1, 4) * Fraction(1, 2)
    said = certificate["tables"]["area_age_sex"]["measures"]
    assert said["balance"]["largest_change_by_one_record"] == "100"
    assert said["typical"]["largest_change_by_one_record"] == "4"
    assert (said["upper"]["at"], said["upper"]["method"], said["first"]["method"]) == (
        "9/10",
        "tree",
        "choice",
    )
    assert said["fine"]["largest_change_by_one_record"] == "2"  # of a tree of two levels
    draws = {each["purpose"]: each["draws"][0] for each in certificate["measured"]}
    assert not any("upper" in purpose for purpose in draws)  # read off the array of the median
    check_order(folder / "area_age_sex.csv")
    assert draws["area_age_sex-mean_income/place"]["sensitivity"] == "100/1"


def check_order(path: Path) -> None:
    """Quantiles of a cell rise with their rank, whether they share an array or were chosen apart."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for one, other in (("typical", "upper"), ("first", "chosen")):
        pairs = [(float(row[one]), float(row[other])) for row in rows if row[one] and row[other]]
        assert pairs
        assert all(low <= high for low, high in pairs)


def test_replacing_a_unit_counts_twice(tmp_path: Path) -> None:
    """A sum under replace has twice the noise, whatever its bounds: no width of bounds stands for it."""
    scales = []
    for relation in ("add-remove", "replace"):
        spec, _ = with_measures(
            tmp_path / relation, edit=lambda text, r=relation: text.replace("add-remove", r)
        )
        summary = summarise(load_spec(spec))
        scales += [
            level.scale
            for table in summary.tables
            if table.name == "area_age_sex-balance"
            for level in table.levels
        ]
    assert scales[3:] == [2 * scale for scale in scales[:3] if scale is not None]
    assert scales[0] == pytest.approx(100 / (Fraction(2, 3) * Fraction(1, 8) * Fraction(1, 4)))


def test_a_published_mean_that_was_altered_is_found(tmp_path: Path) -> None:
    spec, home = with_measures(
        tmp_path, edit=lambda text: text.replace("[csv, parquet, xlsx, sdmx]", "[csv]")
    )
    folder = Path(publish(spec, home).folder)
    path = folder / "area_age_sex.csv"
    path.chmod(0o644)
    header, first, *rest = path.read_text().splitlines()
    values = first.split(",")
    place = header.replace('"', "").split(",").index("mean_income")
    values[place] = str(float(values[place] or 0) + 0.5)
    path.write_text("\n".join([header, ",".join(values), *rest]) + "\n")
    fix_up(folder)
    said = [each.said for each in verify_release(Subject(folder)) if each.outcome == "failed"]
    assert any("mean_income, made again from the measurements" in line for line in said), said
