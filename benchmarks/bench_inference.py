"""Post-processing at size: seconds and peak memory of each step, and how they grow.

    python -m benchmarks.bench_inference [--quick] [--bias]

Three shapes, all levels measured with Laplace-like noise of scale 10 and nine leaf cells in ten empty:

- seven levels with 10^3 to 10^6 leaves, one cell: the growth curve. Linear means that the last column,
  nanoseconds per number, stays level;
- seven levels with 10^5 and 10^6 leaves, 20 cells;
- 2 000 regions under 60 districts under 8 provinces under one nation, 1 020 cells.

``--bias`` adds the mean error of totals over 200 releases at epsilon 0.1, in standard errors, with the
consistent chain and with clipping. Every case runs in a process of its own, for a peak memory of its own,
which includes the interpreter, the truth and the measurements.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.inference import Hierarchy, consistency, laplace_variance, nonnegativity, rounding
from tabularium.mechanisms.noise.synthetic import generator

SCALE = 10.0


def seven_levels(leaves: int) -> NDArray[np.intp]:
    """Parents of a tree of seven levels with about equal arities and exactly this many leaves."""
    widths = [round(leaves ** (level / 6)) for level in range(7)]
    above, parents = 0, [np.array([-1])]
    for upper, lower in pairwise(widths):
        parents.append(above + np.arange(lower) * upper // lower)
        above += upper
    return np.concatenate(parents)


def regions() -> NDArray[np.intp]:
    """Parents of 1 nation, 8 provinces, 60 districts, 2 000 regions."""
    return np.r_[-1, np.zeros(8, int), 1 + np.arange(60) * 8 // 60, 9 + np.arange(2000) * 60 // 2000]


CASES: dict[str, tuple[Callable[[], NDArray[np.intp]], int]] = {
    **{
        f"7 levels, {leaves:>9,} leaves": ((lambda leaves=leaves: seven_levels(leaves)), 1)  # type: ignore[misc]
        for leaves in (1_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
    },
    "7 levels,   100,000 leaves x 20": (lambda: seven_levels(100_000), 20),
    "7 levels, 1,000,000 leaves x 20": (lambda: seven_levels(1_000_000), 20),
    "2,000 regions x 1,020": (regions, 1020),
}


def sparse_truth(tree: Hierarchy, cells: int, rng: np.random.Generator) -> NDArray[np.float64]:
    truth = np.zeros((tree.nodes, cells))
    shape = (int(tree.leaf.sum()), cells)
    truth[tree.leaf] = np.where(rng.random(shape) < 0.9, 0, rng.geometric(0.05, size=shape))
    for block in tree.up(cells):
        truth[block.parents] = block.total(truth[block.children])
    return truth


def run(name: str) -> dict[str, Any]:
    """Time one case in this process."""
    build, cells = CASES[name]
    parents = build()
    start = time.perf_counter()
    tree = Hierarchy(parents)
    seconds = {"hierarchy": time.perf_counter() - start}
    rng = generator(7)
    truth = sparse_truth(tree, cells, rng)
    measured = truth + np.rint(rng.laplace(scale=SCALE, size=truth.shape))
    variance = laplace_variance(SCALE)
    table: Any = None
    for step, work in (
        ("consistency", lambda _: consistency(tree, measured, variance)),
        ("non-negativity", lambda est: nonnegativity(tree, est)),
        ("rounding", lambda est: rounding(tree, est)),
    ):
        start = time.perf_counter()
        table = work(table)
        seconds[step] = time.perf_counter() - start
    assert tree.gap(table) == 0
    assert table.min() >= 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    leaves = tree.leaf
    return {
        "numbers": tree.nodes * cells,
        "seconds": seconds,
        "peak": peak,
        "error": float(np.abs(table[leaves] - truth[leaves]).mean()),
        "raw": float(np.abs(measured[leaves] - truth[leaves]).mean()),
    }


def growth(names: list[str]) -> None:
    print(
        f"{'case':<32}{'numbers':>12}{'tree':>7}{'consist':>9}{'non-neg':>9}{'round':>8}{'three':>8}"
        f"{'ns/number':>11}{'peak MiB':>10}{'|error|':>9}{'raw':>7}"
    )
    for name in names:
        command = [sys.executable, "-m", "benchmarks.bench_inference", "--case", name]
        case = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        tree, *steps = case["seconds"].values()
        print(
            f"{name:<32}{case['numbers']:>12,}{tree:>7.2f}{steps[0]:>9.3f}{steps[1]:>9.3f}{steps[2]:>8.3f}"
            f"{sum(steps):>8.3f}{sum(steps) / case['numbers'] * 1e9:>11.0f}{case['peak']:>10.0f}"
            f"{case['error']:>9.2f}{case['raw']:>7.2f}"
        )


def bias(runs: int = 200) -> None:
    """Print the mean error of the nation and of eight regions over many releases of one sparse truth."""
    rng = generator(9)
    tree = Hierarchy(np.r_[-1, np.zeros(8, int), 1 + np.arange(8000) // 1000])
    truth = sparse_truth(tree, 1, rng) * 5
    scale = 3 / 0.1  # epsilon 0.1 over three measured levels
    decay = 1 - np.exp(-1 / scale)
    shape = (tree.nodes, runs)
    noisy = truth + rng.geometric(decay, size=shape) - rng.geometric(decay, size=shape)
    est = consistency(tree, noisy, laplace_variance(scale))
    clipped = np.where(tree.leaf[:, None], np.maximum(noisy, 0), 0.0)
    for block in tree.up():
        clipped[block.parents] = block.total(clipped[block.children])
    tables = {
        "consistent": est.values,
        "after everything": rounding(tree, nonnegativity(tree, est)),
        "cells clipped, then added": clipped,
    }
    print(f"\nmean error of totals over {runs} releases at epsilon 0.1 (in standard errors)")
    print(f"{'':<28}{'nation':>20}{'regions, worst of 8':>24}")
    for name, table in tables.items():
        error = table[:9] - truth[:9]
        mean, deviation = error.mean(axis=1), error.std(axis=1, ddof=1) / np.sqrt(runs)
        worst = 1 + int(np.abs(mean[1:] / deviation[1:]).argmax())
        cells = [f"{mean[i]:+.1f} ({mean[i] / deviation[i]:+.1f} s.e.)" for i in (0, worst)]
        print(f"{name:<28}{cells[0]:>20}{cells[1]:>24}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out the largest case")
    parser.add_argument("--bias", action="store_true", help="measure the bias of totals as well")
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        json.dump(run(options.case), sys.stdout)
        return
    growth([name for name in CASES if not (options.quick and "1,000,000 leaves x" in name)])
    if options.bias:
        bias()


if __name__ == "__main__":
    main()
