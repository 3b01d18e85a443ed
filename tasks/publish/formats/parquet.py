"""Parquet: ``<table>.parquet``, every column with its title, meaning and unit in the metadata of the file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from tabularium.tasks.public_folder import named, open_parquet, parquet_batches
from tabularium.tasks.publish.data_dictionary import (
    DataDictionaryEntry,
    column_meanings,
    title_of,
    title_of_release,
)
from tabularium.tasks.publish.formats.base import TableFormat
from tabularium.tasks.publish.frames import RowWriter, Shape, rows_into_parquet
from tabularium.tasks.publish.published_tables import PublishedTable
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.publication_formats import FileKind


class Parquet(TableFormat):
    """Columns of numbers and of texts, a row group at a time.

    A column has ``title``, ``description`` and ``unit`` in its field's metadata, the margin its
    ``confidence`` too; the file has ``title``, ``release`` and ``licence`` in its schema's.
    """

    name = "parquet"
    summary = "`<table>.parquet`, with the meaning of every column in its metadata"
    kinds = (FileKind(".parquet", "Parquet", "Parquet", "application/vnd.apache.parquet", "PARQUET"),)
    complete = True
    seekable = True
    same = "Parquet holds the same as the first format"

    def writer(self, loaded: Loaded, name: str, table: PublishedTable, folder: Path) -> RowWriter:
        """Open ``<table>.parquet``."""
        return rows_into_parquet(_described(loaded, table), folder / f"{name}.parquet")

    def read(
        self,
        loaded: Loaded,
        folder: Path,
        shape: Shape,
        rows: Mapping[str, int],
        columns: Collection[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows; texts are dictionaries."""
        return parquet_batches(folder, f"{shape.name}.parquet", rows.get(shape.name), columns)

    def read_codes(self, path: Path, codes: Collection[str], number: str, most: int) -> pa.Table:
        """Read only these columns."""
        with open_parquet(path, rows=None, most=most, columns=[*codes, number]) as file:
            return file.read(columns=[*codes, number])

    def as_parquet(
        self, loaded: Loaded, folder: Path, shape: Shape, columns: Collection[str]
    ) -> pa.parquet.ParquetFile:
        """Return the file itself."""
        file = f"{shape.name}.parquet"
        with named(file):
            return open_parquet(folder / file, rows=shape.rows, columns=columns)


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


def _about(loaded: Loaded, column: DataDictionaryEntry) -> dict[str, str]:
    level = str(loaded.spec.publication.confidence) if column.name == "margin" else None
    about = {
        "title": column.title,
        "description": column.description,
        "unit": column.unit,
        "confidence": level,
    }
    return {key: text for key, text in about.items() if text}
