"""Sorted counts, noise, isotonic regression."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tabularium.mechanisms import build
from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.channel.replay.replay_audit import record
from tabularium.mechanisms.errors import MechanismError


def finished(noisy: list[int], **parameters: bool) -> np.ndarray:
    """What it makes of these noisy numbers, whatever was counted."""
    force = lambda event, inputs, drawn: np.array(noisy)  # noqa: E731
    run = record(
        build("sorted_isotonic", **parameters),
        np.zeros(len(noisy), int),
        1,
        0,
        definition="pure",
        force=force,
    ).run
    assert run.release is not None
    return run.release.values


def test_by_hand() -> None:
    """-3 and -1 pool to nothing with 1; 7 and 4 pool to 5.5."""
    assert finished([-3, 1, -1, 7, 4]).tolist() == [0, 0, 0, 6, 6]
    assert finished([-3, 1, -1, 7, 4], rounded=False).tolist() == [-3, 0, 0, 5.5, 5.5]


def test_what_is_measured_are_the_sorted_counts() -> None:
    counts = np.array([[5, 0, 9], [2, 2, 1]])
    (draw,) = record(build("sorted_isotonic"), counts, 1, 0, definition="pure").draws
    assert draw.inputs.tolist() == [[0, 1, 2], [2, 5, 9]]
    assert draw.event.sensitivity == 1


@pytest.mark.parametrize("definition", ["pure", "zcdp"])
def test_it_comes_close_with_much_budget(definition: Definition) -> None:
    counts = np.array([[3, 1 << 40, 0], [7, 7, 100]])
    channel = SeededChannel(10_000, seed=1, definition=definition)
    release = build("sorted_isotonic").release(counts, channel)
    assert release.values.dtype == np.int64
    assert release.values.tolist() == [[0, 3, 7], [7, 100, 1 << 40]]


def test_parameters() -> None:
    with pytest.raises(MechanismError, match="true or false"):
        build("sorted_isotonic", rounded=1)
    assert build("sorted_isotonic", rounded=False).parameters() == {"rounded": False}
    release = build("sorted_isotonic").release([4], SeededChannel(Fraction(1, 3), seed=1))
    assert release.values.shape == (1,)
    assert release.diagnostics["scale"] == 3.0
