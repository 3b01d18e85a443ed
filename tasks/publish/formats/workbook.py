"""XLSX: ``tables.xlsx``, a sheet for each table and one of notes, for people who work in a spreadsheet.

Numbers are numbers and texts are texts: a code such as ``=1+1`` or ``@x`` is never taken for a formula or an
address, and a label such as ``<r>x</r>`` not for XML. Rows are written as they come, in memory that does not
grow with them.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from tabularium.mechanisms.errors import PublicationError
from tabularium.tasks.publish.formats.column_meanings import (
    column_meanings,
    confidence,
    title_of,
    title_of_release,
)
from tabularium.tasks.publish.frames import Frame
from tabularium.tasks.publish.published_tables import PublishedTable
from tabularium.validations.spec.checks.publication_checks import SHEET_ROWS
from tabularium.validations.spec.load import Loaded

NAME = "tables.xlsx"
NOTES = "Notes"
_LONGEST_NAME = 31
_ROWS_AT_ONCE = 50_000
_MADE = dt.datetime(2000, 1, 1, tzinfo=dt.UTC).replace(
    tzinfo=None
)  # the same in every file; the format has no zone


def write_workbook(loaded: Loaded, tables: Mapping[str, PublishedTable], aside: Path) -> None:
    """Write ``tables.xlsx``.

    Raises
    ------
    PublicationError
        If a table has more rows than a sheet holds: of a histogram that is not known before it is drawn.
    """
    import xlsxwriter

    options = {
        "constant_memory": True,
        "tmpdir": str(aside),
        "strings_to_formulas": False,
        "strings_to_numbers": False,
        "strings_to_urls": False,
    }
    names = sheet_names(tables)
    with xlsxwriter.Workbook(aside / NAME, options) as book:
        book.set_properties({"created": _MADE, "title": title_of_release(loaded)})
        bold, plain = book.add_format({"bold": True}), book.add_format()
        for name, table in tables.items():
            if table.frame.num_rows > SHEET_ROWS:
                raise PublicationError(
                    f"has {table.frame.num_rows} rows, and a sheet of a workbook holds {SHEET_ROWS}",
                    where=f"table {name}",
                    mend="take xlsx out of publication.formats",
                )
            sheet = book.add_worksheet(names[name])
            sheet.freeze_panes(1, 0)
            _write_table(sheet, table.frame, bold, _writer_of_text(sheet, plain))
        notes = book.add_worksheet(NOTES)
        write_text = _writer_of_text(notes, plain)
        notes.set_column(0, 1, 24)
        notes.set_column(2, 2, 120)
        for row, texts in enumerate(_notes(loaded, tables, names)):
            for place, text in enumerate(texts):
                write_text(row, place, text, None if place else bold)


def sheet_names(tables: Mapping[str, Any]) -> dict[str, str]:
    """Return the name of each table's sheet: the table's own, shortened where Excel takes no more.

    No two are the same, nor the same as that of the notes or the one that Excel keeps for itself, whatever
    their capital letters.
    """
    taken = {NOTES.casefold(), "history"}
    found = {}
    for name in tables:
        sheet, number = name[:_LONGEST_NAME], 1
        while sheet in taken:
            number += 1
            sheet = f"{name[: _LONGEST_NAME - len(str(number)) - 1]}~{number}"
        taken.add(sheet)
        found[name] = sheet
    return found


def _writer_of_text(sheet: Any, plain: Any) -> Callable[..., None]:
    """Return what writes a text as it is: XlsxWriter takes ``<r>…</r>`` for XML unless it is in parts."""

    def write(row: int, place: int, text: str, how: Any = None) -> None:
        if text.startswith("<r>") and text.endswith("</r>"):
            sheet.write_rich_string(row, place, text[:3], plain, text[3:])
        else:
            sheet.write_string(row, place, text, how)

    return write


def _write_table(sheet: Any, frame: Frame, bold: Any, write_text: Callable[..., None]) -> None:
    """Write the header and every row; nothing where a value is null."""
    for place, field in enumerate(frame.schema):
        write_text(0, place, field.name, bold)
        sheet.set_column(place, place, 14)
    writes: list[Callable[..., Any]] = [
        write_text if pa.types.is_dictionary(field.type) else sheet.write_number for field in frame.schema
    ]
    row = 0
    for start in range(0, frame.num_rows, _ROWS_AT_ONCE):
        some = frame.make(start, min(start + _ROWS_AT_ONCE, frame.num_rows))
        columns = [column.to_pylist() for column in some.itercolumns()]
        for values in zip(*columns, strict=True):
            row += 1
            for place, (write, value) in enumerate(zip(writes, values, strict=True)):
                if value is not None:
                    write(row, place, value)


def _notes(
    loaded: Loaded, tables: Mapping[str, PublishedTable], names: Mapping[str, str]
) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the notes: what the release is, then what every column of every sheet means."""
    about = loaded.spec.about
    curator = about.curator
    yield "Title", "", title_of_release(loaded)
    for what, text in (
        ("Description", about.description),
        ("Published by", None if curator is None else curator.name),
        ("Questions", None if curator is None else curator.email),
        ("Region", None if about.region is None else about.region.label or about.region.code),
        ("Licence", about.licence),
        ("Page", about.url),
    ):
        if text is not None:
            yield what, "", text
    yield "Period", "", loaded.spec.period
    yield "Margins of error", "", f"at a level of {confidence(loaded)}"
    for name, table in tables.items():
        yield ("",)
        yield names[name], "", title_of(table.entry)
        for column in column_meanings(loaded, table):
            unit = "" if column.unit is None else f" [{column.unit}]"
            yield (
                "",
                column.name,
                f"{column.title}{unit}" + (f". {column.description}" if column.description else ""),
            )
