"""The release spec: one YAML file that says what a statistical product is.

`SpecFile` is the file as an engineer writes it, `ReleaseSpec` the same with everything filled in: each
table has its exact share of the budget and of its levels. The models check the shape of single values;
what must fit together is checked in `validations.checks`, and files are read in `validations.loading`,
which is the only way a run gets a `ReleaseSpec`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)

from validations.domains import Treatment
from validations.quantities import (
    Budget,
    Change,
    ColumnName,
    Confidence,
    Count,
    Parameter,
    Portion,
    Positive,
    RawText,
    RejectLimit,
    Share,
    Switch,
    Text,
    Whole,
    choice,
    refuse,
)
from validations.spec_kinds import (
    Categories,
    DatabaseTable,
    LevelName,
    PeriodName,
    ProductName,
    TableName,
    UnitColumn,
    format_of,
)


class Part(BaseModel):
    """A frozen piece of a spec that knows all its keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Source(Part):
    """Where the microdata are: ``path`` for files, or ``url`` and ``table`` for a database."""

    path: Text | None = Field(
        default=None,
        description="A file, a glob, or a folder of partitioned files; relative to the spec file.",
    )
    url: Text | None = Field(default=None, description="A database URL without a password in it.")
    table: DatabaseTable | None = Field(default=None, description="The table behind `url`.")
    format: Annotated[Literal["csv", "parquet"], choice("csv", "parquet")] | None = Field(
        default=None, description="How the files are written; told from their ending when absent."
    )
    delimiter: RawText = Field(default=",", description="The character between the values of a CSV row.")
    nulls: tuple[RawText, ...] = Field(default=("",), description="The texts that mean null in a CSV file.")
    engine: Annotated[Literal["duckdb", "database"], choice("duckdb", "database")] = Field(
        default="duckdb",
        description="What reads it: `duckdb` for files, `database` for a URL (the default there).",
    )
    max_rejected: RejectLimit = Field(
        default=0,
        description="How many records may be rejected before the run stops: a count, or a percentage.",
    )

    @model_validator(mode="before")
    @classmethod
    def _engine_of_url(cls, data: Any) -> Any:
        if isinstance(data, dict) and "url" in data and "path" not in data and "engine" not in data:
            return {**data, "engine": "database"}
        return data

    @property
    def file_format(self) -> Literal["csv", "parquet"] | None:
        """The format of the files: as written, or told from the ending; None where neither says it."""
        return self.format or (format_of(self.path) if self.path else None)


class Privacy(Part):
    """Who is protected, against what change, and at what price."""

    unit: UnitColumn = Field(
        description="Who is protected: `record`, or `{column: person_id}` when a unit has several records."
    )
    max_contributions: Positive = Field(
        default=1, description="How many records of one unit are counted; the others are left out at random."
    )
    relation: Annotated[Literal["add-remove", "replace"], choice("add-remove", "replace")] = Field(
        default="add-remove",
        description="Neighbouring data sets differ by adding or removing a unit, or by replacing one.",
    )
    budget: Budget = Field(description="The privacy loss ε of the whole release for one unit, exact.")

    @property
    def protects(self) -> str:
        """The privacy unit as the ledger's account names it: ``record``, or the name of the column."""
        return self.unit or "record"

    @property
    def record_budget(self) -> Fraction:
        """The budget for one record: a unit changes c records, or 2c when it is replaced."""
        return self.budget / self.changed_records

    @property
    def changed_records(self) -> int:
        """How many records of the counted tables one unit changes: c, or 2c when it is replaced."""
        return self.max_contributions * (2 if self.relation == "replace" else 1)


class IntegerRange(Part):
    """Whole numbers ``from``..``to`` (both included), cut at ``edges`` or every ``width``."""

    start: Whole = Field(alias="from", description="The smallest value.")
    end: Whole = Field(alias="to", description="The largest value, included.")
    edges: tuple[Whole, ...] | None = Field(
        default=None,
        description="The first value of each bin after the first: [5, 18] cuts 0-4, 5-17 and 18 up.",
    )
    width: Positive | None = Field(
        default=None, description="Cut every so many values; 1 when there are no edges."
    )
    labels: tuple[Text, ...] | None = Field(default=None, description="One label per bin, instead of `5-17`.")


