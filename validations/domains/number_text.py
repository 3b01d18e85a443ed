"""Raw columns read as numbers, by pattern: what is no number is null, and nothing raises, in any engine.

A number has as many digits as it likes. What a double could not hold is told by its digits alone: numbers of
more than 150 digits before the point, or whose exponent has three digits or more, are as good as infinite, or
zero; so whatever is cast is within the reach of a double.
"""

from __future__ import annotations

from typing import Any

import ibis

from validations.domains.encoding import is_missing

FAR = 1e300
"""Stands for what is beyond all bounds."""
_SMALL = r"(?:[eE][+-]?0*[0-9]{1,2})? *$"  # an exponent of at most two digits, or none
_DIGITS = r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
NUMBER = rf"^ *([+-]?{_DIGITS}(?:[eE][+-]?0*[0-9]{{1,2}})?) *$"
# Nearly every number: the rest is looked at only where this is not one, since patterns take time.
USUAL = r"^ *([+-]?(?:[0-9]{1,18}(?:\.[0-9]{0,100})?|\.[0-9]{1,100})(?:[eE][+-]?[0-9]{1,2})?) *$"
_INFINITE = r"^ *[+-]?[iI][nN][fF](?:[iI][nN][iI][tT][yY])? *$"
_LONG = rf"^ *[+-]?0*[1-9][0-9]{{150,}}(?:\.[0-9]*)?{_SMALL}"
_LARGE = rf"^ *[+-]?{_DIGITS}[eE]\+?0*[1-9][0-9]{{2,}} *$"
_TINY = rf"^ *[+-]?0*\.0{{150,}}[0-9]*{_SMALL}"
_NEGLIGIBLE = rf"^ *[+-]?{_DIGITS}[eE]-0*[1-9][0-9]{{2,}} *$"
_ZERO = r"^ *[+-]?[0.]+(?:[eE]|$)"
_MINUS = "^ *-"


def as_number(column: Any) -> Any:
    """Return a raw column as doubles; null where it cannot be read as a number, `FAR` where it is too large.

    A truth value is 1 or 0.
    """
    kind = column.type()
    if kind.is_boolean():
        return column.cast("int8").cast("float64")
    if kind.is_numeric():
        return ibis.ifelse(is_missing(column), ibis.null("float64"), column.cast("float64"))
    text = column if kind.is_string() else column.cast("string")
    return ibis.coalesce(text.re_extract(USUAL, 1).nullif("").cast("float64"), _unusual(text))


def number_column(raw: str) -> str:
    """Return the name of the column in which a raw column was read as numbers already, where it was."""
    return f"{raw}_number"


def number_of(table: Any, raw: str) -> Any:
    """Return a raw column of a table as :func:`as_number` reads it, or as it was read before."""
    name = number_column(raw)
    return table[name] if name in table.columns else as_number(table[raw])


def _unusual(text: Any) -> Any:
    """Return numbers that are longer than usual, or infinite."""
    # Before the cast, and not around it: an engine may compute both sides of a choice.
    beyond = text.re_search(_LONG) | text.re_search(_TINY)
    plain = ibis.ifelse(beyond, ibis.null("string"), text.re_extract(NUMBER, 1).nullif(""))
    far = text.re_search(_LONG) | (text.re_search(_LARGE) & ~text.re_search(_ZERO))
    return ibis.cases(
        (far | text.re_search(_INFINITE), ibis.ifelse(text.re_search(_MINUS), -FAR, FAR)),
        (text.re_search(_TINY) | text.re_search(_LARGE) | text.re_search(_NEGLIGIBLE), 0.0),
        else_=plain.cast("float64"),
    )
