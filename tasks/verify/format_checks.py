"""Whether every format holds the same rows and numbers as the first of them, read by another program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any, BinaryIO
from urllib.parse import unquote

import pyarrow as pa

from tabularium.tasks.public_folder import named
from tabularium.tasks.publish.formats.sdmx_cubes import dimension_ids
from tabularium.tasks.publish.formats.workbook import sheet_title
from tabularium.tasks.verify.findings import Check, Failed
from tabularium.tasks.verify.other_formats import (
    WORKBOOK,
    sdmx_rows,
    sdmx_shape,
    see_workbook_bounded,
    statuses,
    workbook_rows,
)
from tabularium.tasks.verify.published_rows import (
    Shape,
    numbers_of,
    parquet_rows,
    rows_in_parts,
    see_numbers,
    see_rows,
)
from tabularium.tasks.verify.subject import Subject, failing
from tabularium.validations.domains.sdmx_names import time_period
from tabularium.validations.public_files import open_plain
from tabularium.validations.spec.parts.table_parts import Histogram, Table

_GROUP = "Formats"


def _see_same(
    subject: Subject,
    name: str,
    file: str,
    batches: Iterator[pa.RecordBatch],
    shape: Shape,
    *,
    exact: bool = True,
    spelled: Callable[[pa.ChunkedArray], pa.ChunkedArray] | None = None,
) -> int:
    """Compare all columns of a file with the first format of its table; return how many rows it has."""
    expected, expected_flags = numbers_of(subject, name)
    total, done = len(expected[shape.numbers[0]]), 0
    for numbers, flags in rows_in_parts(file, batches, shape):
        rows = slice(done, done + len(numbers[shape.numbers[0]]))
        if rows.stop > total:
            raise Failed(f"{file} has more rows than the first format")
        for column in shape.numbers:
            found = f"{file}: {column}"
            see_numbers(found, numbers[column], expected[column][rows], whole=exact, after=done)
        for column, found_flags in flags.items():
            own = expected_flags[column].slice(done, rows.stop - done)
            if (own if spelled is None else spelled(own)) != found_flags:
                raise Failed(f"{file}: {column} is not that of the first format")
        done = rows.stop
    see_rows(file, done, total)
    return total


def _parquet(subject: Subject) -> str:
    rows = 0
    for name in subject.names:
        file, shape = f"{name}.parquet", Shape.of(subject.released, name)
        expected = len(numbers_of(subject, name)[0][shape.numbers[0]])
        rows += _see_same(subject, name, file, parquet_rows(subject.folder / file, expected), shape)
    return f"{rows:,} rows"


def _sdmx(subject: Subject) -> str:
    rows, period = 0, time_period(subject.released.spec.period)
    ids = dimension_ids(subject.released.spec)
    for name in subject.names:
        file, shape = f"{name}.sdmx.csv", sdmx_shape(Shape.of(subject.released, name))
        with failing():
            text = subject.released.open_csv(name, "sdmx.csv")
        with text:
            found = sdmx_rows(text, file, shape, period or "", ids)
            rows += _see_same(subject, name, file, found, shape, spelled=statuses)
    return f"{rows:,} rows"


def _workbook(subject: Subject) -> str:
    rows = 0
    shapes = {name: Shape.of(subject.released, name) for name in subject.names}
    counts = {name: len(numbers_of(subject, name)[0][shape.numbers[0]]) for name, shape in shapes.items()}
    cells = sum((counts[name] + 1) * len(shapes[name].columns) for name in shapes)
    spec = subject.released.spec
    entries: dict[str, Table | Histogram] = {each.name: each for each in spec.tables}
    entries |= {each.name: each for each in spec.histograms}
    with failing(), named(WORKBOOK):
        file = open_plain(subject.folder / WORKBOOK)
    with file, closing(_book(file, cells)) as book:
        if len(book.worksheets) != len(shapes) + 1:
            raise Failed(f"{WORKBOOK} does not have a sheet for each table and one of notes")
        for sheet, (name, shape) in zip(book.worksheets, shapes.items(), strict=False):
            title = sheet_title(subject.released.loaded, entries[name])
            found = workbook_rows(sheet, shape, title)  # a workbook has 16 digits
            rows += _see_same(subject, name, f"{WORKBOOK}, {name}", found, shape, exact=shape.whole)
    return f"{rows:,} rows"


def _book(file: BinaryIO, cells: int) -> Any:
    from openpyxl import load_workbook

    see_workbook_bounded(file, cells)
    return load_workbook(file, read_only=True)


def _csvw(subject: Subject) -> str:
    """The metadata of each CSV file speak of that file and name its columns."""
    for name in subject.names:
        file = f"{name}.csv-metadata.json"
        tables = {each["url"]: each for each in subject.document(file)["tables"]}
        columns = tables[f"{name}.csv"]["tableSchema"]["columns"]
        if [each["titles"][0] for each in columns] != Shape.of(subject.released, name).columns:
            raise Failed(f"{file} does not name the columns of {name}.csv")
        kinds = {unquote(each["name"]): each["datatype"] for each in columns}
        shape = Shape.of(subject.released, name)
        expected = dict.fromkeys(shape.numbers, "integer" if shape.whole else "double")
        expected |= dict.fromkeys(shape.measures, "double")
        if any(kinds[each] != number for each, number in expected.items()):
            raise Failed(f"{file} says otherwise of what kind the numbers are")
        for url in tables:
            if url != f"{name}.csv" and url not in subject.certificate.files:
                raise Failed(f"{file} speaks of {url!a}, which is no file of the release")
    return f"{len(subject.names)} files"


_READERS: dict[str, tuple[str, Callable[[Subject], str]]] = {
    "parquet": ("Parquet holds the same as the CSV files", _parquet),
    "sdmx": ("SDMX-CSV holds the same as the first format", _sdmx),
    "xlsx": ("the workbook holds the same as the first format", _workbook),
    "csv": ("CSVW metadata name the columns of the CSV files", _csvw),
}


def checks_of(subject: Subject) -> Iterator[Check]:
    """Yield a check for every format of the release that can be compared with the first one."""
    for name, (what, look) in _READERS.items():
        wanted: list[str] = list(subject.released.spec.publication.formats)
        if name in wanted and (name == "csv" or name != subject.base):
            yield Check(_GROUP, what, look)
