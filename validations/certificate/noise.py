"""Noise in a certificate: how it was drawn, what each draw cost, and what else the guarantee rests on."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, JsonValue

from tabularium.mechanisms.accounting.transcript import Event
from tabularium.validations.certificate.value_kinds import (
    Amount,
    Commit,
    Date,
    Definition,
    Flag,
    NotNegative,
    Number,
    Ratio,
    Scale,
    Section,
    Several,
    Sha256,
    Sometimes,
    WholeNumber,
    Words,
    only,
)

Sampler = Literal[
    "discrete_laplace",
    "discrete_gaussian",
    "lattice_laplace",
    "lattice_gaussian",
    "permute_and_flip",
    "exponential",
    "least_noisy_partition",
]
"""What a release is drawn with: exact samplers, and no continuous noise, which others' releases may have."""


class Draw(Section):
    """One draw, or one vector of draws, of the noise channel."""

    primitive: Sampler
    definition: Definition
    loss: Ratio = Field(description="What it costs one record.")
    sensitivity: Ratio = Field(description="What one record can change.")
    scale: Scale
    scale_squared: Ratio = Field(description="The square of the scale, exact.")
    shape: tuple[Number, ...] = Field(description="The shape of what was measured.")
    width: Ratio = Field(description="The step of a lattice; 1 for whole numbers.")
    purpose: Words = Field(description="What it was for; it begins with the name of the measurement.")
    branches: tuple[tuple[Words, Number], ...] = Field(
        description="The scopes of disjoint cells it was drawn in, outermost first: name and branch."
    )
    alike: Sometimes[Annotated[int, Field(strict=True, ge=2)]] = Field(
        default=None,
        description="How many branches of a scope drew this in the same way; this one stands for all.",
    )

    @classmethod
    def of(cls, event: Event) -> Self:
        """Return what a certificate says of an event of the channel."""
        return cls.model_validate(event.as_dict())

    @property
    def event(self) -> Event:
        """The event of the channel."""
        return Event(
            primitive=self.primitive,
            loss=self.loss,
            definition=self.definition,
            sensitivity=self.sensitivity,
            scale_squared=self.scale_squared,
            shape=self.shape,
            purpose=self.purpose,
            width=self.width,
            branches=self.branches,
            alike=self.alike or 1,
        )


class Draws(Section):
    """Draws that are alike."""

    noise: Sampler
    distribution: Words = Field(description="The distribution of the noise.")
    of: Literal["numbers", "choices", "errors, for margins"]
    norm: Literal["L1", "L2", "score"] = Field(description="Of the sensitivity.")
    sensitivity: Ratio
    scale: Scale
    scale_squared: Ratio
    width: Ratio
    loss: Ratio = Field(description="Of each, for one record.")
    draws: Several = Field(description="How many.")
    numbers: Number = Field(description="How many numbers or candidates in all.")


class Measured(Section):
    """One measurement."""

    name: Words
    level: Words | None
    purpose: Words = Field(description="How its draws begin in the transcript.")
    mechanism: Words | None = Field(description="Null for a tally, which is noise on one number.")
    parameters: dict[str, JsonValue] = Field(description="Every parameter, defaults too.")
    per_record: Amount = Field(description="What it may cost one record.")
    spent_per_record: Amount = Field(description="What its draws cost.")
    draws: tuple[Draws, ...]


class Measurements(Section):
    """The noisy measurements."""

    digest: Sha256 = Field(description="Of what the agency keeps.")
    withheld: Words | None = Field(description="Why they are not published; null where they are.")


class Replayed(Section):
    """Pairs of neighbours under the same forced outputs."""

    pairs: Several
    largest_share: NotNegative = Field(description="The largest part of its budget that any pair lost.")
    worst_pair: NotNegative = Field(description="The same of the worst pair that is known.")


class ShownByRuns(Section):
    """What the outputs show by themselves."""

    runs: Several
    budget: Amount
    at_least: NotNegative = Field(
        description="The loss exceeds this, but for a false alarm; it may not exceed the budget."
    )
    false_alarm: NotNegative


class Audit(Section):
    """What the last recorded audit of the mechanism found."""

    date: Date = Field(description="When.")
    mechanisms: Sha256 = Field(description="The digest of the code that was audited; see `code.mechanisms`.")
    parameters: dict[str, JsonValue]
    replayed: Replayed
    shown: ShownByRuns


class Tally(Section):
    """A noisy number."""

    number: WholeNumber
    broken: Sometimes[tuple[Words, ...]] = Field(default=None, description="Which rules it broke.")
    of: Words
    counts: Literal["units", "records"]
    loss: Amount
    scale: NotNegative | None
    margin: Number | None


class Randomness(Section):
    """Where random bits come from."""

    generator: Words
    seeded_by: Words
    predictable: Annotated[Literal[False], only(bool)]
    keys_kept: Annotated[Literal[False], only(bool)]
    arithmetic: Words
    samplers: tuple[Sampler, ...]


class SideChannel(Section):
    """A side channel."""

    channel: Words
    considered: Words


class Security(Section):
    """Who could read confidential data, and what is kept."""

    workspace_mode: Literal["0700"]
    workspace_kept: Flag
    words: tuple[Words, ...] = Field(description="What it means, in words.")


class Packages(Section):
    """All installed packages."""

    digest: Sha256 = Field(description="Over lines name==version, sorted.")
    number: Several


class Code(Section):
    """What ran."""

    digest: Sha256 = Field(
        description="Over the files of the program as installed, without the lab: the lines of sha256sum, by "
        "name."
    )
    mechanisms: Sha256 = Field(
        description="The same over mechanisms without mechanisms/queries: what audits are of."
    )
    commit: Commit | None = Field(description="The git commit; null where the program was installed.")
    packages: Packages
