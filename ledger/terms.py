"""The terms that an account may have: one judge for who opens or changes it, and for who reads the chain."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from tabularium.ledger import amounts, names
from tabularium.ledger.records import DEFINITIONS, RELATIONS, Terms
from tabularium.ledger.refusals import BadAmount, BadValue


def agreed(terms: Terms) -> Terms:
    """Return terms whose values are of the right kind and fit one another, amounts as exact fractions.

    The account's name and its unit are for whoever writes or reads them to judge: they never change.

    Raises
    ------
    BadAmount
        If the quantum is not 1/q, a cap is not a positive multiple of it, or δ is missing, needless or not
        below one.
    BadValue
        If a word is none of those there are, a day is none, or the account would close before it opens.
    """
    step = amounts.quantum(terms.quantum)
    found = replace(
        terms,
        relation=names.one_of(terms.relation, RELATIONS, field="relation"),
        definition=names.one_of(terms.definition, DEFINITIONS, field="definition"),
        cap=amounts.multiple(terms.cap, step, field="cap"),
        quantum=step,
        cap_per_period=_cap(terms.cap_per_period, step, "cap_per_period"),
        cap_per_product=_cap(terms.cap_per_product, step, "cap_per_product"),
        delta=_delta(terms.delta, terms.definition),
        opens_on=_day(terms.opens_on, "opens_on"),
        closes_on=_day(terms.closes_on, "closes_on"),
        needs_approval=_truth(terms.needs_approval, "needs_approval"),
        approve_exact=_truth(terms.approve_exact, "approve_exact"),
    )
    if found.opens_on is not None and found.closes_on is not None and found.closes_on < found.opens_on:
        raise BadValue("is before opens_on", where="closes_on", mend="give a later day")
    return found


def _truth(value: object, field: str) -> bool:
    if not isinstance(value, bool):
        raise BadValue("is not true or false", where=field, mend="give one of them")
    return value


def _day(value: str | None, field: str) -> str | None:
    return None if value is None else names.day(value, field=field)


def _cap(value: Fraction | None, quantum: Fraction, field: str) -> Fraction | None:
    return None if value is None else amounts.multiple(value, quantum, field=field)


def _delta(value: Fraction | None, definition: str) -> Fraction | None:
    if (definition == "zcdp") != (value is not None):
        raise BadAmount(
            "is needed for zcdp, and for zcdp alone", where="delta", mend="give it with definition zcdp"
        )
    if value is None:
        return None
    delta = amounts.positive(value, field="delta")
    if delta >= 1:
        raise BadAmount("is not below one", where="delta", mend="give one such as 1/1000000")
    return delta
