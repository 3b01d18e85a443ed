"""Exact losses, conversions against dp-accounting and closed forms, and plain words."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from functools import partial

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tabularium.mechanisms import accounting
from tabularium.mechanisms.accounting import (
    PrivacyLoss,
    epsilon_at,
    epsilon_within,
    exact_amount,
    group_size,
    membership_bound,
    reading,
    spent,
    value_bound,
)
from tabularium.mechanisms.accounting.conversion import zcdp_epsilon
from tabularium.mechanisms.accounting.transcript import Event
from tabularium.mechanisms.channel import SecureChannel, SeededChannel
from tabularium.mechanisms.errors import LedgerError, MechanismError, TabulariumError

AMOUNTS = st.fractions(min_value=Fraction(1, 10**9), max_value=100, max_denominator=10**9)


planned_epsilon = partial(epsilon_at, fixed_plan=True)


def event(primitive: str, scale_squared: Fraction | int, sensitivity: int = 1) -> Event:
    made = Event(
        primitive=primitive,  # type: ignore[arg-type]
        loss=Fraction(1),
        definition="zcdp",
        sensitivity=Fraction(sensitivity),
        scale_squared=Fraction(scale_squared),
        shape=(1,),
        purpose="x",
    )
    return replace(made, loss=made.rho)


@pytest.mark.parametrize("charge", [Fraction(1, 3), Fraction("0.1")])
def test_a_hundred_thousand_losses_add_up_exactly(charge: Fraction) -> None:
    total = PrivacyLoss(Fraction(0))
    for _ in range(100_000):
        total += PrivacyLoss(charge)
    assert total.amount == 100_000 * charge


@given(AMOUNTS, st.integers(1, 50), st.sampled_from(["pure", "zcdp"]))
def test_group_privacy_there_and_back(amount: Fraction, group: int, definition: str) -> None:
    unit = PrivacyLoss(amount, definition)  # type: ignore[arg-type]
    record = unit.for_record(group)
    assert record.for_unit(group) == unit
    assert record.amount == amount / (group if definition == "pure" else group**2)


def test_group_sizes() -> None:
    assert (group_size(1), group_size(3), group_size(1, "replace"), group_size(3, "replace")) == (1, 3, 2, 6)
    for wrong in (0, -1):
        with pytest.raises(MechanismError):
            group_size(wrong)


def test_losses_of_two_kinds_do_not_add() -> None:
    pure = PrivacyLoss(Fraction(1, 2))
    with pytest.raises(MechanismError, match="do not add"):
        pure + PrivacyLoss(Fraction(1), "zcdp")
    assert (pure.as_zcdp() + PrivacyLoss(Fraction(1), "zcdp")).amount == Fraction(9, 8)
    assert pure.as_dict() == {"definition": "pure", "amount": "1/2"}


@pytest.mark.parametrize("text", ["1/3", "0.1", 2, Fraction(5, 7), "1e-3"])
def test_exact_amounts(text: str | int | Fraction) -> None:
    assert exact_amount(text) == Fraction(text)


@pytest.mark.parametrize("text", [0.1, True, None, "", "a", "1/0", "nan", "inf"])
def test_inexact_amounts(text: object) -> None:
    with pytest.raises(MechanismError, match="budget"):
        exact_amount(text)  # type: ignore[arg-type]


@given(AMOUNTS)
def test_the_pure_part_of_a_rho(rho: Fraction) -> None:
    epsilon = epsilon_within(rho)
    assert epsilon**2 / 2 <= rho
    assert float(epsilon) >= math.sqrt(2 * float(rho)) * (1 - 1e-11)


# --- zCDP to (ε, δ) ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [1e-6, 1e-3, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_zcdp_against_dp_accounting_and_closed_forms(rho: float, delta: float) -> None:
    found = zcdp_epsilon(rho, delta)
    # Bun & Steinke 2016, Proposition 1.3: never better than the search
    assert found <= rho + 2 * math.sqrt(rho * math.log(1 / delta)) + 1e-12
    # no better than the exact privacy of the Gaussian mechanism with that ρ (Balle & Wang 2018)
    mu = math.sqrt(2 * rho)
    gaussian = stats.norm.cdf(mu / 2 - found / mu) - math.exp(found) * stats.norm.cdf(-mu / 2 - found / mu)
    assert gaussian <= delta * (1 + 1e-9)
    accountant = dp_accounting.rdp.RdpAccountant(orders=[1 + 1.02**k / 100 for k in range(1000)])
    accountant.compose(dp_accounting.ZCDpEvent(rho))
    assert found <= accountant.get_epsilon(delta) * (1 + 1e-9)
    assert found >= accountant.get_epsilon(delta) * (1 - 1e-2)


def test_zcdp_at_the_ends() -> None:
    assert zcdp_epsilon(0.0, 1e-6) == 0.0
    assert zcdp_epsilon(1.0, 0.0) == math.inf


# --- transcripts ------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [Fraction(1), Fraction(10), Fraction(3, 2)])
def test_one_laplace_draw_against_the_closed_form(scale: Fraction) -> None:
    """δ(ε) = Σ max(0, P(z) - e^ε P(z - 1)) over the integers; the bound for that δ is ε."""
    events = [event("discrete_laplace", scale**2)]
    p = math.exp(-1 / scale)
    z = np.arange(-2000, 2001)
    here, there = ((1 - p) / (1 + p) * p ** np.abs(z - shift) for shift in (0, 1))
    for epsilon in (0.3 / float(scale), 0.9 / float(scale)):
        delta = np.maximum(here - math.exp(epsilon) * there, 0).sum()
        assert epsilon * (1 - 1e-9) <= planned_epsilon(events, delta) <= epsilon + 1e-3
    assert planned_epsilon(events, 0.0) == pytest.approx(float(1 / scale), rel=1e-15)


@pytest.mark.parametrize("primitive", ["gaussian", "discrete_gaussian"])
def test_one_gaussian_draw_against_the_closed_form(primitive: str) -> None:
    """Balle & Wang 2018, equation 6; and the sum over the integers."""
    sigma, delta = 3.0, 1e-6
    found = planned_epsilon([event(primitive, 9)], delta)
    assert found < zcdp_epsilon(1 / 18, delta)
    if primitive == "gaussian":
        tails = stats.norm.cdf(np.array([0.5, -0.5]) / sigma - found * sigma)
        exact = tails[0] - math.exp(found) * tails[1]
    else:
        z = np.arange(-200, 201)
        here, there = (np.exp(-((z - shift) ** 2) / 18) for shift in (1, 0))
        exact = np.maximum(here - math.exp(found) * there, 0).sum() / there.sum()
    assert exact == pytest.approx(delta, rel=1e-3)


def test_a_mixed_list_against_dp_accounting() -> None:
    events = [
        *[event("discrete_laplace", 100)] * 20,
        *[event("laplace", 400)] * 5,
        *[event("discrete_gaussian", 64)] * 3,
        event("gaussian", 49),
    ]
    parts = [
        pld.from_discrete_laplace_mechanism(0.1).self_compose(20),
        pld.from_laplace_mechanism(20).self_compose(5),
        pld.from_discrete_gaussian_mechanism(8).self_compose(3),
        pld.from_gaussian_mechanism(7),
    ]
    together = parts[0]
    for part in parts[1:]:
        together = together.compose(part)
    for delta in (1e-3, 1e-6, 1e-9):
        assert planned_epsilon(events, delta) == pytest.approx(
            together.get_epsilon_for_delta(delta), rel=2e-3
        )


def test_composition_is_tighter_than_the_sum_and_never_above_it() -> None:
    channel = SeededChannel(1, seed=1)
    for _ in range(100):
        channel.laplace([0], "1/100", purpose="x")
    assert planned_epsilon(channel.transcript, 0.0) == 1.0
    assert 0.2 < planned_epsilon(channel.transcript, 1e-6) < 0.5
    assert planned_epsilon(channel.transcript[:1], 1e-9) <= 0.01


def test_groups_of_records() -> None:
    for primitive, square in (("discrete_laplace", 100), ("discrete_gaussian", 100)):
        one, three = (planned_epsilon([event(primitive, square)], 1e-9, group=group) for group in (1, 3))
        assert 2 * one < three < 4 * one
    assert planned_epsilon([event("discrete_laplace", 100)], 0.0, group=3) == pytest.approx(0.3, rel=1e-15)
    assert planned_epsilon([event("lattice_gaussian", 100)], 1e-6, group=3) == pytest.approx(
        zcdp_epsilon(9 / 200, 1e-6)
    )


def test_choices_and_lattices_have_a_bound() -> None:
    choice = event("permute_and_flip", 16)  # ε = 1/2
    assert planned_epsilon([choice], 1e-9) == pytest.approx(0.5, abs=1e-3)
    wide = event("lattice_laplace", 10**14, 10**6)  # ε = 1/10, a shift of a million steps
    assert planned_epsilon([wide], 1e-9) == pytest.approx(0.1, abs=1e-3)
    several = [event("lattice_gaussian", 100)] * 4
    assert planned_epsilon(several, 1e-6) == pytest.approx(zcdp_epsilon(4 / 200, 1e-6))


def test_a_parallel_scope_counts_once() -> None:
    channel = SeededChannel(1, seed=1)
    with channel.parallel("1/2", cells=3, purpose="scope") as scope:
        for part in range(3):
            scope.branch([part]).laplace([0], "1/2", purpose="x")
    alone = [event("discrete_laplace", 4)]
    for delta in (0.0, 1e-3, 1e-6):
        assert planned_epsilon(channel.transcript, delta) == pytest.approx(planned_epsilon(alone, delta))
    assert spent(channel.transcript) == Fraction(1, 2)


def test_a_scope_of_unlike_branches_counts_as_its_dearest() -> None:
    channel = SeededChannel(1, seed=1)
    with channel.parallel("1/2", cells=2, purpose="scope") as scope:
        scope.branch([0]).laplace([0], "1/3", purpose="x")
        scope.branch([1]).pick([0, 1], "1/2", purpose="y")
    assert planned_epsilon(channel.transcript, 0.0) == 0.5
    assert planned_epsilon(channel.transcript, 1e-9) == pytest.approx(0.5, abs=1e-3)


@settings(max_examples=8, deadline=None)
@given(st.integers(1, 30), st.integers(1, 20))
def test_bounds_fall_with_delta(scale: int, times: int) -> None:
    events = [event("discrete_laplace", scale**2)] * times
    epsilons = [planned_epsilon(events, delta) for delta in (0.0, 1e-9, 1e-6, 1e-3)]
    assert epsilons == sorted(epsilons, reverse=True)


def test_a_plan_that_follows_what_was_drawn_is_worth_its_budget() -> None:
    """A hundred draws of ε/100 compose to less only if nothing that was drawn could have changed them."""
    channel = SeededChannel(1, seed=1)
    for _ in range(100):
        channel.laplace([0], "1/100", purpose="x")
    for delta in (0.0, 1e-9, 1e-6, 1e-2):
        assert epsilon_at(channel.transcript, delta) == min(1.0, zcdp_epsilon(0.5, delta))
    assert epsilon_at(channel.transcript, 0.0, group=3) == 3.0


def test_pure_and_concentrated_releases_together() -> None:
    pure, concentrated = SeededChannel("1/4", seed=1), SeededChannel("1/50", seed=2, definition="zcdp")
    pure.laplace([0], "1/4", purpose="x")
    concentrated.gaussian([0], "1/100", purpose="y")
    concentrated.pick([0, 1], "1/10", purpose="z")
    both = [*pure.transcript, *concentrated.transcript]
    rho, delta = 3 / 200, 1e-6
    expected = min(0.25 + zcdp_epsilon(rho, delta), zcdp_epsilon(rho + 1 / 32, delta))
    assert epsilon_at(both, delta) == pytest.approx(expected, rel=1e-12)
    assert epsilon_at(both, 0.0) == math.inf


def test_scopes_of_two_releases_are_two_scopes() -> None:
    """Joined transcripts: the second release's scope 0 is not the first's."""
    joined = []
    for channel in (SecureChannel(1), SecureChannel(1)):
        with channel.parallel(1, cells=2, purpose="scope") as scope:
            for part in range(2):
                scope.branch([part]).laplace([0], 1, purpose="x")
        joined += channel.transcript
    assert spent(joined) == 2
    assert epsilon_at(joined, 0.0) == 2.0
    assert epsilon_at(joined, 0.0, fixed_plan=True) == 2.0


def test_wrong_deltas() -> None:
    with pytest.raises(MechanismError, match="delta"):
        planned_epsilon([], 1.0)
    assert planned_epsilon([], 1e-6) == 0.0


# --- reading ----------------------------------------------------------------------------------------


def test_reading_in_odds() -> None:
    for prior in (0.01, 0.5, 0.9):
        for epsilon in (0.0, 0.1, 1.0, 5.0):
            presence = membership_bound(prior, epsilon)
            odds = presence / (1 - presence) / (prior / (1 - prior))
            assert odds == pytest.approx(math.exp(epsilon))
            assert value_bound(prior, epsilon) == pytest.approx(membership_bound(prior, 2 * epsilon))


def test_randomised_response_reaches_the_bound() -> None:
    """Someone's bit is told truthfully with probability e^ε/(1+e^ε): Bayes gives the bound exactly."""
    epsilon, prior = 1.3, 0.2
    true = math.exp(epsilon) / (1 + math.exp(epsilon))
    posterior = prior * true / (prior * true + (1 - prior) * (1 - true))
    assert posterior == pytest.approx(membership_bound(prior, epsilon))


def test_reading_at_the_ends() -> None:
    assert membership_bound(0.0, 10.0) == 0.0
    assert membership_bound(1.0, 0.0) == 1.0
    assert value_bound(0.1, 1e6) == 1.0
    assert value_bound(0.0, 1e6) == 0.0
    with pytest.raises(MechanismError):
        membership_bound(1.5, 1.0)
    text = " ".join(reading(Fraction(1), unit="household"))
    assert "10 %" in text
    assert "23.2 %" in text  # membership
    assert "45.1 %" in text  # value, 45.09
    assert "with and without this one household" in text
    assert "go together can learn more" in text
    assert "10.1 %" in reading(0.0001)[0]  # 10.0009: rounded up, after "at most"
    assert "household" in text
    assert "almost 100 %" in " ".join(reading(50))


# --- house ------------------------------------------------------------------------------------------


def test_the_ledger_finds_its_errors_here() -> None:
    assert accounting.LedgerError is LedgerError
    assert accounting.TabulariumError is TabulariumError
    assert all(hasattr(accounting, name) for name in accounting.__all__)


def test_importing_accounting_is_cheap() -> None:
    code = "import sys, tabularium.mechanisms.accounting; "
    code += "print(sorted({'numpy', 'scipy', 'dp_accounting'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
