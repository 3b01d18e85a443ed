"""Shares add to exactly one, and rounded budgets are not below what they stand for."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from tabularium.mechanisms.planning.smallest_budget import rounded_shares, short_above


@given(st.lists(st.floats(1e-9, 1.0), min_size=1, max_size=10), st.sampled_from([10, 100, 1000]))
def test_shares_add_to_one_and_none_is_nothing(parts: list[float], denominator: int) -> None:
    found = rounded_shares({str(place): part for place, part in enumerate(parts)}, denominator)
    assert sum(found.values()) == 1
    assert all(share > 0 and (share * denominator).denominator == 1 for share in found.values())


@given(st.lists(st.floats(0.05, 1.0), min_size=1, max_size=10))
def test_shares_are_near_the_parts(parts: list[float]) -> None:
    found = rounded_shares({str(place): part for place, part in enumerate(parts)}, 1000)
    assert all(
        abs(float(share) - part / sum(parts)) < 0.001
        for share, part in zip(found.values(), parts, strict=True)
    )


@given(st.floats(1e-6, 1e3))
def test_a_short_budget_is_enough_and_little_more(amount: float) -> None:
    found = short_above(amount)
    assert Fraction(amount) <= found <= Fraction(amount) * Fraction(102, 100)
    assert len(str(found.numerator)) <= 7
