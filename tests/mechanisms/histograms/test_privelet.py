"""Privelet: the transform against Xiao, Wang and Gehrke's weighted Haar coefficients, errors against closed forms."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.noisy_sums import variance_for
from tabularium.mechanisms.histograms.privelet import (
    cell_energies,
    cells_from,
    depth,
    factors,
    range_energies,
    sums_and_differences,
    touched,
)

LENGTHS = [*range(1, 20), 32, 33]


def matrix_of(cells: int) -> np.ndarray:
    """The transform as a matrix, a column per cell."""
    return np.array([sums_and_differences(cell, 0) for cell in np.eye(cells, dtype=np.int64)]).T


def every_range(cells: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
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
    starts, stops, inside = every_range(cells)
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


def test_one_draw_with_the_noise_for_all_that_a_record_touches():
    channel = SeededChannel(Fraction(1, 2), seed=1)
    build("privelet").release(np.zeros((5, 6), dtype=int), channel)
    (event,) = channel.transcript
    assert (event.sensitivity, event.loss, event.shape) == (16, Fraction(1, 2), (5, 6))


def test_an_axis_that_the_table_lacks_is_refused():
    with pytest.raises(MechanismError, match="fewer axes"):
        build("privelet", axes=[2]).release(np.zeros((2, 2), dtype=int), SeededChannel(1, seed=1))
    with pytest.raises(MechanismError, match="a box is empty or beyond the table"):
        build("privelet").box_variance((4, 4), [[0, 2]], [[4, 5]], Fraction(1))
