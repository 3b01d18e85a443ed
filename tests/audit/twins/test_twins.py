"""The audit is worth what it catches: every broken twin fails it, every sound one passes.

Twins live in the tests only. Each stands for a mistake that has been published, or shipped, or is easy to make:
small mechanisms, whose sound form stands beside the broken one, and the registered ones with one mistake each.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms import build
from tabularium.mechanisms.channel import SeededChannel, replay, replay_loss
from tabularium.mechanisms.channel.replay.replay_audit import difference_between
from tabularium.mechanisms.errors import BudgetExceeded, MechanismError
from tabularium.mechanisms.histograms.noise_first import improve
from tabularium.mechanisms.mechanism import Counts, Mechanism
from tests.audit.elsewhere import another_process, replay_elsewhere
from tests.audit.replays import FORCES, NotPrivateError, audit, judge
from tests.audit.traps import OtherRandomnessError, trapped
from tests.audit.twins import registered, small
from tests.audit.twins.registered import REGISTERED
from tests.audit.twins.small import RemembersByTheNoise, RemembersTheFirstEver
from tests.audit.twins.twin import Broken, Twin
from tests.sizes import runs

SMALL = [
    kind
    for kind in vars(small).values()
    if isinstance(kind, type) and issubclass(kind, Twin) and kind.__module__ == small.__name__
    if kind is not small.TruthOneInManyTimes  # which no replay catches
]
LURKING = [
    *(small.TotalIfItIsLarge, small.TellsTheThousands, small.RoundsItsOwnNoise, small.OnlyOnLargeTables),
    *(
        small.OnlyBelowATwentieth,
        small.OnlyWhereNobodyWatches,
        small.LogsTheTotal,
        small.LogsUnderABorrowedName,
    ),
    *(small.RefusesLargeCounts, small.RefusesTheWitness, RemembersTheFirstEver, RemembersByTheNoise),
]
by_name: Any = {"ids": lambda twin: getattr(twin, "__name__", None) or type(twin.mechanism).__name__}


@pytest.mark.parametrize("kind", SMALL, **by_name)
def test_the_broken_twin_is_caught(kind: type[Twin]) -> None:
    with pytest.raises(NotPrivateError):
        audit(kind(broken=True), kind.case, kind.definitions[0], shrink=False)


@pytest.mark.parametrize("kind", SMALL, **by_name)
def test_the_sound_twin_passes(kind: type[Twin]) -> None:
    audit(kind(broken=False), kind.case, kind.definitions[0], examples=runs(4, 40), every=runs(9, 1))


@pytest.mark.parametrize("twin", REGISTERED, **by_name)
def test_a_mistake_in_a_registered_mechanism_is_caught(twin: Broken) -> None:
    with pytest.raises(NotPrivateError):
        if twin.pair is None:
            audit(twin.mechanism, twin.case, "pure", shrink=False)
        else:
            judge(twin.mechanism, *twin.pair, budget=Fraction(1, 2), definition="pure", force=twin.force)


def test_the_steps_of_privhist_are_those_of_the_registered_class() -> None:
    """Its twins take its measurement apart: as it stands, it draws the same to the last bit."""
    for counts in ([5, 0, 2, 2, 90, 7, 1], [300, 0, 41]):
        one, other = (
            kind.measure(counts, SeededChannel(Fraction(7, 3), seed=2))
            for kind in (registered.StepByStep(), build("privhist"))
        )
        assert difference_between(one, other) is None


@pytest.mark.parametrize("kind", LURKING, **by_name)
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


def one_more(counts: Any, place: int) -> tuple[Counts, Counts]:
    """Neighbours that differ by a record in one place."""
    table = np.array(counts)
    return table, table + (np.arange(table.size) == place)


def alike(event: Any, inputs: Counts, drawn: Any) -> Counts:
    """All cells look alike."""
    return np.zeros(inputs.shape, dtype=np.int64)


def far_apart(event: Any, inputs: Counts, drawn: Any) -> Counts:
    """Every cell is a box of its own; no noise on the sums."""
    return np.resize(np.array([0, 10**6]), inputs.shape) if event.purpose == "cells" else inputs


#: A twin, neighbours, made-up outputs, the budget, and how many times it the twin loses.
LOSES = [
    (small.HalfTheScale(), one_more([3], 0), None, EPSILON, 2),
    (small.OverlappingBins(), one_more([3, 5], 0), None, EPSILON, 2),
    (small.DrawPerBin(), one_more([5, 9, 2, 7, 1, 8, 3, 6, 4], 2), None, EPSILON, 1 / 2 + 3 / 2),
    # Twelve cells that look alike: one group.
    (registered.DrawPerCell("1/2", "noisy"), one_more([0] * 12, 5), alike, 1, 1 / 2 + 12 / 2),
    # Eight cells in one bin: a record is in a node of each of four levels.
    (
        registered.WholeBudgetForEveryTree(**registered.TREES | {"bins": 1}),
        *(one_more(range(8), 3), None, 1, 4),
    ),
    # Sums cost 3/4 of the budget, and a record in the second cell is in two of them.
    (registered.SharedEdges(), one_more([0, 5, 0, 5], 1), far_apart, 1, 1.75),
    # The rest, 9/10 of the budget, pays for a record in two blocks.
    (registered.OverlappingBlocks(), one_more([40, 40, 1, 3], 3), None, 2, 0.1 + 2 * 0.9),
    # Five levels at ε/4 instead of ε/20 each; choices at twice their rate.
    *(
        (twin.mechanism, twin.pair, twin.force, 1, lost)
        for twin, lost in zip(
            registered.OF_P_HPARTITION, (5 / 4 + 1 / 4 + 1 / 2, 1 / 2 + 1 / 2 + 1 / 2), strict=False
        )
    ),
]


@pytest.mark.parametrize(
    ("twin", "pair", "force", "budget", "lost"), LOSES, ids=[type(row[0]).__name__ for row in LOSES]
)
def test_what_it_loses(twin: Mechanism, pair: Any, force: Any, budget: Any, lost: float) -> None:
    sound: Any = (
        replace(twin, broken=False) if isinstance(twin, Twin) else build(twin.name, **twin.parameters())
    )
    found = [replay_loss(each, *pair, budget, 1, force=force) for each in (twin, sound)]
    assert found == pytest.approx([float(budget) * lost, float(budget)], rel=1e-3)


def test_what_too_small_a_sensitivity_loses() -> None:
    """Noise for √(z/N) loses √z as much; cosines at the first cell lose 3/2 of two thirds."""
    for twin, folds in zip(registered.OF_EFPA[-2:], (3**0.5, 1.5), strict=True):
        broken, sound = (
            replay(each, *twin.pair, 1, 0, force=twin.force).losses[1][1]  # what the coefficients lose
            for each in (twin.mechanism, build("efpa", **twin.mechanism.parameters()))
        )
        assert broken == pytest.approx(folds * sound, rel=0.01)
        assert sound == pytest.approx(0.9, rel=0.01)


@pytest.mark.parametrize(
    ("twin", "sound", "pair", "force"),
    [
        (small.BarePhase(), small.BarePhase(broken=False), one_more([5, 9, 2, 7, 1, 8, 3, 6], 2), None),
        (registered.PhasesAsTheyAre(), build("efpa"), one_more(np.arange(16) ** 2, 5), registered.second),
    ],
)
def test_the_bare_phase_loses_little_and_gives_all_away(
    twin: Mechanism, sound: Mechanism, pair: Any, force: Any
) -> None:
    """Its draws are within budget; only the comparison of the results catches it."""
    found = replay(twin, *pair, EPSILON, 1, force=force)
    assert found.loss == math.inf
    assert "results differ" in found.reason
    assert replay_loss(sound, *pair, EPSILON, 1, force=force) <= 0.1


def test_bins_of_the_counts_give_a_record_away() -> None:
    """Somewhere one record more puts two cells apart that were in one bin."""
    bins = [improve([0, far], 5).starts.size for far in range(1000)]
    pair = one_more([0, int(np.flatnonzero(np.diff(bins))[0])], 1)
    found = replay(registered.BinsOfTheCounts(), *pair, 1, 1)
    assert found.loss == math.inf
    assert "results differ" in found.reason
    assert replay_loss(build("noise_first"), *pair, 1, 1) <= 1


def test_a_cut_by_the_truth_changes_what_is_measured() -> None:
    found = replay(registered.TrueMedians(height=1), *one_more([5, 1, 5], 2), 1, 1)
    assert found.loss == math.inf


def test_a_cap_from_the_data_changes_the_events() -> None:
    found = replay(registered.CapFromItsCounts(50, bins=2), *one_more([0, 0, 7, 9], 3), 1, 1)
    assert found.loss == math.inf
    assert "event 0 differs" in found.reason


def test_ties_by_the_truth_move_cells_between_groups() -> None:
    """Noisy counts 0, 5, 5, 40: the two in the middle are told apart by what they truly are."""

    def forced(event: Any, inputs: Counts, drawn: Any) -> Counts:
        return np.array([0, 5, 5, 40]) if event.purpose == "order" else np.zeros(inputs.shape, np.int64)

    pair = one_more([0, 6, 6, 40], 1)
    assert replay_loss(registered.TiesByTheTruth(grouping="noisy"), *pair, 1, 1, force=forced) == math.inf
    assert replay_loss(build("sreb_gca", grouping="noisy"), *pair, 1, 1, force=forced) <= 1


def test_depth_costs_a_level_each() -> None:
    pair, force = one_more([0] * 128, 0), FORCES["huge negative noise, last candidate"]
    assert replay_loss(small.UnboundedDepth(), *pair, 1, 1, force=force) > 1.2
    assert replay_loss(small.UnboundedDepth(broken=False), *pair, 1, 1, force=force) <= 1


def test_a_generator_of_its_own_is_trapped() -> None:
    with trapped(), pytest.raises(OtherRandomnessError, match="default_rng"):
        small.NoiseOfItsOwn().measure([1, 2], SeededChannel(1, seed=1))


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
