from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tabularium.mechanisms.inference.hierarchy as layout
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.inference import Block, Hierarchy
from tabularium.mechanisms.noise.synthetic import generator
from tests.dense import random_parents


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
