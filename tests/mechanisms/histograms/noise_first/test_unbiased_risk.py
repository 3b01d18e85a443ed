"""Noise laws and their parts, and the estimate of the squared error that is built on them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tabularium.mechanisms.histograms.noise_first import SHARE, estimate_risk, improve
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import Noise

LAWS = [
    Noise(law, scale, whole)  # type: ignore[arg-type]
    for law in ("laplace", "gaussian")
    for scale in (0.3, 1.0, 7.9, 8.0, 40.0)
    for whole in (True, False)
]


@pytest.mark.parametrize("noise", LAWS, ids=str)
def test_moments_are_those_of_the_law(noise: Noise) -> None:
    """Against the defining sums and, by the midpoint rule, integrals."""
    step = 1.0 if noise.whole else noise.scale / 512
    z = (np.arange(-200_000, 200_001) + (0 if noise.whole else 0.5)) * step
    z = z[np.abs(z) < 60 * noise.scale + 2]
    weights = np.exp(
        -np.abs(z) / noise.scale if noise.family == "laplace" else -(z**2) / (2 * noise.scale**2)
    )
    weights /= weights.sum()
    assert noise.variance == pytest.approx(float((weights * z**2).sum()), rel=2e-5)
    assert noise.deviation == pytest.approx(float((weights * np.abs(z)).sum()), rel=2e-5)


def test_noise_that_is_hardly_there() -> None:
    for law in ("laplace", "gaussian"):
        noise = Noise(law, 1e-6, whole=True)  # type: ignore[arg-type]
        assert noise.variance == noise.deviation == 0.0
        assert improve([3, 4, 4], 1e-6, noise=law).values.tolist() == [3.0, 4.0, 4.0]  # type: ignore[arg-type]


@pytest.mark.parametrize("noise", [n for n in LAWS if n.scale in {1.0, 40.0}], ids=str)
def test_parts_add_up_to_the_law(noise: Noise) -> None:
    """Sixteen parts together have the second and fourth moment of the law."""
    rng = generator(12)
    total = sum(np.asarray(noise.part(SHARE, 40_000, rng), dtype=np.float64) for _ in range(SHARE))
    assert np.var(total) == pytest.approx(noise.variance, rel=0.05)
    fourth = noise.part(1, 400_000, rng).astype(np.float64) ** 4
    assert (total**4).mean() == pytest.approx(fourth.mean(), rel=0.3 if noise.family == "laplace" else 0.1)
    if noise.whole and noise.family == "laplace":
        assert noise.part(SHARE, 10, rng).dtype == np.int64
        p = math.exp(-1 / noise.scale)
        assert (total == 0).mean() == pytest.approx((1 - p) / (1 + p), abs=0.012)


@pytest.mark.parametrize("noise", [Noise("laplace", 5.0, True), Noise("gaussian", 5.0, False)], ids=str)
@pytest.mark.parametrize("kind", ["nothing", "all to zero", "hard threshold", "merging"])
def test_it_is_unbiased(noise: Noise, kind: str) -> None:
    """Also for functions that jump: the mean of 60 estimates against the true errors at the same noise."""
    rng = generator(20)
    truth = np.repeat(rng.integers(0, 40, 30), 20)
    functions = {
        "nothing": lambda y: np.asarray(y, dtype=np.float64),
        "all to zero": lambda y: np.zeros(y.shape),
        "hard threshold": lambda y: np.where(np.abs(y) > 12, y, 0.0),
        "merging": lambda y: improve(y, noise.scale, noise=noise.family).values,
    }
    smooth = functions[kind]
    found, true = [], []
    for seed in range(60):
        noisy = truth + noise.part(1, truth.size, rng)
        found.append(estimate_risk(noisy, noise, smooth, runs=2, seed=seed).mean_squared_error)
        more = noisy + noise.part(SHARE, truth.size, rng)
        true.append(((smooth(more) - truth) ** 2).mean())
    difference = np.array(found) - np.array(true)
    assert abs(difference.mean()) < 4 * difference.std(ddof=1) / math.sqrt(60)
    assert difference.std(ddof=1) / math.sqrt(60) < 0.1 * noise.variance


def test_the_error_of_a_table_left_alone_is_the_noise() -> None:
    noise = Noise("laplace", 5.0, whole=True)
    table = np.zeros((40, 50), dtype=np.int64)
    risk = estimate_risk(table, noise, lambda y: y.astype(np.float64), runs=200)
    # Y + W against the truth, at the noise of both
    assert risk.mean_squared_error == pytest.approx(noise.variance * (1 + 1 / SHARE), rel=0.05)
    assert abs(risk.mean_squared_error - noise.variance * (1 + 1 / SHARE)) < 4 * risk.standard_error


def test_the_standard_error_covers_what_varies() -> None:
    """Everything set to zero: no simulation error, but Σz² varies; the stated error is that of the mean."""
    noise = Noise("laplace", 5.0, whole=True)
    rng = generator(9)
    runs = [
        estimate_risk(noise.part(1, 2000, rng), noise, lambda y: np.zeros(y.shape), runs=2)
        for _ in range(200)
    ]
    spread = np.std([run.mean_squared_error for run in runs], ddof=1)
    assert np.mean([run.standard_error for run in runs]) == pytest.approx(spread, rel=0.25)


def test_simulations_are_the_same_every_time() -> None:
    first, second = (improve(np.arange(50) % 7, 3, risk_runs=3) for _ in range(2))
    assert first.risk == second.risk
    assert first.diagnostics["risk_runs"] == 3
    assert {"risk", "risk_standard_error"} <= first.diagnostics.keys()
