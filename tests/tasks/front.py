"""A small product for the front half of the chain: a spec, a code list, and records to write."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tabularium.tasks.count.count_files import CountsHandle
from tabularium.tasks.ingest.ingest import InputHandle, ingest_source
from tabularium.validations.release_spec.load import Loaded, load_spec

SECRET = b"s" * 32
#: The key of the order by which records of a unit are kept.
BOUNDING = "5e" * 16
SENTINEL = "Zweckverband7319"
AREAS = "code,label,parent\n" + "".join(
    f"{code},{code},{parent}\n"
    for code, parent in [
        ("A", ""),
        ("B", ""),
        ("A1", "A"),
        ("A2", "A"),
        ("B1", "B"),
        ("B2", "B"),
        ("B3", "B"),
    ]
)
LEAVES = ["A1", "A2", "B1", "B2", "B3"]

SPEC = """\
product: persons
dataset: census
period: "2026"
source: {{path: "{path}"{source}}}
privacy: {{unit: {unit}, max_contributions: {most}, budget: "1"}}
columns:
  area: {{hierarchy: lists/areas.csv, levels: [region, place]}}
  age: {{integer: {{from: 0, to: 99, edges: [18, 65]}}}}
  sex: {{categories: [f, m]}}
tables:
  - {{name: people, dimensions: [age, area], levels: {{region: "1/2", place: "1/2"}}}}
  - {{name: sexes, dimensions: [sex]}}
{rules}"""

Row = Sequence[str | None]
HEADER = ("person", "area", "age", "sex")
ROWS: list[Row] = [
    ("p1", "A1", "17", "f"),
    ("p2", "A1", "18", "m"),
    ("p3", "A2", "64", "f"),
    ("p4", "B1", "65", "m"),
    ("p5", "B3", "99", "m"),
    ("p5", "B3", "0", "f"),
]
# place x age group, places A1 A2 B1 B2 B3, groups [0,18) [18,65) [65,100)
PLACES = [[1, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0], [1, 0, 1]]
REGIONS = [[1, 2, 0], [1, 0, 2]]
SEXES = [3, 3]


def spec(
    folder: Path,
    path: str = "people.csv",
    *,
    source: str = "",
    unit: str = "record",
    most: int = 1,
    rules: str = "",
    edit: Any = None,
) -> Loaded:
    """Write the spec and its code list, and load them."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lists").mkdir(exist_ok=True)
    (folder / "lists" / "areas.csv").write_text(AREAS)
    text = SPEC.format(path=path, source=source, unit=unit, most=most, rules=rules)
    (folder / "spec.yaml").write_text(edit(text) if edit else text)
    return load_spec(folder / "spec.yaml")


def csv_text(rows: Iterable[Row] = ROWS, header: Sequence[str] = HEADER, delimiter: str = ",") -> str:
    lines = [delimiter.join(header)]
    lines += [delimiter.join("" if value is None else value for value in row) for row in rows]
    return "\n".join(lines) + "\n"


def write_csv(path: Path, rows: Iterable[Row] = ROWS, header: Sequence[str] = HEADER) -> Path:
    """Write a CSV file, gzipped when the name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(csv_text(rows, header).encode(), mtime=0))
    else:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(header)
            writer.writerows(rows)
    return path


def write_parquet(path: Path, rows: Iterable[Row] = ROWS, header: Sequence[str] = HEADER) -> Path:
    """Write a Parquet file with age as an integer."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    columns: dict[str, Any] = {}
    for name, values in zip(header, zip(*rows, strict=True), strict=True):
        columns[name] = [None if v is None else int(v) for v in values] if name == "age" else list(values)
    pq.write_table(pa.table(columns), path)
    return path


def arrays(handle: CountsHandle) -> dict[tuple[str, str], list[Any]]:
    """All counts as nested lists."""
    return {
        (table, level): np.load(file.path, allow_pickle=False).tolist()
        for table, levels in handle.tables.items()
        for level, file in levels.items()
    }


def plain(handle: Any) -> str:
    """A handle as JSON: what Prefect would store of it."""
    return json.dumps(dataclasses.asdict(handle))


def ingest(folder: Path, path: str = "people.csv", secret: bytes = SECRET, **options: str) -> InputHandle:
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True, mode=0o700)
    return ingest_source(spec(folder, path, **options), secret, scratch)
