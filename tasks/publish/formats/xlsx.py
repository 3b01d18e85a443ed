"""XLSX: ``tables.xlsx``, a sheet for each table and one of notes, for people who work in a spreadsheet.

Numbers are numbers and texts are texts: a code such as ``=1+1`` or ``@x`` is never taken for a formula or an
address, and a label such as ``<r>x</r>`` not for XML. Rows are written as they come, in memory that does not
grow with them.
"""

from __future__ import annotations

import datetime as dt
import zipfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from tabularium.mechanisms.errors import PublicationError
from tabularium.tasks.public_folder import named
from tabularium.tasks.publish.data_dictionary import (
    column_meanings,
    confidence,
    title_of,
    title_of_release,
)
from tabularium.tasks.publish.formats.base import TableFormat, Tables
from tabularium.tasks.publish.frames import Shape
from tabularium.tasks.publish.published_tables import PublishedTable
from tabularium.validations.public_files import MIB, Unreadable, open_plain
from tabularium.validations.release_spec.checks.table_checks import published_sizes
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.partial_spec import PartialSpec
from tabularium.validations.release_spec.publication_formats import FileKind
from tabularium.validations.release_spec.tables import Histogram, Table

NAME = "tables.xlsx"
NOTES = "Notes"
SHEET_ROWS = 1_048_573
"""Rows of a sheet, below two of title and the header."""
HEADER = 2
"""The row of a sheet, counted from 0, that names the columns."""
_LONGEST_NAME = 31
_NARROWEST, _WIDEST, _FILTER = 9, 60, 3  # widths in characters, and what the arrow of a filter takes
_ROWS_AT_ONCE = 50_000
_ROWS_READ = 20_000
_CELL = 400  # bytes of XML that a cell may take
_MADE = dt.datetime(2000, 1, 1)


