"""Parquet: ``<table>.parquet``, every column with its title, meaning and unit in the metadata of the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

from tasks.publish.formats.column_meanings import (
    ColumnMeaning,
    column_meanings,
    title_of,
    title_of_release,
)
from tasks.publish.published_tables import PublishedTable
from validations.spec.load import Loaded


def write_parquet(loaded: Loaded, tables: Mapping[str, PublishedTable], aside: Path) -> None:
    """Write ``<table>.parquet``.

    A column has ``title``, ``description`` and ``unit`` in its field's metadata, the margin its
    ``confidence`` too; the file has ``title``, ``release`` and ``licence`` in its schema's.
    """
    for name, table in tables.items():
        schema = _described(loaded, table)
        pa.parquet.write_table(table.frame.cast(schema), aside / f"{name}.parquet", compression="zstd")


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
