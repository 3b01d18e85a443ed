"""Branches that drew the same stand as one in the transcript, with their number; nothing of the cost is lost."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tabularium.mechanisms.accounting import spent
from tabularium.mechanisms.accounting.conversion import worst_case_steps
from tabularium.mechanisms.accounting.transcript import Event
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.errors import MechanismError

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
