"""Kinds of value that belong to one field of the spec: names, the privacy unit, categories, file formats."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer, WithJsonSchema

from validations.spec.problems import shown
from validations.spec.values import ColumnName, Text, matching, refuse


class Part(BaseModel):
    """A frozen piece of a spec that knows all its keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


ProductName = Annotated[
    Text, *matching("[a-z0-9][a-z0-9-]{0,62}", "use small letters, digits and hyphens, at most 63")
]
PeriodName = Annotated[
    Text,
    *matching("[A-Za-z0-9][A-Za-z0-9._-]{0,62}", 'use letters, digits, . _ and -, for instance "2026-Q1"'),
]
TableName = Annotated[
    Text, *matching("[a-z0-9][a-z0-9_]{0,62}", "use small letters, digits and underscores, at most 63")
]
LevelName = Annotated[
    Text, *matching("[A-Za-z0-9][A-Za-z0-9_-]{0,62}", "use letters, digits, _ and -, at most 63")
]
DatabaseTable = Annotated[
    Text,
    *matching(
        r"[A-Za-z_][A-Za-z0-9_$]*(\.[A-Za-z_][A-Za-z0-9_$]*){0,2}", "write a table name, or schema.table"
    ),
]


def object_schema(**properties: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of an object with just these properties."""
    names = list(properties)
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}


def format_of(path: str) -> Literal["csv", "parquet"] | None:
    """Tell the format of a file from its ending; None when it says nothing."""
    name = path.rstrip("/").lower()
    for compression in (".gz", ".zst"):
        name = name.removesuffix(compression)
    if name.endswith((".csv", ".tsv", ".txt")):
        return "csv"
    return "parquet" if name.endswith((".parquet", ".pq")) else None


def _unit(value: object) -> str | None:
    if value == "record" or value is None:
        return None
    if isinstance(value, dict) and set(value) == {"column"} and isinstance(value["column"], str):
        return value["column"]
    column = shown(value) if isinstance(value, str) else "person_id"
    raise refuse("is neither `record` nor a column", f"write unit: record, or unit: {{column: {column}}}")


UnitColumn = Annotated[
    ColumnName | None,
    BeforeValidator(_unit),
    PlainSerializer(lambda unit: "record" if unit is None else {"column": unit}, when_used="json"),
    WithJsonSchema({"anyOf": [{"const": "record"}, object_schema(column={"type": "string"})]}),
]


def _categories(value: object) -> dict[str, object]:
    """Read ``code: label`` pairs, a plain list of codes, or a list of ``{code, label}``."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, (list, tuple)):
        raise refuse("must be a list of codes, or `code: label` lines", 'write for instance ["1", "2"]')
    pairs: dict[str, object] = {}
    for item in value:
        both = isinstance(item, dict) and set(item) == {"code", "label"}
        code, label = (item["code"], item["label"]) if both else (item, item)
        if isinstance(code, bool) or not isinstance(code, (str, int)):
            raise refuse("has a code that is not read as text", "write every code in quotes")
        if str(code) in pairs:
            raise refuse("has a code twice", f"remove the second {shown(code)}")
        pairs[str(code)] = label
    return pairs


_TEXTS: dict[str, Any] = {"type": ["string", "integer"]}
Categories = Annotated[
    dict[Text, Text],
    BeforeValidator(_categories),
    # a list keeps the order of the cells where a mapping may be sorted by whoever reads the JSON
    PlainSerializer(lambda pairs: [{"code": c, "label": n} for c, n in pairs.items()], when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "object", "additionalProperties": _TEXTS, "minProperties": 1},
                {
                    "type": "array",
                    "minItems": 1,
                    "items": {"anyOf": [_TEXTS, object_schema(code=_TEXTS, label=_TEXTS)]},
                },
            ]
        }
    ),
]
