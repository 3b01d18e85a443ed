"""Margins and intervals: quantiles of noise, means and rates, ratios, and quantiles that hold as often as they say."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy import stats

from tabularium.mechanisms import build
from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.quantile_choices import QuantileChoices
from tabularium.mechanisms.inference import (
    Hierarchy,
    consistency,
    laplace_margin,
    laplace_variance,
    margins,
)
from tabularium.mechanisms.inference.margins_of_error.half_widths import widen_to_cover
from tabularium.mechanisms.inference.margins_of_error.quantile_margins import (
    QuantileTree,
    _deviations,
    chosen_interval,
    chosen_position,
    tree_over,
)
from tabularium.mechanisms.inference.margins_of_error.ratio_intervals import (
    quotient_interval,
    quotient_of,
    ratio_interval,
    ratio_of,
)
from tabularium.mechanisms.kernels.outward_cells import outward_sums, reaches
from tabularium.mechanisms.noise.synthetic import generator
from tests.sizes import runs


def chances(scale: float, terms: int) -> NDArray[np.float64]:
    """Probabilities of 0, 1, 2, ... for a sum of discrete Laplace errors, by plain convolution."""
    reach = int(40 * scale) + 40
    one = np.exp(-np.abs(np.arange(-reach, reach + 1)) / scale)
    one /= one.sum()
    total = one
    for _ in range(terms - 1):
        total = np.convolve(total, one)
    return total[len(total) // 2 :]


def smallest(scale: float, level: float, terms: int) -> int:
    above = chances(scale, terms)
    held = above[0] + 2 * np.concatenate([[0], np.cumsum(above[1:])])
    return int(np.argmax(held >= level))


@pytest.mark.parametrize(
    ("scale", "terms"), [*product([0.05, 0.2, 0.5, 1.0, 2.7, 10.0], [1, 2, 5, 30]), (500.0, 1)]
)
@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99, 1 - 1e-4, 1 - 1e-6])
def test_the_smallest_half_width_is_exact(scale: float, level: float, terms: int) -> None:
    m = laplace_margin(scale, level, terms)
    assert m == smallest(scale, level, terms)
    # The bound that knows the variance only is never below it, once rounded up.
    assert level > 0.99 or margins(terms * laplace_variance(scale), level, whole=True) >= m


def test_one_error_by_hand() -> None:
    # scale 1/ln 2: p = 1/2, P(|Z| > m) = 2 (1/2)^(m+1) / (3/2) = (4/3) 2^-(m+1); variance 2p/(1-p)^2 = 4.
    scale = 1 / math.log(2)
    assert laplace_variance(scale) == pytest.approx(4.0, rel=1e-14)
    outside = [Fraction(4, 3) / 2 ** (m + 1) for m in range(8)]
    for level, m in [(0.3, 0), (0.5, 1), (0.9, 3), (0.95, 4), (0.99, 7)]:
        assert outside[m] <= 1 - Fraction(level) and (m == 0 or outside[m - 1] > 1 - Fraction(level))
        assert laplace_margin(scale, level) == m


def test_a_level_that_is_met_exactly_is_enough() -> None:
    # p = 1/3: P(|Z| > 1) = 2 (1/9) / (4/3) = 1/6.
    assert laplace_margin(1 / math.log(3), 5 / 6 - 1e-12) == 1


def test_wide_sums_are_put_on_a_coarser_lattice() -> None:
    for scale, terms in [(1.0, 10**10), (1e6, 40), (3e4, 2), (100.0, 7725), (1e6, 10**6)]:
        deviation = math.sqrt(terms * laplace_variance(scale))
        bound = float(margins(deviation**2, 0.9))
        assert 0.99 * bound <= laplace_margin(scale, 0.9, terms) <= bound * 1.0005
    normal = stats.norm.ppf(0.95) * math.sqrt(1e10 * laplace_variance(1.0))
    assert laplace_margin(1.0, 0.9, 10**10) == pytest.approx(normal, rel=2e-4)


def test_margins_take_the_larger_quantile_and_keep_the_shape() -> None:
    assert margins([[0.0, 4.0], [np.inf, 1.0]]).tolist()[0][0] == 0
    assert margins([0.0, 4.0])[1] == pytest.approx(2 * stats.norm.ppf(0.95), rel=1e-12)
    assert margins(2.0, 0.99).item() == pytest.approx(stats.laplace.ppf(0.995), rel=1e-12)
    assert np.isinf(margins(np.inf))


def test_a_single_measurement_gets_its_exact_half_width() -> None:
    one = laplace_variance(10.0)
    assert margins([one, one / 2], scale=10.0).tolist() == [
        23.0,
        pytest.approx(math.sqrt(one / 2) * 1.6448536),
    ]


def test_coverage_of_consistent_estimates_over_simulated_noise() -> None:
    """Each level's interval holds the truth 90 % of the time; one of three quarters of the width does not."""
    rng = generator(11)
    parents = np.r_[-1, np.zeros(4, int), 1 + np.arange(12) // 3]
    tree, runs = Hierarchy(parents), 20_000
    variances = np.where(tree.leaf, laplace_variance(5.0), laplace_variance(2.0))
    decay = np.where(tree.leaf, 1 - math.exp(-1 / 5), 1 - math.exp(-1 / 2))[:, None]
    shape = (tree.nodes, runs)
    noise = (rng.geometric(decay, size=shape) - rng.geometric(decay, size=shape)).astype(float)
    est = consistency(tree, noise, variances)
    widths = margins(est.variances)
    held = (np.abs(est.values) <= widths).mean(axis=1)
    slack = 3 * math.sqrt(0.9 * 0.1 / runs)
    assert (held >= 0.9 - slack).all()
    assert (held <= 0.93).all()
    assert ((np.abs(est.values) <= 0.75 * widths).mean(axis=1) < 0.87).all()


@pytest.mark.parametrize("level", [0.0, 1.0, 90.0, math.nan])
def test_a_level_that_is_no_probability_is_refused(level: float) -> None:
    with pytest.raises(MechanismError, match="level is not between 0 and 1"):
        margins(1.0, level)


def test_other_impossible_values_are_refused() -> None:
    with pytest.raises(MechanismError, match="a variance is negative"):
        margins([-1.0])
    with pytest.raises(MechanismError, match="scale is not a positive number"):
        laplace_margin(0.0)
    with pytest.raises(MechanismError, match="terms is below 1"):
        laplace_margin(1.0, terms=0)


@given(
    linear=st.floats(-40, 40),
    half=st.floats(0, 30),
    published=st.integers(0, 60),
    whole=st.booleans(),
)
def test_carried_intervals_hold_whatever_the_first_ones_hold(
    linear: float, half: float, published: int, whole: bool
) -> None:
    """Every true count within linear ± half, however far the published number was moved; and no wider."""
    width = widen_to_cover(published, linear, half, whole=whole).item()
    inside = [x for x in range(90) if linear - half <= x <= linear + half]
    assert all(abs(x - published) <= width + 1e-6 for x in inside)
    if whole:
        assert width == int(width)
    if whole and inside:  # what lies at the very end is held as well
        reach = [x for x in range(90) if linear - half - 1e-6 <= x <= linear + half + 1e-6]
        assert width <= max(abs(x - published) for x in reach) or width <= 1


def test_carried_intervals_are_cut_at_zero() -> None:
    assert widen_to_cover([0, 0, 7], [-50.0, -3.0, -3.0], 10.0).tolist() == [0, 7, 7]
    assert np.isinf(widen_to_cover(3, 4.0, np.inf)).all()


@pytest.mark.parametrize("sigma", [0.3, 0.8, 3.0, 41.5])
@pytest.mark.parametrize("level", [0.8, 0.9, 0.99])
def test_a_single_gaussian_measurement_gets_its_exact_half_width(sigma: float, level: float) -> None:
    points = np.arange(-3000, 3001)
    chances = np.exp(-(points**2) / (2 * sigma**2))
    chances /= chances.sum()
    variance = (points**2 * chances).sum()
    half = margins(variance, level, sigma=sigma).item()
    held = [chances[np.abs(points) <= m].sum() for m in (half - 1, half)]
    assert held[0] < level <= held[1]
    assert margins(variance / 2, level, sigma=sigma) == margins(variance / 2, level)


# --- Intervals of means and rates hold in every cell, however small ----------------------------------


LEVEL = 0.9
RUNS = 4000
SLACK = 4 * np.sqrt(LEVEL * (1 - LEVEL) / RUNS)  # one run in 30 000 falls below by chance


def laplace(rng: np.random.Generator, scale: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    stop = -np.expm1(-1 / scale)
    return (rng.geometric(stop, shape) - rng.geometric(stop, shape)).astype(np.float64)


@pytest.mark.parametrize("records", [1, 3, 10, 30, 100, 1000])
@pytest.mark.parametrize("mean", [0.0, 0.02, 0.3, 0.5, 1.0])
def test_a_mean_is_within_its_interval_as_often_as_stated(records: int, mean: float) -> None:
    """Steps of 100 between the bounds, noise for ε = 1: from cells that are all noise to cells with hardly any."""
    steps, rng = 100, generator(records)
    true = np.array([mean, 1 - mean]) * records * steps
    noisy = true + laplace(rng, steps, (RUNS, 2))
    low, high = ratio_interval(noisy, np.full((RUNS, 2), laplace_variance(steps)), LEVEL)
    assert ((low <= mean + 1e-12) & (mean - 1e-12 <= high)).mean() >= LEVEL - SLACK


def first_order(
    noisy: NDArray[np.float64], variance: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The interval that textbooks have: the ratio ± 1.645 of its standard deviation to first order."""
    whole = np.where(noisy.sum(axis=-1) == 0, 1.0, noisy.sum(axis=-1))
    ratio = noisy[:, 0] / whole
    deviation = np.sqrt(((1 - ratio) ** 2 + ratio**2) * variance) / np.abs(whole)
    return np.clip(ratio - 1.645 * deviation, 0, 1), np.clip(ratio + 1.645 * deviation, 0, 1)


def test_far_from_the_noise_it_is_what_an_expansion_to_first_order_gives() -> None:
    steps, mean, rng = 100, 0.3, generator(7)
    noisy = np.array([mean, 1 - mean]) * 10_000 * steps + laplace(rng, steps, (100, 2))
    ours = ratio_interval(noisy, np.full((100, 2), laplace_variance(steps)), LEVEL)
    for end, other in zip(ours, first_order(noisy, laplace_variance(steps)), strict=True):
        np.testing.assert_allclose(end, other, atol=2e-6)


def test_an_interval_is_all_that_a_test_does_not_reject() -> None:
    """By trying p one by one, for estimates of any sign and variances that differ."""
    rng = generator(3)
    parts = rng.normal(0, 30, (300, 2))
    spread = rng.uniform(1, 400, (300, 2))
    low, high = ratio_interval(parts, spread, LEVEL)
    p = np.linspace(0, 1, 2001)[:, None]
    statistic = np.abs((1 - p) * parts[:, 0] - p * parts[:, 1])
    kept = statistic <= 1.645 * np.sqrt((1 - p) ** 2 * spread[:, 0] + p**2 * spread[:, 1])
    inside = (p >= low - 1e-3) & (p <= high + 1e-3)
    assert (inside | ~kept).all()


def test_nothing_has_no_mean() -> None:
    assert np.isnan(ratio_of(np.array([0.0, 0.0])))
    assert ratio_of(np.array([3.0, 1.0])) == 0.75
    assert ratio_of(np.array([-3.0, 1.0])) == 0.0


@pytest.mark.parametrize("known", [True, False])
def test_a_quotient_of_noisy_numbers_is_held_as_often_as_stated(known: bool) -> None:
    """In cells where the whole is hardly above its noise too, and there often without an upper end."""
    rng = generator(5)
    for part, whole in ((3, 10), (40, 100), (0, 50), (500, 400)):
        one, other = part + laplace(rng, 2.0, (RUNS,)), np.full(RUNS, float(whole))
        spread = np.zeros(RUNS)
        if not known:
            other, spread = other + laplace(rng, 3.0, (RUNS,)), np.full(RUNS, laplace_variance(3.0))
        low, high = quotient_interval(one, other, np.full(RUNS, laplace_variance(2.0)), spread, LEVEL)
        true = part / whole
        assert ((low <= true + 1e-12) & (true - 1e-12 <= high)).mean() >= LEVEL - SLACK
        if known or whole > 50:
            assert np.isfinite(high).all()


def test_a_quotient_by_hand() -> None:
    """90 ± 16.4 of 100 that are known; of nothing nothing; of noise around nothing no upper end."""
    part, whole = np.array([90.0, 90.0, 90.0]), np.array([100.0, 0.0, 5.0])
    variances = np.full(3, 100.0)
    assert quotient_of(part, whole)[[0, 2]].tolist() == [0.9, 18.0]
    assert np.isnan(quotient_of(part, whole)[1])
    low, high = quotient_interval(part, whole, variances, np.array([0.0, 0.0, 100.0]), 0.9)
    assert low[0] == pytest.approx(0.9 - 0.16449, abs=1e-4) and high[0] == pytest.approx(1.06449, abs=1e-4)
    assert np.isinf(high[1:]).all()


# --- Quantiles from trees of counts: least squares by brute force, the definition, order, and intervals that hold ---


HALF = Fraction(1, 2)
TREES = [QuantileTree(2, 2, 1), QuantileTree(7, 3, 2), QuantileTree(11, 3, 3), tree_over(101), tree_over(40)]


def sums(tree: QuantileTree, bins: NDArray[np.int64]) -> NDArray[np.float64]:
    """The numbers of a tree over histograms (..., bins)."""
    found = np.zeros((*bins.shape[:-1], tree.parts))
    for nodes in tree.nodes_of(np.arange(tree.bins)):
        for place, node in enumerate(nodes):
            found[..., node] += bins[..., place]
    return found


def counted(tree: QuantileTree) -> NDArray[np.float64]:
    """(parts, bins) which bins each node counts."""
    return sums(tree, np.eye(tree.bins, dtype=np.int64)).T


@pytest.mark.parametrize("bins", [2, 3, 20, 64, 65, 101, 151, 1501, 16_384])
def test_a_record_is_in_one_node_of_each_level(bins: int) -> None:
    tree = tree_over(bins)
    nodes = np.array(tree.nodes_of(np.arange(bins)))
    assert nodes.shape == (tree.levels, bins)
    assert sorted(set(nodes.ravel())) == list(range(tree.parts))
    assert (np.diff(nodes) >= 0).all()
    assert (np.diff(nodes[:, 0]) > 0).all()


def test_small_grids_are_plain_histograms_and_large_ones_are_not() -> None:
    assert [tree_over(bins).levels for bins in (2, 64, 101, 151, 4096)] == [1, 1, 2, 2, 3]


@pytest.mark.parametrize("tree", TREES, ids=str)
def test_bins_and_their_spread_are_those_of_least_squares(tree: QuantileTree) -> None:
    measured = generator(5).normal(3, 10, (4, tree.parts))
    design = counted(tree)
    expected = measured @ np.linalg.pinv(design).T
    np.testing.assert_allclose(tree.bins_of(measured), expected, atol=1e-8)
    rank = Fraction(3, 10)
    weights = np.tril(np.ones((tree.bins, tree.bins))) - float(rank)
    spread = np.einsum("bi,ij,bj->b", weights, np.linalg.inv(design.T @ design), weights)
    np.testing.assert_allclose(_deviations(tree, rank), np.sqrt(spread), rtol=1e-9)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=60), st.fractions(0, 1, max_denominator=20))
@settings(max_examples=60, deadline=None)
def test_without_noise_it_is_the_quantile_of_the_values(values: list[int], rank: Fraction) -> None:
    if not 0 < rank < 1:
        return
    tree = tree_over(101)
    numbers = sums(tree, np.bincount(values, minlength=101))
    place = -(-rank.numerator * len(values) // rank.denominator) - 1  # the first with as much up to it
    assert tree.quantile_of(numbers, rank) == sorted(values)[place]
    low, high = tree.interval(numbers, np.zeros(tree.parts), rank, LEVEL)
    assert low <= sorted(values)[place] <= high


@given(arrays(np.int64, (3, tree_over(101).parts), elements=st.integers(-50, 60)))
@settings(max_examples=40, deadline=None)
def test_quantiles_rise_with_their_rank_whatever_was_measured(numbers: NDArray[np.int64]) -> None:
    tree = tree_over(101)
    ranks = [Fraction(part, 10) for part in range(1, 10)]
    found = np.array([tree.quantile_of(numbers.astype(float), rank) for rank in ranks])
    assert (np.isnan(found).any(axis=0) == np.isnan(found).all(axis=0)).all()
    assert (np.diff(np.nan_to_num(found), axis=0) >= 0).all()


@pytest.mark.parametrize("bins", [40, 101])
@pytest.mark.parametrize(
    ("records", "rank"), [(1, HALF), (5, Fraction(1, 10)), (50, HALF), (500, Fraction(9, 10))]
)
def test_it_is_within_its_interval_as_often_as_stated(bins: int, records: int, rank: Fraction) -> None:
    tree, rng = tree_over(bins), generator(records)
    values = np.minimum(rng.geometric(0.1, records), bins - 1)
    true = sums(tree, np.bincount(values, minlength=bins))
    at = tree.quantile_of(true, rank)
    scale = float(tree.levels)
    noisy = true + laplace(rng, scale, (RUNS, tree.parts))
    low, high = tree.interval(noisy, np.full(noisy.shape, laplace_variance(scale)), rank, LEVEL)
    assert ((low <= at) & (at <= high)).mean() >= LEVEL - SLACK
    if records == 500:
        assert (high - low).mean() < 0.75 * bins


def test_a_tree_of_levels_is_nearer_than_a_plain_histogram_on_a_fine_grid() -> None:
    """2 000 values on 1 501 positions at ε = 1, each for all of ε."""
    rng, bins = generator(2), 1501
    true = np.bincount(rng.normal(700, 200, 2000).astype(int).clip(0, bins - 1), minlength=bins)
    wrong = {}
    for tree in (tree_over(bins), QuantileTree(bins, bins, 1)):
        whole = sums(tree, true)
        noisy = whole + laplace(rng, float(tree.levels), (300, tree.parts))
        wrong[tree.levels] = np.sqrt(
            np.mean((tree.quantile_of(noisy, HALF) - tree.quantile_of(whole, HALF)) ** 2)
        )
    assert wrong[2] < 0.7 * wrong[1]


def test_nothing_has_no_quantile() -> None:
    assert np.isnan(tree_over(101).quantile_of(np.zeros(tree_over(101).parts), HALF))


# --- Chosen quantiles: cells beside a place, scores by brute force, order of error, and margins that hold ---


@given(st.lists(st.integers(0, 9), min_size=2, max_size=20), st.data())
def test_cells_beside_a_place_hold_all_but_it_once(counts: list[int], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(counts) - 1))
    found = outward_sums(np.array([counts]), np.array([place]))[0]
    half = reaches(len(counts))
    for side, step in ((found[:half], 1), (found[half:], -1)):
        for cell, shown in enumerate(side):
            away = range(2**cell, 2 ** (cell + 1))
            assert shown == sum(counts[b] for k in away if 0 <= (b := place + step * k) < len(counts))
    assert found.sum() == sum(counts) - counts[place]


def quantile(values: Any, rank: Fraction) -> int:
    return int(np.sort(values)[-(-rank.numerator * len(values) // rank.denominator) - 1])


def released(values: Any, bins: int, rank: Fraction, times: int, definition: Definition = "pure") -> Any:
    """Many releases of one cell, with ε = 1 or ρ = 1/2 for each."""
    budget = {"pure": Fraction(1), "zcdp": HALF}[definition]
    rows = np.tile(np.bincount(values, minlength=bins), (times, 1))
    channel = SeededChannel(budget, seed=f"chosen {len(values)} {rank}", definition=definition)
    return QuantileChoices(at=str(rank)).release(rows, channel)


@pytest.mark.parametrize("rank", [Fraction(1, 10), HALF, Fraction(3, 4)])
def test_with_much_to_spend_it_is_the_quantile(rank: Fraction) -> None:
    rng = generator(9)
    values = rng.choice([0, 3, 3, 3, 17, 40], 101)
    rows = np.bincount(values, minlength=50)[None]
    found = QuantileChoices(at=str(rank)).release(rows, SeededChannel(Fraction(400), seed="much"))
    assert chosen_position(found.values) == [quantile(values, rank)]
    low, high = chosen_interval(found.values, np.full(found.values.shape, found.variances), 50, LEVEL)
    assert low <= quantile(values, rank) <= high


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
@pytest.mark.parametrize("kind", ["smooth", "heaps", "few", "one"])
@pytest.mark.parametrize("rank", [HALF, Fraction(9, 10)])
def test_margins_hold_as_often_as_stated(kind: str, rank: Fraction, definition: Definition) -> None:
    rng = generator(4)
    values = {
        "smooth": rng.normal(100, 30, 3000).astype(int).clip(0, 200),
        "heaps": rng.choice([0, 0, 0, 40, 50, 200], 800),
        "few": rng.integers(0, 201, 7),
        "one": np.array([33]),
    }[kind]
    times = runs(400, 4000)
    found = released(values, 201, rank, times, definition)
    assert isinstance(found.variances, float)
    low, high = chosen_interval(found.values, np.full(found.values.shape, found.variances), 201, LEVEL)
    at = chosen_position(found.values)
    assert ((low <= at) & (at <= high)).all()
    held = ((low <= quantile(values, rank)) & (quantile(values, rank) <= high)).mean()
    assert held >= LEVEL - 4 * np.sqrt(LEVEL * (1 - LEVEL) / times)
    if kind == "smooth" and definition == "pure":
        assert np.sqrt(np.mean((at - quantile(values, rank)) ** 2)) < 1
        assert (high - low).mean() < 120


def test_a_margin_that_takes_the_choice_for_exact_and_no_noise_would_be_noticed() -> None:
    """The interval must not merely be the whole range: one from a tenth of the noise holds too seldom."""
    values = generator(4).integers(0, 1001, 60)
    found = released(values, 1001, HALF, 400)
    rows = found.values.copy()
    rows[:, 1] *= 1000  # as if a choice could not miss
    low, high = chosen_interval(rows, np.full(rows.shape, found.variances / 100), 1001, LEVEL)
    assert ((low <= quantile(values, HALF)) & (quantile(values, HALF) <= high)).mean() < LEVEL - 0.05


def test_what_was_not_measured_has_none() -> None:
    assert np.isnan(chosen_position(np.zeros((2, 6)))).all()


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"at": "1"}, "at"),
        ({"at": "1/1001"}, "at"),
        ({"heaviest": 0}, "heaviest"),
        ({"margin_share": "1"}, "margin_share"),
    ],
)
def test_parameters_that_cannot_be_are_refused(given: dict[str, Any], where: str) -> None:
    with pytest.raises(MechanismError, match=where):
        build("quantile_choices", **given)
