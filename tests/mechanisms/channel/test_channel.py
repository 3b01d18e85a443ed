"""The channel: exact budget, refusal before drawing, transcript."""

from __future__ import annotations

import copy
import json
import os
import pickle
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.mechanisms.accounting import spent
from tabularium.mechanisms.accounting.transcript import Event
from tabularium.mechanisms.channel import Channel, SecureChannel, SeededChannel
from tabularium.mechanisms.channel.budget_meter import Meter
from tabularium.mechanisms.channel.metered_channel import ScopePath, facade
from tabularium.mechanisms.channel.replay.replay_audit import Player, Recorder, record
from tabularium.mechanisms.errors import BudgetExceeded, MechanismError
from tabularium.mechanisms.measured import Measured
from tests.audit.twins.twin import Drawn, Twin

CELLS = np.arange(6).reshape(2, 3)


def seeded(budget: Fraction | int | str = 1, definition: str = "pure") -> SeededChannel:
    return SeededChannel(budget, seed=5, definition=definition)


@pytest.mark.parametrize("channel", [SecureChannel(Fraction(1)), seeded()])
def test_a_draw_is_charged_and_written_down(channel: Channel) -> None:
    noisy = channel.laplace(CELLS, Fraction(1, 4), sensitivity=2, purpose="cells")
    assert noisy.shape == CELLS.shape
    assert noisy.dtype == np.int64
    assert channel.remaining == Fraction(3, 4)
    (event,) = channel.transcript
    assert (event.primitive, event.loss, event.sensitivity, event.scale) == (
        "discrete_laplace",
        Fraction(1, 4),
        2,
        8,
    )
    assert (event.shape, event.purpose, event.definition) == ((2, 3), "cells", "pure")


def test_secure_noise_differs_and_seeded_noise_repeats() -> None:
    def draw(channel: Channel) -> list[int]:
        return channel.laplace(np.zeros(100, int), Fraction(1, 100), purpose="x").tolist()

    assert draw(SecureChannel(1)) != draw(SecureChannel(1))
    assert draw(seeded()) == draw(seeded())
    assert draw(seeded()) != draw(SeededChannel(1, seed=6))
    assert seeded().insecure
    assert not SecureChannel(1).insecure


@pytest.mark.parametrize(
    "overspend",
    [
        lambda c: c.laplace(CELLS, Fraction(3, 4), purpose="x"),
        lambda c: c.lattice(CELLS / 3, Fraction(3, 4), sensitivity=1, width=1, purpose="x"),
        lambda c: c.pick([1, 2], Fraction(3, 4), purpose="x"),
        lambda c: c.grant(Fraction(3, 4), "x"),
        lambda c: c.parallel(Fraction(3, 4), cells=3, purpose="x").__enter__(),
        lambda c: c.grant(Fraction(1, 4), "child").laplace(CELLS, Fraction(1, 3), purpose="x"),
    ],
    ids=["laplace", "lattice", "pick", "grant", "parallel", "child"],
)
def test_overspending_stops_before_anything_is_drawn(overspend: object) -> None:
    channel, other = seeded(), seeded()
    for each in (channel, other):
        each.laplace(CELLS, Fraction(1, 2), purpose="first")
    with pytest.raises(BudgetExceeded, match="nothing was drawn"):
        overspend(channel)  # type: ignore[operator]
    assert [event.purpose for event in channel.transcript] == ["first"]
    # No random word was read: the next draws are those of a channel that never tried.
    rest = Fraction(1, 4)
    assert np.array_equal(channel.laplace(CELLS, rest, purpose="y"), other.laplace(CELLS, rest, purpose="y"))


def test_the_last_crumb_can_be_spent_and_no_more() -> None:
    channel = seeded("1/3")
    channel.laplace([1], "1/5", purpose="a")
    channel.laplace([1], "2/15", purpose="b")
    assert channel.remaining == 0
    with pytest.raises(BudgetExceeded):
        channel.laplace([1], Fraction(1, 10**12), purpose="c")


@pytest.mark.parametrize(
    "amount", [0.1, 1.0, True, None, 0, -1, "0", "a", "1/0", Fraction(-1, 2), np.float64(1)]
)
def test_amounts_are_exact_and_positive(amount: object) -> None:
    for use in (
        SecureChannel,
        lambda a: seeded().laplace([1], a, purpose="x"),
        lambda a: seeded().grant(a, "x"),
    ):
        with pytest.raises(MechanismError, match="amount"):
            use(amount)  # type: ignore[operator]


