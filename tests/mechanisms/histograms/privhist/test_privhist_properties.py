"""Symmetric properties: by hand, on distributions whose properties are known, and from private releases."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations, product
from math import exp, inf, log, prod
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms import histogram_properties as properties
from tabularium.mechanisms.histograms.histogram_properties import (
    Estimated,
    distance_to_uniformity,
    entropy,
    renyi_entropy,
    support_coverage,
    support_size,
)
from tabularium.mechanisms.histograms.privhist import AnonymizedRelease, prevalences
from tabularium.mechanisms.noise.synthetic import generator

METHODS = ("plug_in", "miller_madow", "chao_shen")
UNIFORM = 1000  # symbols
RATE = 0.02  # of the geometric distribution p_i = RATE·(1 - RATE)^i
GEOMETRIC_ENTROPY = -(log(RATE) + (1 - RATE) / RATE * log(1 - RATE))
GEOMETRIC_RENYI = -log(RATE / (2 - RATE))


def uniform(records: int, seed: int) -> np.ndarray:
    return prevalences(generator(seed).multinomial(records, np.full(UNIFORM, 1 / UNIFORM)))


def geometric(records: int, seed: int) -> np.ndarray:
    return prevalences(np.bincount(generator(seed).geometric(RATE, records)))


def mean(estimate: Callable[[np.ndarray], Estimated], draw: Callable[[int, int], Any], records: int) -> float:
    return float(np.mean([estimate(draw(records, seed)).value for seed in range(20)]))


# --- by hand ----------------------------------------------------------------------------------------


def test_entropy_by_hand() -> None:
    """Shares 1/2, 1/4, 1/4: 1.5·ln 2; three symbols in eight records: + 2/16."""
    runs = [[4, 1], [2, 2]]
    assert entropy(runs, method="plug_in").value == pytest.approx(1.5 * log(2))
    assert entropy(runs).value == pytest.approx(1.5 * log(2) + 1 / 8)
    # Chao-Shen without singletons: full coverage, each share over its chance to be seen.
    shares = [1 / 2, 1 / 4, 1 / 4]
    expected = -sum(p * log(p) / (1 - (1 - p) ** 8) for p in shares)
    assert entropy(runs, method="chao_shen").value == pytest.approx(expected)


def test_rarefaction_is_the_mean_over_all_subsets() -> None:
    symbols = [0, 0, 0, 1, 1, 2]
    for size in range(1, 7):
        subsets = list(combinations(range(6), size))
        seen = np.mean([len({symbols[i] for i in each}) for each in subsets])
        assert support_coverage([[3, 1], [2, 1], [1, 1]], size).value == pytest.approx(seen)


def test_power_sums_are_unbiased() -> None:
    """Over all samples of three records from (1/2, 1/3, 1/6): E Σ (r)_2/(n)_2 = Σ p²."""
    chances = (1 / 2, 1 / 3, 1 / 6)
    power = 0.0
    for sample in product(range(3), repeat=3):
        runs = prevalences(np.bincount(sample))
        found = renyi_entropy(runs, 2).value
        power += prod(chances[i] for i in sample) * (0 if found == inf else exp(-found))
    assert power == pytest.approx(sum(p**2 for p in chances))


def test_chebyshev_weights_by_hand() -> None:
    """Degree 1: -T_1(ψ(x))/T_1(ψ(0)) is a line through -1 at 0 and 0 in the middle of [l, r]."""
    support, records = 30.0, 20.0
    low, high = 1 / support, 0.5 * log(support) / records
    middle = (low + high) / 2
    found = properties._chebyshev_weights(support, records)
    assert found.tolist() == pytest.approx([-1, 1 / (middle * records)])


def test_distance_by_hand() -> None:
    """3/6, 2/6, 1/6 against 1/5 each, two of them unseen: 0.3 + 2/15 + 1/30 + 2/5."""
    found = distance_to_uniformity([[3, 1], [2, 1], [1, 1]], 5)
    assert found.value == pytest.approx(0.3 + 2 / 15 + 1 / 30 + 2 / 5)
    assert distance_to_uniformity([[7, 4]], 4).value == pytest.approx(0)


# --- known distributions ----------------------------------------------------------------------------


def test_entropy_of_the_uniform_distribution() -> None:
    truth = log(UNIFORM)
    bias = {m: mean(partial(entropy, method=m), uniform, 3000) - truth for m in METHODS}
    assert bias["plug_in"] == pytest.approx(-999 / 6000, abs=0.04)
    assert abs(bias["miller_madow"]) < 0.03
    assert 0 < bias["chao_shen"] < 0.12  # where hardly a symbol is missing it is too high


def test_entropy_of_the_geometric_distribution() -> None:
    for method in ("miller_madow", "chao_shen"):
        found = mean(partial(entropy, method=method), geometric, 5000)
        assert found == pytest.approx(GEOMETRIC_ENTROPY, abs=0.02)


def test_entropy_of_a_sample_that_misses_most() -> None:
    """One record for two symbols: what Chao and Shen's estimator is for."""
    found = [mean(partial(entropy, method=m), uniform, 500) for m in METHODS]
    errors = [abs(value - log(UNIFORM)) for value in found]
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.15


def test_support_of_the_uniform_distribution() -> None:
    for records in (1000, 2000):
        assert mean(support_size, uniform, records) == pytest.approx(UNIFORM, rel=0.05)
    known = mean(lambda runs: support_size(runs, least_probability=1 / UNIFORM), uniform, 1000)
    seen = mean(lambda runs: Estimated(float(runs[:, 1].sum()), "", ""), uniform, 1000)
    assert abs(known - UNIFORM) < abs(seen - UNIFORM) / 3
    enough = support_size(uniform(20_000, 1), least_probability=1 / UNIFORM)
    assert enough.value == pytest.approx(UNIFORM, abs=1)


