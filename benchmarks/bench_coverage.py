"""How often the margins of a whole product hold: counts, sums, means, medians and rates, by the size of cells.

    python -m benchmarks.bench_coverage SPEC [--source FILE] [--releases 200] [--json]

The source of the spec is validated and counted once; then it is measured, made consistent and finished many
times with seeded noise, by the product's own steps and without a ledger. A line is one kind of number in cells of
one size (the true count of records in the cell that it stands beside): how many of its intervals held what is
true, with the standard error over releases, and the median half-width over releases and cells. What is true of
a number is what would be published of it without noise. The standard is that of the issue that asked for margins:
88 % less two standard errors, at a stated 90 %; a kind with fewer than 20 numbers in a class is not judged.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.inference import Hierarchy
from tabularium.tasks.count.count import count_tables
from tabularium.tasks.ingest.ingest import ingest_source
from tabularium.tasks.margins.measure_margins import measure_numbers
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.runtime.run import without_data
from tabularium.validations.release_spec.load import Loaded, load_spec
from tests.tasks.in_memory import Truth, one_release

Floats = NDArray[np.float64]
SIZES = {"0": 0, "1-9": 1, "10-99": 10, "100-999": 100, "1000+": 1000}
FEWEST = 20


@dataclass
class Tally:
    """How often the numbers of one kind and size held, release by release."""

    cells: int = 0
    held: list[float] = field(default_factory=list)
    widths: list[float] = field(default_factory=list)

    def add(self, inside: NDArray[np.bool_], half: Floats) -> None:
        """Count the numbers of one release."""
        self.cells = max(self.cells, inside.size)
        self.held.append(float(inside.mean()))
        self.widths.append(float(np.median(half)))

    @property
    def line(self) -> dict[str, Any]:
        """The share that held, its standard error, the typical half-width, and whether that is enough."""
        share, releases = float(np.mean(self.held)), len(self.held)
        error = float(np.std(self.held, ddof=1) / np.sqrt(releases)) if releases > 1 else 0.0
        judged = self.cells >= FEWEST
        return {
            "cells": self.cells,
            "held": share,
            "error": error,
            "half": float(np.median(self.widths)),
            "enough": share >= 0.88 - 2 * error if judged else None,
        }


def counted(loaded: Loaded, folder: Path) -> Truth:
    """Validate nothing, count everything: array -> level -> true numbers."""
    handle = ingest_source(loaded, b"s" * 32, folder)
    found = count_tables(loaded, handle, folder, secret=b"s" * 32, bounding="5e" * 16)
    return {
        name: {level: np.load(file.path, allow_pickle=False) for level, file in levels.items()}
        for name, levels in found.tables.items()
    }


def at_nodes(layout: Layout, levels: Mapping[str, NDArray[Any]]) -> Floats:
    """True numbers of all nodes, (nodes, cells): measured ones as they were counted, others added up."""
    found = np.full((layout.nodes, layout.cells), np.nan)
    for level, nodes in layout.cuts.items():
        found[nodes] = levels[level].reshape(len(nodes), -1)
    tree = Hierarchy(layout.parents)
    for node in range(layout.nodes - 1, -1, -1):
        if np.isnan(found[node]).any() and not tree.leaf[node]:
            found[node] = found[layout.parents == node].sum(axis=0)
    return found


def coverage(loaded: Loaded, truth: Truth, releases: int) -> dict[tuple[str, str, str], Tally]:
    """Return what held: (table, kind of number, size of its cell) -> tally."""
    layouts = Agreement.of(loaded).layouts
    known = {name: at_nodes(layout, truth[name]) for name, layout in layouts.items()}
    nothing = {
        name: np.zeros_like(values)
        if (measured := layouts[name].table.measured) is None or measured.kind == "sum"
        else np.zeros((len(values), 1, len(layouts[name].table.measures)))
        for name, values in known.items()
    }
    tallies: dict[tuple[str, str, str], Tally] = {}
    began = time.monotonic()
    run = without_data(loaded)
    for seed in range(releases):
        published, margins = one_release(run, truth, seed)
        values = {name: each.values for name, each in published.items()}
        half = {name: each.half for name, each in margins.items()}
        for table in loaded.spec.tables:
            sizes = np.searchsorted(list(SIZES.values()), known[table.name], side="right") - 1
            exact = measure_numbers(layouts, table, known, nothing, whole=True)
            shown = measure_numbers(layouts, table, values, half, whole=True)
            numbers = {"count": (known[table.name], values[table.name], half[table.name])} | {
                f"{table.measures[name].kind} {name}": (exact[name][0], *each) for name, each in shown.items()
            }
            for kind, three in numbers.items():
                for size, inside, width in _held(sizes, *three):
                    tallies.setdefault((table.name, kind, size), Tally()).add(inside, width)
        if sys.stderr.isatty():
            print(f"\r{seed + 1} of {releases}, {time.monotonic() - began:.0f} s", end="", file=sys.stderr)
    return tallies


def _held(
    sizes: NDArray[np.int64], exact: Floats, shown: Floats, half: Floats
) -> Iterator[tuple[str, NDArray[np.bool_], Floats]]:
    """Yield size, whether each number's interval held, and half-widths; of cells that have a true number."""
    exact, shown, half = (each.reshape(sizes.shape) for each in (exact, shown, half))
    some = np.isfinite(exact) & np.isfinite(shown)
    inside = np.abs(shown - exact) <= half + 1e-6
    for place, size in enumerate(SIZES):
        cells = some & (sizes == place)
        if cells.any():
            yield size, inside[cells], half[cells]


def main() -> None:
    """Print a line for every kind of number and size of cell."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("spec")
    parser.add_argument("--source")
    parser.add_argument("--releases", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    loaded = load_spec(options.spec, source=options.source)
    with tempfile.TemporaryDirectory() as folder:
        truth = counted(loaded, Path(folder))
    found = {key: tally.line for key, tally in coverage(loaded, truth, options.releases).items()}
    if options.json:
        print(
            json.dumps(
                [dict(zip(("table", "kind", "size"), key, strict=True)) | line for key, line in found.items()]
            )
        )
        return
    print(f"\n{options.releases} releases, stated {float(loaded.spec.publication.confidence):.0%}\n")
    print(f"{'table':<22}{'number':<26}{'records':<10}{'cells':>7}{'held %':>9}{'± se':>7}{'half-width':>14}")
    for (table, kind, size), line in sorted(found.items(), key=lambda each: each[0][:2]):
        verdict = {True: "", False: "  TOO FEW", None: "  (few)"}[line["enough"]]
        print(
            f"{table:<22}{kind:<26}{size:<10}{line['cells']:>7}{100 * line['held']:>9.1f}"
            f"{100 * line['error']:>7.1f}{line['half']:>14,.1f}{verdict}"
        )


if __name__ == "__main__":
    main()
