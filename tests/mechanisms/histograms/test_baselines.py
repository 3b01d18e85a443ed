"""Uniform, sorted_isotonic, Boost and Privelet: least squares in matrices, the paper's coefficients, errors against closed forms."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tabularium.mechanisms import build
from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.arrays import LARGEST_COUNT, LARGEST_VALUE
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.channel.replay.replay_audit import record
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.noisy_sums import addable, some_ranges, variance_for
from tabularium.mechanisms.histograms.privelet import (
    cell_energies,
    cells_from,
    depth,
    factors,
    range_energies,
    sums_and_differences,
    touched,
)
from tabularium.mechanisms.inference.even_trees import EvenTree
from tabularium.mechanisms.noise_distributions import variance_of


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
@pytest.mark.parametrize("shape", [(1,), (5,), (2, 3), ()])
def test_every_cell_gets_the_same_part_of_the_noisy_total(shape, definition):
    counts = np.full(shape, 7)
    release = build("uniform").release(counts, SeededChannel(1, seed=3, definition=definition))
    same = np.array(SeededChannel(1, seed=3, definition=definition).laplace([0], 1, purpose="total"))
    if definition == "zcdp":
        same = SeededChannel(1, seed=3, definition=definition).gaussian([0], 1, purpose="total")
    assert release.values.shape == shape
    assert release.values == pytest.approx((counts.sum() + same[0]) / counts.size)
    assert release.variances is None


def test_the_variance_of_a_query_is_that_of_its_share_of_the_total():
    uniform, weights = build("uniform"), np.array([1.0, 1.0, 0.0, 0.0])
    assert uniform.query_variance(weights, Fraction(1, 2)) == pytest.approx(
        variance_for(Fraction(1, 2), "pure") / 4
    )
    counts = np.array([9, 1, 5, 5])
    drawn = [
        weights @ build("uniform").release(counts, SeededChannel(Fraction(1, 2), seed=seed)).values
        for seed in range(600)
    ]
    # 600 draws of a Laplace variance: a relative standard error of √(5/600) = 9 %
    assert np.var(drawn) == pytest.approx(variance_for(Fraction(1, 2), "pure") / 4, rel=0.5)


def test_sums_of_the_largest_counts_of_any_table_stay_within_the_channel():
    few = np.full(8, LARGEST_COUNT)
    assert addable(few) is few
    many = np.broadcast_to(np.int64(LARGEST_COUNT), (1 << 22,))
    assert int(addable(many).sum()) == LARGEST_VALUE


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
@pytest.mark.parametrize("touched", [1, 3, 4])
def test_the_stated_variance_is_that_of_the_event(definition, touched):
    channel = SeededChannel(2, seed=1, definition=definition)
    channel.add_noise(np.arange(3), Fraction(1, 3), touched=touched, purpose="sums")
    (event,) = channel.transcript
    assert event.loss == Fraction(1, 3)
    assert float(event.sensitivity) >= touched ** (1 if definition == "pure" else 0.5) * (1 - 1e-15)
    assert variance_of(event) == pytest.approx(
        variance_for(Fraction(1, 3), definition, touched=touched), rel=1e-12
    )


# --- Sorted counts, noise, isotonic regression -------------------------------------------------------


def finished(noisy: list[int], **parameters: bool) -> np.ndarray:
    """What it makes of these noisy numbers, whatever was counted."""
    force = lambda event, inputs, drawn: np.array(noisy)  # noqa: E731
    run = record(
        build("sorted_isotonic", **parameters),
        np.zeros(len(noisy), int),
        1,
        0,
        definition="pure",
        force=force,
    ).run
    assert run.release is not None
    return run.release.values


def test_by_hand() -> None:
    """-3 and -1 pool to nothing with 1; 7 and 4 pool to 5.5."""
    assert finished([-3, 1, -1, 7, 4]).tolist() == [0, 0, 0, 6, 6]
    assert finished([-3, 1, -1, 7, 4], rounded=False).tolist() == [-3, 0, 0, 5.5, 5.5]


def test_what_is_measured_are_the_sorted_counts() -> None:
    counts = np.array([[5, 0, 9], [2, 2, 1]])
    (draw,) = record(build("sorted_isotonic"), counts, 1, 0, definition="pure").draws
    assert draw.inputs.tolist() == [[0, 1, 2], [2, 5, 9]]
    assert draw.event.sensitivity == 1


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_it_comes_close_with_much_budget(definition: Definition) -> None:
    counts = np.array([[3, 1 << 40, 0], [7, 7, 100]])
    channel = SeededChannel(10_000, seed=1, definition=definition)
    release = build("sorted_isotonic").release(counts, channel)
    assert release.values.dtype == np.int64
    assert release.values.tolist() == [[0, 3, 7], [7, 100, 1 << 40]]


def test_parameters() -> None:
    with pytest.raises(MechanismError, match="true or false"):
        build("sorted_isotonic", rounded=1)
    assert build("sorted_isotonic", rounded=False).parameters() == {"rounded": False}
    release = build("sorted_isotonic").release([4], SeededChannel(Fraction(1, 3), seed=1))
    assert release.values.shape == (1,)
    assert release.diagnostics["scale"] == 3.0


# --- Boost: against least squares written out in matrices, and measured errors against their closed form ---


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


# --- Privelet: the transform against Xiao, Wang and Gehrke's weighted Haar coefficients, errors against closed forms ---


LENGTHS = [*range(1, 20), 32, 33]


def matrix_of(cells: int) -> np.ndarray:
    """The transform as a matrix, a column per cell."""
    return np.array([sums_and_differences(cell, 0) for cell in np.eye(cells, dtype=np.int64)]).T


def ranges_of(cells: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    starts, stops = np.triu_indices(cells + 1, 1)
    inside = (np.arange(cells) >= starts[:, None]) & (np.arange(cells) < stops[:, None])
    return starts, stops, inside.astype(float)


def papers_coefficients(cells: np.ndarray) -> tuple[list[float], list[float]]:
    """Haar coefficients and weights as in the paper's section IV: half differences of averages, and the mean."""
    coefficients, weights, means, size = [], [], cells.astype(float), 1
    while means.size > 1:
        size *= 2
        coefficients = [*((means[0::2] - means[1::2]) / 2), *coefficients]
        weights = [size] * (means.size // 2) + weights
        means = (means[0::2] + means[1::2]) / 2
    return [float(means[0]), *coefficients], [cells.size, *weights]


@pytest.mark.parametrize("cells", [1, 2, 4, 16])
def test_coefficients_are_the_papers_times_their_weights(cells):
    counts = np.arange(cells) ** 2 % 11
    coefficients, weights = papers_coefficients(counts)
    assert sums_and_differences(counts, 0).tolist() == [
        c * w for c, w in zip(coefficients, weights, strict=True)
    ]


def test_a_table_worked_by_hand():
    assert sums_and_differences(np.array([5, 2, 7, 1, 4]), 0).tolist() == [19, 11, -1, 3, 6]
    assert cells_from(np.array([19.0, 11.0, -1.0, 3.0, 6.0]), 0).tolist() == [5, 2, 7, 1, 4]


@pytest.mark.parametrize("cells", LENGTHS)
def test_a_cell_is_in_no_more_coefficients_than_the_noise_is_for(cells):
    held = np.abs(matrix_of(cells)).sum(axis=0)
    assert held.max() == 1 + depth(cells) == touched((cells,), (0,))


@pytest.mark.parametrize("shape", [(3, 5), (2, 1, 6), (7, 2)])
def test_in_several_dimensions_they_multiply(shape):
    axes = tuple(range(len(shape)))
    most = 0
    for place in product(*map(range, shape)):
        one = np.zeros(shape, dtype=np.int64)
        one[place] = 1
        for axis in axes:
            one = sums_and_differences(one, axis)
        most = max(most, int(np.abs(one).sum()))
        assert np.abs(one).max() == 1
    assert most == touched(shape, axes)


@pytest.mark.parametrize("cells", LENGTHS)
def test_the_way_back_and_the_factors_are_those_of_the_inverse_matrix(cells):
    matrix = matrix_of(cells)
    inverse = np.linalg.inv(matrix)
    counts = np.arange(cells) * 7 % 5
    assert cells_from((matrix @ counts).astype(float), 0).tolist() == counts.tolist()
    weights = np.sin(np.arange(cells))
    assert factors(weights, 0) == pytest.approx(inverse.T @ weights)
    assert cell_energies(cells) == pytest.approx(np.square(inverse).sum(axis=1))
    starts, stops, inside = ranges_of(cells)
    assert range_energies(cells, starts, stops) == pytest.approx(np.square(inside @ inverse).sum(axis=1))


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
@pytest.mark.parametrize("axes", ["all", [0], [1]])
def test_measured_errors_are_those_of_the_closed_forms(axes, definition):
    counts, budget = np.arange(30).reshape(5, 6) % 4, Fraction(1, 2)
    mechanism = build("privelet", axes=axes)
    boxes = [((0, 0), (5, 6)), ((1, 2), (4, 3)), ((0, 0), (1, 1)), ((2, 1), (5, 5))]
    errors, cells = [], []
    for seed in range(400):
        release = mechanism.release(counts, SeededChannel(budget, seed=seed, definition=definition))
        off = release.values - counts
        errors.append([off[low[0] : high[0], low[1] : high[1]].sum() for low, high in boxes])
        cells.append(off)
    starts, stops = ([box[end] for box in boxes] for end in (0, 1))
    expected = mechanism.box_variance((5, 6), starts, stops, budget, definition)
    # Standard error of a variance from 400 draws: at most √(5/400) = 11 % of it.
    assert np.mean(np.square(errors), axis=0) == pytest.approx(expected, rel=0.5)
    assert np.mean(np.square(cells)) == pytest.approx(release.variances.mean(), rel=0.2)
    assert release.variances[0, 0] == pytest.approx(expected[2])


def test_a_box_is_a_query_like_any_other():
    mechanism, weights = build("privelet"), np.zeros((5, 6, 3))
    weights[1:4, 2:6, 0:1] = 1
    assert mechanism.query_variance(weights, Fraction(1)) == pytest.approx(
        mechanism.box_variance((5, 6, 3), [[1, 2, 0]], [[4, 6, 1]], Fraction(1))[0]
    )


def test_the_variance_of_a_cell_of_a_power_of_two():
    """(1 + l)²-fold noise, of which a cell keeps 1/3 + 2/(3·4^l)."""
    release = build("privelet").release(np.zeros(16, dtype=int), SeededChannel(1, seed=1))
    noise = variance_for(Fraction(1, 5), "pure")
    assert release.variances == pytest.approx(np.full(16, noise * (1 / 3 + 2 / 3 / 256)))
    assert variance_for(Fraction(1), "pure", touched=5) == noise


def test_axes_are_chosen_by_their_length():
    chosen = build("privelet", axes="chosen")
    assert chosen.axes_for((2, 100, 4096)) == (2,)
    assert chosen.axes_for((2, 100, 4096), "zcdp") == (1, 2)
    assert build("privelet", axes=[2, 0, 2]).axes_for((3, 3, 3)) == (0, 2)
    assert build("privelet", axes=[]).axes_for((3, 3)) == ()


def test_an_axis_is_chosen_where_the_mean_variance_of_a_range_is_smaller():
    for cells in (2, 60, 300, 400, 700):
        starts, stops = np.triu_indices(cells + 1, 1)
        ranges = starts[:, None], stops[:, None]
        plain, transformed = (
            build("privelet", axes=axes).box_variance((cells,), *ranges, Fraction(1, 10)).mean()
            for axes in ([], [0])
        )
        if abs(plain - transformed) > 0.05 * plain:
            assert (build("privelet", axes="chosen").axes_for((cells,)) == (0,)) == (transformed < plain)


def test_an_axis_that_the_table_lacks_is_refused():
    with pytest.raises(MechanismError, match="fewer axes"):
        build("privelet", axes=[2]).release(np.zeros((2, 2), dtype=int), SeededChannel(1, seed=1))
    with pytest.raises(MechanismError, match="a box is empty or beyond the table"):
        build("privelet").box_variance((4, 4), [[0, 2]], [[4, 5]], Fraction(1))
