"""Parquet: ``<table>.parquet``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow.parquet

from tasks.publish.published_tables import PublishedTable
from validations.spec.load import Loaded


def write_parquet(loaded: Loaded, tables: Mapping[str, PublishedTable], aside: Path) -> None:
    """Write ``<table>.parquet``."""
    for name, table in tables.items():
        pyarrow.parquet.write_table(table.frame, aside / f"{name}.parquet", compression="zstd")
