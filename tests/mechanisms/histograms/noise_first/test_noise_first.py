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
from tabularium.mechanisms.histograms.noise_first import Merging, improve
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
