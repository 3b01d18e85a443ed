"""CSV: rows of text as in every CSV file of a release, ``<table>.csv`` and its metadata."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from tabularium.tasks.publish.formats.csvw_metadata import metadata_text
from tabularium.tasks.publish.published_tables import PublishedTable
from tabularium.validations.spec.load import Loaded

_ROWS_AT_ONCE = 50_000

Take = Callable[[pa.Table], None]
"""What writes the next rows into a file."""
Taking = AbstractContextManager[Take]
"""A file while rows are written into it."""


@contextmanager
def rows_into_csv(schema: pa.Schema, path: Path, *, quoted: bool = True) -> Iterator[Take]:
    """Give what writes rows as CSV: a header, texts between quotes, bare numbers, nothing for nulls.

    Columns of codes may be dictionaries, which are spelled out a part of the rows at a time. Texts that need
    no quotes may go without.
    """
    plain = pa.schema(
        [(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in schema]
    )
    options = pa.csv.WriteOptions(quoting_style="needed" if quoted else "none")
    with pa.csv.CSVWriter(path, plain, write_options=options) as writer:

        def write(rows: pa.Table) -> None:
            for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
                writer.write_table(rows.slice(start, _ROWS_AT_ONCE).cast(plain))

        yield write


def csv_file(loaded: Loaded, name: str, table: PublishedTable, aside: Path) -> Taking:
    """Give what writes the rows of ``<table>.csv``."""
    return rows_into_csv(table.frame.schema, aside / f"{name}.csv")


def write_metadata(loaded: Loaded, tables: Mapping[str, PublishedTable], aside: Path) -> None:
    """Write ``<table>.csv-metadata.json``."""
    for name, table in tables.items():
        (aside / f"{name}.csv-metadata.json").write_text(metadata_text(loaded, name, table), encoding="utf-8")
