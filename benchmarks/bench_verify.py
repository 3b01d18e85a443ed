"""Verifying a release: seconds and peak memory of ``tabularium verify``, by group of checks.

    python -m benchmarks.bench_verify [--cells 2e6] [--records 1000000] [--formats csv,parquet,sdmx]
        [--folder DIR] [--again]

Makes synthetic persons, publishes them as meshblocks x age 102 x sex 2 x status 5 (``--cells 2e6``: 1 960
meshblocks; ``4.1e7``: 40 196) in every format that may have so many rows, exports the ledger, and verifies the
release in a process of its own: once check by check, in which the peak of each group is reset at its start,
and once as the command. ``--again`` takes the release that is there.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from fractions import Fraction
from pathlib import Path

from benchmarks.bench_release import SPEC, command, measure
from tabularium.lab.sample import write_sample
from tabularium.ledger import Ledger
from tabularium.ledger.export import export
from tabularium.tasks.runtime.home import Home

CELLS = 102 * 2 * 5  # of each meshblock


def publish(folder: Path, records: int, meshblocks: int, formats: str) -> tuple[Path, Path]:
    """Publish synthetic persons; return the release and the exported ledger."""
    import pyarrow.parquet as pq

    data = folder / f"people-{records}-{meshblocks}.parquet"
    if not data.exists():
        write_sample("census", records, data, meshblocks=meshblocks, overwrite=True)
    head = pq.ParquetFile(data).read_row_group(0, columns=["sex", "status"]).to_pandas()
    names = {c: json.dumps(sorted(str(v) for v in head[c].unique())) for c in ("sex", "status")}
    spec = folder / "bench.yaml"
    text = SPEC.format(data=data, codes=folder / f"{data.stem}-areas.csv", **names)
    spec.write_text(text.replace("[csv, parquet]", f"[{formats}]"))
    for left in ("home", "releases", "books.txt"):
        path = folder / left
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    home = Home.at(folder / "home")
    with Ledger.connect(home.ledger_url) as ledger:
        ledger.open_account("bench", unit="record", relation="add-remove", definition="pure", cap=Fraction(2))
    words = command("run", str(spec), "--home", str(home.path), "--json")
    seconds, peak, outcome = measure(words, dict(os.environ))
    print(f"published in {seconds:.1f} s, {peak / 2**20:.0f} MiB")
    with Ledger.connect(home.ledger_url) as ledger:
        export(ledger, folder / "books.txt")
    return Path(str(outcome["folder"])), folder / "books.txt"


def by_group(release: Path, books: Path) -> None:
    """Verify in this process, and print what each group of checks took."""
    from tabularium.tasks.verify.subject import Check, Subject
    from tabularium.tasks.verify.verify_release import verify_release

    took: dict[str, tuple[float, float, int]] = {}
    before = _clocks()

    def begins(check: Check) -> None:
        nonlocal before
        before = _clocks()
        if check.group not in took:
            Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here

    for finding in verify_release(Subject(release, None, books), begins=begins):
        wall, cpu = (now - then for now, then in zip(_clocks(), before, strict=True))
        old = took.get(finding.group, (0.0, 0.0, 0))
        took[finding.group] = (old[0] + wall, old[1] + cpu, max(old[2], _peak()))
        print(f"  {wall:7.1f} s {cpu:7.1f} s CPU  {finding.outcome:<10}{finding.what}: {finding.said}")
    for group, (wall, cpu, peak) in took.items():
        print(f"{group:<14}{wall:7.1f} s {cpu:7.1f} s CPU {peak / 2**20:8.0f} MiB")


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def _peak() -> int:
    """Bytes that were resident at most since the peak was reset."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=float, default=2e6)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--formats", default="csv,parquet,sdmx")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "tabularium-bench")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.again:
        books = options.folder / "books.txt"
        (certificate,) = options.folder.glob("releases/bench/2026/*[0-9a-f]/certificate.json")
        release = certificate.parent
    else:
        meshblocks = round(options.cells / CELLS)
        release, books = publish(options.folder, options.records, meshblocks, options.formats)
    size = sum(path.stat().st_size for path in release.rglob("*") if path.is_file())
    print(f"{size / 2**20:.0f} MiB of files")
    with multiprocessing.get_context("spawn").Pool(1) as alone:
        alone.apply(by_group, (release, books))
    words = command("verify", str(release), "--export", str(books), "--json")
    seconds, peak, _ = measure(words, dict(os.environ))
    print(f"the whole command: {seconds:.1f} s, {peak / 2**20:.0f} MiB")


if __name__ == "__main__":
    sys.exit(main())
