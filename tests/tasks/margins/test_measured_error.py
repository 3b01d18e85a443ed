"""The bought measurement of a release's error: its sum by hand, its privacy by replay, its margins by count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tabularium.mechanisms import build
from tabularium.mechanisms.arrays import LARGEST_COUNT, LARGEST_SUM
from tabularium.mechanisms.channel import SeededChannel, replay_loss
from tabularium.mechanisms.inference import margins
from tabularium.mechanisms.inference.margins_of_error.measured_error import (
    UNIT,
    bounded_risk,
    class_errors,
    error_classes,
    total_error,
)
from tabularium.mechanisms.measured import Measured, Release
from tabularium.mechanisms.mechanism import Mechanism
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.tasks.margins.error_model import level_error
from tabularium.tasks.measure import Finished, Job, MeasuredError, draw_job, finish_part, measure_error


def test_the_sum_by_hand() -> None:
    counts = np.array([[3, 5], [0, 7]])
    released = np.array([[2.5, 5.0], [-1.0, 7.25]])
    assert total_error(counts, released) == (0.5 + 0 + 1 + 0.25) * UNIT


def test_far_off_cells_are_capped_and_nothing_overflows() -> None:
    counts = np.full(10_000, 1 << 40)
    assert total_error(counts[:2], np.array([-1e300, 1e300])) == 2 * LARGEST_COUNT * UNIT
    assert total_error(counts, np.full(10_000, -1e300)) == LARGEST_SUM


Counts = arrays(np.int64, 12, elements=st.integers(0, 1 << 40))
Released = arrays(np.float64, 12, elements=st.floats(-1e14, 1e14))


@given(Counts, Released, st.integers(0, 11))
def test_one_record_changes_the_sum_by_one_record_at_most(counts: Any, released: Any, cell: int) -> None:
    counts[cell] = min(int(counts[cell]), (1 << 40) - 1)
    more = counts.copy()
    more[cell] += 1
    assert abs(total_error(more, released) - total_error(counts, released)) <= UNIT


@dataclass(frozen=True)
class WithError(Mechanism):
    """What the release task draws, as one mechanism: SReB_GCA and then its error."""

    name: ClassVar[str] = "with_error"
    scaled: float = 1.0

    def draw(self, counts: Any, channel: Any) -> Any:
        inner = build("sreb_gca")
        main = channel.grant(channel.remaining * Fraction(9, 10), "main")
        measured = inner.measure(counts, main)
        released = inner.finish(measured).values
        total, _ = measure_error(counts, released, channel.grant(channel.remaining, "error"))
        return {**measured.arrays, "total": total}, {}

    def finish(self, measured: Measured) -> Release:
        return Release(
            values=measured.arrays["total"], transcript=measured.transcript, insecure=measured.insecure
        )


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=60),
    st.sampled_from([1, 30, 100]),
    st.booleans(),
)
def test_classes_are_runs_of_released_sizes(some: list[int], times: int, ties: bool) -> None:
    released = np.repeat(np.array(some, float), times)
    if not ties:
        released = released + np.arange(len(released)) / (2 * len(released))
    classes = error_classes(released)
    order = np.argsort(released, kind="stable")
    assert (np.diff(classes[order]) >= 0).all()
    sizes = np.bincount(classes)
    assert sizes.min() >= min(256, len(released))
    assert all(len(set(classes[released == value])) == 1 for value in np.unique(released))
    if len(released) < 768:
        assert len(sizes) == 1
    elif not ties:
        assert sizes[-1] == 256
    assert class_errors(np.zeros(len(released), np.int64), released).sum() == pytest.approx(
        total_error(np.zeros(len(released), np.int64), released), abs=1
    )


@pytest.mark.parametrize("cell", [0, 700, 899])
def test_one_record_changes_the_sum_of_one_class(cell: int) -> None:
    counts, released = np.zeros(900, np.int64), np.arange(900.0)
    more = counts.copy()
    more[cell] += 1
    change = class_errors(more, released) - class_errors(counts, released)
    assert len(change) == 2
    assert sorted(np.abs(change)) == [0, UNIT]


def test_the_sums_of_all_classes_cost_what_one_costs() -> None:
    """The record is in the largest cell or in the smallest: either way the whole charge, and no more."""

    @dataclass(frozen=True)
    class OnlyErrors(WithError):
        def draw(self, counts: Any, channel: Any) -> Any:
            totals, _ = measure_error(counts, np.arange(800.0), channel)
            return {"total": totals}, {}

    counts = np.zeros(800, np.int64)
    for cell in (0, 799):
        more = counts.copy()
        more[cell] += 1
        loss = replay_loss(OnlyErrors(), counts, more, Fraction(1), 3)
        assert loss == pytest.approx(1)


@pytest.mark.parametrize("seed", range(8))
def test_neighbours_cannot_be_told_apart_by_more_than_the_budget(seed: int) -> None:
    counts = generator(seed).geometric(0.05, 30) - 1
    more = counts.copy()
    more[seed] += 1
    assert replay_loss(WithError(), counts, more, Fraction(1), seed) <= 1 + 1e-9


def test_the_error_itself_costs_what_it_is_charged() -> None:
    """A record more in a cell that was released as zero moves the sum by a whole record."""

    @dataclass(frozen=True)
    class OnlyError(WithError):
        def draw(self, counts: Any, channel: Any) -> Any:
            total, _ = measure_error(counts, np.zeros(counts.shape), channel)
            return {"total": total}, {}

    @dataclass(frozen=True)
    class Peeking(OnlyError):
        def draw(self, counts: Any, channel: Any) -> Any:
            total, _ = measure_error(counts, np.zeros(counts.shape), channel)
            return {"total": total + counts.sum()}, {}

    counts = np.array([4, 0, 9])
    more = np.array([4, 1, 9])
    assert replay_loss(OnlyError(), counts, more, Fraction(1), 3) == pytest.approx(1)
    assert replay_loss(Peeking(), counts, more, Fraction(1), 3) == math.inf


def test_the_bound_on_the_mean_error_by_hand() -> None:
    # 400 records over 100 cells with scale 10: (400 + 10 ln 10) / 100 + half a part
    mean = (400 + 10 * math.log(10)) / 100 + 0.5 / UNIT
    assert bounded_risk(400 * UNIT, 100, 10.0 * UNIT, "pure") == pytest.approx(2 * mean**2)
    mean = (400 + 1.6448536 * 10) / 100 + 0.5 / UNIT
    assert bounded_risk(400 * UNIT, 100, 10.0 * UNIT, "zcdp") == pytest.approx(2 * mean**2)
    assert bounded_risk(-(10**9), 100, 10.0, "pure") == pytest.approx(2 * (0.5 / UNIT) ** 2)


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_the_bound_holds_as_often_as_it_says(definition: Any) -> None:
    """One-sided 95 % over the noise of the measurement: 400 draws, within three standard errors."""
    counts, released = np.arange(20), np.zeros(20)
    held = 0
    for seed in range(400):
        channel = SeededChannel(Fraction(1, 40), seed=seed, definition=definition)
        total, event = measure_error(counts, released, channel)
        risk = bounded_risk(int(total[0]), 20, float(event.scale), definition)
        held += math.sqrt(risk / 2) >= 9.5
    assert abs(held / 400 - 0.95) < 3 * math.sqrt(0.95 * 0.05 / 400)


def drawn(name: str, counts: Any, budget: Fraction, share: Fraction, seed: int, definition: Any) -> Finished:
    """What the release task would hand on, with a seeded channel in place of the secure one."""
    job = Job("t", "", budget, budget * share, build(name), lambda: counts)
    stored: dict[str, Any] = {}
    part = draw_job(job, SeededChannel(budget, seed=seed, definition=definition), stored)
    return finish_part(part, stored)


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
@pytest.mark.parametrize("name", ["efpa", "p_hpartition", "sreb_gca"])
def test_margins_hold_on_average_and_are_not_too_wide(name: str, definition: Any) -> None:
    """Smooth, jumpy and mostly empty tables of 1024 cells: 85 % or more, at most 1.5 normal widths."""
    source = generator(11)
    smooth = np.rint(300 + 250 * np.sin(np.arange(1024) / 60)).astype(np.int64)
    jumpy = np.repeat(source.integers(0, 400, 16), 64)
    empty = np.where(np.arange(1024) % 37 == 0, source.geometric(0.02, 1024), 0)
    for counts in (smooth, jumpy, empty):
        held, widths, squares = [], [], []
        for seed in range(6):
            part = drawn(name, counts, Fraction(1, 4), Fraction(1, 20), seed, definition)
            error = level_error(part)
            assert error.method == "measured"
            width = margins(error.variance if error.per_cell is None else error.per_cell, 0.9)
            off = np.abs(part.release.values - counts)
            held.append(np.mean(off <= np.ceil(width)))
            widths.append(width.mean())
            squares.append(np.mean(off**2))
        assert np.mean(held) >= 0.85
        assert np.mean(widths) <= 1.5 * 1.645 * math.sqrt(np.mean(squares))


def test_a_part_remembers_its_error() -> None:
    part = drawn("sreb_gca", np.arange(40), Fraction(1), Fraction(1, 10), 5, "pure")
    assert isinstance(part.error, MeasuredError)
    assert part.error.event.loss == Fraction(1, 10)
    assert [event.loss for event in part.transcript][-1] == Fraction(1, 10)
    assert sum((event.loss for event in part.transcript), Fraction(0)) == 1
    none = drawn("identity", np.arange(40), Fraction(1), Fraction(0), 5, "pure")
    assert none.error is None
    assert level_error(none).method == "exact"