TreatmentChoice = Annotated[Treatment, choice("reject", "other")]


class Column(Part):
    """A column with its public domain: one of ``categories``, ``integer`` and ``hierarchy``."""

    categories: Categories | None = Field(
        default=None, description="The codes with their labels, in the order of the cells."
    )
    integer: IntegerRange | None = Field(default=None, description="A range of whole numbers, cut into bins.")
    hierarchy: Text | None = Field(
        default=None,
        description="A code list CSV with the columns code, label and parent; relative to the spec file.",
    )
    levels: tuple[LevelName, ...] | None = Field(
        default=None, description="The names of the levels of the hierarchy, root first."
    )
    nulls: TreatmentChoice = Field(
        default="reject", description="A record with null here is rejected, or goes to `other`."
    )
    invalid: TreatmentChoice = Field(
        default="reject",
        description="A record with a value outside the domain is rejected, or goes to `other`.",
    )
    other: Text | None = Field(
        default=None, description="The code (of an integer column: the label of an extra cell) where they go."
    )


class TableEntry(Part):
    """A table as it is written: what is absent is filled in later."""

    name: TableName = Field(description="The name of the table, also of its files.")
    dimensions: tuple[ColumnName, ...] = Field(description="The columns that are crossed.")
    share: Share | None = Field(
        default=None, description="The table's part of the budget; equal parts when no table has one."
    )
    levels: dict[LevelName, Share] | None = Field(
        default=None,
        description="The measured levels of the hierarchy with their parts of the table's budget.",
    )
    along: ColumnName | None = Field(
        default=None, description="The hierarchical dimension that has the levels; the first one when absent."
    )
    mechanism: Text = Field(default="identity", description="How the counts are measured.")
    parameters: dict[Text, Parameter] = Field(
        default_factory=dict, description="The parameters of the mechanism."
    )


class Table(TableEntry):
    """A table with everything filled in.

    ``levels`` names each measured level of ``along`` with its share of the table's budget; it is empty, and
    ``along`` None, when no dimension is a hierarchy.
    """

    share: Share
    levels: dict[LevelName, Share]


class RuleBase(Part):
    """What all validation rules share."""

    severity: Annotated[Literal["stop", "warn"], choice("stop", "warn")] = Field(
        default="stop", description="Whether a failure stops the run or is only reported."
    )


class RowCountRule(RuleBase):
    """The number of rows is within bounds."""

    rule: Literal["row_count"]
    min: Count | None = Field(default=None, description="The smallest number of rows.")
    max: Count | None = Field(default=None, description="The largest number of rows.")
    change_from_last: Change | None = Field(
        default=None, description="The largest change against the period before, as a part of it."
    )

    @property
    def name(self) -> str:
        """Stable name of the rule."""
        return "row_count"


class NullsRule(RuleBase):
    """At most so many rows are null in a column."""

    rule: Literal["nulls"]
    column: ColumnName = Field(description="A declared column.")
    at_most: Portion = Field(description="The largest part of the rows that may be null.")

    @property
    def name(self) -> str:
        """Stable name of the rule."""
        return f"nulls({self.column})"


class InvalidRule(RuleBase):
    """At most so many rows lie outside the domain of a column."""

    rule: Literal["invalid"]
    column: ColumnName = Field(description="A declared column.")
    at_most: Portion = Field(description="The largest part of the rows that may lie outside the domain.")

    @property
    def name(self) -> str:
        """Stable name of the rule."""
        return f"invalid({self.column})"


class RangeRule(RuleBase):
    """The values of an integer column lie within bounds."""

    rule: Literal["range"]
    column: ColumnName = Field(description="A declared integer column.")
    min: Whole | None = Field(default=None, description="The smallest value.")
    max: Whole | None = Field(default=None, description="The largest value.")

    @property
    def name(self) -> str:
        """Stable name of the rule."""
        return f"range({self.column})"


