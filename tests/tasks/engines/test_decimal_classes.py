"""Classes of decimals, and codes of doubles: one meaning in every engine and every type of column."""

from __future__ import annotations

import math
import shutil
import sqlite3
from collections import Counter
from collections.abc import Iterator
from decimal import ROUND_FLOOR, Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tabularium.tasks.engines.spark import SparkRun
from tests.ledger.storage.postgres import Server
from tests.tasks.engines import one_spec

SPEC = """\
product: health
dataset: health
period: "2026"
source: {{{source}, max_rejected: "100%"}}
privacy: {{unit: record, budget: "1"}}
columns:
  bmi: {{from: x, integer: {{from: 10, to: 90, edges: [18.5, 25, "30.25"]}}, nulls: other, invalid: other, other: none}}
  tenths: {{from: x, integer: {{from: -0.3, to: 0.7, width: 0.1}}, nulls: other, invalid: other, other: none}}
  years: {{from: x, integer: {{from: 0, to: 100, floor: true}}, nulls: other, invalid: other, other: none}}
  whole: {{from: x, integer: {{from: 0, to: 100}}, nulls: other, invalid: other, other: none}}
  code: {{from: x, categories: ["-1", "0", "1", "25", rest], nulls: other, invalid: other, other: rest}}
tables:
  - {{name: bmi, dimensions: [bmi]}}
  - {{name: lean, dimensions: [code], where: "bmi < 25"}}
  - {{name: tenths, dimensions: [tenths]}}
  - {{name: years, dimensions: [years]}}
  - {{name: whole, dimensions: [whole]}}
  - {{name: code, dimensions: [code]}}
rules:
  - {{rule: range, column: bmi, min: -1.5, max: 1000000000000.5, severity: warn}}
"""
EDGES = {
    "bmi": ["10", "18.5", "25", "30.25", "90"],
    "tenths": ["-0.3", "-0.2", "-0.1", "0", "0.1", "0.2", "0.3", "0.4", "0.5", "0.6", "0.7"],
}
DOUBLES = [
    *(float(f"{step / 10:.1f}") for step in range(-5, 10)),
    *(math.nextafter(edge, to) for edge in (18.5, 0.3, 0.7, 25.0, 30.25, 90.0) for to in (-1e9, 1e9)),
    *(18.5, 25.0, 30.25, 90.0, 10.0, 0.1 + 0.2, 1.0, 1.0, -1.0, -0.0, 3.7, 0.8, 99.99, 100.0, 100.5),
    *(1e-5, 1e-30, -1e-9, 1e15, 1e17, 1e300, -1e300, float("inf"), float("nan"), None),
]
SINGLES = [
    None if value is None else float(np.float32(value))
    for value in [*DOUBLES[:15], 18.5, 0.1, 0.7, 0.3, 25.0, 3.7, 1.0, 1e-5, float("nan"), None]
]
DECIMALS = [Decimal(f"{step / 100:.2f}") for step in (*range(-40, 80, 5), 1850, 1849, 2499, 2500, 100, 9000)]
TEXTS = [
    *(
        "18.5",
        "18.50",
        "18.499999999999999999999",
        "+18.5",
        " 25 ",
        "24.9999999999999999999999",
        "25.",
        "030.25",
    ),
    *("0.3", ".3", "-.3", "-0.30000000000000000000001", "0.70", "0.7000000000000000001", "3e-1", "2.5E+1"),
    *(
        "1",
        "1.0",
        "1e0",
        "-0",
        "90.0",
        "90.00000000000000000000001",
        "1e99",
        "-1e99",
        "1e-99",
        "1e999",
        "0e9",
    ),
    *("", ".", "-", "e5", "1,5", "0x10", "nan", "inf", "12345678901234567890123", "3 4", "٣.٥"),
]
Cells = dict[str, dict[int, int]]


def shown(value: float | Decimal | str | None, single: bool) -> Decimal | None:
    """Return the decimal that a person sees of a value; None where it is none."""
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return Decimal(str(np.float32(value)) if single else repr(value))
    if isinstance(value, str):
        try:
            made = Decimal(value.strip(" ")) if value.isascii() else Decimal("nan")
        except ArithmeticError:
            return None
        return made if made.is_finite() and abs(made.adjusted()) < 900 else None
    return value


def expected(values: list[Any], *, single: bool = False) -> Cells:
    """Return what is counted: a loop over decimals."""
    cells: dict[str, Counter[int]] = {name: Counter() for name in ("bmi", "tenths", "years", "whole", "code")}
    codes = {"-1": 0, "0": 1, "1": 2, "25": 3}
    for value in values:
        seen = shown(value, single)
        for name, texts in EDGES.items():
            edges = [Decimal(text) for text in texts]
            place = len(edges) - 1
            if seen is not None and edges[0] <= seen <= edges[-1]:
                place = min(sum(edge <= seen for edge in edges) - 1, len(edges) - 2)
            cells[name][place] += 1
        below = None if seen is None else seen.to_integral_value(ROUND_FLOOR)
        cells["years"][int(below) if below is not None and 0 <= below <= 100 else 101] += 1
        plain = seen is not None and seen == below and not (isinstance(value, str) and "e" in value.lower())
        whole = plain and below is not None and 0 <= below <= 100
        cells["whole"][int(below or 0) if whole else 101] += 1
        text = value if isinstance(value, str) else str(int(below or 0)) if plain else ""
        cells["code"][codes.get(text, 4)] += 1
    return {name: dict(found) for name, found in cells.items()}


