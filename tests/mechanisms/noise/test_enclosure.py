"""The integer bounds that every threshold comes from."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabularium.mechanisms.noise.enclosure import Enclosure, _taylor, exp_minus, floors
from tests.mechanisms.noise import reference

RATES = st.fractions(min_value=Fraction(1, 10**12), max_value=60, max_denominator=10**12)


@given(RATES, st.sampled_from([8, 64, 128, 200]))
def test_the_bounds_hold_and_are_tight(rate: Fraction, bits: int) -> None:
    found = exp_minus(rate, bits)
    truth = reference.exp_minus(rate)
    assert found.low <= reference.floor_bits(truth, bits)
    assert found.high >= reference.floor_bits(truth, bits) + 1 or found.high == 1 << bits
    assert found.high - found.low <= 3


@pytest.mark.parametrize(
    "rate", [Fraction(0), Fraction(10**9), Fraction(1, 10**30), Fraction(709), Fraction(1)]
)
def test_extreme_rates(rate: Fraction) -> None:
    found = exp_minus(rate, 64)
    truth = Fraction(reference.exp_minus(rate)) * 2**64
    assert found.low <= truth <= found.high
    assert found.high - found.low <= 3


@given(RATES, st.integers(1, 300))
def test_the_floor_is_the_floor(rate: Fraction, bits: int) -> None:
    (found,) = floors(lambda precision: [exp_minus(rate, precision)], bits)
    assert found == reference.floor_bits(reference.exp_minus(rate), bits)


@given(
    st.fractions(min_value=0, max_value=Fraction(1, 128), max_denominator=10**12),
    st.sampled_from([16, 64, 200]),
)
def test_the_series_is_bounded_from_both_sides(point: Fraction, bits: int) -> None:
    steps = int(point * 2**bits)
    low, high = _taylor(steps, bits)
    truth = 2**bits / Fraction(reference.exp_minus(Fraction(steps, 2**bits)))
    assert low <= truth <= high
    assert high - low <= 200


def test_a_value_too_near_to_one_for_its_digits_to_be_computed() -> None:
    def nearly_one(bits: int) -> list[Enclosure]:
        return [exp_minus(Fraction(10**7), bits).complement()]

    assert floors(nearly_one, 64) == [2**64 - 1]


def test_precision_is_raised_until_the_digits_are_certain() -> None:
    asked: list[int] = []

    def just_above_half(bits: int) -> list[Enclosure]:
        asked.append(bits)
        value = (1 << (bits - 1)) + ((1 << bits) >> 300)
        return [Enclosure(value - 1, value + 1, bits)]

    assert floors(just_above_half, 8) == [128]
    assert asked == [72, 136, 264, 520]


@given(RATES, RATES)
def test_arithmetic_rounds_outwards(one: Fraction, other: Fraction) -> None:
    bits = 96
    a, b = exp_minus(one, bits), exp_minus(other, bits)
    x, y = Fraction(reference.exp_minus(one)), Fraction(reference.exp_minus(other))
    unit = Fraction(1, 2**bits)
    for found, truth in ((a * b, x * y), (a + b, x + y), (a.complement(), 1 - x)):
        assert found.low * unit <= truth <= found.high * unit
    if b.low > 2**60:
        assert (a / b).low * unit <= x / y <= (a / b).high * unit
