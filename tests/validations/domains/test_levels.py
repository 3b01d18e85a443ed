"""Cuts of a code list, on ragged trees too."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabularium.mechanisms.errors import InputError
from tabularium.validations.domains.domains import (
    HierarchyDomain,
    cut,
    depth_of,
    leaf_positions,
    nodes_to,
    positions,
)
from tests.validations.domains.encoding_bench import tree

# 0 ── 1 ── 3 ── 5, 6
#  └── 2 (leaf)   1 ── 4 (leaf)
RAGGED = tree([-1, 0, 0, 1, 1, 3, 3], ("nation", "region", "district", "block"))


@pytest.mark.parametrize(
    ("level", "nodes", "prefix", "leaves"),
    [
        ("nation", [0], 1, [0, 0, 0, 0]),
        ("region", [1, 2], 3, [1, 0, 0, 0]),
        ("district", [2, 3, 4], 5, [0, 2, 1, 1]),
        ("block", [2, 4, 5, 6], 7, [0, 1, 2, 3]),
    ],
)
def test_a_cut_holds_the_nodes_of_its_depth_and_the_leaves_above(
    level: str, nodes: list[int], prefix: int, leaves: list[int]
) -> None:
    assert cut(RAGGED, level).tolist() == nodes
    assert nodes_to(RAGGED, level) == prefix
    assert leaf_positions(RAGGED, level).tolist() == leaves


def test_the_deepest_cut_is_the_leaves() -> None:
    assert cut(RAGGED, "block").tolist() == RAGGED.leaves.tolist()


def test_a_cut_of_as_many_nodes_as_leaves_may_still_be_in_another_order() -> None:
    # two roots; the first goes on to a single child, the second is a leaf
    chain = tree([-1, -1, 0], ("root", "leaf"))
    assert chain.leaves.tolist() == [1, 2]
    assert cut(chain, "root").tolist() == [0, 1]
    assert leaf_positions(chain, "root").tolist() == [1, 0]


def test_an_unknown_level_is_named() -> None:
    with pytest.raises(InputError, match="no level 'village'"):
        depth_of(RAGGED, "village")


@st.composite
def trees(draw: st.DrawFn) -> HierarchyDomain:
    """A random forest in breadth-first order."""
    parents = [-1] * draw(st.integers(1, 3))
    layer = list(range(len(parents)))
    for _ in range(draw(st.integers(1, 4))):
        below = []
        for node in layer:
            for _ in range(draw(st.integers(0, 3))):
                below.append(len(parents))
                parents.append(node)
        layer = below
    levels = tuple(f"level{d}" for d in range(6))
    return tree(parents, levels)


@given(trees())
def test_every_leaf_lies_below_exactly_one_node_of_every_cut(domain: HierarchyDomain) -> None:
    for level in domain.levels:
        nodes = cut(domain, level)
        assert (np.diff(nodes) > 0).all()
        places = leaf_positions(domain, level)
        for cell, leaf in enumerate(domain.leaves):
            above = [int(leaf)]
            while domain.parents[above[-1]] >= 0:
                above.append(int(domain.parents[above[-1]]))
            assert [node for node in above if node in nodes] == [nodes[places[cell]]]


@given(trees())
def test_positions_compose_from_cut_to_coarser_cut(domain: HierarchyDomain) -> None:
    for fine, coarse in zip(domain.levels[1:], domain.levels, strict=False):
        direct = leaf_positions(domain, coarse)
        stepwise = positions(domain, cut(domain, fine), coarse)[leaf_positions(domain, fine)]
        assert direct.tolist() == stepwise.tolist()
