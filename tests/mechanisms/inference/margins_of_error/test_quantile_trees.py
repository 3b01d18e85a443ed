"""Quantiles from trees of counts: least squares by brute force, the definition, order, and intervals that hold."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from tabularium.mechanisms.inference.margins_of_error.quantile_margins import (
    QuantileTree,
    _deviations,
    tree_over,
)
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import laplace_variance
from tests.mechanisms.inference.margins_of_error.test_ratio_intervals import LEVEL, RUNS, SLACK, laplace

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
