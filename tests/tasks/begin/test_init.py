"""A first spec has the names and types of a file, nothing of its rows, and says what is left to do."""

from __future__ import annotations

import gzip
from collections.abc import Callable
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
    assert "column: person_id}" in text  # in a comment: whose records they may be
    assert told["source"] == {"path": "people.parquet"}
    assert (PLANTED not in text) & ("47" not in text)
    assert "first line" not in text
    left = [problem.field for problem in tb.check(spec).problems]
    assert left == [
        *("period", "privacy.unit", "privacy.budget", "columns.place.categories"),
        *("columns.age.integer.from", "columns.bmi.integer.from", "columns.born on_year.integer.from"),
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


FILLINGS = {
    "period: FILL IN": 'period: "2026"',
    "unit: FILL IN": "unit: record",
    "budget: FILL IN": 'budget: "1"',
    "categories: FILL IN": 'categories: {"1": one, "2": two}',
    "from: FILL IN": "from: 0",
    "to: FILL IN": "to: 9",
    "edges: [FILL IN]": "edges: [5]",
}


def filled_in(spec: Path) -> Path:
    text = spec.read_text()
    for hole, filling in FILLINGS.items():
        text = text.replace(hole, filling)
    spec.write_text(text)
    return spec


def columns_of(folder: Path, **columns: pa.DataType) -> Path:
    pq.write_table(
        pa.table({name: pa.array([], kind) for name, kind in columns.items()}), folder / "p.parquet"
    )
    return folder / "p.parquet"


def odd_labels(folder: Path) -> Path:
    labels = {"sex": {1: "a\u2028b: [", 2: "c\x85{"}}
    pyreadstat.write_sav(
        frame(), folder / "p.sav", column_labels={"sex": "d\u2028e: ["}, variable_value_labels=labels
    )
    return folder / "p.sav"


def named(name: str, header: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(header.encode())
        return folder / name

    return write


@pytest.mark.parametrize(
    "made_file",
    [
        parquet,
        csv,
        lambda folder: statistical(folder, ".sav"),
        odd_labels,
        lambda folder: columns_of(folder, born=pa.date32(), born_year=pa.int64(), Born_Year2=pa.int64()),
        lambda folder: columns_of(folder, born=pa.date32()),
        lambda folder: columns_of(folder, bmi=pa.float64()),
        named("true.csv", "sex,age\n"),
        named("1e5.csv", "sex,age\n"),
        named("2026.csv", "sex,age\n"),
        named("people.csv", "count,level,sex,sex_label,age\n"),
        named("people.csv", "yes,1e5x,null,a: b,#c\n"),
        named("people.csv", "sex,age\rF,1\r"),
        named("people.csv", "\ufeffsex\tage\r\nF\t1\r\n"),
    ],
)
def test_what_is_filled_in_is_in_order(tmp_path: Path, made_file: Callable[[Path], Path]) -> None:
    """Whatever the names of file and columns are."""
    spec = filled_in(tb.init(made_file(tmp_path), tmp_path / "new.yaml"))
    assert tb.check(spec).problems == ()


def test_a_line_break_in_the_name_of_a_file_ends_no_comment(tmp_path: Path) -> None:
    spec = filled_in(tb.init(named("a\u2028b: [.csv", "sex,age\n")(tmp_path), tmp_path / "new.yaml"))
    assert [problem.field for problem in tb.check(spec).problems] == ["source.path"]


def test_what_is_filled_in_can_be_rehearsed_and_planned(tmp_path: Path) -> None:
    spec = filled_in(tb.init(csv(tmp_path), tmp_path / "new.yaml"))
    assert tb.rehearse(spec, rows=100)["first"].to_pandas()["count"].sum() > 0
    text = spec.read_text().replace("# targets:", "targets:").replace("#   - {table", "  - {table")
    spec.write_text(text)
    tb.plan(spec).save(spec, overwrite=True)
    assert yaml.safe_load(spec.read_text())["privacy"]["budget"] not in ("1", "FILL IN")


def test_whom_the_release_protects_is_left_to_a_person(tmp_path: Path) -> None:
    text, spec = made(csv(tmp_path))
    assert yaml.safe_load(text)["privacy"] == {"unit": "FILL IN", "budget": "FILL IN"}
    spec.write_text(text.replace("unit: FILL IN", "unit: record"))
    assert "privacy.unit" not in {problem.field for problem in tb.check(spec).problems}


def test_only_what_looks_like_an_identifier_is_left_out_and_listed(tmp_path: Path) -> None:
    ordinary = ["covid", "paid", "unpaid", "medicaid", "grid", "house_number", "floor_nr", "monkey"]
    ids = ["person_id", "hhID", "caseId", "record_number", "ID", "nr", "SSN"]
    path = tmp_path / "people.csv"
    path.write_text(",".join([*ids, *ordinary]))
    text, _ = made(path)
    assert list(yaml.safe_load(text)["columns"]) == ordinary
    assert [line for line in text.splitlines() if line in {f"  #   {each}:" for each in ids}] == [
        f"  #   {each}:" for each in ids
    ]


def test_a_year_in_the_name_of_a_file_is_the_period(tmp_path: Path) -> None:
    def told(name: str) -> tuple[str, str]:
        (tmp_path / name).write_text("sex,age")
        spec = tb.init(tmp_path / name, tmp_path / f"{name}.yaml")
        found = yaml.safe_load(spec.read_text())
        return found["product"], found["period"]

    assert told("people-2024.csv") == ("people", "2024")
    assert told("people-2023-2024.csv") == ("people-2023-2024", "FILL IN")
    assert told("people-12024.csv") == ("people-12024", "FILL IN")


def test_many_labels_are_not_copied(tmp_path: Path) -> None:
    labels = {"sex": {code: f"label {code}" for code in range(51)}}
    pyreadstat.write_sav(frame(), tmp_path / "p.sav", variable_value_labels=labels)
    text, _ = made(tmp_path / "p.sav")
    assert ("51 labels" in text) & ("label 3" not in text)


def test_quotes_hide_delimiters(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text('"a,b";"c,d";e\n')
    text, _ = made(tmp_path / "p.csv")
    assert list(yaml.safe_load(text)["columns"]) == ["a,b", "c,d", "e"]
    assert yaml.safe_load(text)["source"]["delimiter"] == ";"


def test_that_the_first_line_was_taken_for_names_is_said(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["init", str(csv(tmp_path)), "--out", str(tmp_path / "new.yaml")])
    assert "The names are the first line of people.csv.gz" in done.output
    assert "# The names are its first line" in (tmp_path / "new.yaml").read_text()
    done = CliRunner().invoke(app, ["init", str(parquet(tmp_path)), "--out", str(tmp_path / "next.yaml")])
    assert (done.exit_code == 0) & ("first line" not in done.output)


VALUE = "looks like a value"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        *(
            ("people.csv", first.encode() + b",4711x,Zanzibar\n", f"column {place}: {VALUE}")
            for first, place in {
                **dict.fromkeys(("4711", "19800101-1234", "2021-03-04", "+46 70 123", "12/3/80 x"), 1),
                **dict.fromkeys(("4 Mar 2021", "131052-308T", "me@here.org", "1980-01-01T00"), 1),
                "a,4711": 2,
            }.items()
        ),
        ("people.csv", b"a,Zanzibar,A\n", "column 3: is also that of column 1"),
        ("people.csv", b"", "first line: is empty"),
        ("people.csv", b"\nZanzibar\n", "first line: is empty"),
        ("people.csv", b'b;a,"Zanzibar\n4711', "or one that is not closed"),
        ("people.csv", b"\xff\xfeZanzibar\n", "is not UTF-8"),
        ("people.csv", '"Zanzibar",a'.encode("utf-16-le"), "is not UTF-8"),
        ("people.csv", "Zanzibar,kön".encode("latin-1"), "is not UTF-8"),
        ("people.csv", b"'Zanzibar';'a'\n", "single quotes"),
        ("people.csv", b"Zanzibar, a\n", "column 2: has spaces around it"),
        ("people.csv", b"Zanzibar,a,\n", "column 3: is empty"),
        ("people.csv", b'"Zanzibar\n4711",a\n', "column 1: has a control character or a line break"),
        ("people.csv", "Zanzibar\u2028,a".encode(), "column 1: has a control character or a line break"),
        ("people.csv", b"person_id,nr\n", "all columns look like identifiers"),
        ("people.csv.gz", b"Zanzibar", "cannot be read"),
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
    assert not [value for value in (PLANTED, "4711", "1980", "Mar") if value in str(caught.value)]
    assert not (tmp_path / "new.yaml").exists()


def test_a_file_without_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there are no columns"):
        tb.init(columns_of(tmp_path), tmp_path / "new.yaml")


def test_a_spec_that_is_there_is_kept(tmp_path: Path) -> None:
    (tmp_path / "new.yaml").write_text("mine")
    done = CliRunner().invoke(app, ["init", str(csv(tmp_path)), "--out", str(tmp_path / "new.yaml")])
    assert done.exit_code == 1
    assert "this file exists" in done.output
    assert (tmp_path / "new.yaml").read_text() == "mine"
