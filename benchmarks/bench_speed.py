"""What the mechanisms cost: seconds against the number of bins, on one core, second call.

    python -m benchmarks.bench_speed [--mechanism NAME ...] [--smallest 10] [--largest 20] [--runs 3] [--json]

Sizes are powers of two. The counts are a made-up time series with plateaus, bursts and empty stretches. The
second column of each mechanism is the growth: by what factor a doubling of n lengthens the run (2 is linear).
Seconds are processor time, the median of ``--runs`` after a first run that compiles, noise included.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from statistics import median
from typing import Any

import numpy as np

from tabularium.lab.comparison.data_sets import series
from tabularium.mechanisms import MECHANISMS, build
from tabularium.mechanisms.channel import SeededChannel

EPSILON = Fraction(1, 10)
# Label: registered name, parameters, and the largest power of two that is worth waiting for.
FORMS: dict[str, tuple[str, dict[str, Any], int]] = {
    "identity": ("identity", {}, 20),
    "fpa": ("fpa", {"k": 64}, 20),
    "spa": ("spa", {}, 20),
    "efpa": ("efpa", {}, 20),
    "efpa dct": ("efpa", {"transform": "dct"}, 20),
    "p_hpartition": ("p_hpartition", {}, 20),
    "noise_first": ("noise_first", {}, 20),
    "noise_first median": ("noise_first", {"centre": "median"}, 20),
    "structure_first": ("structure_first", {"largest_count": 5000}, 20),
    "structure_first median": ("structure_first", {"largest_count": 5000, "centre": "median"}, 20),
    "sreb_gca": ("sreb_gca", {}, 20),
    "denoise": ("denoise", {}, 20),
    "ahp": ("ahp", {}, 20),
    "dawa": ("dawa", {}, 20),
    "dawa ranges": ("dawa", {"workload": "ranges"}, 20),
    "kd_tree": ("kd_tree", {}, 20),
    "hierarchical_kd_tree": ("hierarchical_kd_tree", {}, 20),
    "privhist": ("privhist", {}, 20),
    "sorted_isotonic": ("sorted_isotonic", {}, 20),
    "boost": ("boost", {}, 20),
    "privelet": ("privelet", {}, 20),
    "mwem": ("mwem", {}, 16),
    "uniform": ("uniform", {}, 20),
}


def seconds(work: Callable[[int], Any], runs: int) -> float:
    """Return the median processor time of ``runs`` calls, after one that does not count."""
    work(0)
    times = []
    for seed in range(1, runs + 1):
        start = time.process_time()
        work(seed)
        times.append(time.process_time() - start)
    return median(times)


def curve(label: str, powers: range, runs: int) -> Iterator[tuple[int, float]]:
    """Yield (n, seconds) for one form of a mechanism."""
    name, parameters, largest = FORMS[label]
    mechanism = build(name, **parameters)
    for power in powers:
        if power <= largest:
            counts = series(1 << power)
            yield (
                1 << power,
                seconds(
                    lambda seed, counts=counts: mechanism.release(counts, SeededChannel(EPSILON, seed=seed)),
                    runs,
                ),
            )


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mechanism", nargs="+", choices=sorted(FORMS), default=sorted(FORMS))
    parser.add_argument("--smallest", type=int, default=10)
    parser.add_argument("--largest", type=int, default=20)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    found: dict[str, list[tuple[int, float]]] = {}
    for label in options.mechanism:
        if FORMS[label][0] not in MECHANISMS:
            continue
        if not options.json:
            print(f"\n{label}\n{'bins':>12}{'seconds':>12}{'growth':>10}")
        before: tuple[int, float] | None = None
        for size, cost in curve(
            label, range(options.smallest, options.largest + 1, options.step), options.runs
        ):
            found.setdefault(label, []).append((size, cost))
            if not options.json:
                growth = (cost / before[1]) ** (1 / np.log2(size / before[0])) if before else float("nan")
                print(f"{size:>12,}{cost:>12.4f}{growth:>10.2f}", flush=True)
            before = (size, cost)
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
