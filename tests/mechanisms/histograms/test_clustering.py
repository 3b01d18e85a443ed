"""AHP: its greedy clusters, what it clears of noise, and its two draws."""

from __future__ import annotations

from fractions import Fraction
from math import exp, log, pi, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.mechanisms import build
from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.histograms.clustering import (
    Ahp,
    SrebGca,
    _mean_deviation,
    cluster_starts,
    group_starts,
    least_error,
    odds,
    relative_errors,
)
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import Noise, noise_of
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


# --- SReB_GCA: its greedy groups, its two draws, and what it says about its relative error -----------


def starts_of(ascending: list[int], noise: float) -> list[int]:
    return group_starts(np.array(ascending, dtype=np.float64), noise, 1.0).tolist()


# --- groups -----------------------------------------------------------------------------------------


def slow_groups(ascending: list[int], noise: Fraction) -> list[int]:
    """Definition 5 as it reads, in exact numbers, all sums afresh."""

    def whole_error(group: list[int]) -> Fraction:
        mean = Fraction(sum(group), len(group))
        return sum(((abs(h - mean) + noise / len(group)) / max(h, 1) for h in group), Fraction(0))

    starts, group = [0], ascending[:1]
    for place in range(1, len(ascending)):
        count = ascending[place]
        joined = whole_error([*group, count]) / (len(group) + 1)
        alone = noise / ((len(ascending) - place) * max(count, 1))
        if joined < (whole_error(group) + alone) / (len(group) + 1):
            group = [*group, count]
        else:
            starts, group = [*starts, place], [count]
    return starts


@settings(max_examples=runs(100, 400), deadline=None)
@given(
    st.lists(st.one_of(st.integers(-5, 12), st.integers(-100, 1000)), min_size=1, max_size=14),
    st.integers(1, 4000),
)
def test_groups_are_those_of_the_definition(counts: list[int], noise: int) -> None:
    """Noise in thirds of a prime: exact ties between the two sides do not come up by design."""
    exact = Fraction(noise * 7919, 3 * 7907)
    assert starts_of(sorted(counts), float(exact)) == slow_groups(sorted(counts), exact)


def test_groups_by_hand() -> None:
    """0, 0, 9, 10 with noise 2.

    0 joins 0: the errors stay at 2 in all, and 2/3 may be added. 9 would make them
    3 + 3 + 6/9 + (2/3)(1 + 1 + 1/9) > 2 + 2/18: it opens a group, with error 2/9. 10 joins it, since
    0.5/9 + 0.5/10 + 1/9 + 1/10 = 0.317 < 2/9 + 2/10.
    """
    assert starts_of([0, 0, 9, 10], 2.0) == [0, 2]


def test_equal_counts_make_one_group_and_little_noise_makes_many() -> None:
    assert starts_of([7] * 50, 3.0) == [0]
    assert starts_of([1, 5, 9, 20], 1e-9) == [0, 1, 2, 3]
    assert starts_of([4], 1.0) == [0]


def test_after_a_group_is_closed_the_scan_goes_on_with_the_next_cell() -> None:
    """As printed, the cell that closes a group would be compared with itself."""
    assert starts_of([1, 100, 100, 100], 5.0) == [0, 1]


def test_sums_do_not_lose_small_cells_beside_large_ones() -> None:
    """A million of zeros first, then pairs of counts near 2^40: each pair is told from the next."""
    large = np.repeat((1 << 40) + np.arange(4) * (1 << 20), 2)
    found = group_starts(np.append(np.zeros(1 << 16), large).astype(np.float64), 1.0, 1.0)
    assert found.tolist() == [0, *(65536 + 2 * np.arange(4))]


