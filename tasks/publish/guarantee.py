"""The guarantee of a release for one privacy unit, as numbers and in plain words.

Under pure ε the odds of anything about a unit move by a factor e^ε at most, which gives a bound on what an
attacker may come to believe. Concentrated privacy gives no such bound: what it bounds is how well any test
can tell two neighbouring data sets apart. From (ε, δ) for every δ follows that a test that is wrong with
probability a where the unit is absent finds a present one with probability at most

    min over δ of  min( e^ε a + δ,  1 - e^-ε (1 - a - δ) )

(Kairouz, Oh, Viswanath 2015, Theorem 2.1: both inequalities hold for every (ε, δ)).
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any

from tabularium.mechanisms.accounting import RESTS_ON, Event, epsilon_at, membership_bound, reading
from tabularium.mechanisms.accounting.conversion import zcdp_epsilon
from tabularium.validations import certificate as schema
from tabularium.validations.release_spec.exact_facts import Neighbours
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.privacy import Privacy

FIXED_PLANS = frozenset({"identity", "cells", "gaussian", "bounded_sums"})
"""Mechanisms whose every draw is settled before the first: only of these may the events be composed."""

GIVEN = (
    "What follows compares neighbouring inputs that both satisfy the exact rules, limits and invariants that "
    "are listed as outside the guarantee."
)
FALSE_ALARM = Fraction(1, 20)
PRIOR = 0.1


def settled_beforehand(spec: ReleaseSpec) -> bool:
    """Whether every draw was fixed before the first, so that draws may be composed one by one."""
    return not spec.histograms and all(table.mechanism in FIXED_PLANS for table in spec.tables)


def unit_epsilon(spec: ReleaseSpec, events: list[Event], delta: Fraction) -> float:
    """Return an ε such that the release is (ε, δ)-differentially private for one unit, under zcdp.

    What the channel was opened with is converted. Where every draw was settled beforehand, the events are
    composed as well and the smaller is taken.
    """
    bounds = [rho_epsilon(spec.privacy.budget, delta)]
    if settled_beforehand(spec):
        group = spec.privacy.changed_records
        bounds.append(epsilon_at(events, float(delta), group=group, fixed_plan=True))
    return min(bounds)


def rho_epsilon(rho: Fraction, delta: Fraction) -> float:
    """Return an ε such that ρ-zCDP implies (ε, δ)."""
    return zcdp_epsilon(math.nextafter(float(rho), math.inf), math.nextafter(float(delta), 0))


def best_test(rho: Fraction, false_alarm: float) -> float:
    """Return the largest power of a test between neighbouring data sets under ρ-zCDP."""
    best = 1.0
    for step in range(1, 61):
        delta = Fraction(1, 2**step)
        epsilon = rho_epsilon(rho, delta)
        if epsilon < 700:
            best = min(best, math.exp(epsilon) * false_alarm + float(delta))
        best = min(best, 1 - math.exp(-epsilon) * (1 - false_alarm - float(delta)))
    return min(1.0, max(best, false_alarm))


def promise(privacy: Privacy, near: Neighbours) -> list[str]:
    """Return the meaning of the guarantee, as sentences for a reader without mathematics.

    ``near``: which inputs are compared, the exact facts being taken as known.
    """
    unit = privacy.unit.called
    sentences = [GIVEN, *([] if near.fixed is None else _fixed(privacy, near, unit))]
    if near.units == 0:
        return sentences
    if near.loss.definition == "zcdp":
        return sentences + _of_tests(near, unit)
    if near.change == "add-remove":
        return sentences + reading(near.loss.amount, unit=unit, prior=PRIOR)
    return sentences + _of_values(near, unit)


TOTALS = (
    " Only totals and invariants are considered here: exact rules about columns may leave no change so small."
)


def _fixed(privacy: Privacy, near: Neighbours, unit: str) -> list[str]:
    """Return what a fixed total tells before any number is read."""
    cost = f"{privacy.symbol} = {near.loss.amount}"
    if near.units == 0:
        return [
            "The invariants fix every number that the tables count. No other input satisfies them, so there "
            f"is nothing that {privacy.symbol} protects in these tables."
        ]
    if near.units is None:
        return [
            f"They fix a total, so that no {unit} can be added or removed. How many units the smallest "
            "change replaces that keeps all invariants cannot be stated, because a unit may have several "
            "records. What follows is for one unit that is replaced by another, where that keeps them, which "
            f"costs {cost}."
        ]
    if near.units > 1:
        return [
            f"They fix totals, so that no {unit} can be added, removed or replaced by itself: the smallest "
            f"change that keeps all invariants replaces {near.units} at once, which costs {cost}.{TOTALS}"
        ]
    counted = " in the same cells of the invariants" if near.fixed == "marginals" else ""
    sentences = (
        f"They fix a total, so that no {unit} can be added or removed: what is compared is one {unit} "
        f"replaced by another{counted}, which costs {cost}."
    )
    if counted:
        sentences += " To change a value that an invariant counts, another record must change with it."
    return [sentences + TOTALS]


def _of_values(near: Neighbours, unit: str) -> list[str]:
    after = _percent(membership_bound(PRIOR, float(near.loss.amount)))
    if near.units is not None and near.units > 1:
        first = (
            f"Anyone who gave one of two inputs that differ so a probability of {_percent(PRIOR)} can be at "
            f"most {after} sure of it afterwards."
        )
    else:
        first = (
            f"Anyone who knew that a certain {unit} was in the data and gave a certain value of theirs a "
            f"probability of {_percent(PRIOR)} can be at most {after} sure of that value afterwards."
        )
    return [
        first,
        "How many there are in the data is taken to be known: nothing is promised about whether somebody is "
        "in them.",
        RESTS_ON,
        _others(near, unit),
    ]


def _of_tests(near: Neighbours, unit: str) -> list[str]:
    alarm = float(FALSE_ALARM)
    power = _percent(best_test(near.loss.amount, alarm))
    if near.change == "add-remove":
        first = (
            f"Anyone who tries to tell from this release whether a certain {unit} is in the data, and says "
            f"so wrongly in at most {_percent(alarm)} of the cases where it is not, says so rightly in at "
            f"most {power} of the cases where it is."
        )
    else:
        several = near.units is not None and near.units > 1
        what = (
            "of two inputs that differ so is the true one"
            if several
            else f"of two values a certain {unit} has"
        )
        first = (
            f"Anyone who tries to tell from this release which {what}, and takes the first for the second in "
            f"at most {_percent(alarm)} of all cases, recognises the second in at most {power} of all cases."
        )
    return [
        first,
        RESTS_ON,
        _others(near, unit),
        "Concentrated differential privacy bounds what tests can tell. Of how sure someone may become it "
        "gives no bound that holds without exception.",
    ]


def _others(near: Neighbours, unit: str) -> str:
    if near.change == "add-remove":
        compared = f"the release with and without this one {unit}"
    elif near.units is not None and near.units > 1:
        compared = "two inputs that differ in so many units"
    else:
        compared = f"two values of this one {unit}"
    return (
        f"It compares {compared}, all others unchanged: who believes that several of them go together can "
        "learn more."
    )


def _percent(probability: float) -> str:
    """Return a percentage with three digits, rounded up: it follows "at most"."""
    if probability <= 0:
        return "0 %"
    digits = 2 - math.floor(math.log10(100 * probability))
    shown = math.ceil(100 * probability * 10**digits - 1e-9) / 10**digits
    return "almost 100 %" if shown >= 100 else f"{shown:g} %"


def at_most(loss: float) -> str:
    """Return a bound on a loss with four digits, rounded up."""
    exact = Decimal(loss)
    return f"{float(Context(prec=4, rounding=ROUND_CEILING).plus(exact)):.4g}"


def privacy_section(
    spec: ReleaseSpec,
    near: Neighbours,
    events: list[Event],
    deltas: list[Fraction],
    *,
    population: str,
    conversion: schema.Conversion,
) -> schema.Privacy:
    """Return the privacy section: who is protected, and the guarantee.

    Parameters
    ----------
    events
        Everything that was drawn for the release.
    deltas
        At which ε is reported, under zcdp.
    population
        To which the units belong, as the account says.
    """
    privacy = spec.privacy
    deltas = list(dict.fromkeys(deltas))
    numbers: dict[str, Any]
    if privacy.definition == "pure":
        numbers = {"epsilon": privacy.budget, "epsilon_per_record": privacy.record_budget}
    else:
        numbers = {
            "rho": privacy.budget,
            "rho_per_record": privacy.record_budget,
            "epsilon_delta": tuple(
                schema.AtDelta(epsilon=unit_epsilon(spec, events, delta), delta=delta) for delta in deltas
            ),
        }
    compared = near.as_dict()
    if near.fixed is not None and near.units and near.loss.definition == "zcdp":
        compared["epsilon_delta"] = tuple(
            schema.AtDelta(epsilon=rho_epsilon(near.loss.amount, delta), delta=delta) for delta in deltas
        )
    return schema.Privacy(
        definition=privacy.definition,
        unit=schema.Unit(entity=privacy.unit.entity, population=population, column=privacy.unit.column),
        relation=privacy.relation,
        max_contributions=privacy.max_contributions,
        conversion=conversion,
        **numbers,
        neighbours=schema.Neighbours.model_validate(compared),
        reading=tuple(promise(privacy, near)),
    )