HALVES = {"costs": [1, 1], "starts": [0, 1], "stops": [1, 2]}


def offers(channel: Channel, **other: Any) -> Any:
    return channel.partition(*(HALVES | other).values(), 1, cells=2, sensitivity=2, purpose="cut")


def wave(channel: Channel, values: Any, width: Any = 1) -> Any:
    return channel.lattice(values, 1, sensitivity=1, width=width, purpose="v")


#: What is asked of a channel, and why it draws nothing.
REFUSED: list[tuple[Callable[[Channel], Any], str]] = [
    *(
        (lambda c, v=values: c.laplace(v, 1, purpose="x"), "integer noise needs integer values")
        for values in ([1.5], [True], ["1"], [None])
    ),
    (lambda c: c.laplace([2**70], 1, purpose="x"), "integer noise needs integer values"),
    (lambda c: c.pick([1, 2], 1, method="report_noisy_max", purpose="x"), "permute_and_flip or exponential"),
    (lambda c: c.gaussian([1], 1, purpose="x"), "zcdp"),
    (lambda c: c.laplace([1], Fraction(1, 2**41), purpose="x"), "2\\^40"),
    *((lambda c, w=width: wave(c, [1.0], w), "power of two") for width in ("1/3", "0.1", 3, "6/4")),
    (lambda c: wave(c, [np.nan]), "not a number"),
    (lambda c: wave(c, [1, 2]), "use laplace for integers"),
    (lambda c: c.pick([np.nan, 1.0], 1, purpose="v"), "not a number"),
    *(
        (lambda c, v=scores: c.pick(v, 1, purpose="v"), "score")
        for scores in ([], [[1, 2]], ["a"], [True, False], np.array([1.0], dtype=np.longdouble))
    ),
    (lambda c: offers(c, stops=[1, 3]), "does not lie"),
    (lambda c: offers(c, starts=[0, 0], stops=[2, 1]), "every single bin"),
    (lambda c: offers(c, costs=[1.0, 1.0]), "integers"),
    (lambda c: offers(c, costs=[1]), "a cost, a start and a stop"),
    (lambda c: offers(c, costs=[1, 1, 1], starts=[0, 1, 1], stops=[1, 2, 1]), "empty"),
    (lambda c: offers(c, costs=[], starts=[], stops=[]), "a cost, a start and a stop"),
]


@pytest.mark.parametrize(("ask", "words"), REFUSED)
def test_what_makes_no_sense_is_refused_with_nothing_drawn(ask: Callable[[Channel], Any], words: str) -> None:
    channel = seeded()
    with pytest.raises(MechanismError, match=words):
        ask(channel)
    assert channel.remaining == 1
    assert not channel.transcript


def test_values_beyond_what_noise_can_be_added_to_are_cut_off() -> None:
    """Refusing them after other draws would waste what was paid, and say that a value is large."""
    values = np.array([2**62, -(2**62), 2**61, 5])
    noisy = seeded(100).laplace(values, 100, purpose="x")
    assert noisy.tolist() == [2**61, -(2**61), 2**61, 5]
    assert seeded(100).laplace(np.array([2**63 + 5], np.uint64), 100, purpose="x").tolist() == [2**61]


def test_unknown_definitions() -> None:
    with pytest.raises(MechanismError, match="pure or zcdp"):
        SecureChannel(1, definition="approximate")  # type: ignore[arg-type]
    with pytest.raises(MechanismError, match="2\\^26"):
        seeded(1, "zcdp").gaussian([1], Fraction(1, 2**60), purpose="x")


def test_grants_are_metered_in_the_parent_and_written_in_one_transcript() -> None:
    channel = seeded()
    table = channel.grant("1/2", "table")
    level = table.grant("1/8", "level")
    level.laplace([1], level.remaining, purpose="cells")
    table.laplace([1], "1/4", purpose="total")
    assert (channel.remaining, table.remaining, level.remaining) == (Fraction(1, 2), Fraction(1, 8), 0)
    assert [event.purpose for event in channel.transcript] == ["table/level/cells", "table/total"]
    assert [event.purpose for event in level.transcript] == ["table/level/cells"]
    assert level.insecure
    channel.grant("1/4", "tab").laplace([1], "1/4", purpose="x")
    assert len(table.transcript) == 2  # a name that begins alike is another channel


