"""The main job beside other libraries: seconds, memory and error of 2 040 000 noisy counts, ours and theirs.

    python -m benchmarks.bench_peers [--records 1000000 10000000] [--meshblocks 2000] [--peers NAME ...] \
        [--timeout 600] [--environments FOLDER] [--folder FOLDER] [--json]

Synthetic persons in Parquet, counted by 2 000 meshblocks x age 102 x sex 2 x status 5, zero cells included, one
record protected, epsilon 1, into a file. Every peer is installed from PyPI into a virtual environment of its own,
which is kept; its program is a file under ``peers``, which shows how it is used, and stands on its own: nothing of
ours is imported there. Times have the start of Python (and of Spark) in them. Ours is the whole command: checked
data, ledger, post-processing, margins of error, CSV and Parquet, certificate and report.

`error` is the mean of |published - true| over all cells of the domain, a cell that is not published taken for
zero, `zeros` the same over the cells that are truly zero, `cut` over all with negative numbers set to zero, which
a reader may do with any of them, and `total` by how much the sum over all cells is wrong, in parts of the true one.
`x` are times ours, of processor seconds, which depend less than those of the clock on what else the machine does,
and of memory. A peer that cannot be installed, fails, or needs longer than ``--timeout`` has its last words instead.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml
from numpy.typing import NDArray

from benchmarks.bench_release import command, prepare
from benchmarks.watched import Watched, watch
from tabularium.ledger import Ledger
from tabularium.tasks.runtime.home import Home

Domain = Mapping[str, list[Any]]
Integers = NDArray[np.int64]
OURS = "tabularium"
HERE = Path(__file__).parent / "peers"


class Failed(Exception):
    """No numbers, and why: one line."""


@dataclass(frozen=True)
class Peer:
    """Another library.

    Attributes
    ----------
    packages
        What pip installs; the first is the one that stands for it.
    program
        The file under ``peers``.
    """

    packages: tuple[str, ...]
    program: str


PEERS = {
    "opendp": Peer(("opendp[numpy]", "pyarrow"), "opendp_core.py"),
    "opendp-polars": Peer(("opendp[polars]",), "opendp_polars.py"),
    # its trees import names that scikit-learn 1.8 no longer has
    "diffprivlib": Peer(("diffprivlib", "pyarrow", "scikit-learn<1.8"), "ibm_diffprivlib.py"),
    "pipelinedp": Peer(("pipeline-dp", "pyarrow"), "openmined_pipelinedp.py"),
    "smartnoise": Peer(("smartnoise-sql", "pyarrow"), "smartnoise.py"),
    "tumult": Peer(("tmlt.analytics", "pyarrow"), "tumult.py"),
}


def domain_of(spec: Path) -> Domain:
    """Return the values of every dimension, as a spec of `bench_release` names them."""
    columns = yaml.safe_load(spec.read_text())["columns"]
    with Path(columns["meshblock"]["hierarchy"]).open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    inner = {row["parent"] for row in rows}
    age = columns["age"]["integer"]
    return {
        "meshblock": [row["code"] for row in rows if row["code"] not in inner],
        "age": list(range(age["from"], age["to"] + 1)),
        "sex": columns["sex"]["categories"],
        "status": columns["status"]["categories"],
    }


def places(table: pa.Table, domain: Domain) -> Integers:
    """Return the number of the cell of every row, the last dimension running fastest; keys compare as text."""
    found = np.zeros(len(table), np.int64)
    for name, values in domain.items():
        keys = table[name].cast(pa.string())
        place = pc.index_in(keys, value_set=pa.array(map(str, values)))
        if place.null_count:
            raise Failed(f"{place.null_count} rows have a {name} that is not in the domain")
        found = found * len(values) + place.to_numpy()
    return found


def errors(true: Integers, where: Integers, published: NDArray[Any]) -> dict[str, float]:
    """Compare published numbers of some cells with the true numbers of all; see the module for the words."""
    seen = np.bincount(where, minlength=len(true))
    if seen.max() > 1:
        raise Failed(f"{(seen > 1).sum()} cells are there more than once")
    numbers = np.zeros(len(true))
    numbers[where] = published
    if not np.isfinite(numbers).all():
        raise Failed("some numbers are not finite")
    distance = np.abs(numbers - true)
    return {
        "cells": len(where),
        "missing": int((seen == 0).sum()),
        "error": float(distance.mean()),
        "zeros": float(distance[true == 0].mean()),
        "cut": float(np.abs(np.maximum(numbers, 0) - true).mean()),
        "total": float(numbers.sum() / true.sum() - 1),
    }


def installed(peer: Peer, folder: Path) -> tuple[Path, str]:
    """Make the environment of a peer, unless it is there; return its folder and the version of the peer."""
    ready, python = folder / "installed.txt", str(folder / "bin" / "python")
    if not ready.exists() or ready.read_text() != " ".join(peer.packages):
        said(sys.executable, "-m", "venv", "--clear", str(folder))
        said(python, "-m", "pip", "install", "--quiet", *peer.packages)
        ready.write_text(" ".join(peer.packages))
    name = peer.packages[0].partition("[")[0]
    return folder, said(python, "-c", f"from importlib.metadata import version; print(version({name!r}))")


def said(*words: str) -> str:
    """Return what a command printed."""
    ran = subprocess.run(words, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise Failed(f"not installed: {last_line(ran.stderr)}")
    return ran.stdout.strip()


def run_peer(peer: Peer, place: Path, data: Path, domain: Path, scratch: Path, limit: float) -> Watched:
    """Run the program of a peer as in its environment activated; it writes ``scratch/counts.parquet``."""
    left_out = ("PYTHONPATH", "PYTHONHOME", "SPARK_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    environment |= {
        "VIRTUAL_ENV": str(place),
        "PATH": f"{place / 'bin'}{os.pathsep}{environment['PATH']}",
        "TMPDIR": str(scratch),
    }
    words = [place / "bin" / "python", HERE / peer.program, data, domain, scratch / "counts.parquet"]
    return watch([str(word) for word in words], environment, folder=scratch, limit=limit)


def run_ours(spec: Path, scratch: Path, limit: float) -> Watched:
    """Publish with a new ledger; what is published lies in ``scratch/releases``."""
    shutil.copy(spec, scratch / spec.name)
    home = Home.at(scratch / "home")
    with Ledger.connect(home.ledger_url) as ledger:
        ledger.open_account("bench", unit="record", relation="add-remove", definition="pure", cap=Fraction(1))
    words = command("run", str(scratch / spec.name), "--home", str(home.path), "--json")
    return watch(words, os.environ, limit=limit)


def published(name: str, watched: Watched, scratch: Path) -> pa.Table:
    """Read what was published of the finest level."""
    if name != OURS:
        try:
            return pq.read_table(scratch / "counts.parquet")
        except (OSError, pa.ArrowException) as error:
            raise Failed(f"what it wrote cannot be read: {last_line(str(error))}") from error
    table = pq.read_table(Path(json.loads(watched.output)["folder"]) / "population.parquet")
    return table.filter(pc.equal(table["level"].cast(pa.string()), "meshblock"))


def last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"


def measured(options: argparse.Namespace, records: int) -> Iterator[dict[str, Any]]:
    """Yield a row for ours and for each peer."""
    with redirect_stdout(sys.stderr):
        spec = prepare(options.folder, records, options.meshblocks)
    data, domain = Path(yaml.safe_load(spec.read_text())["source"]["path"]), domain_of(spec)
    values = options.folder / "domain.json"
    values.write_text(json.dumps(domain))
    cells = prod(map(len, domain.values()))
    true = np.bincount(places(pq.read_table(data, columns=list(domain)), domain), minlength=cells)
    first: dict[str, Any] = {}
    for name in (OURS, *(options.peers or PEERS)):
        row: dict[str, Any] = {"records": records, "name": name}
        with tempfile.TemporaryDirectory(dir=options.folder) as folder:
            scratch = Path(folder)
            try:
                if name == OURS:
                    watched = run_ours(spec, scratch, options.timeout)
                else:
                    place, row["version"] = installed(PEERS[name], options.environments / name)
                    watched = run_peer(PEERS[name], place, data, values, scratch, options.timeout)
                row |= {
                    "seconds": watched.seconds,
                    "processor_seconds": watched.processor_seconds,
                    "mib": watched.peak / 2**20,
                }
                if watched.code is None:
                    raise Failed(f"not done after {options.timeout:g} s")
                if watched.code:
                    raise Failed(last_line(watched.complaint))
                table = published(name, watched, scratch)
                row |= errors(true, places(table, domain), table["count"].to_numpy())
            except Failed as why:
                row["failed"] = str(why)
        first = first or row
        if "error" in row and "error" in first:
            for key in ("seconds", "processor_seconds", "mib"):
                row[f"times_{key}"] = row[key] / first[key]
        yield row


HEADS = ("s", "cpu s", "MiB", "x cpu", "x MiB", "cells", "error", "zeros", "cut", "total")


def line(row: Mapping[str, Any]) -> str:
    """Return a row of the table that is printed."""
    start = f"{row['records']:>11,} {row['name']:<14}{row.get('version', ''):<8}"
    if "failed" in row:
        used = f" after {row['seconds']:.0f} s, {row['mib']:.0f} MiB" if "seconds" in row else ""
        return f"{start}{row['failed']}{used}"
    times = (row.get("times_processor_seconds", np.nan), row.get("times_mib", np.nan))
    return (
        f"{start}{row['seconds']:>8.1f}{row['processor_seconds']:>8.1f}{row['mib']:>8.0f}{times[0]:>8.2f}"
        f"{times[1]:>8.2f}{row['cells']:>10,}{row['error']:>8.3f}{row['zeros']:>8.3f}{row['cut']:>8.3f}"
        f"{row['total']:>+8.3f}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    beside = Path(tempfile.gettempdir())
    parser.add_argument("--records", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--meshblocks", type=int, default=2000, help="1 020 cells each; default: 2 000")
    parser.add_argument("--peers", choices=sorted(PEERS), nargs="*", help="default: all")
    parser.add_argument("--timeout", type=float, default=600, help="seconds for each; default: 600")
    parser.add_argument("--environments", type=Path, default=beside / "tabularium-peers")
    parser.add_argument("--folder", type=Path, default=beside / "tabularium-bench", help="of the data")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each row")
    options = parser.parse_args()
    for folder in (options.folder, options.environments):
        folder.mkdir(parents=True, exist_ok=True)
    options.environments = options.environments.resolve()
    options.folder = options.folder.resolve()
    if not options.json:
        widths = (8, 8, 8, 8, 8, 10, 8, 8, 8, 8)
        heads = "".join(f"{head:>{width}}" for head, width in zip(HEADS, widths, strict=True))
        print(f"{'records':>11} {'':<22}{heads}")
    for records in options.records:
        for row in measured(options, records):
            print(json.dumps(row) if options.json else line(row), flush=True)


if __name__ == "__main__":
    main()
