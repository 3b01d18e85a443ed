"""StructureFirst: its budget, what it releases, and the trees in its bins."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise
from math import exp, floor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.channel.replay.replay_audit import log_probabilities
from tabularium.mechanisms.histograms.structure_first import (
    Bound,
    Optima,
    StructureFirst,
    least_bound,
    lower_medians,
    mean_costs,
    optima_around_means,
    optima_around_medians,
    shares,
)
from tabularium.mechanisms.inference.even_trees import stands
from tabularium.mechanisms.noise.synthetic import generator
from tests.dense import gain_of
from tests.mechanisms.noise.goodness import FALSE_ALARM, WRONG_BY

Cells = list[int]


# --- budget -----------------------------------------------------------------------------------------


def test_what_was_spent_on_the_structure_is_said() -> None:
    mechanism = StructureFirst(9, bins=4, structure_share=Fraction(3, 10))
    release = mechanism.release(np.arange(30) % 10, SeededChannel(1, seed=1))
    assert release.diagnostics["spent_on_structure"] == "3/10"
    assert release.diagnostics["spent_on_values"] == "7/10"


def test_a_choice_without_alternatives_is_not_paid_for() -> None:
    """The last boundary falls on the leftmost place it can: the others have one candidate each."""
    counts = [0, 0, 0, 9, 9, 9]
    mechanism = StructureFirst(9, bins=3, structure_share=Fraction(1, 2))
    seen = set()
    for seed in range(200):
        channel = SeededChannel(1, seed=seed)
        starts = mechanism.measure(counts, channel).arrays["starts"].tolist()
        losses = tuple(event.loss for event in channel.transcript)
        seen.add((starts[2] == 2, losses))
        assert channel.remaining == 0
    quarter = Fraction(1, 4)
    assert seen == {(True, (quarter, 3 * quarter)), (False, (quarter, quarter, 2 * quarter))}


def test_concentrated_budget_is_spent_to_the_last() -> None:
    channel = SeededChannel(Fraction(1, 8), seed=1, definition="zcdp")
    StructureFirst(9, "median", bins=3, structure_share=Fraction(1, 3)).release(np.arange(20), channel)
    choices, (medians,) = channel.transcript[:-1], channel.transcript[-1:]
    for event in choices:
        assert event.loss <= Fraction(1, 48)
        assert float(event.loss) == pytest.approx(1 / 48)
    assert medians.primitive == "discrete_gaussian"
    assert channel.remaining == 0


def test_the_bound_is_the_papers() -> None:
    """n = m = 100, k = 5, F = 10, written out; Δ = F where the paper has 2F + 1."""
    bound = Bound(100, 100, 5, 10, "mean", "pure")
    for first, rest in ((0.02, 0.08), (0.001, 0.5), (3.0, 1.0)):
        worst = first * 100 * 10**2 / 4 / (2 * 4 * 10)
        alpha = max(100 * (1 - worst), exp(-worst))
        whole = 100 * 4**2 * 10 / (first * alpha) + 2 * 5 / rest**2
        assert exp(bound.log_error(first, rest)) == pytest.approx(whole)
    medians = Bound(100, 100, 5, 10, "median", "pure")
    alpha = max(100 * (1 - 0.02 * 500 / 8), exp(-0.02 * 500 / 8))
    assert exp(medians.log_error(0.02, 0.08)) == pytest.approx(100 * 16 / (0.02 * alpha) + 100 / 0.08)


@pytest.mark.parametrize("centre", ["mean", "median"])
@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_the_split_is_the_least_and_always_there(centre: str, definition: str) -> None:
    for cells, bins, cap in ((10, 2, 1), (7725, 204, 500), (1 << 20, 819, 1 << 21)):
        for budget in (Fraction(1, 10**6), Fraction(1), Fraction(50)):
            bound = Bound(cells, min(cells, 8192), bins, cap, centre, definition)
            best = least_bound(bound, budget)
            total = float(budget)
            errors = [bound.log_error(total * float(s), total * float(1 - s)) for s in shares()]
            assert np.isfinite(errors).all()
            assert min(errors) == bound.log_error(total * float(best), total * float(1 - best))
            assert 0 < best < 1


def test_shares_ascend_and_are_exact() -> None:
    found = shares()
    assert found == sorted(set(found))
    assert found[0] == Fraction(1, 1 << 30)
    assert found[-1] == 1 - found[0]


def test_public_numbers_alone_split_the_budget() -> None:
    mechanism = StructureFirst(500)
    share = mechanism.share_for(7725, Fraction(1, 10))
    for counts in (np.zeros(7725, np.int64), np.full(7725, 1 << 40)):
        channel = SeededChannel(Fraction(1, 10), seed=1)
        mechanism.measure(counts, channel)
        assert channel.transcript[0].loss == share / 10 / 203


# --- what is released -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("centre", "exact"),
    [("mean", [3.4] * 5 + [100.0, 100.0, 200.0]), ("median", [5] * 5 + [100, 100, 200])],
)
def test_means_and_medians_of_the_bins(centre: str, exact: list[float]) -> None:
    """With a budget that leaves no noise: the best three bins, read row by row."""
    counts = np.array([[5, 5, 5, 1], [1, 100, 100, 200]])
    mechanism = StructureFirst(200, centre, bins=3, structure_share=Fraction(1, 2))
    measured = mechanism.measure(counts, SeededChannel(10**6, seed=1))
    assert measured.arrays["starts"].tolist() == [0, 5, 7]
    release = mechanism.finish(measured)
    assert release.values.shape == (2, 4)
    assert release.values.reshape(-1).tolist() == pytest.approx(exact)
    assert release.variances is None


def test_counts_above_the_cap_are_measured_whole() -> None:
    release = StructureFirst(1, bins=2, structure_share=Fraction(1, 2)).release(
        [0, 0, 1 << 40, 1 << 40], SeededChannel(10**5, seed=1)
    )
    assert release.values.tolist() == [0.0, 0.0, float(1 << 40), float(1 << 40)]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=12), st.data())
def test_lower_medians(cells: Cells, data: st.DataObject) -> None:
    inner = data.draw(st.sets(st.integers(1, len(cells) - 1))) if len(cells) > 1 else set()
    starts = [0, *sorted(inner)]
    parts = [cells[a:b] for a, b in zip(starts, [*starts[1:], len(cells)], strict=True)]
    expected = [sorted(part)[(len(part) - 1) // 2] for part in parts]
    assert lower_medians(np.array(cells), np.array(starts)).tolist() == expected


# --- trees ------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=8), st.integers(2, 5))
def test_every_cell_is_in_one_node_of_every_level(widths: Cells, branching: int) -> None:
    starts, size = np.cumsum([0, *widths[:-1]]), sum(widths)
    covered = np.zeros(size, np.int64)
    for stand in stands(starts, size, branching):
        covered[stand.cells] += 1
        nodes = [set(part) for begin in stand.starts for part in map(list, np.split(stand.cells, begin[1:]))]
        assert len(stand.starts) == stand.levels
        for begin in stand.starts:
            assert begin[0] == 0
        for node, parent in zip(nodes, stand.parents, strict=True):
            assert parent == -1 or node <= nodes[parent]
        assert sum(parent == -1 for parent in stand.parents) == sum(
            1 for width in widths if levels_of(width, branching) == stand.levels
        )
        assert nodes[-stand.cells.size :] == [{cell} for cell in stand.cells]
    assert (covered == 1).all()


def levels_of(width: int, branching: int) -> int:
    levels = 1
    while branching ** (levels - 1) < width:
        levels += 1
    return levels


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_trees_are_least_squares_with_the_stated_variances(definition: str) -> None:
    """Two bins (by the public grid) of 5 and 6 cells; the estimate is the dense least-squares one."""
    counts = np.arange(11) * 7
    mechanism = StructureFirst(70, bins=2, candidates=2, boost=True)
    measured = mechanism.measure(counts, SeededChannel(Fraction(1, 4), seed=5, definition=definition))
    release = mechanism.finish(measured)
    noisy, used = measured.arrays["measured"], 0
    for stand in stands(measured.arrays["starts"], 11, 2):
        rows = [np.isin(np.arange(11), part) for b in stand.starts for part in np.split(stand.cells, b[1:])]
        design = np.array(rows, dtype=float)[:, stand.cells]
        y = noisy[used : used + len(rows)]
        used += len(rows)
        gain = gain_of(design, np.ones(len(y)))
        assert gain is not None
        assert release.values[stand.cells] == pytest.approx(gain @ y)
        events = [event for event in measured.transcript if f"of {stand.levels} levels" in event.purpose]
        assert len(events) == stand.levels
        assert sum(event.loss for event in events) == Fraction(1, 4)
        noise = float(events[0].scale_squared) * (2 if definition == "pure" else 1)
        spread = noise * (gain**2).sum(axis=1)
        assert release.variances is not None
        assert np.asarray(release.variances)[stand.cells] == pytest.approx(spread, rel=2e-3)
    assert used == noisy.size


def test_ranges_inside_a_wide_bin_gain_from_its_tree() -> None:
    counts = np.zeros(4096, dtype=np.int64)
    errors = {}
    for name, mechanism in (
        ("tree", StructureFirst(10, bins=1, boost=True)),
        ("cells", StructureFirst(10, bins=4096, candidates=4096)),
    ):
        runs = [mechanism.release(counts, SeededChannel(1, seed=seed)).values for seed in range(12)]
        errors[name] = np.mean([np.abs(values[300:3800].sum()) for values in runs])
    assert errors["tree"] < 0.7 * errors["cells"]


# --- parameters, extremes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("centre", "cells", "cap"),
    [
        ("mean", 1 << 20, 1 << 21),
        ("mean", 4, 1 << 30),
        ("median", 1 << 20, 1 << 40),
        ("median", 1 << 24, 1 << 38),
    ],
)
def test_a_cap_that_would_overflow_is_lowered(centre: str, cells: int, cap: int) -> None:
    assert StructureFirst(1 << 40, centre).clipped_at(cells) == cap
    assert StructureFirst(7, centre).clipped_at(cells) == 7


def test_a_lowered_cap_is_the_one_that_is_paid_for() -> None:
    """64 cells: F is 2^28, and the costs are as fine as whole numbers."""
    channel = SeededChannel(1, seed=1)
    counts = np.repeat([0, 1 << 40], 32)
    release = StructureFirst(1 << 40, bins=2, structure_share=Fraction(1, 2)).release(counts, channel)
    assert channel.transcript[0].sensitivity == 1 << 28
    assert release.values.tolist() == pytest.approx(counts.tolist(), abs=5)


def test_synthetic_steps_are_found() -> None:
    """Ten plateaus: with a generous budget the boundaries are theirs."""
    levels = generator(3).integers(0, 400, 10)
    counts = np.repeat(levels, 50)
    for centre in ("mean", "median"):
        mechanism = StructureFirst(400, centre, bins=10, structure_share=Fraction(9, 10))
        values = mechanism.release(counts, SeededChannel(2000, seed=4)).values
        assert np.abs(values - counts).max() < 2


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
