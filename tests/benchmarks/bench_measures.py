"""Sums, means and medians of a million records by region and sex: error and seconds, beside other libraries.

    python -m tests.benchmarks.bench_measures [--records 1000000] [--runs 200] [--json]

Incomes are made up: log-normal within each of ten regions and two sexes, of sizes that differ by a factor of
fifty. Every library gets the same values, the same bounds 0 to 150 000, and for each statistic the whole ε for
every group, since groups are disjoint. Ours is on a grid of 100 (a median of 1 000) and counts values by
itself; OpenDP halves the budget of a mean between sum and count; diffprivlib takes the number of values for
public, which costs more than it says where one may join. Peers are used where they are installed (the
``bench`` extra for OpenDP). The error is the root mean square over groups and runs; the last column is ours
over the peer's. Ours come with a margin as well: how often it held.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.channel import SecureChannel
from mechanisms.histograms.bounded_sums import BoundedSums
from mechanisms.inference import margins
from mechanisms.inference.margins_of_error.ratio_intervals import (
    median_interval,
    median_of,
    ratio_interval,
    ratio_of,
)
from mechanisms.noise.synthetic import generator

Floats = NDArray[np.float64]
Statistic = Callable[[int], float]
"""Number of the group to what is published of it."""

GROUPS = 20
LOW, HIGH, STEP, BIN = 0, 150_000, 100, 1_000
KINDS = ("sum", "mean", "median")
EPSILONS = (Fraction(1, 10), Fraction(1))
LEVEL = 0.9


def incomes(records: int) -> list[Floats]:
    """Return the clamped incomes of every group."""
    rng = generator(records)
    parts = np.geomspace(1, 50, GROUPS)
    sizes = np.maximum(1, (parts / parts.sum() * records).astype(int))
    found = (rng.lognormal(10 + 0.02 * group, 0.8, size) for group, size in enumerate(sizes))
    return [np.clip(np.rint(each / STEP) * STEP, LOW, HIGH) for each in found]


def true(kind: str, groups: list[Floats]) -> Floats:
    """Return what is to be estimated; a median is that of values rounded to its bins."""
    how: dict[str, Callable[[Floats], Any]] = {"sum": np.sum, "mean": np.mean, "median": _median}
    return np.array([how[kind](each) for each in groups], np.float64)


def _median(values: Floats) -> float:
    return float(median_of(_bins(values)) * BIN)


def _bins(values: Floats) -> Floats:
    places = np.rint(values / BIN).astype(np.int64)
    return np.bincount(places, minlength=HIGH // BIN + 1).astype(np.float64)


def arrays(kind: str, groups: list[Floats]) -> tuple[NDArray[np.int64], int]:
    """Return the array that we measure, and by how much one record changes it."""
    steps = (HIGH - LOW) // STEP
    if kind == "median":
        return np.array([_bins(each) for each in groups]).astype(np.int64), 1
    above = np.array([int(each.sum()) // STEP for each in groups])
    if kind == "sum":
        return above, steps
    sizes = np.array([len(each) for each in groups])
    return np.stack([above, sizes * steps - above], axis=1), steps


def ours(
    kind: str, array: NDArray[np.int64], largest: int, epsilon: Fraction
) -> tuple[Floats, Floats, Floats]:
    """Publish one statistic of all groups: numbers, and the ends of their intervals."""
    release = BoundedSums(largest).release(array, SecureChannel(epsilon, definition="pure"))
    noisy = np.asarray(release.values, np.float64)
    assert isinstance(release.variances, float)
    spread = np.full(noisy.shape, release.variances)
    if kind == "sum":
        half = margins(spread, LEVEL)
        return noisy * STEP, (noisy - half) * STEP, (noisy + half) * STEP
    if kind == "mean":
        low, high = ratio_interval(noisy, spread, LEVEL)
        return ratio_of(noisy) * HIGH, low * HIGH, high * HIGH
    low, high = median_interval(noisy, spread, LEVEL)
    return median_of(noisy) * BIN, low * BIN, high * BIN


def diffprivlib(kind: str, groups: list[Floats], epsilon: Fraction) -> Statistic | None:
    """Return IBM's statistic; None when it is not installed."""
    try:
        from diffprivlib import tools
    except ImportError:
        return None
    publish = getattr(tools, kind)
    return lambda group: float(publish(groups[group], epsilon=float(epsilon), bounds=(LOW, HIGH)))


def opendp(kind: str, groups: list[Floats], epsilon: Fraction) -> Statistic | None:
    """Return OpenDP's statistic; None when it is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.symmetric_distance()
    lists = [each.astype(int).tolist() for each in groups]

    def summing(part: Fraction) -> Any:
        return (
            space >> dp.t.then_clamp((LOW, HIGH)) >> dp.t.then_sum() >> dp.m.then_laplace(HIGH / float(part))
        )

    if kind == "sum":
        whole = summing(epsilon)
        return lambda group: float(whole(lists[group]))
    if kind == "mean":
        half, count = (
            summing(epsilon / 2),
            space >> dp.t.then_count() >> dp.m.then_laplace(2 / float(epsilon)),
        )
        return lambda group: min(max(half(lists[group]) / max(count(lists[group]), 1), LOW), HIGH)
    candidates = list(range(LOW, HIGH + 1, BIN))
    quantile = dp.binary_search_param(
        lambda scale: dp.m.make_private_quantile(*space, dp.max_divergence(), candidates, 0.5, scale),
        d_in=1,
        d_out=float(epsilon),
    )
    chosen = dp.m.make_private_quantile(*space, dp.max_divergence(), candidates, 0.5, quantile)
    return lambda group: float(chosen(lists[group]))


def measured(records: int, runs: int) -> Iterator[dict[str, Any]]:
    """Yield one row for each statistic and ε."""
    groups = incomes(records)
    for kind in KINDS:
        exact = true(kind, groups)
        for epsilon in EPSILONS:
            start = time.process_time()
            array, largest = arrays(kind, groups)
            found = [ours(kind, array, largest, epsilon) for _ in range(runs)]
            row: dict[str, Any] = {
                "statistic": kind,
                "epsilon": str(epsilon),
                "ours": _error([numbers for numbers, _, _ in found], exact),
                "ours_seconds": (time.process_time() - start) / runs,
                "held": float(np.mean([(low <= exact) & (exact <= high) for _, low, high in found])),
            }
            for name, peer in (("opendp", opendp), ("diffprivlib", diffprivlib)):
                publish = peer(kind, groups, epsilon)
                if publish is None:
                    continue
                start = time.process_time()
                theirs = [np.array([publish(group) for group in range(GROUPS)]) for _ in range(runs)]
                row[f"{name}_seconds"] = (time.process_time() - start) / runs
                row[name] = _error(theirs, exact)
                row[f"times_{name}"] = row["ours"] / row[name]
            yield row


def _error(found: list[Floats], exact: Floats) -> float:
    # Where noise leaves nothing to take a median of, a reader has the bounds and nothing else.
    return float(np.sqrt(np.mean((np.nan_to_num(np.array(found), nan=(LOW + HIGH) / 2) - exact) ** 2)))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for row in measured(options.records, options.runs):
        if options.json:
            print(json.dumps(row))
        else:
            print(
                "  ".join(
                    f"{key} {value:.4g}" if isinstance(value, float) else value for key, value in row.items()
                )
            )


if __name__ == "__main__":
    main()
