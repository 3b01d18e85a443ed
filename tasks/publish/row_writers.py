"""Files of rows, written a part at a time: CSV and Parquet, as releases have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from tabularium.tasks.publish.frames import ROWS

_ROWS_AT_ONCE = 50_000

WriteRows = Callable[[pa.Table], None]
"""Writes the next rows into a file."""
RowWriter = AbstractContextManager[WriteRows]
"""A file while rows are written into it."""


@contextmanager
def rows_into_csv(schema: pa.Schema, path: Path, *, quoted: bool = True) -> Iterator[WriteRows]:
    """Open a CSV file for rows: a header, texts between quotes, bare numbers, nothing for nulls.

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


@contextmanager
def rows_into_parquet(schema: pa.Schema, path: Path) -> Iterator[WriteRows]:
    """Open a Parquet file for rows; each call of what it gives writes a row group."""
    with pa.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        yield lambda rows: writer.write_table(rows.cast(schema), ROWS)
