"""The same spec on every engine: seconds to ingest, to judge and to count, and that the counts are equal.

    python -m benchmarks.bench_engines [--rows 1000000] [--data FILE.csv.gz] [--spark] [--folder DIR]

Runs the example specs of the census (made records) and, where ``--data`` names it, of incomes (the national
extract of the American Community Survey). PostgreSQL is a server of its own in memory; Spark is ``local[2]``.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import psycopg
import yaml

from tabularium.tasks.count.count import count_tables
from tabularium.tasks.count.count_files import read_counts
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.runtime.workspace import close_all
from tabularium.tasks.validate import measure_source
from tabularium.validations.release_spec.load import load_spec
from tests.ledger.storage.postgres import Server, running

EXAMPLES = Path(__file__).parents[1] / "deploy" / "examples"
SECRET = b"benchmark" * 4


def seconds(spec: Path, source: dict[str, Any], folder: Path) -> tuple[list[float], dict[str, Any]]:
    """Return the seconds of ingesting, judging and counting, and the counts."""
    made = folder / "spec.yaml"
    made.write_text(yaml.safe_dump({**yaml.safe_load(spec.read_text()), "source": source}, sort_keys=False))
    loaded, scratch = load_spec(made), folder / "scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(mode=0o700)
    times = [time.perf_counter()]
    try:
        handle = ingest_source(loaded, SECRET, scratch)
        times.append(time.perf_counter())
        measure_source(loaded, handle, scratch)
        times.append(time.perf_counter())
        found = count_tables(loaded, handle, scratch, secret=SECRET, bounding="5e" * 16)
        times.append(time.perf_counter())
        counts = {
            f"{table}.{level}": np.array(read_counts(file, SECRET))
            for table, levels in found.tables.items()
            for level, file in levels.items()
        }
    finally:
        close_all(scratch)
    return list(np.diff(times)), counts


def sources(parquet: Path, server: Server, spark: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every engine with the source that it reads."""
    rest = {"max_rejected": "100%"}
    yield "duckdb", {"path": str(parquet), **rest}
    into_postgresql(parquet, server)
    url = server.socket_url("postgres")
    yield "database (copy)", {"url": url, "table": "bench", **rest}
    yield "postgresql", {"url": url, "table": "bench", "engine": "postgresql", **rest}
    if spark:
        yield "spark local[2]", {"path": str(parquet), "engine": "spark", "master": "local[2]", **rest}


def into_postgresql(parquet: Path, server: Server) -> None:
    """Copy a Parquet file into the table ``bench``."""
    text = parquet.with_suffix(".csv")
    with duckdb.connect() as duck:
        columns = [row[0] for row in duck.sql(f"DESCRIBE FROM '{parquet}'").fetchall()]
        kinds = [row[1] for row in duck.sql(f"DESCRIBE FROM '{parquet}'").fetchall()]
        duck.sql(f"COPY (FROM '{parquet}') TO '{text}' (HEADER false)")
    types = {"VARCHAR": "text", "DOUBLE": "double precision"}
    listed = ", ".join(f'"{c}" {types.get(k, "bigint")}' for c, k in zip(columns, kinds, strict=True))
    with psycopg.connect(server.dsn("postgres"), autocommit=True) as connection:
        connection.execute("DROP TABLE IF EXISTS bench")
        connection.execute(f"CREATE TABLE bench ({listed})")  # type: ignore[call-overload]
        with connection.cursor().copy("COPY bench FROM STDIN (FORMAT csv)") as copy, text.open("rb") as file:
            while block := file.read(1 << 20):
                copy.write(block)
        connection.execute("ANALYZE bench")
    text.unlink()


def main() -> None:
    """Print a line for each spec and engine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp())
    for path in EXAMPLES.glob("*.csv"):
        shutil.copy(path, folder)
    jobs = [("census.yaml", census(options.rows, folder))]
    if options.data is None:
        print("--data names no extract: the survey of incomes is left out")
    else:
        jobs.append(("acs-income.yaml", incomes(options.data, folder)))
    with running() as server:
        for name, parquet in jobs:
            first: dict[str, Any] = {}
            for engine, source in sources(parquet, server, options.spark):
                times, counts = seconds(EXAMPLES / name, source, folder)
                first = first or counts
                equal = all(np.array_equal(first[table], counts[table]) for table in first)
                ingest, judge, count = times
                print(
                    f"{name:16s} {engine:16s} ingest {ingest:7.2f} s  judge {judge:7.2f} s  count {count:7.2f} s"
                    f"  {sum(map(np.size, counts.values())):,} cells, {'equal' if equal else 'NOT EQUAL'}",
                    flush=True,
                )


def census(rows: int, folder: Path) -> Path:
    """Make the people of the census example."""
    target = folder / "census.parquet"
    command = [
        sys.executable,
        "-m",
        "tabularium.flows.cli.app",
        "sample",
        "--kind",
        "households",
        "--overwrite",
    ]
    subprocess.run(
        [*command, "--rows", str(rows), "--out", str(target)], check=True, stdout=subprocess.DEVNULL
    )
    return target


def incomes(data: Path, folder: Path) -> Path:
    """Write the extract as Parquet: N is null, and what is declared as whole numbers is stored as such."""
    target = folder / "incomes.parquet"
    casts = ", ".join(f"{name}::BIGINT AS {name}" for name in ("AGEP", "PINCP", "PWGTP"))
    text = f"read_csv('{data}', all_varchar = true, nullstr = ['', 'N'])"
    duckdb.sql(f"COPY (SELECT * REPLACE ({casts}) FROM {text}) TO '{target}' (FORMAT parquet)")
    return target


if __name__ == "__main__":
    main()
