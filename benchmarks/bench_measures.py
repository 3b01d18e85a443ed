"""Sums, means and medians of a million records by region and sex: error and seconds, beside other libraries.

    python -m benchmarks.bench_measures [--records 1000000] [--runs 200] [--json]

Incomes are made up: log-normal within each of ten regions and two sexes, of sizes that differ by a factor of
fifty, in whole dollars. Every library gets the same values, the same bounds 0 to 150 000, for medians the same
grid of 10 dollars where it has one, and for each statistic the whole ε for every group, since groups are
disjoint. Ours counts values by itself, and pays for its margins out of ε, those of a chosen median with 1/20 of it
(``margin_share``); OpenDP halves the budget of a
mean between sum and count; diffprivlib takes the number of values for public, and guarantees ε for a record
that is replaced by another one, where others guarantee it for one that joins or leaves: the last column of a
row is our error with that guarantee as well, which has half of ε, over theirs. Peers are used where they are
installed (the ``bench`` extra for OpenDP). OpenDP's sums and scores are computed once and their noise drawn
anew for every run, which gives the same error as running all of it; its seconds are those of all of it.

The error is the root mean square over groups and runs, ``times`` ours over the peer's, and ``held`` how often
our margins held, at a stated 90 %.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.channel import SecureChannel
from tabularium.mechanisms.histograms.bounded_sums import BoundedSums
from tabularium.mechanisms.histograms.quantile_choices import QuantileChoices
from tabularium.mechanisms.inference import margins
from tabularium.mechanisms.inference.margins_of_error.quantile_margins import (
    chosen_interval,
    chosen_position,
    tree_over,
)
from tabularium.mechanisms.inference.margins_of_error.ratio_intervals import ratio_interval, ratio_of
from tabularium.mechanisms.noise.synthetic import generator

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Published = tuple[Floats, Floats, Floats]
"""Numbers of all groups, and the ends of their intervals."""

GROUPS = 20
LOW, HIGH, BIN = 0, 150_000, 10
BINS = (HIGH - LOW) // BIN + 1
KINDS = ("sum", "mean", "median", "median with 1/4 for its margin", "median by tree")
EPSILONS = (Fraction(1, 10), Fraction(1))
LEVEL = 0.9
HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Peer:
    """What another library publishes.

    Attributes
    ----------
    publish
        Number of a group to a number for it, with new noise.
    seconds
        Of publishing all groups once, from the values.
    """

    publish: Callable[[int], float]
    seconds: float


def incomes(records: int) -> list[Integers]:
    """Return the clamped incomes of every group."""
    rng = generator(records)
    parts = np.geomspace(1, 50, GROUPS)
    sizes = np.maximum(1, (parts / parts.sum() * records).astype(int))
    found = (rng.lognormal(10 + 0.02 * group, 0.8, size) for group, size in enumerate(sizes))
    return [np.clip(np.rint(each), LOW, HIGH).astype(np.int64) for each in found]


def true(kind: str, groups: list[Integers]) -> Floats:
    """Return what is to be estimated, on no grid."""
    how: dict[str, Callable[[Integers], Any]] = {"sum": np.sum, "mean": np.mean}
    return np.array([how.get(kind, np.median)(each) for each in groups], np.float64)


def arrays(kind: str, groups: list[Integers]) -> Integers:
    """Return the array that we measure."""
    if kind.startswith("median"):
        places = [np.rint(each / BIN).astype(np.int64) for each in groups]
        if kind != "median by tree":
            return np.array([np.bincount(each, minlength=BINS) for each in places])
        tree = tree_over(BINS)
        nodes = [np.concatenate(tree.nodes_of(each)) for each in places]
        return np.array([np.bincount(each, minlength=tree.parts) for each in nodes])
    above = np.array([each.sum() for each in groups])
    sizes = np.array([len(each) for each in groups])
    return above if kind == "sum" else np.stack([above, sizes * HIGH - above], axis=1)


def ours(kind: str, array: Integers, epsilon: Fraction) -> Published:
    """Publish one statistic of all groups."""
    channel = SecureChannel(epsilon, definition="pure")
    if kind.startswith("median") and kind != "median by tree":
        share = "1/20" if kind == "median" else "1/4"
        rows = QuantileChoices(margin_share=share).release(array, channel)
        assert isinstance(rows.variances, float)
        beside = np.full(rows.values.shape, rows.variances)
        low, high = chosen_interval(rows.values, beside, BINS, LEVEL)
        return chosen_position(rows.values) * BIN, low * BIN, high * BIN
    tree = tree_over(BINS)
    change = BoundedSums(1, tree.levels) if kind == "median by tree" else BoundedSums(HIGH)
    release = change.release(array, channel)
    noisy = np.asarray(release.values, np.float64)
    assert isinstance(release.variances, float)
    spread = np.full(noisy.shape, release.variances)
    if kind == "sum":
        half = margins(spread, LEVEL)
        return noisy, noisy - half, noisy + half
    if kind == "mean":
        low, high = ratio_interval(noisy, spread, LEVEL)
        return ratio_of(noisy) * HIGH, low * HIGH, high * HIGH
    low, high = tree.interval(noisy, spread, HALF, LEVEL)
    return tree.quantile_of(noisy, HALF) * BIN, low * BIN, high * BIN


def diffprivlib(kind: str, groups: list[Integers], epsilon: Fraction) -> Peer | None:
    """Return IBM's statistic; None when it is not installed."""
    try:
        from diffprivlib import tools
    except ImportError:
        return None
    statistic, values = (
        getattr(tools, kind.split(maxsplit=1)[0]),
        [each.astype(np.float64) for each in groups],
    )

    def publish(group: int) -> float:
        return float(statistic(values[group], epsilon=float(epsilon), bounds=(LOW, HIGH)))

    return Peer(publish, _seconds(lambda: [publish(group) for group in range(GROUPS)]))


