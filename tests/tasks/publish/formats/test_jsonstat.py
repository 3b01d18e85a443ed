"""JSON-stat: valid by another program's schema, and read by another reader to the numbers of the CSV."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.csv
import pytest
from jsonstat_validator import validate_jsonstat
from pyjstat import pyjstat

from tabularium.tasks.publish.formats import jsonstat
from tests.tasks.publish.formats.a_release import SPEC, a_release, with_all_measures, written
from tests.validations.release_spec.spec_samples import SPEC as SAMPLE
from tests.validations.release_spec.spec_samples import problems_of

TABLES = ("area_age_sex", "age_sex", "sizes_of_areas")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_release(tmp_path_factory.mktemp("jsonstat"), "csv, jsonstat, catalogue")


def dataset(folder: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / f"{name}.jsonstat.json").read_bytes())
    return found


@pytest.mark.parametrize("name", TABLES)
def test_it_is_valid(folder: Path, name: str) -> None:
    assert validate_jsonstat(dataset(folder, name))


@pytest.mark.filterwarnings("ignore:Shouldn't use this function")  # of pyjstat by itself
@pytest.mark.parametrize("name", TABLES)
def test_another_reader_finds_the_numbers_of_the_csv(folder: Path, name: str) -> None:
    text = (folder / f"{name}.jsonstat.json").read_text()
    frame = pyjstat.Dataset.read(text).write("dataframe", naming="id")
    rows = pyarrow.csv.read_csv(folder / f"{name}.csv").to_pylist()
    found = dataset(folder, name)
    metrics = found["dimension"]["contents"]["category"]["index"]
    assert metrics == (["number"] if name.startswith("sizes") else ["count", "margin"])
    assert len(frame) == len(rows) * len(metrics)
    read = iter(frame.to_dict("records"))
    for place, row in enumerate(rows):
        for at, metric in enumerate(metrics):
            cell = next(read)
            names = [column for column in ("area", "age", "sex", "kind", "size") if column in row]
            assert [cell[column] for column in names] == [str(row[column]) for column in names]
            assert (cell["period"], cell["contents"]) == ("2026", metric)
            assert (None if pd.isna(cell["value"]) else int(cell["value"])) == row[metric]
            if "quality" in row:
                assert found["status"][place * len(metrics) + at] == row["quality"]


def test_roles_units_children_levels_and_meanings(folder: Path) -> None:
    found = dataset(folder, "area_age_sex")
    assert found["role"] == {"time": ["period"], "metric": ["contents"]}
    assert found["dimension"]["area"]["category"]["child"] == {
        "N": ["A", "B"],
        "A": ["A1", "A2"],
        "B": ["B1"],
    }
    assert found["dimension"]["contents"]["category"]["unit"]["count"] == {"label": "records", "decimals": 0}
    more = found["extension"]["tabularium"]
    assert more["margins"] == {"margin": "count"} and more["confidence"] == "9/10"
    assert more["levels"]["area"] == {
        **{"N": "nation", "A": "province", "B": "province"},
        **dict.fromkeys(("A1", "A2", "B1"), "place"),
    }
    assert "suppressed" in more["status"]["quality"]


def test_numbers_keep_every_digit(tmp_path: Path) -> None:
    _, tables, aside = written(tmp_path, SPEC.replace("[csv, sdmx]", "[csv, jsonstat]"), whole=False)
    found = dataset(aside, "area_size")
    assert found["value"][::2] == tables["area_size"].frame.whole()["count"].to_pylist()


def test_a_table_that_is_too_large_to_be_read_as_a_whole_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = SAMPLE + "publication: {formats: [csv, jsonstat]}\n"
    assert not problems_of(tmp_path, text)
    monkeypatch.setattr(jsonstat, "MOST_NUMBERS", 95)
    assert "has 96 numbers, and a JSON-stat file holds 95" in str(problems_of(tmp_path, text))


@pytest.mark.filterwarnings("ignore:Shouldn't use this function")  # of pyjstat by itself
def test_measures_have_their_margins_and_flags(tmp_path: Path) -> None:
    folder = with_all_measures(tmp_path, "csv, jsonstat")
    found = dataset(folder, "age_sex")
    assert validate_jsonstat(found)
    frame = pyjstat.Dataset.read(json.dumps(found)).write("dataframe", naming="id")
    rows = pyarrow.csv.read_csv(folder / "age_sex.csv").to_pylist()
    metrics = found["dimension"]["contents"]["category"]["index"]
    assert [each for each in metrics if each.endswith("_margin")]
    read = zip(frame["value"], found["status"], strict=True)
    for row in rows:
        for metric in metrics:
            value, status = next(read)
            assert (None if pd.isna(value) else value) == row[metric]
            of = metric.removesuffix("_margin")
            assert status == row["quality" if metric in ("count", "margin") else f"{of}_quality"]
