"""The whole command: wall time and peak memory, in its own process and through Prefect.

    python -m benchmarks.bench_release [--rows 10000000] [--folder DIR] [--runs 3] [--engine process]

For each engine (``process``; ``ephemeral``: a Prefect server of the command's own; ``server``: one that runs
already), the median of the runs of: the help page, a release of 40 cells, the same asked for again, and
synthetic persons in Parquet as 2 000 meshblocks x age 102 x sex 2 x status 5 = 2 040 000 cells, zero cells
included, record-level epsilon 1, identity, all post-processing, CSV and Parquet out. Memory is the sum over
the process and its children, read every 50 ms. Of the last, the stages of the first run are printed too.
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
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path
from statistics import median

from benchmarks.watched import watch
from tabularium.flows.operations.prefect_api import OwnServer, own_server
from tabularium.lab.sample import write_sample
from tabularium.ledger import Ledger
from tabularium.tasks.runtime.home import Home

ENGINES = ("process", "ephemeral", "server")
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


def measure(command: list[str], environment: dict[str, str]) -> tuple[float, int, dict[str, object]]:
    """Run a command; return wall seconds, peak bytes of its process tree and its JSON."""
    watched = watch(command, environment)
    assert watched.code == 0, watched.complaint
    return watched.seconds, watched.peak, json.loads(watched.output)


def prepare(folder: Path, rows: int, meshblocks: int = 2000) -> Path:
    """Make the microdata once; return the spec."""
    import pyarrow.parquet as pq

    data = folder / f"people-{rows}-{meshblocks}.parquet"
    if not data.exists():
        start = time.perf_counter()
        write_sample("census", rows, data, meshblocks=meshblocks, overwrite=True)
        print(
            f"sample of {rows:,} rows: {time.perf_counter() - start:.1f} s, {data.stat().st_size / 2**20:.0f} MiB"
        )
    head = pq.ParquetFile(data).read_row_group(0, columns=["sex", "status"]).to_pandas()
    spec = folder / "bench.yaml"
    names = {c: json.dumps(sorted(str(v) for v in head[c].unique())) for c in ("sex", "status")}
    spec.write_text(SPEC.format(data=data, codes=folder / f"{data.stem}-areas.csv", **names))
    return spec


def small(folder: Path) -> Path:
    """Make a small source; return the spec of a release of 40 cells."""
    data = folder / "small.csv"
    data.write_text("age,sex\n" + "".join(f"{n * 7 % 100},{n % 2}\n" for n in range(5000)))
    spec = folder / "small.yaml"
    spec.write_text(
        "product: small\ndataset: bench\nperiod: '2026'\n"
        f"source: {{path: {data}}}\nprivacy: {{unit: record, budget: '1'}}\n"
        "columns:\n  age: {integer: {from: 0, to: 99, width: 5}}\n  sex: {categories: ['0', '1']}\n"
        "tables:\n  - {name: ages, dimensions: [age, sex]}\npublication: {folder: releases}\n"
    )
    return spec


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "tabularium.flows.cli.app", *words]


def measure_engine(engine: str, options: argparse.Namespace, api: OwnServer | None) -> dict[str, list[float]]:
    """Run everything through one engine; return what -> seconds of each run."""
    folder: Path = options.folder
    large, few = prepare(folder, options.rows), small(folder)
    environment = {**os.environ, "PREFECT_HOME": str(folder / "prefect")}
    if api is not None:
        environment |= api.environment()
    asked = ["--json", *(["--prefect"] if engine == "ephemeral" else [])]
    found: dict[str, list[float]] = {}
    for number in range(options.runs):
        for left in ("home", "releases"):
            shutil.rmtree(folder / left, ignore_errors=True)
        home = Home.at(folder / "home")
        with Ledger.connect(home.ledger_url) as ledger:
            ledger.open_account(
                "bench", unit="record", relation="add-remove", definition="pure", cap=Fraction(2)
            )
        for what, spec in (("40 cells", few), ("published already", few), (f"{options.rows:,} rows", large)):
            words = command("run", str(spec), "--home", str(home.path), *asked)
            seconds, peak, outcome = measure(words, environment)
            found.setdefault(what, []).append(seconds)
            if spec is large and number == 0:
                print(f"\n{engine}: {outcome['engine']}")
                report(seconds, peak, outcome)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "tabularium-bench")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--engine", choices=ENGINES, action="append", help="default: all")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    table = {"--help": {"process": [_help() for _ in range(options.runs)]}}
    for engine in options.engine or ENGINES:
        with own_server() if engine == "server" else nullcontext() as api:
            for what, seconds in measure_engine(engine, options, api).items():
                table.setdefault(what, {})[engine] = seconds
    print(f"\n{'seconds, median of ' + str(options.runs):<26}" + "".join(f"{name:>12}" for name in ENGINES))
    for what, by_engine in table.items():
        cells = (f"{median(by_engine[name]):12.2f}" if name in by_engine else " " * 12 for name in ENGINES)
        print(f"{what:<26}" + "".join(cells))


def _help() -> float:
    start = time.perf_counter()
    subprocess.run(command("--help"), stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def report(seconds: float, peak: int, outcome: dict[str, object]) -> None:
    stages = outcome["stages"]
    assert isinstance(stages, dict)
    print(f"\n{'stage':<26}{'seconds':>9}{'peak MiB so far':>18}")
    for name, figures in stages.items():
        print(f"{name:<26}{figures['seconds']:>9.2f}{figures['peak_mib']:>18.0f}")
    inside = sum(figures["seconds"] for figures in stages.values())
    print(f"{'start-up':<26}{seconds - inside:>9.2f}")
    print(f"{'whole command':<26}{seconds:>9.2f}{peak / 2**20:>18.0f}  (all processes)")


if __name__ == "__main__":
    main()
