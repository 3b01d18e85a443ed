"""NoiseFirst and ``improve``: what is merged, at what price, with which numbers."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.noise_first import SHARE, Merging, estimate_risk, improve
from tabularium.mechanisms.noise.synthetic import generator
from tabularium.mechanisms.noise_distributions import Noise, laplace_variance

STEPS = np.repeat([40, 200, 5, 90], 250)
NOISE = Noise("laplace", 10.0, whole=True)


def noisy_steps(scale: float = 10.0, seed: int = 1) -> np.ndarray:
    return STEPS + np.rint(generator(seed).laplace(0, scale, STEPS.size)).astype(np.int64)


# --- the price of a bin -----------------------------------------------------------------------------


def test_prices_by_hand() -> None:
    """V = 2p/(1-p)² and E|z| = 2p/(1-p²) with p = exp(-1/10)."""
    p = math.exp(-0.1)
    variance, deviation = 2 * p / (1 - p) ** 2, 2 * p / (1 - p**2)
    price = {
        (centre, penalty): Merging(centre=centre, penalty=penalty).price(NOISE, 1000)
        for centre in ("mean", "median")
        for penalty in ("paper", "selection")
    }
    assert price["mean", "paper"] == pytest.approx(2 * variance)
    assert price["mean", "selection"] == pytest.approx(2 * variance * math.log(1000))
    assert price["median", "paper"] == pytest.approx(3 * deviation)
    assert price["median", "selection"] == pytest.approx(deviation * math.log(1000))


def test_selection_is_never_cheaper_than_the_paper() -> None:
    for centre in ("mean", "median"):
        for cells in (1, 2, 3, 10, 20, 21, 10**6):
            paper = Merging(centre=centre, penalty="paper").price(NOISE, cells)
            assert Merging(centre=centre).price(NOISE, cells) >= paper


def test_pure_noise_is_one_bin_at_the_price_of_selection_and_many_at_the_papers() -> None:
    table = np.rint(generator(8).laplace(0, 20, 20_000)).astype(np.int64)
    assert improve(table, 20, centre="median").starts.size == 1
    assert improve(table, 20).starts.size < 20
    assert 2000 < improve(table, 20, penalty="paper").starts.size < 4000


@pytest.mark.parametrize("centre", ["mean", "median"])
def test_steps_are_found(centre: Any) -> None:
    found = improve(noisy_steps(), 10, centre=centre)
    assert np.abs(found.starts - [0, 250, 500, 750]).max() <= 2
    assert np.abs(found.values - STEPS).mean() < 1.5


# --- values -----------------------------------------------------------------------------------------


def test_means_by_hand() -> None:
    found = improve([1, 2, 1, 5, 3, 1, 1], 1, bins=3, range_rule=False)
    assert found.starts.tolist() == [0, 3, 5]
    assert found.values.tolist() == [4 / 3] * 3 + [4.0] * 2 + [1.0] * 2


def test_medians_by_hand() -> None:
    """Three cells: the middle one. Two cells: half-way between them."""
    found = improve([1, 9, 2, 50, 53], 100, centre="median", bins=2, range_rule=False)
    assert found.values.tolist() == [2.0] * 3 + [51.5] * 2


def test_half_way_medians_are_unbiased() -> None:
    """Bins of two cells of pure noise: the lower median would lie 75 too low on average."""
    pairs = np.rint(generator(6).laplace(0, 100, (1000, 2))).astype(np.int64)
    values = [improve(pair, 100, centre="median", bins=1, range_rule=False).values[0] for pair in pairs]
    assert abs(np.mean(values)) < 4 * 100 / math.sqrt(1000)


def test_the_range_rule_by_hand() -> None:
    """Two cells, 0 and 2d, in one bin: squared error 2d² against 2V; absolute error 2d against 5E|z|."""
    variance, deviation = NOISE.variance, NOISE.deviation
    for centre, edge in (("mean", math.sqrt(variance)), ("median", 2.5 * deviation)):
        for far in (math.floor(edge), math.ceil(edge)):
            table = [0, 2 * far]
            found = improve(table, 10, centre=centre, bins=1)  # type: ignore[arg-type]
            merged = far < edge
            assert found.kept.tolist() == [not merged]
            assert found.values.tolist() == ([far, far] if merged else table)
            assert improve(table, 10, centre=centre, bins=1, range_rule=False).values.tolist() == [far, far]  # type: ignore[arg-type]


def test_diagnostics_by_hand() -> None:
    found = improve([5, 5, 5, 900, 5, 5, 5, 5, 100, 300], 3)
    assert found.starts.tolist() == [0, 3, 4, 8, 9]
    assert found.diagnostics == {"scale": 3.0, "bins": 5, "largest_bin": 4, "cells_as_measured": 3}
    kept = improve([0, 500, 0, 500], 3, bins=1)
    assert kept.diagnostics["cells_as_measured"] == 4


@pytest.mark.parametrize("shape", [(), (1,), (6,), (2, 3), (3, 1, 2)], ids=str)
def test_several_dimensions_are_read_row_by_row(shape: tuple[int, ...]) -> None:
    table = (np.arange(math.prod(shape)).reshape(shape) // 2) * 50
    found = improve(table, 2)
    assert found.values.shape == shape
    assert found.values.reshape(-1).tolist() == improve(table.reshape(-1), 2).values.tolist()


def test_huge_numbers_are_averaged_without_overflow() -> None:
    top = 1 << 60
    assert improve([top, top + 2, -top, -top], 1, bins=2, range_rule=False).values.tolist() == [
        float(top + 1),
        float(top + 1),
        float(-top),
        float(-top),
    ]
    assert improve([top, -top], 1, bins=1, range_rule=False).values.tolist() == [0.0, 0.0]
    unsigned = np.array([1 << 40, (1 << 40) + 2], dtype=np.uint64)
    assert improve(unsigned, 5).values.tolist() == [float((1 << 40) + 1)] * 2


def test_other_numbers() -> None:
    found = improve(noisy_steps() / 4, 2.5)
    assert found.noise == Noise("laplace", 2.5, whole=False)
    assert np.abs(found.starts - [0, 250, 500, 750]).max() <= 2
    single = np.asarray(noisy_steps() / 4, dtype=np.float32)
    assert improve(single, Fraction(5, 2)).starts.tolist() == found.starts.tolist()


def test_the_table_given_stays_as_it_is() -> None:
    for table in (noisy_steps(), noisy_steps() / 4):
        before = table.copy()
        improve(table, 10, risk_runs=2)
        assert (table == before).all()


# --- errors -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "where", "words"),
    [
        ({"noisy": []}, "table", "no cells"),
        ({"noisy": ["a"]}, "table", "must be numbers"),
        ({"noisy": [True]}, "table", "must be numbers"),
        ({"noisy": [1.0, math.nan]}, "table", "not a finite number"),
        ({"noisy": [1.0, -math.inf]}, "table", "not a finite number"),
        ({"noisy": [1, (1 << 61) + 512]}, "table", "beyond 2^61"),
        ({"noisy": [-1e30]}, "table", "beyond 2^61"),
        ({"scale": 0}, "scale", "positive number"),
        ({"scale": -1.5}, "scale", "positive number"),
        ({"scale": math.nan}, "scale", "positive number"),
        ({"scale": math.inf}, "scale", "positive number"),
        ({"scale": "10"}, "scale", "positive number"),
        ({"noise": "uniform"}, "noise", "no such noise"),
        ({"centre": "mode"}, "centre", "no such choice"),
        ({"penalty": 3}, "penalty", "no such choice"),
        ({"range_rule": 1}, "range_rule", "true or false"),
        ({"bins": 0}, "bins", "out of bounds"),
        ({"bins": 2.0}, "bins", "whole number"),
        ({"bins": True}, "bins", "whole number"),
        ({"bins": 4}, "bins", "more bins than cells"),
        ({"noisy": np.zeros(1 << 20, int), "bins": 129}, "bins", "512 MiB"),
        ({"risk_runs": 1}, "risk_runs", "one simulation"),
        ({"risk_runs": -2}, "risk_runs", "out of bounds"),
        ({"risk_runs": "4"}, "risk_runs", "whole number"),
    ],
)
def test_what_cannot_be_improved(given: dict[str, Any], where: str, words: str) -> None:
    with pytest.raises(MechanismError, match=words.replace("^", r"\^")) as caught:
        improve(**{"noisy": [1, 2, 3], "scale": 2, **given})
    assert caught.value.where == where
    assert caught.value.hint or where == "table"
    assert "\n" not in caught.value.line()


# --- the mechanism ----------------------------------------------------------------------------------


@pytest.mark.parametrize("parameters", [{}, {"centre": "median", "penalty": "paper"}, {"bins": 3}], ids=str)
@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_a_release_is_the_improved_measurement(parameters: dict[str, Any], definition: Any) -> None:
    mechanism = build("noise_first", **parameters)
    measured = mechanism.measure(STEPS, SeededChannel("1/8", seed=4, definition=definition))
    release = mechanism.finish(measured)
    noise, scale = ("laplace", 8) if definition == "pure" else ("gaussian", 2)
    raw = measured.arrays["cells"]
    assert raw.dtype == np.int64
    assert raw.std() > 50
    expected = improve(raw, scale, noise=noise, **parameters)  # type: ignore[arg-type]
    assert release.values.tolist() == expected.values.tolist()
    assert release.diagnostics == json.loads(json.dumps(expected.diagnostics))
    assert release.variances is None
    assert release.insecure
    (event,) = release.transcript
    assert (event.primitive, event.shape) == (f"discrete_{noise}", STEPS.shape)


def test_counts_of_every_size() -> None:
    """0 and 2^40 side by side, at ε from 10^-6 to 50."""
    counts = np.repeat([0, 1 << 40, 3, 1 << 40], 8)
    for budget in ("1/1000000", "1", "50"):
        for parameters in ({}, {"centre": "median"}, {"bins": 4}, {"centre": "median", "bins": 4}):
            channel = SeededChannel(budget, seed=2)
            values = build("noise_first", **parameters).release(counts, channel).values
            assert np.abs(values - counts).max() < 40 / float(Fraction(budget)) + 4


def test_the_variance_is_that_of_identity() -> None:
    assert Noise("laplace", 3.0, whole=True).variance == pytest.approx(laplace_variance(3.0))


# --- Noise laws and their parts, and the estimate of the squared error that is built on them ---------


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
