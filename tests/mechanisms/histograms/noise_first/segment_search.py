"""The best segmentations found by looking at all of them: what the kernels are compared with."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def error_of_run(tables: NDArray[np.int64], a: int, b: int, centre: str) -> Floats:
    """Return the error of the run [a, b) of every table, (tables,); small integers only."""
    run = tables[:, a:b]
    if centre == "mean":
        # Σy² - (Σy)²/m = (m·Σy² - (Σy)²)/m, exact up to the division
        return np.asarray(((b - a) * (run**2).sum(axis=1) - run.sum(axis=1) ** 2) / (b - a))
    return np.abs(run - np.sort(run, axis=1)[:, [(b - a) // 2]]).sum(axis=1).astype(np.float64)


def all_errors(tables: NDArray[np.int64], centre: str) -> Floats:
    """Return the least error for each number of runs, (n, tables), over all 2^(n-1) segmentations."""
    count, n = tables.shape
    errors = {(a, b): error_of_run(tables, a, b, centre) for a in range(n) for b in range(a + 1, n + 1)}
    least = np.full((n, count), np.inf)
    for runs in range(1, n + 1):
        for cuts in combinations(range(1, n), runs - 1):
            edges = (0, *cuts, n)
            total = sum(errors[a, b] for a, b in pairwise(edges))
            least[runs - 1] = np.minimum(least[runs - 1], total)
    return least


def error_of(table: Any, starts: Any, centre: str) -> Fraction:
    """Return the exact error of one segmentation."""
    values = [Fraction(value) for value in np.asarray(table).tolist()]
    total = Fraction(0)
    for a, b in pairwise([*np.asarray(starts).tolist(), len(values)]):
        run = values[a:b]
        middle = sum(run) / len(run) if centre == "mean" else sorted(run)[len(run) // 2]
        total += sum((v - middle) ** 2 if centre == "mean" else abs(v - middle) for v in run)
    return total


def least_cost(table: Any, centre: str, price: Fraction) -> Fraction:
    """Return the least error plus price of runs, exactly, by the quadratic recursion."""
    n = len(table)
    best = [Fraction(0)]
    for b in range(1, n + 1):
        best.append(min(best[a] + error_of(table[a:b], [0], centre) + price for a in range(b)))
    return best[n]


def least_costs(tables: NDArray[np.int64], centre: str, prices: Floats) -> Floats:
    """Return the least error plus price of runs of every table, (tables,), by the quadratic recursion."""
    count, n = tables.shape
    best = np.zeros((n + 1, count))
    for b in range(1, n + 1):
        ends = [best[a] + error_of_run(tables, a, b, centre) for a in range(b)]
        best[b] = np.min(ends, axis=0) + prices
    return best[n]


def cost_of(table: NDArray[np.int64], starts: NDArray[np.int64], centre: str, price: float) -> float:
    """Return the error plus price of runs of one segmentation."""
    edges = pairwise([*starts.tolist(), table.size])
    return sum(float(error_of_run(table[None], a, b, centre)[0]) + price for a, b in edges)
