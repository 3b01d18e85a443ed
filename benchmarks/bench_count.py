"""Ingestion, metrics and counting of ten million records: wall time and peak memory of each.

    python -m benchmarks.bench_count [--rows 10000000] [--runs 3] [--unit] [--folder DIR]

Parquet, 2 000 regions x age 102 x sex 2 x status 5 = 2 040 000 cells, zero cells included, two levels.
``--unit`` bounds the contributions of persons with three records each. The last lines are the floor: the
same group-by in bare DuckDB, without codes, rejection, dense arrays, digests or checks.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.count.count import count_tables
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.validate import measure_source
from tabularium.validations.release_spec.load import load_spec
from tabularium.validations.suites.expectations import Bound, check_suite

T = TypeVar("T")
SECRET = b"benchmark" * 4
SPEC = """\
product: bench
dataset: bench
period: "2026"
source: {{path: {data}}}
privacy: {{unit: {unit}, budget: "1"}}
columns:
  region: {{hierarchy: regions.csv, levels: [district, region]}}
  age: {{integer: {{from: 0, to: 101}}}}
  sex: {{categories: [f, m]}}
  status: {{categories: [a, b, c, d, e]}}
tables:
  - {{name: population, dimensions: [region, age, sex, status], levels: {{district: "1/3", region: "2/3"}}}}
"""


def timed(name: str, work: Callable[[], T]) -> T:
    """Run, and print wall seconds, processor seconds and the peak memory of the process so far."""
    before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
    result = work()
    after, seconds = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter() - start
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{name:<34}{seconds:>8.2f} s{processor:>8.2f} s cpu{after.ru_maxrss / 1024:>8.0f} MiB", flush=True)
    return result


def prepare(folder: Path, rows: int, unit: bool) -> Path:
    """Write the records and the code list once, and the spec; return the spec."""
    regions = [f"D{i // 20:02d}R{i:04d}" for i in range(2000)]
    lines = ["code,label,parent", *(f"D{d:02d},District {d}," for d in range(100))]
    lines += [f"{region},Region {i},D{i // 20:02d}" for i, region in enumerate(regions)]
    (folder / "regions.csv").write_text("\n".join(lines) + "\n")
    data = folder / f"records-{rows}.parquet"
    if not data.exists():
        write(data, rows, regions)
    spec = folder / "bench-count.yaml"
    spec.write_text(SPEC.format(data=data, unit="{column: person}" if unit else "record"))
    return spec


def write(path: Path, rows: int, regions: list[str]) -> None:
    """Write records with skewed regions; persons have three records, scattered over the file."""
    random = generator(7)
    names = {"region": regions, "sex": ["f", "m"], "status": list("abcde")}
    with pq.ParquetWriter(path, pa.schema({"person": pa.int64(), "age": pa.int16(), **dict.fromkeys(names, pa.string())})) as file:  # fmt: skip
        for start in range(0, rows, 1_000_000):
            n = min(1_000_000, rows - start)
            codes = {
                "region": (random.random(n) ** 2 * 2000).astype("int32"),
                "sex": random.integers(0, 2, n, "int32"),
                "status": random.integers(0, 5, n, "int32"),
            }
            texts = {
                name: pa.DictionaryArray.from_arrays(pa.array(code), pa.array(names[name])).cast(pa.string())
                for name, code in codes.items()
            }
            person = (start + pa.array(range(n)).to_numpy()) % (rows // 3 + 1)
            ages = random.integers(0, 102, n).astype("int16")
            file.write_table(pa.table({"person": person, "age": ages, **texts}))


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--unit", action="store_true")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "tabularium-bench")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    loaded = load_spec(prepare(options.folder, options.rows, options.unit))
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch)
        handle = timed("ingest", lambda: ingest_source(loaded, SECRET, place))
        for _ in range(options.runs):
            timed("metrics", lambda: measure_source(loaded, handle, place))
        timed(
            "Great Expectations, first use", lambda: check_suite("first", {"n": [1]}, [Bound("one", "n", 1)])
        )
        timed("Great Expectations, again", lambda: check_suite("again", {"n": [1]}, [Bound("one", "n", 1)]))
        for _ in range(options.runs):
            timed(
                "count, check, write",
                lambda: count_tables(loaded, handle, place, secret=SECRET, bounding="00" * 16),
            )
    text = "select region, age, sex, status, count(*) from read_parquet(?) group by all"
    for _ in range(options.runs):
        timed(
            "floor: group-by in bare DuckDB",
            lambda: duckdb.execute(text, [handle.files[0].name]).fetchnumpy(),
        )


if __name__ == "__main__":
    main()
