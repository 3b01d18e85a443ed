"""The smallest change that keeps all invariants: the formula against every change of small tables."""

from __future__ import annotations

from itertools import chain, combinations, product
from typing import Any

import numpy as np
import pytest

from tabularium.validations.release_spec.exact_facts import replaced_records

NAMES = ("a", "b", "c")
SUBSETS = [frozenset(some) for size in range(4) for some in combinations(NAMES, size)]


def smallest(shape: tuple[int, ...], marginals: list[Any]) -> int:
    """Half of the smallest Σ|z| over all z that no marginal sees; 0 if there is none.

    Of eight cells or more every one changes by 1 at most, of fewer by 2.
    """
    cells = int(np.prod(shape))
    most = 2 if cells <= 6 else 1
    grid = np.array(list(product(range(-most, most + 1), repeat=cells)), np.int8).reshape(-1, *shape)
    kept = np.ones(len(grid), bool)
    for axes, groups in marginals:
        seen = grid
        for axis in reversed(range(len(shape))):
            if axis not in axes:
                seen = seen.sum(axis=axis + 1, keepdims=True)
            elif axis in groups:
                parts = [
                    seen.take(group, axis + 1).sum(axis=axis + 1, keepdims=True) for group in groups[axis]
                ]
                seen = np.concatenate(parts, axis=axis + 1)
        kept &= ~seen.reshape(len(grid), -1).any(axis=1)
    sums = np.abs(grid[kept]).reshape(int(kept.sum()), -1).sum(axis=1)
    found = sums[sums > 0]
    return int(found.min()) // 2 if len(found) else 0


@pytest.mark.parametrize("number", [1, 2, 3])
def test_every_family_of_marginals_of_a_2x2x2_table(number: int) -> None:
    for family in combinations(SUBSETS, number):
        told = [({NAMES.index(name) for name in some}, {}) for some in family]
        assert replaced_records(NAMES, family) == smallest((2, 2, 2), told), family


def test_a_larger_table_and_larger_steps() -> None:
    both = [frozenset("a"), frozenset("b")]
    assert replaced_records("ab", both) == smallest((2, 3), [({0}, {}), ({1}, {})]) == 2
    assert replaced_records("ab", [frozenset()]) == smallest((3, 2), [(set(), {})]) == 1
    assert replaced_records("ab", [frozenset("ab")]) == smallest((3, 2), [({0, 1}, {})]) == 0


def test_a_column_at_a_higher_level_is_not_seen() -> None:
    """Three leaves in two regions: the invariant tells the regions apart, not the leaves of one."""
    regions = {0: [[0, 1], [2]]}
    assert replaced_records("ab", [frozenset("b")]) == smallest((3, 2), [({0, 1}, regions)]) == 1
    crossed = [({0}, regions), ({1}, {})]
    assert replaced_records("ab", [frozenset(), frozenset("b")]) == smallest((3, 2), crossed) == 1
    whole = [({0, 1}, regions), ({0}, {})]
    assert replaced_records("ab", [frozenset("b"), frozenset("a")]) == smallest((3, 2), whole) == 2


def test_three_way_only_what_no_pair_fixes() -> None:
    pairs = [frozenset(pair) for pair in combinations(NAMES, 2)]
    assert replaced_records(NAMES, pairs) == 4
    assert replaced_records([], [frozenset()]) == 0
    assert set(chain.from_iterable(pairs)) == set(NAMES)
