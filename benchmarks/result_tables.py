"""CSV files of results that the documentation draws its tables from: their places, columns, reading and writing.

A benchmark writes its file with ``--csv FILE``; the files that the pages use are in ``benchmarks/results``.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("results")


@dataclass(frozen=True)
class ResultTable:
    """One file: its name in ``benchmarks/results``, and its columns in order."""

    name: str
    columns: tuple[str, ...]

    def read(self) -> list[dict[str, str]]:
        """Return the rows that the pages use.

        Raises
        ------
        ValueError
            The columns are not those that the benchmark writes.
        """
        with (FOLDER / self.name).open(encoding="utf-8", newline="") as file:
            rows = csv.DictReader(file)
            if tuple(rows.fieldnames or ()) != self.columns:
                raise ValueError(f"{self.name} has the columns {rows.fieldnames}, not {self.columns}")
            return list(rows)

    def write(self, path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
        """Write rows to ``path``, other keys left out; figures with three significant digits, or whole."""
        with path.open("w", encoding="utf-8", newline="") as file:
            out = csv.DictWriter(file, self.columns, extrasaction="ignore", lineterminator="\n")
            out.writeheader()
            out.writerows({key: _short(value) for key, value in row.items()} for row in rows)


HISTOGRAMS = ResultTable("histograms.csv", ("data", "epsilon", "mechanism", "runs", "mean |error|"))
"""By ``benchmarks.bench_histograms``."""
RANGES = ResultTable("ranges.csv", ("data", "epsilon", "ratio", "runs", "value"))
"""By ``benchmarks.bench_ranges``; the data ``rows`` and ``tables`` stand for geometric means."""
REPRODUCTION = ResultTable(
    "reproduction.csv",
    ("suite", "experiment", "data", "mechanism", "epsilon", "measure", "runs", "error", "published"),
)
"""By ``benchmarks.bench_reproduction``: rows of the suites' results.csv that are one figure each."""


def _short(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
