"""Parquet files of folders that somebody else may have written: what the product writes is read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tabularium.tasks.public_folder import open_parquet


@pytest.mark.parametrize("rows", [0, 1, 3, 100_000])
@pytest.mark.parametrize("dictionary", [True, False])
def test_a_table_of_any_length_is_read(rows: int, dictionary: bool, tmp_path: Path) -> None:
    """A histogram in which noise left nothing has no row, and its columns no page of data."""
    numbers = np.arange(rows)
    table = pa.table({"size": numbers, "share": numbers / 7, "text": numbers.astype(str)})
    pq.write_table(table, tmp_path / "homes.parquet", use_dictionary=dictionary)
    with open_parquet(tmp_path / "homes.parquet", rows=rows) as file:
        assert file.read(["size", "share"]).equals(table.select(["size", "share"]))
