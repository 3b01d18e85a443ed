"""The pruned searches find the best of all segmentations: compared with looking at every one of them."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tabularium.mechanisms.histograms.segmentation import (
    above,
    below,
    clear,
    empty,
    mean_layer,
    on_lattice,
    put,
    segment,
    segment_into,
)
from tabularium.mechanisms.noise.synthetic import generator

Centre = Literal["mean", "median"]
CENTRES: tuple[Centre, Centre] = ("mean", "median")
both = pytest.mark.parametrize("centre", CENTRES)


# --- by hand ----------------------------------------------------------------------------------------


def test_the_example_of_the_paper() -> None:
    """Xu et al. 2013, figures 1 and 3: counts 1, 2, 1, 5, 3, 1, 1; three bins cost 2.67."""
    counts = np.array([1, 2, 1, 5, 3, 1, 1])
    assert segment_into(counts, "mean", 3, unit=1).tolist() == [0, 3, 5]
    assert error_of(counts, [0, 3, 5], "mean") == Fraction(2, 3) + 2


def test_the_price_decides() -> None:
    """0 0 6 6: one run errs by 36 (means) or 12 (medians), two by nothing."""
    table = np.array([0, 0, 6, 6])
    for centre, change in (("mean", 36.0), ("median", 12.0)):
        assert segment(table, centre, change - 0.25, unit=1).tolist() == [0, 2]
        assert segment(table, centre, change + 0.25, unit=1).tolist() == [0]
        assert segment(table, centre, change, unit=1).tolist() == [0]  # a tie: the longer run


@pytest.mark.parametrize("long", [3, 30, 1000])
def test_a_short_run_before_a_long_one(long: int) -> None:
    """Two cells at 0, many at 100: joined at means they cost 2·long/(2 + long)·100², at medians 200.

    Their common mean is all but out of reach of the short run.
    """
    table = np.array([0, 0] + [100] * long)
    joined = 2 * long / (2 + long) * 100**2
    for sequence, cut in ((table, 2), (table[::-1], long)):
        assert segment(sequence, "mean", joined * 1.0001, unit=1).tolist() == [0]
        assert segment(sequence, "mean", joined * 0.9999, unit=1).tolist() == [0, cut]
        assert segment(sequence, "median", 200.1, unit=1).tolist() == [0]
        assert segment(sequence, "median", 199.9, unit=1).tolist() == [0, cut]


@both
def test_equal_cells_are_one_run_at_any_price(centre: Centre) -> None:
    for price in (0.0, 1e-9, 5.0):
        assert segment(np.full(100, -7), centre, price, unit=1).tolist() == [0]


@both
def test_without_a_price_runs_are_equal_cells(centre: Centre) -> None:
    table = np.array([4, 4, 5, 5, 5, 4, 9])
    assert segment(table, centre, 0.0, unit=1).tolist() == [0, 2, 5, 6]


@both
def test_one_cell(centre: Centre) -> None:
    assert segment(np.array([3]), centre, 2.0, unit=1).tolist() == [0]
    assert segment_into(np.array([3]), centre, 1, unit=1).tolist() == [0]


def test_an_outlier_moves_the_mean_and_not_the_median() -> None:
    table = np.array([0, 1, 0, 100, 1, 0, 1])
    assert segment(table, "median", 60.0, unit=1).tolist() == [0]
    assert segment(table, "mean", 60.0, unit=1).tolist() == [0, 3, 4]


# --- all segmentations ------------------------------------------------------------------------------


def small_tables(seed: int) -> np.ndarray:
    """400 tables of 8 cells: few levels (ties), steps, noise, wide ranges."""
    rng = generator(seed)
    width = rng.choice([1, 2, 5, 40, 1000], size=(400, 1))
    tables = rng.integers(-width, width + 1, size=(400, 8))
    steps = rng.random((400, 8)) < 0.4
    steps[::2] = True
    return np.take_along_axis(tables, np.maximum.accumulate(np.where(steps, np.arange(8), 0), axis=1), axis=1)


@both
@pytest.mark.parametrize("seed", range(3))
def test_no_segmentation_is_better(centre: Centre, seed: int) -> None:
    tables = small_tables(seed)
    least = all_errors(tables, centre)
    prices = generator(seed + 100).choice([0, 0.25, 1, 2.5, 7, 40, 900], size=len(tables))
    counts = np.arange(1, 9)[:, None]
    best = (least + counts * prices).min(axis=0)
    for table, price, cheapest, errors in zip(tables, prices, best, least.T, strict=True):
        starts = segment(table, centre, float(price), unit=1)
        assert starts[0] == 0
        assert (np.diff(starts) > 0).all()
        cost = float(error_of(table, starts, centre) + starts.size * Fraction(float(price)))
        assert cost == pytest.approx(cheapest, rel=1e-12, abs=1e-9)
        for runs in range(1, 9):
            given_runs = segment_into(table, centre, runs, unit=1)
            assert given_runs.size == runs
            found = float(error_of(table, given_runs, centre))
            assert found == pytest.approx(errors[runs - 1], rel=1e-12, abs=1e-9)


cells = st.one_of(st.integers(-3, 3), st.integers(-1000, 1000), st.integers(-(2**41), 2**41))


@settings(max_examples=100, deadline=None, derandomize=True, database=None)
@given(st.lists(cells, min_size=1, max_size=14), st.integers(0, 2**24), st.integers(0, 30))
def test_exact_costs_of_any_integers(table: list[int], top: int, halvings: int) -> None:
    price = Fraction(top, 2**halvings) if halvings < 20 else Fraction(top)
    for centre in CENTRES:
        starts = segment(np.array(table), centre, float(price), unit=float(price) or 1.0)
        cost = error_of(table, starts, centre) + price * starts.size
        best = least_cost(table, centre, price)
        assert best <= cost <= best + (best + price) * Fraction(1, 10**12)


def longer_tables(seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Tables of 32 cells with steps, ramps or saw teeth and noise; prices at which many runs compete."""
    rng = generator(seed)
    place = np.arange(32)
    shapes = np.stack([0 * place, place, place**2 // 8, place % 7, place // 9 * 6, abs(place - 16) * 2])
    width = rng.integers(1, 9, size=(count, 1))
    tables = shapes[rng.integers(0, len(shapes), count)] + rng.integers(-width, width + 1, (count, 32))
    return tables, rng.uniform(0.3, 6, count) * width[:, 0]


@both
def test_thousands_of_longer_tables(centre: Centre) -> None:
    """Segments compete at every cell."""
    tables, prices = longer_tables(13, 2500)
    if centre == "mean":
        prices = prices**2 / 2
    best = least_costs(tables, centre, prices)
    for table, price, cheapest in zip(tables, prices, best, strict=True):
        starts = segment(table, centre, float(price), unit=float(price) * 2.0**-20)
        assert cost_of(table, starts, centre, float(price)) == pytest.approx(cheapest, rel=1e-9)


@both
def test_the_number_of_runs_that_the_price_finds_is_best_for_its_number(centre: Centre) -> None:
    rng = generator(3)
    table = np.repeat(rng.integers(0, 60, 40), 25) + rng.integers(-9, 10, 1000)
    for price in (50.0, 400.0):
        free = segment(table, centre, price, unit=1)
        given_runs = segment_into(table, centre, free.size, unit=1)
        assert float(error_of(table, free, centre)) == pytest.approx(
            float(error_of(table, given_runs, centre)), rel=1e-12
        )


# --- large numbers ----------------------------------------------------------------------------------


@both
def test_ends_of_pieces_near_far_levels(centre: Centre) -> None:
    """Blocks at ±2^49, where doubles are 1/8 apart: 512 cells of noise of ±1 are still one run."""
    rng = generator(17)
    noise = rng.integers(-1, 2, 1024)
    far = np.repeat([0, 1 << 50], 512)
    for price in (4.0, 8.0):
        near = segment(noise + np.repeat([0, 10**4], 512), centre, price, unit=1)
        assert segment(noise + far, centre, price, unit=1).tolist() == near.tolist()


@both
@pytest.mark.parametrize("height", [10**4, 1 << 40])
def test_far_levels_leave_near_ones_their_precision(centre: Centre, height: int) -> None:
    """Blocks 2^40 apart, with steps of 8 inside them: the same runs as with blocks 10^4 apart."""
    rng = generator(11)
    n = 1 << 12
    small = np.repeat(rng.integers(0, 5, n // 64) * 8, 64) + rng.integers(-3, 4, n)
    block = np.repeat(rng.integers(0, 2, n // 128), 128)
    near = segment(small + 10**4 * block, centre, 40.0, unit=1)
    assert segment(small + height * block, centre, 40.0, unit=1).tolist() == near.tolist()
    assert near.size > 32


@both
def test_a_million_cells_at_the_limit_of_counts(centre: Centre) -> None:
    """Counts of 0 and 2^40 in halves of 2^20 cells, with noise: nothing overflows, and two runs are found."""
    n = 1 << 20
    table = np.where(np.arange(n) < n // 2, 0, 1 << 40) + np.resize([-2, 1, 0, 2, -1], n)
    with np.errstate(all="raise"):
        assert segment(table, centre, 100.0, unit=1).tolist() == [0, n // 2]


@both
def test_noise_as_large_as_counts_get(centre: Centre) -> None:
    rng = generator(2)
    table = (rng.laplace(0, 2.0**40, 4096) + np.repeat([0, 2.0**45], 2048)).astype(np.int64)
    price = 2.0**84 if centre == "mean" else 2.0**44
    starts = segment(table, centre, price, unit=2.0**40)
    scaled = (table >> 20).astype(np.int64)
    price /= 2.0**40 if centre == "mean" else 2.0**20
    assert starts.tolist() == segment(scaled, centre, price, unit=2.0**20).tolist()


@both
def test_tables_of_other_numbers(centre: Centre) -> None:
    """A table in tenths has the runs of the same table in whole numbers."""
    rng = generator(4)
    table = np.repeat(rng.integers(0, 30, 20), 10) + rng.integers(-3, 4, 200)
    price, tenth = 30.0, 30.0 / (100 if centre == "mean" else 10)
    whole = segment(table, centre, price, unit=1.0)
    assert segment(table / 10 + 3e5, centre, tenth, unit=0.1).tolist() == whole.tolist()


def test_the_lattice() -> None:
    levels, step = on_lattice(np.array([10, 13, 16]), 1e-6, 1 << 60)
    assert (levels.tolist(), step) == ([-3, 0, 3], 1.0)
    levels, step = on_lattice(np.array([10, 13, 16]), 0.3, 1 << 60, finer=True)
    assert (levels.tolist(), step) == ([-12, 0, 12], 0.25)
    levels, step = on_lattice(np.array([0.0, 0.5, 2.0]), 0.3, 1 << 60)
    assert (levels.tolist(), step) == ([-4, -2, 4], 0.25)
    levels, step = on_lattice(np.array([0, 1 << 50]), 1.0, 1 << 40)
    assert step == 1 << 10
    assert levels.tolist() == [-(1 << 39), 1 << 39]
    levels, step = on_lattice(np.array([-(1 << 61), 1 << 61]), 1.0, 1 << 60)
    assert np.abs(levels).max() <= 1 << 60
    assert on_lattice(np.array([5]), 1.0, 100, also=1000.0)[1] == 16.0


def test_many_pieces_make_room() -> None:
    """A reach of 0 moves the origin at every cell; a price of 10^9 lets the pieces pile up."""
    table = np.arange(600) ** 2
    starts, costs = mean_layer(table, 1e9, np.zeros(0), 0, 0.0)
    again, same = mean_layer(table, 1e9, np.zeros(0), 0, np.inf)
    assert starts.tolist() == again.tolist()
    np.testing.assert_allclose(costs, same, rtol=1e-12)


# --- the multiset of ranks ----------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(st.integers(1, 5000), st.lists(st.tuples(st.booleans(), st.integers(0, 4999)), max_size=60))
def test_neighbours_in_a_multiset(size: int, actions: list[tuple[bool, int]]) -> None:
    tree, floors = empty(size)
    held: dict[int, int] = {}
    for adds, place in actions:
        rank = place % size
        if adds:
            put(tree, floors, rank)
            held[rank] = held.get(rank, 0) + 1
        elif rank in held:
            clear(tree, floors, rank)
            del held[rank]
        for end in (size, min(size, rank + 20)):
            assert above(tree, floors, rank, end) == min([r for r in held if r > rank] + [end])
        for end in (-1, max(-1, rank - 20)):
            assert below(tree, floors, rank, end) == max([r for r in held if r < rank] + [end])
    assert {rank: int(tree[rank]) for rank in range(size) if tree[rank]} == held


# --- The best segmentations found by looking at all of them: what the kernels are compared with ------


Floats = NDArray[np.float64]


def error_of_run(tables: NDArray[np.int64], a: int, b: int, centre: str) -> Floats:
    """Return the error of the run [a, b) of every table, (tables,); small integers only."""
    run = tables[:, a:b]
    if centre == "mean":
        # Σy² - (Σy)²/m = (m·Σy² - (Σy)²)/m, exact up to the division
        return np.asarray(((b - a) * (run**2).sum(axis=1) - run.sum(axis=1) ** 2) / (b - a))
    return np.abs(run - np.sort(run, axis=1)[:, [(b - a) // 2]]).sum(axis=1).astype(np.float64)


def all_errors(tables: NDArray[np.int64], centre: str) -> Floats:
    """Return the least error for each number of runs, (n, tables), over all 2^(n-1) segmentations."""
    count, n = tables.shape
    errors = {(a, b): error_of_run(tables, a, b, centre) for a in range(n) for b in range(a + 1, n + 1)}
    least = np.full((n, count), np.inf)
    for runs in range(1, n + 1):
        for cuts in combinations(range(1, n), runs - 1):
            edges = (0, *cuts, n)
            total = sum(errors[a, b] for a, b in pairwise(edges))
            least[runs - 1] = np.minimum(least[runs - 1], total)
    return least


def error_of(table: Any, starts: Any, centre: str) -> Fraction:
    """Return the exact error of one segmentation."""
    values = [Fraction(value) for value in np.asarray(table).tolist()]
    total = Fraction(0)
    for a, b in pairwise([*np.asarray(starts).tolist(), len(values)]):
        run = values[a:b]
        middle = sum(run) / len(run) if centre == "mean" else sorted(run)[len(run) // 2]
        total += sum((v - middle) ** 2 if centre == "mean" else abs(v - middle) for v in run)
    return total


def least_cost(table: Any, centre: str, price: Fraction) -> Fraction:
    """Return the least error plus price of runs, exactly, by the quadratic recursion."""
    n = len(table)
    best = [Fraction(0)]
    for b in range(1, n + 1):
        best.append(min(best[a] + error_of(table[a:b], [0], centre) + price for a in range(b)))
    return best[n]


def least_costs(tables: NDArray[np.int64], centre: str, prices: Floats) -> Floats:
    """Return the least error plus price of runs of every table, (tables,), by the quadratic recursion."""
    count, n = tables.shape
    best = np.zeros((n + 1, count))
    for b in range(1, n + 1):
        ends = [best[a] + error_of_run(tables, a, b, centre) for a in range(b)]
        best[b] = np.min(ends, axis=0) + prices
    return best[n]


def cost_of(table: NDArray[np.int64], starts: NDArray[np.int64], centre: str, price: float) -> float:
    """Return the error plus price of runs of one segmentation."""
    edges = pairwise([*starts.tolist(), table.size])
    return sum(float(error_of_run(table[None], a, b, centre)[0]) + price for a, b in edges)
