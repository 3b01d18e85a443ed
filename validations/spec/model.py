"""The release spec: one YAML file that says what a statistical product is.

`SpecFile` is the file as an engineer writes it, `ReleaseSpec` the same with everything filled in: each
table has its exact share of the budget and of its levels. The models check the shape of single values;
what must fit together is checked in the `*_checks` beside it, and files are read in `validations.spec.load`,
which is the only way a run gets a `ReleaseSpec`.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from mechanisms.accounting import Definition, PrivacyLoss, group_size
from validations.derivation.derived_parts import Derivation
from validations.domains.domains import Treatment
from validations.spec.kinds import (
    Categories,
    DatabaseTable,
    IntegerRange,
    LevelName,
    Part,
    PeriodName,
    ProductName,
    ReleaseName,
    TableName,
    UnitChoice,
    format_of,
)
from validations.spec.measures.measure_fields import Measure, split
from validations.spec.output_options import About, PostProcessing, Publication, WorkspaceOptions
from validations.spec.rules import Bought, Rule, Tally
from validations.spec.targets.wanted_margins import Target, Tuning
from validations.spec.values import (
    Budget,
    ColumnName,
    Count,
    Delta,
    ErrorShare,
    Parameter,
    Positive,
    RawText,
    Reason,
    RejectLimit,
    Share,
    Text,
    refuse,
)

CUT_UNITS = "cut_units"
Format = Literal["csv", "parquet"]


class Source(Part):
    """Where the microdata are: ``path`` for files, or ``url`` and ``table`` for a database."""

    path: Text | None = Field(
        default=None,
        description="A file, a glob, or a folder of partitioned files; relative to the spec file. "
        "`{period}` in it stands for the period.",
    )
    url: Text | None = Field(default=None, description="A database URL without a password in it.")
    table: DatabaseTable | None = Field(default=None, description="The table behind `url`.")
    format: Format | None = Field(
        default=None, description="How the files are written; inferred from their ending when absent."
    )
    delimiter: RawText = Field(default=",", description="The character between the values of a CSV row.")
    nulls: tuple[RawText, ...] = Field(default=("",), description="The texts that mean null in a CSV file.")
    engine: Literal["duckdb", "database"] = Field(
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
    def file_format(self) -> Format | None:
        """The format of the files: as written, or inferred from the ending; None where neither says it."""
        return self.format or (format_of(self.path) if self.path else None)


class Privacy(Part):
    """Who is protected, against what change, and at what price."""

    unit: UnitChoice = Field(
        description="Who is protected: `record`, or `{entity: person, column: person_id}`, where the column "
        "tells the entities apart (without it each record is one); `population` may name that of the account."
    )
    max_contributions: Positive = Field(
        default=1, description="How many records of one unit are counted; the others are left out at random."
    )
    relation: Literal["add-remove", "replace"] = Field(
        default="add-remove",
        description="Neighbouring data sets differ by adding or removing a unit, or by replacing one.",
    )
    definition: Definition = Field(
        default="pure",
        description="What the budget is an amount of: `pure` (ε), or `zcdp` (ρ, zero-concentrated).",
    )
    budget: Budget = Field(
        description="The privacy loss of the whole release for one unit, exact: ε, or ρ under zcdp."
    )
    delta: Delta | None = Field(
        default=None, description="With zcdp, and required there: the δ at which ε is reported."
    )
    cut_units: Bought | None = Field(
        default=None,
        description='Estimate how many units had more than `max_contributions` records: `{share: "1/100"}`.',
    )

    @property
    def protects(self) -> str:
        """The entity that is protected, as the ledger's account names it."""
        return self.unit.entity

    @property
    def loss(self) -> PrivacyLoss:
        """What the whole release costs one unit."""
        return PrivacyLoss(self.budget, self.definition)

    @property
    def record_budget(self) -> Fraction:
        """The budget for one record, by group privacy: ε/k, or ρ/k², where a unit changes k records."""
        return self.loss.for_record(self.changed_records).amount

    @property
    def changed_records(self) -> int:
        """How many records of the counted tables one unit changes: c, or 2c when it is replaced."""
        return group_size(self.max_contributions, self.relation)

    @property
    def counted_things(self) -> str:
        """What a noisy rule counts: ``units``, or ``records`` where each record is one."""
        return "records" if self.unit.column is None else "units"

    @property
    def bounding(self) -> str:
        """What a total counts, in words: of a unit with many records not all."""
        if self.unit.column is None:
            return "every record"
        records = "1 record" if self.max_contributions == 1 else f"{self.max_contributions} records"
        return f"at most {records} of each {self.unit.called}; the others are left out at random"

    @property
    def symbol(self) -> str:
        """The letter of the budget: ε or ρ."""
        return "ε" if self.definition == "pure" else "ρ"


