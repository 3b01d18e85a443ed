"""The error that denoising states of itself: the identity it rests on, exactly, and the estimates by simulation."""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms.histograms.denoise.boxes import Layout
from tabularium.mechanisms.histograms.denoise.forms import noise_quantile
from tabularium.mechanisms.histograms.denoise.risk import (
    draw_steps,
    gaussian_weights,
    ramp_covariance,
    threshold_covariance,
)
from tabularium.mechanisms.histograms.denoise.tables import DenoiseOptions, denoise_table
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import Noise, NoiseFamily

Function = Callable[[np.ndarray], np.ndarray]
LAPLACE = [Noise("laplace", scale, whole=True) for scale in (0.4, 1.0, 3.0)]
GAUSSIAN = [Noise("gaussian", scale, whole=True) for scale in (0.7, 1.0, 1.9, 2.0, 5.0, 9.7)]


def law(noise: Noise) -> tuple[np.ndarray, np.ndarray]:
    """Values and their probabilities, as far as they matter."""
    reach = math.ceil(45 * noise.scale if noise.family == "laplace" else 9 * noise.scale)
    z = np.arange(-reach, reach + 1)
    p = np.exp(-np.abs(z) / noise.scale if noise.family == "laplace" else -(z**2) / (2 * noise.scale**2))
    return z, p / p.sum()


def jump(y: np.ndarray) -> np.ndarray:
    return np.where(y > 3, y, 0.0)


def stairs(y: np.ndarray) -> np.ndarray:
    return np.floor(y / 4.0) ** 2


def wild(y: np.ndarray) -> np.ndarray:
    """Something drawn for each value: the identity holds for any function."""
    return generator(9).normal(size=4001)[np.asarray(y, dtype=int) + 2000]


# --- the identity -----------------------------------------------------------------------------------


@pytest.mark.parametrize("function", [jump, stairs, wild])
@pytest.mark.parametrize("noise", LAPLACE, ids=str)
def test_the_identity_is_exact_for_laplace_noise(noise: Noise, function: Function) -> None:
    """E[Z·f(x + Z)] = Σ p^m E[f(x + Z + m) - f(x + Z - m)], summed over all values."""
    z, chances = law(noise)
    for x in (-2, 0, 3, 5):
        wanted = (chances * z * function(x + z)).sum()
        found = sum(
            math.exp(-m / noise.scale) * (chances * (function(x + z + m) - function(x + z - m))).sum()
            for m in range(1, math.ceil(40 * noise.scale))
        )
        assert found == pytest.approx(wanted, abs=1e-7)


