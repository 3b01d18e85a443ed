"""Answers of queries beside sums of published cells: bias, and the standard deviation stated and seen.

For every mechanism whose linear measurements are not noise on every cell, on a row and on a table of counts:
ranges or boxes that were fixed before anything was drawn, asked of many seeded draws. ``python -m
benchmarks.bench_queries --draws 400``.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from fractions import Fraction
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.linear_measurements.linear_measurement import Sums
from tabularium.mechanisms.mechanism import Mechanism
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.queries import Attribute, Axes
from tabularium.mechanisms.queries.sources import LinearTable, MeasuredLevel, table_of

Floats = NDArray[np.float64]
MECHANISMS: dict[str, dict[str, Any]] = {
    "boost": {},
    "privelet": {},
    "denoise": {"workload": "ranges"},
    "kd_tree": {},
    "hierarchical_kd_tree": {"height": 5},
    "dawa": {"workload": "ranges"},
    "structure_first": {"largest_count": 400, "boost": True},
    "p_hpartition": {},
    "ahp": {},
    "sreb_gca": {},
    "uniform": {},
}
SHAPES = ((512,), (24, 20))
QUERIES = 12


def boxes(shape: tuple[int, ...]) -> list[tuple[slice, ...]]:
    """The whole table and random boxes of it."""
    rng, found = generator(1), [tuple(slice(0, side) for side in shape)]
    while len(found) < QUERIES:
        ends = [np.sort(rng.choice(side + 1, 2, replace=False)) for side in shape]
        found.append(tuple(slice(int(low), int(high)) for low, high in ends))
    return found


def counts_of(shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Counts in steps, half of the table nearly empty."""
    rng = generator(2)
    flat = rng.poisson(
        np.repeat([0.1, 30, 0.1, 4, 90, 0.1, 12, 0.1], -(-np.prod(shape) // 8))[: np.prod(shape)]
    )
    return flat.reshape(shape)


def answers(
    mechanism: Mechanism, counts: NDArray[np.int64], draws: int, budget: Fraction
) -> Iterator[tuple[Floats, Floats, Floats, Floats]]:
    """Yield of every draw answers, their stated variances (not a number if there is none), those of the noisy
    cells among the measurements, and the published sums."""
    axes = Axes(None, tuple(Attribute.bins(f"x{i}", list(range(n + 1))) for i, n in enumerate(counts.shape)))
    for seed in range(draws):
        measured = mechanism.measure(counts, SeededChannel(budget, seed=seed))
        published, linear = mechanism.finish(measured).values, mechanism.linear_measurements(measured)
        assert linear is not None
        table = table_of(axes, [MeasuredLevel(np.array([0]), linear)], None, axes.shape)
        assert isinstance(table, LinearTable)
        single = next(filter(None, (stage.single_cells() for stage in linear.stages())), None)
        rows = []
        for box in boxes(counts.shape):
            chosen = np.zeros((1, *counts.shape), bool)
            chosen[(0, *box)] = True
            found = table.parts(chosen, np.zeros_like(chosen))
            alone = np.nan
            if single is not None:
                alone = single.covariances(Sums(np.where(chosen.reshape(-1), 0, -1), 1))[0, 0, 0]
            own = (np.nan, np.nan) if found is None else (found[0][0], found[1][0, 0])
            rows.append((*own, alone, published[box].sum()))
        yield tuple(np.array(column, float) for column in zip(*rows, strict=True))  # type: ignore[misc]


def main() -> None:
    """Print a line for each mechanism and shape."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--budget", type=Fraction, default=Fraction(1, 2))
    parser.add_argument("--only", nargs="*", choices=MECHANISMS, default=list(MECHANISMS))
    wanted = parser.parse_args()
    print(
        "mechanism, cells: answered | bias/s.e. | sd seen/stated | sd stated, of cells | published: bias, rmse"
    )
    for shape in SHAPES:
        counts = counts_of(shape)
        true = np.array([counts[box].sum() for box in boxes(shape)], float)
        for name in wanted.only:
            found = answers(build(name, **MECHANISMS[name]), counts, wanted.draws, wanted.budget)
            value, variance, alone, published = (np.array(each) for each in zip(*found, strict=True))
            known = np.isfinite(variance)
            error = np.where(known, value - true, np.nan)
            some = known.sum(axis=0) > 1
            if some.any():
                z = error / np.sqrt(variance)
                number = known[:, some].sum(axis=0)
                bias = np.nanmean(z[:, some], axis=0) * np.sqrt(number)
                seen = np.nanmean(z[:, some] ** 2) ** 0.5
                stated = sqrt(np.nanmean(variance[:, some]))
                cells = sqrt(alone[:, some].mean())
                own = f"{np.abs(bias).max():5.1f} | {seen:5.3f} | {stated:7.1f} {cells:7.1f}"
            else:
                own = "    – |     – |       –       –"
            off = published - true
            print(
                f"{name:>20} {'x'.join(map(str, shape)):>6}: {known.mean():4.0%} | {own} | "
                f"{np.abs(off.mean(axis=0)).mean():6.1f} {sqrt((off**2).mean()):6.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