class Column(Derivation):
    """A column with its public domain: one of ``categories``, ``integer`` and ``hierarchy``."""

    title: Text | None = Field(default=None, description="What it is called in what is published.")
    categories: Categories | None = Field(
        default=None, description="The codes with their labels, in the order of the cells."
    )
    integer: IntegerRange | None = Field(default=None, description="A range of whole numbers, cut into bins.")
    hierarchy: Text | None = Field(
        default=None,
        description="A code list, relative to the spec file: a CSV with the columns code, label and parent, "
        "or one of an SDMX file, as `lists.xml#CL_AREA`.",
    )
    levels: tuple[LevelName, ...] | None = Field(
        default=None, description="The names of the levels of the hierarchy, root first."
    )
    nulls: Treatment = Field(
        default="reject", description="A record with null here is rejected, or goes to `other`."
    )
    invalid: Treatment = Field(
        default="reject",
        description="A record with a value outside the domain is rejected, or goes to `other`.",
    )
    other: Text | None = Field(
        default=None, description="The code (of an integer column: the label of an extra cell) where they go."
    )


class TableEntry(Part):
    """A table as it is written: what is absent is filled in later."""

    name: TableName = Field(description="The name of the table, also of its files.")
    title: Text | None = Field(default=None, description="What it is called in what is published.")
    dimensions: tuple[ColumnName, ...] = Field(description="The columns that are crossed.")
    where: Text | None = Field(
        default=None,
        description='The records it counts, as `"age >= 15 and status = employed"`; all if absent.',
    )
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
    mechanism: Text | None = Field(
        default=None,
        description="How the counts are measured; `identity`, under zcdp `gaussian`, when absent.",
    )
    parameters: dict[Text, Parameter] = Field(
        default_factory=dict, description="The parameters of the mechanism."
    )
    margin_share: ErrorShare | None = Field(
        default=None,
        description="The part of the table's budget that measures its error, where the mechanism cannot tell "
        "it; 0 publishes no margins.",
    )
    measures: dict[TableName, Measure] = Field(
        default_factory=dict, description="Sums, means and medians beside the counts, by name."
    )


class Table(TableEntry):
    """A table with everything filled in.

    ``levels`` names each measured level of ``along`` with its share of the table's budget; it is empty, and
    ``along`` None, when no dimension is a hierarchy. ``margin_share`` is None where no part of the
    budget measures the error.
    """

    share: Share
    levels: dict[LevelName, Share]
    mechanism: Text = "identity"
    measured: Measure | None = Field(default=None, exclude=True)  # of an array that measures it


class Histogram(Part):
    """How many values of a column have how many records, as household sizes: never which values these are."""

    name: TableName = Field(description="The name of the histogram, also of its files.")
    title: Text | None = Field(default=None, description="What it is called in what is published.")
    of: ColumnName = Field(
        description="The column whose values are the items, such as household_id; it needs no public domain."
    )
    share: Share = Field(description="The part of the whole budget; the tables share what is left.")
    parameters: dict[Text, Parameter] = Field(
        default_factory=dict, description="The parameters of `privhist`, which measures it."
    )
    largest: Positive | None = Field(
        default=None,
        description="The largest size that can be, where that is public; none above it is shown.",
    )

    def largest_size(self, privacy: Privacy) -> int | None:
        """Return the largest size that is publicly possible: of units themselves, what bounding leaves."""
        known = [self.largest, privacy.max_contributions if self.of == privacy.unit.column else None]
        return min((each for each in known if each is not None), default=None)


