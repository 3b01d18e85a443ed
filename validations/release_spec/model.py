"""The release spec: one YAML file that says what a statistical product is.

`SpecFile` is the file as an engineer writes it, `ReleaseSpec` the same with everything filled in: each
table has its exact share of the budget and of its levels. The models check the shape of single values; what
must fit together is checked in `checks`. A run gets a `ReleaseSpec` from
`tabularium.validations.release_spec.load` only.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from tabularium.validations.release_spec.columns import Column
from tabularium.validations.release_spec.kinds import Part, PeriodName, ProductName, ReleaseName
from tabularium.validations.release_spec.privacy import Privacy, Rule, Tally, tallies_of
from tabularium.validations.release_spec.publication import (
    About,
    PostProcessing,
    Publication,
    WorkspaceOptions,
)
from tabularium.validations.release_spec.scalars import ColumnName, Positive, Reason, refuse
from tabularium.validations.release_spec.source import AnySource, LookUp, LookUpName, Source
from tabularium.validations.release_spec.tables import (
    Figures,
    Histogram,
    Impossible,
    Invariant,
    Table,
    TableEntry,
    split,
)
from tabularium.validations.release_spec.targets import Target, Tuning


def _some(value: tuple[object, ...] | dict[str, object]) -> Any:
    if not value:
        raise refuse("is empty", "write at least one")
    return value


class SpecParts(Part):
    """Everything but the tables."""

    product: ProductName = Field(
        description="Name of the product: small letters, digits and hyphens, at most 63."
    )
    dataset: ProductName = Field(description="The ledger account that pays, written like `product`.")
    period: PeriodName = Field(
        description='The reference period: letters, digits, `.`, `_` and `-`, such as `"2026-Q1"`.'
    )
    revises: Reason | None = Field(
        default=None,
        description="Why product and period are published again: one line of at most 200 characters, which "
        "is published. An officer must approve it.",
    )
    measurements_of: ReleaseName | None = Field(
        default=None,
        description="The published release from whose measurements this revision is made, without data or "
        "cost. It needs `revises`.",
    )
    source: AnySource = Field(description="Where the microdata are.")
    size: Positive | None = Field(
        default=None,
        description="About how many records there will be, from public knowledge, so that `tabularium check` "
        "shows how accurate cells will be.",
    )
    lookups: dict[LookUpName, LookUp] = Field(
        default_factory=dict,
        description="Tables in which more is found about a record.",
    )
    privacy: Privacy = Field(description="The guarantee and its price.")
    columns: Annotated[dict[ColumnName, Column], AfterValidator(_some)] = Field(
        description="The columns that are used, each with its public domain."
    )
    histograms: tuple[Histogram, ...] = Field(
        default=(),
        description="How many values of a column have how many records, such as household sizes.",
    )
    invariants: tuple[Invariant, ...] = Field(
        default=(), description="Public numbers that the tables show exactly, outside the guarantee."
    )
    figures: tuple[Figures, ...] = Field(
        default=(), description="Public numbers that rates are over, such as a population."
    )
    impossible: tuple[Impossible, ...] = Field(
        default=(), description="Values that cannot occur together: their cells are exactly zero."
    )
    rules: tuple[Rule, ...] = Field(default=(), description="What must hold for the microdata.")
    targets: tuple[Target, ...] = Field(
        default=(), description="The margins that `tabularium plan` is to meet."
    )
    tuning: Tuning | None = Field(
        default=None,
        description="The release on which shares were chosen; `tabularium plan` writes it.",
    )
    postprocessing: PostProcessing = Field(
        default_factory=PostProcessing, description="What is done with the measurements."
    )
    about: About = Field(
        default_factory=About, description="What readers and catalogues learn about the product."
    )
    publication: Publication = Field(default_factory=Publication, description="What is published, and where.")
    workspace: WorkspaceOptions = Field(
        default_factory=WorkspaceOptions, description="The secure folder of a run."
    )

    @property
    def tallies(self) -> list[Tally]:
        """The noisy numbers of units that it buys, in the order in which they are drawn."""
        return tallies_of(self.rules, self.privacy.cut_units)

    @property
    def tally_share(self) -> Fraction:
        """The part of the whole budget that pays for tallies: noisy rules, and what `cut_units` buys."""
        return sum((tally.share for tally in self.tallies), Fraction())

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
        shares = sum((histogram.share for histogram in self.histograms), self.tally_share)
        return self.privacy.record_budget * (1 - shares)


class SpecFile(SpecParts):
    """The release spec as it is written."""

    source: Source = Field(description="Where the microdata are.")
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
    def measured_columns(self) -> list[str]:
        """The columns of the source that are read as numbers: those of measures, and of their weights."""
        measures = (measure for table in self.tables for measure in table.measures.values())
        return list(dict.fromkeys(name for measure in measures for name in measure.columns))

    @property
    def identifiers(self) -> list[str]:
        """The columns of the source with values distinguished as text: of histograms, distinct counts."""
        budgets = [histogram.of for histogram in self.histograms]
        budgets += [
            measure.identifier
            for table in self.tables
            for measure in table.measures.values()
            if measure.identifier
        ]
        return list(dict.fromkeys(budgets))

    @property
    def losses(self) -> dict[tuple[str, str], Fraction]:
        """What each measurement costs one record, by the name of its table or histogram, and its level.

        Losses under one definition add, so that shares of ε, or of ρ, make up the whole.
        """
        budgets = {
            (table.name, level): self.table_budget * table.share * share
            for table in self.arrays
            for level, share in (table.levels or {"": Fraction(1)}).items()
        }
        return budgets | {
            (histogram.name, ""): self.privacy.record_budget * histogram.share
            for histogram in self.histograms
        }
