"""Exact amounts of privacy loss: fractions in, ``"n/d"`` text in the ledger, never a float.

Every amount of an account is a whole multiple of the account's quantum ``1/q`` with ``q <= 10**12``, so
that sums of any number of charges stay small fractions and the ledger can never lose a remainder.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from numbers import Rational

from tabularium.ledger.refusals import BadAmount

LARGEST_DENOMINATOR = 10**12
#: Holds thousandths, millionths, thirds, sevenths, elevenths, thirteenths and their products.
DEFAULT_QUANTUM = Fraction(1, 10**6 * 360_360)

_LONGEST_TEXT = 64
_LONGEST_BITS = 256
_TEXT = re.compile(r"[0-9]+(?:/[0-9]+|\.[0-9]+)?")
_STORED = re.compile(r"(0|[1-9][0-9]*)/([1-9][0-9]*)")


def exact(value: object, *, field: str) -> Fraction:
    """Return ``value`` as an exact fraction.

    It takes less than :func:`tabularium.mechanisms.accounting.exact_amount`: no sign, no exponent, nothing
    too long for a ledger, since what it returns is kept for ever and added up.

    ``value``: a ``Fraction``, a whole number, or decimal or fraction text such as ``"0.1"`` or ``"1/3"``.
    ``field``: what the value is, for the error message.

    Raises ``BadAmount``: for truth values, floats (which are never exact budgets), any other kind, malformed
    text, and numbers too long for a ledger.
    """
    if isinstance(value, bool):
        raise BadAmount("is a truth value", where=field, hint="give a Fraction")
    if isinstance(value, float):
        raise BadAmount(
            "is a float, which is not exact", where=field, hint='give a Fraction or text like "1/10"'
        )
    if isinstance(value, str):
        return _from_person(value, field)
    if not isinstance(value, Rational):
        raise BadAmount(f"is of the kind {type(value).__name__}", where=field, hint="give a Fraction")
    numerator, denominator = int(value.numerator), int(value.denominator)
    if max(numerator.bit_length(), denominator.bit_length()) > _LONGEST_BITS:
        raise BadAmount(
            "is too long a fraction", where=field, hint="give a multiple of the account's quantum"
        )
    return Fraction(numerator, denominator)


def positive(value: object, *, field: str) -> Fraction:
    """Return ``value`` as an exact fraction above zero, or raise :class:`BadAmount`."""
    amount = exact(value, field=field)
    if amount <= 0:
        kind = "zero" if amount == 0 else "negative"
        raise BadAmount(f"is {kind}", where=field, hint="give an amount above zero")
    return amount


def multiple(value: object, quantum: Fraction, *, field: str) -> Fraction:
    """Return ``value`` as a positive whole multiple of ``quantum``, or raise :class:`BadAmount`."""
    amount = positive(value, field=field)
    if (amount / quantum).denominator != 1:
        raise BadAmount(
            f"is not a multiple of the account's quantum {text(quantum)}",
            where=field,
            hint="round it up to a multiple, or open the account with a quantum that divides it",
        )
    return amount


def quantum(value: object) -> Fraction:
    """Return ``value`` as a quantum ``1/q`` with ``q`` at most :data:`LARGEST_DENOMINATOR`."""
    unit = positive(value, field="quantum")
    if unit.numerator != 1 or unit.denominator > LARGEST_DENOMINATOR:
        raise BadAmount("is not 1/q with q at most 10^12", where="quantum", hint="give one such as 1/1000000")
    return unit


def text(amount: Fraction) -> str:
    """Return the form that the ledger holds: ``"n/d"`` in lowest terms."""
    return f"{amount.numerator}/{amount.denominator}"


def format_amount(amount: Fraction) -> str:
    """Return an amount as a person writes it: a decimal where it has one of few digits, else a fraction."""
    for digits in range(7):
        if 10**digits % amount.denominator == 0:
            return f"{float(amount):.{digits}f}" if amount < 10**9 else str(amount)
    return str(amount)


@lru_cache(maxsize=1024)
def parse_amount(stored: str) -> Fraction:
    """Read back what :func:`text` wrote, or raise ``ValueError``: no sign, no blank, no leading zero."""
    match = _STORED.fullmatch(stored)
    if match is None:
        raise ValueError
    return Fraction(int(match[1]), int(match[2]))


def _from_person(value: str, field: str) -> Fraction:
    if len(value) > _LONGEST_TEXT:
        raise BadAmount("is too long a text", where=field, hint="give a multiple of the account's quantum")
    if not (value.isascii() and _TEXT.fullmatch(value)):
        raise BadAmount(
            "is not a plain positive number", where=field, hint='write it like "1", "0.1" or "1/3"'
        )
    try:
        return Fraction(value)
    except ZeroDivisionError:
        raise BadAmount("divides by zero", where=field, hint='write it like "1", "0.1" or "1/3"') from None
