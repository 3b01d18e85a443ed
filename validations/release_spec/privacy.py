"""Privacy in a spec: the unit, the relation, the budget; and the rules that microdata must meet."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tabularium.mechanisms.accounting import Definition, PrivacyLoss, group_size
from tabularium.validations.release_spec.kinds import Part, UnitChoice
from tabularium.validations.release_spec.scalars import (
    Budget,
    Change,
    ColumnName,
    Count,
    Delta,
    Number,
    Portion,
    Positive,
    Share,
)


class Bought(Part):
    """What a noisy number may cost."""

    share: Share = Field(description="Its part of the whole budget, spent whatever comes out.")


@dataclass(frozen=True)
class Tally:
    """A noisy number of privacy units, or of their records, that a spec buys.

    Attributes
    ----------
    of
        The name of a noisy rule, ``cut_units`` or ``records left out``.
    share
        Its part of the whole budget.
    most
        What one unit adds to it at most.
    """

    of: str
    share: Fraction
    most: int = 1

    @property
    def purpose(self) -> str:
        """Its name in the transcript."""
        return f"tally of {self.of}"


class RuleBase(Part):
    """What all validation rules share."""

    severity: Literal["stop", "warn"] = Field(
        default="stop",
        description="`stop` ends the run before it costs anything; `warn` only reports.",
    )
    rule: str

    @property
    def about(self) -> tuple[str, ...]:
        """The columns that it looks at."""
        return ()

    @property
    def name(self) -> str:
        """Stable name of the rule: its kind, with its columns if it has any."""
        return f"{self.rule}({', '.join(self.about)})" if self.about else self.rule


class RowCountRule(RuleBase):
    """The number of rows is within bounds, or near that of the period before; one field or more."""

    rule: Literal["row_count"]
    min: Count | None = Field(default=None, description="The smallest number of rows.")
    max: Count | None = Field(default=None, description="The largest number of rows.")
    change_from_last: Change | None = Field(
        default=None,
        description="The largest change against the period before, as a part of it; more than 1 "
        "only with a percent sign.",
    )
    noisy: Bought | None = Field(
        default=None,
        description='Judge a noisy number of privacy units instead of the exact rows: `{share: "1/100"}`.',
    )


class ColumnRule(RuleBase):
    """What the rules about one column share."""

    noisy: ClassVar[None] = None
    column: ColumnName = Field(description="A declared column.")

    @property
    def about(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)


class NullsRule(ColumnRule):
    """At most this part of the rows is null in a declared column."""

    rule: Literal["nulls"]
    at_most: Portion = Field(description="The largest part of the rows that may be null.")


class InvalidRule(ColumnRule):
    """At most this part of the rows is outside the domain of a declared column."""

    rule: Literal["invalid"]
    at_most: Portion = Field(description="The largest part of the rows that may lie outside the domain.")


class NumbersRule(ColumnRule):
    """At most this part of the rows holds something else than a number or null, in a column of a measure."""

    rule: Literal["numbers"]
    column: ColumnName = Field(description="A column of a measure or weight, declared or not.")
    at_most: Portion = Field(description="The largest part of the rows that may hold no number, and no null.")


class RangeRule(ColumnRule):
    """All values of a declared integer column are within bounds, one or both."""

    rule: Literal["range"]
    column: ColumnName = Field(description="A declared integer column.")
    min: Number | None = Field(default=None, description="The smallest value.")
    max: Number | None = Field(default=None, description="The largest value.")


class UniqueRule(RuleBase):
    """No two rows agree in all these columns of the source, declared or not."""

    noisy: ClassVar[None] = None
    rule: Literal["unique"]
    columns: tuple[ColumnName, ...] = Field(description="Columns of the source, declared or not.")

    @property
    def about(self) -> tuple[str, ...]:
        """The columns."""
        return self.columns


Rule = Annotated[
    RowCountRule | NullsRule | InvalidRule | NumbersRule | RangeRule | UniqueRule, Field(discriminator="rule")
]


CUT_UNITS = "cut_units"
LEFT_OUT = "records left out"


class CutUnits(Bought):
    """What is published, with noise, of the units that have too many records."""

    records_up_to: Positive | None = Field(
        default=None,
        description="Buy a second number at the same share: how many records were left out, of which each "
        "unit counts for this many at most.",
    )


class Privacy(Part):
    """Who is protected, against what change, and at what price."""

    unit: UnitChoice = Field(
        description="Whom the release protects: `record`, or an entity, such as `{entity: person, "
        "column: person_id}`."
    )
    max_contributions: Positive = Field(
        default=1,
        description="How many records of a unit are counted; of more, so many are chosen at random. Required "
        "if the unit has a column: choose it from public knowledge, never from the data.",
    )
    relation: Literal["add-remove", "replace"] = Field(
        default="add-remove",
        description="How neighbouring data sets differ: by one unit more or less (`add-remove`), or other "
        "records of one unit (`replace`).",
    )
    definition: Definition = Field(
        default="pure",
        description="`pure` differential privacy (the budget is ε), or `zcdp`, zero-concentrated (ρ).",
    )
    budget: Budget = Field(description="The privacy loss of the whole release for one unit, above zero.")
    delta: Delta | None = Field(
        default=None,
        description="Only under zcdp, and required there: the δ at which the certificate states ε. It "
        "changes neither noise nor cost.",
    )
    cut_units: CutUnits | None = Field(
        default=None,
        description='`{share: "1/100"}` buys an estimate of how many units had more records; with '
        "`records_up_to: 20` also of how many records were left out at least, at the same share.",
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


def tallies_of(rules: Iterable[Rule], cut: CutUnits | None) -> list[Tally]:
    """Return the noisy numbers that rules and ``cut_units`` buy, in the order in which they are drawn."""
    bought = [Tally(rule.name, rule.noisy.share) for rule in rules if rule.noisy is not None]
    if cut is not None:
        bought.append(Tally(CUT_UNITS, cut.share))
        if cut.records_up_to is not None:
            bought.append(Tally(LEFT_OUT, cut.share, cut.records_up_to))
    return bought
