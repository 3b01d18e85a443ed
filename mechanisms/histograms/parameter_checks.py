"""Checks of the parameters that a release spec gives a mechanism. Each names the field and the hint."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from tabularium.mechanisms.accounting import exact_amount
from tabularium.mechanisms.errors import MechanismError


def exact_number(value: Any, where: str, *, called: str, hint: str) -> Fraction:
    """Return a number from ``"1/3"``, ``"0.1"``, an integer or a fraction; never from a float."""
    try:
        return exact_amount(value)
    except MechanismError as error:
        raise MechanismError(error.what.replace("a budget", called), where=where, hint=hint) from None


def share_of_budget(value: Any, where: str, *, zero: bool = False) -> Fraction:
    """Return a share strictly between 0 and 1, or, with ``zero``, from 0."""
    hint = 'write a share between 0 and 1 as text, such as "1/2" or "0.9"'
    share = exact_number(value, where, called="a share", hint=hint)
    if not 0 < share < 1 and not (zero and share == 0):
        raise MechanismError("a share of the budget lies between 0 and 1", where=where, hint=hint)
    return share


def one_of(value: Any, choices: Sequence[str], where: str) -> str:
    """Return one of the texts that a field may hold."""
    if not isinstance(value, str) or value not in choices:
        raise MechanismError("there is no such choice", where=where, hint=f"use {' or '.join(choices)}")
    return value


def whole_number(value: Any, least: int, most: int, where: str) -> int:
    """Return an integer within its bounds; not a float, a text or a truth value."""
    hint = f"give a whole number from {least} to {most}"
    if isinstance(value, bool) or not isinstance(value, int):
        raise MechanismError(
            f"this must be a whole number, not {type(value).__name__}", where=where, hint=hint
        )
    if not least <= value <= most:
        raise MechanismError("this number is out of bounds", where=where, hint=hint)
    return value


def switch(value: Any, where: str) -> bool:
    """Return a truth value; not a number and not a text."""
    if not isinstance(value, bool):
        raise MechanismError(
            f"this must be true or false, not {type(value).__name__}", where=where, hint="use true or false"
        )
    return value
