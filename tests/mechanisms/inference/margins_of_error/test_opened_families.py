"""Parts of hierarchies that stand for the whole: by hand, by their weights, and beside whole simulations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabularium.mechanisms.inference import Hierarchy, TreeLeastSquares, consistency
from tabularium.mechanisms.inference.margins_of_error.opened_families import (
    Part,
    some_opened,
)
from tabularium.mechanisms.noise.synthetic import generator

# A nation, three provinces of 2, 3 and 1 places; the first place has two quarters.
TREE = Hierarchy([-1, 0, 0, 0, 1, 1, 2, 2, 2, 3, 4, 4])


def test_a_part_by_hand() -> None:
    chances = np.zeros(12)
    chances[[0, 1, 2]] = 1.0, 0.5, 0.25
    part = Part.of(TREE, chances)
    assert part.nodes.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert part.tree.parents.tolist() == [-1, 0, 0, 0, 1, 1, 2, 2, 2]
    assert np.flatnonzero(part.cut).tolist() == [3, 4], "a province and a place whose own were left out"
    assert part.weights.tolist() == [1, 1, 1, 1, 2, 2, 4, 4, 4]
    provinces = part.first(Hierarchy(TREE.parents[:4]))
    assert provinces.nodes.tolist() == [0, 1, 2, 3]
    assert not provinces.cut.any(), "in a table of provinces nothing is left out"


@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_what_is_left_out_says_the_same_of_all_above_and_beside(seed: int, province: int) -> None:
    """Least squares over the whole, and over a part in which nodes have the estimate from all below them."""
    rng = generator(seed)
    spread = rng.choice([0.5, 1.0, 4.0, np.inf], (TREE.nodes, 1), p=[0.3, 0.3, 0.3, 0.1])
    spread[TREE.leaf] = np.minimum(spread[TREE.leaf], 9.0)
    measured = rng.normal(0, 5, (TREE.nodes, 2))
    whole = consistency(TREE, measured, spread)
    chances = np.zeros(TREE.nodes)
    chances[[0, province]] = 1.0
    part, below = Part.of(TREE, chances), TreeLeastSquares(TREE, spread).below
    # What a subtree says of its root: the subtree by itself.
    values, variances = measured[part.nodes], spread[part.nodes]
    for place in np.flatnonzero(part.cut):
        own = _subtree(int(part.nodes[place]))
        parents = np.array([own.index(int(TREE.parents[node])) if node != own[0] else -1 for node in own])
        alone = consistency(Hierarchy(parents), measured[own], spread[own])
        assert below[part.nodes[place]] == pytest.approx(alone.variances[0])
        values[place], variances[place] = alone.values[0], below[part.nodes[place]]
    some = consistency(part.tree, values, variances)
    np.testing.assert_allclose(some.values, whole.values[part.nodes], atol=1e-9)
    np.testing.assert_allclose(some.variances, whole.variances[part.nodes], atol=1e-9)


def _subtree(node: int) -> list[int]:
    found = [node]
    for each in found:
        found += np.flatnonzero(TREE.parents == each).tolist()
    return found


def test_weights_add_up_to_the_whole_over_releases() -> None:
    """1 000 families of which a few are huge: nodes and published numbers, estimated by weights."""
    rng = generator(3)
    families = np.repeat(np.arange(1000), rng.integers(1, 9, 1000))
    tree = Hierarchy(np.concatenate(([-1], np.zeros(1000, int), 1 + families)))
    values = np.zeros(tree.nodes)
    values[1:1001] = rng.pareto(1.1, 1000)

    def size(nodes: np.ndarray) -> np.ndarray:
        return values[nodes]

    nodes, sums, seen = [], [], np.zeros(tree.nodes, bool)
    for run in range(200):
        part = some_opened(tree, size, np.array([1.0, 1.0, 1.0]), 400, run)
        leaves = part.nodes > 1000
        assert 100 < leaves.sum() < 800
        nodes.append(part.weights[leaves].sum())
        sums.append(part.weights[leaves] @ values[tree.parents[part.nodes[leaves]]])
        seen[part.nodes] = True
    exact = values[tree.parents[1001:]].sum()
    assert np.mean(nodes) == pytest.approx(len(families), rel=0.02)
    assert np.mean(sums) == pytest.approx(exact, rel=0.02)
    assert np.std(sums) < 0.25 * exact, "huge families are in every release, and do not come and go"
    assert seen[1001:].mean() > 0.99


def test_small_hierarchies_are_opened_whole() -> None:
    part = some_opened(TREE, lambda nodes: np.zeros(len(nodes)), np.ones(4), 100, 5)
    assert part.nodes.tolist() == list(range(12))
    assert not part.cut.any()
    assert (part.weights == 1).all()
