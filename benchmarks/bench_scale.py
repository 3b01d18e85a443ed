"""Whole releases of many records into many cells: time and memory of every stage, beside DuckDB's GROUP BY.

    python -m benchmarks.bench_scale [--size 1e6x1e6 --size 1e8x4e7 …] [--folder DIR] [--json FILE] [--keep]

A size is records x cells, zero cells included: blocks x age 102 x sex 2 x status 5, blocks in districts, regions
and a nation; skewed blocks, Parquet in, epsilon 1 for one record, CSV and Parquet out, above 10^8 cells Parquet
alone. Each size is one release in its own process (``tabularium run``), after DuckDB's bare ``GROUP BY`` of the
same four columns in another process. Memory is what was resident in each process with its children, and what of
that belongs to no file, which the system cannot take back. What was published is then scanned by DuckDB: counts
are whole and not negative, levels add up, and the table is complete. The data are made once and removed again,
unless they are to be kept; 10^9 records need about 4 GiB, 10^9 cells about 60 GiB beside that.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sys
import tempfile
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

from benchmarks.bench_release import command
from benchmarks.watched import watch
from tabularium.ledger import Ledger
from tabularium.tasks.runtime.home import Home
from tabularium.validations.release_spec.checks.table_checks import fits

CELLS = 102 * 2 * 5
BLOCKS, DISTRICTS = 200, 20  # of a district, of a region
SIZES = ("1e6x1e6", "1e7x1e6", "1e7x1e7", "1e8x1e6", "1e8x4.1e7")
GROUPED = "SELECT block, age, sex, status, count(*) FROM read_parquet(?) GROUP BY ALL"
SPEC = """\
product: scale
dataset: scale
period: "2026"
source: {{path: {data}}}
privacy: {{unit: record, budget: "1"}}
columns:
  block: {{hierarchy: {codes}, levels: [nation, region, district, block]}}
  age: {{integer: {{from: 0, to: 101}}}}
  sex: {{categories: [f, m]}}
  status: {{categories: [a, b, c, d, e]}}
tables:
  - {{name: population, dimensions: [block, age, sex, status], levels: {levels}}}
publication: {{folder: releases, formats: [{formats}]}}
"""
LEVELS = '{nation: "1/8", region: "1/8", district: "1/4", block: "1/2"}'


def prepare(folder: Path, records: int, blocks: int) -> tuple[Path, Path]:
    """Write records, code list and spec; return the records and the spec."""
    data, codes, spec = folder / "records.parquet", folder / "blocks.csv", folder / "scale.yaml"
    with codes.open("w") as file:
        file.write("code,label,parent\nN,Nation,\n")
        districts = -(-blocks // BLOCKS)
        file.writelines(f"R{r},Region {r},N\n" for r in range(-(-districts // DISTRICTS)))
        file.writelines(f"D{d},District {d},R{d // DISTRICTS}\n" for d in range(districts))
        file.writelines(f"B{b:07d},Block {b},D{b // BLOCKS}\n" for b in range(blocks))
    with duckdb.connect() as db:
        db.execute(f"SET temp_directory = '{folder}'")
        db.execute("SET preserve_insertion_order = false")
        db.execute(
            f"""COPY (
                SELECT format('B{{:07d}}', (random() * random() * {blocks})::INT % {blocks}) AS block,
                       (random() * 102)::INT % 102 AS age,
                       CASE WHEN random() < 0.5 THEN 'f' ELSE 'm' END AS sex,
                       substr('aaabbcde', 1 + (random() * 8)::INT % 8, 1) AS status
                FROM range({records})
            ) TO '{data}' (FORMAT parquet, ROW_GROUP_SIZE 1000000)"""
        )
    formats = "csv, parquet" if fits(blocks * CELLS) else "parquet"
    spec.write_text(SPEC.format(data=data, codes=codes, levels=LEVELS, formats=formats))
    return data, spec


def scanned(folder: Path, cells: int) -> str:
    """See with one scan of what is published that it is what it promises; return what was found."""
    (table,) = (path for path in folder.glob("releases/*/*/*/*.parquet") if not path.parent.is_symlink())
    with duckdb.connect() as db:
        db.execute(f"SET temp_directory = '{folder}'")
        found = db.execute(
            "SELECT level, age, sex, status, count(*), min(count), sum(count), typeof(any_value(count)) "
            "FROM read_parquet(?) GROUP BY ALL",
            [str(table)],
        ).fetchall()
    totals: dict[tuple[str, ...], set[int]] = {}
    for _, *cell, _, least, total, kind in found:
        assert least >= 0 and kind == "BIGINT"
        totals.setdefault(tuple(cell), set()).add(int(total))
    assert len(totals) == CELLS and all(len(levels) == 1 for levels in totals.values())
    assert sum(rows for level, *_, rows, _, _, _ in found if level == "block") == cells // CELLS * CELLS
    rows = sum(rows for *_, rows, _, _, _ in found)
    return f"{rows:,} rows: complete, whole, not negative, and all levels add up to the same in every cell"


def grouped(data: Path) -> dict[str, Any]:
    """Return seconds and peak memory of the bare query, in a process of its own."""
    quiet = "SET enable_progress_bar = false"
    query = (
        f"import duckdb; db = duckdb.connect(); db.execute({quiet!r}); "
        f"db.execute({GROUPED!r}, [{str(data)!r}]).fetchnumpy(); print(0)"
    )
    return with_processor([sys.executable, "-c", query])[0]


def with_processor(words: list[str]) -> tuple[dict[str, Any], Any]:
    """Run a command; return its seconds on the clock and of processors, its memory in MiB, and its JSON."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = watch(words, dict(os.environ))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert found.code == 0, found.complaint
    return {
        "seconds": found.seconds,
        "processor": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak_mib": found.peak / 2**20,
        "held_mib": found.held / 2**20,
    }, json.loads(found.output)


