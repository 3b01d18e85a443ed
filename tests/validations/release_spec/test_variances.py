"""Variances and standard deviations: what a record adds, what is estimated, and intervals that hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from tabularium.validations.release_spec.measures.kinds import AnyMeasure
from tabularium.validations.release_spec.measures.measure import Measure, Noise, Numbers
from tests.sizes import runs

VARIANCE: dict[str, Any] = {"variance": "pay", "from": 100, "to": 300, "step": 10}
DEVIATION = {"standard_deviation": "pay", "from": 100, "to": 300, "step": 10}


def of(written: dict[str, Any]) -> Measure:
    return TypeAdapter(AnyMeasure).validate_python(written)


def added(measure: Measure, steps: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The numbers of one cell, record by record."""
    array, cells = np.zeros(3, np.int64), np.zeros(len(steps), np.int64)
    powers = [weights * steps**power for power in range(3)]
    measure.add(array, cells, powers, np.int64(measure.low), np.int64(measure.width))
    return array


def numbers(measure: Measure, parts: np.ndarray, variance: float = 0.0) -> Numbers:
    """Numbers of cells, (cells, 3)."""
    bottom, span = np.array([float(measure.bottom)]), np.array([max(measure.spans)])
    return Numbers(parts[None], bottom, span, spread=np.full((1, *parts.shape), variance))


def test_one_record_changes_the_numbers_by_exactly_t_squared() -> None:
    measure = of(VARIANCE)
    for step in range(measure.width + 1):
        one = added(measure, np.array([step]), np.ones(1, np.int64))
        assert (one >= 0).all() and one.sum() == measure.sensitivity == 400
    assert of({**VARIANCE, "weight": {"column": "w", "to": 7}}).sensitivity == 2800


def test_records_added_up_by_an_engine_give_the_same_numbers() -> None:
    measure, rng = of(VARIANCE), np.random.default_rng(1)
    steps, weights = rng.integers(0, 21, 500), rng.integers(0, 5, 500)
    together = np.zeros(3, np.int64)
    sums = [np.array([(weights * steps**power).sum()]) for power in range(3)]
    measure.add(together, np.zeros(1, np.int64), sums, np.int64(0), np.int64(20))
    assert (together == added(measure, steps, weights)).all()


def test_without_noise_they_are_those_of_the_values() -> None:
    """By hand: 100, 100, 300, 300 have the variance 100², the largest there can be; others by NumPy."""
    ends = added(of(VARIANCE), np.array([0, 0, 20, 20]), np.ones(4, np.int64))
    assert of(VARIANCE).estimate(numbers(of(VARIANCE), ends[None])).item() == 10_000
    rng = np.random.default_rng(2)
    steps, weights = rng.integers(0, 21, 300), rng.integers(1, 4, 300)
    parts = added(of(VARIANCE), steps, weights)[None]
    values = np.repeat(100 + 10 * steps, weights)
    assert of(VARIANCE).estimate(numbers(of(VARIANCE), parts)).item() == pytest.approx(values.var())
    assert of(DEVIATION).estimate(numbers(of(DEVIATION), parts)).item() == pytest.approx(values.std())


def test_noise_leaves_no_variance_below_zero_or_above_the_bounds() -> None:
    parts = np.random.default_rng(3).normal(0, 50, (1000, 3))
    found = of(VARIANCE).estimate(numbers(of(VARIANCE), parts))
    some = np.isfinite(found)
    assert some.any() and not some.all()
    assert (found[some] >= 0).all() and (found[some] <= 10_000).all()


@pytest.mark.parametrize("written", [VARIANCE, DEVIATION])
@pytest.mark.parametrize(("records", "chance"), [(20, 0.5), (400, 0.5), (400, 0.03), (5000, 0.3)])
def test_intervals_hold_as_often_as_stated(written: dict[str, Any], records: int, chance: float) -> None:
    measure, rng, level = of(written), np.random.default_rng(4), 0.9
    true = added(measure, rng.binomial(20, chance, records), np.ones(records, np.int64)).astype(float)
    exact = measure.estimate(numbers(measure, true[None])).item()
    noisy = true + rng.laplace(0, 400, (runs(500, 20_000), 3))
    drawn = numbers(measure, noisy, 2 * 400**2)
    at = measure.estimate(drawn)
    reach = measure.reach(at, drawn, level)
    held = (np.abs(at - exact) <= reach)[np.isfinite(at)].mean()
    assert held >= level - 2 * np.sqrt(level * (1 - level) / noisy.shape[0])


def test_what_is_expected_narrows_with_records_and_widens_with_noise() -> None:
    measure = of(VARIANCE)
    few, many = (measure.expected_half(records, Noise(800.0, {}), 0.9) for records in (50, 5000))
    assert many < few <= 10_000
    assert measure.expected_half(5000, Noise(80_000.0, {}), 0.9) > many


def test_a_grid_so_fine_that_its_squares_are_too_large_is_refused() -> None:
    assert of({"variance": "pay", "from": 0, "to": 3162}).sensitivity <= 10**7
    assert of({"variance": "pay", "from": 0, "to": 3163}).sensitivity > 10**7


@pytest.mark.parametrize("written", [VARIANCE, DEVIATION])
def test_a_margin_does_not_vanish_where_records_are_very_many(written: dict[str, Any]) -> None:
    """To first order: the error of the variance of N values is about that of one number over N T²."""
    measure = of({**written, "from": 0, "to": 3162, "step": 1})
    half = measure.expected_half(1e9, Noise(2 * 1e14, {}), 0.9) / max(measure.spans)
    assert 1e-10 < half < 1e-6


def test_of_groups_with_other_bounds_no_total_is_stated() -> None:
    bounds = {"by": "sex", "values": {"f": 100, "m": 500}}
    measure = of({**VARIANCE, "from": 0, "to": bounds})
    parts = np.ones((2, 3))
    roots = Numbers(parts[None], np.zeros(2), np.array(measure.spans))
    assert np.isnan(measure.total(roots))
