"""Every registered mechanism goes through the replay audit, whoever adds it."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tabularium.mechanisms import MECHANISMS, build
from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.channel.replay.replay_audit import (
    Audit,
    same_under_forced_outputs,
)
from tests.audit.cases import CASES, each_form, every_form, forms, some_counts
from tests.audit.elsewhere import another_process, pairs, replay_elsewhere
from tests.audit.replays import FORCES, audit, judge
from tests.audit.traps import trapped
from tests.audit.twins.small import TrueTotalInTheDiagnostics
from tests.sizes import runs

BUDGET = Fraction(1, 2)


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with another_process() as pool:
        yield pool


@each_form
def test_it_is_private(name: str, parameters: dict[str, Any], definition: Definition) -> None:
    """The whole search for the first form of each, a part of it for the others."""
    case = CASES[name]
    first = parameters is case.parameters[0] and definition == MECHANISMS[name].definitions[0]
    part = {} if first else {"examples": runs(3, 12), "every": runs(40, 8)}
    audit(build(name, **parameters), case, definition, **part)


@pytest.mark.parametrize(("name", "parameters", "definition"), list(forms(further=pytest.mark.audit)))
def test_its_worst_pair_shows_that_no_noise_is_wasted(
    name: str, parameters: dict[str, Any], definition: Definition
) -> None:
    mechanism, case = build(name, **parameters), CASES[name]
    one, other = (np.asarray(counts) for counts in case.worst)
    with Audit(mechanism) as processes:
        options: Any = {"budget": BUDGET, "definition": definition, "force": case.worst_force}
        for pair in ((one, other), (other, one)):
            found = judge(mechanism, *pair, **options, processes=processes)
            assert found.loss >= case.reaches * float(BUDGET)


@each_form
def test_it_remembers_nothing(
    name: str, parameters: dict[str, Any], definition: Definition, pool: ProcessPoolExecutor
) -> None:
    for counts, neighbour in pairs(CASES[name]):
        found = replay_elsewhere(pool, build(name, **parameters), counts, neighbour, BUDGET, definition)
        assert found.loss <= float(BUDGET) * (1 + 1e-9), found.reason


@every_form
def test_it_draws_through_the_channel_alone(
    name: str, parameters: dict[str, Any], definition: Definition
) -> None:
    mechanism = build(name, **parameters)
    for counts in some_counts(CASES[name]):
        # Once before the trap: the compiler's cache, which is written at the first call, names its files by chance.
        mechanism.measure(counts, SeededChannel(BUDGET, seed=1, definition=definition))
        with trapped():
            measured = mechanism.measure(counts, SeededChannel(BUDGET, seed=1, definition=definition))
        mechanism.finish(measured)


@pytest.mark.parametrize("name", ["identity", "structure_first", "mwem", "privhist"])
def test_any_two_tables_look_the_same_under_the_same_outputs(name: str) -> None:
    """Through the function for outside checks; ``audit`` asks it of all, and of more tables."""
    mechanism = build(name, **CASES[name].parameters[-1])
    for one, other in (([3, 0, 7, 90], [0, 12, 5, 4]), ([0, 0, 0, 0], [1000, 1, 1000, 1])):
        assert same_under_forced_outputs(mechanism, one, other, BUDGET, 1)
    pairs = [np.array([[3, 2], [1, 9]]), np.array([[40, 1], [5, 5], [2, 1], [1, 1]])]
    assert same_under_forced_outputs(build("privhist", form="prevalences"), *pairs, BUDGET, 1)
    twin = TrueTotalInTheDiagnostics()
    assert not same_under_forced_outputs(twin, [3, 4], [4, 4], BUDGET, 1)


def test_the_made_up_outputs_are_what_they_say() -> None:
    """Each named way of forcing outputs goes through a mechanism and comes out of it."""
    pair = np.array([3, 4, 5]), np.array([4, 4, 5])
    with Audit(mechanism := build("identity")) as processes:
        for name, force in FORCES.items():
            options: Any = {"budget": BUDGET, "definition": "pure", "force": force}
            assert judge(mechanism, *pair, **options, processes=processes).loss == pytest.approx(0.5), name
