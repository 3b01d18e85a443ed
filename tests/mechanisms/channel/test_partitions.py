"""The least noisy partition: the cheapest of all, with the probabilities and the loss that its proof states."""

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
from tabularium.mechanisms.channel.least_noisy_partition import least_partition, weight_of_change
from tabularium.mechanisms.errors import BudgetExceeded, MechanismError
from tests.sizes import runs


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
