"""What was settled before the data were read, and what was done after the noise."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tabularium.validations.certificate.value_kinds import (
    Amount,
    Flag,
    Number,
    Said,
    Several,
    Sha256,
    Words,
)


class LookUp(Said):
    """A table in which columns were looked up."""

    name: Words
    is_: Literal["public and fixed", "of the privacy unit"] = Field(
        validation_alias="is", serialization_alias="is"
    )
    reason: str | None = Field(description="Why it is public; null if it is not.")
    sha256: Sha256 | None = Field(description="Of a public one.")
    unit: str | None = Field(description="Its column that says whose a row is; null where it is public.")
    key: str | None = Field(description="Its column in which a value is looked up.")
    from_: str | None = Field(
        validation_alias="from", serialization_alias="from", description="The column that holds this value."
    )


class Domain(Said):
    """Where the cells of a column come from."""

    kind: Literal["categories", "integer", "hierarchy"]
    from_: Literal["the spec", "a public code list"] = Field(
        validation_alias="from", serialization_alias="from"
    )
    file: Words | None
    sha256: Sha256 | None
    nulls: Literal["reject", "other"]
    invalid: Literal["reject", "other"]


class Rule(Said):
    """A rule."""

    rule: Words
    severity: Literal["stop", "warn"]
    judged: Literal["exactly", "a noisy number"]
    charged: Amount = Field(description="What one unit paid for it.")
    outside_the_guarantee: Flag


class Validation(Said):
    """What the input was judged by."""

    rules: tuple[Rule, ...]
    max_rejected: Words
    max_rejected_charged: Literal["0"]


class TunedOn(Said):
    """A published release by which a spec was tuned."""

    release: Words
    certificate: Sha256


class Tuning(Said):
    """Which data were used to choose mechanisms and parameters."""

    data: tuple[TunedOn, ...] = Field(
        description="Published releases by which the spec says it was tuned, each with its certificate."
    )
    words: Words


class Invariant(Said):
    """Numbers that are shown exactly."""

    name: Words
    dimensions: tuple[Words, ...]
    level: Words | None
    numbers: Number
    reason: Words
    file: Words | None
    sha256: Sha256 | None
    compared: Number
    beyond_chance: Number


class Impossible(Said):
    """Values that cannot occur together: their cells are exactly zero and were not measured."""

    cells: dict[str, Annotated[tuple[Words, ...], Field(min_length=1)]] = Field(
        description="Column -> the values."
    )
    reason: Words = Field(description="Why, as is known without the data.")
    records: Literal["reject"] | dict[str, Words] = Field(
        description="What becomes of records that have them: rejected, or counted under another value."
    )


StepName = Literal[
    "mechanism",
    "prior",
    "above",
    "consistency",
    "nonnegativity",
    "rounding",
    "largest_size",
    "margins",
    "quality",
]


class Step(Said):
    """A step, in its order."""

    step: StepName
    done: Flag
    bias: Words = Field(description="What it does to what is published.")


class PostProcessing(Said):
    """What is done after the noise."""

    version: Several = Field(description="Raised whenever the same measurements give other tables.")
    steps: tuple[Step, ...]
