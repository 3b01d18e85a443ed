from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tabularium.mechanisms.inference.hierarchy as layout
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference import Estimate, Hierarchy, consistency, nonnegativity, rounding
from tabularium.mechanisms.noise.synthetic import generator
from tests.dense import random_parents


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
def test_bad_input_is_named_in_one_line(values: list[float], invariants: Any, message: str) -> None:
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
