"""The kinds of value a spec may hold: exact fractions, whole numbers, text, switches, choices.

Each kind refuses what YAML makes of a careless line with its own sentence, and carries its JSON Schema for
editors. Nothing passes through a binary float: a budget of 0.1 is one tenth, or it is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from tabularium.mechanisms.accounting import exact_amount
from tabularium.validations.release_spec.problems import quoted

TERM_LIMIT = 10**12  # largest numerator and denominator: the ledger's quantum
TEXT_LIMIT = 40  # characters of a fraction
INTEGER_LIMIT = 10**18  # fits a 64-bit integer with room to spare
NEEDS_QUOTES = "needs_quotes"  # the error whose hint quotes the value as it stands in the file

_FRACTION = re.compile(r"(?P<top>\d+(\.\d+)?)(/(?P<bottom>\d+))?(?P<percent>\s?%)?", re.ASCII)
_DECIMAL = re.compile(r"-?\d+\.\d+", re.ASCII)
_SCHEMA = r"^\d+(\.\d+)?(/\d+)?"  # the same for editors, without the percent sign


def refuse(what: str, hint: str, kind: str = "refused") -> PydanticCustomError:
    """Return the error that a validator raises: what is wrong, and a hint."""
    return PydanticCustomError(kind, "{what}", {"what": what, "hint": hint})


def fraction(value: object, *, percent: bool = True, example: str = '"1/3"') -> Fraction:
    """Read an exact fraction from text or a whole number.

    Parameters
    ----------
    value
        ``"1"``, ``"0.1"``, ``"1/3"``, ``"10%"``, or an int.
    percent
        Whether a percentage makes sense here.
    example
        What the hint shows.

    Raises
    ------
    PydanticCustomError
        For a float, a sign, a zero denominator, a word, or terms above 10^12.
    """
    if isinstance(value, Fraction):
        return value
    if isinstance(value, float):
        raise refuse("is a YAML float, which is not exact", "", NEEDS_QUOTES)
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise refuse("must be an exact number", f"write a fraction in quotes, for instance {example}")
    long = (
        not isinstance(value, str) and abs(value) > INTEGER_LIMIT
    )  # not written out: it may have any length
    text = "" if long else str(value).strip()
    if long or len(text) > TEXT_LIMIT:
        raise refuse("is too long for a fraction", "use at most twelve digits above and below the line")
    if text.startswith(("-", "−", "+")):
        raise refuse("must not have a sign", "write a number above zero, without + or -")
    match = _FRACTION.fullmatch(text)
    if match is None:
        hint = f"write a decimal or a fraction in quotes, for instance {example}"
        raise refuse("is not an exact number", hint)
    if match["percent"] and not percent:
        raise refuse("is a percentage, and there is nothing it is a part of", f"write for instance {example}")
    bottom = exact_amount(match["bottom"] or 1) * (100 if match["percent"] else 1)
    if bottom == 0:
        raise refuse("divides by zero", "write a denominator above zero")
    exact = exact_amount(match["top"]) / bottom
    if exact.numerator > TERM_LIMIT or exact.denominator > TERM_LIMIT:
        raise refuse("has more digits than twelve", "write a shorter fraction, for instance 1/3 for 0.3333…")
    return exact


def _exact(
    fits: Callable[[Fraction], bool], what: str, noun: str, example: str, *, percent: bool = True
) -> tuple[BeforeValidator, PlainSerializer, WithJsonSchema]:
    """Return what makes a field an exact fraction that ``fits``, written as text in JSON.

    Parameters
    ----------
    what
        What is wrong with a fraction that does not fit.
    noun, example
        What to write instead.
    percent
        Whether a percentage makes sense here.
    """

    def read(value: object) -> Fraction:
        exact = fraction(value, percent=percent, example=example)
        if not fits(exact):
            raise refuse(what, f"write {noun}, for instance {example}")
        return exact

    pattern = _SCHEMA + (r"\s?%?$" if percent else "$")
    choices = [
        {"type": "string", "pattern": pattern, "maxLength": TEXT_LIMIT},
        {"type": "integer", "minimum": 0},
    ]
    as_text = PlainSerializer(str, return_type=str, when_used="json")
    return BeforeValidator(read), as_text, WithJsonSchema({"anyOf": choices})


Share = Annotated[
    Fraction, *_exact(lambda x: 0 < x <= 1, "must be above zero and at most one", "a share", '"1/3" or "25%"')
]
"""Above zero, at most one."""
Budget = Annotated[
    Fraction, *_exact(lambda x: x > 0, "must be above zero", "the budget", '"1" or "0.1"', percent=False)
]
"""A privacy loss: above zero, no percentage."""
Step = Annotated[
    Fraction, *_exact(lambda x: x > 0, "must be above zero", "a step", '"100" or "0.01"', percent=False)
]
"""A distance: above zero, no percentage."""
_BETWEEN = "must lie between zero and one"
Delta = Annotated[
    Fraction, *_exact(lambda x: 0 < x < 1, _BETWEEN, "a small chance", '"1/1000000"', percent=False)
]
"""A chance: strictly between zero and one, no percentage."""
Confidence = Annotated[Fraction, *_exact(lambda x: 0 < x < 1, _BETWEEN, "a level of confidence", '"0.9"')]
"""Strictly between zero and one."""
ErrorShare = Annotated[
    Fraction, *_exact(lambda x: x <= Fraction(1, 2), f"{_BETWEEN} half", "a small share", '"5%"')
]
"""From zero to one half: a part of a table's budget."""
Portion = Annotated[Fraction, *_exact(lambda x: x <= 1, "must be at most 100%", "a part of the rows", '"5%"')]
"""From zero to one: a part of the rows."""


