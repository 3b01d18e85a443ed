"""PC-Axis: what PxWeb wants is there, and another reader finds the numbers of the CSV."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.csv
import pytest
from pyaxis import pyaxis

from tabularium.tasks.publish.formats import px
from tabularium.tasks.publish.formats.base import known_rows
from tabularium.tasks.publish.frames import Shape
from tabularium.tasks.publish.published_tables import FLAGS
from tests.tasks.publish.formats.a_release import SPEC, a_release, with_all_measures, written
from tests.validations.release_spec.spec_samples import changed, problems_of

TABLES = ("area_age_sex", "age_sex", "sizes_of_areas")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_release(tmp_path_factory.mktemp("px"), "csv, px, catalogue")


def parsed(path: Path) -> tuple[dict[str, Any], pd.DataFrame]:
    found = pyaxis.parse(str(path), encoding="utf-8")
    return found["METADATA"], found["DATA"]


@pytest.mark.parametrize("name", TABLES)
def test_another_reader_finds_the_numbers_of_the_csv(folder: Path, name: str) -> None:
    about, frame = parsed(folder / f"{name}.px")
    rows = pyarrow.csv.read_csv(folder / f"{name}.csv").to_pylist()
    contents = about["CODES(contents)"]
    assert len(frame) == len(rows) * len(contents)
    numbers = iter(frame.itertuples(index=False))
    variables = about["STUB"]
    codes = {
        each: dict(zip(about[f"VALUES({each})"], about[f"CODES({each})"], strict=True)) for each in variables
    }
    for row in rows:
        keys = [str(row[column]) for column in ("area", "age", "sex", "kind", "size") if column in row]
        for column in contents:
            *labels, number = next(numbers)
            assert [codes[each][label] for each, label in zip(variables, labels, strict=False)] == keys
            value = None if pd.isna(number) else int(number)
            assert value == (FLAGS.index(row[column]) if column == "quality" else row[column])


def test_keywords_are_those_that_pxweb_needs(folder: Path) -> None:
    raw = (folder / "age_sex.px").read_bytes()
    text = raw.decode("utf-8")
    assert text.startswith('CHARSET="ANSI";\nAXIS-VERSION="2013";\nCODEPAGE="utf-8";\n') and text.endswith(
        "\n;\n"
    )
    assert not [each for each in text if ord(each) < 32 and each != "\n"]
    assert max(map(len, text.split("DATA=")[0].splitlines())) <= 256
    about, _ = parsed(folder / "age_sex.px")
    needed = (
        "MATRIX",
        "SUBJECT-CODE",
        "SUBJECT-AREA",
        "TITLE",
        "CONTENTS",
        "UNITS",
        "DECIMALS",
        "STUB",
        "HEADING",
    )
    assert not [each for each in (*needed, "CONTVARIABLE", "NOTE", "UNITS(Count)") if each not in about]
    assert 'TIMEVAL("period")=TLIST(A1),"2026";' in text
    assert about["VALUES(Sex, as registered)"] == ["=1+1", "@x', y"]  # nothing escapes a quote
    assert "5 exact" in "".join(about["NOTE"])


def test_a_hierarchy_has_its_tree_and_its_root(folder: Path) -> None:
    about, _ = parsed(folder / "area_age_sex.px")
    assert about["ELIMINATION(area)"] == ["Nation"] and about["HIERARCHYLEVELS(area)"] == "3"
    assert about["HIERARCHIES(area)"] == ["N", "N", "A", "N", "B", "A", "A1", "A", "A2", "B", "B1"]
    assert about["HIERARCHYNAMES(area)"] == ["nation", "province", "place"]


def test_numbers_with_decimals_have_no_exponents(tmp_path: Path) -> None:
    text = SPEC.replace("[csv, sdmx]", "[csv, px]").replace('"\\"2\\""', "b")
    _, tables, aside = written(tmp_path, f"{text}postprocessing: {{rounding: false}}\n", whole=False)
    about, frame = parsed(aside / "area_size.px")
    expected = tables["area_size"].frame.whole()["count"].to_pylist()
    counts = frame[frame["contents"] == "Count"]["DATA"].tolist()
    assert about["DECIMALS"] == "15" and about["TIMEVAL(period)"] == ["20261"]  # the half-year H1
    assert not [each for each in counts if isinstance(each, str) and "e" in each.lower()]
    assert [None if pd.isna(each) else float(each) for each in counts] == expected


@pytest.mark.parametrize("code", ['a\\"b', "a  b", 256 * "a"])
def test_a_code_that_no_quotes_can_hold_is_refused(code: str, tmp_path: Path) -> None:
    text = changed('sex: {categories: {"1": male', f'sex: {{categories: {{"{code}": male')
    text += "publication: {formats: [csv, px]}\n"
    assert "which PC-Axis cannot write" in str(problems_of(tmp_path, text))


def test_names_that_are_cut_stay_apart() -> None:
    names = {px._short(f"a_table_of_a_long_name_{place}") for place in range(20)}
    assert len(names) == 20 and max(map(len, names)) <= 20


def test_measures_have_their_margins_and_flags(tmp_path: Path) -> None:
    folder = with_all_measures(tmp_path, "csv, px")
    about, frame = parsed(folder / "age_sex.px")
    rows = pyarrow.csv.read_csv(folder / "age_sex.csv").to_pylist()
    contents, numbers = about["CODES(contents)"], iter(frame["DATA"])
    assert [each for each in contents if each.endswith("_margin")] and "quality" in contents
    for row in rows:
        for column in contents:
            number, told = next(numbers), row[column]
            told = FLAGS.index(told) if column.endswith("quality") else told
            assert (None if pd.isna(number) else float(number)) == told


@pytest.mark.parametrize(
    "columns",
    [
        {"area": "sex", "size": "area"},  # titles that are other columns' names
        {"area": "period", "size": "contents"},  # or our own variables'
        {"area": "The same", "size": "The same"},
        {"area": 60 * "long "},
    ],
)
def test_variables_have_names_of_their_own(columns: dict[str, str], tmp_path: Path) -> None:
    text = SPEC.replace("[csv, sdmx]", "[csv, px]").replace(", title: Where they live", "")
    for name, title in columns.items():
        text = text.replace(f"  {name}: {{", f"  {name}: {{title: {title.strip()}, ")
    loaded, tables, aside = written(tmp_path, text.replace('"\\"2\\""', "b"))
    about, _ = parsed(aside / "area_size.px")
    named = [*about["STUB"], *about["HEADING"]]
    assert len(set(named)) == len(named) == 4
    shape = px.Px().shape(Shape.of(loaded.spec, "area_size", tables["area_size"].layout))
    rows = sum(batch.num_rows for batch in px.Px().read(loaded, aside, shape, known_rows(shape)))
    assert rows == shape.rows


def test_labels_that_are_the_same_are_told_apart_by_codes() -> None:
    labels = px._distinct([("1", "x"), ("2", "x"), ("3", "x (1)"), ("4", ""), ("5", "y")])
    assert len(set(labels)) == 5 and labels[-2:] == ["(4)", "y"]