class Xlsx(TableFormat):
    """A workbook of all tables."""

    name = "xlsx"
    summary = (
        f"`{NAME}`: a sheet for each table and one of notes. A sheet holds 1 048 573 rows below its header, "
        "and `check` refuses a larger table."
    )
    kinds = (
        FileKind(
            ".xlsx",
            "Excel workbook",
            "Excel workbook",
            "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
            "XLSX",
            stem="tables",
        ),
    )
    exact = False  # 16 digits
    same = "the workbook holds the same as the first format"

    def check(self, partial: PartialSpec) -> None:
        """Check that every table fits a sheet."""
        for path, _, rows in published_sizes(partial):
            if rows > SHEET_ROWS:
                what = f"has {rows} rows, and a sheet of a workbook holds {SHEET_ROWS} below its header"
                partial.add(path, what, "take xlsx out of publication.formats, or cross fewer columns")

    def finish(self, loaded: Loaded, tables: Tables, folder: Path) -> None:
        """Write ``tables.xlsx``.

        Raises
        ------
        PublicationError
            If a table has more rows than a sheet holds: of a histogram that is not known before it is drawn.
        """
        import xlsxwriter

        options = {
            "constant_memory": True,
            "tmpdir": str(folder),
            "strings_to_formulas": False,
            "strings_to_numbers": False,
            "strings_to_urls": False,
        }
        names = sheet_names(tables)
        with xlsxwriter.Workbook(folder / NAME, options) as book:
            book.set_properties({"created": _MADE, "title": title_of_release(loaded)})
            bold, plain = book.add_format({"bold": True}), book.add_format()
            large = book.add_format({"bold": True, "font_size": 14})
            for name, table in tables.items():
                if table.frame.num_rows > SHEET_ROWS:
                    raise PublicationError(
                        f"has {table.frame.num_rows} rows, and a sheet of a workbook holds {SHEET_ROWS}",
                        where=f"table {name}",
                        hint="take xlsx out of publication.formats",
                    )
                sheet = book.add_worksheet(names[name])
                write_text = _writer_of_text(sheet, plain)
                for row, text in enumerate(sheet_title(loaded, table.entry)):
                    write_text(row, 0, text, None if row else large)
                _write_table(sheet, table, _Formats(book, bold), write_text)
            notes = book.add_worksheet(NOTES)
            write_text = _writer_of_text(notes, plain)
            notes.set_column(0, 1, 24)
            notes.set_column(2, 2, 120)
            for row, texts in enumerate(_notes(loaded, tables, names)):
                for index, text in enumerate(texts):
                    write_text(row, index, text, None if index else bold)

    def label(self, name: str) -> str:
        """Return the workbook and the table."""
        return f"{NAME}, {name}"

    def read(
        self,
        loaded: Loaded,
        folder: Path,
        shape: Shape,
        rows: Mapping[str, int],
        columns: Collection[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a sheet; the title of its table stands above the row that names the columns."""
        from openpyxl import load_workbook

        entries: dict[str, Table | Histogram] = {table.name: table for table in loaded.spec.tables}
        entries |= {histogram.name: histogram for histogram in loaded.spec.histograms}
        cells = sum((rows[name] + 1) * _columns(entry) for name, entry in entries.items())
        with named(NAME):
            file = open_plain(folder / NAME)
        with file:
            _see_bounded(file, cells)
            with closing(load_workbook(file, read_only=True)) as book:
                if len(book.worksheets) != len(entries) + 1:
                    raise Unreadable(f"{NAME} does not have a sheet for each table and one of notes")
                sheet = book.worksheets[list(entries).index(shape.name)]
                yield from _sheet_rows(sheet, shape, sheet_title(loaded, entries[shape.name]))


def sheet_names(tables: Mapping[str, Any]) -> dict[str, str]:
    """Return the name of each table's sheet: the table's name, shortened to what Excel takes.

    No two are the same, nor the same as that of the notes or the one that Excel keeps for itself, whatever
    their capital letters.
    """
    taken = {NOTES.casefold(), "history"}
    names = {}
    for name in tables:
        sheet, number = name[:_LONGEST_NAME], 1
        while sheet in taken:
            number += 1
            sheet = f"{name[: _LONGEST_NAME - len(str(number)) - 1]}~{number}"
        taken.add(sheet)
        names[name] = sheet
    return names


def _writer_of_text(sheet: Any, plain: Any) -> Callable[..., None]:
    """Return a function that writes texts literally: in one part, XlsxWriter takes ``<r>…</r>`` for XML."""

    def write(row: int, column: int, text: str, how: Any = None) -> None:
        if text.startswith("<r>") and text.endswith("</r>"):
            sheet.write_rich_string(row, column, text[:3], plain, text[3:])
        else:
            sheet.write_string(row, column, text, how)

    return write


def sheet_title(loaded: Loaded, entry: Table | Histogram) -> tuple[str, str]:
    """Return the two rows above the header of a sheet."""
    margins = f"Margins of error at a level of {confidence(loaded)}. " if isinstance(entry, Table) else ""
    return title_of(entry), f"{title_of_release(loaded)}. {margins}What columns mean stands in {NOTES}."


@dataclass
class _Formats:
    """How cells of a workbook look."""

    book: Any
    header: Any

    def of(self, field: pa.Field, entry: Table | Histogram) -> Any:
        """Return the format of a column of numbers: thousands, and as many decimals as are published."""
        if pa.types.is_integer(field.type):
            return self._shown("#,##0")
        measures = entry.measures if isinstance(entry, Table) else {}
        of = measures.get(field.name.removesuffix("_margin")) or measures.get(field.name)
        return self._shown("#,##0" if of is None else f"#,##0.{'0' * of.decimals}".rstrip("."))

    @cached_property
    def header_of_numbers(self) -> Any:
        """Return the format of the header above numbers."""
        return self.book.add_format({"bold": True, "align": "right"})

    def _shown(self, number: str) -> Any:
        if number not in self._made:
            self._made[number] = self.book.add_format({"num_format": number})
        return self._made[number]

    @cached_property
    def _made(self) -> dict[str, Any]:
        return {}


def _write_table(
    sheet: Any, table: PublishedTable, formats: _Formats, write_text: Callable[..., None]
) -> None:
    """Write the header and every row; nothing where a value is null."""
    frame = table.frame
    numbers = [not pa.types.is_dictionary(field.type) for field in frame.schema]
    shown = [
        formats.of(field, table.entry) if number else None
        for field, number in zip(frame.schema, numbers, strict=True)
    ]
    for position, field in enumerate(frame.schema):
        write_text(
            HEADER, position, field.name, formats.header_of_numbers if numbers[position] else formats.header
        )
    writes: list[Callable[..., Any]] = [sheet.write_number if number else write_text for number in numbers]
    widths = [len(field.name) for field in frame.schema]
    row = HEADER
    for start in range(0, frame.num_rows, _ROWS_AT_ONCE):
        some = frame.make(start, min(start + _ROWS_AT_ONCE, frame.num_rows))
        for position, column in enumerate(some.itercolumns()):
            if not numbers[position]:
                widths[position] = max(
                    widths[position], *map(len, column.unique().cast(pa.string()).to_pylist()), 0
                )
        columns = [column.to_pylist() for column in some.itercolumns()]
        for values in zip(*columns, strict=True):
            row += 1
            for position, (write, value) in enumerate(zip(writes, values, strict=True)):
                if value is not None:
                    write(row, position, value, shown[position])
    for position, width in enumerate(widths):
        sheet.set_column(position, position, min(max(width, _NARROWEST) + _FILTER, _WIDEST))
    sheet.autofilter(HEADER, 0, row, len(widths) - 1)
    sheet.freeze_panes(HEADER + 1, 0)


def _notes(
    loaded: Loaded, tables: Mapping[str, PublishedTable], names: Mapping[str, str]
) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the notes: about the release, then the meaning of every column of every sheet."""
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


def _columns(entry: Table | Histogram) -> int:
    """Return the largest number of columns of a sheet: codes, labels, level and flags included."""
    return 2 if isinstance(entry, Histogram) else 4 + 2 * len(entry.dimensions) + 3 * len(entry.measures)


def _see_bounded(file: BinaryIO, cells: int) -> None:
    """Check, before unpacking, that a workbook is not many times larger than its cells explain."""
    with zipfile.ZipFile(file) as parts:
        size = sum(part.file_size for part in parts.infolist())
    if size > 16 * MIB + _CELL * cells:
        raise Unreadable(
            f"{NAME} would unpack to {size / MIB:,.0f} MiB, which no workbook of its tables does"
        )


def _sheet_rows(sheet: Any, shape: Shape, title: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a sheet; its title stands above the row that names the columns."""
    rows = sheet.iter_rows(values_only=True)
    if [next(rows, (None,))[0] for _ in title] != list(title):
        raise Unreadable(f"sheet {sheet.title} has another title than its table")
    header = list(next(rows, ()))
    kinds = dict.fromkeys(shape.numbers, pa.int64() if shape.whole else pa.float64())
    kinds |= dict.fromkeys(shape.measures, pa.float64())
    while some := list(islice(rows, _ROWS_READ)):
        columns = dict(zip(header, map(list, zip(*some, strict=True)), strict=True))
        try:
            made = {name: pa.array(values, kinds.get(name, pa.string())) for name, values in columns.items()}
        except pa.ArrowException:
            raise Unreadable(
                f"sheet {sheet.title} has text where numbers should be, or numbers for texts"
            ) from None
        yield pa.RecordBatch.from_pydict(made)
