"""CSV: ``<table>.csv``, and ``<table>.csv-metadata.json``, which says what it holds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tabularium.tasks.publish.formats.csv_rows import Taking, rows_into_csv
from tabularium.tasks.publish.formats.csvw_metadata import metadata_text
from tabularium.tasks.publish.published_tables import PublishedTable
from tabularium.validations.spec.load import Loaded


def csv_file(loaded: Loaded, name: str, table: PublishedTable, aside: Path) -> Taking:
    """Give what writes the rows of ``<table>.csv``."""
    return rows_into_csv(table.frame.schema, aside / f"{name}.csv")


def write_metadata(loaded: Loaded, tables: Mapping[str, PublishedTable], aside: Path) -> None:
    """Write ``<table>.csv-metadata.json``."""
    for name, table in tables.items():
        (aside / f"{name}.csv-metadata.json").write_text(metadata_text(loaded, name, table), encoding="utf-8")