def test_zcdp_prices() -> None:
    channel = seeded(1, "zcdp")
    channel.gaussian(CELLS, "1/8", sensitivity=3, purpose="g")
    channel.laplace(CELLS, "1/2", purpose="l")
    channel.pick([1, 2], "1/2", purpose="p")
    assert [event.loss for event in channel.transcript] == [Fraction(1, 8)] * 3
    gauss, laplace, pick = channel.transcript
    assert (gauss.scale_squared, gauss.scale, gauss.rho, gauss.epsilon) == (36, 6, Fraction(1, 8), None)
    assert (laplace.scale, laplace.epsilon, laplace.rho) == (2, Fraction(1, 2), Fraction(1, 8))
    assert (pick.scale, pick.epsilon, pick.primitive) == (4, Fraction(1, 2), "permute_and_flip")


def test_an_irrational_scale_is_kept_as_an_exact_square() -> None:
    channel = seeded(1, "zcdp")
    channel.gaussian(CELLS, "1/3", purpose="g")
    (event,) = channel.transcript
    assert event.scale_squared == Fraction(3, 2)
    assert event.scale == pytest.approx(1.5**0.5)


def test_events_survive_json() -> None:
    channel = seeded(3, "zcdp")
    channel.gaussian(CELLS, "1/3", purpose="g")
    with channel.parallel("1/2", cells=4, purpose="scope") as scope:
        branch = scope.branch([0, 1], "left")
        branch.lattice([0.5], "1/4", sensitivity="1/3", width="1/8", error="1/1000", purpose="v")
        branch.pick(np.array([0.5, 2.25]), "1/2", sensitivity=3, method="exponential", purpose="p")
    written = json.dumps([event.as_dict() for event in channel.transcript])
    assert tuple(Event.from_dict(event) for event in json.loads(written)) == channel.transcript
    assert '"loss": "1/3"' in written
    assert '"sensitivity": "1/1"' in written


def test_a_channel_cannot_be_copied_or_stored() -> None:
    for action in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(MechanismError, match="cannot be copied"):
            action(SecureChannel(1))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_cannot_spend_the_budget_again() -> None:
    """Not even when the lock was held at the moment of the fork: it is never waited for."""
    channel = SecureChannel(1)
    child = channel.grant("1/2", "child")
    with channel._meter._lock, child._meter._lock:
        process = os.fork()
        if process == 0:
            refused = 0
            try:
                for each in (channel, child):
                    try:
                        each.laplace([1], "1/4", purpose="x")
                    except MechanismError as error:
                        refused += "another process" in str(error) and not each.transcript
            finally:
                os._exit(refused)
        for _ in range(200):  # a child that waits for a lock is ended
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                break
            time.sleep(0.05)
        else:
            os.kill(process, signal.SIGKILL)
            _, status = os.waitpid(process, 0)
    assert os.waitstatus_to_exitcode(status) == 2
    channel.laplace([1], "1/2", purpose="x")


def test_threads_cannot_overspend() -> None:
    channel = SecureChannel(1)

    def spend(number: int) -> bool:
        try:
            channel.laplace([1], Fraction(1, 50), purpose=f"{number}")
        except BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(spend, range(120))) == 50
    assert channel.remaining == 0
    assert spent(channel.transcript) == 1


@pytest.mark.parametrize("charge", [Fraction(1, 3), Fraction("0.1")])
def test_a_hundred_thousand_charges_are_exact(charge: Fraction) -> None:
    meter = Meter(charge * 100_000)
    for _ in range(100_000):
        meter.charge(charge, "x")
    assert meter.remaining == 0
    with pytest.raises(BudgetExceeded):
        meter.charge(Fraction(1, 10**30), "x")


@settings(max_examples=50, deadline=None)
@given(st.lists(st.fractions(min_value=Fraction(1, 10**6), max_value=2, max_denominator=10**6), max_size=12))
def test_what_was_spent_and_what_is_left_are_the_budget(amounts: list[Fraction]) -> None:
    channel = seeded(3)
    total = Fraction(0)
    for amount in amounts:
        try:
            channel.laplace([0], amount, purpose="x")
            total += amount
        except BudgetExceeded:
            assert total + amount > 3
    assert channel.remaining == 3 - total
    assert spent(channel.transcript) == total


# --- What a mechanism sees of a channel: everything it needs, and nothing by which to tell an audit from a release ---


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