@pytest.mark.parametrize(("ahead", "near"), [(0.3, 0.01), (1.0, 0.02), (2.0, 0.02), (4.0, 0.05)])
def test_coverage_of_the_uniform_distribution(ahead: float, near: float) -> None:
    samples = round(1000 * ahead)
    truth = UNIFORM * (1 - (1 - 1 / UNIFORM) ** samples)
    found = mean(lambda runs: support_coverage(runs, samples), uniform, 1000)
    assert found == pytest.approx(truth, rel=near)


def test_coverage_of_the_geometric_distribution() -> None:
    p = RATE * (1 - RATE) ** np.arange(3000)
    for samples in (100, 1000, 3000, 8000):
        truth = float(-np.expm1(samples * np.log1p(-p)).sum())
        found = mean(partial(support_coverage, samples=samples), geometric, 1000)
        assert found == pytest.approx(truth, rel=0.04)


def test_renyi_entropies() -> None:
    assert mean(lambda r: renyi_entropy(r, 2), uniform, 2000) == pytest.approx(log(UNIFORM), abs=0.03)
    assert mean(lambda r: renyi_entropy(r, 2), geometric, 2000) == pytest.approx(GEOMETRIC_RENYI, abs=0.01)
    third = -log(RATE**3 / (1 - (1 - RATE) ** 3)) / 2
    assert mean(lambda r: renyi_entropy(r, 3), geometric, 2000) == pytest.approx(third, abs=0.02)
    half = 2 * log(RATE**0.5 / (1 - (1 - RATE) ** 0.5))
    assert mean(lambda r: renyi_entropy(r, 0.5), geometric, 50_000) == pytest.approx(half, abs=0.1)


def test_distance_to_uniformity() -> None:
    assert 0 < mean(lambda r: distance_to_uniformity(r, UNIFORM), uniform, 100_000) < (UNIFORM / 1e5) ** 0.5
    p = np.append(RATE * (1 - RATE) ** np.arange(299), (1 - RATE) ** 299)
    truth = float(np.abs(p - 1 / 300).sum())

    def folded(records: int, seed: int) -> np.ndarray:
        return prevalences(np.bincount(np.minimum(generator(seed).geometric(RATE, records), 300)))

    found = mean(lambda r: distance_to_uniformity(r, 300), folded, 20_000)
    assert found == pytest.approx(truth, abs=(300 / 20_000) ** 0.5)


# --- from a private release -------------------------------------------------------------------------


@pytest.mark.parametrize("budget", ["1/2", "2"])
def test_they_hold_for_releases(budget: str) -> None:
    """20 000 records of the geometric distribution: noise adds little to what the sample errs."""
    counts = np.bincount(generator(5).geometric(RATE, 20_000))
    for seed in range(3):
        release = build("privhist").release(counts, SeededChannel(budget, seed=seed))
        assert isinstance(release, AnonymizedRelease)
        assert entropy(release.values).value == pytest.approx(GEOMETRIC_ENTROPY, abs=0.05)
        assert renyi_entropy(release.values, 2).value == pytest.approx(GEOMETRIC_RENYI, abs=0.05)
        assert release.total == pytest.approx(20_000, abs=500)  # noise of scale 20: 25 of them
        again = entropy(release.values, total=release.total, method="plug_in").value
        assert again == pytest.approx(entropy(release.values, method="plug_in").value, abs=0.1)
    counts = generator(6).multinomial(20_000, np.full(UNIFORM, 1 / UNIFORM))
    release = build("privhist").release(counts, SeededChannel(budget, seed=1))
    assert support_size(release.values).value == pytest.approx(UNIFORM, rel=0.05)
    assert distance_to_uniformity(release.values, UNIFORM).value < 2 * (UNIFORM / 20_000) ** 0.5


# --- what they refuse -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ask", "where"),
    [
        (lambda: entropy(np.zeros((0, 2), dtype=int)), "properties"),
        (lambda: entropy([[1, 2]], method="best"), "method"),
        (lambda: entropy([[1, 2]], total=0), "total"),
        (lambda: entropy([1, 2]), "run lengths"),
        (lambda: support_size([[1, 2]], least_probability=0), "least_probability"),
        (lambda: support_coverage([[1, 2]], 0), "samples"),
        (lambda: renyi_entropy([[1, 2]], 1), "order"),
        (lambda: renyi_entropy([[1, 2]], -2), "order"),
        (lambda: renyi_entropy([[1, 2]], inf), "order"),
        (lambda: distance_to_uniformity([[1, 2]], 0), "symbols"),
    ],
)
def test_what_they_refuse(ask: Callable[[], Any], where: str) -> None:
    with pytest.raises(MechanismError) as raised:
        ask()
    assert raised.value.where == where


def test_edges() -> None:
    assert renyi_entropy([[1, 4]], 2).value == inf
    assert entropy([[9, 1]]).value == 0
    assert np.isfinite(entropy([[1, 6]], method="chao_shen").value)
    assert support_size([[3, 2]]).value == 2
    assert support_coverage([[1, 5]], 10**6).value <= 10**6
    assert support_size([[1, 5]], least_probability=1).value >= 1


def test_each_names_its_source() -> None:
    runs = [[2, 3], [1, 4]]
    found = [
        *(entropy(runs, method=method) for method in METHODS),
        support_size(runs),
        support_size(runs, least_probability=0.01),
        *(support_coverage(runs, samples) for samples in (5, 15, 40)),
        renyi_entropy(runs, 2),
        renyi_entropy(runs, 0.5),
        distance_to_uniformity(runs, 9),
    ]
    assert len({each.estimator for each in found}) == 9  # three are plain shares
    assert all(each.source for each in found)
