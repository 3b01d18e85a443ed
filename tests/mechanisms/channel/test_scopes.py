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
from tabularium.mechanisms.accounting.conversion import worst_case_steps
from tabularium.mechanisms.accounting.transcript import Event
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


# --- Branches that drew the same stand as one in the transcript, with their number; nothing of the cost is lost ---


HALF = Fraction(1, 2)


def drawn(plan: str, *, fold: bool) -> tuple[SeededChannel, list[int]]:
    """Branches named by letters: ``a`` draws twice, ``b`` once for less, ``c`` in a scope of its own."""
    channel = SeededChannel(1, seed=3)
    with channel.parallel(HALF, cells=len(plan), purpose="places", fold=fold) as scope:
        for place, kind in enumerate(plan):
            branch = scope.branch(slice(place, place + 1), str(place))
            if kind == "a":
                branch.laplace([1, 2], HALF / 2, purpose="one")
                branch.laplace([3], HALF / 2, purpose="two")
            elif kind == "b":
                branch.laplace([1], HALF / 4, purpose="one")
            else:
                with branch.parallel(HALF, cells=2, purpose="inner") as inner:
                    inner.branch([0]).laplace([1], HALF / 5, purpose="cell")
                    inner.branch([1]).laplace([1], HALF / 5, purpose="cell")
    return channel, scope.representatives()


def test_each_kind_of_branch_stands_once_with_its_number() -> None:
    channel, representatives = drawn("abacab" + "c", fold=True)
    assert [(event.purpose, event.alike) for event in channel.transcript] == [
        ("places/0/one", 3),
        ("places/0/two", 3),
        ("places/1/one", 2),
        ("places/3/inner/branch 0/cell", 2),
        ("places/3/inner/branch 1/cell", 2),
    ]
    assert representatives == [0, 1, 0, 3, 0, 1, 3]


@pytest.mark.parametrize("plan", ["a", "bbbb", "abacabc", "ccb"])
def test_the_cost_is_that_of_the_unfolded_scope(plan: str) -> None:
    folded, unfolded = drawn(plan, fold=True)[0], drawn(plan, fold=False)[0]
    assert spent(folded.transcript) == spent(unfolded.transcript) == 1 - folded.remaining
    assert folded.remaining == unfolded.remaining
    assert worst_case_steps(folded.transcript) == worst_case_steps(unfolded.transcript)
    assert sum(each.alike for each in folded.transcript) == len(unfolded.transcript)


def test_an_event_keeps_its_number_in_writing() -> None:
    channel, _ = drawn("aaa", fold=True)
    assert [Event.from_dict(event.as_dict()) for event in channel.transcript] == list(channel.transcript)
    alone, _ = drawn("a", fold=True)
    assert "alike" not in alone.transcript[0].as_dict(), "as transcripts were before there were folded scopes"


def test_a_branch_ends_where_the_next_begins() -> None:
    channel = SeededChannel(1, seed=3)
    with channel.parallel(HALF, cells=2, purpose="places", fold=True) as scope:
        first = scope.branch([0])
        scope.branch([1])
        with pytest.raises(MechanismError, match="closed"):
            first.laplace([1], HALF, purpose="late")


def test_draws_between_branches_are_kept() -> None:
    """Whatever is drawn outside of the branches is neither folded nor lost."""
    channel = SeededChannel(1, seed=3)
    with channel.parallel(HALF, cells=3, purpose="places", fold=True) as scope:
        for place in range(3):
            scope.branch([place], str(place)).laplace([1], HALF, purpose="one")
            if place == 1:
                channel.laplace([1], Fraction(1, 8), purpose="beside")
    assert spent(channel.transcript) == HALF + Fraction(1, 8) == 1 - channel.remaining
    purposes = [event.purpose for event in channel.transcript]
    assert purposes == ["places/0/one", "places/1/one", "beside"]
    assert [event.alike for event in channel.transcript] == [2, 1, 1]


def test_a_child_channel_sees_its_own_events_alone() -> None:
    channel = SeededChannel(1, seed=3)
    channel.laplace([1], Fraction(1, 8), purpose="before")
    child = channel.grant(Fraction(1, 8), "part")
    child.laplace([1], Fraction(1, 8), purpose="cells")
    assert [event.purpose for event in child.transcript] == ["part/cells"]
    assert len(channel.transcript) == 2


def test_one_folded_scope_is_open_at_a_time() -> None:
    channel = SeededChannel(1, seed=3)
    with (
        channel.parallel(HALF, cells=2, purpose="places", fold=True) as scope,
        pytest.raises(MechanismError, match="open already"),
        scope.branch([0]).parallel(HALF, cells=2, purpose="inner", fold=True),
    ):
        pass
    with channel.parallel(HALF, cells=2, purpose="more", fold=True) as scope:
        scope.branch([1]).laplace([1], HALF, purpose="one")
    assert [event.purpose for event in channel.transcript] == ["more/branch 0/one"]


def test_a_channel_from_within_a_branch_that_was_folded_away_sees_its_events() -> None:
    channel = SeededChannel(1, seed=3)
    with channel.parallel(HALF, cells=3, purpose="places", fold=True) as scope:
        scope.branch([0]).laplace([1], HALF, purpose="one")
        scope.branch([1]).laplace([1], HALF, purpose="one")
        beside = channel.grant(Fraction(1, 8), "beside")
    beside.laplace([1], Fraction(1, 8), purpose="cells")
    assert [event.purpose for event in beside.transcript] == ["beside/cells"]
