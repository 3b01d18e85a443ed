"""Isotonic regression, against its min-max formula in exact numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.privhist import explained
from tabularium.mechanisms.inference.isotonic import isotonic, whole
from tabularium.mechanisms.noise.synthetic import generator

ROWS = st.lists(st.tuples(st.integers(-20, 20), st.integers(1, 9)), min_size=1, max_size=12)


def slow(values: list[int], weights: list[int]) -> list[Fraction]:
    """f_i = max over a <= i of min over b >= i of the weighted mean of a..b (Barlow et al. 1972)."""

    def mean(a: int, b: int) -> Fraction:
        inside = range(a, b + 1)
        return Fraction(sum(values[i] * weights[i] for i in inside), sum(weights[i] for i in inside))

    places = range(len(values))
    return [max(min(mean(a, b) for b in places[i:]) for a in range(i + 1)) for i in places]


@settings(max_examples=250, deadline=None)
@given(ROWS)
def test_it_is_the_minimum_over_all_vectors_in_order(row: list[tuple[int, int]]) -> None:
    values, weights = [list(each) for each in zip(*row, strict=True)]
    assert isotonic(values, weights).tolist() == pytest.approx([float(f) for f in slow(values, weights)])
    falling = isotonic(values[::-1], weights[::-1], increasing=False)
    assert falling.tolist() == isotonic(values, weights).tolist()[::-1]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(-20, 20), min_size=1, max_size=12))
def test_what_heads_explain(values: list[int]) -> None:
    row = np.array(values, dtype=np.float64)
    found = explained(row)
    assert found[0] == 0
    for head in range(1, row.size + 1):
        fitted = np.maximum(isotonic(row[:head], increasing=False), 0)
        left = ((row[:head] - fitted) ** 2).sum()
        assert found[head] == pytest.approx((row[:head] ** 2).sum() - left)


def test_by_hand() -> None:
    assert isotonic([4, 1, 1, 3, 2, 2, 9]).tolist() == [2, 2, 2, *[7 / 3] * 3, 9]
    assert isotonic([5, 1], [1, 3]).tolist() == [2, 2]
    assert isotonic([3, 3, 3]).tolist() == [3, 3, 3]
    assert isotonic([]).tolist() == []


def test_it_never_moves_away_from_the_truth() -> None:
    rng = generator(3)
    for _ in range(200):
        truth = np.sort(rng.integers(0, 50, 40))
        noisy = truth + rng.laplace(0, 9, 40)
        assert ((isotonic(noisy) - truth) ** 2).sum() <= ((noisy - truth) ** 2).sum() + 1e-9


def test_a_million_values_in_one_pass() -> None:
    """The worst case for pooling, all in one pool in the end, stays linear."""
    fallen = isotonic(np.arange(1_000_000)[::-1])
    assert np.unique(fallen).tolist() == [499999.5]


def test_whole_numbers_stay_in_order() -> None:
    assert whole(np.array([-3.0, -0.2, 0.49, 0.5, 1.5, 2.5])).tolist() == [0, 0, 0, 1, 2, 3]


@pytest.mark.parametrize(
    ("values", "weights", "what"),
    [
        ([[1, 2]], None, "row of values"),
        ([1, 2], [1], "as many weights"),
        ([1, np.nan], None, "not a finite"),
        ([1, 2], [1, 0], "not a positive"),
        ([1, 2], [1, np.inf], "not a positive"),
    ],
)
def test_what_it_refuses(values: Any, weights: Any, what: str) -> None:
    with pytest.raises(MechanismError, match=what):
        isotonic(values, weights)