def _change(value: object) -> object:
    """Refuse what may have lost its percent sign: 20 would be a change of 2000 %."""
    if not (isinstance(value, Fraction) or str(value).rstrip().endswith("%")):
        exact = fraction(value, example='"20%"')
        if exact > 1:
            raise refuse(
                f"is a change of {100 * exact}%", f'write "{exact}%", or "{100 * exact}%" if that is meant'
            )
    return value


Change = Annotated[
    Fraction,
    *_exact(lambda x: x > 0, "must be above zero", "a change", '"20%"'),
    BeforeValidator(_change),  # runs first
    PlainSerializer(lambda x: str(x) if x <= 1 else f"{100 * x}%", return_type=str, when_used="json"),
]
"""Above zero; a change of more than 100 % needs its percent sign."""


def _reject_limit(value: object) -> int | Fraction:
    """Read a count (int) or a part of the rows (percentage)."""
    if isinstance(value, int) and not isinstance(value, bool):
        if 0 <= value <= INTEGER_LIMIT:
            return value
        raise refuse("must be zero or more", 'write a count of rows, or a percentage such as "1%"')
    if isinstance(value, str) and not value.rstrip().endswith("%"):
        raise refuse("is neither a count nor a percentage", 'write a count without quotes, or "1%"')
    part = fraction(value, example='"1%"')
    if part > 1:
        raise refuse("must be at most 100%", 'write a part of the rows, for instance "5%"')
    return part


def _or_percentage(least: int) -> WithJsonSchema:
    percentage = {"type": "string", "pattern": _SCHEMA + r"\s?%$", "maxLength": TEXT_LIMIT}
    return WithJsonSchema({"anyOf": [{"type": "integer", "minimum": least}, percentage]})


_AS_WRITTEN = PlainSerializer(
    lambda limit: limit if isinstance(limit, int) else f"{limit * 100}%", when_used="json"
)

RejectLimit = Annotated[
    int | Fraction,
    BeforeValidator(_reject_limit),
    _AS_WRITTEN,
    _or_percentage(0),
]
"""A count of rows (int), or a part of them (Fraction)."""


def _quality_limit(value: object) -> int | Fraction:
    """Read an absolute margin (int), or one that is a part of the count (percentage)."""
    if isinstance(value, int) and not isinstance(value, bool):
        if 0 < value <= INTEGER_LIMIT:
            return value
        raise refuse("must be above zero", 'write a margin such as 50, or a part of the count such as "30%"')
    if isinstance(value, str) and not value.rstrip().endswith("%"):
        raise refuse("is neither a number nor a percentage", 'write a margin without quotes, or "30%"')
    part = fraction(value, example='"30%"')
    if not part:
        raise refuse("must be above zero", 'write a part of the count, for instance "30%"')
    return part


QualityLimit = Annotated[
    int | Fraction,
    BeforeValidator(_quality_limit),
    _AS_WRITTEN,
    _or_percentage(1),
]
"""A margin of error: whole (int), or relative to the count (Fraction)."""


def _part_limit(value: object) -> Fraction:
    """Read a margin that is a part of something (percentage)."""
    if not isinstance(value, str) or not value.rstrip().endswith("%"):
        raise refuse("is not a percentage", 'write a part, for instance "10%"')
    part = fraction(value, example='"10%"')
    if not part:
        raise refuse("must be above zero", 'write a part, for instance "10%"')
    return part


PartLimit = Annotated[
    Fraction,
    BeforeValidator(_part_limit),
    PlainSerializer(lambda limit: f"{limit * 100}%", when_used="json"),
    WithJsonSchema({"type": "string", "pattern": _SCHEMA + r"\s?%$", "maxLength": TEXT_LIMIT}),
]
"""A margin of error relative to its number, or to the number's whole range."""


