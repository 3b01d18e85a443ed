"""The terms that an account may have: one judge for who opens or changes it, and for who reads the chain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Literal

from tabularium.ledger import amounts
from tabularium.ledger.names import check_label, day, one_of
from tabularium.ledger.records import DEFINITIONS, MOST_APPROVALS, RELATIONS, SYMBOLS, Terms
from tabularium.ledger.refusals import BadAmount, BadValue, UnitMismatch
from tabularium.mechanisms.accounting import PrivacyLoss


def validate_terms(terms: Terms) -> Terms:
    """Return terms whose values are of the right kind and fit one another, amounts as exact fractions.

    The account's name and its unit never change.

    Raises ``BadAmount`` if the quantum is not 1/q, a cap is not a positive multiple of it, or δ is missing,
    needless or not below one. Raises ``BadValue`` if a word is none of those there are, a day is none, the
    account would close before it opens, or no such number of officers can be asked for.
    """
    step = amounts.quantum(terms.quantum)
    merged = replace(
        terms,
        relation=one_of(terms.relation, RELATIONS, field="relation"),
        definition=one_of(terms.definition, DEFINITIONS, field="definition"),
        cap=amounts.multiple(terms.cap, step, field="cap"),
        quantum=step,
        cap_per_period=_cap(terms.cap_per_period, step, "cap_per_period"),
        cap_per_product=_cap(terms.cap_per_product, step, "cap_per_product"),
        delta=_delta(terms.delta, terms.definition),
        opens_on=_day(terms.opens_on, "opens_on"),
        closes_on=_day(terms.closes_on, "closes_on"),
        needs_approval=_truth(terms.needs_approval, "needs_approval"),
        approve_exact=_truth(terms.approve_exact, "approve_exact"),
        approvals=_officers(terms.approvals, 1, "approvals"),
        approvals_by_product=_by_product(dict(terms.approvals_by_product), terms.approvals),
    )
    if merged.opens_on is not None and merged.closes_on is not None and merged.closes_on < merged.opens_on:
        raise BadValue("is before opens_on", where="closes_on", hint="give a later day")
    return merged


def raised(before: Terms, approvals: int, by_product: Mapping[str, int]) -> Terms:
    """Return terms with more officers who must sign; products that ask for no more are left out.

    Raises ``BadValue`` if it would be fewer for any product.
    """
    for number in (approvals, *by_product.values()):
        _officers(number, 1, "approvals")
    kept = {name: number for name, number in before.approvals_by_product if number > approvals}
    after = replace(before, approvals=approvals, approvals_by_product=tuple((kept | {**by_product}).items()))
    lowered = before.lowered(after)
    if lowered is not None:
        raise fewer_officers(lowered)
    return validate_terms(after)


def fewer_officers(where: str) -> BadValue:
    """Return the refusal of terms that would let fewer officers sign."""
    return BadValue("can be raised, not lowered", where=where, hint="open another account, with its own cap")


def require_same_units(
    terms: Terms,
    amount: Fraction,
    unit: str | None,
    relation: str | None,
    definition: str | None,
    population: str | None = None,
) -> None:
    """Refuse a charge whose unit, relation … (``None``: the account's) is not the account's.

    What is suggested instead: an ε-DP release is ε²/2-zCDP (Bun and Steinke 2016, Proposition 1.4), and no ρ
    is any pure ε. What protects against adding or removing a unit at ε protects against replacing one at 2ε
    (4ρ under zCDP), and not the other way: under ``replace`` the number of units is public. What protects one
    record at ε protects a unit of at most c records at cε (c²ρ); the ledger does not know c.

    Raises ``UnitMismatch``, naming what differs, and the conversion that would make the charge fit.
    """
    asked = {"unit": unit, "relation": relation, "definition": definition, "population": population}
    there = {name: getattr(terms, name) for name in asked}
    differing = [name for name, value in asked.items() if value is not None and value != there[name]]
    if not differing:
        return
    what = ", ".join(
        f"the charge's {name} is {asked[name]}, the account's {there[name]}" for name in differing
    )
    raise UnitMismatch(what, where=f"account {terms.name}", hint=_conversion(terms, amount, asked, differing))


def _conversion(terms: Terms, amount: Fraction, asked: dict[str, str | None], differing: list[str]) -> str:
    if "population" in differing:
        return "what one population loses is no charge for another: charge an account of that population"
    if "definition" in differing and terms.definition == "pure":
        return "no ρ implies a pure ε: charge an account with definition zcdp, or release under pure ε"
    if "relation" in differing and terms.relation == "add-remove":
        return (
            "protection under replace implies none under add-remove: charge an account with relation replace,"
            " or release under add-remove"
        )
    definition: Literal["pure", "zcdp"] = (
        "zcdp" if (asked["definition"] or terms.definition) == "zcdp" else "pure"
    )
    loss = PrivacyLoss(amount, definition)
    if "relation" in differing:
        loss = loss.for_unit(2)
    if "definition" in differing:
        loss = loss.as_zcdp()
    rounded = ceil(loss.amount / terms.quantum) * terms.quantum
    charge = f"{SYMBOLS[terms.definition]} = {amounts.format_amount(rounded)}"
    if "unit" in differing:
        times = "c²" if terms.definition == "zcdp" else "c"
        return (
            f"charge {times} times {charge}, where one {terms.unit} has at most c of the unit {asked['unit']}"
            f", or open an account with unit {asked['unit']}"
        )
    return f"charge {charge}, which is what it implies here"


def _officers(value: object, least: int, where: str) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and least <= value <= MOST_APPROVALS:
        return value
    raise BadValue(
        f"is not a whole number from {least} to {MOST_APPROVALS}",
        where=where,
        hint="say how many officers must sign; a product is named only if it asks for more than its account",
    )


def _by_product(numbers: Mapping[str, int], approvals: int) -> tuple[tuple[str, int], ...]:
    field = "approvals_by_product"
    names_of_all = [check_label(name, field=field) for name in sorted(numbers)]
    return tuple((name, _officers(numbers[name], approvals + 1, field)) for name in names_of_all)


def _truth(value: object, field: str) -> bool:
    if not isinstance(value, bool):
        raise BadValue("is not true or false", where=field, hint="give one of them")
    return value


def _day(value: str | None, field: str) -> str | None:
    return None if value is None else day(value, field=field)


def _cap(value: Fraction | None, quantum: Fraction, field: str) -> Fraction | None:
    return None if value is None else amounts.multiple(value, quantum, field=field)


def _delta(value: Fraction | None, definition: str) -> Fraction | None:
    if (definition == "zcdp") != (value is not None):
        raise BadAmount(
            "is needed for zcdp, and only for zcdp", where="delta", hint="give it with definition zcdp"
        )
    if value is None:
        return None
    delta = amounts.positive(value, field="delta")
    if delta >= 1:
        raise BadAmount("is not below one", where="delta", hint="give one such as 1/1000000")
    return delta
