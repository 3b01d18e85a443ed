"""Uniform: a noisy total, and nothing else."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.histograms.noisy_sums import addable, variance_for
from tabularium.mechanisms.limits import LARGEST_COUNT, LARGEST_VALUE
from tabularium.mechanisms.noise_distributions import variance_of


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
@pytest.mark.parametrize("shape", [(1,), (5,), (2, 3), ()])
def test_every_cell_gets_the_same_part_of_the_noisy_total(shape, definition):
    counts = np.full(shape, 7)
    release = build("uniform").release(counts, SeededChannel(1, seed=3, definition=definition))
    same = np.array(SeededChannel(1, seed=3, definition=definition).laplace([0], 1, purpose="total"))
    if definition == "zcdp":
        same = SeededChannel(1, seed=3, definition=definition).gaussian([0], 1, purpose="total")
    assert release.values.shape == shape
    assert release.values == pytest.approx((counts.sum() + same[0]) / counts.size)
    assert release.variances is None


def test_the_variance_of_a_query_is_that_of_its_share_of_the_total():
    uniform, weights = build("uniform"), np.array([1.0, 1.0, 0.0, 0.0])
    assert uniform.query_variance(weights, Fraction(1, 2)) == pytest.approx(
        variance_for(Fraction(1, 2), "pure") / 4
    )
    counts = np.array([9, 1, 5, 5])
    drawn = [
        weights @ build("uniform").release(counts, SeededChannel(Fraction(1, 2), seed=seed)).values
        for seed in range(600)
    ]
    # 600 draws of a Laplace variance: a relative standard error of √(5/600) = 9 %
    assert np.var(drawn) == pytest.approx(variance_for(Fraction(1, 2), "pure") / 4, rel=0.5)


def test_sums_of_the_largest_counts_of_any_table_stay_within_the_channel():
    few = np.full(8, LARGEST_COUNT)
    assert addable(few) is few
    many = np.broadcast_to(np.int64(LARGEST_COUNT), (1 << 22,))
    assert int(addable(many).sum()) == LARGEST_VALUE


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
@pytest.mark.parametrize("touched", [1, 3, 4])
def test_the_stated_variance_is_that_of_the_event(definition, touched):
    channel = SeededChannel(2, seed=1, definition=definition)
    channel.add_noise(np.arange(3), Fraction(1, 3), touched=touched, purpose="sums")
    (event,) = channel.transcript
    assert event.loss == Fraction(1, 3)
    assert float(event.sensitivity) >= touched ** (1 if definition == "pure" else 0.5) * (1 - 1e-15)
    assert variance_of(event) == pytest.approx(
        variance_for(Fraction(1, 3), definition, touched=touched), rel=1e-12
    )
