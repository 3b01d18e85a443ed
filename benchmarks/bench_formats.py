"""Seconds and megabytes for two million cells in every format, beside how CSV was written before.

``python -m benchmarks.bench_formats [--cells N] [--times T]``

A table of three levels, two of its dimensions with labels, as a census has them. ``csv before`` spells out
200 000 rows at once, ``csv`` and ``sdmx`` what :func:`tabularium.tasks.publish.frames.rows_into_csv` does; ``parquet
before`` has no metadata of its columns. The fastest of T rounds counts. XLSX holds 1 048 573 rows at most and
takes the first of them.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from tabularium.mechanisms.inference import Estimate
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.publish.formats.base import write_formats
from tabularium.tasks.publish.frames import Frame
from tabularium.tasks.publish.published_tables import PublishedTable, published_table
from tabularium.validations.release_spec.load import Loaded, load_spec
from tabularium.validations.release_spec.publication_formats import FORMATS

CHILDREN = (20, 50)  # provinces, and places of each
SPEC = """\
product: cells
dataset: cells
period: "2026"
source: {{path: nowhere.csv}}
privacy: {{unit: record, budget: "1"}}
columns:
  area: {{hierarchy: areas.csv, levels: [nation, province, place]}}
  age: {{integer: {{from: 0, to: {oldest}}}}}
  sex: {{categories: {{"1": male, "2": female}}}}
tables:
  - {{name: cells, dimensions: [area, age, sex], levels: {{nation: "1/3", province: "1/3", place: "1/3"}}}}
"""


def lay_out(folder: Path, cells: int) -> tuple[Loaded, PublishedTable]:
    """Return a spec of about so many cells, and its table full of made-up counts."""
    lines = ["code,label,parent", "0,Nation,"]
    for province in range(CHILDREN[0]):
        lines.append(f"{province:03},Province of number {province},0")
        lines += [
            f"{province:03}{place:04},Place of number {place},{province:03}" for place in range(CHILDREN[1])
        ]
    (folder / "areas.csv").write_text("\n".join(lines) + "\n")
    nodes = 1 + CHILDREN[0] * (1 + CHILDREN[1])
    (folder / "cells.yaml").write_text(SPEC.format(oldest=max(cells // nodes // 2 - 1, 0)))
    loaded = load_spec(folder / "cells.yaml")
    table = loaded.spec.tables[0]
    layout = Layout.of(loaded, table)
    random = np.random.default_rng(7)
    values = random.integers(0, 5_000, (layout.nodes, layout.cells)).astype(float)
    half = random.integers(1, 30, values.shape).astype(float)
    estimate = Estimate(values, np.ones((layout.nodes, 1)))
    return loaded, PublishedTable(
        table, layout, published_table(layout, estimate, half, whole=True), "simulated"
    )


def _in_one(loaded: Loaded, name: str) -> Loaded:
    publication = loaded.spec.publication.model_copy(update={"formats": (name,)})
    return replace(loaded, spec=loaded.spec.model_copy(update={"publication": publication}))


def csv_before(frame: pa.Table, path: Path) -> None:
    """Write CSV as releases did when CSV and Parquet were their only formats."""
    plain = pa.schema(
        [(f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type) for f in frame.schema]
    )
    with pa.csv.CSVWriter(path, plain) as writer:
        for start in range(0, frame.num_rows, 200_000):
            writer.write_table(frame.slice(start, 200_000).cast(plain))


def fastest(work: Callable[[], object], times: int) -> float:
    """Return the seconds of the fastest of so many rounds."""
    found = []
    for _ in range(times):
        start = time.perf_counter()
        work()
        found.append(time.perf_counter() - start)
    return min(found)


def main() -> None:
    """Print one line a format."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cells", type=int, default=2_000_000)
    options.add_argument("--times", type=int, default=3)
    given = options.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        loaded, table = lay_out(folder, given.cells)
        out = folder / "out"
        out.mkdir()
        print(f"{table.frame.num_rows:,} cells, {len(table.frame.schema)} columns")
        frame = table.frame.whole()
        before: dict[str, Callable[[], object]] = {
            "csv before": lambda: csv_before(frame, out / "before.csv"),
            "parquet before": lambda: pa.parquet.write_table(
                frame, out / "before.parquet", compression="zstd"
            ),
        }
        for name, work in before.items():
            print(f"{name:15} {fastest(work, given.times):6.2f} s")
        (out / "before.csv").unlink()
        (out / "before.parquet").unlink()
        for name in FORMATS:
            rows = table if name != "xlsx" else replace(table, frame=Frame.of(frame.slice(0, 1_048_575)))
            seconds = fastest(
                partial(write_formats, _in_one(loaded, name), {"cells": rows}, out),
                1 if name == "xlsx" else given.times,
            )
            size = sum(path.stat().st_size for path in out.iterdir())
            print(f"{name:15} {seconds:6.2f} s   {size / 1e6:7.1f} MB in all")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
