"""Kinds of value that belong to one field of the spec: names, the privacy unit, categories, file formats."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from decimal import Decimal
from fnmatch import fnmatchcase
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PlainSerializer,
    Tag,
    WithJsonSchema,
)

from tabularium.validations.domains.code_lists import divided
from tabularium.validations.release_spec.problems import listed, nearest, shown
from tabularium.validations.release_spec.scalars import (
    ColumnName,
    Number,
    PositiveNumber,
    Switch,
    Text,
    matching,
    refuse,
)

NO_KIND = "no_kind"
"""The error of a part that has none of the keys by which kinds are distinguished."""
BOUND_TAGS = ("[value]", "[groups]")
"""Tags by which pydantic tells one bound from a bound for each group; no key of a file."""
CATEGORY_TAGS = ("[codes]", "[list]")
"""Tags by which pydantic tells codes from the name of a code list; no key of a file."""


class Part(BaseModel):
    """A frozen piece of a spec that knows all its keys.

    Where there are several kinds of it, ``kind_name`` is what messages call this one, and ``written_as`` the
    key that makes it one.
    """

    kind_name: ClassVar[str] = ""
    written_as: ClassVar[str] = ""
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


def kind_by_key(
    kinds: Mapping[str, type[Part]], nothing: str, hint: str
) -> tuple[Discriminator, BeforeValidator]:
    """Return what tells kinds apart by the one key that makes each; their tags are the keys in brackets.

    Where none of the keys is written, ``nothing`` is reported, with ``hint``.
    """

    tags = {kind.written_as: tag for tag, kind in kinds.items()}

    def meant(written: Mapping[str, object]) -> list[str]:
        misspelt = (nearest(str(key), tags) for key in written)
        return [key for key in tags if key in written] or [key for key in misspelt if key is not None]

    def check(written: object) -> object:
        if isinstance(written, dict) and len(given := meant(written)) != 1:
            if given:
                raise refuse(f"has {listed(given)}", "keep one of them")
            raise refuse(nothing, hint, NO_KIND)
        return written

    def tag(written: Any) -> str | None:
        if isinstance(written, dict):
            return next((tags[key] for key in meant(written)), None)
        return next((tag for tag, kind in kinds.items() if isinstance(written, kind)), next(iter(kinds)))

    return Discriminator(tag), BeforeValidator(check)


ProductName = Annotated[
    Text, *matching("[a-z0-9][a-z0-9-]{0,62}", "use small letters, digits and hyphens, at most 63")
]
PeriodName = Annotated[
    Text,
    *matching("[A-Za-z0-9][A-Za-z0-9._-]{0,62}", 'use letters, digits, . _ and -, for instance "2026-Q1"'),
]
ReleaseName = Annotated[
    Text, *matching("[0-9a-f]{32}", "copy all 32 digits and small letters from the name of its folder")
]
PriorName = Annotated[
    Text,
    *matching(
        "above|[0-9a-f]{32}", "write above, or the id of a release: copy all 32 digits and small letters"
    ),
]
TableName = Annotated[
    Text, *matching("[a-z0-9][a-z0-9_]{0,62}", "use small letters, digits and underscores, at most 63")
]
LevelName = Annotated[
    Text, *matching("[A-Za-z0-9][A-Za-z0-9_-]{0,62}", "use letters, digits, _ and -, at most 63")
]
TableInDatabase = Annotated[
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


IGNORED = (
    *("_SUCCESS", "_metadata", "_common_metadata", "_started_*", "_committed_*", ".*.crc"),
    *(".DS_Store", "._*", "Thumbs.db", "desktop.ini"),
)
"""Files without records that programs and desktops put into a folder of data."""


def is_ignored(name: str, ignore: Collection[str]) -> bool:
    """Return whether a path below the source may be left out: itself, or a folder that it lies in.

    A pattern is of a name (``*.md``) or of a path below the source (``archive/2019``).
    """
    parts = name.split("/")
    paths = ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]
    return any(fnmatchcase(part, pattern) for pattern in (*IGNORED, *ignore) for part in (*parts, *paths))


RECORD = "record"  # the entity where nothing is known of a record but that it is one


class PrivacyUnit(Part):
    """Whom the release protects.

    Attributes
    ----------
    entity
        What a unit is, as the ledger's account names it: ``"household"``; the column's name where the spec
        has no other word for it.
    column
        The source's column whose values tell one entity from another; None where each record is one.
    population
        All those whose data the account is about, to be compared with the account's; None is whatever it is.
    """

    entity: Text = ""  # filled in below
    column: ColumnName | None = None
    population: Text | None = None

    @property
    def called(self) -> str:
        """What a unit is called in a sentence: ``household``, or ``unit (HHID)`` for want of a word."""
        return f"unit ({self.column})" if self.column == self.entity else self.entity

    def written(self) -> str | dict[str, str]:
        """Return it as briefly as a spec can say it: one way for each meaning."""
        if self == PrivacyUnit(entity=RECORD):
            return RECORD
        keys = ("column", "population") if self.column == self.entity else ("entity", "column", "population")
        return {key: value for key in keys if (value := getattr(self, key)) is not None}


def _unit(value: object) -> object:
    if isinstance(value, PrivacyUnit):
        return value
    if value == RECORD:
        return {"entity": RECORD}
    if isinstance(value, dict) and ("entity" in value or "column" in value):
        return value
    column = shown(value) if isinstance(value, str) else "person_id"
    raise refuse(
        "is neither `record` nor an entity or a column",
        f"write unit: record, or unit: {{entity: person, column: {column}}}",
    )


def _with_entity(unit: PrivacyUnit) -> PrivacyUnit:
    return unit if unit.entity else unit.model_copy(update={"entity": unit.column})


_NAME = {"type": "string", "minLength": 1}
UnitChoice = Annotated[
    PrivacyUnit,
    BeforeValidator(_unit),
    AfterValidator(_with_entity),
    PlainSerializer(PrivacyUnit.written, when_used="json"),
    WithJsonSchema(
        {
            "anyOf": [
                {"const": RECORD},
                {
                    "type": "object",
                    "properties": {"entity": _NAME, "column": _NAME, "population": _NAME},
                    "anyOf": [{"required": ["entity"]}, {"required": ["column"]}],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


def _is_code_list(name: str) -> bool:
    return name.lower().endswith(".csv") or divided(name)[1] is not None


def _categories(value: object) -> dict[str, object] | str:
    """Read `code: label` pairs, a list of codes or of ``{code, label}``, or the name of a code list."""
    if isinstance(value, dict) or (isinstance(value, str) and _is_code_list(value)):
        return value
    if not isinstance(value, (list, tuple)):
        hint = 'write for instance ["1", "2"], or name a code list: sexes.csv'
        raise refuse("must be a list of codes, `code: label` lines or a code list", hint)
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


_CODES, _LIST = CATEGORY_TAGS
_TEXTS: dict[str, Any] = {"type": ["string", "integer"]}
Categories = Annotated[
    Annotated[dict[Text, Text], Tag(_CODES)] | Annotated[Text, Tag(_LIST)],
    Discriminator(lambda value: _LIST if isinstance(value, str) else _CODES),
    BeforeValidator(_categories),
    # a list keeps the order of the cells; readers of JSON may sort a mapping
    PlainSerializer(
        lambda value: (
            value if isinstance(value, str) else [{"code": c, "label": n} for c, n in value.items()]
        ),
        when_used="json",
    ),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "object", "additionalProperties": _TEXTS, "minProperties": 1},
                {
                    "type": "array",
                    "minItems": 1,
                    "items": {"anyOf": [_TEXTS, object_schema(code=_TEXTS, label=_TEXTS)]},
                },
                {"type": "string", "pattern": r"\.([cC][sS][vV]|([xX][mM][lL]|[jJ][sS][oO][nN])(#.*)?)$"},
            ]
        }
    ),
]


class IntegerRange(Part):
    """Numbers ``from``..``to`` (both included), cut at ``edges`` or every ``width``.

    They are whole numbers, unless one of these is a decimal.
    """

    start: Number = Field(alias="from", description="The smallest value.")
    end: Number = Field(alias="to", description="The largest value, included.")
    edges: tuple[Number, ...] | None = Field(
        default=None,
        description="The first value of each bin but the first, ascending: `[5, 18, 65]` within 0 to 99 "
        "makes 0-4, 5-17, 18-64 and 65-99.",
    )
    width: PositiveNumber | None = Field(
        default=None,
        description="Instead of `edges`: values in a bin; the last may be shorter; default: 1.",
    )
    floor: Switch = Field(
        default=False,
        description="`true` takes the whole number below a decimal. Without it a decimal is invalid among "
        "whole numbers.",
    )
    labels: tuple[Text, ...] | None = Field(default=None, description="One label per bin, instead of `5-17`.")

    @property
    def numbers(self) -> tuple[int | Decimal, ...]:
        """All numbers of the range."""
        width = () if self.width is None else (self.width,)
        return (self.start, self.end, *(self.edges or ()), *width)

    @property
    def digits(self) -> int | None:
        """Digits after the point; None where all are whole numbers."""
        decimals = [number for number in self.numbers if isinstance(number, Decimal)]
        return max(-int(decimal.as_tuple().exponent) for decimal in decimals) if decimals else None
