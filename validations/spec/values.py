"""The kinds of value a spec may hold: exact fractions, whole numbers, text, switches, choices.

Each kind refuses what YAML makes of a careless line with its own sentence, and carries its JSON Schema for
editors. Nothing passes through a binary float: a budget of 0.1 is one tenth, or it is refused.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, PlainSerializer, WithJsonSchema
from pydantic_core import PydanticCustomError

from validations.spec.problems import choose, quoted

TERM_LIMIT = 10**12  # largest numerator and denominator: the ledger's quantum
TEXT_LIMIT = 40  # characters of a fraction
WHOLE_LIMIT = 10**18  # fits a 64-bit integer with room to spare
NEEDS_QUOTES = "needs_quotes"  # the error whose mend quotes the value as it stands in the file

_FRACTION = re.compile(r"(?P<top>\d+(\.\d+)?)(/(?P<bottom>\d+))?(?P<percent>\s?%)?", re.ASCII)
_SIGNED = re.compile(r"\s*[-−+]")
_NUMBER_SCHEMA = r"^\d+(\.\d+)?(/\d+)?"


def refuse(what: str, mend: str, kind: str = "refused") -> PydanticCustomError:
    """Return the error that a validator raises: what is wrong, how to mend it."""
    return PydanticCustomError(kind, "{what}", {"what": what, "mend": mend})


def fraction(value: object, *, percent: bool = True, example: str = '"1/3"') -> Fraction:
    """Read an exact fraction from text or a whole number.

    Parameters
    ----------
    value
        ``"1"``, ``"0.1"``, ``"1/3"``, ``"10%"``, or an int.
    percent
        Whether a percentage makes sense here.
    example
        What the mend shows.

    Raises
    ------
    PydanticCustomError
        For a float, a sign, a zero denominator, a word, or terms above 10^12.
    """
    if isinstance(value, Fraction):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise refuse("must be an exact number", f"write a fraction in quotes, for instance {example}")
    if isinstance(value, float):
        raise refuse("is a YAML float, which is not exact", "", NEEDS_QUOTES)
    text = (
        str(value).strip() if isinstance(value, str) or abs(value) <= WHOLE_LIMIT else "9" * (TEXT_LIMIT + 1)
    )
    if len(text) > TEXT_LIMIT:
        raise refuse("is too long for a fraction", "use at most twelve digits above and below the line")
    if _SIGNED.match(text):
        raise refuse("must not have a sign", "write a number above zero, without + or -")
    match = _FRACTION.fullmatch(text)
    if match is None:
        raise refuse(
            "is not an exact number", f"write a decimal or a fraction in quotes, for instance {example}"
        )
    if match["percent"] and not percent:
        raise refuse("is a percentage, and there is nothing it is a part of", f"write for instance {example}")
    bottom = int(match["bottom"] or 1)
    if bottom == 0:
        raise refuse("divides by zero", "write a denominator above zero")
    exact = Fraction(match["top"]) / bottom / (100 if match["percent"] else 1)
    if exact.numerator > TERM_LIMIT or exact.denominator > TERM_LIMIT:
        raise refuse("has more digits than twelve", "write a shorter fraction, for instance 1/3 for 0.3333…")
    return exact


def _part_of_one(value: object) -> Fraction:
    exact = fraction(value)
    if not 0 < exact <= 1:
        raise refuse("must be above zero and at most one", 'write a share, for instance "1/3" or "25%"')
    return exact


def _budget(value: object) -> Fraction:
    exact = fraction(value, percent=False, example='"1" or "0.1"')
    if exact <= 0:
        raise refuse("must be above zero", 'write the budget, for instance "1"')
    return exact


def _delta(value: object) -> Fraction:
    exact = fraction(value, percent=False, example='"1/1000000"')
    if not 0 < exact < 1:
        raise refuse("must lie between zero and one", 'write a small chance, for instance "1/1000000"')
    return exact


def _error_share(value: object) -> Fraction:
    exact = fraction(value, example='"5%"')
    if not 0 <= exact <= Fraction(1, 2):
        raise refuse("must lie between zero and one half", 'write a small share, for instance "5%"')
    return exact


def _confidence(value: object) -> Fraction:
    exact = fraction(value, example='"0.9"')
    if not 0 < exact < 1:
        raise refuse("must lie between zero and one", 'write for instance "0.9"')
    return exact


def _portion(value: object) -> Fraction:
    exact = fraction(value, example='"5%"')
    if exact > 1:
        raise refuse("must be at most 100%", 'write a part of the rows, for instance "5%"')
    return exact


def _change(value: object) -> Fraction:
    exact = fraction(value, example='"20%"')
    if exact <= 0:
        raise refuse("must be above zero", 'write for instance "20%"')
    return exact


def _reject_limit(value: object) -> int | Fraction:
    """Read a count (int) or a part of the rows (percentage)."""
    if isinstance(value, int) and not isinstance(value, bool):
        if 0 <= value <= WHOLE_LIMIT:
            return value
        raise refuse("must be zero or more", 'write a count of rows, or a percentage such as "1%"')
    if isinstance(value, str) and not value.rstrip().endswith("%"):
        raise refuse("is neither a count nor a percentage", 'write a count without quotes, or "1%"')
    return _portion(value)


def _reject_limit_text(value: int | Fraction) -> int | str:
    return value if isinstance(value, int) else f"{value * 100}%"


def _fraction_schema(percent: bool) -> WithJsonSchema:
    pattern = _NUMBER_SCHEMA + (r"\s?%?$" if percent else "$")
    choices = [
        {"type": "string", "pattern": pattern, "maxLength": TEXT_LIMIT},
        {"type": "integer", "minimum": 0},
    ]
    return WithJsonSchema({"anyOf": choices})


_as_text = PlainSerializer(str, return_type=str, when_used="json")

Share = Annotated[Fraction, BeforeValidator(_part_of_one), _as_text, _fraction_schema(True)]
"""Above zero, at most one."""
Budget = Annotated[Fraction, BeforeValidator(_budget), _as_text, _fraction_schema(False)]
"""A privacy loss: above zero, no percentage."""
Delta = Annotated[Fraction, BeforeValidator(_delta), _as_text, _fraction_schema(False)]
"""A chance: strictly between zero and one, no percentage."""
ErrorShare = Annotated[Fraction, BeforeValidator(_error_share), _as_text, _fraction_schema(True)]
"""From zero to one half: a part of a table's budget."""
Confidence = Annotated[Fraction, BeforeValidator(_confidence), _as_text, _fraction_schema(True)]
"""Strictly between zero and one."""
Portion = Annotated[Fraction, BeforeValidator(_portion), _as_text, _fraction_schema(True)]
"""From zero to one: a part of the rows."""
Change = Annotated[Fraction, BeforeValidator(_change), _as_text, _fraction_schema(True)]
"""Above zero; more than one is a change of more than 100 %."""
RejectLimit = Annotated[
    int | Fraction,
    BeforeValidator(_reject_limit),
    PlainSerializer(_reject_limit_text, when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0},
                {"type": "string", "pattern": _NUMBER_SCHEMA + r"\s?%$", "maxLength": TEXT_LIMIT},
            ]
        }
    ),
]
"""A count of rows (int), or a part of them (Fraction)."""


