"""The tree of boxes, and the hidden Markov tree against all states written out."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from tabularium.mechanisms.histograms.denoise_ranges.plan import _covered, _exposure
from tabularium.mechanisms.histograms.denoise_ranges.tree import (
    SplitTree,
    _downwards,
    _LevelParams,
    _upwards,
    few_peaks,
    levels_of,
    split_axes,
)
from tabularium.mechanisms.noise.synthetic import generator


@pytest.mark.parametrize("shape", [(1,), (6,), (8,), (3, 5), (4, 1, 3)])
def test_the_boxes_of_a_level_hold_every_cell_once(shape: tuple[int, ...]) -> None:
    tree = SplitTree.of(shape)
    table = generator(1).integers(0, 100, shape)
    for level in range(tree.height + 1):
        assert tree.sums(table, level).sum() == table.sum()
        assert tree.sizes[level].sum() == table.size
    for level in range(1, tree.height + 1):
        below = np.append(tree.sums(table, level - 1), 0)
        joined = below[tree.first[level - 1]] + below[tree.second[level - 1]]
        assert (joined == tree.sums(table, level)).all()
    assert (tree.table(tree.sums(table, 0).astype(float)) == table).all()


def test_blocks_of_a_row_and_of_a_table() -> None:
    row = SplitTree.of((6,))
    assert row.sums(np.arange(6), 1).tolist() == [1, 5, 9]
    assert row.sums(np.arange(6), 2).tolist() == [6, 9]
    table = SplitTree.of((2, 4))  # halved along the long axis first
    assert table.split == (1, 0, 1)
    assert table.sums(np.arange(8).reshape(2, 4), 2).tolist() == [0 + 1 + 4 + 5, 2 + 3 + 6 + 7]


def test_axes_without_order_are_halved_first() -> None:
    assert split_axes((4, 4), (1,)) == (0, 0, 1, 1)
    tree = SplitTree.of((3, 4), (0,))
    assert tree.sums(np.arange(12).reshape(3, 4), 2).tolist() == [6, 22, 38]


def test_what_a_range_covers_of_intervals() -> None:
    squares, contrasts = _covered(np.array([1, 0, 4]), np.array([6, 8, 6]), 2)
    assert squares.tolist() == [0.75**2 + 0.5**2, 2.0, 0.25]
    assert contrasts.tolist() == [0.5**2 + 1, 0.0, 1.0]


def test_single_cells_are_exposed_to_all_levels() -> None:
    assert _exposure((8,), (), 1).tolist() == [1 / 64, 1.0, 0.25, 1 / 16]


def test_the_hidden_tree_agrees_with_all_states_written_out() -> None:
    """Four cells, three divisions: 2^3 states, each with its probability."""
    tree = SplitTree.of((4,))
    levels = levels_of(tree, {0: (np.array([9.0, 2.0, 5.0, 4.0]), 4.0), 2: (np.array([18.0]), 9.0)})
    laws = [_LevelParams(), _LevelParams(0.1, 0.6, 3.0), _LevelParams(0.2, 0.8, 5.0)]
    for law in laws:  # slabs alone: an empty half is no division that a sum of states could show
        law.weights = np.array([0.5, 0.3, 0.2, 0.0, 0.0, 0.0]) + 1e-300
    bounds = [np.full(level.sums.size, 1e9) for level in levels]
    judged = _upwards(
        tree, 0, levels, laws, bounds, [(level.residuals, level.residual_variances) for level in levels[1:]]
    )

    def likelihood(place: int, box: int, uneven: int) -> float:
        contrast, noise = levels[place].contrasts[box], levels[place].noises[box]
        widths = laws[place].width * np.array([1.0, 16.0, 256.0]) if uneven else np.zeros(1)
        weights = laws[place].weights[:3] if uneven else np.ones(1)
        normal = np.exp(-(contrast**2) / 2 / (noise + widths)) / np.sqrt(noise + widths)
        return float(weights @ normal)

    mass = np.zeros((3, 2))
    for top, left, right in product((0, 1), repeat=3):
        chance = laws[2].below_uneven if top else 1 - laws[2].below_uneven
        chance *= likelihood(2, 0, top)
        for box, state in enumerate((left, right)):
            rate = laws[1].below_uneven if top else laws[1].below_even
            chance *= (rate if state else 1 - rate) * likelihood(1, box, state)
        for place, state in enumerate((top, left, right)):
            mass[place, state] += chance
    expected = mass[:, 1] / mass.sum(axis=1)
    found = _downwards(tree, 0, levels, laws, judged)
    assert [*found[2], *found[1]] == pytest.approx(expected.tolist())


@pytest.mark.parametrize("whole", [{}, {2: 5.0}])
@pytest.mark.parametrize("full", [slice(0, 2), slice(2, 3)])
def test_what_is_left_in_an_empty_half_is_noise_of_the_stated_variance(
    full: slice, whole: dict[int, float]
) -> None:
    """Twenty thousand boxes of three cells, two in the first half, where one half alone holds records."""
    boxes, rng = 20_000, generator(1)
    tree = SplitTree.of((boxes, 3), (0,))
    table = np.zeros((boxes, 3))
    table[:, full] = 40.0
    drawn = {
        level: (sums + rng.normal(0, np.sqrt(variance), sums.size), variance)
        for level, variance in {0: 4.0, **whole}.items()
        for sums in [tree.sums(table, level)]
    }
    known = levels_of(tree, drawn)[2]
    half = 0 if full.start == 0 else 1
    assert known.residuals[half].mean() == pytest.approx(0, abs=0.1)
    assert known.residuals[half].var() == pytest.approx(known.residual_variances[half].mean(), rel=0.05)
    assert abs(known.residuals[1 - half].mean()) > 35


def test_few_peaks_in_a_void_are_told_from_records_all_over() -> None:
    peaks = np.zeros(1000)
    peaks[:20] = 300.0
    assert few_peaks(peaks, 100.0)
    assert not few_peaks(peaks, 1e6)  # below the noise, they could be anywhere
    assert not few_peaks(peaks[:150], 100.0)  # too many of the boxes
    peaks[20:70] = 45.0
    assert not few_peaks(peaks, 100.0)  # a quarter of the records is in none