class UniqueRule(RuleBase):
    """No two rows agree in these columns."""

    rule: Literal["unique"]
    columns: tuple[ColumnName, ...] = Field(description="Columns of the source, declared or not.")

    @property
    def name(self) -> str:
        """Stable name of the rule."""
        return f"unique({', '.join(self.columns)})"


Rule = Annotated[RowCountRule | NullsRule | InvalidRule | RangeRule | UniqueRule, Field(discriminator="rule")]


class PostProcessing(Part):
    """What is done with the measurements; it costs no budget."""

    consistency: Switch = Field(default=True, description="Make the levels add up (weighted least squares).")
    nonnegativity: Switch = Field(default=True, description="Make every cell zero or more.")
    rounding: Switch = Field(default=True, description="Make every cell a whole number.")


class Measurements(Part):
    """Whether the noisy measurements are published beside the tables, or withheld with a reason."""

    withhold: Text | None = Field(default=None, description="The reason, which is published instead.")


def _measurements(value: object) -> object:
    if value == "publish":
        return Measurements()
    if isinstance(value, Measurements) or (isinstance(value, dict) and value):
        return value
    raise refuse("is neither `publish` nor a reason", 'write publish, or {withhold: "the reason"}')


MeasurementsChoice = Annotated[
    Measurements,
    BeforeValidator(_measurements),
    PlainSerializer(
        lambda m: "publish" if m.withhold is None else {"withhold": m.withhold}, when_used="json"
    ),
    WithJsonSchema(
        {
            "anyOf": [
                {"const": "publish"},
                {
                    "type": "object",
                    "properties": {"withhold": {"type": "string", "minLength": 1}},
                    "required": ["withhold"],
                    "additionalProperties": False,
                },
            ]
        }
    ),
]


class Publication(Part):
    """What is published, and where."""

    folder: Text = Field(
        default="releases", description="Where releases are written; relative to the spec file."
    )
    formats: tuple[Annotated[Literal["csv", "parquet"], choice("csv", "parquet")], ...] = Field(
        default=("csv", "parquet"), description="How the tables are written."
    )
    confidence: Confidence = Field(default=Fraction(9, 10), description="The level of the margins of error.")
    measurements: MeasurementsChoice = Field(
        default=Measurements(),
        description="`publish` the noisy measurements beside the tables, or `{withhold: reason}`.",
    )


class WorkspaceOptions(Part):
    """The secure folder of a run."""

    keep: Switch = Field(
        default=False, description="Keep the secure workspace after the run, for an inquiry."
    )


def _some(value: tuple[object, ...] | dict[str, object]) -> Any:
    if not value:
        raise refuse("is empty", "write at least one")
    return value


class SpecParts(Part):
    """Everything but the tables."""

    product: ProductName = Field(description="The name of the statistical product.")
    dataset: ProductName = Field(description="The ledger account that pays for it.")
    period: PeriodName = Field(description="The reference period.")
    source: Source = Field(description="Where the microdata are.")
    privacy: Privacy = Field(description="The guarantee, and its price.")
    columns: Annotated[dict[ColumnName, Column], AfterValidator(_some)] = Field(
        description="The columns that are used, each with its public domain."
    )
    rules: tuple[Rule, ...] = Field(default=(), description="What must hold for the microdata.")
    postprocessing: PostProcessing = Field(
        default_factory=PostProcessing, description="What is done with the measurements."
    )
    publication: Publication = Field(default_factory=Publication, description="What is published, and where.")
    workspace: WorkspaceOptions = Field(
        default_factory=WorkspaceOptions, description="The secure folder of a run."
    )


class SpecFile(SpecParts):
    """The release spec as it is written."""

    tables: Annotated[tuple[TableEntry, ...], AfterValidator(_some)] = Field(
        description="The tables that are published."
    )


class ReleaseSpec(SpecParts):
    """The release spec with everything filled in; the shares of the tables add to exactly one."""

    tables: tuple[Table, ...]
