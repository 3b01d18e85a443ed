"""What a release promises to one privacy unit, as numbers and in plain words; only what holds is said.

Under pure ε the odds of anything about a unit move by a factor e^ε at most, which gives a bound on what an
attacker may come to believe. Concentrated privacy gives no such bound: what it bounds is how well any test
can tell two neighbouring data sets apart. From (ε, δ) for every δ follows that a test that is wrong with
probability a where the unit is absent finds a present one with probability at most

    min over δ of  min( e^ε a + δ,  1 - e^-ε (1 - a - δ) )

(Kairouz, Oh, Viswanath 2015, Theorem 2.1: both inequalities hold for every (ε, δ)).
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from mechanisms.accounting import Event, epsilon_at, membership_bound, reading
from mechanisms.accounting.conversion import zcdp_epsilon
from validations.spec.model import Privacy, ReleaseSpec

FIXED_PLANS = frozenset({"identity", "cells", "gaussian"})
"""Mechanisms whose every draw is settled before the first: only of these may the events be composed."""

FALSE_ALARM = Fraction(1, 20)
PRIOR = 0.1


def unit_epsilon(spec: ReleaseSpec, events: list[Event], delta: Fraction) -> float:
    """Return an ε such that the release is (ε, δ)-differentially private for one unit, under zcdp.

    What the channel was opened with is converted. Where every draw was settled beforehand, the events are
    composed as well and the smaller is taken.
    """
    bounds = [rho_epsilon(spec.privacy.budget, delta)]
    if not spec.histograms and all(table.mechanism in FIXED_PLANS for table in spec.tables):
        group = spec.privacy.changed_records
        bounds.append(epsilon_at(events, float(delta), group=group, fixed_plan=True))
    return min(bounds)


def rho_epsilon(rho: Fraction, delta: Fraction) -> float:
    """Return an ε such that ρ-zCDP implies (ε, δ)."""
    return zcdp_epsilon(math.nextafter(float(rho), math.inf), math.nextafter(float(delta), 0))


def best_test(rho: Fraction, false_alarm: float) -> float:
    """Return how often a test at most succeeds that tells neighbouring data sets apart under ρ-zCDP."""
    best = 1.0
    for step in range(1, 61):
        delta = Fraction(1, 2**step)
        epsilon = rho_epsilon(rho, delta)
        if epsilon < 700:
            best = min(best, math.exp(epsilon) * false_alarm + float(delta))
        best = min(best, 1 - math.exp(-epsilon) * (1 - false_alarm - float(delta)))
    return min(1.0, max(best, false_alarm))


def promise(privacy: Privacy) -> list[str]:
    """Return what the guarantee means, as sentences for a reader without mathematics."""
    unit = privacy.unit.called
    if privacy.definition == "zcdp":
        return _of_tests(privacy, unit)
    if privacy.relation == "add-remove":
        return reading(privacy.budget, unit=unit, prior=PRIOR)
    after = membership_bound(PRIOR, float(privacy.budget))
    return [
        f"Whoever knew that a certain {unit} was in the data and gave a certain value of theirs a "
        f"probability of {_percent(PRIOR)} can be at most {_percent(after)} sure of that value afterwards.",
        "How many there are in the data is taken to be known: nothing is promised about whether somebody is "
        "in them.",
        "This holds whatever else they know, now or later, and however much they compute.",
        f"It compares the release with the one that other values of this one {unit} would have given, all "
        "others unchanged: who believes that several of them go together can learn more.",
    ]


def _of_tests(privacy: Privacy, unit: str) -> list[str]:
    alarm = float(FALSE_ALARM)
    found = _percent(best_test(privacy.budget, alarm))
    if privacy.relation == "add-remove":
        first = (
            f"Whoever tries to tell from this release whether a certain {unit} is in the data, and says so "
            f"wrongly in at most {_percent(alarm)} of the cases where it is not, says so rightly in at most "
            f"{found} of the cases where it is."
        )
    else:
        first = (
            f"Whoever tries to tell from this release which of two values a certain {unit} has, and takes "
            f"the first for the second in at most {_percent(alarm)} of all cases, recognises the second in "
            f"at most {found} of all cases."
        )
    return [
        first,
        "This holds whatever else they know, now or later, and however much they compute.",
        f"It compares the release with and without this one {unit}, all others unchanged: who believes that "
        "several of them go together can learn more."
        if privacy.relation == "add-remove"
        else f"It compares two values of this one {unit}, all others unchanged: who believes that several of "
        "them go together can learn more.",
        "Concentrated differential privacy bounds what tests can tell. Of how sure someone may become it "
        "gives no bound that holds without exception.",
    ]


def _percent(probability: float) -> str:
    """Return three digits, rounded up: the number follows "at most"."""
    if probability <= 0:
        return "0 %"
    digits = 2 - math.floor(math.log10(100 * probability))
    shown = math.ceil(100 * probability * 10**digits - 1e-9) / 10**digits
    return "almost 100 %" if shown >= 100 else f"{shown:g} %"


def privacy_numbers(spec: ReleaseSpec, events: list[Event], deltas: list[Fraction]) -> dict[str, Any]:
    """Return the privacy part of a certificate, without the terms of the account.

    Parameters
    ----------
    events
        Everything that was drawn for the release.
    deltas
        At which ε is reported, under zcdp.
    """
    privacy = spec.privacy
    numbers: dict[str, Any]
    if privacy.definition == "pure":
        numbers = {"epsilon": str(privacy.budget), "epsilon_per_record": str(privacy.record_budget)}
    else:
        numbers = {
            "rho": str(privacy.budget),
            "rho_per_record": str(privacy.record_budget),
            "epsilon_delta": [
                {"epsilon": unit_epsilon(spec, events, delta), "delta": str(delta)}
                for delta in dict.fromkeys(deltas)
            ],
        }
    return {**numbers, "reading": promise(privacy)}