def release(folder: Path, spec: Path) -> dict[str, Any]:
    """Return seconds and peak memory of the whole command, and of each stage."""
    for left in ("home", "releases"):
        shutil.rmtree(folder / left, ignore_errors=True)
    home = Home.at(folder / "home")
    with Ledger.connect(home.ledger_url) as ledger:
        ledger.open_account("scale", unit="record", relation="add-remove", definition="pure", cap=Fraction(1))
    words = command("run", str(spec), "--home", str(home.path), "--json")
    figures, outcome = with_processor(words)
    published = sum(file.stat().st_size for file in (folder / "releases").rglob("*") if file.is_file())
    return {
        **figures,
        "published_mib": published / 2**20,
        "stages": outcome["stages"],
    }


def main() -> None:
    """Print a table for each size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", action="append", help=f"records x cells; default: {', '.join(SIZES)}")
    parser.add_argument("--folder", type=Path, default=None)
    parser.add_argument("--json", type=Path, default=None, help="append a line for each size to this file")
    parser.add_argument("--keep", action="store_true", help="keep records and releases")
    options = parser.parse_args()
    base = options.folder or Path(tempfile.gettempdir()) / "tabularium-scale"
    for size in options.size or SIZES:
        records, cells = (int(float(number)) for number in size.split("x"))
        folder = base / size
        folder.mkdir(parents=True, exist_ok=True)
        try:
            data, spec = folder / "records.parquet", folder / "scale.yaml"
            if not data.exists():
                data, spec = prepare(folder, records, max(1, cells // CELLS))
            found = {"records": records, "cells": cells, "duckdb": grouped(data), **release(folder, spec)}
            found["scanned"] = scanned(folder, cells)
        finally:
            if not options.keep:
                shutil.rmtree(folder, ignore_errors=True)
        show(found)
        if options.json:
            with options.json.open("a") as file:
                file.write(json.dumps(found) + "\n")


def show(found: dict[str, Any]) -> None:
    """Print the figures of one size."""
    print(f"\n{found['records']:,} records, {found['cells']:,} cells")
    print(f"{'':<26}{'seconds':>9}{'peak MiB so far':>18}")
    for name, figures in found["stages"].items():
        print(f"{name:<26}{figures['seconds']:>9.2f}{figures['peak_mib']:>18.0f}")
    inside = sum(figures["seconds"] for figures in found["stages"].values())
    print(f"{'start-up':<26}{found['seconds'] - inside:>9.2f}")
    for what, one in (("whole command", found), ("GROUP BY in bare DuckDB", found["duckdb"])):
        figures = f"{one['seconds']:>9.2f}{one['peak_mib']:>18.0f}"
        print(
            f"{what:<26}{figures}  (all processes; {one['processor']:.2f} processor seconds; "
            f"{one['held_mib']:.0f} MiB of no file)"
        )
    print(f"{'published':<26}{found['published_mib']:>27.0f} MiB on disk\n{found['scanned']}", flush=True)


if __name__ == "__main__":
    main()
