"""The audit is worth what it catches: every broken twin fails it, every sound one passes."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tabularium.mechanisms.channel import SeededChannel, replay, replay_loss
from tabularium.mechanisms.errors import BudgetExceeded, MechanismError
from tests.audit.elsewhere import another_process, replay_elsewhere
from tests.audit.replays import FORCES, NotPrivateError, audit
from tests.audit.traps import OtherRandomnessError, trapped
from tests.audit.twins.catalogue import (
    LURKING,
    TWINS,
    BarePhase,
    DrawPerBin,
    HalfTheScale,
    NoiseOfItsOwn,
    OverlappingBins,
    UnboundedDepth,
)
from tests.audit.twins.memory import RemembersByTheNoise, RemembersTheFirstEver
from tests.audit.twins.twin import Twin
from tests.sizes import runs


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_the_broken_twin_is_caught(kind: type[Twin]) -> None:
    twin = kind(broken=True)
    with pytest.raises(NotPrivateError):
        audit(twin, twin.case, twin.definitions[0], shrink=False)


@pytest.mark.parametrize("kind", TWINS, ids=lambda kind: kind.__name__)
def test_the_sound_twin_passes(kind: type[Twin]) -> None:
    twin = kind(broken=False)
    audit(twin, twin.case, twin.definitions[0], examples=runs(15, 40), every=runs(3, 1))


@pytest.mark.parametrize("kind", LURKING, ids=lambda kind: kind.__name__)
def test_one_pair_is_enough_for_a_leak_that_waits(kind: type[Twin]) -> None:
    """Neighbours on the same side of every threshold, once, through the public function alone."""
    RemembersTheFirstEver.first.clear()
    counts = np.arange(130) % 5
    more = counts + (np.arange(130) == 7)
    assert replay_loss(kind(broken=True), counts, more, Fraction(1, 100), 0) == math.inf
    assert replay_loss(kind(broken=False), counts, more, Fraction(1, 100), 0) == pytest.approx(0.01)


def test_what_a_mechanism_saw_before_is_found_out_by_a_fresh_interpreter() -> None:
    """A fork has what its parent had: that blind spot of ``replay_loss`` is what the fresh interpreter is for."""
    counts, more = np.array([3, 4]), np.array([3, 5])
    RemembersTheFirstEver.first.clear()
    for kind in (RemembersTheFirstEver, RemembersByTheNoise):
        assert replay_loss(kind(), counts, more, EPSILON, 0) == math.inf
    RemembersTheFirstEver().measure(counts, SeededChannel(1, seed=1))
    assert replay_loss(RemembersTheFirstEver(), counts, more, EPSILON, 0) == pytest.approx(0.1)
    with another_process() as pool:
        for kind in (RemembersTheFirstEver, RemembersByTheNoise):
            lost = [
                replay_elsewhere(pool, kind(broken), counts, more, EPSILON, "pure").loss
                for broken in (True, False)
            ]
            assert lost == [math.inf, pytest.approx(0.1)]


# --- what each kind of mistake looks like -----------------------------------------------------------

EPSILON = Fraction(1, 10)


def test_the_bare_phase_loses_little_and_gives_all_away() -> None:
    """Its draws are within budget; only the comparison of the results catches it."""
    counts = np.array([5, 9, 2, 7, 1, 8, 3, 6])
    neighbour = counts.copy()
    neighbour[2] += 1
    found = replay(BarePhase(), counts, neighbour, EPSILON, 1)
    assert found.loss == math.inf
    assert "results differ" in found.reason
    assert replay_loss(BarePhase(broken=False), counts, neighbour, EPSILON, 1) <= 0.1


def test_a_draw_per_bin_costs_the_group() -> None:
    counts = np.array([5, 9, 2, 7, 1, 8, 3, 6, 4])
    neighbour = counts.copy()
    neighbour[2] += 1
    assert replay_loss(DrawPerBin(), counts, neighbour, EPSILON, 1) == pytest.approx(0.05 + 3 * 0.05)
    assert replay_loss(DrawPerBin(broken=False), counts, neighbour, EPSILON, 1) == pytest.approx(0.1)


def test_depth_costs_a_level_each() -> None:
    counts = np.zeros(128, dtype=int)
    neighbour = counts.copy()
    neighbour[0] = 1
    force = FORCES["huge negative noise, last candidate"]
    assert replay_loss(UnboundedDepth(), counts, neighbour, 1, 1, force=force) > 1.2
    assert replay_loss(UnboundedDepth(broken=False), counts, neighbour, 1, 1, force=force) <= 1


def test_half_the_scale_costs_twice() -> None:
    assert replay_loss(HalfTheScale(), [3], [4], EPSILON, 1) == pytest.approx(0.2)


def test_overlapping_looks_cost_twice() -> None:
    assert replay_loss(OverlappingBins(), [3, 5], [4, 5], EPSILON, 1) == pytest.approx(0.2)


def test_a_generator_of_its_own_is_trapped() -> None:
    with trapped(), pytest.raises(OtherRandomnessError, match="default_rng"):
        NoiseOfItsOwn().measure([1, 2], SeededChannel(1, seed=1))


def test_a_mechanism_that_always_fails_does_not_pass() -> None:
    class Fails(Twin):
        def draw(self, counts, channel):  # type: ignore[no-untyped-def]
            raise ValueError

    class FailsLate(Twin):
        def draw(self, counts, channel):  # type: ignore[no-untyped-def]
            channel.laplace(counts, channel.remaining, purpose="cells")
            raise ValueError

    class Refuses(Twin):
        def draw(self, counts, channel):  # type: ignore[no-untyped-def]
            raise MechanismError("there are too many cells", where="twin")

    class RefusesLate(Twin):
        def draw(self, counts, channel):  # type: ignore[no-untyped-def]
            channel.laplace(counts, channel.remaining, purpose="cells")
            raise MechanismError("there are too many cells", where="twin")

    for kind in (Fails, FailsLate, RefusesLate):
        found = replay(kind(), [3], [4], 1, 1)
        assert found.loss == math.inf
        assert "ended in an error" in found.reason
    with pytest.raises(MechanismError, match="twin: there are too many cells"):
        replay(Refuses(), [3], [4], 1, 1)


def test_measured_arrays_lie_in_memory_as_c_has_them() -> None:
    class Transposes(Twin):
        def draw(self, counts, channel):  # type: ignore[no-untyped-def]
            noisy = channel.laplace(counts, channel.remaining, purpose="cells")
            return {"cells": np.asfortranarray(noisy) if counts.max() > 2 else noisy}, {}

    for largest in (2, 3):
        counts = np.full((2, 3), largest)
        cells = Transposes().measure(counts, SeededChannel(1, seed=1)).arrays["cells"]
        assert cells.flags.c_contiguous
        assert cells.shape == (2, 3)


def test_spending_more_than_there_is_stops_in_the_channel() -> None:
    class Overspends(Twin):
        def draw(self, counts, channel):  # type: ignore[no-untyped-def]
            channel.laplace(counts, channel.remaining, purpose="once")
            return {"cells": channel.laplace(counts, channel.budget, purpose="twice")}, {}

    channel = SeededChannel(1, seed=1)
    with pytest.raises(BudgetExceeded):
        Overspends().release([1, 2], channel)
    assert [event.purpose for event in channel.transcript] == ["once"]
    assert channel.remaining == 0
