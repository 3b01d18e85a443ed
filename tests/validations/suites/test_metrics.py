"""The metrics table: exact numbers on records small enough to count by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa

from tabularium.tasks.ingest.open_source import quietly
from tabularium.validations.domains.encoding import coded
from tabularium.validations.suites.microdata import ColumnMetrics, Metrics, metrics_expression, read_metrics
from tests.tasks import front

RULES = """\
rules:
  - {rule: unique, columns: [person]}
  - {rule: unique, columns: [person, age], severity: warn}
  - {rule: row_count, change_from_last: "10%"}
"""
ROWS = [  # person, area, age, sex
    ("p1", "A1", "17", "f"),
    ("p1", "A", "18", "m"),  # not a leaf
    ("p1", None, "-3", "f"),  # null, outside
    ("p2", "B1", "x", None),  # not a number, null
    ("p2", "B1", "120", "x"),  # outside, outside
    ("p2", "B1", "40", "m"),
    ("p2", "B2", "40", "m"),
    (None, "B2", "41", "m"),  # no unit
]


def measure(folder: Path, rows: list[Any], **options: Any) -> Metrics:
    loaded = front.spec(folder, rules=RULES, **options)
    raw = {"area": "raw0", "age": "raw1", "sex": "raw2", "person": "raw3"}
    columns = (
        dict(zip(("raw3", "raw0", "raw1", "raw2"), zip(*rows, strict=True), strict=True)) if rows else {}
    )
    kinds = {name: pa.string() for name in raw.values()}
    table = ibis.memtable(pa.table({n: pa.array(list(columns.get(n, ())), k) for n, k in kinds.items()}))
    expression = metrics_expression(coded(table, raw, loaded.domains), raw, loaded.domains, loaded.spec)
    result: list[dict[str, Any]] = quietly(expression.to_pyarrow().to_pylist)
    assert len(result) == 1  # a single row, from a single query
    return read_metrics(result[0], loaded.domains, loaded.spec)


def test_numbers_of_a_source_whose_unit_is_the_record(tmp_path: Path) -> None:
    metrics = measure(tmp_path, ROWS)
    assert metrics == Metrics(
        rows=8,
        kept=4,
        counted=4,
        unit_nulls=0,
        columns={
            "area": ColumnMetrics(nulls=1, invalid=1, read=None, low=None, high=None),
            "age": ColumnMetrics(nulls=0, invalid=3, read=7, low=-3, high=120),
            "sex": ColumnMetrics(nulls=1, invalid=1, read=None, low=None, high=None),
        },
        duplicates={"unique(person)": 5, "unique(person, age)": 1},
    )


def test_a_record_without_a_unit_is_rejected_and_bounding_is_foreseen(tmp_path: Path) -> None:
    one = measure(tmp_path, ROWS, unit="{column: person}", most=1)
    assert (one.kept, one.counted, one.unit_nulls) == (3, 2, 1)  # p1 once, p2 once of twice
    two = measure(tmp_path, ROWS, unit="{column: person}", most=2)
    assert (two.kept, two.counted, two.unit_nulls) == (3, 3, 1)


def test_numbers_of_no_records(tmp_path: Path) -> None:
    metrics = measure(tmp_path, [], unit="{column: person}")
    assert (metrics.rows, metrics.kept, metrics.counted, metrics.unit_nulls) == (0, 0, 0, 0)
    assert metrics.columns["age"] == ColumnMetrics(nulls=0, invalid=0, read=0, low=None, high=None)
    assert metrics.duplicates == {"unique(person)": 0, "unique(person, age)": 0}
