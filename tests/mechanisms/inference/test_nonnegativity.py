from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import optimize

import tabularium.mechanisms.inference.family_projection as module
import tabularium.mechanisms.inference.hierarchy as layout
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference import Estimate, Hierarchy, consistency, nonnegativity
from tabularium.mechanisms.noise.synthetic import generator
from tests.dense import project_family, random_parents


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
def test_bad_input_is_named_in_one_line(values: Any, variances: Any, invariants: Any, message: str) -> None:
    with pytest.raises(MechanismError, match=re.escape(message)) as caught:
        nonnegativity(Hierarchy([-1, 0, 0]), Estimate(values, np.asarray(variances, float)), invariants)
    assert "\n" not in str(caught.value)
