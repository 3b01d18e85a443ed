"""MWEM: its queries, its weights against slow references, its rounds, and what it learns of plain tables."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.histograms.mwem import (
    MarginalWorkload,
    RangeWorkload,
    TilingWorkload,
    at_edges,
    block_runs,
    fit_to_ranges,
    fit_to_tilings,
    prefixes,
    random_ranges,
    tilings,
)

STEPS = np.repeat([90, 3, 40, 0], [16, 20, 9, 19])


def pairs(ranges: tuple[np.ndarray, np.ndarray]) -> list[tuple[int, int]]:
    return list(zip(*(ends.tolist() for ends in ranges), strict=True))


# --- queries ----------------------------------------------------------------------------------------


def test_runs_of_blocks_of_six_cells():
    assert pairs(block_runs(6, 2, 1, 100)) == [
        *((0, stop) for stop in (1, 2, 3)),
        *((1, stop) for stop in (2, 3, 4)),  # 6 cells have quarters of 1, 2, 1 and 2
        *((2, stop) for stop in (3, 4)),
        *((3, stop) for stop in (4, 5, 6)),
        *((4, stop) for stop in (5, 6)),
        (5, 6),
    ]
    assert pairs(block_runs(6, 2, 4, 100)) == [(0, 3), (3, 6)]  # halves at least
    assert pairs(block_runs(1, 4, 1, 100)) == []
    assert pairs(block_runs(2, 4, 1, 100)) == [(0, 1), (1, 2)]


@pytest.mark.parametrize("cells", [2, 3, 7, 100, 1 << 12])
@pytest.mark.parametrize("narrowest", [1, 5, 1 << 12])
def test_sets_of_ranges_hold_different_ranges_and_not_the_whole(cells, narrowest):
    sets = (
        block_runs(cells, 4, narrowest, 300),
        prefixes(cells, narrowest, 300),
        random_ranges(cells, 5, narrowest, 300),
    )
    for starts, stops in sets:
        assert 1 <= starts.size <= 300
        assert len(set(pairs((starts, stops)))) == starts.size
        assert np.all((starts >= 0) & (starts < stops) & (stops <= cells) & (stops - starts < cells))
        assert np.all(stops - starts >= min(narrowest, cells // 2))


def test_random_ranges_follow_from_the_seed_and_are_spread_out():
    one, same, other = (random_ranges(1000, seed, 1, 4000) for seed in (1, 1, 2))
    assert pairs(one) == pairs(same) != pairs(other)
    assert np.mean(one[0]) == pytest.approx(1000 / 3, rel=0.05)
    assert np.mean(one[1]) == pytest.approx(2000 / 3, rel=0.05)


def test_tilings_of_seven_cells():
    found = tilings(7, 3, 100)
    assert found == sorted(set(found))
    assert {width for width, _ in found} == {1, 2, 3, 4, 6}
    assert at_edges(np.arange(8), 3, 2).tolist() == [0, 2, 5, 7]
    assert at_edges(np.arange(8), 3, 0).tolist() == [0, 3, 6, 7]
    assert at_edges(np.arange(8), 6, 4).tolist() == [0, 4, 7]
    assert tilings(1, 4, 100) == []
    assert tilings(2, 4, 100) == [(1, 0)]
    assert min(tilings(1 << 20, 4, 1 << 10)) == (1 << 10, 0)


def workloads() -> list[TilingWorkload | RangeWorkload | MarginalWorkload]:
    return [
        TilingWorkload((2, 3), tuple(tilings(6, 4, 100))),
        RangeWorkload((2, 3), *block_runs(6, 4, 1, 100)),
        RangeWorkload((2, 3), *prefixes(6, 1, 100)),
        MarginalWorkload.of((2, 3), 2),
    ]


@pytest.mark.parametrize("workload", workloads(), ids=lambda w: type(w).__name__)
def test_one_record_changes_answers_and_scores_by_one_at_most(workload):
    """All tables of six cells with 0 to 2 records each, and all their neighbours, under a model with odd masses."""
    model = workload.fitted(np.array([0]), [np.full(workload.length(0), 1.7)], 0.5, 5.3, 3)
    tables = {
        table: (workload.truth(np.array(table).reshape(2, 3)))
        for table in product(range(3), repeat=6)
        if sum(table) <= 4
    }
    scores = {table: workload.scores(truth, model, 1.3) for table, truth in tables.items()}
    moved = 0
    for table, place in product(tables, range(6)):
        more = tuple(count + (cell == place) for cell, count in enumerate(table))
        if more in tables:
            change = np.abs(scores[more] - scores[table])
            assert change.max() <= 1
            moved = max(moved, int(change.max()))
            for query in range(workload.size):
                assert (
                    np.abs(workload.answer(tables[more], query) - workload.answer(tables[table], query)).sum()
                    <= 1
                )
    assert moved == 1


@pytest.mark.parametrize("workload", workloads(), ids=lambda w: type(w).__name__)
def test_the_score_is_the_error_of_the_model(workload):
    counts = np.array([[5, 0, 2], [9, 1, 1]])
    truth = workload.truth(counts)
    nothing_asked = np.empty(0, dtype=np.int64)
    model = workload.fitted(nothing_asked, [], 0.5, 18.0, 3)  # 3 in every cell
    assert workload.table(model) == pytest.approx(np.full((2, 3), 3.0))
    expected = []
    for query in range(workload.size):
        apart = workload.answer(truth, query) - workload.answer(workload.truth(np.full((2, 3), 3)), query)
        noise = 0 if isinstance(workload, RangeWorkload) else round(1.3 * apart.size)
        expected.append(np.abs(apart).sum() - noise)
        assert workload.length(query) == apart.size
    assert workload.scores(truth, model, 1.3).tolist() == expected


# --- weights ----------------------------------------------------------------------------------------


def slow_weights(cells, starts, stops, answers, slack, total, passes):
    """The same on single cells."""
    weights = np.full(cells, total / cells)
    for _ in range(passes):
        for start, stop, answer in zip(starts, stops, answers, strict=True):
            inside = weights[start:stop].sum()
            outside = weights.sum() - inside
            wanted = min(max(answer, min(inside, slack)), total - min(outside, slack))
            weights[:start] *= (total - wanted) / outside
            weights[stop:] *= (total - wanted) / outside
            weights[start:stop] *= wanted / inside
    return weights


def spread(edges: np.ndarray, masses: np.ndarray) -> np.ndarray:
    return np.repeat(masses / np.diff(edges), np.diff(edges))


def test_segments_stand_for_cells():
    starts, stops = np.array([0, 3, 2, 8]), np.array([5, 9, 4, 12])
    answers = np.array([30.0, 12.5, -4.0, 200.0])
    given = (12, starts, stops, answers, 2.0, 100.0, 4)
    assert spread(*fit_to_ranges(*given)) == pytest.approx(slow_weights(*given), rel=1e-12)


def test_one_answer_is_met_at_the_least_change_in_relative_entropy():
    edges, masses = fit_to_ranges(10, np.array([2]), np.array([5]), np.array([60.0]), 1.0, 100.0, 1)
    assert edges.tolist() == [0, 2, 5, 10]
    assert masses == pytest.approx([40 * 2 / 7, 60, 40 * 5 / 7])


def test_an_answer_below_its_noise_does_not_empty_a_range():
    for answer in (-1e9, -3.0, 0.0, 1.9):
        _, masses = fit_to_ranges(10, np.array([0]), np.array([5]), np.array([answer]), 2.0, 100.0, 9)
        assert masses == pytest.approx([2.0, 98.0])
    for answer in (98.1, 1e12):
        _, masses = fit_to_ranges(10, np.array([0]), np.array([5]), np.array([answer]), 2.0, 100.0, 9)
        assert masses == pytest.approx([98.0, 2.0])
    _, masses = fit_to_ranges(10, np.array([0]), np.array([5]), np.array([-7.0]), 500.0, 1.0, 9)
    assert masses == pytest.approx([0.5, 0.5])  # all is noise


def test_answers_that_contradict_each_other_leave_finite_weights():
    starts, stops = np.array([0, 0, 1]), np.array([1, 2, 3])
    _, masses = fit_to_ranges(4, starts, stops, np.array([50.0, 3.0, 0.0]), 1e-3, 100.0, 1000)
    assert np.isfinite(masses).all()
    assert (masses > 0).all()
    assert masses.sum() == pytest.approx(100.0)


def test_tilings_meet_all_their_answers_at_once():
    tiles = [np.array([0, 4, 8]), np.array([0, 2, 6, 8])]
    truth = np.array([5.0, 5, 5, 5, 1, 1, 7, 7])
    answers = np.concatenate([np.add.reduceat(truth, edges[:-1]) for edges in tiles])
    edges, masses = fit_to_tilings(tiles, answers, 0.1, truth.sum(), 200)
    assert edges.tolist() == [0, 2, 4, 6, 8]
    assert masses == pytest.approx([10, 10, 2, 14], rel=1e-6)


def test_margins_of_independent_attributes_give_the_table():
    table = np.multiply.outer([1.0, 3.0], np.multiply.outer([2.0, 5.0, 1.0], [4.0, 4.0, 2.0, 1.0]))
    workload = MarginalWorkload.of(table.shape, 1)
    assert workload.marginals == ((0,), (1,), (2,))
    answers = [table.sum(axis=(1, 2)), table.sum(axis=(0, 2)), table.sum(axis=(0, 1))]
    model = workload.fitted(np.arange(3), answers, 0.0, table.sum(), 2)
    assert workload.table(model) == pytest.approx(table)
    assert MarginalWorkload.of((2, 1, 3), 3).marginals == ((0,), (2,), (0, 2))


def test_equal_queries_are_averaged():
    workload = RangeWorkload((8,), *block_runs(8, 1, 1, 100))
    twice, once = (
        workload.fitted(np.array(queries), [np.array([answer]) for answer in answers], 0.1, 50.0, 3)
        for queries, answers in (([4, 1, 4], [10.0, 5.0, 14.0]), ([4, 1], [12.0, 5.0]))
    )
    assert np.array_equal(workload.table(twice), workload.table(once))


# --- rounds -----------------------------------------------------------------------------------------


def test_concentrated_privacy_takes_gaussian_noise():
    channel = SeededChannel(Fraction(1, 2), seed=1, definition="zcdp")
    build("mwem").release(STEPS, channel)
    kinds = [event.primitive for event in channel.transcript]
    assert kinds == ["discrete_gaussian", *["permute_and_flip", "discrete_gaussian"] * 3]
    assert sum(event.loss for event in channel.transcript) == Fraction(1, 2)


def test_there_are_more_rounds_the_more_the_noise_allows():
    cells = np.full(1000, 200)
    rounds = [
        build("mwem", workload="ranges").release(cells, SeededChannel(budget, seed=1)).diagnostics["rounds"]
        for budget in (Fraction(1, 1000), Fraction(1, 10), Fraction(1), Fraction(10**4))
    ]
    assert rounds[0] == 4
    assert rounds == sorted(rounds)
    assert 50 < rounds[2] < 70  # √(200 000 · .95 / 2 / 25) = 61.6
    assert rounds[3] == 200
    few = build("mwem", workload="ranges").release(cells[:7], SeededChannel(10**4, seed=1))
    assert few.diagnostics["rounds"] == 7  # not more than there are cells
    assert build("mwem").release(cells, SeededChannel(1, seed=1)).diagnostics["rounds"] == 3
    for shape, number in (((2, 3), 3), ((2, 3, 1, 2, 2, 2), 5)):
        table = build("mwem", workload="marginals").release(
            np.ones(shape, dtype=int), SeededChannel(1, seed=1)
        )
        assert table.diagnostics["rounds"] == number


@pytest.mark.parametrize("workload", ["tilings", "ranges", "marginals"])
def test_with_a_large_budget_the_steps_come_back(workload):
    release = build("mwem", workload=workload, rounds=12, replays=50).release(
        STEPS, SeededChannel(10**4, seed=1)
    )
    assert np.abs(release.values - STEPS).max() < 1.5
    assert release.values.sum() == pytest.approx(release.diagnostics["total"])
    assert (release.values >= 0).all()
    assert release.variances is None


@pytest.mark.parametrize("parameters", [{}, {"workload": "ranges"}, {"workload": "marginals"}])
def test_it_learns_more_than_the_total(parameters):
    errors = [
        np.abs(build("mwem", **parameters).release(STEPS, SeededChannel(1, seed=seed)).values - STEPS).mean()
        for seed in range(5)
    ]
    assert np.mean(errors) < 0.5 * np.abs(STEPS - STEPS.mean()).mean()


def test_an_empty_table_gives_a_small_one():
    for seed in range(8):  # about half of the totals are negative
        release = build("mwem").release(np.zeros(50, dtype=int), SeededChannel(Fraction(1, 2), seed=seed))
        assert np.isfinite(release.values).all()
        assert (release.values >= 0).all()
        assert release.values.sum() == pytest.approx(max(1, release.diagnostics["total"]))


@pytest.mark.parametrize("workload", ["tilings", "ranges", "marginals"])
def test_the_largest_counts_do_not_overflow(workload):
    counts = np.zeros((16, 16), dtype=np.int64)
    counts[3:7] = 1 << 40
    release = build("mwem", workload=workload, rounds=4).release(counts, SeededChannel(1, seed=1))
    assert np.isfinite(release.values).all()
    assert release.values.sum() == pytest.approx(counts.sum(), rel=1e-6)
    assert np.abs(release.values - counts).max() < 1e-3 * 2**40


@pytest.mark.parametrize("shape", [(1,), (1, 1), ()])
def test_a_single_cell_is_its_total(shape):
    channel = SeededChannel(1, seed=1)
    release = build("mwem").release(np.full(shape, 1000), channel)
    assert release.values.shape == shape
    assert [event.purpose for event in channel.transcript] == ["total"]
    assert abs(float(release.values.sum()) - 1000) < 30


def test_negative_answers_empty_no_cell_for_ever() -> None:
    """Marginals at a budget far too small: most answers are below zero, and are replayed many times."""
    for seed in range(5):
        mechanism = build("mwem", workload="marginals", rounds=6, replays=500)
        release = mechanism.release(np.full((6, 6), 30), SeededChannel("1/200", seed=seed))
        assert release.values.min() > 0
