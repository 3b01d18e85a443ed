"""What a certificate says of all records that a table or a measure counts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
from tests.flows.release.scene import publish, write_scene

OFF = "postprocessing: {consistency: false, nonnegativity: false, rounding: false}\n"
LEVELS = 'levels: {nation: "1/4", province: "1/4", place: "1/2"}'
FAR = 400  # of noise of scale 2 in 42 cells or fewer: not in 10^17 draws


def tables_of(folder: Path) -> dict[str, Any]:
    assert [finding for finding in verify_release(Subject(folder)) if finding.outcome == "failed"] == []
    tables: dict[str, Any] = json.loads((folder / "certificate.json").read_text())["tables"]
    return tables


def test_it_is_of_the_first_measured_level_where_levels_are_not_made_to_agree(tmp_path: Path) -> None:
    """Of 6000 records; the next year's exact rule compares with the total."""
    spec, home = write_scene(tmp_path, rows=6000, rules='[{rule: row_count, change_from_last: "20%"}]')
    measures = "measures: {old: {percent: 'age >= 65', over: age_sex}, f: {sum: fee, from: 0, to: 2}}"
    text = spec.read_text().replace(LEVELS, f'levels: {{place: "1"}}\n    {measures}', 1)
    spec.write_text(text.replace("rules:", f"{OFF}rules:"))
    people = (tmp_path / "people.csv").read_text().splitlines()
    (tmp_path / "people.csv").write_text("\n".join([f"{people[0]},fee", *(f"{row},1" for row in people[1:])]))
    about = tables_of(Path(publish(spec, home).folder))["area_age_sex"]
    assert about["total"] == pytest.approx(6000, abs=FAR)
    assert about["measures"]["f"]["total"] == pytest.approx(6000, abs=2 * FAR)
    assert about["measures"]["old"]["total"] == pytest.approx(35, abs=10)
    assert publish(spec, home, period="2027").status == "published"


def test_a_rate_over_more_than_its_records_can_be_in_has_none(tmp_path: Path) -> None:
    """Half of all 600 are of sex 1, and only they are counted: a third of these is no sixth of all."""
    spec, home = write_scene(tmp_path)
    old = 'percent: "age >= 65"'
    more = f"""
  - {{name: all, dimensions: [sex]}}
  - name: some
    dimensions: [sex]
    where: "sex = 1"
    measures: {{old: {{{old}, over: all}}, old_of_them: {{{old}, over: some}}}}
rules:"""
    text = re.sub(r'\n    share: "./."', "", spec.read_text())
    spec.write_text(text.replace("\nrules:", more))
    measures = tables_of(Path(publish(spec, home).folder))["some"]["measures"]
    assert measures["old"]["total"] is None
    assert measures["old_of_them"]["total"] == pytest.approx(34, abs=20)


def test_a_rate_keeps_its_total_where_nobody_is_lost_in_impossible_cells(tmp_path: Path) -> None:
    """No one under 20 is of sex 2, and all of them are counted in the other cell: of all 600 a third is of A1."""
    spec, home = write_scene(tmp_path)
    people = (tmp_path / "people.csv").read_text().replace(",2\n", ",1\n")
    (tmp_path / "people.csv").write_text(people)
    more = """
  - {name: ages, dimensions: [age]}
  - name: crossed
    dimensions: [age, sex]
    measures: {first: {percent: "area = A1", over: ages}}
impossible: [{cells: {age: [0-19], sex: ["2"]}, reason: law}]
rules:"""
    text = re.sub(r'\n    share: "./."', "", spec.read_text())
    spec.write_text(text.replace("\nrules:", more))
    measures = tables_of(Path(publish(spec, home).folder))["crossed"]["measures"]
    assert measures["first"]["total"] == pytest.approx(33, abs=15)
