"""A release with universes: published, verified, asked, and said with every table which records it counts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.csv
import pytest

from flows.cli.query.query_release import open_release
from mechanisms.errors import InputError
from mechanisms.queries import ask
from tasks.verify.subject import Subject
from tasks.verify.verify_release import verify_release
from tests.flows.release.scene import people, publish, write_scene

TABLES = """\
tables:
  - {name: area_age_sex, dimensions: [area, age, sex]}
  - {name: grown, dimensions: [area, sex], where: "age >= 20 and (sex = female or area != B)"}
  - {name: grown_ages, dimensions: [age], where: "(area != B or sex = female) and age >= 20"}
  - {name: grown_sexes, dimensions: [sex], where: "age >= 20"}
  - {name: old, dimensions: [area, age], where: "age >= 65 and sex = male"}
"""
BOUNDED = "every record; of these only records where age >= 20 and (sex = female or area != B)"


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec, home = write_scene(tmp_path_factory.mktemp("universes"), budget="4")
    text = spec.read_text()
    before, after = text.index("tables:"), text.index("rules:")
    spec.write_text(text[:before] + TABLES + text[after:])
    return Path(publish(spec, home).folder)


def test_it_is_said_with_every_table_which_records_it_counts(release: Path) -> None:
    certificate = json.loads((release / "certificate.json").read_bytes())
    assert certificate["tables"]["area_age_sex"]["counted"] == "every record"
    assert certificate["tables"]["grown"]["counted"] == BOUNDED
    assert certificate["spec"]["tables"][1]["where"] == "age >= 20 and (sex = female or area != B)"
    shared = certificate["agreement"]["consistency"]["shared_marginals"]
    assert ["total", "grown", "grown_ages"] in shared
    assert {name for _, *both in shared for name in both if "grown" not in name} == {"area_age_sex", "old"}
    assert "only records where age &gt;= 20 and (sex = female or area != B)" in (
        release / "report.html"
    ).read_text(encoding="utf-8")
    assert BOUNDED in (release / "grown.csv-metadata.json").read_text(encoding="utf-8")


def test_tables_agree_where_cells_decide_the_universe(release: Path) -> None:
    cells, grown, old = (
        pyarrow.csv.read_csv(release / f"{name}.csv").to_pylist()
        for name in ("area_age_sex", "grown_sexes", "old")
    )
    for row in grown:
        own = [
            r
            for r in cells
            if r["level"] == "nation" and (r["sex"], r["age"] != "0-19") == (row["sex"], True)
        ]
        assert sum(r["count"] for r in own) == row["count"]
    for row in old:
        own = [r for r in cells if (r["area"], r["age"], r["sex"]) == (row["area"], row["age"], 1)]
        assert row["count"] == (own[0]["count"] if row["age"] == "65-99" else 0)
        assert row["age"] == "65-99" or row["margin"] == 0


def test_verify_makes_it_again(release: Path) -> None:
    found = list(verify_release(Subject(release)))
    assert found and not [each for each in found if each.outcome == "failed"]


def test_queries_ask_the_tables_of_all_records_unless_one_is_named(release: Path) -> None:
    opened = open_release(release)
    assert [table.name for table in opened.of_one_universe] == ["area_age_sex"]
    assert opened.of_a_universe == ["grown", "grown_ages", "grown_sexes", "old"]
    everybody = ask("count where age >= 20 and (sex = female or area != B)", opened.of_one_universe).rows[0]
    named = ask("count", open_release(release, table="grown").of_one_universe).rows[0]
    true = sum(int(age) >= 20 and (sex == "2" or area != "B1") for area, age, sex in people(600))
    assert all(abs((row.value or 0) - true) < 60 for row in (everybody, named))
    grown, ages = opened.tables[1:3]
    other = replace(ages, table=ages.table.model_copy(update={"where": "age >= 65"}))
    with pytest.raises(InputError, match=r"different records.*name one of grown"):
        _ = replace(opened, tables=(grown, other)).of_one_universe
