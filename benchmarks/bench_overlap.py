"""Post-processing of several tables at size: seconds and peak memory of each step, and how they grow.

    python -m benchmarks.bench_overlap [--quick] [--hard]

Three tables over a hierarchy (nation, 8 provinces, 60 districts, regions), 50 cells at every node: region x
age x sex, region x education x sex and region x occupation. They agree on region x sex and on region. All
levels are measured with noise of scale 10; a region has 50 records on average, so most cells are empty.
The curve has 10^4, 10^5 and 10^6 cells a table.

Then 10^5 cells a table with what makes it harder: public invariants (a national total by sex, populations of
all regions) and variances that differ from cell to cell, which rules the direct solution out. ``--hard``
adds three tables each pair of which shares a marginal of every region, where whole numbers that meet all sums
need not exist.

Every case runs in a process of its own, for a peak memory of its own, which includes the interpreter (with
SciPy), the truth and the measurements. The last columns are what the rounding could not do: how many
equations do not hold and how many cells are further than 1 from their unrounded value.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.inference import (
    Hierarchy,
    TableSet,
    TableShape,
    joint_consistency,
    joint_nonnegativity,
    joint_rounding,
)
from tabularium.mechanisms.noise.synthetic import generator

SCALE = 10.0
VARIANCE = 2 * SCALE**2
SIZES = {"age": 25, "education": 25, "occupation": 50, "sex": 2, "a": 7, "b": 7, "c": 7}
TABLES = {
    "people": ("age", "sex"),
    "schooling": ("education", "sex"),
    "work": ("occupation",),
}
TRIANGLE = {"ab": ("a", "b"), "ac": ("a", "c"), "bc": ("b", "c")}
Tables = dict[str, NDArray[np.float64]]


def geography(regions: int) -> Hierarchy:
    """1 nation, 8 provinces, 60 districts, so many regions."""
    provinces = np.arange(60) * 8 // 60
    return Hierarchy(np.r_[-1, np.zeros(8, int), 1 + provinces, 9 + np.arange(regions) * 60 // regions])


def counts(tree: Hierarchy, dimensions: dict[str, tuple[str, ...]], rng: np.random.Generator) -> Tables:
    """Tables of one made-up set of records: small and large regions, common and rare categories."""
    leaves = np.flatnonzero(tree.leaf)
    records = 50 * len(leaves)
    place = leaves[(rng.integers(0, len(leaves), records) * rng.random(records)).astype(int)]
    code = {
        name: np.minimum((rng.exponential(size / 4, records)).astype(int), size - 1)
        for name, size in SIZES.items()
    }
    tables = {}
    for table, names in dimensions.items():
        cell = np.zeros(records, dtype=int)
        for name in names:
            cell = cell * SIZES[name] + code[name]
        cells = int(np.prod([SIZES[name] for name in names]))
        tables[table] = np.bincount(place * cells + cell, minlength=tree.nodes * cells).astype(float)
        tables[table] = tables[table].reshape(tree.nodes, cells)
        for block in tree.up(cells):
            tables[table][block.parents] = block.total(tables[table][block.children])
    return tables


def problem(regions: int, *, invariants: bool = False, unequal: bool = False, hard: bool = False) -> Any:
    """Shapes, truth, measurements and variances."""
    rng, tree = generator(7), geography(regions)
    dimensions = TRIANGLE if hard else TABLES
    truth = counts(tree, dimensions, rng)
    frames = {
        name: TableShape({each: SIZES[each] for each in names}, "region", tree)
        for name, names in dimensions.items()
    }
    variances = {name: np.full((tree.nodes, 1), VARIANCE) for name in frames}
    if unequal:
        variances = {
            name: VARIANCE * np.exp(rng.uniform(-1, 1, size=frame.shape)) for name, frame in frames.items()
        }
    values = {}
    for name, table in truth.items():
        scale = np.sqrt(variances[name] / 2)
        values[name] = table + np.rint(rng.laplace(scale=1.0, size=table.shape) * scale)
    if invariants:
        frames |= {"national": TableShape({"sex": 2}), "populations": TableShape({}, "region", tree)}
        values["national"] = truth["people"][:1].reshape(25, 2).sum(axis=0)[None]
        values["populations"] = truth["people"].sum(axis=1, keepdims=True)
        exact = np.zeros((tree.nodes, 1))
        exact[0] = np.inf
        variances |= {"national": np.zeros((1, 1)), "populations": exact}
    return TableSet(frames), truth, values, variances


CASES: dict[str, Callable[[], Any]] = {
    "    200 regions,    10,000 cells": lambda: problem(200),
    "  2,000 regions,   100,000 cells": lambda: problem(2_000),
    " 20,000 regions, 1,000,000 cells": lambda: problem(20_000),
    "  2,000 regions, invariants": lambda: problem(2_000, invariants=True),
    "  2,000 regions, unequal variances": lambda: problem(2_000, unequal=True),
    "  2,000 regions, both": lambda: problem(2_000, invariants=True, unequal=True),
    "    500 regions, three marginals each": lambda: problem(500, hard=True),
}


def run(name: str) -> dict[str, Any]:
    """Time one case in this process."""
    overlap, truth, values, variances = CASES[name]()
    seconds, processor = {}, {}
    made: Any = None
    for step, work in (
        ("consistency", lambda _: joint_consistency(overlap, values, variances)),
        ("non-negativity", lambda made: joint_nonnegativity(overlap, made.estimates)),
        ("rounding", lambda made: joint_rounding(overlap, made.estimates)),
    ):
        start, begun = time.perf_counter(), time.process_time()
        made = work(made)
        seconds[step], processor[step] = time.perf_counter() - start, time.process_time() - begun
    assert all(table.min() >= 0 for table in made.tables.values())
    equations = [violation for violation in made.violations if violation.kind != "cell"]
    if not equations:
        assert overlap.gap(made.tables) == 0
    leaves = {name: overlap.tables[name].tree.leaf for name in truth}
    error = [np.abs(made.tables[name] - table)[leaves[name]].mean() for name, table in truth.items()]
    raw = [np.abs(values[name] - table)[leaves[name]].mean() for name, table in truth.items()]
    return {
        "seconds": seconds,
        "processor": processor,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "error": float(np.mean(error)),
        "raw": float(np.mean(raw)),
        "equations": len(equations),
        "far": len(made.violations) - len(equations),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="leave out the largest case")
    parser.add_argument("--hard", action="store_true", help="add tables that share three marginals")
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        json.dump(run(options.case), sys.stdout)
        return
    print(
        f"{'three tables of':<37}{'consist':>9}{'non-neg':>9}{'round':>8}{'three':>8}{'cpu':>8}"
        f"{'peak MiB':>10}{'|error|':>9}{'raw':>7}{'unmet':>7}{'far':>5}"
    )
    for name in CASES:
        if (options.quick and "1,000,000" in name) or (not options.hard and "marginals" in name):
            continue
        command = [sys.executable, "-m", "benchmarks.bench_overlap", "--case", name]
        case = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        steps = list(case["seconds"].values())
        print(
            f"{name:<37}{steps[0]:>9.2f}{steps[1]:>9.2f}{steps[2]:>8.2f}{sum(steps):>8.2f}"
            f"{sum(case['processor'].values()):>8.2f}{case['peak']:>10.0f}{case['error']:>9.2f}"
            f"{case['raw']:>7.2f}{case['equations']:>7}{case['far']:>5}",
            flush=True,
        )


if __name__ == "__main__":
    main()