def check(folder: Path, source: str, cells: Cells) -> None:
    found = one_spec.found(one_spec.spec(folder, source, SPEC)).counts
    for name, numbers in cells.items():
        (counted,) = (each for table, each in found.items() if table.startswith(f"{name}."))
        assert {cell: number for cell, number in enumerate(counted) if number} == numbers, name
    lean = next(each for table, each in found.items() if table.startswith("lean."))
    assert sum(lean) == sum(number for cell, number in cells["bmi"].items() if cell < 2)


TYPES: dict[str, tuple[list[Any], pa.DataType, str]] = {
    "double": (DOUBLES, pa.float64(), "double precision"),
    "float": (SINGLES, pa.float32(), "real"),
    "decimal": (DECIMALS, pa.decimal128(12, 2), "numeric(12, 2)"),
    "integer": ([-1, 0, 1, 25, 90, 91, 2**62, None], pa.int64(), "bigint"),
    "text": (TEXTS, pa.string(), "text"),
}


def cells_of(kind: str) -> tuple[pa.Table, Cells]:
    values, arrow, _ = TYPES[kind]
    table = pa.table({"x": pa.array(values, arrow)})
    seen = [
        None if isinstance(v, int) and v > 10**18 else Decimal(v) if isinstance(v, int) else v for v in values
    ]
    return table, expected(seen, single=kind == "float")


@pytest.mark.parametrize("kind", TYPES)
def test_parquet(kind: str, tmp_path: Path) -> None:
    table, cells = cells_of(kind)
    pq.write_table(table, tmp_path / "x.parquet")
    check(tmp_path, "path: x.parquet", cells)


def test_csv(tmp_path: Path) -> None:
    pa.csv.write_csv(pa.table({"x": TEXTS}), tmp_path / "x.csv")
    check(tmp_path, "path: x.csv, nulls: []", expected(TEXTS))


@pytest.mark.parametrize("kind", ["double", "float", "decimal", "text"])
def test_a_database_of_duckdb(kind: str, tmp_path: Path) -> None:
    table, cells = cells_of(kind)
    with duckdb.connect(str(tmp_path / "x.duckdb")) as database:
        database.register("given", table)
        database.execute("CREATE TABLE t AS SELECT * FROM given")
    check(tmp_path, 'url: "duckdb:///x.duckdb", table: t', cells)


@pytest.mark.parametrize(("kind", "name"), [("double", "REAL"), ("double", "DECIMAL(9,2)"), ("text", "TEXT")])
def test_a_database_of_sqlite(kind: str, name: str, tmp_path: Path) -> None:
    values = [value for value in TYPES[kind][0] if not (isinstance(value, float) and math.isinf(value))]
    with sqlite3.connect(tmp_path / "x.sqlite") as database:
        database.execute(f"CREATE TABLE t (x {name})")
        database.executemany("INSERT INTO t VALUES (?)", [(value,) for value in values])
    database.close()
    check(tmp_path, 'url: "sqlite:///x.sqlite", table: t', expected(values))


@pytest.fixture(scope="module")
def database(server: Server) -> Iterator[str]:
    if not server.socket:
        pytest.skip("the folder of the server's socket has too long a name")
    name = server.new_database()
    yield name
    server.drop_database(name)


@pytest.mark.parametrize("engine", [", engine: postgresql", ""])
@pytest.mark.parametrize("kind", TYPES)
def test_postgresql(server: Server, database: str, kind: str, engine: str, tmp_path: Path) -> None:
    table, cells = cells_of(kind)
    one_spec.put(server, database, table, "t", {table.schema.field("x").type: TYPES[kind][2]})
    check(tmp_path, f'url: "{server.socket_url(database)}", table: t{engine}', cells)


@pytest.mark.audit
@pytest.mark.filterwarnings("ignore")
def test_spark(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason='PySpark is not installed: pip install "tabularium-dp[spark]"')
    if shutil.which("java") is None:
        pytest.skip("there is no Java")
    run = SparkRun("local[2]", tmp_path)
    end, run.close = run.close, lambda: None  # type: ignore[method-assign]
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("tabularium.tasks.engines.spark.SparkRun", lambda master, scratch: run)
            for kind in TYPES:
                table, cells = cells_of(kind)
                pq.write_table(table, tmp_path / "x.parquet")
                check(tmp_path, "path: x.parquet, engine: spark, master: 'local[2]'", cells)
    finally:
        end()