def _text(value: object) -> str:
    """Accept text, and a whole number that can only be read one way (`2019`, the code `1`)."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, (bool, float)):
        raise refuse("is not read as text", "", NEEDS_QUOTES)
    raise refuse("must be a single text", "write one word or number, in quotes if in doubt")


def _line(text: str) -> str:
    """Accept one line that is not blank and has no spaces around it."""
    if not text.isprintable():
        raise refuse("has a control character or a line break in it", "remove it")
    if text != text.strip():
        raise refuse("has spaces around it", "remove them")
    if not text:
        raise refuse("is empty", "write a text of at least one character")
    return text


def _at_most(length: int) -> AfterValidator:
    def check(text: str) -> str:
        if len(text) > length:
            raise refuse(f"is longer than {length} characters", "shorten it")
        return text

    return AfterValidator(check)


def matching(pattern: str, hint: str) -> tuple[AfterValidator, WithJsonSchema]:
    """Return the pair that makes a text follow ``pattern``; ``hint`` says the rule in words."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if compiled.fullmatch(text) is None:
            raise refuse(f"{quoted(text)} is not a name that fits here", hint)
        return text

    return AfterValidator(check), WithJsonSchema(
        {"type": ["string", "integer"], "pattern": f"^(?:{pattern})$"}
    )


_text_schema = WithJsonSchema({"type": ["string", "integer"]})

MOST_CHARACTERS = 1_000
"""Characters of a text."""
RawText = Annotated[str, BeforeValidator(_text), _at_most(MOST_CHARACTERS)]
"""Any text, also empty or with spaces."""
Text = Annotated[str, BeforeValidator(_text), AfterValidator(_line), _at_most(MOST_CHARACTERS), _text_schema]
"""One line, not blank, no spaces around it."""
Reason = Annotated[str, BeforeValidator(_text), AfterValidator(_line), _at_most(200), _text_schema]
"""One line that the ledger keeps."""
ColumnName = Annotated[str, BeforeValidator(_text), AfterValidator(_line), _at_most(128), _text_schema]
"""The name of a column of the source."""


def _integer(value: object) -> int:
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal():
        raise refuse("is text", "write the whole number without quotes")
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse("must be a whole number", "write digits only, without quotes")
    if abs(value) > INTEGER_LIMIT:
        raise refuse("is too large", "write a whole number of at most 18 digits")
    return value


DIGITS = 15
"""Significant digits of a decimal in a spec: so many are distinguished by doubles, too."""


def _number(value: object) -> int | Decimal:
    """Read a whole number, or a decimal as it is written."""
    if isinstance(value, str) and _DECIMAL.fullmatch(value):
        value = Decimal(value)
    elif isinstance(value, float) and math.isfinite(value):
        value = Decimal(repr(value))  # the shortest text, which is what was written in up to 15 digits
    if not isinstance(value, Decimal):
        return _integer(value)
    if value == value.to_integral_value():
        return _integer(int(value))
    plain = value.normalize()
    shift = max(plain.adjusted() + 1, 0) - int(plain.as_tuple().exponent)
    if shift > DIGITS:
        raise refuse(f"has more than {DIGITS} digits", "write a decimal with fewer digits")
    return plain


def _plain_number(value: int | Decimal) -> int | str:
    return value if isinstance(value, int) else f"{value:f}"


_number_json: dict[str, Any] = {"anyOf": [{"type": "number"}, {"type": "string", "pattern": r"^-?\d+\.\d+$"}]}
Number = Annotated[
    int | Decimal,
    BeforeValidator(_number),
    PlainSerializer(_plain_number, when_used="json"),
    WithJsonSchema(_number_json),
]
"""A whole number, or an exact decimal."""


def _above_zero(value: int | Decimal) -> int | Decimal:
    if value <= 0:
        raise refuse("must be above zero", "write a number above zero")
    return value


PositiveNumber = Annotated[Number, AfterValidator(_above_zero)]
"""A number above zero."""


def _at_least(low: int) -> tuple[BeforeValidator, AfterValidator, WithJsonSchema]:
    """Return what makes a field a whole number from ``low`` up."""

    def check(value: int) -> int:
        if value < low:
            raise refuse(f"must be {low} or more", f"write a whole number from {low} up")
        return value

    return (
        BeforeValidator(_integer),
        AfterValidator(check),
        WithJsonSchema({"type": "integer", "minimum": low}),
    )


WholeNumber = Annotated[int, BeforeValidator(_integer)]
"""A 64-bit whole number."""
Count = Annotated[int, *_at_least(0)]
"""A whole number from zero up."""
Positive = Annotated[int, *_at_least(1)]
"""A whole number from one up."""


def _switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise refuse("must be true or false", "write true or false, without quotes")


Switch = Annotated[bool, BeforeValidator(_switch)]
"""true or false."""


def _parameter(value: Any) -> Any:
    """Accept plain values without floats, at most two lists deep."""
    if isinstance(value, float):
        raise refuse("is a YAML float, which is not exact", "", NEEDS_QUOTES)
    if isinstance(value, list) and all(isinstance(v, (str, int)) for v in value):
        return tuple(value)
    if isinstance(value, (str, int, tuple)):
        return value
    raise refuse("must be a number, a text, true, false, or a list of these", "write a single value")


Parameter = Annotated[
    Any,
    BeforeValidator(_parameter),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": ["string", "integer", "boolean"]},
                {"type": "array", "items": {"type": ["string", "integer", "boolean"]}},
            ]
        }
    ),
]
"""A value of a mechanism's parameter."""
