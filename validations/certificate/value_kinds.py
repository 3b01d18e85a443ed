"""The kinds of value that a certificate holds.

Amounts are exact and written as texts, never as numbers of JSON. Nothing is converted: ``"1"`` is no number
and ``true`` is no 1.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    SerializerFunctionWrapHandler,
    StringConstraints,
    WithJsonSchema,
    model_serializer,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from tabularium.ledger.names import LONGEST_TEXT, is_valid_stored_label, release_id

T = TypeVar("T")

_AMOUNT = r"^(0|[1-9][0-9]{0,99})(/[1-9][0-9]{0,99})?$"
_RATIO = r"^(0|[1-9][0-9]*)/[1-9][0-9]*$"


class Section(BaseModel):
    """A part of a certificate. What is absent is not written; see :data:`Sometimes`."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True, defer_build=True
    )

    def document(self) -> dict[str, Any]:
        """Return it as it is written: a JSON object whose keys are in their order."""
        return self.model_dump(mode="json", by_alias=True)

    @model_serializer(mode="wrap")
    def _as_written(self, written: SerializerFunctionWrapHandler) -> dict[str, Any]:
        document: dict[str, Any] = written(self)
        if len(document) != len(self.model_fields_set):
            for name in type(self).model_fields.keys() - self.model_fields_set:
                del document[name]
        return document


class _NeverNull:
    """For a field that may be absent: null is something else."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(_not_null, handler(source))

    def __get_pydantic_json_schema__(
        self, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler(core)
        options = [option for option in schema["anyOf"] if option != {"type": "null"}]
        return options[0] if len(options) == 1 else {"anyOf": options}


def _not_null(value: object) -> object:
    if value is None:
        raise ValueError("is null, where it would be absent")
    return value


def _exactly(pattern: str) -> BeforeValidator:
    form = re.compile(pattern)

    def read(value: object) -> Fraction:
        if isinstance(value, Fraction):
            return value
        if isinstance(value, str) and form.fullmatch(value):
            return Fraction(value)
        raise ValueError("is no exact amount")

    return BeforeValidator(read)


def only(kind: type) -> BeforeValidator:
    """Let through values of one type: true is no 1, and 0 is not false."""

    def see(value: object) -> object:
        if type(value) is not kind:
            raise ValueError("is of another type")
        return value

    return BeforeValidator(see)


def _ratio(value: Fraction) -> str:
    return f"{value.numerator}/{value.denominator}"


def _line(value: str) -> str:
    if not is_valid_stored_label(value, LONGEST_TEXT):
        raise ValueError("is no line of text")
    return value


Sometimes = Annotated[T | None, _NeverNull()]
"""What is absent where there is nothing to say; None stands for that here, and null is refused."""

Amount = Annotated[
    Fraction,
    _exactly(_AMOUNT),
    PlainSerializer(str),
    WithJsonSchema({"type": "string", "pattern": _AMOUNT}),
]
"""A part of a budget, exact: ``"1"``, ``"1/3"``."""

Ratio = Annotated[
    Fraction,
    _exactly(_RATIO),
    PlainSerializer(_ratio),
    WithJsonSchema({"type": "string", "pattern": _RATIO}),
]
"""A fraction that is always written with its denominator: ``"1/1"``."""

Scale = Annotated[
    str, StringConstraints(pattern=r"^([1-9][0-9]*/[1-9][0-9]*|[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?)$")
]
"""The scale of noise: a fraction, or a number where it is irrational."""

Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
OwnId = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]
"""The id of a release."""
ReleaseId = Annotated[str, AfterValidator(release_id), Field(min_length=1)]
"""Whatever may name a charge in the ledger."""
Created = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$")]
Date = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\d$")]
Commit = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{40,64}$")]
Time = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?(\+00:00|Z)$")]
Words = Annotated[str, Field(min_length=1)]
Line = Annotated[str, Field(min_length=1), AfterValidator(_line)]
"""One line, as the ledger keeps them."""

Flag = Annotated[bool, Field(strict=True)]
WholeNumber = Annotated[int, Field(strict=True)]
Number = Annotated[int, Field(strict=True, ge=0)]
"""How many, which may be none."""
Several = Annotated[int, Field(strict=True, ge=1)]
"""How many, one at least."""
Real = Annotated[
    Annotated[int, Field(strict=True)] | Annotated[float, Field(strict=True, allow_inf_nan=False)],
    WithJsonSchema({"type": "number"}),
]
NotNegative = Annotated[
    Annotated[int, Field(strict=True, ge=0)]
    | Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)],
    WithJsonSchema({"type": "number", "minimum": 0}),
]
Portion = Annotated[
    Annotated[int, Field(strict=True, ge=0, le=1)]
    | Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)],
    WithJsonSchema({"type": "number", "minimum": 0, "maximum": 1}),
]
"""From 0 to 1."""

Definition = Literal["pure", "zcdp"]
Relation = Literal["add-remove", "replace"]
