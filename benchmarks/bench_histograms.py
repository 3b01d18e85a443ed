"""The mechanisms beside each other: errors and seconds, per data set and ε, over seeded runs.

    python -m benchmarks.bench_histograms [--mechanism NAME ...] [--data NAME ...] [--epsilon 0.01 0.1 1]
                                                [--runs 20] [--json] [--csv FILE]

Errors are means over the runs: mean |error| of a bin, mean squared error, the Kullback-Leibler divergence as
Acs et al. compute it (release floored at 1, both normalised), and the mean relative error with denominators
of at least 1. Seconds are the median of the runs after the first, on one core, noise included. ``--csv`` writes the mean
|error| to a file; the one that the pages use is benchmarks/results/histograms.csv, from 8 runs.

The real histograms are looked for beside the project and are not part of it; without them the made-up
look-alikes of the papers' data sets are measured, and the table says so.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import mean, median
from typing import Any

import numpy as np

from benchmarks.result_tables import HISTOGRAMS
from tabularium.lab.comparison.data_sets import LIKENESSES, lookalike
from tabularium.lab.comparison.error_measures import MEASURES
from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel

BESIDE = Path(__file__).parents[2] / "shared" / "data"
REAL = {
    "waitakere": ("waitakere", None),
    "waitakere grid": ("waitakere", (75, 103)),
    "dwellings": ("nz_meshblock_dwellings_2006", None),
    "HEPTH": ("dpbench1d_HEPTH", None),
    "MEDCOST": ("dpbench1d_MEDCOST", None),
    "PATENT": ("dpbench1d_PATENT", None),
    "ADULT_caploss": ("dpbench1d_ADULT_caploss", None),
    "STROKE": ("dpbench2d_STROKE", None),
    "ADULT2D": ("dpbench2d_ADULT2D", None),
}


@dataclass(frozen=True)
class Contender:
    """A mechanism with its parameters, as it is called in the table."""

    label: str
    name: str
    parameters: dict[str, Any]


CONTENDERS = [
    Contender("identity", "identity", {}),
    Contender("efpa", "efpa", {}),
    Contender("efpa paper", "efpa", {"sensitivity": "paper", "score": "paper"}),
    Contender("efpa dct", "efpa", {"transform": "dct"}),
    Contender("p_hpartition", "p_hpartition", {}),
    Contender("noise_first", "noise_first", {}),
    Contender("noise_first paper", "noise_first", {"penalty": "paper"}),
    Contender("noise_first median", "noise_first", {"centre": "median"}),
    Contender("structure_first", "structure_first", {"structure_share": "1/2"}),
    Contender("structure_first median", "structure_first", {"structure_share": "1/2", "centre": "median"}),
    Contender("sreb_gca", "sreb_gca", {}),
    Contender("sreb_gca 9/10", "sreb_gca", {"share": "9/10"}),
    Contender("denoise", "denoise", {}),
    *(
        Contender(name, name, {})
        for name in ("ahp", "dawa", "kd_tree", "hierarchical_kd_tree", "boost", "privelet", "mwem", "uniform")
    ),
]


def data_sets(names: list[str] | None) -> Iterator[tuple[str, np.ndarray]]:
    """Yield name and counts: the real ones where they are, look-alikes otherwise."""
    if BESIDE.is_dir():
        for name, (file, shape) in REAL.items():
            if names is None or name in names:
                with np.load(BESIDE / f"{file}.npz") as archive:
                    counts = archive["counts"].astype(np.int64)
                yield name, counts if shape is None else counts.reshape(shape)
    for name in LIKENESSES:
        if name in names if names else not BESIDE.is_dir():
            yield f"{name} (made up)", lookalike(name)


def measured(contender: Contender, counts: np.ndarray, epsilon: Fraction, runs: int) -> dict[str, float]:
    """Return the means of every measure, and the median seconds of a run."""
    parameters = dict(contender.parameters)
    if contender.name == "structure_first":  # as if the power of ten above the largest count were known
        parameters["largest_count"] = 10 ** len(str(counts.max()))
    mechanism = build(contender.name, **parameters)
    truth = counts.astype(np.float64)
    errors: dict[str, list[float]] = {name: [] for name in MEASURES}
    seconds = []
    for seed in range(runs):
        start = time.process_time()
        release = mechanism.release(counts, SeededChannel(epsilon, seed=seed))
        seconds.append(time.process_time() - start)
        for name, measure in MEASURES.items():
            errors[name].append(measure(truth, release.values.astype(np.float64)))
    return {name: mean(values) for name, values in errors.items()} | {
        "seconds": median(seconds[1:] or seconds)
    }


def one_core() -> None:
    """Keep this process on one core, where that can be asked for."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mechanism", nargs="+", help="labels, as in the table")
    parser.add_argument("--data", nargs="+")
    parser.add_argument(
        "--epsilon", nargs="+", type=Fraction, default=[Fraction(1, 100), Fraction(1, 10), Fraction(1)]
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    one_core()
    if not BESIDE.is_dir() and not options.json:
        print(
            "The real histograms are not here: these are look-alikes, with the published size, total and spread.\n"
        )
    rows = []
    for data, counts in data_sets(options.data):
        for epsilon in options.epsilon:
            if not options.json:
                print(f"\n{data}, {counts.size:,} bins, epsilon {float(epsilon):g}, {options.runs} runs")
                print(f"{'':<20}" + "".join(f"{name:>15}" for name in [*MEASURES, "seconds"]))
            for contender in CONTENDERS:
                if options.mechanism is None or contender.label in options.mechanism:
                    found = measured(contender, counts, epsilon, options.runs)
                    head = {"data": data, "epsilon": str(epsilon), "mechanism": contender.label}
                    rows.append({**head, "runs": options.runs, **found})
                    if not options.json:
                        print(
                            f"{contender.label:<20}" + "".join(f"{value:>15.4g}" for value in found.values()),
                            flush=True,
                        )
    if options.json:
        print(json.dumps(rows, indent=1))
    if options.csv:
        HISTOGRAMS.write(options.csv, rows)


if __name__ == "__main__":
    main()
