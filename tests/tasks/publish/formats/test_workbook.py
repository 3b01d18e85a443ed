"""Workbooks: read back to equal numbers, names of sheets, and tables that no sheet holds."""

from __future__ import annotations

from pathlib import Path

import openpyxl
import pandas as pd
import pyarrow as pa
import pytest

from tabularium.mechanisms.errors import PublicationError
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.publish.formats.xlsx import Xlsx, sheet_names
from tabularium.tasks.publish.frames import Frame
from tabularium.tasks.publish.published_tables import PublishedTable
from tests.tasks.publish.formats.a_release import a_release
from tests.tasks.publish.formats.test_formats import TABLES, rows
from tests.validations.release_spec.spec_samples import SPEC, block, changed, load, problems_of

LONG = "a_table_with_a_name_that_is_longer_than_a_sheet_may_have"


def test_names_of_sheets_are_short_and_unique() -> None:
    names = [f"{LONG}_{place}" for place in range(12)] + ["notes", "history", "short"]
    found = sheet_names(dict.fromkeys(names))
    assert found["short"] == "short"
    assert found["notes"] == "notes~2"  # the other one, but for a capital letter
    assert found["history"] == "history~2"  # Excel keeps this one for itself
    assert all(len(sheet) <= 31 for sheet in found.values())
    assert len({sheet.casefold() for sheet in found.values()} | {"notes"}) == len(names) + 1


BIG = changed("{from: 0, to: 99, edges: [5, 18, 65]}", "{from: 0, to: 87381}", SPEC)  # 6 nodes x 2 x 87 382


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        (changed("87381", "87380", BIG), True),
        (BIG, False),
    ],
)
def test_a_table_that_no_sheet_holds_is_refused_before_the_run(tmp_path: Path, text: str, fits: bool) -> None:
    wanted = block("publication", "publication: {formats: [csv, xlsx]}", text)
    found = problems_of(tmp_path, wanted)
    assert (found == ()) is fits
    if not fits:
        assert [problem.field for problem in found] == ["tables[0]"]
        assert "rows, and a sheet of a workbook holds 1048573 below its header" in found[0].what
    assert problems_of(tmp_path, text) == ()


def test_a_histogram_that_no_sheet_holds_is_refused_when_it_is_known(tmp_path: Path) -> None:
    extra = 'histograms:\n  - {name: sizes, of: household, share: "1/4"}\n'
    loaded = load(tmp_path, SPEC + extra)
    entry = loaded.spec.histograms[0]
    frame = pa.table({"size": range(1_048_576), "number": [1] * 1_048_576})
    table = PublishedTable(entry, Layout.of_histogram(entry), Frame.of(frame), "none")
    with pytest.raises(PublicationError, match=r"table sizes: has 1048576 rows.*take xlsx out"):
        Xlsx().finish(loaded, {"sizes": table}, tmp_path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return a_release(tmp_path_factory.mktemp("workbook"), "csv, xlsx")


@pytest.mark.parametrize("name", TABLES)
def test_xlsx(folder: Path, name: str) -> None:
    header, expected = rows(folder, name)
    book = openpyxl.load_workbook(folder / "tables.xlsx")
    assert book.sheetnames == [*TABLES, "Notes"]
    sheet = book[name]
    assert sheet.freeze_panes == "A4"
    title, about, *cells = sheet.iter_rows()
    assert title[0].value == {"age_sex": "Ages and sexes", "sizes_of_areas": "Sizes"}.get(name, name)
    assert ("Margins of error at a level of 90 %" in about[0].value) is (name != "sizes_of_areas")
    assert sheet.auto_filter.ref == f"A3:{cells[-1][-1].coordinate}"
    assert {cell.number_format for row in cells[1:] for cell in row if cell.data_type == "n"} <= {
        "General",  # where nothing is
        "#,##0",
    }
    assert [cell.value for cell in cells[0]] == header
    assert [tuple(cell.value for cell in row) for row in cells[1:]] == expected
    kinds = {
        cell.data_type
        for row in cells[1:]
        for cell, column in zip(row, header, strict=True)
        if column not in ("count", "margin", "size", "number")
    }
    assert kinds <= {"s", "inlineStr"}  # no "f": no formula
    assert not any(cell.hyperlink for row in cells for cell in row)


def test_xlsx_is_read_by_pandas_too(folder: Path) -> None:
    header, expected = rows(folder, "age_sex")
    frame = pd.read_excel(
        folder / "tables.xlsx", "age_sex", header=2, dtype={"sex": str}, keep_default_na=False
    )
    assert list(frame.columns) == header
    assert [None if v == "" else v for v in frame["count"]] == [row[6] for row in expected]


def test_the_notes_say_what_the_columns_mean(folder: Path) -> None:
    notes = openpyxl.load_workbook(folder / "tables.xlsx")["Notes"]
    said = [tuple(row) for row in notes.iter_rows(values_only=True)]
    assert ("Title", "", "Persons by age and sex, 2026") in [tuple(v or "" for v in row) for row in said]
    assert any(row[1] == "margin" and "Margin of error" in str(row[2]) for row in said)
