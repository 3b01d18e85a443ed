"""Promise and cost in a certificate: the guarantee, what is outside of it, approvals and charges."""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from tabularium.validations.certificate.value_kinds import (
    Amount,
    Definition,
    Flag,
    Line,
    NotNegative,
    Number,
    OwnId,
    Relation,
    ReleaseId,
    Section,
    Several,
    Sha256,
    Sometimes,
    Time,
    Words,
)
from tabularium.validations.release_spec.exact_facts import Kind


class Fact(Section):
    """An exact fact for which no budget pays."""

    kind: Kind
    name: Words
    what: Words


class AtDelta(Section):
    """What ρ gives as (ε, δ)."""

    epsilon: NotNegative = Field(description="A float, rounded to the safe side.")
    delta: Amount = Field(description="Exact.")


class Unit(Section):
    """Who is protected."""

    entity: Line
    population: Line
    column: Words | None = Field(
        description="The column that tells the entities apart; null where each record is one."
    )


class Conversion(Section):
    """How ε, δ and ρ follow from one another."""

    exact: Literal["epsilon", "rho"]
    delta: Sometimes[Literal["0"]] = None
    rho: Sometimes[Amount] = None
    draws_settled_beforehand: Sometimes[Flag] = None
    words: Words


class Neighbours(Section):
    """Which inputs are compared, once the exact facts are known."""

    fixed: Literal[None, "total", "marginals"] = Field(description="What the facts fix.")
    change: Relation
    units: Number | None = Field(description="How many units the smallest allowed change replaces.")
    epsilon: Sometimes[Amount] = None
    rho: Sometimes[Amount] = None
    epsilon_delta: Sometimes[tuple[AtDelta, ...]] = None


class Privacy(Section):
    """Whose protection is promised, against what change, at what price."""

    definition: Definition
    unit: Unit
    relation: Relation
    max_contributions: Several = Field(description="How many records of one unit are counted.")
    conversion: Conversion
    epsilon: Sometimes[Amount] = Field(default=None, description="Of one unit, under pure.")
    epsilon_per_record: Sometimes[Amount] = None
    rho: Sometimes[Amount] = Field(default=None, description="Of one unit, under zcdp.")
    rho_per_record: Sometimes[Amount] = None
    epsilon_delta: Sometimes[tuple[AtDelta, ...]] = Field(
        default=None, description="Under zcdp: what ρ gives."
    )
    neighbours: Neighbours
    reading: Annotated[tuple[Words, ...], Field(min_length=1)] = Field(
        description="What that means for one unit, in plain words."
    )

    @model_validator(mode="after")
    def _of_its_definition(self) -> Self:
        pure = self.definition == "pure"
        if (self.epsilon is None, self.rho is None) != (not pure, pure):
            raise ValueError("has not the ε or ρ of its definition")
        return self

    @property
    def loss(self) -> Fraction:
        """What one unit may lose: ε under pure, ρ under zcdp."""
        amount = self.epsilon if self.definition == "pure" else self.rho
        assert amount is not None  # noqa: S101 - the validator has looked
        return amount


class Approved(Section):
    """The approval."""

    key: Words = Field(description="The name of the officer's key.")
    entry: Several = Field(description="Its entry in the ledger.")
    at: Time = Field(description="When, UTC.")
    at_most: Amount | None = Field(description="The most that one charge may cost; null for any.")


class Approval(Section):
    """Who had approved the spec when it was charged."""

    needed: Flag = Field(description="Whether the account asked for it.")
    account_asks_always: Flag
    account_asks_for_exact_facts: Flag
    approved: Approved | None = Field(description="Null where nobody had.")
    officers: Sometimes[Several] = Field(
        default=None, description="How many different officers had to; absent where one suffices."
    )
    others: Sometimes[tuple[Approved, ...]] = Field(
        default=None, description="The approvals of the other officers, where several had to."
    )


class Reserved(Section):
    """This charge."""

    entry: Several = Field(description="The ledger's entry that reserved it.")
    at: Time = Field(description="When, UTC.")
    amount: Amount
    left_before: Amount = Field(description="What was left of the cap.")
    left_after: Amount


class Cumulative(Section):
    """The loss of the account so far."""

    used: Amount = Field(description="The plain sum of all charges that count, this one included, exact.")
    charges: Several = Field(description="How many they are.")
    releases_before: Number = Field(description="How many releases of it were published before.")


class Account(Section):
    """The account that paid, as it stood when the charge was reserved."""

    name: Line
    entity: Line
    population: Line
    relation: Relation
    definition: Definition
    delta: Amount | None
    cap: Amount = Field(description="The most that may ever be charged.")
    cap_per_period: Amount | None
    cap_per_product: Amount | None
    reserved: Reserved
    cumulative: Cumulative
    words: tuple[Words, ...] = Field(description="What it means, in words.")


class BudgetPart(Section):
    """A part of the budget."""

    kind: Literal["tally", "table", "measure", "histogram"]
    name: Words
    level: Words | None = Field(description="The level of a hierarchy.")
    share: Amount = Field(description="Of the whole budget; all shares add up to 1.")
    per_unit: Amount
    per_record: Amount
    of_it_for_margins: Amount = Field(description="The part of it that measures the error.")


class Parallel(Section):
    """Draws in scopes of disjoint cells."""

    measurement: Words
    scopes: Several
    branches: Several


class Composition(Section):
    """By which rules losses are added up."""

    rule: Literal["sequential"]
    changed_records: Several = Field(description="How many records one unit changes at most.")
    parallel: tuple[Parallel, ...] = Field(
        description="Where parallel composition is used; the transcript has scope and branch of each draw."
    )
    across_releases: Literal["sequential"]
    words: tuple[Words, ...] = Field(description="What it means, in words.")


class RestsOn(Section):
    """The earlier release whose measurements these are."""

    release_id: OwnId = Field(description="The release that was measured and paid for.")
    measurements: Sha256 = Field(description="The digest of its measurements, and of this release's.")
    amount: Amount = Field(description="What its main charge was, for one unit.")


class TallyCharge(Section):
    """A charge for tallies."""

    number: Number
    release_id: ReleaseId
    amount: Amount
    attempts: Several


class Withheld(Section):
    """A draft of the account that an officer withheld."""

    release_id: ReleaseId
    product: Words
    period: Words
    amount: Amount = Field(description="What all its charges cost.")
    criterion: Words = Field(description="For what it was withheld.")
    consulted: Flag = Field(description="Whether confidential figures were consulted.")


class Head(Section):
    """The newest entry, by which an old copy of the ledger is recognised."""

    seq: Several
    hash: Sha256
    chain: Sha256 = Field(description="The hash of the first entry, which names the ledger.")
    mac: Sha256 = Field(description="The agency's mark that it is genuine.")


class Charge(Section):
    """The charge, and the newest entry of the ledger."""

    account: Line
    amount: Amount = Field(description="Of the main charge, for one unit; 0 where an earlier release paid.")
    rests_on: RestsOn | None = Field(
        description="The earlier release from whose measurements this one is made; null if it has its own."
    )
    definition: Definition
    attempts: Several = Field(description="How many times drawing began.")
    tally_charges: tuple[TallyCharge, ...]
    withheld: tuple[Withheld, ...] = Field(
        description="Drafts of the account that officers withheld before, with what each cost."
    )
    head: Head
