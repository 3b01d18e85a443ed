"""Sums over ranges: `denoise` with its workload, over the best of all other mechanisms.

    python -m benchmarks.bench_ranges [--data NAME ...] [--epsilon 0.01 0.1 1] [--runs 20]
                                            [--write FILE] [--others FILE] [--csv FILE]

For each data set and ε: the mean |error| of 2 000 random ranges (boxes of tables), of 2 000 short ones (2 to 64
cells along each axis, with ``longest: 64``) and of single cells, each a mean over the runs and divided by
the least such mean of the others; single cells over the plain form alone. The last lines are geometric means
over the rows, and over the tables. The best of many means of few runs is lucky, so few runs flatter the others.

``--write`` keeps all means; ``--others`` takes those of the others from such a file, for they are the same as
long as they are not changed. ``--csv`` writes the ratios; the file that the pages use is
benchmarks/results/ranges.csv. One process, one thread. The real histograms are looked for beside the project
and are not part of it; without them made-up look-alikes are measured, and the first line says so.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from fractions import Fraction
from math import exp, log
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np

from benchmarks.bench_histograms import BESIDE, REAL, one_core
from benchmarks.result_tables import RANGES
from tabularium.lab.comparison.data_sets import LIKENESSES, lookalike
from tabularium.lab.comparison.error_measures import (
    absolute_of_rectangles,
    absolute_of_short_rectangles,
    mean_absolute,
)
from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel

MEASURES = {
    "random": absolute_of_rectangles,
    "short": absolute_of_short_rectangles,
    "cells": mean_absolute,
}
OWN: dict[str, dict[str, Any]] = {
    "ranges": {"workload": "ranges"},
    "ranges to 64": {"workload": "ranges", "longest": 64},
}
OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "denoise": ("denoise", {}),
    "boost": ("boost", {}),
    "privelet": ("privelet", {}),
    "dawa": ("dawa", {}),
    "dawa, ranges": ("dawa", {"workload": "ranges"}),
    "noise_first": ("noise_first", {}),
    "p_hpartition": ("p_hpartition", {}),
    "mwem, ranges": ("mwem", {"workload": "ranges"}),
    "kd_tree": ("kd_tree", {}),
}
ROWS_ALONE = ("noise_first", "mwem, ranges")
MOST_FOR_MWEM = 20_000
"""Cells: with more, MWEM takes minutes a run."""
RATIOS = (
    ("random", "ranges", "random", ()),
    ("but kd_tree", "ranges", "random", ("kd_tree",)),
    ("short", "ranges to 64", "short", ()),
    ("but kd_tree, short", "ranges to 64", "short", ("kd_tree",)),
    ("cells", "ranges", "cells", tuple(name for name in OTHERS if name != "denoise")),
    ("cells, to 64", "ranges to 64", "cells", tuple(name for name in OTHERS if name != "denoise")),
)
"""What it is called, which of our own, by what measure, and who of the others is left out."""
Means = dict[str, dict[str, float]]


def data_sets(names: list[str] | None) -> Iterator[tuple[str, np.ndarray]]:
    """Yield name and counts: rows first, then tables."""
    if not BESIDE.is_dir():
        for name in LIKENESSES:
            if names is None or name in names:
                yield name, lookalike(name)
        return
    for name, (file, shape) in {"rochdale": ("rochdale", (256,)), **REAL}.items():
        if names is None or name in names:
            with np.load(BESIDE / f"{file}.npz") as archive:
                counts = archive["counts"].astype(np.int64)
            yield name, counts if shape is None else counts.reshape(shape)


def means(
    name: str, given: dict[str, Any], counts: np.ndarray, epsilon: Fraction, runs: int
) -> dict[str, float]:
    """Return the mean of each measure over seeded runs."""
    mechanism, truth = build(name, **given), counts.astype(np.float64)
    found: dict[str, list[float]] = {measure: [] for measure in MEASURES}
    for seed in range(runs):
        values = mechanism.release(counts, SeededChannel(epsilon, seed=seed)).values.astype(np.float64)
        for measure, of in MEASURES.items():
            found[measure].append(of(truth, values))
    return {measure: mean(values) for measure, values in found.items()}


def of_others(counts: np.ndarray, epsilon: Fraction, runs: int) -> Means:
    """Return the means of the other mechanisms that take such counts."""
    found = {}
    for label, (name, given) in OTHERS.items():
        alone = label in ROWS_ALONE and counts.ndim > 1
        if not alone and not (name == "mwem" and counts.size > MOST_FOR_MWEM):
            found[label] = means(name, given, counts, epsilon, runs)
    return found


def ratios(own: Means, others: Means) -> dict[str, tuple[float, str]]:
    """Return, by what is measured, own error over the least of the others, and whose that is."""
    found = {}
    for label, form, measure, left_out in RATIOS:
        error, best = min((means[measure], name) for name, means in others.items() if name not in left_out)
        found[label] = own[form][measure] / error, best
    return found


def main() -> None:
    """Measure, and print a line for each data set and ε, then the geometric means."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+")
    parser.add_argument(
        "--epsilon", nargs="+", type=Fraction, default=[Fraction(1, 100), Fraction(1, 10), Fraction(1)]
    )
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--others", type=Path)
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    one_core()
    if not BESIDE.is_dir():
        print("The real histograms are not here: these are look-alikes, with their size, total and spread.")
    kept = json.loads(options.others.read_text()) if options.others else {}
    written: dict[str, dict[str, Means]] = {}
    logs: dict[tuple[str, str, str], list[float]] = {}
    rows = []
    for data, counts in data_sets(options.data):
        for epsilon in options.epsilon:
            key = f"{data}, {epsilon}"
            others = kept[key]["others"] if key in kept else of_others(counts, epsilon, options.runs)
            own = {
                label: means("denoise", given, counts, epsilon, options.runs) for label, given in OWN.items()
            }
            written[key] = {"own": own, "others": others}
            found = ratios(own, others)
            line = "  ".join(f"{label} {value:.2f} ({best})" for label, (value, best) in found.items())
            print(f"{data:<15}{float(epsilon):<6g}{line}", flush=True)
            for label, (value, _) in found.items():
                kind = "rows" if counts.ndim == 1 else "tables"
                logs.setdefault((kind, str(epsilon), label), []).append(log(value))
                rows.append(_row(data, str(epsilon), label, options.runs, value))
            if options.write:
                options.write.write_text(json.dumps(written, indent=1))
    print(f"\nGeometric means, {options.runs} runs")
    for (kind, epsilon, label), values in logs.items():
        print(f"{kind:<8}epsilon {epsilon:<6}{label:<20}{exp(mean(values)):6.2f}  of {len(values)}")
        rows.append(_row(kind, epsilon, label, options.runs, exp(mean(values))))
    if options.csv:
        RANGES.write(options.csv, rows)


def _row(data: str, epsilon: str, ratio: str, runs: int, value: float) -> dict[str, Any]:
    return {"data": data, "epsilon": epsilon, "ratio": ratio, "runs": runs, "value": value}


if __name__ == "__main__":
    main()
