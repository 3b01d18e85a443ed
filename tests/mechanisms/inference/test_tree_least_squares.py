from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import tabularium.mechanisms.inference.hierarchy as layout
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference import Hierarchy, TreeLeastSquares, consistency
from tabularium.mechanisms.noise.synthetic import generator
from tests.dense import dense_weights, leaf_matrix, least_squares, random_parents


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
