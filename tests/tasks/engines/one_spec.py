"""One spec that asks for nearly all that can be counted, and its records in every engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import psycopg
import pyarrow as pa
import pyarrow.parquet as pq

from tabularium.tasks.count.count import count_tables
from tabularium.tasks.count.count_files import read_counts, read_sizes
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.runtime.workspace import close_all
from tabularium.tasks.validate import measure_source
from tabularium.validations.release_spec.load import Loaded, load_spec
from tabularium.validations.suites.microdata import Metrics
from tests.ledger.storage.postgres import Server
from tests.tasks import front

SPEC = """\
product: people
dataset: survey
period: "2026"
source: {{{source}, max_rejected: "100%"}}
lookups:
  zones: {{path: zones.csv, key: code, from: region, public: the list of zones}}
privacy: {{unit: {{entity: person, column: person}}, max_contributions: 2, budget: "1"}}
columns:
  region: {{categories: [n, s, e, w, é, "e\\u0301", rest], nulls: other, invalid: other, other: rest}}
  zone: {{from: zones.zone, categories: [inner, outer, none], nulls: other, invalid: other, other: none}}
  years: {{from: age, integer: {{from: 0, to: 99}}, nulls: other, invalid: other, other: unknown}}
  band: {{from: age, integer: {{from: 0, to: 99, edges: [18, 65]}}, nulls: other, invalid: other, other: unknown}}
  big: {{from: weight, integer: {{from: 0, to: 999999999999999999, edges: [5, 1000000]}}, nulls: other, invalid: other, other: odd}}
  week: {{from: born, date: {{part: iso_week}}, integer: {{from: 1, to: 53}}, nulls: other, invalid: other, other: none}}
  old: {{from: born, date: {{part: age, at: "2026-06-30"}}, integer: {{from: 0, to: 120, edges: [18]}}, nulls: other, invalid: other, other: none}}
  mapped: {{from: region, map: {{n: a, s: b, w: a}}, categories: [a, b, c], nulls: other, invalid: other, other: c}}
  kind:
    cases:
      - {{when: "years = 0", then: new}}
      - {{when: "mapped = a and band is not null", then: some}}
    else: rest
    categories: [new, some, rest]
tables:
  - name: people
    dimensions: [region, band]
    measures:
      all: {{sum: income, from: -10, to: 90, step: "1/2", weight: {{column: weight, to: 5}}}}
      mean: {{mean: income, from: 0, to: 10, weight: {{column: weight, to: 5}}}}
      middle: {{median: income, from: 0, to: 10}}
      share: {{percent: "income is not null", weight: {{column: weight, to: 5}}}}
  - {{name: ages, dimensions: [years, mapped]}}
  - {{name: places, dimensions: [zone, kind], where: "mapped = a or zone = inner"}}
  - {{name: dates, dimensions: [week, old]}}
  - {{name: bigs, dimensions: [big]}}
histograms:
  - {{name: homes, of: home, share: "1/4"}}
rules:
  - {{rule: unique, columns: [person, home], severity: warn}}
"""
SMALL = """\
product: people
dataset: survey
period: "2026"
source: {{{source}, max_rejected: "100%"}}
privacy: {{unit: {{entity: person, column: person}}, max_contributions: 2, budget: "1"}}
columns:
  region: {{categories: [n, s], nulls: other, invalid: other, other: s}}
tables:
  - {{name: people, dimensions: [region], measures: {{all: {{sum: income, from: 0, to: 90}}}}}}
histograms:
  - {{name: homes, of: home, share: "1/4"}}
rules:
  - {{rule: unique, columns: [person, home], severity: warn}}
"""
#: Of different values, at levels of a code list of which a leaf lies above the others.
DISTINCT = """\
product: people
dataset: survey
period: "2026"
source: {{{source}, max_rejected: "100%"}}
privacy: {{unit: {{entity: person, column: person}}, max_contributions: 2, budget: "1"}}
columns:
  area: {{from: region, hierarchy: places.csv, levels: [all, part, place], nulls: other, invalid: other, other: s}}
  band: {{from: age, integer: {{from: 0, to: 99, edges: [18, 65]}}, nulls: other, invalid: other, other: unknown}}
tables:
  - name: people
    dimensions: [band, area]
    levels: {{all: "1/4", part: "1/4", place: "1/2"}}
    measures: {{homes: {{distinct: home}}, persons: {{distinct: person}}, all: {{sum: income, from: 0, to: 90}}}}
  - {{name: young, dimensions: [band], where: "band < 65", measures: {{homes: {{distinct: home}}}}}}
