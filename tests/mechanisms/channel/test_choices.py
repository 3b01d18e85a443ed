"""Floats on their way to integers: what rounding may add to a sensitivity is accounted for."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.channel.arguments import gaps_below_best, lattice_sensitivity, on_lattice
from tabularium.mechanisms.channel.least_noisy_partition import least_partition, weight_of_change
from tabularium.mechanisms.errors import BudgetExceeded, MechanismError
from tests.sizes import runs

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


# --- The least noisy partition: the cheapest of all, with the probabilities and the loss that its proof states ---


def every_interval(cells: int) -> tuple[np.ndarray, np.ndarray]:
    pairs = [(a, b) for b in range(1, cells + 1) for a in range(b)]
    return np.array([a for a, _ in pairs]), np.array([b for _, b in pairs])


def every_partition(cells: int) -> list[list[tuple[int, int]]]:
    found = []
    for cuts in product([False, True], repeat=cells - 1):
        edges = [0, *(place + 1 for place, cut in enumerate(cuts) if cut), cells]
        found.append(list(pairwise(edges)))
    return found


def is_partition(chosen: np.ndarray, starts: np.ndarray, stops: np.ndarray, cells: int) -> bool:
    """Return whether the chosen intervals follow each other from the first bin to the last."""
    ends = np.concatenate([[0], stops[chosen]])
    return bool(np.array_equal(ends[:-1], starts[chosen]) and ends[-1] == cells)


@settings(max_examples=runs(100, 300), deadline=None)
@given(st.data())
def test_it_is_the_cheapest_of_all(data: st.DataObject) -> None:
    cells = data.draw(st.integers(1, 7))
    starts, stops = every_interval(cells)
    kept = (stops - starts == 1) | np.array(
        data.draw(st.lists(st.booleans(), min_size=starts.size, max_size=starts.size))
    )
    starts, stops = starts[kept], stops[kept]
    costs = np.array(data.draw(st.lists(st.integers(-50, 50), min_size=starts.size, max_size=starts.size)))
    shuffle = np.array(data.draw(st.permutations(range(starts.size))))
    starts, stops, costs = starts[shuffle], stops[shuffle], costs[shuffle]
    price = {(int(a), int(b)): int(c) for a, b, c in zip(starts, stops, costs, strict=True)}
    chosen = least_partition(costs, starts, stops, cells)
    assert is_partition(chosen, starts, stops, cells)
    cheapest = min(
        sum(price[part] for part in parts)
        for parts in every_partition(cells)
        if all(part in price for part in parts)
    )
    assert costs[chosen].sum() == cheapest


def probabilities(costs: dict[tuple[int, int], int], scale: float, reach: int) -> Counter:
    """Every noise from -reach to reach on every interval, enumerated: partition -> probability."""
    p = math.exp(-1 / scale)
    noise = [(z, (1 - p) / (1 + p) * p ** abs(z)) for z in range(-reach, reach + 1)]
    names = list(costs)
    starts, stops = np.array([a for a, _ in names]), np.array([b for _, b in names])
    found: Counter = Counter()
    for draw in product(noise, repeat=len(names)):
        noisy = np.array([costs[name] + z for name, (z, _) in zip(names, draw, strict=True)])
        chosen = tuple(least_partition(noisy, starts, stops, int(stops.max())).tolist())
        found[chosen] += math.prod(weight for _, weight in draw)
    return found


def test_the_loss_that_is_stated_is_not_exceeded_and_nearly_reached() -> None:
    """Two bins, exact but for the far tail: a record in bin 0 moves costs of {0} and {0, 1} by up to Δ = 2."""
    epsilon, scale = 2.0, 2.0
    base = {(0, 1): 0, (1, 2): 0, (0, 2): 1}
    one, worst = probabilities(base, scale, 12), 0.0
    for here, both in product((-2, 0, 2), repeat=2):
        moved = {(0, 1): here, (1, 2): 0, (0, 2): 1 + both}
        other = probabilities(moved, scale, 12)
        worst = max(worst, *(abs(math.log(one[key] / other[key])) for key in one))
    assert 0.4 * epsilon < worst <= epsilon


def test_it_is_drawn_with_its_probabilities() -> None:
    costs = {(0, 1): 0, (1, 2): 3, (0, 2): 1}
    starts, stops = np.array([0, 1, 0]), np.array([1, 2, 2])
    right = probabilities(costs, 2.0, 15)
    wrong = probabilities(costs, 2.0 * 0.7, 15)
    channel = SeededChannel(20_000, seed=3)
    drawn = Counter(
        tuple(channel.partition([0, 3, 1], starts, stops, 2, cells=2, sensitivity=2, purpose="cut").tolist())
        for _ in range(4000)
    )
    assert set(drawn) == set(right) == {(0, 1), (2,)}
    assert stats.binomtest(drawn[2,], 4000, right[2,]).pvalue > 1e-6
    assert channel.transcript[0].scale == 2
    assert channel.transcript[0].epsilon == 2
    assert abs(right[2,] - wrong[2,]) > 0.02


def test_a_record_weighs_what_it_moves() -> None:
    starts, stops = every_interval(5)
    holds = (starts <= 2) & (stops > 2)
    assert weight_of_change(2 * holds, starts, stops, 5) == 2
    assert weight_of_change(np.zeros_like(starts), starts, stops, 5) == 0
    two = 2 * holds + 2 * ((starts <= 4) & (stops > 4))  # two records in two bins
    assert weight_of_change(two, starts, stops, 5) == 4
    apart = np.where(stops <= 2, 2, 0) + np.where(starts >= 3, 2, 0)  # no one bin explains it
    assert weight_of_change(apart, starts, stops, 5) > 2


@pytest.mark.parametrize(
    ("costs", "starts", "stops", "message"),
    [
        ([1, 1], [0, 1], [1, 3], "does not lie"),
        ([1, 1], [0, 0], [2, 1], "every single bin"),
        ([1.0, 1.0], [0, 1], [1, 2], "integers"),
        ([1], [0, 1], [1, 2], "a cost, a start and a stop"),
        ([1, 1, 1], [0, 1, 1], [1, 2, 1], "empty"),
        ([], [], [], "a cost, a start and a stop"),
    ],
)
def test_what_is_no_offer_is_refused_with_nothing_drawn(
    costs: list, starts: list, stops: list, message: str
) -> None:
    channel = SeededChannel(1, seed=1)
    with pytest.raises(MechanismError, match=message):
        channel.partition(costs, starts, stops, 1, cells=2, sensitivity=2, purpose="cut")
    assert channel.remaining == 1
    assert channel.transcript == ()


def test_a_partition_is_paid_for() -> None:
    channel = SeededChannel(Fraction(1, 2), seed=1)
    with pytest.raises(BudgetExceeded):
        channel.partition([0, 0], [0, 1], [1, 2], 1, cells=2, sensitivity=2, purpose="cut")
    huge = np.array([2**63 - 1, -(2**63)])
    assert channel.partition(huge, [0, 1], [1, 2], "1/2", cells=2, sensitivity=2, purpose="cut").tolist() == [
        0,
        1,
    ]
    assert channel.remaining == 0