# --- the mechanism ----------------------------------------------------------------------------------


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
@pytest.mark.parametrize("grouping", ["expected", "noisy"])
@pytest.mark.parametrize("shape", [(1,), (2,), (13,), (3, 5), (2, 2, 3)], ids=str)
def test_one_draw_per_group(definition: str, grouping: str, shape: tuple[int, ...]) -> None:
    counts = np.arange(np.prod(shape)).reshape(shape) ** 2
    channel = SeededChannel(1, seed=4, definition=definition)
    mechanism = SrebGca(Fraction(1, 3), grouping, nonnegative=False)
    measured = mechanism.measure(counts, channel)
    release = mechanism.finish(measured)
    first, second = measured.transcript
    assert (first.purpose, first.loss, first.shape) == ("order", Fraction(1, 3), shape)
    assert (second.purpose, second.loss) == ("groups", Fraction(2, 3))
    assert first.sensitivity == second.sensitivity == 1
    assert second.shape == measured.arrays["starts"].shape
    assert channel.remaining == 0
    order = np.argsort(measured.arrays["cells"].reshape(-1), kind="stable")
    parts = np.split(order, measured.arrays["starts"][1:])
    assert release.diagnostics["groups"] == len(parts)
    for part, noisy in zip(parts, measured.arrays["sums"], strict=True):
        assert release.values.reshape(-1)[part] == pytest.approx(noisy / part.size)
    assert release.values.shape == shape
    assert release.variances is None


def test_with_next_to_no_noise_the_table_comes_back() -> None:
    counts = np.array([[3, 0, 500], [12, 0, 1 << 40]])
    release = SrebGca().release(counts, SeededChannel(10**5, seed=1))
    assert np.array_equal(release.values, counts)
    assert release.diagnostics["relative_error"]["mean"] < 5e-3  # points of odds are 1/64 apart


def test_order_and_groups_come_from_the_noisy_counts_alone() -> None:
    """The noisy counts of one table, with another table's sums: the same cells go together."""
    one, other = np.arange(50), np.arange(50)[::-1].copy()
    for grouping in ("expected", "noisy"):
        mechanism = SrebGca(grouping=grouping)
        kept = mechanism.measure(one, SeededChannel(1, seed=1)).arrays
        channel = _Repeating(kept["cells"])
        arrays, _ = mechanism.draw(other, channel)  # type: ignore[arg-type]
        assert np.array_equal(arrays["starts"], kept["starts"])


class _Repeating:
    """A channel whose first draw is given, and whose second adds nothing."""

    definition = "pure"
    remaining = Fraction(1)

    def __init__(self, cells: np.ndarray) -> None:
        self._inner = SeededChannel(1, seed=1)
        self._given = [cells]

    @property
    def transcript(self):  # type: ignore[no-untyped-def]
        return self._inner.transcript

    def add_noise(self, values, epsilon, *, purpose):  # type: ignore[no-untyped-def]
        self._inner.laplace(values, epsilon, purpose=purpose)
        return self._given.pop() if self._given else values


def test_negative_noisy_counts_and_means() -> None:
    """Empty cells and a small budget: about half of the noisy counts are negative, and some means."""
    counts = np.zeros(400, dtype=np.int64)
    kept = SrebGca(grouping="noisy", nonnegative=False).release(counts, SeededChannel("1/10", seed=2))
    cut = SrebGca(grouping="noisy").release(counts, SeededChannel("1/10", seed=2))
    assert kept.values.min() < 0
    assert np.array_equal(cut.values, np.maximum(kept.values, 0))


@pytest.mark.parametrize("budget", [Fraction(1, 20), Fraction(1), Fraction(4)])
def test_the_mean_deviation_is_that_of_the_noise(budget: Fraction) -> None:
    z = np.arange(1, 4000)
    p = exp(-float(budget))
    assert _mean_deviation("pure", budget) == pytest.approx(2 * ((1 - p) / (1 + p) * p**z * z).sum())
    assert _mean_deviation("zcdp", budget) == pytest.approx(sqrt(1 / (2 * budget)) * sqrt(2 / pi))


def test_a_huge_budget_has_no_noise_to_speak_of() -> None:
    assert 0 < _mean_deviation("pure", Fraction(10**6)) < 1e-300


# --- relative errors --------------------------------------------------------------------------------


def skewed(size: int = 6000) -> np.ndarray:
    """Most cells empty or small, a few large: like a table of small areas."""
    rng = generator(9)
    return rng.geometric(0.4, size) * rng.integers(0, 2, size) + (rng.pareto(1.2, size) * 3).astype(np.int64)


def relative_error(release: np.ndarray, counts: np.ndarray) -> float:
    return float((np.abs(release - counts) / np.maximum(counts, 1)).mean())


