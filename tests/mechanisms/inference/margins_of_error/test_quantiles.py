"""Quantiles from trees of counts: least squares by brute force, the definition, order, and intervals that hold."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from tabularium.mechanisms import build
from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.quantile_choices import QuantileChoices
from tabularium.mechanisms.inference.margins_of_error.quantile_margins import (
    QuantileTree,
    _deviations,
    chosen_interval,
    chosen_position,
    tree_over,
)
from tabularium.mechanisms.kernels.outward_cells import outward_sums, reaches
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import laplace_variance
from tests.mechanisms.inference.margins_of_error.test_half_widths import LEVEL, RUNS, SLACK, laplace
from tests.sizes import runs

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
