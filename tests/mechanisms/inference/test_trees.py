"""Trees of numbers: hierarchies, least squares along them, and estimates that are not negative and whole."""

from __future__ import annotations

import doctest
import importlib
import inspect
import math
import pkgutil
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import optimize

import tabularium.mechanisms.inference as package
import tabularium.mechanisms.inference.family_projection as module
import tabularium.mechanisms.inference.hierarchy as layout
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference import (
    Block,
    Estimate,
    Hierarchy,
    TreeLeastSquares,
    consistency,
    laplace_variance,
    nonnegativity,
    rounding,
)
from tabularium.mechanisms.noise.synthetic import generator
from tests.dense import dense_weights, leaf_matrix, least_squares, project_family, random_parents


def families(block: Block, nodes: int) -> dict[int, list[int]]:
    children = np.arange(nodes)[block.children]
    parts = np.split(children, block.starts[1:])
    return {int(p): c.tolist() for p, c in zip(block.parents, parts, strict=True)}


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 60), st.sampled_from([1, 3, 8, 1 << 17]), st.integers(1, 5))
def test_every_family_comes_once_whole_and_in_order(seed: int, nodes: int, size: int, cells: int) -> None:
    parents = random_parents(generator(seed), nodes)
    tree = Hierarchy(parents)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "BLOCK", size)
        down, up = list(tree.down(cells)), list(tree.up(cells))
    expected = {int(p): np.flatnonzero(parents == p).tolist() for p in set(parents.tolist()) - {-1}}
    for blocks in (down, up):
        seen = [families(block, nodes) for block in blocks]
        assert sum(map(len, seen)) == len(expected)
        assert {p: c for found in seen for p, c in found.items()} == expected
    settled = set(tree.roots.tolist())
    for block in down:
        assert settled.issuperset(block.parents.tolist())
        settled.update(np.arange(nodes)[block.children].tolist())
        assert block.members <= max(size // cells, block.sizes.max())
    assert len(settled) == nodes


@settings(deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 60))
def test_depth_counts_the_steps_to_the_root(seed: int, nodes: int) -> None:
    parents = random_parents(generator(seed), nodes)
    tree = Hierarchy(parents)
    for node in range(nodes):
        steps, above = 0, parents[node]
        while above >= 0:
            steps, above = steps + 1, parents[above]
        assert tree.depth[node] == steps
    assert tree.leaf.tolist() == [not (parents == node).any() for node in range(nodes)]


def test_totals_go_up_and_rows_go_down_family_by_family() -> None:
    tree = Hierarchy([-1, 0, 0, 0, 1, 1, 3])
    blocks = list(tree.down())
    assert families(blocks[0], 7) == {0: [1, 2, 3]}
    assert families(blocks[1], 7) == {1: [4, 5], 3: [6]}
    rows = np.arange(6).reshape(3, 2)
    assert blocks[1].total(rows).tolist() == [[2, 4], [4, 5]]
    assert blocks[1].to_children(np.array([[7], [8]])).ravel().tolist() == [7, 7, 8]
    assert isinstance(blocks[1].children, slice)


def test_gap_is_the_worst_broken_sum() -> None:
    tree = Hierarchy([-1, 0, 0])
    assert tree.gap(np.array([[5, 5], [2, 4], [3, 4]])) == 3


@pytest.mark.parametrize("nodes", [1, 7])
def test_nothing_but_roots(nodes: int) -> None:
    tree = Hierarchy(np.full(nodes, -1))
    assert list(tree.down()) == []
    assert tree.depths == 1
    assert tree.gap(np.ones((nodes, 2))) == 0


def test_a_long_chain_and_a_wide_star_are_built_at_once() -> None:
    chain = np.arange(-1, 999_999)
    assert Hierarchy(chain).depths == 1_000_000
    assert Hierarchy(chain[::-1] * 0 + np.r_[-1, np.zeros(999_999, int)]).depths == 2


@pytest.mark.parametrize(
    ("parents", "message"),
    [
        ([-1, 2, 1], "node 1 never reaches a root"),
        ([0], "node 0 never reaches a root"),
        ([1, 2, 3, 1, -1], "node 0 never reaches a root"),
        ([-1, 5], "node 1 has a parent that does not exist"),
        ([-1, 0, -2], "node 2 has a parent that does not exist"),
        ([], "not a non-empty vector"),
        ([[-1]], "not a non-empty vector"),
        ([-1.0, 0.0], "not a non-empty vector"),
    ],
)
def test_impossible_parents_are_refused_in_one_line(parents: list[int], message: str) -> None:
    with pytest.raises(MechanismError, match=re.escape(message)) as caught:
        Hierarchy(parents)
    assert "\n" not in str(caught.value)


