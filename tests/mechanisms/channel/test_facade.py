"""What a mechanism sees of a channel: everything it needs, and nothing by which to tell an audit from a release."""

from __future__ import annotations

import copy
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms.accounting.transcript import Event
from tabularium.mechanisms.channel import Channel, SecureChannel, SeededChannel
from tabularium.mechanisms.channel.budget_meter import Meter
from tabularium.mechanisms.channel.facade import facade
from tabularium.mechanisms.channel.metered_channel import ScopePath
from tabularium.mechanisms.channel.replay.replay_audit import record
from tabularium.mechanisms.channel.replay.scripted_sources import Player, Recorder
from tabularium.mechanisms.errors import BudgetExceeded, MechanismError
from tabularium.mechanisms.measured import Measured
from tests.audit.twins.twin import Drawn, Twin


def channels() -> list[Channel]:
    """One of each kind, with the same budget."""
    meters = Meter(Fraction(1)), Meter(Fraction(1))
    return [
        SecureChannel(1),
        SeededChannel(1, seed=3),
        Channel(meters[0], Recorder("3", None), "pure", place=ScopePath()),
        Channel(meters[1], Player([], "ab"), "pure", place=ScopePath()),
    ]


def seen(channel: Any) -> list[tuple[str, Any]]:
    """Every attribute with its value, or its type where the value is a function."""
    found = []
    for name in sorted(set(dir(channel)) - {"__doc__", "__reduce__"}):
        try:
            value = getattr(channel, name)
        except Exception as error:
            value = error
        plain = isinstance(value, str | int | Fraction | tuple)
        found.append((name, value if plain else type(value)))
    return found


def test_all_kinds_look_the_same() -> None:
    first, *others = [seen(facade(channel)) for channel in channels()]
    for other in others:
        assert other == first
    assert not any("insecure" in name or "source" in name or "meter" in name for name, _ in first)


def test_nothing_leads_to_the_source() -> None:
    """Through attributes, theirs and those of what they return, however often: never a channel's inside."""
    front = facade(SecureChannel(1))
    with front.parallel(Fraction(1, 4), cells=2, purpose="halves") as scope:
        waiting: list[Any] = [front, scope, scope.branch([0]), front.grant(Fraction(1, 4), "level")]
        met: dict[int, Any] = {}
        while waiting:
            one = waiting.pop()
            if id(one) in met or isinstance(one, type):
                continue
            met[id(one)] = one
            assert not isinstance(one, Channel | Meter | Recorder), type(one)
            names = [name for name in dir(one) if not name.startswith("__") or name == "__self__"]
            if type(one).__module__.startswith("mechanisms") or callable(one):
                waiting += [getattr(one, name) for name in names if hasattr(one, name)]
    for name in ("insecure", "_source", "_meter", "_shared"):
        assert not hasattr(front, name)
        with pytest.raises(AttributeError):
            front._ask(name)


def test_it_draws_what_the_channel_draws() -> None:
    plain, front = SeededChannel(1, seed=4), facade(SeededChannel(1, seed=4))
    drawn = []
    for channel in (plain, front):
        level = channel.grant(Fraction(1, 2), "level")
        with level.parallel(Fraction(1, 4), cells=4, purpose="halves") as scope:
            branch = scope.branch(slice(0, 2), "left")
            cells = branch.laplace(np.array([3, 4]), Fraction(1, 4), purpose="cells").tolist()
        place = channel.pick([1, 2, 9], channel.pure_epsilon(Fraction(1, 4)), purpose="place")
        drawn.append((cells, place, channel.remaining, channel.budget, channel.definition))
        with pytest.raises(BudgetExceeded):
            channel.laplace([1], 2, purpose="too much")
    assert drawn[0] == drawn[1]
    labels = [
        {name for event in channel.transcript for name, _ in event.branches} for channel in (plain, front)
    ]
    assert labels[1] == {"0"}
    assert next(iter(labels[0])).endswith(".0")


def test_it_cannot_be_copied_or_stored() -> None:
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(MechanismError, match="cannot be copied"):
            way(facade(SeededChannel(1, seed=1)))  # type: ignore[operator]


def test_a_measurement_knows_whether_its_noise_was_predictable() -> None:
    """Whoever opened the channel knows; the mechanism does not. In an audit all looks like a release."""
    asked: list[tuple[bool, tuple[Event, ...]]] = []

    class Watches(Twin):
        def draw(self, counts: Any, channel: Channel) -> Drawn:
            return {"cells": channel.laplace(counts, channel.remaining, purpose="cells")}, {}

        def finish(self, measured: Measured) -> Any:
            asked.append((measured.insecure, measured.transcript))
            return super().finish(measured)

    assert Watches().release([1, 2], SeededChannel(1, seed=1)).insecure
    assert not Watches().release([1, 2], SecureChannel(1)).insecure
    record(Watches(), [1, 2], 1, 0, definition="pure")
    assert [insecure for insecure, _ in asked] == [True, False, False]
    assert asked[1][1] == asked[2][1]
