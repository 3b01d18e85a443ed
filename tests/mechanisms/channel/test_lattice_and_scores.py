"""Floats on their way to integers: what rounding may add to a sensitivity is accounted for."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.channel.arguments import gaps_below_best, lattice_sensitivity, on_lattice
from tabularium.mechanisms.errors import MechanismError

WIDTHS = st.sampled_from([Fraction(1, 64), Fraction(1, 2), Fraction(1), Fraction(8)])
REALS = st.floats(-1e6, 1e6, allow_nan=False)


@settings(deadline=None)
@given(
    st.lists(st.tuples(REALS, st.floats(-3, 3)), min_size=1, max_size=20),
    WIDTHS,
    st.sampled_from([Fraction(0), Fraction(1, 1000), Fraction(1)]),
    st.integers(0, 2**32),
)
def test_neighbours_on_the_lattice_stay_within_the_stated_sensitivity(
    pairs: list[tuple[float, float]], width: Fraction, error: Fraction, seed: int
) -> None:
    values = np.array([value for value, _ in pairs])
    moves = np.array([move for _, move in pairs])
    signs = np.where(np.array([(seed >> i) & 1 for i in range(values.size)]), 1.0, -1.0)
    here = on_lattice(values + signs * float(error), width, "x")
    there = on_lattice(values + moves - signs * float(error), width, "x")
    apart = np.abs(here - there)
    slack = 1e-6 / float(width)  # the test's own floating-point sums
    for squared, norm, moved in (
        (False, apart.sum(), np.abs(moves).sum()),
        (True, np.sqrt((apart.astype(float) ** 2).sum()), np.sqrt((moves**2).sum())),
    ):
        bound = lattice_sensitivity(Fraction(float(moved)), width, error, size=values.size, squared=squared)
        assert norm <= float(bound) + slack


def test_the_stated_sensitivity_is_reached() -> None:
    here = on_lattice(np.array([0.999, 0.999, 0.999]), Fraction(1), "x")
    there = on_lattice(np.array([1.0, 1.0, 1.0]), Fraction(1), "x")
    assert np.abs(here - there).sum() == 3
    assert lattice_sensitivity(
        Fraction(3, 1000), Fraction(1), Fraction(0), size=3, squared=False
    ) == 3 + Fraction(3, 1000)
    root = lattice_sensitivity(Fraction(1), Fraction(1), Fraction(0), size=2, squared=True) - 1
    assert 2 <= root**2 <= 2 + Fraction(1, 10**8)


def test_lattice_noise_is_noise_on_the_lattice() -> None:
    channel = SeededChannel(3, seed=2, definition="zcdp")
    for noise in ("laplace", "gaussian"):
        noisy = channel.lattice([0.3, 7.9], 1, sensitivity=1, width="1/4", noise=noise, purpose="v")
        assert noisy.dtype == np.float64
        assert (noisy * 4 == np.round(noisy * 4)).all()
    laplace, gaussian = channel.transcript
    assert (laplace.primitive, laplace.sensitivity, laplace.scale) == ("lattice_laplace", 6, 6)
    assert (gaussian.primitive, gaussian.width) == ("lattice_gaussian", Fraction(1, 4))
    assert 4 + 2**0.5 <= gaussian.sensitivity < 4 + 2**0.5 + 1e-8


@pytest.mark.parametrize("width", ["1/3", "0.1", 3, "6/4"])
def test_a_width_that_would_round_is_refused(width: str | int) -> None:
    with pytest.raises(MechanismError, match="power of two"):
        SeededChannel(1, seed=2).lattice([1.0], 1, sensitivity=1, width=width, purpose="v")


def test_what_is_not_a_number_is_refused() -> None:
    channel = SeededChannel(1, seed=2)
    with pytest.raises(MechanismError, match="not a number"):
        channel.lattice([np.nan], 1, sensitivity=1, width=1, purpose="v")
    with pytest.raises(MechanismError, match="not a number"):
        channel.pick([np.nan, 1.0], 1, purpose="v")
    assert channel.remaining == 1
    assert np.isfinite(channel.lattice([np.inf, -1e300], 1, sensitivity=1, width=1, purpose="v")).all()


def test_integer_scores_are_used_as_they_are() -> None:
    gaps, unit, sensitivity = gaps_below_best([3, 9, -(10**18)], Fraction(2), Fraction(0), "x")
    assert gaps.tolist() == [6, 0, 10**18 + 9]
    assert (unit, sensitivity) == (1, 2)


@settings(deadline=None)
@given(
    st.lists(st.tuples(REALS, st.floats(-1, 1)), min_size=2, max_size=10),
    st.sampled_from([Fraction(1), Fraction(1, 3), Fraction(1000, 7)]),
)
def test_float_scores_keep_their_sensitivity(pairs: list[tuple[float, float]], bound: Fraction) -> None:
    """Steps of the gaps, relative to a candidate that does not move, differ by no more than stated."""
    error = Fraction(1, 10**6)
    scores = np.array([1e7, *(value for value, _ in pairs)])
    moved = scores + np.array([0.0, *(move for _, move in pairs)]) * float(bound)
    one, unit, used = gaps_below_best(scores, bound, error, "x")
    other, same_unit, same_used = gaps_below_best(moved, bound, error, "x")
    assert (unit, used) == (same_unit, same_used)
    assert bound <= used <= bound * Fraction(101, 100)
    assert np.abs(one - other).max() <= used / unit


@pytest.mark.parametrize("bound", [Fraction(1, 3), Fraction(5, 7), Fraction(2)])
def test_the_stated_steps_of_a_score_are_reached(bound: Fraction) -> None:
    """A score just below a lattice point, moved by Δ, passes one point more than Δ has whole steps."""
    _, unit, used = gaps_below_best([0.0], bound, Fraction(0), "x")
    just_below = float(unit) * (1 - 2**-20)  # so that the sum is exact
    here, _, _ = gaps_below_best([100.0, just_below], bound, Fraction(0), "x")
    there, _, _ = gaps_below_best([100.0, just_below + float(bound)], bound, Fraction(0), "x")
    assert int(here[1] - there[1]) == used / unit


def test_an_error_that_would_cost_more_than_one_percent_is_refused() -> None:
    with pytest.raises(MechanismError, match="1 %"):
        gaps_below_best([1.5, 2.5], Fraction(1), Fraction(1, 150), "x")
    gaps_below_best([1.5, 2.5], Fraction(1), Fraction(1, 250), "x")


@pytest.mark.parametrize("scores", [[], [[1, 2]], ["a"], [True, False], np.array([1.0], dtype=np.longdouble)])
def test_scores_of_another_kind_are_refused(scores: list[object]) -> None:
    with pytest.raises(MechanismError):
        SeededChannel(1, seed=2).pick(scores, 1, purpose="v")


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64])
def test_integer_scores_of_every_type(dtype: type) -> None:
    top = np.iinfo(dtype).max
    gaps, _, _ = gaps_below_best(np.array([0, top, top - 1], dtype=dtype), Fraction(1), Fraction(0), "x")
    clipped = min(int(top), 2**61)
    assert gaps.tolist() == [clipped, 0, 1 if top < 2**61 else 0]


def test_the_lattice_takes_floats_only() -> None:
    with pytest.raises(MechanismError, match="use laplace for integers"):
        SeededChannel(1, seed=2).lattice([1, 2], 1, sensitivity=1, width=1, purpose="v")
    extreme = SeededChannel(1, seed=2).lattice([1e308, -1e308], 1, sensitivity=1, width="1/1024", purpose="v")
    assert np.abs(extreme).max() < 2**43


def test_huge_scores_are_clipped_at_a_public_bound() -> None:
    gaps, unit, _ = gaps_below_best([np.inf, -np.inf, 0.0], Fraction(1), Fraction(0), "x")
    assert gaps.min() == 0
    assert gaps.max() == 2**62
    assert unit < 1
