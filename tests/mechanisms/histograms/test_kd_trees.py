"""kd_tree: what it spends, what it releases, and that its partition is made of noisy outputs alone."""

from __future__ import annotations

import json
from fractions import Fraction
from functools import partial
from math import prod, sqrt
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from tabularium.mechanisms import build
from tabularium.mechanisms.accounting import epsilon_within, spent
from tabularium.mechanisms.arrays import LARGEST_COUNT
from tabularium.mechanisms.channel import SeededChannel, replay
from tabularium.mechanisms.channel.replay.replay_audit import log_probabilities
from tabularium.mechanisms.histograms.kd_tree import KdTree, within_sums
from tabularium.mechanisms.measured import Measured
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import Noise
from tests.mechanisms.histograms import measuring

PAPER: dict[str, Any] = {"cells": "1/2", "total": 0, "split": "median", "combine": False}


release = partial(measuring.released, "kd_tree")


def clusters(side: int = 64) -> np.ndarray:
    """A table that is mostly empty, with two dense corners and one full cell."""
    table = np.zeros((side, side), dtype=np.int64)
    table[: side // 4, : side // 4] = 40
    table[-side // 8 :, side // 2 :] = 15
    table[side // 2, 5] = 8000
    return table


def rectangles(side: int, number: int) -> np.ndarray:
    """Random ranges of rows and columns, shape (number, 2, 2)."""
    ends = np.sort(generator(9).integers(0, side, (number, 2, 2)), axis=-1)
    ends[..., 1] += 1
    return ends


def range_error(table: np.ndarray, truth: np.ndarray, ranges: np.ndarray) -> float:
    gaps = table - truth
    return float(np.mean([abs(gaps[a:b, c:d].sum()) for (a, b), (c, d) in ranges.tolist()]))


# --- budget -------------------------------------------------------------------------------------------


def test_under_zcdp_the_noise_is_gaussian() -> None:
    made = release(clusters(), "1/200", definition="zcdp", cells="1/4", total="1/20")
    assert {event.primitive for event in made.transcript} == {"discrete_gaussian"}
    assert [event.scale_squared for event in made.transcript] == [2000, 400, Fraction(1000, 7)]
    assert made.diagnostics["scale_cells"] == pytest.approx(20)


def test_where_there_are_many_cells_counts_are_clipped_at_a_public_number() -> None:
    few, many = np.full(1 << 20, LARGEST_COUNT), np.full(1 << 21, LARGEST_COUNT)
    assert within_sums(few) is few
    assert within_sums(many).max() == 1 << 39
    assert within_sums(many).sum() == 1 << 60


def test_what_the_budget_buys() -> None:
    assert Noise.for_loss(Fraction(1, 20), "pure").scale == 20
    assert Noise.for_loss(Fraction(1, 200), "zcdp").scale == pytest.approx(10)


# --- the partition ------------------------------------------------------------------------------------


def test_the_boxes_lie_side_by_side_and_tell_nothing_but_noisy_outputs() -> None:
    """Other counts, the same forced outputs: the same boxes."""

    def forced(event: Any, inputs: Any, drawn: Any) -> Any:
        rng = generator(inputs.size)
        return np.rint(rng.exponential(20, inputs.shape)).astype(np.int64)

    found = replay(build("kd_tree"), clusters(16), clusters(16) * 0 + 3, 1, 1, force=forced)
    assert "differ" not in found.reason.replace("within", "")
    measured = build("kd_tree").measure(clusters(), SeededChannel("1/2", seed=4))
    lows, highs = measured.arrays["lows"], measured.arrays["highs"]
    covered = np.zeros((64, 64), int)
    for (a, c), (b, d) in zip(lows.tolist(), highs.tolist(), strict=True):
        covered[a:b, c:d] += 1
    assert (covered == 1).all()
    assert 10 < lows.shape[0] < 1000


def test_structure_is_found_and_what_is_even_is_left_whole() -> None:
    """At ε = 1 the full cell is released with the noise of one sum, and the empty parts stay large."""
    table = clusters()
    made = release(table, 1)
    assert abs(made.values[32, 5] - 8000) < 60
    assert np.abs(made.values - table).mean() < 0.6
    assert made.diagnostics["largest_part"] >= 256
    assert release(np.zeros((40, 50), int), 1, seed=3).diagnostics["parts"] < 40


def test_thresholds_of_the_users_own() -> None:
    table = clusters(16)
    assert release(table, 10, xi0=10**9, xi1=10**9).diagnostics["parts"] == 1
    assert release(table, 10, xi0=10**9, xi1=0).diagnostics["parts"] > 50
    coarse, fine = (release(table, 10, xi0=xi0, xi1=10**9).diagnostics["parts"] for xi0 in (2000, 50))
    assert 1 < coarse < fine


def test_noise_alone_does_not_cut_as_it_does_without_the_margin() -> None:
    """The H of noise is nearly what ξ1 expects: a tolerance of 3 keeps boxes whole, none cuts half of them."""
    empty = np.zeros((64, 64), dtype=np.int64)
    parts = {
        tolerance: [
            release(empty, 1, seed=seed, tolerance=tolerance).diagnostics["parts"] for seed in range(8)
        ]
        for tolerance in (3, 0)
    }
    assert np.mean(parts[3]) < 60
    assert np.mean(parts[0]) > 5 * np.mean(parts[3])


# --- what is released ---------------------------------------------------------------------------------


def test_in_the_papers_form_each_box_has_its_noisy_mean() -> None:
    mechanism = build("kd_tree", **PAPER)
    measured = mechanism.measure(clusters(16), SeededChannel(1, seed=5))
    values = mechanism.finish(measured).values
    arrays = (measured.arrays[key].tolist() for key in ("lows", "highs", "sums"))
    assert measured.arrays["sums"].size > 20
    for (a, c), (b, d), total in zip(*arrays, strict=True):
        assert values[a:b, c:d] == pytest.approx(total / (b - a) / (d - c), rel=1e-15)


def test_both_phases_together_are_not_worse_than_the_second() -> None:
    """The same draws, finished in two ways; where many boxes are alike the first phase helps."""
    table = np.rint(generator(8).exponential(30, (40, 40))).astype(np.int64)
    gains = []
    for seed in range(6):
        measured = build("kd_tree", cells="1/2").measure(table, SeededChannel("1/2", seed=seed))
        both, second = (
            KdTree(cells="1/2", combine=combine).finish(measured).values  # type: ignore[arg-type]
            for combine in (True, False)
        )
        gains.append(((both - table) ** 2).mean() / ((second - table) ** 2).mean())
    assert np.mean(gains) < 0.95
    assert max(gains) < 1.0


@pytest.mark.parametrize("parameters", [{"cells": "1/2"}, PAPER], ids=["both phases", "paper"])
def test_the_estimated_risk_is_right_on_average(parameters: dict[str, Any]) -> None:
    table = clusters(16) % 41
    claimed, found, said = [], [], []
    for seed in range(150):
        made = release(table, 2, seed=seed, risk=True, **parameters)
        claimed.append(made.diagnostics["risk"])
        said.append(made.diagnostics["risk_standard_error"])
        found.append(((made.values - table) ** 2).mean())
    gaps = np.array(claimed) - found
    assert abs(gaps.mean()) < 4 * gaps.std() / sqrt(gaps.size)
    assert gaps.std() < 1.2 * np.mean(said)


def test_no_risk_is_claimed_unless_asked_for() -> None:
    assert "risk" not in release(clusters(16)).diagnostics


def test_ranges_are_better_than_those_of_cells_and_of_a_hierarchical_tree() -> None:
    table, ranges = clusters(), rectangles(64, 300)
    for epsilon in ("1/100", "1/10"):
        errors = {
            name: np.mean(
                [
                    range_error(
                        build(name).release(table, SeededChannel(epsilon, seed=seed)).values, table, ranges
                    )
                    for seed in range(5)
                ]
            )
            for name in ("kd_tree", "hierarchical_kd_tree", "cells")
        }
        assert errors["kd_tree"] < 0.8 * errors["hierarchical_kd_tree"]
        assert errors["kd_tree"] < 0.5 * errors["cells"]


# --- hierarchical_kd_tree: what it spends on its levels, where it cuts, and what it releases ---------


Box = tuple[tuple[int, int], ...]


measure = partial(measuring.measured, "hierarchical_kd_tree")


def boxes_of(measured: Measured) -> list[Box]:
    lows, highs = measured.arrays["lows"].tolist(), measured.arrays["highs"].tolist()
    return [tuple(zip(low, high, strict=True)) for low, high in zip(lows, highs, strict=True)]


def by_definition(table: np.ndarray, height: int) -> list[Box]:
    """The tree with exact medians, box by box."""
    boxes: list[Box] = [tuple((0, side) for side in table.shape)]
    for _ in range(height):
        made: list[Box] = []
        for box in boxes:
            axis = int(np.argmax([high - low for low, high in box]))
            low, high = box[axis]
            if high - low == 1:
                made.append(box)
                continue
            cells = table[tuple(slice(*side) for side in box)]
            lines = cells.sum(axis=tuple(other for other in range(table.ndim) if other != axis))
            uneven = [abs(lines[:cut].sum() - lines[cut:].sum()) for cut in range(1, lines.size)]
            cut = low + 1 + int(np.argmin(uneven))
            made += [(*box[:axis], side, *box[axis + 1 :]) for side in ((low, cut), (cut, high))]
        boxes = made
    return boxes


@pytest.mark.parametrize("medians", ["noisy", "chosen"])
def test_under_zcdp_a_choice_may_use_more(medians: str) -> None:
    rho = Fraction(1, 2)
    events = measure(np.arange(64), rho, definition="zcdp", height=4, medians=medians).transcript
    assert spent(events) == rho
    assert events[-1].primitive == "discrete_gaussian"
    if medians == "chosen":
        assert [event.epsilon for event in events[:4]] == [epsilon_within(rho / 8)] * 4


@pytest.mark.parametrize("medians", ["noisy", "chosen"])
def test_with_a_great_budget_the_cuts_are_the_medians(medians: str) -> None:
    """Powers of two, shuffled: no two cuts are equally even."""
    rng = generator(3)
    for shape in ((1,), (9,), (4, 5), (2, 3, 3), (1, 6, 1)):
        for height in (1, 2, 3, 7):
            table = rng.permutation(1 << np.arange(prod(shape))).reshape(shape)
            measured = measure(table, 10**7, height=height, medians=medians)
            assert boxes_of(measured) == by_definition(table, height)


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_a_chosen_median_has_the_stated_distribution(definition: str) -> None:
    """Scores -|2L - C| of sensitivity 1: 3 | 0, 4, 1, 5 splits 13 into 3 and 10, and so on."""
    counts, runs, budget = np.array([3, 0, 4, 1, 5]), 800, Fraction(1)
    gaps = np.array([7, 7, 1, 3]) - 1
    epsilon = budget / 2 if definition == "pure" else epsilon_within(budget / 2)
    wanted = np.exp(log_probabilities(gaps, epsilon / 2, "permute_and_flip"))
    found = np.zeros(4, int)
    for seed in range(runs):
        measured = measure(counts, budget, seed=seed, height=1, medians="chosen", definition=definition)
        found[measured.arrays["highs"][0, 0] - 1] += 1
    assert chisquare(found, wanted * runs).pvalue > 1e-4


@pytest.mark.parametrize("shape", [(1,), (2,), (13,), (3, 5), (2, 1, 3, 2), ()], ids=str)
@pytest.mark.parametrize("medians", ["noisy", "chosen"])
def test_every_shape(shape: tuple[int, ...], medians: str) -> None:
    table = np.arange(prod(shape)).reshape(shape)
    measured = measure(table, medians=medians)
    found = build("hierarchical_kd_tree", medians=medians).finish(measured)
    assert found.values.shape == shape
    assert found.variances is None
    assert found.values.sum() == pytest.approx(measured.arrays["sums"].sum())
    json.dumps(found.diagnostics)


def test_a_box_is_released_as_its_noisy_mean() -> None:
    measured = measure(generator(1).integers(0, 90, (8, 8)), height=3)
    values = build("hierarchical_kd_tree", height=3).finish(measured).values
    assert len(boxes_of(measured)) == 8
    for box, total in zip(boxes_of(measured), measured.arrays["sums"].tolist(), strict=True):
        part = values[tuple(slice(*side) for side in box)]
        assert part == pytest.approx(total / part.size, rel=1e-15)
