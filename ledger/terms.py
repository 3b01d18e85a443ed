"""The terms that an account may have: one judge for who opens or changes it, and for who reads the chain."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from tabularium.ledger import amounts, names
from tabularium.ledger.records import DEFINITIONS, MOST_APPROVALS, RELATIONS, Terms
from tabularium.ledger.refusals import BadAmount, BadValue


def validate_terms(terms: Terms) -> Terms:
    """Return terms whose values are of the right kind and fit one another, amounts as exact fractions.

    The account's name and its unit are for whoever writes or reads them to judge: they never change.

    Raises
    ------
    BadAmount
        If the quantum is not 1/q, a cap is not a positive multiple of it, or δ is missing, needless or not
        below one.
    BadValue
        If a word is none of those there are, a day is none, the account would close before it opens, or no
        such number of officers can be asked for.
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
        approvals=_officers(terms.approvals, 1, "approvals"),
        approvals_by_product=_by_product(dict(terms.approvals_by_product), terms.approvals),
    )
    if found.opens_on is not None and found.closes_on is not None and found.closes_on < found.opens_on:
        raise BadValue("is before opens_on", where="closes_on", hint="give a later day")
    return found


def raised(before: Terms, approvals: int, by_product: Mapping[str, int]) -> Terms:
    """Return terms with more officers who must sign; products that ask for no more are left out.

    Raises
    ------
    BadValue
        If it would be fewer for any product.
    """
    for number in (approvals, *by_product.values()):
        _officers(number, 1, "approvals")
    kept = {name: number for name, number in before.approvals_by_product if number > approvals}
    after = replace(before, approvals=approvals, approvals_by_product=tuple((kept | {**by_product}).items()))
    require_no_fewer(before, after)
    return validate_terms(after)


def require_no_fewer(before: Terms, after: Terms) -> None:
    """Refuse terms by which fewer officers would have to sign: one of them could undo the rule alone."""
    lowered = before.lowered(after)
    if lowered is not None:
        raise BadValue(
            "can be raised, not lowered", where=lowered, hint="open another account, with its own cap"
        )


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
    names_of_all = [names.line(name, field=field) for name in sorted(numbers)]
    return tuple((name, _officers(numbers[name], approvals + 1, field)) for name in names_of_all)


def _truth(value: object, field: str) -> bool:
    if not isinstance(value, bool):
        raise BadValue("is not true or false", where=field, hint="give one of them")
    return value


def _day(value: str | None, field: str) -> str | None:
    return None if value is None else names.day(value, field=field)


def _cap(value: Fraction | None, quantum: Fraction, field: str) -> Fraction | None:
    return None if value is None else amounts.multiple(value, quantum, field=field)


def _delta(value: Fraction | None, definition: str) -> Fraction | None:
    if (definition == "zcdp") != (value is not None):
        raise BadAmount(
            "is needed for zcdp, and for zcdp alone", where="delta", hint="give it with definition zcdp"
        )
    if value is None:
        return None
    delta = amounts.positive(value, field="delta")
    if delta >= 1:
        raise BadAmount("is not below one", where="delta", hint="give one such as 1/1000000")
    return delta
