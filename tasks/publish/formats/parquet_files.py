"""Parquet: ``<table>.parquet``, every column with its title, meaning and unit in the metadata of the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from tabularium.tasks.publish.formats.column_meanings import (
    ColumnMeaning,
    column_meanings,
    title_of,
    title_of_release,
)
from tabularium.tasks.publish.formats.csv_rows import Take, Taking
from tabularium.tasks.publish.frames import ROWS
from tabularium.tasks.publish.published_tables import PublishedTable
from tabularium.validations.spec.load import Loaded


def parquet_file(loaded: Loaded, name: str, table: PublishedTable, aside: Path) -> Taking:
    """Give what writes the rows of ``<table>.parquet``, a row group at a time.

    A column has ``title``, ``description`` and ``unit`` in its field's metadata, the margin its
    ``confidence`` too; the file has ``title``, ``release`` and ``licence`` in its schema's.
    """
    return rows_into_parquet(_described(loaded, table), aside / f"{name}.parquet")


@contextmanager
def rows_into_parquet(schema: pa.Schema, path: Path) -> Iterator[Take]:
    """Give what writes rows as Parquet; each call makes a row group."""
    with pa.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        yield lambda rows: writer.write_table(rows.cast(schema), ROWS)


def _described(loaded: Loaded, table: PublishedTable) -> pa.Schema:
    fields = [
        field.with_metadata(_about(loaded, column))
        for field, column in zip(table.frame.schema, column_meanings(loaded, table), strict=True)
    ]
    about = {
        "title": title_of(table.entry),
        "release": title_of_release(loaded),
        "licence": loaded.spec.about.licence,
    }
    return pa.schema(fields, {key: text for key, text in about.items() if text})


def _about(loaded: Loaded, column: ColumnMeaning) -> dict[str, str]:
    level = str(loaded.spec.publication.confidence) if column.name == "margin" else None
    about = {
        "title": column.title,
        "description": column.description,
        "unit": column.unit,
        "confidence": level,
    }
    return {key: text for key, text in about.items() if text}