"""
PLACES = "code,label,parent\nall,All,\nnorth,North,all\ns,S,all\nn,N,north\né,É,north\n"
#: Of numbers in text; the rows stand in the columns that SMALL reads.
WRITTEN = (
    SMALL.replace("max_rejected", "thousands: '.', decimal: ',', max_rejected")
    .replace("{{sum: income, from: 0, to: 90}}", "{{sum: weight, from: 0, to: 2000}}")
    .replace("  region:", "  band: {{from: born, integer: {{from: 0, to: 9999, edges: [1000]}}}}\n  region:")
)
NUMBERS: list[Row] = [
    (f"p{at}", "n", weight, band, "h", 1, 1.0)
    for at, (weight, band) in enumerate(
        [
            ("1.234,5", "1.234"),
            ("12.34", "7"),
            ("1.2", "7"),
            (None, "7"),
            ("1.234.567", "1.000"),
            ("7", "1.23"),
        ]
    )
]
ZONES = "code,zone\nn,inner\ns,outer\né,inner\n"
SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("person", "region", "weight", "born", "home")),
        ("age", pa.int64()),
        ("income", pa.float64()),
    ]
)
TYPES = {pa.string(): "text", pa.int64(): "bigint", pa.float64(): "double precision"}
Row = Sequence[Any]
ROWS: list[Row] = [
    ("p1", "n", "1", "2000-02-29", "h1", 17, 3.25),
    ("p1", "n", "1", "2000-02-29", "h1", 17, 3.25),
    ("p1", "s", "2.5", "1999-12-31", "h1", 18, float("nan")),
    ("P1", "é", " 7 ", None, "h2", 64, -0.0),
    ("p2", "e\u0301", "1e2", "2001-02-30", None, 99, float("inf")),
    ("p2 ", "", None, "2026-01-01", "H2", None, 0.49999999999999994),
    (None, "w", "x\n", "2020-06-15 10:00", "h2", 5, 2.5),
    ("p3", "n\n", "5\n", "2020-06-15\n", "h,2", 0, None),
    ("\u00e9", None, "999999999999999999", "1-1-1", '"', 100, 1e300),
]


class Found(NamedTuple):
    """What one engine makes of the records."""

    metrics: Metrics
    counts: dict[str, Any]
    digest: str


def write(folder: Path, rows: Sequence[Row]) -> pa.Table:
    """Write records as Parquet, and the look-up; return them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "zones.csv").write_text(ZONES)
    (folder / "places.csv").write_text(PLACES)
    columns = list(zip(*rows, strict=True)) or [[] for _ in SCHEMA]
    table = pa.table([pa.array(list(c), f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
    pq.write_table(table, folder / "people.parquet")
    return table


def put(
    server: Server, database: str, table: pa.Table, name: str = "people", types: dict[Any, str] = TYPES
) -> None:
    """Put records into a table of a database, in the place of what was there."""
    columns = ", ".join(f'"{field.name}" {types[field.type]}' for field in table.schema)
    with psycopg.connect(server.dsn(database), autocommit=True) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {name}")  # type: ignore[call-overload]
        connection.execute(f"CREATE TABLE {name} ({columns})")  # type: ignore[call-overload]
        with connection.cursor().copy(f"COPY {name} FROM STDIN") as rows:  # type: ignore[call-overload]
            for row in zip(*table.to_pydict().values(), strict=True):
                rows.write_row(row)


def on_postgresql(server: Server, database: str) -> str:
    """Return the source of the spec in a database of the tests' server."""
    return f'url: "{server.socket_url(database)}", table: people, engine: postgresql'


ON_DUCKDB = "path: people.parquet"
ON_SPARK = "path: people.parquet, engine: spark, master: 'local[2]'"


def spec(folder: Path, source: str, text: str = SPEC) -> Loaded:
    """Write and load the spec of a source."""
    (folder / "spec.yaml").write_text(text.format(source=source))
    return load_spec(folder / "spec.yaml")


def found(loaded: Loaded, bounding: str = front.BOUNDING) -> Found:
    """Ingest, measure and count."""
    scratch = loaded.folder / "scratch"
    scratch.mkdir(exist_ok=True, mode=0o700)
    try:
        # Of Parquet files DuckDB would refuse text where whole numbers are declared; here it is to read them.
        with patch("tabularium.tasks.ingest.ingest.check_schemas"):
            handle = ingest_source(loaded, front.SECRET, scratch)
        metrics = measure_source(loaded, handle, scratch)
        made = count_tables(loaded, handle, scratch, secret=front.SECRET, bounding=bounding)
        counts = {
            f"{table}.{level}": read_counts(file, front.SECRET).tolist()
            for table, levels in made.tables.items()
            for level, file in levels.items()
        }
        counts |= {name: read_sizes(file, front.SECRET).tolist() for name, file in made.histograms.items()}
    finally:
        close_all(scratch)
    return Found(metrics, counts, handle.digest)


def see_written(there: Found) -> None:
    """See that numbers in text were read as the source writes them, and the rest is no number."""
    assert there.counts["people-all."] == [1235 + 2000, 0]
    assert there.metrics.numbers == {"weight": (1, 3)} and there.metrics.columns["band"].invalid == 1
    assert list(there.metrics.beyond.values()) == [(1, 0)]


def same(one: Found, other: Found) -> None:
    """See that two engines found the same."""
    assert one.metrics == other.metrics
    assert one.counts.keys() == other.counts.keys()
    differ = [name for name in one.counts if not np.array_equal(one.counts[name], other.counts[name])]
    assert not differ
