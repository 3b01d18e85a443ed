"""The papers' experiments: what each mechanism errs by here, and what the paper prints.

    python -m benchmarks.bench_reproduction [--suite NAME ...] [--runs N] [--csv FILE]

Runs suites of ``tabularium compare`` and keeps the rows that are one figure each, not a curve. Without
``--runs`` each experiment has as many as the suite says: ten seconds to four minutes for a suite on two
cores. ``--csv`` writes the rows; the file that the pages use is benchmarks/results/reproduction.csv.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.result_tables import REPRODUCTION
from tabularium.lab.comparison.comparison import run_suite
from tabularium.lab.comparison.suites import Suite, suite_called

PAPERS = ("acs-2012", "xu-2013", "xiao-2010", "chen-2024", "suresh-2019")


def figures(suite: Suite, runs: int | None) -> Iterator[dict[str, Any]]:
    """Run a suite and yield its single figures."""
    processes = os.cpu_count() or 1
    results = run_suite(suite, runs=runs, seed=1, processes=processes, done=lambda _done, _all: None)
    plain = results[(results["along"] == "") & (results["refused"] == "")]
    for row in plain.astype(object).where(plain.notna(), "").to_dict("records"):
        yield {"suite": suite.name, **row}


def main() -> None:
    """Run the suites, and print or write the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--suite", nargs="+", default=PAPERS, choices=PAPERS)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    rows = [row for name in options.suite for row in figures(suite_called(name), options.runs)]
    for row in rows:
        print(*(row[key] for key in REPRODUCTION.columns), sep="  ")
    if options.csv:
        REPRODUCTION.write(options.csv, rows)


if __name__ == "__main__":
    main()
