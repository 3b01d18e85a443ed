"""What is about to be published: whole, non-negative, additive, complete."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.validations.release_spec.publication import PostProcessing
from tabularium.validations.suites.published_tables import check_table

# 0 ── 1 ── 3, 4;  0 ── 2
PARENTS = np.array([-1, 0, 0, 1, 1])
GOOD = np.array([[6, 9], [4, 5], [2, 4], [1, 0], [3, 5]])
# children that are not neighbours: 0 ── 2, 4;  1 ── 3, 5
APART = np.array([-1, -1, 0, 1, 0, 1])
APART_GOOD = np.array([[5], [7], [2], [3], [3], [4]])


def broken(parents: Any, table: Any, cells: int | None = None, **promised: bool) -> list[str]:
    results = check_table("people", parents, table, promised=PostProcessing(**promised), cells=cells)
    assert {result.severity for result in results} == {"stop"}
    return [result.name for result in results if not result.passed]


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_a_good_table_passes(kind: Any) -> None:
    assert broken(PARENTS, GOOD.astype(kind), cells=2) == []
    assert broken(APART, APART_GOOD.astype(kind)) == []
    assert broken(np.array([-1]), np.zeros((1, 4), kind)) == []


@pytest.mark.parametrize("kind", [np.int64, np.float64])
@pytest.mark.parametrize("node", range(5))
def test_one_cell_off_by_one_is_not_additive(node: int, kind: Any) -> None:
    table = GOOD.astype(kind)
    table[node, 1] += 1
    assert broken(PARENTS, table) == ["additive"]


@pytest.mark.parametrize("node", range(6))
def test_families_that_are_not_neighbours_are_found(node: int) -> None:
    table = APART_GOOD.copy()
    table[node] += 1
    assert broken(APART, table) == ["additive"]


def test_a_fraction_is_not_integral() -> None:
    table = GOOD.astype(float)
    table[2, 0] += 0.25
    table[0, 0] += 0.25
    assert broken(PARENTS, table) == ["integral"]
    assert broken(PARENTS, table, rounding=False) == []


def test_a_negative_cell_is_found_where_it_is_promised_that_there_is_none() -> None:
    table = GOOD.copy()
    table[3, 1] -= 1
    table[4, 1] += 1
    assert broken(PARENTS, table) == ["non-negative"]
    assert broken(PARENTS, table, nonnegativity=False) == []


def test_sums_of_doubles_may_differ_by_their_rounding_and_no_more() -> None:
    leaves = np.full((1000, 1), 0.1)
    parents = np.array([-1, *[0] * 1000])
    table = np.vstack([[[leaves.sum() + 1e-10]], leaves])
    assert broken(parents, table, rounding=False) == []
    table[0] += 1e-5
    assert broken(parents, table, rounding=False) == ["additive"]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_cell_without_a_number_is_missing(value: float) -> None:
    table = GOOD.astype(float)
    table[3, 0] = value
    assert "complete" in broken(PARENTS, table)
    assert "additive" in broken(PARENTS, table) or np.isinf(value)


def test_nodes_and_cells_of_the_domain_must_all_be_there() -> None:
    assert broken(PARENTS, GOOD[:-1]) == ["complete", "additive"]
    assert broken(PARENTS, GOOD, cells=3) == ["complete"]
    assert broken(PARENTS, GOOD[:, 0]) == ["complete", "additive"]


@given(
    parents=st.lists(st.integers(0, 100), min_size=1, max_size=25),
    leaves=st.lists(st.integers(0, 50), min_size=30, max_size=30),
    place=st.integers(0, 100),
)
@settings(max_examples=15, deadline=None)
def test_sums_of_any_tree_are_additive_until_one_is_changed(
    parents: list[int], leaves: list[int], place: int
) -> None:
    above = np.array([-1] + [parent % (node + 1) for node, parent in enumerate(parents)])
    values = np.zeros((len(above), 1), np.int64)
    inner = np.isin(np.arange(len(above)), above)
    for node in range(len(above) - 1, -1, -1):
        if not inner[node]:
            values[node] = leaves[node % 30]
        if above[node] >= 0:
            values[above[node]] += values[node]
    assert broken(above, values) == []
    values[place % len(above)] += 1
    assert broken(above, values) == ["additive"]