def test_the_argument_is_copied_and_cannot_be_changed() -> None:
    given_parents = np.array([-1, 0])
    tree = Hierarchy(given_parents)
    given_parents[1] = -1
    assert tree.parents.tolist() == [-1, 0]
    with pytest.raises(ValueError, match="read-only"):
        tree.parents[1] = -1


def close(left: Any, right: Any, scale: float) -> None:
    assert np.abs(np.asarray(left) - np.asarray(right)).max() <= 1e-9 * scale


def test_two_children_and_their_parent_by_hand() -> None:
    # Weights 1, 1, 1/4: C = 7 with variance 1 + 4 = 5; x_p = (10/1 + 7/5)/(1 + 1/5) = 9.5, V_p = 5/6.
    # The correction 2.5 goes 1:4: 4 + 0.5 and 3 + 2. V = t - t^2/T + (t/T)^2 V_p.
    est = consistency(Hierarchy([-1, 0, 0]), np.array([[10.0], [4.0], [3.0]]), np.array([1.0, 1.0, 4.0]))
    assert est.values.ravel() == pytest.approx([9.5, 4.5, 5.0], rel=1e-14)
    assert est.variances.ravel() == pytest.approx(
        [5 / 6, 1 - 1 / 5 + (1 / 25) * 5 / 6, 4 - 16 / 5 + (16 / 25) * 5 / 6], rel=1e-14
    )


def test_a_chain_of_single_children_averages() -> None:
    est = consistency(Hierarchy([-1, 0, 1]), np.array([[1.0], [2.0], [6.0]]), 3.0)
    assert est.values.ravel() == pytest.approx([3, 3, 3], rel=1e-15)
    assert est.variances.ravel() == pytest.approx([1, 1, 1], rel=1e-15)


def test_an_unmeasured_child_is_its_parent_minus_its_siblings() -> None:
    values = np.array([[10.0], [4.0], [np.nan]])
    est = consistency(Hierarchy([-1, 0, 0]), values, np.array([2.0, 1.0, np.inf]))
    assert est.values.ravel().tolist() == [10.0, 4.0, 6.0]
    assert est.variances.ravel().tolist() == [2.0, 1.0, 3.0]


def test_an_unmeasured_parent_is_the_sum_of_its_children() -> None:
    est = consistency(Hierarchy([-1, 0, 0]), np.array([[np.inf], [4.0], [3.0]]), [np.inf, 1.0, 2.0])
    assert est.values.ravel().tolist() == [7.0, 4.0, 3.0]
    assert est.variances.ravel().tolist() == [3.0, 1.0, 2.0]


def test_an_invariant_is_kept_to_the_last_bit_and_has_no_variance() -> None:
    values = np.array([[9.0, 1.0], [4.0, 0.1], [3.0, 0.2]])
    est = consistency(Hierarchy([-1, 0, 0]), values, 1.0, invariants={0: [10.0, 1 / 3]})
    assert est.values[0].tolist() == [10.0, 1 / 3]
    assert est.values[1:, 0].tolist() == [5.5, 4.5]
    assert est.variances.ravel().tolist() == [0.0, 0.5, 0.5]
    assert values[0, 0] == 9.0


def test_exact_by_subtraction() -> None:
    est = consistency(Hierarchy([-1, 0, 0]), np.array([[0.0], [0.0], [7.0]]), 1.0, {0: 10.0, 1: 4.0})
    assert est.values.ravel().tolist() == [10.0, 4.0, 6.0]
    assert est.variances.ravel().tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("start", range(0, 400, 50))
