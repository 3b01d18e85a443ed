"""What a supplier cannot occupy a machine with: width, length, compression, number."""

from __future__ import annotations

import gzip
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tabularium.mechanisms.errors import InputRefused
from tabularium.tasks.ingest.open_source import rows_of
from tabularium.tasks.validate import measure_source
from tests.tasks import front
from tests.tasks.front import ingest


def _wide(folder: Path, columns: int) -> None:
    head = ",".join([*front.HEADER, *(f"c{at}" for at in range(columns - 4))])
    row = ",".join(["p1", "A1", "3", "f", *("1" for _ in range(columns - 4))])
    (folder / "people.csv").write_text(f"{head}\n{row}\n")


def test_columns_that_are_not_used_cost_nothing_but_being_named_once(tmp_path: Path) -> None:
    """Declared to the engine in every statement, 16 000 of them take a minute of processor time."""
    _wide(tmp_path, 16_000)
    handle = ingest(tmp_path, source=", limits: {columns: 16000}")
    before = time.process_time()
    assert measure_source(front.spec(tmp_path), handle, tmp_path / "scratch").rows == 1
    assert time.process_time() - before < 25


def _too_wide(folder: Path) -> str:
    _wide(folder, 20_000)
    return "people.csv"


def _long_header(folder: Path) -> str:
    head = ",".join([*front.HEADER, "x" * 2_100_000])
    (folder / "people.csv").write_text(f"{head}\np1,A1,3,f,1\n")
    return "people.csv"


def _long_row(folder: Path) -> str:
    (folder / "people.csv").write_text(front.csv_text() + f"p9,A1,3,{'f' * 2_100_000}\n")
    return "people.csv"


def _hole(folder: Path) -> str:
    (folder / "people.csv").write_text(front.csv_text())
    with (folder / "people.csv").open("r+b") as file:
        file.truncate(1 << 40)
    return "people.csv"


def _zeros(folder: Path) -> str:
    """A row without an end, 300 MB that are 300 kB."""
    (folder / "people.csv.gz").write_bytes(gzip.compress(front.csv_text().encode() + b"\0" * 300_000_000, 1))
    return "people.csv.gz"


def _bomb(folder: Path, kind: str, ending: str) -> str:
    """Regular rows, 1.2 GB of them."""
    rows = b"p1,A1,3,f\n" * 100_000
    path = folder / f"people.csv.{ending}"
    with pa.CompressedOutputStream(str(path), kind) as file:
        file.write(front.csv_text().encode())
        for _ in range(1200):
            file.write(rows)
    assert path.stat().st_size < 10_000_000
    return path.name


def _many(folder: Path) -> str:
    (folder / "data").mkdir()
    for at in range(4):
        front.write_csv(folder / "data" / f"{at}.csv")
    return "data"


def _rows_of_nothing(folder: Path) -> str:
    """Two hundred million rows in less than a megabyte."""
    path, part = folder / "people.parquet", 20 << 20
    zeros = pa.table({name: np.zeros(part, np.int8) for name in front.HEADER})
    with pq.ParquetWriter(path, zeros.schema, write_statistics=False, max_rows_per_page=part) as writer:
        for _ in range(10):
            writer.write_table(zeros, row_group_size=part)
    assert path.stat().st_size < 1_000_000
    return path.name


LIMITED = {
    "rows": (
        _rows_of_nothing,
        "",
        "people.parquet: the file has more than 100 rows for each of its bytes; .*limits.unpacked",
    ),
    "columns": (_too_wide, "", "people.csv: the header has more than 4096 columns; .*limits.columns"),
    "the header": (_long_header, "", "people.csv, line 1: a row that is longer than 2 MB"),
    "a row": (_long_row, "", "people.csv, line 8: a row that is longer than 2 MB"),
    "a hole": (_hole, "", "people.csv, line 8: a row that is longer than 2 MB"),
    "a packed hole": (_zeros, "", "people.csv.gz, line 8: a row that is longer than 2 MB"),
    "gzip": (
        lambda folder: _bomb(folder, "gzip", "gz"),
        "",
        "people.csv.gz: the gzip file unpacks to more than 100 times its size; .*limits.unpacked",
    ),
    "zstd": (
        lambda folder: _bomb(folder, "zstd", "zst"),
        "",
        "people.csv.zst: the zstd file unpacks to more than 100 times its size",
    ),
    "files": (_many, ", limits: {files: 3}", "there are more than 3 files; .*limits.files"),
}


@pytest.mark.parametrize("case", LIMITED)
def test_what_is_too_much_is_refused_in_one_line_and_soon(case: str, tmp_path: Path) -> None:
    make, source, message = LIMITED[case]
    path = make(tmp_path)
    before = time.process_time()
    with pytest.raises(InputRefused, match=message) as caught:
        ingest(tmp_path, path, source=source)
    assert time.process_time() - before < 60
    assert "\n" not in str(caught.value)


def test_limits_are_raised_in_the_spec(tmp_path: Path) -> None:
    _wide(tmp_path, 20)
    with pytest.raises(InputRefused, match="more than 19 columns"):
        ingest(tmp_path, source=", limits: {columns: 19}")
    spec = front.spec(tmp_path)
    assert rows_of(ingest(tmp_path, source=", limits: {columns: 20}")) == 1
    assert front.spec(tmp_path, source=", limits: {columns: 20}").digest == spec.digest
