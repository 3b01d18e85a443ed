"""Impossible cells through the whole chain: zero in every format, not drawn, said, verified, and found if changed."""

from __future__ import annotations

import csv
import json
import shutil
from math import prod
from pathlib import Path

import pyarrow.parquet
import pytest

from tabularium.mechanisms.queries import ask
from tabularium.tasks.query.query_release import open_release
from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
from tests.flows.release.scene import publish
from tests.flows.release.test_measures import CHOICES, require_verified, with_measures
from tests.tasks.verify.damages import fix_up

FACTS = """\
impossible:
  - {cells: {age: [0-19], sex: ["1"]}, reason: "only girls are asked"}
  - {cells: {area: [B], age: [20-64]}, reason: "nobody of working age in B"}
"""
YOUNG = ("0-4", "5-9", "10-14", "15-19")


def facts(text: str, formats: str = "[csv, parquet, xlsx, sdmx]") -> str:
    years = "  years: {from: age, integer: {from: 0, to: 99, width: 5}}\n  sex:"
    table = '    share: "1/3"\n    measures:'
    more = '    share: "1/6"\n    measures:'
    # Choices are refused there: they look at a cell's whole histogram.
    text = text.replace("  sex:", years).replace(table, more).replace(CHOICES, "")
    text = text.replace("rules:", '  - {name: by_years, dimensions: [years, sex], share: "1/6"}\nrules:')
    return text.replace("[csv, parquet, xlsx, sdmx]", formats) + FACTS


@pytest.fixture(scope="module", params=["pure", "zcdp"])
def release(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec, home = with_measures(
        tmp_path_factory.mktemp("zeros"), definition=request.param, edit=facts, max_rejected='"50%"'
    )
    return Path(publish(spec, home).folder)


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    with (folder / f"{table}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def impossible(row: dict[str, str]) -> bool:
    girls = row.get("age") == "0-19" or row.get("years") in YOUNG
    return (girls and row["sex"] == "1") or (row.get("area") in ("B", "B1") and row.get("age") == "20-64")


def test_they_are_zero_without_margin_and_the_rest_adds_up(release: Path) -> None:
    for table, number in (("area_age_sex", 6 + 2 * 2), ("age_sex", 1), ("by_years", 4)):
        there = [row for row in rows(release, table) if impossible(row)]
        assert len(there) == number
        for row in there:
            assert (row["count"], row["margin"]) == ("0", "0")
            for name in {"income", "balance", "total"} & row.keys():
                assert (float(row[name]), float(row[f"{name}_margin"])) == (0, 0)
            for name in {"mean_income", "typical"} & row.keys():
                assert (row[name], row[f"{name}_margin"]) == ("", "")
        assert any(float(row["margin"]) > 0 for row in rows(release, table) if not impossible(row))
    deep, years = rows(release, "area_age_sex"), rows(release, "by_years")
    for sex in "12":
        girls = sum(int(r["count"]) for r in years if r["sex"] == sex and r["years"] in YOUNG)
        own = [r for r in deep if r["level"] == "place" and r["sex"] == sex]
        assert sum(int(r["count"]) for r in own) == sum(int(r["count"]) for r in years if r["sex"] == sex)
        (nation,) = [r for r in rows(release, "age_sex") if r["sex"] == sex and r["age"] == "0-19"]
        assert sum(int(r["count"]) for r in own if r["age"] == "0-19") == int(nation["count"])
        assert girls >= 0 and (girls == 0 or sex == "2")


def test_nothing_is_drawn_for_them(release: Path) -> None:
    certificate = json.loads((release / "certificate.json").read_bytes())
    drawn = {each["purpose"]: prod(each["shape"]) for each in certificate["transcript"]}
    assert drawn["area_age_sex/nation/cells"] == 6 - 1
    assert drawn["area_age_sex/place/cells"] == 18 - 3 - 2
    assert drawn["area_age_sex-mean_income/province/cells"] == 2 * (12 - 2 - 2)
    assert drawn["by_years/cells"] == 40 - 4
    said = pyarrow.parquet.read_table(release / "measurements" / "by_years.parquet").to_pylist()
    assert len(said) == 36 and not any(impossible(row) for row in said)


def test_it_is_said_and_verified(release: Path) -> None:
    certificate = json.loads((release / "certificate.json").read_bytes())
    assert certificate["impossible"][0] == {
        "cells": {"age": ["0-19"], "sex": ["1"]},
        "reason": "only girls are asked",
        "records": "reject",
    }
    told = {name: each["impossible"] for name, each in certificate["tables"].items()}
    assert told == {"area_age_sex": 10, "age_sex": 1, "by_years": 4}
    report = (release / "report.html").read_text(encoding="utf-8")
    assert "10 cells of these can hold nobody" in report
    assert "age 0-19 with sex 1: only girls are asked. A record that says so was rejected." in report
    require_verified(release)
    checked = {each.what: each.said for each in verify_release(Subject(release))}
    assert checked["cells that the spec calls impossible are exactly zero"] == "15 cells"


def test_queries_find_nobody_there(release: Path) -> None:
    asked = open_release(release, table="by_years").asked
    (row,) = ask("count where years < 20 and sex = 1", asked).rows
    assert (row.value, row.low, row.high, row.standard_error) == (0, 0, 0, 0)
    (some,) = ask("count where sex = 1", asked).rows
    (same,) = ask("count where sex = 1 and years >= 20", asked).rows
    assert (some.value, some.low, some.high) == (same.value, same.low, same.high)
    assert some.standard_error == same.standard_error > 0


def _change(folder: Path, column: str, value: str) -> None:
    path = folder / "age_sex.csv"
    path.chmod(0o644)
    header, first, *rest = path.read_text().splitlines()
    names, values = header.replace('"', "").split(","), first.split(",")
    assert values[:2] == ['"0-19"', '"1"']
    values[names.index(column)] = value
    path.write_text("\n".join([header, ",".join(values), *rest]) + "\n")
    fix_up(folder)


def test_one_that_was_changed_is_found_without_the_measurements(tmp_path: Path) -> None:
    def withheld(text: str) -> str:
        changed = facts(text, "[csv]")
        return changed.replace("publication: {", "publication: {measurements: {withhold: because}, ")

    spec, home = with_measures(tmp_path, edit=withheld, max_rejected='"50%"')
    folder = Path(publish(spec, home).folder)
    for column, value in (("count", "1"), ("margin", "2"), ("total", "10.0")):
        changed = tmp_path / column
        shutil.copytree(folder, changed)
        _change(changed, column, value)
        failed = [each.what for each in verify_release(Subject(changed)) if each.outcome == "failed"]
        assert "cells that the spec calls impossible are exactly zero" in failed


@pytest.mark.parametrize("kept", ["", "consistency"])
def test_whatever_is_left_out_they_are_zero(kept: str, tmp_path: Path) -> None:
    def without(text: str) -> str:
        steps = ("consistency", "nonnegativity", "rounding")
        wanted = ", ".join(f"{step}: {str(step == kept).lower()}" for step in steps)
        return facts(text, "[csv]") + f"postprocessing: {{{wanted}}}\n"

    spec, home = with_measures(tmp_path, edit=without, max_rejected='"50%"')
    folder = Path(publish(spec, home).folder)
    require_verified(folder)
    there = [row for row in rows(folder, "area_age_sex") if impossible(row)]
    assert {(float(row["count"]), float(row["margin"])) for row in there} == {(0.0, 0.0)}
