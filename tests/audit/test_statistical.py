"""The statistical audit: what the outputs themselves give away. Error rates are stated in ``estimates``."""

from __future__ import annotations

import numpy as np
import pytest

from tabularium.mechanisms import build
from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.noise.synthetic import generator
from tests.audit.cases import CASES, mechanism_definitions
from tests.audit.estimates import (
    BUDGET,
    FEWER_RUNS,
    ONE_CELL,
    RUNS,
    bound,
    loss_from_outputs,
    must_show,
    renyi,
)
from tests.audit.twins.small import HalfTheScale, HalfTheSigma
from tests.audit.twins.twin import Twin

# At the usual size the forms of which something must be seen; the others cannot fail but for gross errors.
every = pytest.mark.parametrize(
    ("name", "definition"),
    [
        pytest.param(*form, marks=() if must_show(*form) else pytest.mark.audit)
        for form in mechanism_definitions()
    ],
)


@every
def test_the_outputs_give_no_more_away_than_the_budget(name: str, definition: Definition) -> None:
    case = CASES[name]
    mechanism = build(name, **case.parameters[0])
    shows = must_show(name, definition)
    pair, runs = (case.worst, RUNS) if shows else (ONE_CELL, FEWER_RUNS)
    one, other = (np.asarray(counts) for counts in pair)
    found = loss_from_outputs(mechanism, one, other, BUDGET[definition], definition, runs=runs)
    assert shows * BUDGET[definition] <= found <= BUDGET[definition]


@every
def test_noise_that_is_too_small_would_be_noticed(name: str, definition: Definition) -> None:
    """A budget k times as large draws noise k times too small: told the right budget, the audit says no."""
    case = CASES[name]
    excess = case.notices if definition == "pure" else case.notices**2
    one, other = (np.asarray(counts) for counts in ONE_CELL)
    spent = BUDGET[definition] * excess
    found = loss_from_outputs(
        build(name, **case.parameters[0]), one, other, spent, definition, runs=FEWER_RUNS
    )
    assert found > BUDGET[definition]


@pytest.mark.parametrize("twin", [HalfTheScale(), HalfTheSigma()], ids=lambda twin: type(twin).__name__)
def test_it_catches_broken_twins(twin: Twin) -> None:
    definition = twin.definitions[0]
    budget = BUDGET[definition]
    assert loss_from_outputs(twin, np.array([4, 0]), np.array([4, 1]), budget, definition) > budget


def test_the_bound_errs_less_than_it_may() -> None:
    """Coins whose loss is exactly ε: 3 000 bounds at a level of 10^-6 are all below it, and not far below."""
    rng = generator(4)
    epsilon, runs = 1.0, 400
    p = np.exp(epsilon) / (1 + np.exp(epsilon))
    heads, other = rng.binomial(runs, p, size=3000), rng.binomial(runs, 1 - p, size=3000)
    bounds = np.array([bound(a, b, runs, "pure") for a, b in zip(heads, other, strict=True)])
    assert bounds.max() <= epsilon
    assert bounds.mean() > 0.4


def test_renyi_against_its_definition() -> None:
    assert renyi(0.5, 0.5, 2.0) == pytest.approx(0.0)
    assert renyi(0.9, 0.1, 2.0) == pytest.approx(np.log(0.81 / 0.1 + 0.01 / 0.9))
    assert renyi(0.7, 0.3, 1.0001) == pytest.approx(0.7 * np.log(7 / 3) + 0.3 * np.log(3 / 7), rel=1e-3)
