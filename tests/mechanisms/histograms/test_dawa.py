"""DAWA: its order of cells, its intervals and their costs, merging, and what it makes of a table."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.histograms.dawa import (
    Dawa,
    Intervals,
    _covering,
    _factors,
    _measured,
    _parents,
    _pooled,
    aligned,
    buckets,
    deviations,
    hilbert_order,
    row_order,
    shares_of_levels,
    weighted_segments,
)
from tabularium.mechanisms.noise.synthetic import generator

# --- the curve --------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(2, 2), (8, 8), (64, 64), (4, 4, 4), (16, 16, 16), (4, 4, 4, 4)])
def test_the_curve_goes_from_cell_to_neighbouring_cell(shape: tuple[int, ...]) -> None:
    order, digits = hilbert_order(shape)
    assert sorted(order.tolist()) == list(range(order.size))
    places = np.array(np.unravel_index(order, shape))
    assert (np.abs(np.diff(places, axis=1)).sum(axis=0) == 1).all()
    assert np.array_equal(digits, row_order(order.size)[1])  # no gaps: the index is the place


@pytest.mark.parametrize("shape", [(8, 8), (5, 7), (3, 1, 9), (4, 4, 4), (2, 300), (9, 2, 2, 2, 2, 2, 2, 2)])
def test_pieces_of_the_curve_are_cubes(shape: tuple[int, ...]) -> None:
    """With b = 2^d, the cells of an interval agree in their coordinates but for the last bits of each."""
    order, digits = hilbert_order(shape)
    assert sorted(order.tolist()) == list(range(order.size))
    places = np.array(np.unravel_index(order, shape))
    dimensions = sum(side > 1 for side in shape)
    for rank, starts in enumerate(aligned(digits, dimensions).ranks):
        cubes = np.unique(places >> rank, axis=1).shape[1]
        assert starts.size == cubes
        piece = np.repeat(np.arange(starts.size), np.diff(starts, append=order.size))
        assert np.unique(np.vstack([places >> rank, piece]), axis=1).shape[1] == cubes


def test_a_table_with_one_long_side_is_a_row() -> None:
    for shape in ((6,), (1, 6), (6, 1, 1), (1,), (1, 1)):
        order, digits = hilbert_order(shape)
        assert order.tolist() == list(range(order.size))
        assert digits.tolist() == [1, 2, 1, 3, 1][: order.size - 1]


# --- intervals and costs ----------------------------------------------------------------------------


def pairs(intervals: Intervals) -> list[tuple[int, int]]:
    return list(zip(intervals.starts.tolist(), intervals.stops.tolist(), strict=True))


def test_intervals_of_six_cells_by_hand() -> None:
    found = pairs(aligned(row_order(6)[1], 1))
    assert found == [*((i, i + 1) for i in range(6)), (0, 2), (2, 4), (4, 6), (0, 4), (0, 6)]
    assert pairs(aligned(row_order(6)[1], 2)) == [*((i, i + 1) for i in range(6)), (0, 4), (4, 6), (0, 6)]
    assert pairs(aligned(row_order(1)[1], 1)) == [(0, 1)]


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("cells", [1, 2, 5, 17, 64, 100])
def test_every_interval_comes_once(cells: int, step: int) -> None:
    found = pairs(aligned(row_order(cells)[1], step))
    expected = {
        (first, min(first + (1 << rank), cells))
        for rank in range(0, 8 + step, step)
        for first in range(0, cells, 1 << rank)
    }
    assert sorted(found) == sorted(expected)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.one_of(st.integers(0, 9), st.integers(0, 1 << 40)), min_size=1, max_size=40),
    st.sampled_from([1, 2, 3]),
    st.sampled_from([1, 4]),
)
def test_costs_are_the_deviations(counts: list[int], step: int, unit: int) -> None:
    row = np.array(counts)
    intervals = aligned(row_order(row.size)[1], step)
    around_medians, around_means = (deviations(row, intervals, c, unit) for c in ("median", "mean"))
    for number, (start, stop) in enumerate(pairs(intervals)):
        inside = counts[start:stop]
        middle = sorted(inside)[(stop - start) // 2]
        assert around_medians[number] == unit * sum(abs(x - middle) for x in inside)
        mean = Fraction(sum(inside), stop - start)
        exact = unit * sum(abs(x - mean) for x in inside)
        assert abs(around_means[number] - exact) <= Fraction(1, 2)


@settings(max_examples=200, deadline=None)
@given(st.data(), st.sampled_from([("median", 1), ("mean", 2)]), st.sampled_from([1, 4]))
def test_a_record_moves_what_holds_its_cell_and_by_what_is_declared(
    data: st.DataObject, around: tuple[str, int], unit: int
) -> None:
    counts = data.draw(st.lists(st.integers(0, 20), min_size=1, max_size=40))
    row, place = np.array(counts), data.draw(st.integers(0, len(counts) - 1))
    more = row.copy()
    more[place] += 1
    intervals = aligned(row_order(row.size)[1], data.draw(st.sampled_from([1, 2])))
    centre, sensitivity = around
    moved = deviations(more, intervals, centre, unit) - deviations(row, intervals, centre, unit)  # type: ignore[arg-type]
    holds = (intervals.starts <= place) & (place < intervals.stops)
    assert not moved[~holds].any()
    assert np.abs(moved).max() <= unit * sensitivity


def test_the_largest_deviations_do_not_overflow() -> None:
    row = np.repeat([0, 1 << 40], 1 << 20)
    intervals = aligned(row_order(row.size)[1], 7)  # three ranks: the last one is the whole row
    for centre in ("median", "mean"):
        assert deviations(row, intervals, centre, 4)[-1] == 4 << 60


# --- merging ----------------------------------------------------------------------------------------


def slow_segments(numbers: np.ndarray, weights: np.ndarray, price: float) -> float:
    best = [0.0]
    for stop in range(1, numbers.size + 1):
        costs = []
        for start in range(stop):
            part, weight = numbers[start:stop], weights[start:stop]
            mean = np.average(part, weights=weight)
            costs.append(best[start] + (weight * (part - mean) ** 2).sum() + price)
        best.append(min(costs))
    return best[-1]


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 40), st.sampled_from([0.1, 2.0, 50.0]))
def test_segments_cost_the_least(seed: int, size: int, price: float) -> None:
    rng = generator(seed)
    numbers = np.round(rng.normal(0, 3, size) + 5 * rng.integers(0, 3, size), 1)
    weights = rng.integers(1, 9, size).astype(np.float64) ** 2
    starts = weighted_segments(numbers, weights, price)
    assert starts[0] == 0
    cost = 0.0
    for part, weight in zip(np.split(numbers, starts[1:]), np.split(weights, starts[1:]), strict=True):
        cost += price + (weight * (part - np.average(part, weights=weight)) ** 2).sum()
    assert cost == pytest.approx(slow_segments(numbers, weights, price))


def test_a_group_gives_up_its_own_means_when_that_gains() -> None:
    """Two groups of two; v = 1. Sums 10 and 12 of 1 and 1 cells: spread 2, apart 2, two by W: 2 - 2 + 2 <= 2."""
    means, parts = _pooled(np.array([10.0, 12.0, 10.0, 13.0]), np.ones(4), np.array([0, 2]), 1.0)
    assert means.tolist() == [11, 11, 10, 13]
    assert parts == 3
    means, parts = _pooled(np.array([8.0, 3.0]), np.array([4.0, 1.0]), np.array([0]), 2.0)
    assert means.tolist() == [2.2, 2.2]
    assert parts == 1


# --- the mechanism ----------------------------------------------------------------------------------


def test_even_stretches_are_intervals() -> None:
    counts = np.repeat([0, 1000, 50], [64, 32, 32])
    mechanism = Dawa(merge=False, share="99/100")
    measured = mechanism.measure(counts, SeededChannel(20, seed=1))
    assert measured.arrays["starts"].tolist() == [0, 64, 96]
    release = mechanism.finish(measured)
    assert np.abs(release.values - counts).max() < 200 / 32  # sums err by 1/ε2 = 5 or so
    assert release.diagnostics == {"intervals": 3, "widest_interval": 64, "parts": 3}


def test_sums_are_spread_evenly_and_in_order() -> None:
    counts = np.arange(30).reshape(5, 6) ** 2
    mechanism = Dawa(merge=False, nonnegative=False)
    measured = mechanism.measure(counts, SeededChannel("1/10", seed=3))
    starts, sums = measured.arrays["starts"], measured.arrays["sums"]
    row = mechanism.finish(measured).values.reshape(-1)[hilbert_order((5, 6))[0]]
    widths = np.diff(starts, append=30)
    assert np.array_equal(row, np.repeat(sums / widths, widths))
    assert measured.transcript[0].primitive == "least_noisy_partition"
    assert measured.transcript[0].scale == 2 * 4 / (Fraction(1, 10) / 4)
    assert [str(event.loss) for event in measured.transcript] == ["1/40", "3/40"]


def test_the_curve_gains_over_rows_where_squares_are_even() -> None:
    rng = generator(8)
    counts = np.kron(rng.geometric(0.01, (8, 8)), np.ones((16, 16), dtype=np.int64))
    errors = {}
    for order in ("hilbert", "rows"):
        values = Dawa(order=order).release(counts, SeededChannel("1/10", seed=1)).values
        errors[order] = np.abs(values - counts).mean()
    assert errors["hilbert"] < 0.8 * errors["rows"]


# --- Shares of levels: the closed form against matrices, and what the shares are worth ---------------


BUCKETS = [0, 1, 4, 5, 6, 10, 11, 17]
CELLS = 20


def ranges_over(starts: list[int], cells: int) -> np.ndarray:
    """Return a row for each range of cells: which part of each bucket it covers."""
    edges = np.append(starts, cells)
    rows = []
    for first in range(cells):
        for stop in range(first + 1, cells + 1):
            inside = np.minimum(stop, edges[1:]) - np.maximum(first, edges[:-1])
            rows.append(np.maximum(inside, 0) / np.diff(edges))
    return np.array(rows)


def covariance(buckets: int, branching: int, shares: list[float], power: int) -> np.ndarray:
    """Return the covariance of least squares on a tree, where all of the budget gives the variance 1."""
    precision = np.zeros((buckets, buckets))
    for level, share in enumerate(shares):
        for first in range(0, buckets, branching**level):
            node = np.zeros(buckets)
            node[first : first + branching**level] = 1
            precision += share**power * np.outer(node, node)
    return np.linalg.inv(precision)


def total_error(starts: list[int], cells: int, branching: int, shares: list[float], power: int) -> float:
    rows = ranges_over(starts, cells)
    return float(np.trace(rows @ covariance(len(starts), branching, shares, power) @ rows.T))


@pytest.mark.parametrize(("noise", "power"), [("laplace", 2), ("gaussian", 1)])
@pytest.mark.parametrize("branching", [2, 3])
@pytest.mark.parametrize("starts", [BUCKETS, BUCKETS[:5], list(range(CELLS))], ids=len)
def test_the_error_is_that_of_the_matrices(starts: list[int], branching: int, noise: str, power: int) -> None:
    nodes = buckets(np.array(starts), CELLS)
    own = [1.0]
    assert nodes.a.sum() == pytest.approx(total_error_of_leaves(starts))
    for share in (0.25, 0.5, 0.0, 0.125, 0.25, 0.1):
        if nodes.a.size > 1:
            nodes = _measured(_parents(nodes, branching), *_factors(share, noise))
            own = [*(part * (1 - share) for part in own), share]
    assert nodes.a.size == 1
    assert nodes.a[0] == pytest.approx(total_error(starts, CELLS, branching, own, power))
    assert nodes.t[0] == pytest.approx(covariance(len(starts), branching, own, power).sum())


def total_error_of_leaves(starts: list[int]) -> float:
    return float((ranges_over(starts, CELLS) ** 2).sum())


def test_ranges_that_cover_a_parent() -> None:
    """Six cells in five buckets; the parents have the cells 0-2, 3-4 and 5."""
    edges = np.array([0, 1, 3, 4, 5, 6])
    assert _covering(edges, 2).tolist() == [4, 4, 8, 8, 6]
    assert _covering(np.array([0, 6]), 2).tolist() == [0]


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("cells", [1, 2, 3, 64, 77])
def test_shares_add_up_and_leaves_are_measured(cells: int, noise: str) -> None:
    shares = shares_of_levels(np.arange(cells), cells, 2, noise)  # type: ignore[arg-type]
    assert sum(shares) == 1
    assert len(shares) == (cells - 1).bit_length() + 1
    assert shares[0] > 0
    assert min(shares) >= 0
    assert all(isinstance(share, Fraction) for share in shares)


@pytest.mark.parametrize(("noise", "power"), [("laplace", 2), ("gaussian", 1)])
def test_they_beat_even_shares_and_leaves_alone(noise: str, power: int) -> None:
    starts, cells = list(range(64)), 64
    shares = [float(share) for share in shares_of_levels(np.arange(64), 64, 2, noise)]  # type: ignore[arg-type]
    found = total_error(starts, cells, 2, shares, power)
    assert found < 0.9 * total_error(starts, cells, 2, [1 / 7] * 7, power)
    assert found < 0.9 * total_error(starts, cells, 2, [1.0] + [0.0] * 6, power)
