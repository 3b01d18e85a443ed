"""AHP: its greedy clusters, what it clears of noise, and its two draws."""

from __future__ import annotations

from fractions import Fraction
from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.histograms.clustering import Ahp, cluster_starts, least_error
from tabularium.mechanisms.noise.synthetic import generator
from tests.sizes import runs

# --- clusters ---------------------------------------------------------------------------------------


def slow_starts(ascending: list[int], variance: Fraction) -> list[int]:
    """The greedy clusters as they are defined, in exact numbers, all sums afresh."""

    def error(cluster: list[int]) -> Fraction:
        mean = Fraction(sum(cluster), len(cluster))
        return sum(((h - mean) ** 2 for h in cluster), Fraction(0)) + variance / len(cluster)

    def least(place: int) -> Fraction:
        rest = ascending[place:]
        return min(
            (rest[0] - Fraction(sum(rest[:size]), size)) ** 2 + variance / size**2
            for size in range(1, len(rest) + 1)
        )

    starts, cluster = [0], ascending[:1]
    for place in range(1, len(ascending)):
        if error([*cluster, ascending[place]]) < error(cluster) + least(place):
            cluster = [*cluster, ascending[place]]
        else:
            starts, cluster = [*starts, place], [ascending[place]]
    return starts


@settings(max_examples=runs(100, 400), deadline=None)
@given(
    st.lists(st.one_of(st.integers(0, 12), st.integers(-100, 1000)), min_size=1, max_size=10),
    st.integers(1, 4000),
)
def test_clusters_are_those_of_the_definition(counts: list[int], noise: int) -> None:
    """Up to nine counts ahead every length is tried. The variance, of large primes, makes no exact ties."""
    variance = Fraction(noise * 7919, 3 * 7907)
    ascending = sorted(counts)
    found = cluster_starts(np.array(ascending, dtype=np.float64), float(variance))
    assert found.tolist() == slow_starts(ascending, variance)


def test_two_clusters_by_hand() -> None:
    """Variance 4. 0 joins 0: 2 < 4 + 4. Then 9 would make it 54 + 4/3, against 2 + 4: it opens its own."""
    assert cluster_starts(np.array([0.0, 0.0, 9.0]), 4.0).tolist() == [0, 2]
    assert cluster_starts(np.array([0.0, 0.0, 9.0]), 1000.0).tolist() == [0]
    assert cluster_starts(np.array([5.0]), 1.0).tolist() == [0]


def test_the_least_error_is_near_the_least_over_all_lengths() -> None:
    rng = generator(3)
    for variance in (1.0, 100.0, 1e5):
        ascending = np.sort(np.append(np.zeros(300), rng.geometric(0.02, 500))).astype(np.float64)
        sums = np.append(0.0, np.cumsum(ascending))
        for here in (0, 299, 300, 500, 799):
            sizes = np.arange(1, 801 - here)
            means = (sums[here + sizes] - sums[here]) / sizes
            exact = ((ascending[here] - means) ** 2 + variance / sizes**2).min()
            found = least_error(ascending, sums, here, variance)
            assert exact * (1 - 1e-9) <= found <= exact * 1.3


# --- the mechanism ----------------------------------------------------------------------------------


def test_every_cell_has_the_mean_of_its_cluster() -> None:
    counts = np.repeat([0, 50, 400], [60, 30, 10]).reshape(10, 10)
    mechanism = Ahp(nonnegative=False)
    measured = mechanism.measure(counts, SeededChannel(1, seed=4))
    release = mechanism.finish(measured)
    noisy, starts, sums = (measured.arrays[key] for key in ("cells", "starts", "sums"))
    ranked = release.values.reshape(-1)[np.argsort(noisy.reshape(-1), kind="stable")]
    sizes = np.diff(starts, append=100)
    assert np.array_equal(ranked, np.repeat(sums / sizes, sizes))
    assert release.values.sum() == pytest.approx(sums.sum())
    assert release.diagnostics == {
        "clusters": starts.size,
        "largest_cluster": int(sizes.max()),
        "single_cells": int((sizes == 1).sum()),
    }


def test_small_noisy_counts_are_taken_for_zero() -> None:
    """With n cells and noise of scale s, up to η·ln(n)·s; a budget of 1 and a share of 1/2 give s = 2."""
    mechanism = Ahp(grouping="threshold", threshold="1/2", share="1/2")
    measured = mechanism.measure(np.zeros(100, dtype=np.int64), SeededChannel(1, seed=1))
    event = measured.transcript[0]
    assert event.scale == 2
    cleared = mechanism._cleared(np.arange(-5, 12), event)
    bound = 0.5 * log(17) * 2
    assert cleared.tolist() == [0 if count <= bound else count for count in range(-5, 12)]


def test_large_counts_are_told_apart_as_finely_as_the_noise_allows() -> None:
    """Expected counts are known in steps of a 64th; at 20 000 that would be far more than the noise."""
    rng = generator(5)
    counts = rng.integers(10_000, 20_000, 2000)
    release = Ahp().release(counts, SeededChannel(1, seed=1))
    assert np.abs(release.values - counts).mean() < 12  # ε2 = 1/10


def test_negative_means_are_released_as_zero() -> None:
    counts = np.zeros(400, dtype=np.int64)
    kept = Ahp(grouping="threshold", threshold="0", nonnegative=False)
    cut = Ahp(grouping="threshold", threshold="0")
    values = [kept.release(counts, SeededChannel("1/10", seed=seed)).values for seed in range(8)]
    again = [cut.release(counts, SeededChannel("1/10", seed=seed)).values for seed in range(8)]
    assert min(value.min() for value in values) < 0
    for one, other in zip(values, again, strict=True):
        assert np.array_equal(np.maximum(one, 0), other)
