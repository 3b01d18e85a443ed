"""Draw what ``bench_scale`` measured: time and memory by records, and by cells.

    python -m benchmarks.plot_scale scale.json [--peers peers.json] [--out docs/explanation/scale.svg]

``scale.json`` is what ``bench_scale --json`` wrote, a line for each size; ``--peers`` what ``bench_peers --json``
printed for as many cells as the first row has. On the left are the sizes of the fewest cells, on the right
those of the most usual number of records.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path
from typing import Any

import matplotlib as mpl

from benchmarks.plot_mechanisms import STYLE

mpl.use("Agg")
from matplotlib import pyplot as plt

OURS, THEIRS, STAGE = "#b3322c", "#3c5a78", "#d99a6c"


def drawn(axes: Any, rows: list[dict[str, Any]], by: str) -> None:
    """Draw seconds above memory for sizes that differ in records, or in cells."""
    rows = sorted(rows, key=lambda row: row[by])
    sizes = [row[by] for row in rows]
    bare = [row for row in rows if row["duckdb"]["seconds"]]
    time, memory = axes
    time.plot(sizes, [row["seconds"] for row in rows], "o-", color=OURS, label="whole release")
    count = [row["stages"]["count"]["seconds"] for row in rows]
    time.plot(sizes, count, "o--", color=STAGE, label="counting alone")
    known = [row[by] for row in bare]
    time.plot(
        known, [row["duckdb"]["seconds"] for row in bare], "s-", color=THEIRS, label="DuckDB's GROUP BY"
    )
    held = [row["held_mib"] / 1024 for row in rows]
    memory.plot(sizes, [row["peak_mib"] / 1024 for row in rows], "o-", color=OURS, label="resident")
    memory.plot(sizes, held, "o--", color=STAGE, label="of it, of no file")
    memory.plot(known, [row["duckdb"]["peak_mib"] / 1024 for row in bare], "s-", color=THEIRS)
    memory.set(xlabel=by)
    for each in axes:
        each.set(xscale="log", yscale="log")
        each.grid(visible=True, alpha=0.3)


def beside(axes: Any, peers: list[dict[str, Any]]) -> None:
    """Draw what other libraries took, and cross what they did not finish."""
    for name, marker in zip(dict.fromkeys(row["name"] for row in peers), "^vD<>*", strict=False):
        rows = [row for row in peers if row["name"] == name and "seconds" in row]
        done = [row for row in rows if "failed" not in row]
        axes[0].plot(
            [row["records"] for row in done],
            [row["seconds"] for row in done],
            marker,
            color="#555",
            label=name,
        )
        axes[1].plot(
            [row["records"] for row in done], [row["mib"] / 1024 for row in done], marker, color="#555"
        )


def picture(rows: list[dict[str, Any]], peers: list[dict[str, Any]]) -> Any:
    """Return the figure."""
    fewest = min(row["cells"] for row in rows)
    usual = Counter(row["records"] for row in rows).most_common(1)[0][0]
    figure, axes = plt.subplots(2, 2, figsize=(9, 5.4), sharex="col", sharey="row", layout="constrained")
    drawn(axes[:, 0], [row for row in rows if row["cells"] == fewest], "records")
    drawn(axes[:, 1], [row for row in rows if row["records"] == usual], "cells")
    beside(axes[:, 0], peers)
    axes[0, 0].set(title=f"into {fewest:,} cells", ylabel="seconds")
    axes[0, 1].set(title=f"of {usual:,} records")
    axes[1, 0].set(ylabel="GiB")
    lines, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside upper center", ncols=len(names), frameon=False, fontsize=8)
    axes[1, 0].legend(frameon=False, fontsize=8)
    return figure


def main() -> None:
    """Draw and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("measured", type=Path)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/explanation/scale.svg"))
    options = parser.parse_args()
    rows = [json.loads(line) for line in options.measured.read_text().splitlines()]
    found = [] if options.peers is None else map(json.loads, options.peers.read_text().splitlines())
    peers = [row for row in found if row["name"] != "tabularium"]
    with plt.rc_context(STYLE):
        picture(rows, peers).savefig(options.out, metadata={"Date": None})
    print(f"drawn: {options.out}")


if __name__ == "__main__":
    main()
