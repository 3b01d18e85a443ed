"""Denoise for ranges: parameters, what is drawn, and that ranges gain by it."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms import build, restore
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.histograms.denoise_ranges.measure import (
    PARTS,
    TOTAL_SHARE,
    _covered,
    _exposure,
    noisy_sums,
    planned_shares,
)
from tabularium.mechanisms.histograms.denoise_ranges.tree import (
    SplitTree,
    _downwards,
    _LevelParams,
    _upwards,
    few_peaks,
    levels_of,
    split_axes,
)
from tabularium.mechanisms.linear_measurements.noisy_tree import NoisyTree
from tabularium.mechanisms.measured import Measured
from tabularium.mechanisms.noise.synthetic import generator

STEPS = np.repeat([40, 200, 0, 90], 100)


def measured(
    counts: Any, budget: str = "1/10", seed: int = 1, definition: Any = "pure", **parameters: Any
) -> Measured:
    channel = SeededChannel(budget, seed=seed, definition=definition)
    return build("denoise", workload="ranges", **parameters).measure(np.asarray(counts), channel)


def range_error(values: Any, counts: Any) -> float:
    running = np.concatenate([[0.0], np.cumsum(np.asarray(values, float) - counts)])
    return float(np.abs(running[:, None] - running[None, :]).mean())


# --- what is drawn ----------------------------------------------------------------------------------


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
@pytest.mark.parametrize("counts", [[3], [5, 0], STEPS, STEPS.reshape(4, 4, 25), np.zeros((3, 1, 2), int)])
def test_it_spends_the_whole_budget_on_sums_that_hold_each_cell_once(counts: Any, definition: Any) -> None:
    found = measured(counts, "1/3", definition=definition)
    assert sum(event.loss for event in found.transcript) == Fraction(1, 3)
    assert found.transcript[0].loss == Fraction(1, 3) * TOTAL_SHARE
    assert {event.sensitivity for event in found.transcript} == {1}
    release = build("denoise", workload="ranges").finish(found)
    assert release.values.shape == np.shape(counts)
    assert (release.values >= 0).all()


# --- the levels -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(1,), (2,), (101,), (7, 5), (46_629,), (3, 1, 4)])
@pytest.mark.parametrize("signal", [1e-9, 0.3, 1e9])
def test_shares_add_up(shape: tuple[int, ...], signal: float) -> None:
    for definition in ("pure", "zcdp"):
        shares = planned_shares(shape, (), None, signal, definition)
        assert sum(shares) == PARTS
        assert min(shares) >= 0


def test_more_signal_and_shorter_ranges_mean_smaller_boxes() -> None:
    def lowest(longest: int | None, signal: float) -> int:
        shares = planned_shares((4096,), (), longest, signal, "pure")
        return next(level for level, share in enumerate(shares) if share)

    def cells(longest: int | None) -> int:
        return planned_shares((4096,), (), longest, 100, "pure")[0]

    assert lowest(None, 0.001) > lowest(None, 1) >= lowest(None, 100) == 0
    assert cells(1) >= cells(8) > cells(None)


# --- how good it is ---------------------------------------------------------------------------------


def test_ranges_have_less_error_than_with_noise_on_cells_or_a_plain_tree() -> None:
    counts = np.repeat([30, 200, 0, 0, 90, 85, 0, 7], 128)
    error = {
        name: np.mean(
            [
                range_error(
                    build(name, **given).release(counts, SeededChannel("1/10", seed=s)).values, counts
                )
                for s in range(4)
            ]
        )
        for name, given in (("denoise", {"workload": "ranges"}), ("identity", {}), ("boost", {}))
    }
    assert error["denoise"] < 0.5 * error["boost"] < 0.5 * error["identity"]


def test_hardly_anything_leaks_into_empty_land() -> None:
    counts = np.zeros(4096, int)
    counts[[17, 900, 901, 4000]] = [5000, 300, 20_000, 800]
    release = build("denoise", workload="ranges").release(counts, SeededChannel(1, seed=2))
    empty = counts == 0
    assert release.values[empty].sum() < 60
    assert np.abs(release.values[~empty] - counts[~empty]).max() < 60


def test_the_void_around_a_few_peaks_stays_empty() -> None:
    """All records are on two edges of a table, so most boxes hold none."""
    counts = np.zeros((256, 256), int)
    counts[0, 0] = 20_000
    counts[0, 80:140:3] = counts[2:40:3, 0] = 60
    inner = [
        build("denoise", workload="ranges").release(counts, SeededChannel(1, seed=s)).values[1:, 1:].sum()
        for s in range(4)
    ]
    assert np.mean(inner) < 75


# --- estimates that are not smoothed ----------------------------------------------------------------


@pytest.mark.parametrize("shape", [(13,), (5, 6)])
@pytest.mark.parametrize("budget", ["5", "1/500"])
def test_the_tree_is_what_was_measured(shape: tuple[int, ...], budget: str) -> None:
    """Every noisy sum beside its own cells, written out: those of the node that it is said to be at."""
    drawn = measured(generator(1).integers(200, 400, shape), budget, categorical=None)
    tree = restore(drawn).linear_measurements(drawn)
    assert isinstance(tree, NoisyTree)
    sums, number = noisy_sums(drawn, ()), prod(shape)
    inside = np.zeros((tree.tree.nodes, number))
    inside[tree.leaf, np.arange(number)] = 1
    for node in range(tree.tree.nodes - 1, -1, -1):
        if (above := tree.tree.parents[node]) >= 0:
            inside[above] += inside[node]
    at = 0
    for level, (values, variance) in sorted(sums.levels.items(), reverse=True):
        cells = np.eye(number).reshape(-1, *shape)
        here = slice(at, at + values.size)
        assert inside[here].tolist() == np.array([sums.tree.sums(cell, level) for cell in cells]).T.tolist()
        assert tree.values[here].tolist() == values.tolist()
        assert tree.variances[here] == pytest.approx(variance)
        at += values.size
    assert at == tree.tree.nodes


def test_a_range_that_cuts_what_was_measured_together_has_no_estimate() -> None:
    drawn = measured(np.ones(4096, int), "1/1000")
    assert 0 not in noisy_sums(drawn, ()).levels
    tree = restore(drawn).linear_measurements(drawn)
    assert tree is not None
    assert np.isinf(tree.estimate(np.arange(4096) < 1)[1])
    assert np.isfinite(tree.estimate(np.ones(4096, bool))[1])


# --- The tree of boxes, and the hidden Markov tree against all states written out --------------------


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
