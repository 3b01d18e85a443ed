"""StructureFirst: exact optima, the sensitivity of its scores, and the odds of its boundaries."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise
from math import floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.channel.replay.replay_audit import log_probabilities
from tabularium.mechanisms.histograms.optimal_histograms import (
    Optima,
    mean_costs,
    optima_around_means,
    optima_around_medians,
)
from tabularium.mechanisms.histograms.structure_first import StructureFirst
from tests.mechanisms.noise.goodness import FALSE_ALARM, WRONG_BY

Cells = list[int]


# --- costs and optima against their definitions -----------------------------------------------------


def squared_error(cells: Cells) -> Fraction:
    return sum((Fraction(x) - Fraction(sum(cells), len(cells))) ** 2 for x in cells)  # type: ignore[return-value]


def mean_cost(cells: Cells, cap: int, unit: int) -> int:
    return floor(unit * sum(cells) * (cap - Fraction(sum(cells), len(cells))))


def absolute_error(cells: Cells) -> int:
    middle = sorted(cells)[(len(cells) - 1) // 2]
    return sum(abs(x - middle) for x in cells)


def optima(cells: Cells, edges: Cells, bins: int, centre: str, cap: int = 9, unit: int = 4) -> Optima:
    counts, grid = np.array(cells, dtype=np.int64), np.array(edges)
    if centre == "mean":
        return optima_around_means(counts, grid, bins, cap, unit)
    return optima_around_medians(counts, grid, bins)


def cost_of(cells: Cells, centre: str, cap: int = 9, unit: int = 4) -> int:
    return mean_cost(cells, cap, unit) if centre == "mean" else absolute_error(cells)


def least(cells: Cells, edges: Cells, bins: int, centre: str) -> int:
    """The least cost of so many bins with boundaries on the edges, by trying them all."""
    inner = combinations(edges[1:-1], bins - 1)
    structures = ([edges[0], *chosen, edges[-1]] for chosen in inner)
    return min(sum(cost_of(cells[a:b], centre) for a, b in pairwise(ends)) for ends in structures)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Cells, Cells]:
    """A few cells, and a grid of edges among them."""
    size = draw(st.integers(1, 7))
    cells = draw(st.lists(st.integers(0, 9), min_size=size, max_size=size))
    inner = draw(st.sets(st.integers(1, size - 1))) if size > 1 else set()
    return cells, [0, *sorted(inner), size]


@pytest.mark.parametrize("centre", ["mean", "median"])
@settings(max_examples=200, deadline=None)
@given(table=tables())
def test_every_entry_is_the_optimum(centre: str, table: tuple[Cells, Cells]) -> None:
    cells, edges = table
    steps = len(edges) - 1
    found = optima(cells, edges, steps + 1, centre)
    assert found.table.shape == (steps + 1, steps + 1)
    for end in range(1, steps + 1):
        ended = [cost_of(cells[first : edges[end]], centre) for first in edges[:end]]
        assert found.costs_ending_at(end).tolist() == ended
        for bins in range(1, end + 1):
            assert found.table[bins, end] == least(cells[: edges[end]], edges[: end + 1], bins, centre)
    for number in range(1, steps):
        costs = found.costs_of_boundary(number, steps)
        assert costs.size == steps - number
        assert costs.min() == least(cells, edges, number + 1, centre)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=9), st.integers(1, 12))
def test_costs_of_large_counts(cells: Cells, width: int) -> None:
    """Medians of counts up to 2^40, with ties; every edge."""
    cells = [x for x in cells for _ in range(1 + x % width % 3)]
    found = optima(cells, list(range(len(cells) + 1)), 2, "median")
    for end in range(1, len(cells) + 1):
        assert found.costs_ending_at(end).tolist() == [absolute_error(cells[a:end]) for a in range(end)]


def test_the_cost_of_means_is_the_squared_error_but_for_a_term_that_all_structures_share() -> None:
    cells, cap = [3, 1, 4, 1, 5, 9, 2, 6], 10
    common = sum(cap * x - x * x for x in cells)
    for cuts in ([0, 8], [0, 3, 8], [0, 1, 6, 8]):
        parts = [cells[a:b] for a, b in pairwise(cuts)]
        exact = sum(Fraction(sum(part)) * (cap - Fraction(sum(part), len(part))) for part in parts)
        assert exact == sum(squared_error(part) for part in parts) + common


def test_costs_at_the_limits_of_64_bits() -> None:
    """A million cells at F = 2^21 - 1: n·F² is just below 2^62."""
    cells, cap = 1 << 20, (1 << 21) - 1
    half = np.repeat([0, cap, cap - 1], [cells // 2, cells // 4, cells // 4])
    edges = np.array([0, cells // 2, cells - 1, cells])
    sums = np.append(0, np.cumsum(np.add.reduceat(half, edges[:-1])))
    found = mean_costs(sums, edges, cap, 1, 3).tolist()
    assert found == [
        floor(Fraction(int(sums[3] - s)) * (cap - Fraction(int(sums[3] - s), int(cells - e))))
        for s, e in zip(sums[:3], edges[:3], strict=True)
    ]
    assert min(found) >= 0
    assert max(found) <= 1 << 60


def test_the_worked_example_of_the_paper() -> None:
    """Figure 3 of Xu et al. 2013: the least squared errors, and the bins 1-3, 4-5 and 6-7."""
    cells, cap, unit = [1, 2, 1, 3, 5, 1, 1], 5, 1 << 20
    found = optima(cells, list(range(8)), 4, "mean", cap, unit)
    common = np.cumsum([cap * x - x * x for x in cells])
    rows = [
        [0, 0.5, 0.67, 2.75, 11.2, 12.8, 14],
        [0, 0.5, 0.67, 2.67, 8.67, 11.2],
        [0, 0.5, 0.67, 2.67, 2.67],
    ]
    for bins, row in enumerate(rows, start=1):
        errors = found.table[bins, bins:] / unit - common[bins - 1 :]
        assert errors.tolist() == pytest.approx(row, abs=0.05)
    second = 2 + int(found.costs_of_boundary(2, 7).argmin())
    first = 1 + int(found.costs_of_boundary(1, second).argmin())
    assert (first, second) == (3, 5)


# --- sensitivity ------------------------------------------------------------------------------------


@pytest.mark.parametrize("centre", ["mean", "median"])
@settings(max_examples=200, deadline=None)
@given(table=tables(), data=st.data())
def test_one_record_moves_no_score_by_more_than_the_sensitivity(
    centre: str, table: tuple[Cells, Cells], data: st.DataObject
) -> None:
    cells, edges = table
    place = data.draw(st.integers(0, len(cells) - 1))
    if cells[place] == 9:
        return
    more = [x + (at == place) for at, x in enumerate(cells)]
    one, other = optima(cells, edges, 4, centre), optima(more, edges, 4, centre)
    bound = 4 * 9 if centre == "mean" else 1
    steps = len(edges) - 1
    for number in range(1, min(steps, 3)):
        for after in range(number + 1, steps + 1):
            moved = other.costs_of_boundary(number, after) - one.costs_of_boundary(number, after)
            assert np.abs(moved).max() <= bound


def test_the_sensitivity_is_no_more_than_it_need_be() -> None:
    """Scores do move apart by nearly 2F, and by 2. (A long row of zeros costs little, with one cell or not.)"""
    for centre, bound in (("mean", 2 * 9 * 4), ("median", 2)):
        cells = [0] * 90 + [9] * 12 + [4]
        more = [*cells[:-1], 5]
        edges = list(range(104))
        moved = optima(more, edges, 2, centre).costs_of_boundary(1, 103)
        moved = moved - optima(cells, edges, 2, centre).costs_of_boundary(1, 103)
        assert int(np.ptp(moved)) >= 0.7 * bound


# --- boundaries follow the stated odds --------------------------------------------------------------

SMALL = [2, 3, 7, 8, 1, 2]


def stated_odds(centre: str, cap: int, epsilon: float) -> dict[tuple[int, int], float]:
    """P(r_1, r_2) of three bins of SMALL: r_2 first, then r_1, by permute-and-flip with ε1/2 each."""

    def odds(totals: list[Fraction], sensitivity: int) -> np.ndarray:
        gaps = np.array([round((total - min(totals)) * 2**20) for total in totals])
        rate = Fraction(epsilon) / 2 / (2 * sensitivity) / 2**20
        return np.exp(log_probabilities(gaps, rate, "permute_and_flip"))

    def error(cells: Cells) -> Fraction:
        return squared_error(cells) if centre == "mean" else Fraction(absolute_error(cells))

    delta = cap if centre == "mean" else 1
    joint = {}
    seconds = range(2, 6)
    best_two = {q: min(error(SMALL[:r]) + error(SMALL[r:q]) for r in range(1, q)) for q in seconds}
    of_second = odds([best_two[q] + error(SMALL[q:]) for q in seconds], delta)
    for q, p in zip(seconds, of_second, strict=True):
        firsts = range(1, q)
        of_first = odds([error(SMALL[:r]) + error(SMALL[r:q]) for r in firsts], delta)
        joint |= {(r, q): float(p * each) for r, each in zip(firsts, of_first, strict=True)}
    return joint


@pytest.mark.parametrize(("centre", "epsilon"), [("mean", Fraction(3)), ("median", Fraction(3, 2))])
def test_boundaries_follow_the_stated_odds(centre: str, epsilon: Fraction) -> None:
    """Chi-square over all ten structures; odds for an ε that is 30 % off are rejected."""
    runs, cap = 1500, 8
    mechanism = StructureFirst(cap, centre, bins=3, structure_share=Fraction(1, 2))
    seen: dict[tuple[int, int], int] = {}
    for run in range(runs):
        channel = SeededChannel(2 * epsilon, seed=run)
        starts = mechanism.measure(SMALL, channel).arrays["starts"].tolist()
        seen[(starts[1], starts[2])] = seen.get((starts[1], starts[2]), 0) + 1

    def fit(budget: float) -> float:
        odds = stated_odds(centre, cap, budget)
        assert sum(odds.values()) == pytest.approx(1)
        assert set(seen) <= set(odds)
        return float(
            stats.chisquare([seen.get(s, 0) for s in odds], [runs * p for p in odds.values()]).pvalue
        )

    assert fit(float(epsilon)) > FALSE_ALARM
    assert fit(float(epsilon) * WRONG_BY) < FALSE_ALARM
    assert fit(float(epsilon) / WRONG_BY) < FALSE_ALARM
