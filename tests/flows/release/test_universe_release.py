"""A release with universes: published, verified, asked, and said with every table which records it counts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pyarrow.csv
import pytest

from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.queries import ask
from tabularium.mechanisms.queries.grammar import parse_tests
from tabularium.tasks.query.query_release import open_release
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
from tabularium.validations.domains.domains import CategoryDomain, NumberDomain
from tabularium.validations.release_spec.tables import Table
from tabularium.validations.universes.universe import put_within
from tests.flows.release.scene import people, publish, write_scene

TABLES = """\
tables:
  - {name: area_age_sex, dimensions: [area, age, sex]}
  - {name: grown, dimensions: [area, sex], where: "age >= 20 and (sex = female or area != B)"}
  - {name: grown_ages, dimensions: [age], where: "(area != B or sex = female) and age >= 20"}
  - {name: grown_sexes, dimensions: [sex], where: "age >= 20"}
  - {name: old, dimensions: [area, age], where: "age >= 65 and sex = male"}
"""
UNIVERSE = "(area != B or sex = female) and age >= 20"
BOUNDED = "every record; of these only records where age >= 20 and (sex = female or area != B)"


def write_universes(folder: Path) -> tuple[Path, Home]:
    """Write the small release with tables of some records only."""
    spec, home = write_scene(folder, budget="4")
    text = spec.read_text()
    before, after = text.index("tables:"), text.index("rules:")
    spec.write_text(text[:before] + TABLES + text[after:])
    return spec, home


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(publish(*write_universes(tmp_path_factory.mktemp("universes"))).folder)


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


def true_number(*, grown: bool = True, female: bool = False) -> int:
    """Count the records of the universe, or the women of it."""
    return sum(
        ((int(age) >= 20 and (sex == "2" or area != "B1")) or not grown) and (sex == "2" or not female)
        for area, age, sex in people(600)
    )


def asked(release: Path, text: str, table: str | None = None) -> tuple[str, float]:
    answer = ask(text, open_release(release, table=table).asked)
    assert answer.rows[0].value is not None
    return answer.table, answer.rows[0].value


@pytest.mark.parametrize(
    ("text", "tables", "true"),
    [
        ("count", {"area_age_sex"}, true_number(grown=False)),
        ("count by area where area = A1", {"area_age_sex"}, 200),
        # The tests of the universe, in another order: each table that counts those records may answer.
        (f"count where {UNIVERSE}", {"area_age_sex", "grown", "grown_ages"}, true_number()),
        (f"count where {UNIVERSE} and sex = female", {"area_age_sex", "grown"}, true_number(female=True)),
        # More than the universe holds, or less of what it asks: tables of all records alone.
        ("count where age >= 20", {"area_age_sex", "grown_sexes"}, 480),
        ("count where age >= 65 and sex = female", {"area_age_sex"}, 108),
        ("count from grown", {"grown"}, true_number()),
        ("count from grown_ages where age >= 20", {"grown_ages"}, true_number()),
    ],
)
def test_a_number_comes_from_the_records_that_are_asked_for(
    release: Path, text: str, tables: set[str], true: int
) -> None:
    """Noise of a standard deviation of 11 at most: off by 90 in one of 10^12 runs."""
    table, value = asked(release, text)
    assert table in tables
    assert abs(value - true) < 90


def test_a_universe_answers_where_only_it_knows(release: Path) -> None:
    opened = open_release(release)
    assert opened.of_a_universe == ["grown", "grown_ages", "grown_sexes", "old"]
    grown, ages = opened.tables[1:3]
    assert ask(f"count by age where {UNIVERSE}", [grown, ages]).table == "grown_ages"
    with pytest.raises(InputError, match=r"grown counts only some of them; write `from grown`"):
        ask("count by sex", [grown, ages])
    with pytest.raises(InputError, match=r"grown_ages counts only some of them; write `from grown_ages`"):
        ask("count where age >= 65", [grown, ages])
    with pytest.raises(InputError, match="no attribute `agee`"):
        ask("count where agee >= 65", [grown, ages])
    with pytest.raises(InputError, match="there is no table `grow`; known are `grown`, `grown_ages`"):
        ask("count from grow", [grown, ages])
    assert asked(release, "count", "grown")[0] == "grown"


def test_a_universe_leaves_nulls_out_that_a_table_of_all_records_counts_as_other() -> None:
    age = NumberDomain("age", (0, 20, 65), ("0-19", "20-64", "unknown"), nulls="other", other="unknown")
    sex = CategoryDomain("sex", ("1", "2"), ("m", "f"))
    domains = {"age": age, "sex": sex}
    table = Table(name="t", dimensions=("sex",), share=1, levels={}, where="age != 0-19")

    def within(text: str) -> object:
        return put_within(parse_tests(text), table, domains)

    assert within("age != 0-19 and sex = m") is None
    assert within("age = 20-64 and sex = m") is not None
    certain = replace(age, nulls="reject")
    domains["age"] = certain
    assert within("age != 0-19 and sex = m") == parse_tests("age != 0-19 and sex = m")[1:]
    assert len(within("age = 20-64 and sex = m") or ()) == 2, "less than the universe: its table cannot tell"