class Invariant(Part):
    """Numbers that are public without this release, and that its tables are to show exactly."""

    name: TableName = Field(description="The name of the invariant.")
    dimensions: tuple[ColumnName, ...] = Field(
        default=(), description="The columns that are crossed in it; none for a total."
    )
    level: LevelName | None = Field(
        default=None, description="The level of its hierarchical dimension; the leaves when absent."
    )
    values: Text | None = Field(
        default=None,
        description="A CSV with one column per dimension and the column count; relative to the spec file.",
    )
    count: Count | None = Field(default=None, description="Of an invariant without dimensions: the total.")
    reason: Text = Field(description="Where the numbers are public already; it is published.")
    on_conflict: Literal["stop", "publish"] = Field(
        default="stop",
        description="What is done where the measurements contradict it beyond chance: `stop`, or `publish` "
        "with the conflict named.",
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
    revises: Reason | None = Field(
        default=None, description="Why this is published again; published, and approved by an officer."
    )
    measurements_of: ReleaseName | None = Field(
        default=None, description="The earlier release whose measurements a free revision is made from."
    )
    source: Source = Field(description="Where the microdata are.")
    privacy: Privacy = Field(description="The guarantee, and its price.")
    columns: Annotated[dict[ColumnName, Column], AfterValidator(_some)] = Field(
        description="The columns that are used, each with its public domain."
    )
    histograms: tuple[Histogram, ...] = Field(
        default=(), description="Counts of counts: how many values of a column have how many records."
    )
    invariants: tuple[Invariant, ...] = Field(
        default=(), description="Public numbers that the tables show exactly, outside the guarantee."
    )
    rules: tuple[Rule, ...] = Field(default=(), description="What must hold for the microdata.")
    targets: tuple[Target, ...] = Field(
        default=(), description="The margins that are wanted, for `tabularium plan`; a run ignores them."
    )
    tuning: Tuning | None = Field(
        default=None, description="The published release that shares were chosen on; `plan` writes it."
    )
    postprocessing: PostProcessing = Field(
        default_factory=PostProcessing, description="What is done with the measurements."
    )
    about: About = Field(
        default_factory=About, description="What people and catalogues are told of the product."
    )
    publication: Publication = Field(default_factory=Publication, description="What is published, and where.")
    workspace: WorkspaceOptions = Field(
        default_factory=WorkspaceOptions, description="The secure folder of a run."
    )

    @property
    def tallies(self) -> list[Tally]:
        """The noisy numbers of units that it buys, in the order in which they are drawn."""
        bought = [(rule.name, rule.noisy) for rule in self.rules] + [(CUT_UNITS, self.privacy.cut_units)]
        return [Tally(name, each.share) for name, each in bought if each is not None]

    @property
    def tally_share(self) -> Fraction:
        """The part of the whole budget that pays for tallies: noisy rules, and the number of cut units."""
        return sum((each.share for each in self.tallies), Fraction())

    @property
    def tally_amount(self) -> Fraction:
        """What the tallies cost one unit: a charge of their own, made before the main one."""
        return self.privacy.budget * self.tally_share

    @property
    def main_amount(self) -> Fraction:
        """What tables and histograms cost one unit: the main charge."""
        return self.privacy.budget - self.tally_amount

    @property
    def main_record_budget(self) -> Fraction:
        """The budget of the main charge for one record, by group privacy."""
        return self.privacy.record_budget * (1 - self.tally_share)

    @property
    def table_budget(self) -> Fraction:
        """The budget of all tables together, for one record: what tallies and histograms leave of it."""
        shares = sum((each.share for each in self.histograms), self.tally_share)
        return self.privacy.record_budget * (1 - shares)


class SpecFile(SpecParts):
    """The release spec as it is written."""

    tables: Annotated[tuple[TableEntry, ...], AfterValidator(_some)] = Field(
        description="The tables that are published."
    )


class ReleaseSpec(SpecParts):
    """The release spec with everything filled in; the shares of the tables add to exactly one."""

    tables: tuple[Table, ...]

    @property
    def arrays(self) -> list[Table]:
        """What is measured: the counts of each table, then its measures as tables of their own."""
        return [array for table in self.tables for array in split(table)]

    @property
    def losses(self) -> dict[tuple[str, str], Fraction]:
        """What each measurement costs one record, by the name of its table or histogram, and its level.

        Losses under one definition add, so that shares of ε and shares of ρ alike make up the whole.
        """
        found = {
            (table.name, level): self.table_budget * table.share * share
            for table in self.arrays
            for level, share in (table.levels or {"": Fraction(1)}).items()
        }
        return found | {(each.name, ""): self.privacy.record_budget * each.share for each in self.histograms}
