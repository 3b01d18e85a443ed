"""Chosen quantiles: cells beside a place, scores by brute force, order of error, and margins that hold."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabularium.mechanisms import build
from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.histograms.quantile_choices import QuantileChoices
from tabularium.mechanisms.inference.margins_of_error.quantile_margins import chosen_interval, chosen_position
from tabularium.mechanisms.kernels.outward_cells import outward_sums, reaches
from tabularium.mechanisms.noise.synthetic import generator
from tests.sizes import runs

LEVEL = 0.9
HALF = Fraction(1, 2)


@given(st.lists(st.integers(0, 9), min_size=2, max_size=20), st.data())
def test_cells_beside_a_place_hold_all_but_it_once(counts: list[int], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(counts) - 1))
    found = outward_sums(np.array([counts]), np.array([place]))[0]
    half = reaches(len(counts))
    for side, step in ((found[:half], 1), (found[half:], -1)):
        for cell, shown in enumerate(side):
            away = range(2**cell, 2 ** (cell + 1))
            assert shown == sum(counts[b] for k in away if 0 <= (b := place + step * k) < len(counts))
    assert found.sum() == sum(counts) - counts[place]


def quantile(values: Any, rank: Fraction) -> int:
    return int(np.sort(values)[-(-rank.numerator * len(values) // rank.denominator) - 1])


def released(values: Any, bins: int, rank: Fraction, times: int, definition: Definition = "pure") -> Any:
    """Many releases of one cell, with ε = 1 or ρ = 1/2 for each."""
    budget = {"pure": Fraction(1), "zcdp": HALF}[definition]
    rows = np.tile(np.bincount(values, minlength=bins), (times, 1))
    channel = SeededChannel(budget, seed=f"chosen {len(values)} {rank}", definition=definition)
    return QuantileChoices(at=str(rank)).release(rows, channel)


@pytest.mark.parametrize("rank", [Fraction(1, 10), HALF, Fraction(3, 4)])
def test_with_much_to_spend_it_is_the_quantile(rank: Fraction) -> None:
    rng = generator(9)
    values = rng.choice([0, 3, 3, 3, 17, 40], 101)
    rows = np.bincount(values, minlength=50)[None]
    found = QuantileChoices(at=str(rank)).release(rows, SeededChannel(Fraction(400), seed="much"))
    assert chosen_position(found.values) == [quantile(values, rank)]
    low, high = chosen_interval(found.values, np.full(found.values.shape, found.variances), 50, LEVEL)
    assert low <= quantile(values, rank) <= high


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
@pytest.mark.parametrize("kind", ["smooth", "heaps", "few", "one"])
@pytest.mark.parametrize("rank", [HALF, Fraction(9, 10)])
def test_margins_hold_as_often_as_stated(kind: str, rank: Fraction, definition: Definition) -> None:
    rng = generator(4)
    values = {
        "smooth": rng.normal(100, 30, 3000).astype(int).clip(0, 200),
        "heaps": rng.choice([0, 0, 0, 40, 50, 200], 800),
        "few": rng.integers(0, 201, 7),
        "one": np.array([33]),
    }[kind]
    times = runs(400, 4000)
    found = released(values, 201, rank, times, definition)
    assert isinstance(found.variances, float)
    low, high = chosen_interval(found.values, np.full(found.values.shape, found.variances), 201, LEVEL)
    at = chosen_position(found.values)
    assert ((low <= at) & (at <= high)).all()
    held = ((low <= quantile(values, rank)) & (quantile(values, rank) <= high)).mean()
    assert held >= LEVEL - 4 * np.sqrt(LEVEL * (1 - LEVEL) / times)
    if kind == "smooth" and definition == "pure":
        assert np.sqrt(np.mean((at - quantile(values, rank)) ** 2)) < 1
        assert (high - low).mean() < 120


def test_a_margin_that_takes_the_choice_for_exact_and_no_noise_would_be_noticed() -> None:
    """The interval must not merely be the whole range: one from a tenth of the noise holds too seldom."""
    values = generator(4).integers(0, 1001, 60)
    found = released(values, 1001, HALF, 400)
    rows = found.values.copy()
    rows[:, 1] *= 1000  # as if a choice could not miss
    low, high = chosen_interval(rows, np.full(rows.shape, found.variances / 100), 1001, LEVEL)
    assert ((low <= quantile(values, HALF)) & (quantile(values, HALF) <= high)).mean() < LEVEL - 0.05


def test_what_was_not_measured_has_none() -> None:
    assert np.isnan(chosen_position(np.zeros((2, 6)))).all()


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"at": "1"}, "at"),
        ({"at": "1/1001"}, "at"),
        ({"heaviest": 0}, "heaviest"),
        ({"margin_share": "1"}, "margin_share"),
    ],
)
def test_parameters_that_cannot_be_are_refused(given: dict[str, Any], where: str) -> None:
    with pytest.raises(MechanismError, match=where):
        build("quantile_choices", **given)
