"""A first spec has the names and types of a file, nothing of its rows, and says what is left to do."""

from __future__ import annotations

import gzip
from datetime import date
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pyreadstat
import pytest
import yaml
from typer.testing import CliRunner

import tabularium as tb
from tabularium.flows.cli.app import app
from tabularium.mechanisms.errors import InputError

PLANTED = "Zanzibar"
LABELS = {1: "male", 2: "female", 77: "a label"}


def frame() -> pd.DataFrame:
    return pd.DataFrame({"PersonID": [4711, 4712], "sex": [1.0, 2.0], "place": [PLANTED, PLANTED]})


def parquet(folder: Path) -> Path:
    columns = {
        "person_id": pa.array([4711]),
        "place": pa.array([PLANTED]).dictionary_encode(),
        "age": pa.array([4711]),
        "bmi": pa.array([47.11]),
        "works": pa.array([True]),
        "born on": pa.array([date(1947, 11, 11)]),
    }
    pq.write_table(pa.table(columns), folder / "people.parquet")
    return folder / "people.parquet"


def csv(folder: Path) -> Path:
    with gzip.open(folder / "people.csv.gz", "wt", encoding="utf-8-sig") as file:
        file.write(f"PersonID;sex;no\n4711;1;{PLANTED}\n")
    return folder / "people.csv.gz"


def statistical(folder: Path, ending: str) -> Path:
    path = folder / f"people{ending}"
    titles = {"sex": "Sex as registered"}
    if ending == ".sav":
        pyreadstat.write_sav(frame(), path, column_labels=titles, variable_value_labels={"sex": LABELS})
    elif ending == ".dta":
        pyreadstat.write_dta(frame(), path, column_labels=titles, variable_value_labels={"sex": LABELS})
    else:
        pyreadstat.write_xport(frame(), path, column_labels=titles)
    return path


def made(path: Path) -> tuple[str, Path]:
    spec = tb.init(path, path.with_name("new.yaml"))
    return spec.read_text(), spec


def test_of_a_parquet_file_types_are_known(tmp_path: Path) -> None:
    text, spec = made(parquet(tmp_path))
    told = yaml.safe_load(text)
    assert list(told["columns"]) == ["place", "age", "bmi", "works", "born on_year"]
    assert told["columns"]["works"] == {"categories": {"true": "yes", "false": "no"}}
    assert told["columns"]["born on_year"]["date"] == {"part": "year"}
    assert "column: person_id" in text  # in a comment: whose records they may be
    assert told["source"] == {"path": "people.parquet"}
    assert (PLANTED not in text) & ("47" not in text)
    left = [problem.field for problem in tb.check(spec).problems]
    assert left == [
        *("period", "privacy.budget", "columns.place.categories"),
        *("columns.age.integer.from", "columns.age.integer.to"),
        *("columns.bmi.integer.from", "columns.bmi.integer.to", "columns.bmi.integer.edges[0]"),
        *("columns.born on_year.integer.from", "columns.born on_year.integer.to"),
    ]


def test_of_a_csv_file_the_first_line_is_read(tmp_path: Path) -> None:
    text, spec = made(csv(tmp_path))
    told = yaml.safe_load(text)
    assert list(told["columns"]) == ["sex", "no"]  # `no` is in quotes: not false
    assert told["source"] == {"path": "people.csv.gz", "delimiter": ";"}
    assert (PLANTED not in text) & ("4711" not in text)
    assert {problem.what for problem in tb.check(spec).problems} == {"is still to be filled in"}


@pytest.mark.parametrize("ending", [".sav", ".dta", ".xpt"])
def test_labels_of_a_statistics_package_are_comments(tmp_path: Path, ending: str) -> None:
    text, _ = made(statistical(tmp_path, ending))
    assert PLANTED not in text
    assert yaml.safe_load(text)["source"] == {"path": "people.parquet"}
    assert '    # title: "Sex as registered"' in text.splitlines()
    labels = '    # categories: {"1": "male", "2": "female", "77": "a label"}'
    assert (labels in text.splitlines()) is (ending != ".xpt")  # which holds none
    assert yaml.safe_load(text)["columns"]["sex"] == {"categories": "FILL IN"}


def test_what_is_filled_in_is_in_order(tmp_path: Path) -> None:
    text, spec = made(csv(tmp_path))
    text = text.replace("period: FILL IN", 'period: "2026"').replace("budget: FILL IN", 'budget: "1"')
    spec.write_text(text.replace("categories: FILL IN", 'categories: {"1": one, "2": two}'))
    assert tb.check(spec)
    assert tb.rehearse(spec, rows=100)["first"].to_pandas()["count"].sum() > 0


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("people.csv", b"4711,1,x\n4712,2,y\n", "the first line does not name the columns"),
        ("people.csv", b"", "the first line does not name the columns"),
        ("people.csv", b"\xff\xfea\n", "cannot be read"),
        ("people.parquet", b"Zanzibar", "cannot be read"),
        ("people.sav", b"Zanzibar", "cannot be read"),
        ("people.doc", b"", "cannot tell the kind of file"),
    ],
)
def test_what_cannot_be_read_is_refused_without_its_content(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said) as caught:
        tb.init(tmp_path / name, tmp_path / "new.yaml")
    assert (PLANTED not in str(caught.value)) & ("4711" not in str(caught.value))
    assert not (tmp_path / "new.yaml").exists()


def test_a_spec_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text("mine")
    done = CliRunner().invoke(app, ["init", str(csv(tmp_path)), "--out", str(tmp_path / "new.yaml")])
    assert done.exit_code == 1
    assert "this file exists" in done.output
    assert (tmp_path / "new.yaml").read_text() == "mine"
