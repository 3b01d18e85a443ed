"""Parallel scopes: the dearest branch is the price, and bins are nobody's twice."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms.accounting import spent
from tabularium.mechanisms.channel import Parallel, SecureChannel, SeededChannel
from tabularium.mechanisms.channel.budget_meter import Meter
from tabularium.mechanisms.errors import BudgetExceeded, MechanismError


def test_a_scope_costs_its_dearest_branch() -> None:
    channel = SeededChannel(1, seed=1)
    with channel.parallel("1/2", cells=10, purpose="level") as scope:
        left, right, third = scope.branch(slice(0, 4)), scope.branch([4, 5], "right"), scope.branch([9])
        left.laplace([1], "1/4", purpose="a")
        right.laplace([1], "1/8", purpose="b")
        right.laplace([1], "1/6", purpose="c")
        assert third.remaining == Fraction(1, 2)
        assert channel.remaining == Fraction(1, 2)
    assert channel.remaining == 1 - Fraction(7, 24)
    assert spent(channel.transcript) == Fraction(7, 24)
    assert [e.purpose for e in channel.transcript] == ["level/branch 0/a", "level/right/b", "level/right/c"]
    (name,) = {scope for event in channel.transcript for scope, _ in event.branches}
    assert [e.branches for e in channel.transcript] == [((name, 0),), ((name, 1),), ((name, 1),)]


def test_scopes_add_up_and_nest() -> None:
    channel = SeededChannel(1, seed=1)
    with channel.parallel("1/2", cells=4, purpose="outer") as outer:
        branch = outer.branch([0, 1])
        branch.laplace([1], "1/8", purpose="own")
        with branch.parallel("1/4", cells=2, purpose="inner") as inner:
            for part in (0, 1):
                inner.branch([part]).laplace([1], "1/8", purpose="leaf")
        assert branch.remaining == Fraction(1, 4)
    with channel.parallel("1/2", cells=4, purpose="again") as scope:
        scope.branch([0]).laplace([1], "1/3", purpose="x")
    assert channel.remaining == 1 - Fraction(1, 4) - Fraction(1, 3)
    assert spent(channel.transcript) == Fraction(1, 4) + Fraction(1, 3)
    (around, _), (within, _) = channel.transcript[1].branches
    assert channel.transcript[0].branches == ((around, 0),)
    assert channel.transcript[3].branches not in [((around, 0),), ((within, 0),)]
    assert around != within


def test_no_two_secure_channels_name_their_scopes_alike() -> None:
    names = set()
    for channel in (SecureChannel(1), SecureChannel(1), SeededChannel(1, seed=1), SeededChannel(1, seed=2)):
        with channel.parallel(1, cells=1, purpose="scope") as scope:
            scope.branch([0]).laplace([0], 1, purpose="x")
        names.add(channel.transcript[0].branches)
    assert len(names) == 4


@pytest.mark.parametrize(
    "second",
    [[2], slice(2, 3), slice(None), np.array([False, False, True, True]), [3, 2], [-2]],
    ids=str,
)
def test_overlapping_bins_are_refused_with_nothing_drawn(second: object) -> None:
    channel, other = SeededChannel(1, seed=1), SeededChannel(1, seed=1)
    with channel.parallel("1/2", cells=4, purpose="scope") as scope:
        scope.branch([0, 2])
        with pytest.raises(MechanismError, match="belong to another branch"):
            scope.branch(second)  # type: ignore[arg-type]
        assert not channel.transcript
    assert channel.remaining == 1
    assert channel.laplace([7], 1, purpose="x") == other.laplace([7], 1, purpose="x")


@pytest.mark.parametrize(
    "bins",
    [
        [4],
        [-5],
        np.array([True]),
        [0.5],
        slice(0, 5),
        slice(3, 100),
        slice(-5, 2),
        slice(5, None),
        slice("a"),
    ],
    ids=str,
)
def test_bins_outside_the_scope_are_refused(bins: object) -> None:
    with (
        SeededChannel(1, seed=1).parallel("1/2", cells=4, purpose="scope") as scope,
        pytest.raises(MechanismError, match="not bins of its scope"),
    ):
        scope.branch(bins)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "bins", [[], slice(2, 2), slice(3, 1), np.zeros(4, dtype=bool), slice(4, 4)], ids=str
)
def test_a_branch_without_bins_is_refused(bins: object) -> None:
    if isinstance(bins, list):
        bins = np.array(bins, dtype=int)
    with SeededChannel(1, seed=1).parallel("1/2", cells=4, purpose="scope") as scope:
        with pytest.raises(MechanismError, match="at least one bin"):
            scope.branch(bins)  # type: ignore[arg-type]
        scope.branch(slice(None))


def test_threads_take_each_bin_once_and_no_branch_escapes_the_end() -> None:
    """Every opening waits inside ``open_branch``: without the lock, many would be there at once."""
    inside, most, meters = 0, 0, []
    counting = threading.Lock()

    def open_branch(name: str, number: int) -> tuple[Any, Meter]:
        nonlocal inside, most
        with counting:
            inside += 1
            most = max(most, inside)
        time.sleep(0.01)
        meter = Meter(Fraction(1))
        meters.append((number, meter))
        with counting:
            inside -= 1
        return object(), meter

    scope = Parallel(100, open_branch, "scope")

    def open_one(place: int) -> bool:
        try:
            scope.branch([place % 4])
        except MechanismError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(open_one, range(16))) == 4
        late = [pool.submit(scope.branch, [place]) for place in range(10, 40)]
        time.sleep(0.03)
        scope.close()
        for each in late:
            each.exception()
    assert most == 1
    assert [number for number, _ in meters] == list(range(len(meters)))
    assert all(meter.closed for _, meter in meters)


def test_a_branch_cannot_spend_more_than_the_scope_holds() -> None:
    channel = SeededChannel(1, seed=1)
    with channel.parallel("1/2", cells=4, purpose="scope") as scope:
        branch = scope.branch([0])
        with pytest.raises(BudgetExceeded):
            branch.laplace([1], "2/3", purpose="x")
    assert channel.remaining == 1


def test_nothing_can_be_drawn_after_the_scope_has_ended() -> None:
    channel = SeededChannel(1, seed=1)
    with channel.parallel("1/2", cells=4, purpose="scope") as scope:
        branch = scope.branch([0])
        child = branch.grant("1/8", "child")
        with branch.parallel("1/8", cells=1, purpose="inner") as inner:
            leaf = inner.branch([0])
    for late in (branch, child, leaf):
        with pytest.raises(MechanismError, match="has ended"):
            late.laplace([1], "1/100", purpose="late")
    with pytest.raises(MechanismError, match="has ended"):
        scope.branch([1])
    assert channel.remaining == Fraction(7, 8)  # what was granted inside is spent


def test_an_error_inside_closes_the_scope() -> None:
    channel = SeededChannel(1, seed=1)
    with pytest.raises(RuntimeError), channel.parallel("1/2", cells=2, purpose="scope") as scope:
        scope.branch([0]).laplace([1], "1/8", purpose="x")
        raise RuntimeError
    assert channel.remaining == Fraction(7, 8)


def test_a_scope_without_bins_is_refused() -> None:
    with (
        pytest.raises(MechanismError, match="at least one bin"),
        SeededChannel(1, seed=1).parallel("1/2", cells=0, purpose="scope"),
    ):
        pass