@pytest.mark.parametrize(("epsilon", "part"), [("1/100", 0.3), ("1/10", 0.6), ("1", 1.0)])
def test_small_cells_gain_over_noise_on_every_cell(epsilon: str, part: float) -> None:
    counts = skewed()
    ours = SrebGca().release(counts, SeededChannel(epsilon, seed=1)).values
    plain = build("identity").release(counts, SeededChannel(epsilon, seed=1)).values
    assert relative_error(ours, counts) < part * relative_error(plain, counts)


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
@pytest.mark.parametrize("budget", ["1/10", "1"])
def test_the_estimated_relative_error_is_near_the_true_one(definition: str, budget: str) -> None:
    """Within a quarter in all, and for each class with many cells that the noise can tell from others."""
    counts = skewed()
    release = SrebGca().release(counts, SeededChannel(budget, seed=3, definition=definition))
    said = release.diagnostics["relative_error"]
    assert said["mean"] == pytest.approx(relative_error(release.values, counts), rel=0.25)
    assert sum(each["cells"] for each in said["by_count"]) == pytest.approx(counts.size, rel=1e-3)
    for each in said["by_count"]:
        inside = (counts >= each["from"]) & (counts <= each["to"])
        if budget == "1" and inside.sum() > 500:
            assert each["cells"] == pytest.approx(inside.sum(), rel=0.1)
            true = relative_error(release.values[inside], counts[inside])
            assert each["mean"] == pytest.approx(true, rel=0.25)


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_large_smooth_counts_are_not_forced_onto_the_points_of_the_odds(definition: Definition) -> None:
    """Counts of 5 000 to 35 000: the points are up to 550 apart, noise on a cell of its own is 9 or so."""
    counts = np.rint(20_000 + 15_000 * np.sin(np.arange(1024) / 75)).astype(np.int64)
    errors = {}
    for grouping in ("expected", "noisy"):
        channel = SeededChannel(1, seed=5, definition=definition)
        values = build("sreb_gca", grouping=grouping).release(counts, channel).values
        errors[grouping] = np.abs(values - counts).mean()
    assert errors["expected"] < 1.02 * errors["noisy"] < 12


def test_odds_without_noise_are_certainties() -> None:
    counts = np.sort(skewed(300))[:280]
    found = odds(counts, Noise("laplace", 1e-3, whole=True))
    assert found.posterior.sum(axis=1) == pytest.approx(1)
    exact = counts[counts < 60]
    assert found.expected()[: exact.size] == pytest.approx(exact)


def test_odds_find_the_prevalences() -> None:
    """Two thirds zeros, one third 40s, under noise of scale 10."""
    counts = np.repeat([0, 40], [20_000, 10_000])
    noisy = np.sort(SeededChannel("1/10", seed=1).laplace(counts, "1/10", purpose="cells"))
    found = odds(noisy, Noise("laplace", 10.0, whole=True))
    share = found.posterior[found.bins].mean(axis=0)
    assert share[found.points < 10].sum() == pytest.approx(2 / 3, abs=0.02)
    assert share[(found.points > 30) & (found.points < 50)].sum() == pytest.approx(1 / 3, abs=0.02)
    expected = found.expected()
    assert (np.diff(expected) >= 0).all()
    assert expected[0] < 1
    assert expected[27_000] == pytest.approx(40, abs=3)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.integers(-50, 50), st.integers(-(1 << 42), 1 << 42)), min_size=1, max_size=30),
    st.sampled_from([1e-3, 0.5, 20.0, 1e6]),
    st.sampled_from(["laplace", "gaussian"]),
)
def test_odds_of_any_noisy_counts(counts: list[int], scale: float, law: str) -> None:
    ascending = np.sort(np.array(counts))
    found = odds(ascending, noise_of(law, scale, whole=True))
    assert found.posterior.sum(axis=1) == pytest.approx(1)
    expected = found.expected()
    assert (np.diff(expected) >= 0).all()
    assert (expected >= 0).all()
    cells, errors = relative_errors(found, np.maximum(expected, 0))
    assert cells.sum() == pytest.approx(len(counts))
    assert np.isfinite(errors).all()
