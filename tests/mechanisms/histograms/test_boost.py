"""Boost: against least squares written out in matrices, and measured errors against their closed form."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.noisy_sums import some_ranges, variance_for
from tabularium.mechanisms.inference.even_trees import EvenTree

TREES = [
    (1, 2, True),
    (2, 2, True),
    (7, 2, True),
    (7, 2, False),
    (9, 3, True),
    (10, 3, False),
    (13, 4, True),
    (5, 8, False),
]


def queries_of(cells: int, branching: int, root: bool) -> np.ndarray:
    """The nodes of the tree as rows of 0 and 1, from the leaves up, leaving the root out unless it is asked for."""
    rows, span = [], 1
    while True:
        nodes = [(first, min(first + span, cells)) for first in range(0, cells, span)]
        if len(nodes) > 1 or root or cells == 1:
            rows += [[float(first <= cell < end) for cell in range(cells)] for first, end in nodes]
        if len(nodes) == 1:
            return np.array(rows)
        span *= branching


def covariance_of(cells: int, branching: int, root: bool, epsilon: Fraction) -> np.ndarray:
    """Of the least-squares cells: (AᵀA)⁻¹ times the variance of a node."""
    rows = queries_of(cells, branching, root)
    levels = int(rows[:, 0].sum())
    return variance_for(epsilon / levels, "pure") * np.linalg.inv(rows.T @ rows)


def every_range(cells: int) -> tuple[np.ndarray, np.ndarray]:
    return np.triu_indices(cells + 1, 1)


@pytest.mark.parametrize(("cells", "branching", "root"), TREES)
def test_variances_are_those_of_least_squares(cells, branching, root):
    boost, covariance = (
        build("boost", branching=branching, root=root),
        covariance_of(cells, branching, root, Fraction(1)),
    )
    starts, stops = every_range(cells)
    sums = (np.arange(cells) >= starts[:, None]) & (np.arange(cells) < stops[:, None])
    expected = np.einsum("qi,ij,qj->q", sums.astype(float), covariance, sums.astype(float))
    assert boost.range_variance(cells, starts, stops, Fraction(1)) == pytest.approx(expected, rel=1e-12)
    weights = np.cos(np.arange(cells) * 1.7)
    assert boost.query_variance(weights, Fraction(1)) == pytest.approx(
        weights @ covariance @ weights, rel=1e-12
    )
    release = boost.release(np.arange(cells), SeededChannel(1, seed=1))
    assert release.variances == pytest.approx(np.diag(covariance), rel=1e-12)


@pytest.mark.parametrize(("cells", "branching", "root"), TREES)
def test_values_are_those_of_least_squares(cells, branching, root):
    mechanism = build("boost", branching=branching, root=root)
    measured = mechanism.measure(np.arange(cells) ** 2, SeededChannel(1, seed=5))
    rows = queries_of(cells, branching, root)  # leaves first; measurements come root first
    noisy, sizes, end = [], [event.shape[0] for event in measured.transcript], 0
    for size in sizes:
        noisy.insert(0, measured.arrays["nodes"][end : end + size])
        end += size
    expected, *_ = np.linalg.lstsq(rows, np.concatenate(noisy).astype(float), rcond=None)
    assert mechanism.finish(measured).values == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_measured_errors_are_those_of_the_closed_form(definition):
    counts, budget = np.arange(40) % 7, Fraction(1, 2)
    mechanism = build("boost", branching=3)
    ranges = np.array([[0, 40], [5, 6], [3, 31], [12, 20]])
    errors = []
    for seed in range(400):
        values = mechanism.release(counts, SeededChannel(budget, seed=seed, definition=definition)).values
        errors.append([(values - counts)[start:stop].sum() for start, stop in ranges])
    expected = mechanism.range_variance(40, ranges[:, 0], ranges[:, 1], budget, definition)
    # Standard error of a variance from 400 draws: at most √(5/400) = 11 % of it; the mean: 5 % of a deviation.
    assert np.mean(np.square(errors), axis=0) == pytest.approx(expected, rel=0.5)
    assert np.all(np.abs(np.mean(errors, axis=0)) < 0.3 * np.sqrt(expected))


@pytest.mark.parametrize(("cells", "best"), [(1, 2), (2, 2), (16, 16), (1024, 11), (7725, 20), (1 << 20, 16)])
def test_the_branching_is_the_one_with_the_least_mean_variance(cells, best):
    assert build("boost").branching_for(cells, Fraction(1, 10)) == best
    starts, stops = some_ranges(cells)
    means = {
        b: build("boost", branching=b).range_variance(cells, starts, stops, Fraction(1, 10)).mean()
        for b in {2, 3, 4, 8, 11, 16, 20, 32, best}
    }
    assert min(means, key=lambda b: means[b]) == best or means[best] <= min(means.values()) * (1 + 1e-12)


def test_the_ranges_that_stand_for_all_are_close_to_all():
    for cells in (65, 200, 500):
        tree = EvenTree.of(cells, 3, 1.0, root=True)
        some, every = (
            tree.range_variances(*ranges).mean() for ranges in (some_ranges(cells), every_range(cells))
        )
        assert some == pytest.approx(every, rel=0.02)
    assert some_ranges(64)[0].size == 64 * 65 // 2


def test_the_papers_tree_has_far_larger_errors():
    """Binary with its root against the optimal one: the mean variance of a range of 7 725 cells."""
    starts, stops = some_ranges(7725)
    papers, best = (
        build("boost", **parameters).range_variance(7725, starts, stops, Fraction(1)).mean()
        for parameters in ({"branching": 2, "root": True}, {})
    )
    assert papers == pytest.approx(960, rel=0.02)
    assert best == pytest.approx(328, rel=0.02)


def test_the_levels_share_the_budget_equally():
    channel = SeededChannel(Fraction(1, 2), seed=1)
    build("boost", branching=3, root=True).release(np.arange(10), channel)
    assert [(event.purpose, event.loss, event.shape) for event in channel.transcript] == [
        ("level 0", Fraction(1, 8), (1,)),
        ("level 1", Fraction(1, 8), (2,)),
        ("level 2", Fraction(1, 8), (4,)),
        ("level 3", Fraction(1, 8), (10,)),
    ]


def test_tables_are_read_row_by_row():
    counts = np.arange(24).reshape(2, 3, 4)
    table, row = (
        build("boost", branching=2).release(array, SeededChannel(1, seed=4))
        for array in (counts, counts.reshape(-1))
    )
    assert np.array_equal(table.values.reshape(-1), row.values)
    assert table.variances.shape == table.values.shape == (2, 3, 4)


@pytest.mark.parametrize(("start", "stop"), [(3, 3), (-1, 2), (0, 11), (5, 4)])
def test_a_range_beyond_the_cells_is_refused(start, stop):
    with pytest.raises(MechanismError, match="a range is empty or beyond the cells"):
        build("boost").range_variance(10, [start], [stop], Fraction(1))