@pytest.mark.parametrize("block", [4, 1 << 17])
def test_agrees_with_dense_least_squares(start: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ragged, single-child, several roots, unmeasured and exact nodes, variances that differ per cell."""
    monkeypatch.setattr(layout, "BLOCK", block)
    determined = 0
    for seed in range(start, start + 50):
        rng = generator(seed)
        parents = random_parents(rng, int(rng.integers(1, 30)))
        shape = (len(parents), 3)
        per_cell = bool(rng.integers(2))
        variances = np.exp(rng.uniform(-4, 4, size=shape if per_cell else (shape[0], 1)))
        variances[rng.random(variances.shape) < rng.choice([0.0, 0.1, 0.3])] = np.inf
        truth_leaves = rng.integers(0, 1000, size=shape).astype(float)
        tree = Hierarchy(parents)
        truth = np.where(tree.leaf[:, None], truth_leaves, 0.0)
        for one in tree.up():
            truth[one.parents] = one.total(truth[one.children])
        exact = np.flatnonzero(rng.random(shape[0]) < rng.choice([0.0, 0.15]))
        values = truth + rng.normal(size=shape) * 30
        spread = np.broadcast_to(variances, shape).copy()
        spread[exact] = 0.0
        shown = np.where(spread == 0, truth, values)
        expected = [least_squares(parents, shown[:, c], spread[:, c]) for c in range(3)]
        invariants = {int(node): truth[node] for node in exact}
        if any(one is None for one in expected):
            with pytest.raises(MechanismError, match="is not measured"):
                consistency(tree, values, variances, invariants)
            continue
        determined += 1
        est = consistency(tree, values, variances, invariants)
        for cell, answer in enumerate(expected):
            assert answer is not None
            close(est.values[:, cell], answer[0], 1000.0)
            got = np.broadcast_to(est.variances, shape)[:, cell]
            assert (np.abs(got - answer[1]) <= 1e-9 * (answer[1] + 1e-3)).all()
        assert (est.values[exact] == truth[exact]).all()
        assert tree.gap(est.values) <= 1e-9 * np.abs(truth).max(initial=1.0)
    assert determined >= 20


def test_variances_are_right_where_one_child_outweighs_its_siblings() -> None:
    # The parent is almost exact: the heavy child is the parent minus the light one, variance 1e-8 to 1e-16.
    light, heavy, parent = 1e-8, 1e8, 1e-8
    est = consistency(Hierarchy([-1, 0, 0]), np.zeros((3, 1)), [parent, light, heavy])
    from fractions import Fraction as F

    a, b, p = F(light), F(heavy), F(parent)
    top = 1 / (1 / p + 1 / (a + b))
    exact = [top, a * b / (a + b) + (a / (a + b)) ** 2 * top, a * b / (a + b) + (b / (a + b)) ** 2 * top]
    assert est.variances.ravel() == pytest.approx([float(e) for e in exact], rel=1e-14)


def test_variances_stay_one_per_node_unless_they_depend_on_the_cell() -> None:
    tree, values = Hierarchy([-1, 0, 0]), np.zeros((3, 4))
    same = np.repeat([[1.0], [2.0], [3.0]], 4, axis=1)
    assert consistency(tree, values, same).variances.shape == (3, 1)
    same[1, 2] = 5.0
    assert consistency(tree, values, same).variances.shape == (3, 4)


def test_a_million_leaves_at_two_to_the_forty_add_up() -> None:
    rng = generator(5)
    parents = np.r_[-1, np.zeros(100, int), 1 + np.arange(100_000) % 100]
    tree = Hierarchy(parents)
    values = np.full((tree.nodes, 1), 2.0**40) + rng.normal(size=(tree.nodes, 1))
    est = consistency(tree, values, rng.uniform(1, 100, size=tree.nodes))
    assert tree.gap(est.values) <= 1e-9 * 2.0**40
    total = est.values[tree.leaf].sum()
    assert abs(total - est.values[0, 0]) <= 1e-9 * total


@pytest.mark.parametrize("nodes", [1, 5])
def test_only_roots_come_back_as_measured(nodes: int) -> None:
    values = generator(1).normal(size=(nodes, 2))
    est = consistency(Hierarchy(np.full(nodes, -1)), values, 4.0)
    assert (est.values == values).all()
    assert (est.variances == 4.0).all()


@pytest.mark.parametrize(
    ("values", "variances", "invariants", "message"),
    [
        (np.zeros((2, 1)), 1.0, None, "not of shape (nodes, cells) with 3 nodes"),
        (np.zeros(3), 1.0, None, "not of shape (nodes, cells)"),
        (np.zeros((3, 0)), 1.0, None, "not of shape (nodes, cells)"),
        (np.zeros((3, 2)), np.ones(2), None, "the variances fit neither"),
        (np.zeros((3, 2)), np.ones((3, 3)), None, "the variances fit neither"),
        (np.zeros((3, 2)), [1.0, -1.0, 1.0], None, "node 1 has a variance that is negative"),
        (np.zeros((3, 2)), [1.0, 1.0, np.nan], None, "node 2 has a variance that is negative or not"),
        ([[0.0], [np.nan], [0.0]], 1.0, None, "node 1 has a measurement that is not finite"),
        (np.zeros((3, 2)), 1.0, {3: [1, 1]}, "there is no node 3"),
        (np.zeros((3, 2)), 1.0, {0: [1, 1, 1]}, "the invariant of node 0 is not one finite number per cell"),
        (np.zeros((3, 2)), 1.0, {0: np.nan}, "the invariant of node 0 is not one finite"),
        (np.zeros((3, 1)), 1.0, {0: 5, 1: 1, 2: 3}, "exact values of node 0 and of its children contradict"),
        (np.zeros((3, 1)), [1, np.inf, np.inf], None, "node 1 is not measured"),
        (np.zeros((3, 1)), [np.inf, 1, np.inf], None, "node 2 is not measured"),
    ],
)
def test_bad_input_is_named_in_one_line(values: Any, variances: Any, invariants: Any, message: str) -> None:
    with pytest.raises(MechanismError, match=re.escape(message)) as caught:
        consistency(Hierarchy([-1, 0, 0]), values, variances, invariants)
    assert "\n" not in str(caught.value)


def test_an_undetermined_node_is_traced_to_an_unmeasured_leaf_and_its_cell() -> None:
    # In the second cell nodes 1 and 2 are only known together; under node 1 it is leaf 4 that is unknown.
    variances = np.ones((5, 2))
    variances[[1, 2, 4], 1] = np.inf
    with pytest.raises(MechanismError, match="node 4 is not measured"):
        consistency(Hierarchy([-1, 0, 0, 1, 1]), np.zeros((5, 2)), variances)


@pytest.mark.parametrize("seed", range(30))
def test_variances_of_sums_are_those_of_dense_least_squares(seed: int) -> None:
    rng = generator(seed)
    parents = random_parents(rng, int(rng.integers(2, 25)))
    tree = Hierarchy(parents)
    variances = rng.choice([0.5, 1.0, 9.0, 40.0], tree.nodes)
    variances[~tree.leaf & (rng.random(tree.nodes) < 0.4)] = np.inf
    chosen = tree.leaf & (rng.random(tree.nodes) < 0.5)
    found = TreeLeastSquares(tree, variances[:, None]).sum_variances(chosen)
    inside = leaf_matrix(parents)
    for node in range(tree.nodes):
        below = np.zeros(tree.nodes, bool)
        below[np.flatnonzero(tree.leaf)] = inside[node] > 0
        weights = dense_weights(parents, variances, chosen & below)
        assert np.abs(weights).max() <= 1 + 1e-9
        measured = np.isfinite(variances)
        assert found[node] == pytest.approx((weights[measured] ** 2 * variances[measured]).sum(), abs=1e-12)


def test_the_covariance_of_sums_is_that_of_their_leaves() -> None:
    rng = generator(31)
    tree = Hierarchy(random_parents(rng, 20))
    variances = rng.choice([0.5, 1.0, 9.0], (tree.nodes, 1))
    squares = TreeLeastSquares(tree, variances, tree.nodes)
    covariance = squares.times(np.eye(tree.nodes))
    assert np.diag(covariance) == pytest.approx(squares.variances[:, 0])
    chosen = tree.leaf & (rng.random(tree.nodes) < 0.5)
    own = squares.sum_variances(chosen)
    for root in tree.roots:
        inside = chosen & (leaf_matrix(tree.parents)[root] @ np.eye(tree.nodes)[tree.leaf] > 0)
        assert own[root] == pytest.approx(covariance[np.ix_(inside, inside)].sum())


# --- Sparse data, strong noise: totals far from zero stay unbiased, where clipping does not ----------


RUNS, LEVELS, SCALE = 200, 3, 30.0  # epsilon 0.1 shared by three levels: scale 3 / 0.1 each


def test_totals_are_unbiased_after_everything() -> None:
    rng = generator(2026)
    parents = np.r_[-1, np.zeros(5, int), 1 + np.arange(500) // 100]
    tree = Hierarchy(parents)
    truth = np.zeros((tree.nodes, 1))
    # Nine cells in ten are empty.
    truth[tree.leaf, 0] = np.where(rng.random(500) < 0.9, 0, rng.geometric(1 / 60, size=500))
    for block in tree.up():
        truth[block.parents] = block.total(truth[block.children])
    # The runs are cells: every cell of the table is one release of the same truth.
    shape, decay = (tree.nodes, RUNS), 1 - math.exp(-1 / SCALE)
    noisy = truth + (rng.geometric(decay, size=shape) - rng.geometric(decay, size=shape))

    linear = consistency(tree, noisy, laplace_variance(SCALE))
    final = rounding(tree, nonnegativity(tree, linear))
    totals = np.arange(6)
    assert (truth[totals, 0] > 5 * np.sqrt(linear.variances[totals, 0])).all()

    def score(values: np.ndarray) -> np.ndarray:
        error = values - truth[totals]
        return error.mean(axis=1) / (error.std(axis=1, ddof=1) / math.sqrt(RUNS))

    assert (np.abs(score(linear.values[totals])) < 3).all()
    assert (np.abs(score(final[totals].astype(float))) < 3).all()

    clipped = np.where(tree.leaf[:, None], np.maximum(noisy, 0), 0.0)
    for block in tree.up():
        clipped[block.parents] = block.total(clipped[block.children])
    assert (score(clipped[totals]) > 20).all()
    # The cells themselves: nearer to the truth than the measurements, and than clipping leaves them.
    leaves = tree.leaf
    errors = [np.abs(v[leaves] - truth[leaves]).mean() for v in (final.astype(float), clipped, noisy)]
    assert errors[0] < errors[1] < errors[2]


def column(*numbers: float) -> NDArray[np.float64]:
    return np.array(numbers, dtype=float)[:, None]


def assert_projected(tree: Hierarchy, before: Estimate, after: Estimate, scale: float) -> None:
    """Karush-Kuhn-Tucker, family by family: sufficient for the projection, as the problem is convex."""
    weights = np.broadcast_to(before.variances, before.values.shape)
    assert (after.values >= 0).all()
    assert tree.gap(after.values) <= 1e-9 * scale
    for block in tree.down():
        children = np.arange(tree.nodes)[block.children]
        for family in np.split(children, block.starts[1:]):
            for cell in range(before.values.shape[1]):
                x, e, w = after.values[family, cell], before.values[family, cell], weights[family, cell]
                tilt = (x - e) / w
                positive = x > 1e-9 * scale
                if positive.any():
                    assert np.ptp(tilt[positive] * w.min()) <= 1e-9 * scale
                    assert (tilt[~positive] * w.min() >= tilt[positive].max() * w.min() - 1e-9 * scale).all()


def test_by_hand_with_unequal_weights() -> None:
    # Sum must be 10. lam with everyone: (10-9)/4 = .25 gives 8.5, -1.75 + ..., so the second is dropped:
    # lam = (10 - 11)/3 = -1/3: 8 - 2/3, 0, 3 - 1/3.
    est = Estimate(column(10, 8, -2, 3), column(1, 2, 1, 1))
    result = nonnegativity(Hierarchy([-1, 0, 0, 0]), est)
    assert result.values.ravel() == pytest.approx([10, 22 / 3, 0, 8 / 3], rel=1e-15)
    assert (result.variances == est.variances).all()


def test_a_negative_root_is_zero_and_so_is_all_below_it() -> None:
    est = Estimate(column(-4, -6, 2, 1, 1), np.ones((5, 1)))
    assert nonnegativity(Hierarchy([-1, 0, 0, 2, 2]), est).values.ravel().tolist() == [0, 0, 0, 0, 0]


def test_what_is_already_non_negative_does_not_move() -> None:
    values = column(10, 4, 6, 1, 3)
    result = nonnegativity(Hierarchy([-1, 0, 0, 1, 1]), Estimate(values, np.ones((5, 1))))
    assert result.values.tolist() == values.tolist()
    assert result.values is not values


def test_an_exact_child_stays_and_the_others_make_room() -> None:
    # The root is free but must hold 20; the free child absorbs the rest.
    est = Estimate(column(5, 20, -15), column(3, 0, 3))
    assert nonnegativity(Hierarchy([-1, 0, 0]), est).values.ravel().tolist() == [20, 20, 0]


def test_a_bound_far_below_is_felt_at_every_depth() -> None:
    # 0 - {1, 2}, 1 - {3, 4}; leaf 3 is exactly 8. Root 9 = 8 + 1; node 1 may not fall below 8.
    est = Estimate(column(9, 2, 7, 8, -6), column(1, 1, 1, 1, 1))
    result = nonnegativity(Hierarchy([-1, 0, 0, 1, 1]), est, invariants={3: 8.0})
    assert result.values.ravel().tolist() == [9, 8, 1, 8, 0]
    assert result.variances.ravel().tolist() == [1, 1, 1, 0, 1]


def test_a_parent_whose_children_are_all_exact_is_exact() -> None:
    est = Estimate(column(9, 3, 6, 1, 2), column(1, 1, 1, 0, 0))
    result = nonnegativity(Hierarchy([-1, 0, 0, 1, 1]), est)
    assert result.values.ravel().tolist() == [9, 3, 6, 1, 2]
    assert result.variances.ravel().tolist() == [1, 0, 1, 0, 0]


@pytest.mark.parametrize("sweeps", [0, 1, 30])
def test_every_family_agrees_with_trying_all_active_sets(
    sweeps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 0 and 1 sweeps of Newton's method the sorting answers, so both routes are compared."""
    monkeypatch.setattr(module, "SWEEPS", sweeps)
    for seed in range(150):
        rng = generator(seed)
        children = int(rng.integers(1, 9))
        values = np.vstack([rng.uniform(-5, 40, 4), rng.normal(0, 10, size=(children, 4))])
        variances = np.exp(rng.uniform(-3, 3, size=(children + 1, rng.choice([1, 4]))))
        tree = Hierarchy(np.r_[-1, np.zeros(children, int)])
        result = nonnegativity(tree, Estimate(values, variances)).values
        spread = np.broadcast_to(variances, values.shape)
        for cell in range(4):
            total = max(0.0, values[0, cell])
            assert result[0, cell] == total
            if total > 0:
                best = project_family(values[1:, cell], spread[1:, cell], total)
                assert np.abs(result[1:, cell] - best).max() <= 1e-9 * 40


def test_agrees_with_the_root_of_its_dual() -> None:
    """At the optimum x = max(0, v - λσ²), with the one λ that gives the sum."""
    rng = generator(8)
    values, variances = rng.normal(0, 10, 12), np.exp(rng.uniform(-1, 1, 12))
    total = 25.0

    def at(price: float) -> np.ndarray[Any, Any]:
        return np.maximum(0, values - price * variances)

    price = optimize.brentq(lambda price: at(price).sum() - total, -1e3, 1e3, xtol=1e-14)
    est = Estimate(column(total, *values), column(1, *variances))
    result = nonnegativity(Hierarchy(np.r_[-1, np.zeros(12, int)]), est).values[1:, 0]
    assert np.abs(result - at(price)).max() < 1e-9


@pytest.mark.parametrize("block", [4, 1 << 17])
@pytest.mark.parametrize("start", range(0, 200, 50))
def test_every_family_of_random_trees_is_projected(
    start: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "BLOCK", block)
    for seed in range(start, start + 50):
        rng = generator(1000 + seed)
        tree = Hierarchy(random_parents(rng, int(rng.integers(1, 40))))
        values = rng.normal(1, 10, size=(tree.nodes, 3))
        shape = (tree.nodes, 3) if rng.integers(2) else (tree.nodes, 1)
        before = consistency(tree, values, np.exp(rng.uniform(-2, 2, size=shape)))
        assert_projected(tree, before, nonnegativity(tree, before), 100.0)


def test_invariants_survive_on_random_trees() -> None:
    for seed in range(150):
        rng = generator(seed)
        tree = Hierarchy(random_parents(rng, int(rng.integers(2, 40))))
        truth = np.where(tree.leaf[:, None], rng.integers(0, 9, size=(tree.nodes, 3)), 0).astype(float)
        for block in tree.up():
            truth[block.parents] = block.total(truth[block.children])
        known = {int(n): truth[n] for n in np.flatnonzero(rng.random(tree.nodes) < 0.3)}
        noisy = truth + rng.normal(0, 20, size=truth.shape)
        est = consistency(tree, noisy, rng.uniform(1, 9, tree.nodes), known)
        result = nonnegativity(tree, est, known)
        assert (result.values >= 0).all()
        assert tree.gap(result.values) <= 1e-9 * max(1.0, truth.max())
        for node, exact in known.items():
            assert result.values[node] == pytest.approx(exact, abs=1e-9 * max(1.0, truth.max()))


def test_a_family_that_loses_one_member_per_sweep_is_finished_by_sorting() -> None:
    # e_i = -4^i: few members leave per sweep, so 30 sweeps are not enough for 400 of them.
    values = -(4.0 ** np.arange(400))
    tree = Hierarchy(np.r_[-1, np.zeros(400, int)])
    weights = np.ones((401, 1))
    result = nonnegativity(tree, Estimate(column(7, *values), weights)).values[1:, 0]
    # 7 on members at -1 and -4: lam = 6, then -16 stays out.
    assert result[:3].tolist() == [5.0, 2.0, 0.0]
    assert result.sum() == 7.0


def test_a_total_lost_in_the_rounding_of_its_members_is_still_reached() -> None:
    est = Estimate(column(1e-17, -5e3, -6e3), column(1, 1, 3))
    result = nonnegativity(Hierarchy([-1, 0, 0]), est).values.ravel()
    assert result[1:].sum() == pytest.approx(1e-17, rel=1e-9)
    assert result.min() >= 0


def test_sums_hold_relative_to_the_total_beside_huge_noise() -> None:
    rng = generator(3)
    tree = Hierarchy(np.r_[-1, np.zeros(1000, int)])
    est = Estimate(np.vstack([[[3.0]], rng.normal(0, 2.0**40, size=(1000, 1))]), np.ones((1001, 1)))
    assert tree.gap(nonnegativity(tree, est).values) <= 3e-9


def test_only_roots_are_clipped() -> None:
    est = Estimate(column(-1, 0, 2), np.ones((3, 1)))
    assert nonnegativity(Hierarchy([-1, -1, -1]), est).values.ravel().tolist() == [0, 0, 2]


@pytest.mark.parametrize(
    ("values", "variances", "invariants", "message"),
    [
        (column(1, np.nan, 1), 1.0, None, "node 1 has a value that is not finite; run consistency first"),
        (column(1, 1, 1), [1, np.inf, 1], None, "node 1 has an infinite variance; run consistency first"),
        (column(1, -3, 4), [1, 0, 1], None, "node 1 is exact and negative"),
        (column(1, 1, 1), 1.0, {2: -1}, "node 2 is exact and negative"),
        (column(5, 2, 3), 1.0, {0: 5, 1: 6}, "node 0 and of nodes beneath it contradict"),
        (column(5, 2, 3), 1.0, {0: 5, 1: 1, 2: 1}, "node 0 and of nodes beneath it contradict"),
    ],
)
def test_bad_estimates_are_named_in_one_line(
    values: Any, variances: Any, invariants: Any, message: str
) -> None:
    with pytest.raises(MechanismError, match=re.escape(message)) as caught:
        nonnegativity(Hierarchy([-1, 0, 0]), Estimate(values, np.asarray(variances, float)), invariants)
    assert "\n" not in str(caught.value)


def rounded(parents: list[int], *values: float, **options: Any) -> list[int]:
    est = Estimate(np.array(values, dtype=float)[:, None], np.ones((len(values), 1)))
    return rounding(Hierarchy(parents), est, **options).ravel().tolist()


def test_the_largest_remainders_get_what_is_missing() -> None:
    assert rounded([-1, 0, 0, 0], 10, 2.4, 3.7, 3.9) == [10, 2, 4, 4]
    assert rounded([-1, 0, 0, 0], 10, 3.4, 3.4, 3.2) == [10, 4, 3, 3]


def test_equal_remainders_go_to_the_smaller_node_number() -> None:
    assert rounded([-1, 0, 0, 0], 10, 10 / 3, 10 / 3, 10 / 3) == [10, 4, 3, 3]
    # The same with the numbers turned round: children 0, 1, 2 of root 3, and the last bits against it.
    assert rounded([3, 3, 3, -1], 10 / 3 - 1e-12, 10 / 3, 10 / 3 + 1e-12, 10) == [4, 3, 3, 10]


def test_roots_go_to_the_nearest_and_halves_to_the_even_number() -> None:
    assert rounded([-1] * 6, 0.5, 1.5, 2.5, -0.5, 2.49, -2.6) == [0, 2, 2, 0, 2, -3]


def test_a_parent_rounded_against_its_children_is_absorbed() -> None:
    # Root 1.5 goes to 2; node 1 has the larger remainder; both its children of .4 are below a half.
    assert rounded([-1, 0, 0, 1, 1], 1.5, 0.8, 0.7, 0.4, 0.4) == [2, 1, 1, 1, 0]


def test_almost_whole_values_become_that_number() -> None:
    tiny = 1e-7
    assert rounded([-1, 0, 0, 0], 6.5, 2 + tiny, 3 - tiny, 1.5) == [6, 2, 3, 1]
    assert rounded([-1, 0, 0, 0], 7 - tiny, 2 - tiny, 3 - tiny, 2 + tiny) == [7, 2, 3, 2]


def test_a_whole_table_comes_back_unchanged() -> None:
    rng = generator(2)
    tree = Hierarchy(random_parents(rng, 300))
    table = np.where(tree.leaf[:, None], rng.integers(-50, 50, size=(300, 4)), 0)
    for block in tree.up():
        table[block.parents] = block.total(table[block.children])
    noise = rng.uniform(-1e-9, 1e-9, size=table.shape)
    assert (rounding(tree, Estimate(table + noise, np.ones((300, 1)))) == table).all()


forests = st.builds(
    lambda seed, n: random_parents(generator(seed), n), st.integers(0, 9999), st.integers(1, 40)
)
KINDS = ("noisy", "sparse", "halves", "thirds", "near", "large")


def leaves_of(kind: str, rng: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
    whole = rng.integers(-20, 60, size=shape).astype(float)
    if kind == "noisy":
        return whole + rng.normal(size=shape)
    if kind == "sparse":
        return np.where(rng.random(shape) < 0.9, 0.0, np.abs(whole) * rng.random(shape))
    if kind == "halves":
        return whole / 2
    if kind == "thirds":
        return whole / 3
    if kind == "near":
        return whole + rng.choice([-2e-6, -1e-6, -1e-9, 0, 1e-9, 1e-6, 2e-6, 0.5], size=shape)
    return whole * 2.0**28 + rng.random(shape)


@settings(deadline=None)
@given(forests, st.sampled_from(KINDS), st.integers(0, 9999), st.booleans())
def test_adds_up_within_one_and_never_turns_negative(
    parents: NDArray[np.intp], kind: str, seed: int, small_blocks: bool
) -> None:
    rng, tree = generator(seed), Hierarchy(parents)
    values = np.where(tree.leaf[:, None], leaves_of(kind, rng, (tree.nodes, 3)), 0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "BLOCK", 4 if small_blocks else 1 << 17)
        for block in tree.up():
            values[block.parents] = block.total(values[block.children])
        table = rounding(tree, Estimate(values, np.ones((tree.nodes, 1))))
    assert table.dtype == np.int64
    assert tree.gap(table) == 0
    assert (np.abs(table - values) < 1 + 1e-6).all()
    assert (table[values >= 0] >= 0).all()
    near = np.abs(values - np.rint(values)) <= 1e-7
    if kind != "near":
        assert (table[near] == np.rint(values[near])).all()


@settings(deadline=None)
@given(forests, st.integers(0, 9999))
def test_the_whole_chain_keeps_invariants(parents: NDArray[np.intp], seed: int) -> None:
    rng, tree = generator(seed), Hierarchy(parents)
    truth = np.where(tree.leaf[:, None], rng.poisson(0.7, size=(tree.nodes, 3)), 0).astype(float)
    for block in tree.up():
        truth[block.parents] = block.total(truth[block.children])
    known = {int(n): truth[n] for n in np.flatnonzero(rng.random(tree.nodes) < 0.3)}
    noisy = truth + np.rint(rng.laplace(scale=3, size=truth.shape))
    est = consistency(tree, noisy, rng.uniform(1, 9, tree.nodes), known)
    est = nonnegativity(tree, est, known)
    for options in ({"invariants": known}, {}):
        table = rounding(tree, est, **options)
        assert (table >= 0).all()
        assert tree.gap(table) == 0
        assert (np.abs(table - est.values) < 1 + 1e-9).all()
        for node, exact in known.items():
            assert (table[node] == exact).all()


@settings(deadline=None, max_examples=40)
@given(forests, st.integers(0, 9999))
def test_block_size_does_not_change_the_answer(parents: NDArray[np.intp], seed: int) -> None:
    rng, tree = generator(seed), Hierarchy(parents)
    values = rng.normal(3, 5, size=(tree.nodes, 3))
    tables = []
    for size in (1, 7, 1 << 17):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(layout, "BLOCK", size)
            est = nonnegativity(tree, consistency(tree, values, 1.0))
            tables.append(rounding(tree, est))
    assert (tables[0] == tables[1]).all()
    assert (tables[1] == tables[2]).all()


@pytest.mark.parametrize(
    ("values", "invariants", "message"),
    [
        ([1, 0.5, np.inf], None, "node 2 has a value that is not finite"),
        ([2.0**60, 2.0**60, 0], None, "node 0 has a value beyond exact whole numbers"),
        ([1, 0.5, 0.5], {1: 0.5}, "the invariant of node 1 is not a whole number"),
        ([9, 2, 3], None, "the values below node 0 do not add up to it"),
        ([4, 2, 3], None, "the values below node 0 do not add up to it"),
        ([5, 2, 3], {0: 6, 1: 2, 2: 3}, "the values below node 0 do not add up to it"),
    ],
)
def test_what_cannot_be_rounded_is_named_in_one_line(
    values: list[float], invariants: Any, message: str
) -> None:
    with pytest.raises(MechanismError, match=re.escape(message)) as caught:
        rounded([-1, 0, 0], *values, invariants=invariants)
    assert "\n" not in str(caught.value)


def test_the_cells_of_a_root_keep_their_total() -> None:
    # Each of 1.3, 1.3, 1.4 is nearest to 1, but their sum is 4: the largest remainder goes up.
    est = Estimate(np.array([[1.3, 1.3, 1.4]]), np.ones((1, 1)))
    assert rounding(Hierarchy([-1]), est).tolist() == [[1, 1, 2]]


def test_many_small_remainders_of_a_root_are_not_lost() -> None:
    est = Estimate(np.full((1, 1000), 0.3), np.ones((1, 1)))
    whole = rounding(Hierarchy([-1]), est)
    assert whole.sum() == 300
    assert set(whole.ravel()) == {0, 1}


def test_exported_names_are_there_and_sorted() -> None:
    assert package.__all__ == sorted(package.__all__)
    for name in package.__all__:
        # A function and the file it lives in may share a name; what is exported is the function.
        assert not inspect.ismodule(getattr(package, name))


@pytest.mark.parametrize("name", [m.name for m in pkgutil.iter_modules(package.__path__)])
def test_the_examples_in_the_docstrings_run(name: str) -> None:
    module = importlib.import_module(f"tabularium.mechanisms.inference.{name}")
    assert doctest.testmod(module).failed == 0


def test_the_chain_of_the_house_on_a_table() -> None:
    parents = [2, 2, -1, 2, 3, 3, 3]
    tree = Hierarchy(parents)
    values = generator(4).normal(5, 6, size=(7, 6))
    before = values.copy()
    est = consistency(tree, values, 2.0)
    est = nonnegativity(tree, est)
    table = rounding(tree, est)
    assert table.shape == (7, 6)
    assert (table >= 0).all()
    assert (table[2] == table[0] + table[1] + table[3]).all()
    assert (table[3] == table[4:].sum(axis=0)).all()
    assert (values == before).all()