def test_the_identity_is_exact_when_a_structure_is_chosen_on_the_noisy_table() -> None:
    """Two cells, merged if they are within 3 of each other: every pair of values is summed over."""
    z, chances = law(Noise("laplace", 1.0, whole=True))
    one, other = 2 + z[:, None], 4 + z[None, :]

    def first(y: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.where(np.abs(y - w) <= 3, (y + w) / 2, y)

    both = chances[:, None] * chances
    wanted = (both * z[:, None] * first(one, other)).sum()
    found = sum(
        math.exp(-m) * (both * (first(one + m, other) - first(one - m, other))).sum() for m in range(1, 45)
    )
    assert found == pytest.approx(wanted, abs=1e-9)
    smooth = (
        2 * math.exp(-1) / math.expm1(-1) ** 2 * (both * np.where(np.abs(one - other) <= 3, 0.5, 1)).sum()
    )
    assert abs(smooth - wanted) > 0.1, "Stein's formula, which misses the jumps, would do as well"


@pytest.mark.parametrize("noise", LAPLACE + GAUSSIAN, ids=str)
def test_drawn_steps_sum_the_identity_up(noise: Noise) -> None:
    z, chances = law(noise)
    for function, x in ((jump, 1), (jump, 5), (stairs, 0)):
        wanted = (chances * z * function(x + z)).sum()
        steps, weights = draw_steps(noise, 20_000, generator(3))
        assert steps.min() >= 1
        assert (steps == np.floor(steps)).all()
        means = {
            m: (chances * (function(x + z + m) - function(x + z - m))).sum() for m in set(steps.tolist())
        }
        found = np.array([means[m] for m in steps.tolist()]) * weights
        assert found.mean() == pytest.approx(
            wanted, abs=0.025 * noise.variance * max(1.0, abs(function(np.array([x + 3])).item()) / 3)
        )


@pytest.mark.parametrize("noise", GAUSSIAN, ids=str)
def test_gaussian_weights_do_what_they_say(noise: Noise) -> None:
    """φ(θ)·2·Σ w(m)·sin(mθ) against -φ'(θ), both from the law itself."""
    z, chances = law(noise)
    steps, weights = gaussian_weights(noise.scale)
    angles = np.linspace(0, math.pi, 500)
    phi = np.cos(np.outer(angles, z)) @ chances
    wanted = np.sin(np.outer(angles, z)) @ (chances * z)
    found = phi * 2 * (np.sin(np.outer(angles, steps)) @ weights)
    assert np.abs(found - wanted).max() < 0.022 * wanted.max()
    # Small enough to be of use: in a simulation, a straight line has at most these deviations.
    assert (np.abs(weights) * 2 * steps).sum() < 7 * noise.variance


@pytest.mark.parametrize("noise", LAPLACE + GAUSSIAN, ids=str)
def test_what_is_cut_off_at_zero(noise: Noise) -> None:
    z, chances = law(noise)
    for height in (-4.0, -0.5, 0.0, 0.3, 2.0, 7.5):
        wanted = (chances * z * np.maximum(height + z, 0)).sum()
        found = (chances * ramp_covariance(height + z, noise)).sum()
        exact = noise.family == "laplace"
        assert found == pytest.approx(wanted, abs=1e-9 if exact else 0.02 * noise.variance)


@pytest.mark.parametrize("noise", LAPLACE + GAUSSIAN, ids=str)
@pytest.mark.parametrize("cells", [1, 2, 4])
def test_coefficients_after_a_threshold(noise: Noise, cells: int) -> None:
    """A coefficient of several cells: the law of the sum of the others by convolution."""
    z, chances = law(noise)
    rest = np.ones(1)
    for _ in range(cells - 1):
        rest = np.convolve(rest, chances)
    total = np.arange(rest.size) - rest.size // 2
    for x in (0, 3, -11):
        for threshold in (0.0, 2.0, 2.25, 6.0):
            d = (x + z[:, None] + total) / cells
            both = chances[:, None] * rest
            kept = np.where(np.abs(d) > threshold, d, 0.0)
            wanted = (both * z[:, None] * kept).sum()
            found = (both * threshold_covariance(noise)(d, threshold, cells)).sum()
            exact = noise.family == "laplace" or threshold == 0.0
            size = noise.variance / cells * max(1.0, threshold / math.sqrt(noise.variance / cells))
            assert found == pytest.approx(wanted, abs=1e-8 if exact else 0.025 * size)


def test_large_numbers_do_not_cancel() -> None:
    for noise in LAPLACE:
        assert ramp_covariance(np.array([2.0**40]), noise) == pytest.approx(noise.variance, rel=1e-9)
        found = threshold_covariance(noise)(np.array([2.0**40]), 5.0, 1 << 10)
        assert found == pytest.approx(noise.variance / 1024, rel=1e-9)


# --- thresholds -------------------------------------------------------------------------------------


@pytest.mark.parametrize("tail", [0.1, 1e-3, 1e-6])
def test_thresholds_are_quantiles_of_the_noise(tail: float) -> None:
    """One Laplace variable; a sum of two, whose density is (1 + |x|)·exp(-|x|)/4; and the normal law."""
    one = noise_quantile("laplace", 1, tail) * math.sqrt(2)
    assert math.exp(-one) / 2 == pytest.approx(tail, rel=1e-3)
    two = noise_quantile("laplace", 2, tail) * 2
    assert math.exp(-two) * (2 + two) / 4 == pytest.approx(tail, rel=1e-3)
    normal = -NormalDist().inv_cdf(tail)
    assert noise_quantile("gaussian", 1, tail) == pytest.approx(normal)
    assert noise_quantile("laplace", 1 << 12, tail) == pytest.approx(normal)
    assert one / math.sqrt(2) > noise_quantile("laplace", 8, tail) > normal or tail == 0.1


@pytest.mark.parametrize("cells", [4, 16, 64])
def test_thresholds_are_quantiles_of_simulated_noise(cells: int) -> None:
    rng = generator(11)
    signs = rng.choice([-1, 1], (cells, 1))
    means = np.sort((signs * rng.laplace(size=(cells, 200_000))).mean(axis=0)) / math.sqrt(2 / cells)
    for tail in (0.05, 0.005):
        beyond = (means > noise_quantile("laplace", cells, tail)).mean()
        assert beyond == pytest.approx(tail, abs=4 * math.sqrt(tail / 200_000) + 0.01 * tail)


# --- the stated error -------------------------------------------------------------------------------


def terraces() -> np.ndarray:
    table = np.zeros((14, 19), dtype=np.int64)
    table[:7, 5:] = 40
    table[4:, 12:] += 15
    table[11, 3] = 400
    return table


def stated(noise: Noise, truth: np.ndarray, options: DenoiseOptions, runs: int) -> np.ndarray:
    """Columns: true mean squared error, stated one, its standard error."""
    rng = generator(21)
    found = []
    for _ in range(runs):
        noisy = truth + np.rint(noise.part(1, truth.size, rng)).astype(np.int64).reshape(truth.shape)
        done = denoise_table(noisy, noise, Layout.of(truth.shape, ()), options)
        error = ((done.values - truth) ** 2).mean()
        found.append((error, done.diagnostics["risk"], done.diagnostics["risk_standard_error"]))
    return np.array(found) / noise.variance


RUNS = 20
FIXED: list[DenoiseOptions] = [
    DenoiseOptions("mixture", 0.8, 2, "total"),
    DenoiseOptions("mixture", 0.8, 2, "free"),
    DenoiseOptions("mixture", 0.8, 2, "cut"),
    DenoiseOptions("wavelet", 0.7, None, "free"),
]


@pytest.mark.parametrize("options", FIXED, ids=lambda w: f"{w.form}-{w.sign}")
@pytest.mark.parametrize("name", ["laplace", "gaussian"])
def test_the_stated_error_is_unbiased(name: NoiseFamily, options: DenoiseOptions) -> None:
    """The differences from the true errors average out, and are about as large as is said."""
    truth = terraces()
    error, risk, spread = stated(Noise(name, 10.0, whole=True), truth, options, RUNS).T
    difference = risk - error
    assert abs(difference.mean()) < 3 * difference.std(ddof=1) / math.sqrt(RUNS) + 0.02
    most = 1.3 if options.form == "mixture" else 1.6
    assert 0.4 < difference.std(ddof=1) / spread.mean() < most
    assert error.mean() < 0.5


def test_the_upper_bound_of_the_stated_error_covers() -> None:
    """What margins are made of, with form, strength and sign left free: 95 % is meant, 108 cells are few."""
    truth, held = terraces()[4:13, 3:15], []
    for name in ("laplace", "gaussian"):
        for scale in (3.0, 30.0):
            error, risk, spread = stated(
                Noise(name, scale, whole=True), truth, DenoiseOptions(shifts=2), 16
            ).T
            held.append((error <= risk + 1.645 * spread).mean())
            assert (risk - error).mean() > -spread.mean() / 2
    assert np.mean(held) >= 0.9


def test_where_there_is_nothing_to_gain_the_table_is_left_as_it_is() -> None:
    truth = generator(5).integers(0, 1 << 30, 400)
    found: dict[str, Any] = denoise_table(
        truth, Noise("laplace", 5.0, whole=True), Layout.of(truth.shape, ()), DenoiseOptions()
    ).diagnostics
    assert found["risk"] == pytest.approx(found["noise_variance"], rel=0.2)
