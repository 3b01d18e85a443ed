"""Rows of text, as in every CSV file of a release."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv

_ROWS_AT_ONCE = 50_000


def write_rows(frame: pa.Table, path: Path, *, quoted: bool = True) -> None:
    """Write a table as CSV: a header, texts between quotes, numbers bare, nothing where nothing is known.

    Columns of codes may be dictionaries, which are spelled out a part of the rows at a time. Texts that need
    no quotes may go without.
    """
    plain = pa.schema(
        [(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in frame.schema]
    )
    options = pa.csv.WriteOptions(quoting_style="needed" if quoted else "none")
    with pa.csv.CSVWriter(path, plain, write_options=options) as writer:
        for start in range(0, frame.num_rows, _ROWS_AT_ONCE):
            writer.write_table(frame.slice(start, _ROWS_AT_ONCE).cast(plain))
