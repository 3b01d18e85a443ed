"""Intervals of means and rates hold in every cell, however small."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tabularium.mechanisms.inference.margins_of_error.ratio_intervals import (
    quotient_interval,
    quotient_of,
    ratio_interval,
    ratio_of,
)
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import laplace_variance

LEVEL = 0.9
RUNS = 4000
SLACK = 4 * np.sqrt(LEVEL * (1 - LEVEL) / RUNS)  # one run in 30 000 falls below by chance


def laplace(rng: np.random.Generator, scale: float, shape: tuple[int, ...]) -> NDArray[np.float64]:
    stop = -np.expm1(-1 / scale)
    return (rng.geometric(stop, shape) - rng.geometric(stop, shape)).astype(np.float64)


@pytest.mark.parametrize("records", [1, 3, 10, 30, 100, 1000])
@pytest.mark.parametrize("mean", [0.0, 0.02, 0.3, 0.5, 1.0])
def test_a_mean_is_within_its_interval_as_often_as_stated(records: int, mean: float) -> None:
    """Steps of 100 between the bounds, noise for ε = 1: from cells that are all noise to cells with hardly any."""
    steps, rng = 100, generator(records)
    true = np.array([mean, 1 - mean]) * records * steps
    noisy = true + laplace(rng, steps, (RUNS, 2))
    low, high = ratio_interval(noisy, np.full((RUNS, 2), laplace_variance(steps)), LEVEL)
    assert ((low <= mean + 1e-12) & (mean - 1e-12 <= high)).mean() >= LEVEL - SLACK


def first_order(
    noisy: NDArray[np.float64], variance: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The interval that textbooks have: the ratio ± 1.645 of its standard deviation to first order."""
    whole = np.where(noisy.sum(axis=-1) == 0, 1.0, noisy.sum(axis=-1))
    ratio = noisy[:, 0] / whole
    deviation = np.sqrt(((1 - ratio) ** 2 + ratio**2) * variance) / np.abs(whole)
    return np.clip(ratio - 1.645 * deviation, 0, 1), np.clip(ratio + 1.645 * deviation, 0, 1)


def test_far_from_the_noise_it_is_what_an_expansion_to_first_order_gives() -> None:
    steps, mean, rng = 100, 0.3, generator(7)
    noisy = np.array([mean, 1 - mean]) * 10_000 * steps + laplace(rng, steps, (100, 2))
    ours = ratio_interval(noisy, np.full((100, 2), laplace_variance(steps)), LEVEL)
    for end, other in zip(ours, first_order(noisy, laplace_variance(steps)), strict=True):
        np.testing.assert_allclose(end, other, atol=2e-6)


def test_an_interval_is_all_that_a_test_does_not_reject() -> None:
    """By trying p one by one, for estimates of any sign and variances that differ."""
    rng = generator(3)
    parts = rng.normal(0, 30, (300, 2))
    spread = rng.uniform(1, 400, (300, 2))
    low, high = ratio_interval(parts, spread, LEVEL)
    p = np.linspace(0, 1, 2001)[:, None]
    statistic = np.abs((1 - p) * parts[:, 0] - p * parts[:, 1])
    kept = statistic <= 1.645 * np.sqrt((1 - p) ** 2 * spread[:, 0] + p**2 * spread[:, 1])
    inside = (p >= low - 1e-3) & (p <= high + 1e-3)
    assert (inside | ~kept).all()


def test_nothing_has_no_mean() -> None:
    assert np.isnan(ratio_of(np.array([0.0, 0.0])))
    assert ratio_of(np.array([3.0, 1.0])) == 0.75
    assert ratio_of(np.array([-3.0, 1.0])) == 0.0


@pytest.mark.parametrize("known", [True, False])
def test_a_quotient_of_noisy_numbers_is_held_as_often_as_stated(known: bool) -> None:
    """In cells where the whole is hardly above its noise too, and there often without an upper end."""
    rng = generator(5)
    for part, whole in ((3, 10), (40, 100), (0, 50), (500, 400)):
        one, other = part + laplace(rng, 2.0, (RUNS,)), np.full(RUNS, float(whole))
        spread = np.zeros(RUNS)
        if not known:
            other, spread = other + laplace(rng, 3.0, (RUNS,)), np.full(RUNS, laplace_variance(3.0))
        low, high = quotient_interval(one, other, np.full(RUNS, laplace_variance(2.0)), spread, LEVEL)
        true = part / whole
        assert ((low <= true + 1e-12) & (true - 1e-12 <= high)).mean() >= LEVEL - SLACK
        if known or whole > 50:
            assert np.isfinite(high).all()


def test_a_quotient_by_hand() -> None:
    """90 ± 16.4 of 100 that are known; of nothing nothing; of noise around nothing no upper end."""
    part, whole = np.array([90.0, 90.0, 90.0]), np.array([100.0, 0.0, 5.0])
    variances = np.full(3, 100.0)
    assert quotient_of(part, whole)[[0, 2]].tolist() == [0.9, 18.0]
    assert np.isnan(quotient_of(part, whole)[1])
    low, high = quotient_interval(part, whole, variances, np.array([0.0, 0.0, 100.0]), 0.9)
    assert low[0] == pytest.approx(0.9 - 0.16449, abs=1e-4) and high[0] == pytest.approx(1.06449, abs=1e-4)
    assert np.isinf(high[1:]).all()
