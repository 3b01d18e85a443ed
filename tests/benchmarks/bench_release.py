"""The whole command on ten million people: wall time and peak memory, of the whole and of each stage.

    python -m tests.benchmarks.bench_release [--rows 10000000] [--folder DIR] [--runs 1]

Synthetic persons in Parquet, 2 000 meshblocks x age 102 x sex 2 x status 5 = 2 040 000 cells, zero cells
included, record-level epsilon 1, identity, all post-processing, CSV and Parquet out. Memory is the sum over
the process and its children (Prefect's ephemeral server among them), read every 50 ms.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

from flows.sample import write_sample
from ledger import Ledger
from tasks.runtime.home import Home

SPEC = """\
product: bench
dataset: bench
period: "2026"
source: {{path: {data}}}
privacy: {{unit: record, budget: "1"}}
columns:
  meshblock: {{hierarchy: {codes}, levels: [nation, region, district, meshblock]}}
  age: {{integer: {{from: 0, to: 101, width: 1}}}}
  sex: {{categories: {sex}}}
  status: {{categories: {status}}}
tables:
  - {{name: population, dimensions: [meshblock, age, sex, status]}}
publication: {{folder: releases, formats: [csv, parquet]}}
"""


def resident(pid: int) -> int:
    """Bytes resident in a process and all below it."""
    total, waiting = 0, [pid]
    while waiting:
        one = waiting.pop()
        try:
            status = Path(f"/proc/{one}/statm").read_text().split()
            waiting += [int(c) for c in Path(f"/proc/{one}/task/{one}/children").read_text().split()]
        except (OSError, ValueError):
            continue
        total += int(status[1]) * os.sysconf("SC_PAGE_SIZE")
    return total


def measure(command: list[str], environment: dict[str, str]) -> tuple[float, int, dict[str, object]]:
    """Run a command; return wall seconds, peak bytes of its process tree and its JSON."""
    start = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        peak = 0
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            time.sleep(0.05)
        assert process.stdout is not None
        text = process.stdout.read()
    assert process.returncode == 0
    return time.perf_counter() - start, peak, json.loads(text)


def prepare(folder: Path, rows: int) -> Path:
    """Make the microdata once; return the spec."""
    import pyarrow.parquet as pq

    data = folder / f"people-{rows}.parquet"
    if not data.exists():
        start = time.perf_counter()
        write_sample("census", rows, data, meshblocks=2000, overwrite=True)
        print(
            f"sample of {rows:,} rows: {time.perf_counter() - start:.1f} s, {data.stat().st_size / 2**20:.0f} MiB"
        )
    head = pq.ParquetFile(data).read_row_group(0, columns=["sex", "status"]).to_pandas()
    spec = folder / "bench.yaml"
    names = {c: json.dumps(sorted(str(v) for v in head[c].unique())) for c in ("sex", "status")}
    spec.write_text(SPEC.format(data=data, codes=folder / f"{data.stem}-areas.csv", **names))
    return spec


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "tabularium-bench")
    parser.add_argument("--runs", type=int, default=1)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    spec = prepare(options.folder, options.rows)
    environment = {**os.environ, "PREFECT_HOME": str(options.folder / "prefect")}
    for _ in range(options.runs):
        shutil.rmtree(options.folder / "home", ignore_errors=True)
        shutil.rmtree(options.folder / "releases", ignore_errors=True)
        home = Home.at(options.folder / "home")
        with Ledger.connect(home.ledger_url) as books:
            books.open_account(
                "bench", unit="record", relation="add-remove", definition="pure", cap=Fraction(1)
            )
        command = [
            sys.executable,
            "-m",
            "flows.cli.app",
            "run",
            str(spec),
            "--home",
            str(home.path),
            "--json",
        ]
        seconds, peak, outcome = measure(command, environment)
        report(seconds, peak, outcome)


def report(seconds: float, peak: int, outcome: dict[str, object]) -> None:
    stages = outcome["stages"]
    assert isinstance(stages, dict)
    print(f"\n{'stage':<26}{'seconds':>9}{'peak MiB so far':>18}")
    for name, figures in stages.items():
        print(f"{name:<26}{figures['seconds']:>9.2f}{figures['peak_mib']:>18.0f}")
    inside = sum(figures["seconds"] for figures in stages.values())
    print(f"{'imports, Prefect':<26}{seconds - inside:>9.2f}")
    print(f"{'whole command':<26}{seconds:>9.2f}{peak / 2**20:>18.0f}  (all processes)")


if __name__ == "__main__":
    main()