def opendp(kind: str, groups: list[Integers], epsilon: Fraction) -> Peer | None:
    """Return OpenDP's statistic; None when it is not installed."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=dp.i64)), dp.symmetric_distance()
    lists = [each.tolist() for each in groups]  # sums of 32 bits would overflow
    candidates = list(range(LOW, HIGH + 1, BIN))

    def noisy(before: Any, measurement: Any, part: Fraction) -> tuple[Any, list[Any]]:
        """Return what draws the noise of a statistic, and the statistic of every group without it."""
        make = dp.binary_search_chain(lambda scale: before >> measurement(scale), d_in=1, d_out=float(part))
        scale = dp.binary_search_param(
            lambda scale: before >> measurement(scale), d_in=1, d_out=float(part), T=float
        )
        whole.append(make)
        where = before.output_domain, before.output_metric
        return where >> measurement(scale), [before(each) for each in lists]

    whole: list[Any] = []
    if kind == "median":
        score = dp.t.make_quantile_score_candidates(*space, candidates=candidates, alpha=0.5)
        choose, scores = noisy(
            score, lambda scale: dp.m.then_noisy_max(dp.max_divergence(), scale, negate=True), epsilon
        )
        publish: Callable[[int], float] = lambda group: float(candidates[choose(scores[group])])  # noqa: E731
    else:
        part = epsilon if kind == "sum" else epsilon / 2
        clamped = space >> dp.t.then_clamp((LOW, HIGH)) >> dp.t.then_sum()
        add, sums = noisy(clamped, dp.m.then_laplace, part)
        publish = lambda group: float(add(sums[group]))  # noqa: E731
        if kind == "mean":
            count, sizes = noisy(space >> dp.t.then_count(), dp.m.then_laplace, part)
            publish = lambda group: min(  # noqa: E731
                max(add(sums[group]) / max(count(sizes[group]), 1), LOW), HIGH
            )
    return Peer(publish, _seconds(lambda: [make(each) for each in lists for make in whole]))


def _seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def measured(records: int, runs: int) -> Iterator[dict[str, Any]]:
    """Yield one row for each statistic and ε."""
    groups = incomes(records)
    peers: dict[tuple[str, Fraction], dict[str, tuple[float, float]]] = {}
    for kind in KINDS:
        exact = true(kind, groups)
        for epsilon in EPSILONS:
            start = time.process_time()
            array = arrays(kind, groups)
            found = [ours(kind, array, epsilon) for _ in range(runs)]
            seconds = (time.process_time() - start) / runs
            halved = _error([ours(kind, array, epsilon / 2)[0] for _ in range(runs)], exact)
            held = np.array([(low <= exact + BIN / 2) & (exact - BIN / 2 <= high) for _, low, high in found])
            row: dict[str, Any] = {
                "statistic": kind,
                "epsilon": str(epsilon),
                "ours": _error([numbers for numbers, _, _ in found], exact),
                "ours_seconds": seconds,
                "held": float(held.mean()),
                "margin": float(np.mean([(high - low) / 2 for _, low, high in found])),
            }
            statistic = kind.split(maxsplit=1)[0]
            if (statistic, epsilon) not in peers:
                peers[statistic, epsilon] = dict(_peers(statistic, groups, epsilon, exact, runs))
            for name, (error, taken) in peers[statistic, epsilon].items():
                row |= {name: error, f"{name}_seconds": taken, f"times_{name}": row["ours"] / error}
            if "diffprivlib" in row:
                row["times_diffprivlib_replaced"] = halved / row["diffprivlib"]
            yield row


def _peers(
    statistic: str, groups: list[Integers], epsilon: Fraction, exact: Floats, runs: int
) -> Iterator[tuple[str, tuple[float, float]]]:
    """Yield the error and the seconds of every library that is installed."""
    for name, peer in (("opendp", opendp), ("diffprivlib", diffprivlib)):
        their = peer(statistic, groups, epsilon)
        if their is not None:
            found = [np.array([their.publish(group) for group in range(GROUPS)]) for _ in range(runs)]
            yield name, (_error(found, exact), their.seconds)


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
            print(json.dumps(row), flush=True)
        else:
            cells = (
                f"{key} {value:.4g}" if isinstance(value, float) else value for key, value in row.items()
            )
            print("  ".join(cells), flush=True)


if __name__ == "__main__":
    main()
