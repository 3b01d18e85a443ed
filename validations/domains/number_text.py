"""Raw columns read as numbers, by pattern: what is no number is null, and nothing raises, in any engine.

A number has as many digits as it likes. What a double could not hold is told by its digits alone: numbers of
more than 150 digits before the point, or whose exponent has three digits or more, are as good as infinite, or
zero; so whatever is cast is within the reach of a double.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tabularium.validations.domains.encoding import is_missing
from tabularium.validations.imported_later import Later

if TYPE_CHECKING:
    import ibis
else:
    ibis = Later("ibis")

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
_NO_NUMBER = "\x1a"  # a control character: it reads as no number, whole or not


@dataclass(frozen=True)
class Separators:
    """How numbers are written in text: what stands between thousands, if anything, and before decimals."""

    thousands: str | None = None
    decimal: str = "."

    @property
    def are_usual(self) -> bool:
        """Whether numbers are read without any change: as 1234.5."""
        return self == Separators()

    def plain(self, text: Any) -> Any:
        """Return text in which numbers stand as 1234.5; null stays null, and the rest reads as no number.

        Thousands stand in groups of three before the decimals, everywhere or not at all, and the first group
        does not begin with a zero.
        """
        point = re.escape(self.decimal)
        digits = rf"[0-9]+(?:{point}[0-9]*)?|{point}[0-9]+"
        number = rf"(?:{digits})(?:[eE][+-]?[0-9]+)?|[iI][nN][fF](?:[iI][nN][iI][tT][yY])?"
        shown = text
        if self.thousands is not None:
            group = rf"{re.escape(self.thousands)}[0-9]{{3}}"
            number = rf"[1-9][0-9]{{0,2}}(?:{group})+(?:{point}[0-9]*)?|{number}"
            shown = shown.replace(self.thousands, "")
        if self.decimal != ".":
            shown = shown.replace(self.decimal, ".")
        read = ibis.ifelse(text.re_search(rf"^ *[+-]?(?:{number}) *$"), shown, _NO_NUMBER)
        return ibis.ifelse(text.isnull(), ibis.null("string"), read)


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


def plain_column(raw: str) -> str:
    """Return the name of the column with the text of a raw one as :meth:`Separators.plain` has it."""
    return f"{raw}_plain"


def plain_name(table: Any, raw: str) -> str:
    """Return the name of the column of a table in which the numbers of a raw column are read."""
    name = plain_column(raw)
    return name if name in table.columns else raw


def number_of(table: Any, raw: str) -> Any:
    """Return a raw column of a table as :func:`as_number` reads it, or as it was read before."""
    name = number_column(raw)
    return table[name] if name in table.columns else as_number(table[plain_name(table, raw)])


def of_group(group: Any | None, bounds: Sequence[int], kind: str) -> Any:
    """Return the bound of each record: that of its group, a code from 0 on, or the one of all."""
    if group is None:
        return ibis.literal(bounds[0], type=kind)
    *named, last = (ibis.literal(bound, type=kind) for bound in bounds)
    return ibis.cases(*((group == code, bound) for code, bound in enumerate(named)), else_=last)


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
