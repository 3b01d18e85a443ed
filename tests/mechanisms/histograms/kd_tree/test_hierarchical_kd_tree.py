"""hierarchical_kd_tree: what it spends on its levels, where it cuts, and what it releases."""

from __future__ import annotations

import json
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

from tabularium.mechanisms import build
from tabularium.mechanisms.accounting import epsilon_within, spent
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.channel.replay.replay_audit import log_probabilities
from tabularium.mechanisms.measured import Measured
from tabularium.mechanisms.noise.synthetic import generator

Box = tuple[tuple[int, int], ...]


def measure(
    counts: Any, epsilon: Any = 1, *, seed: int = 1, definition: Any = "pure", **parameters: Any
) -> Measured:
    channel = SeededChannel(epsilon, seed=seed, definition=definition)
    made = build("hierarchical_kd_tree", **parameters).measure(counts, channel)
    assert channel.remaining == 0
    return made


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


def test_every_level_gets_the_same_and_the_sums_the_rest() -> None:
    """A 4 x 8 table: slices across 8 columns, then of two boxes whose longest sides add up to 8 or more."""
    events = measure(np.ones((4, 8), int), "3/10", height=2, structure="1/3").transcript
    assert [(event.purpose, event.loss) for event in events] == [
        ("level 1", Fraction(1, 20)),
        ("level 2", Fraction(1, 20)),
        ("sums", Fraction(1, 5)),
    ]
    assert events[0].shape == (8,)
    assert events[-1].shape == (4,)
    assert {event.sensitivity for event in events} == {1}


def test_levels_without_anything_to_cut_leave_their_budget_to_the_sums() -> None:
    events = measure([5, 1000], height=10).transcript
    assert [event.purpose for event in events] == ["level 1", "sums"]
    assert [event.loss for event in events] == [Fraction(1, 20), Fraction(19, 20)]
    assert [event.purpose for event in measure([7], height=10).transcript] == ["sums"]
    assert [event.purpose for event in measure(np.arange(30), height=0).transcript] == ["sums"]


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
