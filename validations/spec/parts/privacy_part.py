"""Who is protected, against what change, and at what price."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Literal

from pydantic import Field

from tabularium.mechanisms.accounting import Definition, PrivacyLoss, group_size
from tabularium.validations.spec.kinds import Part, UnitChoice
from tabularium.validations.spec.parts.rules import Bought, Rule, Tally
from tabularium.validations.spec.values import Budget, Delta, Positive

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
        description="Who is protected: `record`, or `{entity: person, column: person_id}`, where the column "
        "tells the entities apart (without it each record is one); `population` may name that of the account."
    )
    max_contributions: Positive = Field(
        default=1,
        description="How many records of one unit are counted; the others are left out at random. Required "
        "where the unit has a column: choose it from what is publicly known, never from the data.",
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
    cut_units: CutUnits | None = Field(
        default=None,
        description='Estimate how many units had more than `max_contributions` records: `{share: "1/100"}`, '
        'and how many records were left out at least: `{share: "1/100", records_up_to: 20}`.',
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
