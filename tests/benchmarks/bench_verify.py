"""Verifying a release: wall time and peak memory of ``tabularium verify``.

    python -m tests.benchmarks.bench_verify [--meshblocks 2000] [--records 1000000] [--formats csv,parquet] [--folder DIR]

Makes synthetic persons, publishes them as meshblocks x age 102 x sex 2 x status 5 (2 000 meshblocks: 2 040 000
cells; 40 000: 40 800 000), exports the ledger, and verifies the release in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from fractions import Fraction
from pathlib import Path

from flows.sample import write_sample
from ledger import Ledger
from ledger.chain.export import export
from tasks.runtime.home import Home
from tests.benchmarks.bench_release import SPEC, command, measure


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--meshblocks", type=int, default=2000)
    parser.add_argument("--formats", default="csv,parquet")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "tabularium-bench")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    release, books = publish(options.folder, options.records, options.meshblocks, options.formats)
    words = command("verify", str(release), "--export", str(books), "--json")
    seconds, peak, found = measure(words, dict(os.environ))
    for finding in found["releases"][0]["findings"]:  # type: ignore[index]
        print(f"  {finding['outcome']:<10}{finding['what']}: {finding['said']}")
    print(f"verified in {seconds:.1f} s, {peak / 2**20:.0f} MiB")


if __name__ == "__main__":
    sys.exit(main())