def _text(value: object) -> str:
    """Accept text, and a whole number that can only be read one way (`2019`, the code `1`)."""
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if isinstance(value, (bool, float)):
        raise refuse("is not read as text", "", NEEDS_QUOTES)
    raise refuse("must be a single text", "write one word or number, in quotes if in doubt")


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise refuse("has a control character or a line break in it", "remove it")
    if text != text.strip():
        raise refuse("has spaces around it", "remove them")
    return text


def _not_blank(text: str) -> str:
    if not text:
        raise refuse("is empty", "write a text of at least one character")
    return text


def _at_most(length: int) -> AfterValidator:
    def check(text: str) -> str:
        if len(text) > length:
            raise refuse(f"is longer than {length} characters", "shorten it")
        return text

    return AfterValidator(check)


def matching(pattern: str, mend: str) -> tuple[AfterValidator, WithJsonSchema]:
    """Return the pair that makes a text follow ``pattern``; ``mend`` says the rule in words."""
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if compiled.fullmatch(text) is None:
            raise refuse(f"{quoted(text)} is not a name that fits here", mend)
        return text

    return AfterValidator(check), WithJsonSchema(
        {"type": ["string", "integer"], "pattern": f"^(?:{pattern})$"}
    )


_text_schema = WithJsonSchema({"type": ["string", "integer"]})

RawText = Annotated[str, BeforeValidator(_text), _at_most(1_000)]
"""Any text, also empty or with spaces."""
Text = Annotated[
    str,
    BeforeValidator(_text),
    AfterValidator(_one_line),
    AfterValidator(_not_blank),
    _at_most(1_000),
    _text_schema,
]
"""One line, not blank, no spaces around it."""
ColumnName = Annotated[
    str,
    BeforeValidator(_text),
    AfterValidator(_one_line),
    AfterValidator(_not_blank),
    _at_most(128),
    _text_schema,
]
"""The name of a column of the source."""


def is_column_name(text: str) -> bool:
    """Return whether ``text`` can be the name of a column."""
    return 0 < len(text) <= 128 and text.isprintable() and text == text.strip()


def _whole(value: object) -> int:
    if isinstance(value, str) and value.strip().lstrip("-").isdecimal():
        raise refuse("is text", "write the whole number without quotes")
    if isinstance(value, bool) or not isinstance(value, int):
        raise refuse("must be a whole number", "write digits only, without quotes")
    if abs(value) > WHOLE_LIMIT:
        raise refuse("is too large", "write a whole number of at most 18 digits")
    return value


def at_least(low: int) -> AfterValidator:
    """Return the check that a whole number is ``low`` or more."""

    def check(value: int) -> int:
        if value < low:
            raise refuse(f"must be {low} or more", f"write a whole number from {low} up")
        return value

    return AfterValidator(check)


Whole = Annotated[int, BeforeValidator(_whole), WithJsonSchema({"type": "integer"})]
"""A 64-bit whole number."""
Count = Annotated[
    int, BeforeValidator(_whole), at_least(0), WithJsonSchema({"type": "integer", "minimum": 0})
]
"""A whole number from zero up."""
Positive = Annotated[
    int, BeforeValidator(_whole), at_least(1), WithJsonSchema({"type": "integer", "minimum": 1})
]
"""A whole number from one up."""


def _switch(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise refuse("must be true or false", "write true or false, without quotes")


Switch = Annotated[bool, BeforeValidator(_switch), WithJsonSchema({"type": "boolean"})]
"""true or false."""


def choice(*options: str) -> BeforeValidator:
    """Return the check that a text is one of ``options``."""

    def check(value: object) -> object:
        if value not in options:
            name = str(value) if isinstance(value, (str, int, float)) else ""
            raise refuse(
                f"{quoted(name)} is not one of the choices" if name else "must be a single word",
                f"{choose(name, options, 'choose one')} (choices: {', '.join(options)})"
                if len(options) > 12
                else f"write {' or '.join(options)}",
            )
        return value

    return BeforeValidator(check)


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
