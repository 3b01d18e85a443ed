"""One mechanism per region: each region as if it were alone, whatever the others hold."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.mechanisms import MECHANISMS, build, restore
from tabularium.mechanisms.accounting import spent
from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.histograms.per_region import PerRegion, split_ragged, stack_ragged, summary
from tabularium.mechanisms.measured import Measured
from tabularium.mechanisms.noise.synthetic import generator
from tests.audit.cases import CASES

HALF = Fraction(1, 2)
NEEDED: dict[str, dict[str, Any]] = {"fpa": {"k": 2}, "structure_first": {"largest_count": 50}}
NAMES = [
    name
    for name in MECHANISMS
    if getattr(MECHANISMS[name], "attributed", True) and MECHANISMS[name].name == name
]
COUNTS = generator(5).poisson(6, (3, 4, 5)).astype(np.int64)
COUNTS[:, 2] = 0


def measured_by(
    name: str, *, axis: int = 1, counts: Any = COUNTS, definition: Definition = "pure"
) -> tuple[PerRegion, Measured]:
    mechanism = PerRegion(name, NEEDED.get(name, {}), axis)
    return mechanism, mechanism.measure(counts, SeededChannel(HALF, seed=1, definition=definition))


OFTEN = ("identity", "denoise", "dawa", "structure_first", "kd_tree", "boost")
RARE = [pytest.param(name, marks=pytest.mark.audit) for name in NAMES if name not in OFTEN]


@pytest.mark.parametrize("name", [*OFTEN, *RARE])
def test_every_region_is_released_as_if_it_had_been_measured_alone(name: str) -> None:
    definition = MECHANISMS[name].definitions[0]
    mechanism, measured = measured_by(name, definition=definition)
    stored = Measured.from_document(json.loads(json.dumps(measured.document())), measured.arrays)
    release = restore(stored).finish(stored)
    assert release.values.shape == COUNTS.shape
    assert 0 < spent(measured.transcript) <= HALF
    assert sum(event.alike for event in measured.transcript) in (1, *range(4, 400))
    for region, part in enumerate(mechanism._parts(stored, mechanism.each)):
        assert part.arrays.keys() and spent(part.transcript) <= HALF
        alone = build(name, **NEEDED.get(name, {})).finish(part)
        np.testing.assert_allclose(release.values[:, region], alone.values, atol=1e-9)
        if alone.variances is not None:
            spread = np.broadcast_to(np.asarray(release.variances), COUNTS.shape)
            assert np.array_equal(spread[:, region], np.broadcast_to(alone.variances, (3, 5)))


@pytest.mark.parametrize("name", ["dawa", "noise_first"])
def test_the_first_region_is_drawn_as_if_it_were_the_only_one(name: str) -> None:
    alone = build(name).measure(COUNTS[0], SeededChannel(HALF, seed=1))
    mechanism, measured = measured_by(name, axis=0)
    first = mechanism._parts(measured, mechanism.each)[0]
    same = {k: np.array_equal(first.arrays[k], array) for k, array in alone.arrays.items()}
    assert all(same.values()) and first.meta == alone.meta
    assert [event.loss for event in first.transcript] == [event.loss for event in alone.transcript]
    assert [event.shape for event in first.transcript] == [event.shape for event in alone.transcript]


@pytest.mark.parametrize("name", ["denoise", "noise_first"])
def test_noise_on_cells_is_one_draw_for_all(name: str) -> None:
    _, measured = measured_by(name)
    plain = build("identity").measure(COUNTS, SeededChannel(HALF, seed=1))
    assert measured.transcript == plain.transcript
    assert np.array_equal(measured.arrays["cells"], plain.arrays["cells"])


def test_empty_regions_are_measured_like_others() -> None:
    _, none = measured_by("ahp", counts=np.zeros((4, 5), np.int64), axis=0)
    assert sum(event.alike for event in none.transcript if event.purpose.endswith("order")) == 4
    assert none.arrays["stands"].size == 4


@settings(max_examples=5)
@given(others=st.lists(st.integers(0, 10**6), min_size=4, max_size=4), seed=st.integers(0, 99))
def test_what_is_made_of_a_region_depends_on_its_own_measurements(others: list[int], seed: int) -> None:
    counts = generator(seed).poisson(6, (5, 8))
    mechanism = PerRegion("denoise", {}, 0)
    measured = mechanism.measure(counts, SeededChannel(HALF, seed=seed))
    changed = dict(measured.arrays) | {"cells": measured.arrays["cells"].copy()}
    changed["cells"][1:] += np.array(others)[:, None]
    again = Measured(**{name: getattr(measured, name) for name in FIELDS} | {"arrays": changed})
    assert np.array_equal(mechanism.finish(again).values[0], mechanism.finish(measured).values[0])


FIELDS = ("mechanism", "parameters", "arrays", "meta", "transcript", "definition", "insecure")


def test_arrays_of_any_shapes_come_back() -> None:
    parts: list[dict[str, Any]] = [
        {"a": np.arange(3), "b": np.ones((2, 1)), "c": np.array(4)},
        {"a": np.arange(0), "b": np.ones((1, 5)) / 3, "c": np.array(5)},
        {"b": np.ones((0, 2)), "c": np.array(6)},
    ]
    back = split_ragged(stack_ragged(parts), 3)
    assert [part.keys() for part in back] == [part.keys() for part in parts]
    for part, other in zip(parts, back, strict=True):
        for name, array in part.items():
            assert np.array_equal(array, other[name]) and array.shape == other[name].shape
            assert array.dtype == other[name].dtype


def test_what_is_said_of_all_regions() -> None:
    said = [
        {"risk": 1.0, "risk_standard_error": 3.0, "form": "mixture", "scale": 2.0, "candidates": [1]},
        {"risk": 4.0, "risk_standard_error": 4.0, "form": "none", "scale": 2.0, "candidates": [1]},
    ]
    found = summary(said)
    assert found == {
        "regions": 2,
        "risk": 2.5,
        "risk_standard_error": 2.5,
        "form": {"mixture": 1, "none": 1},
        "scale": 2.0,
    }


@pytest.mark.parametrize("name", NAMES)
def test_who_says_so_draws_noise_on_cells_alone(name: str) -> None:
    """With all parameters that are audited: else regions would be measured in another way than one alone."""
    for parameters in CASES[name].parameters:
        mechanism = build(name, **parameters)
        if mechanism.per_cell_noise:
            one, other = SeededChannel(HALF, seed=2), SeededChannel(HALF, seed=2)
            drawn = mechanism.measure(np.zeros((6, 7), np.int64), one)
            cells = other.add_noise(np.zeros((6, 7), np.int64), HALF, purpose="cells")
            assert one.transcript == other.transcript and drawn.meta == {}
            assert list(drawn.arrays) == ["cells"] and np.array_equal(drawn.arrays["cells"], cells)
