"""The certificate of a release: what was published, what it cost, what can be checked without the data."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, ValidationError

from tabularium.validations.certificate.noise import (
    Audit,
    Code,
    Draw,
    Measured,
    Measurements,
    Randomness,
    Security,
    SideChannel,
    Tally,
)
from tabularium.validations.certificate.promise_and_cost import (
    Account,
    Approval,
    BudgetPart,
    Charge,
    Composition,
    Fact,
    Privacy,
)
from tabularium.validations.certificate.tables import Table
from tabularium.validations.certificate.value_kinds import (
    Amount,
    Created,
    Flag,
    Line,
    Number,
    ReleaseId,
    Section,
    Several,
    Sha256,
    Words,
    only,
)
from tabularium.validations.public_files import Unreadable, json_object
from tabularium.validations.release_spec.kinds import PeriodName, ProductName, TableName
from tabularium.validations.release_spec.publication import About
from tabularium.validations.release_spec.source import public_name

# What was settled before the data were read, and what was done after the noise.


class LookUp(Section):
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


class Domain(Section):
    """Where the cells of a column come from."""

    kind: Literal["categories", "integer", "hierarchy"]
    from_: Literal["the spec", "a public code list"] = Field(
        validation_alias="from", serialization_alias="from"
    )
    file: Words | None
    sha256: Sha256 | None
    nulls: Literal["reject", "other"]
    invalid: Literal["reject", "other"]


class Rule(Section):
    """A rule."""

    rule: Words
    severity: Literal["stop", "warn"]
    judged: Literal["exactly", "a noisy number"]
    charged: Amount = Field(description="What one unit paid for it.")
    outside_the_guarantee: Flag


class Validation(Section):
    """What the input was judged by."""

    rules: tuple[Rule, ...]
    max_rejected: Words
    max_rejected_charged: Literal["0"]


class TunedOn(Section):
    """A published release by which a spec was tuned."""

    release: Words
    certificate: Sha256


class Tuning(Section):
    """Which data were used to choose mechanisms and parameters."""

    data: tuple[TunedOn, ...] = Field(
        description="Published releases by which the spec says it was tuned, each with its certificate."
    )
    words: Words


class Invariant(Section):
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


class Impossible(Section):
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


class Step(Section):
    """A step, in its order."""

    step: StepName
    done: Flag
    bias: Words = Field(description="What it does to what is published.")


class PostProcessing(Section):
    """What is done after the noise."""

    version: Several = Field(description="Raised whenever the same measurements give other tables.")
    steps: tuple[Step, ...]


CERTIFICATE = "certificate.json"
FORMAT: Literal[1] = 1
_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}")


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts or str(path) != name or "\0" in name:
        raise ValueError("is no file of the folder")
    return name


FileName = Annotated[str, Field(min_length=1), AfterValidator(_inside)]


class OtherFormat(Unreadable):
    """A certificate that another version of the program made."""


class Certificate(Section):
    """What was published, what it cost, and what a reviewer can check without the data."""

    format: Annotated[Literal[1], only(int)] = Field(description="The format of the certificate.")
    release_id: ReleaseId = Field(description="Its name.")
    product: ProductName = Field(description="The product.")
    period: PeriodName = Field(description="The period.")
    revises: Line | None = Field(description="The reason of a revision, or null.")
    dataset: Line = Field(description="The account that paid.")
    about: About = Field(description="As the spec has it.")
    created: Created = Field(description="When the certificate was made, UTC.")
    outside_the_guarantee: Annotated[tuple[Fact, ...], Field(min_length=1)] = Field(
        description="What is exact and uncharged: read it before ε."
    )
    privacy: Privacy = Field(
        description="Whose protection is promised, against what change, and the budget for a unit and a "
        "record; `conversion`: which of ε, δ and ρ is exact, and the theorem for the others; "
        "`neighbours`: which inputs are compared at what cost (under zCDP also as ε for each δ, "
        "if exact facts fix a total); `reading`: the same in plain words."
    )
    approval: Approval = Field(
        description="Whether the account asked for approval; key, entry, time and limit of the approval; "
        "with several officers how many, and the other approvals."
    )
    account: Account = Field(
        description="Its terms and cap, what was left when this charge was `reserved`, and the `cumulative` "
        "loss of one unit: the plain sum and number of all charges."
    )
    allocation: Annotated[tuple[BudgetPart, ...], Field(min_length=1)] = Field(
        description="The budget by tally, table, level and histogram, in the order of drawing: shares that "
        "add up to 1, cost to a unit and a record, and the part that measures errors."
    )
    composition: Composition = Field(
        description="How losses add up, and which measurements use disjoint cells."
    )
    ledger: Charge = Field(
        description="The account, the amount, how often drawing began (`attempts`), the same of charges for "
        "tallies, drafts that officers `withheld` before, and the `head` of the chain: number "
        "and hash of its newest entry, hash of its first (`chain`), and the agency's mark that "
        "it is genuine (`mac`, HMAC-SHA-256 under its secret)."
    )
    measurements: Measurements = Field(description="The digest of what was drawn, or why it is withheld.")
    measured: Annotated[tuple[Measured, ...], Field(min_length=1)] = Field(
        description="Of each measurement: mechanism, all parameters, largest and actual cost, and "
        "sensitivity, distribution and scale of its draws."
    )
    audits: dict[str, Audit | None] = Field(
        description="Of each mechanism: result, date and code digest of its last recorded audit, or null."
    )
    tallies: tuple[Tally, ...] = Field(
        description="Noisy numbers of units: what each is `of` and `counts`, number, margin, `broken` rules, "
        "and the `loss` of one unit."
    )
    transcript: Annotated[tuple[Draw, ...], Field(min_length=1)] = Field(
        description="Every draw of noise, in order, with loss, sensitivity, scale, shape and purpose."
    )
    spec: dict[str, JsonValue] = Field(description="The spec with every default, without places of files.")
    spec_digest: Sha256 = Field(
        description="Its digest, over code lists, invariants and public look-ups too."
    )
    code_lists: dict[str, Sha256] = Field(description="Digests by file name.")
    lookups: tuple[LookUp, ...] = Field(
        description="What each look-up `is`, how it was joined, and why it is public, with its digest, or "
        "its column of the privacy unit."
    )
    domains: dict[str, Domain] = Field(
        description="Where the cells of each column come from: the spec, or a code list with its digest."
    )
    validation: Validation = Field(description="The rules for the input, and what was paid for them.")
    tuning: Tuning = Field(description="The release that `tuning` of the spec names, or none.")
    invariants: tuple[Invariant, ...] = Field(
        description="Public numbers that are shown exactly, their sources, how many were `compared` with the "
        "measurements, and how many differ `beyond_chance`."
    )
    impossible: tuple[Impossible, ...] = Field(
        description="Values that cannot occur together, the reason, and what became of their records."
    )
    tables: dict[TableName, Table] = Field(description="Tables and histograms by name.")
    agreement: dict[str, JsonValue] = Field(
        description="How tables were made to agree, and on what not; empty for one table."
    )
    postprocessing: PostProcessing = Field(
        description="Its `version`, raised when the same measurements give other tables, and its steps with "
        "their bias."
    )
    confidence: Amount = Field(description="The level of margins of error.")
    margins: dict[str, Words] = Field(description="What each method means.")
    randomness: Randomness = Field(description="Where random bits come from.")
    side_channels: Annotated[tuple[SideChannel, ...], Field(min_length=1)] = Field(
        description="What else could reveal the data."
    )
    security: Security = Field(description="Who could read confidential data, and what is kept.")
    files: dict[FileName, Sha256] = Field(description="SHA-256 of every file but certificate and statement.")
    software: dict[str, Words] = Field(description="Versions of what made it.")
    code: Code = Field(
        description="Digests of the program's files and of the list of packages, and the git commit if there "
        "is one."
    )

    @property
    def public_look_ups(self) -> dict[str, str]:
        """The digests of public look-ups, by their names among other public files."""
        return {
            public_name(lookup.name): lookup.sha256 for lookup in self.lookups if lookup.sha256 is not None
        }

    @classmethod
    def read(cls, raw: bytes) -> Self:
        """Read a certificate, which anybody may have written.

        Raises
        ------
        OtherFormat
            Another version made it.
        Unreadable
            It is none. The error names the first field that no certificate has so.
        """
        return cls.of(json_object(raw))

    def written(self) -> bytes:
        """Return the file ``certificate.json``."""
        return (json.dumps(self.document(), indent=2, ensure_ascii=False) + "\n").encode()

    @classmethod
    def of(cls, document: dict[str, Any]) -> Self:
        """Return the certificate that a JSON object is; raises as :meth:`read`."""
        if document.get("format", FORMAT) != FORMAT:
            raise OtherFormat("is of another format")
        try:
            return cls.model_validate(document)
        except ValidationError as error:
            raise Unreadable(f"is not what it should be: {_field(error)}") from None


def _field(error: ValidationError) -> str:
    """Return the path of the first field that is wrong, as far as the model names it."""
    first = error.errors(include_input=False, include_url=False, include_context=False)[0]
    path = ""
    for part in first["loc"]:
        if isinstance(part, str) and not _NAME.fullmatch(part):
            break
        path += f"[{part}]" if isinstance(part, int) else f".{part}" if path else part
    return path


REHEARSAL = "rehearsal.json"


class MadeUp(Section):
    """The records of a rehearsal."""

    records: Annotated[int, Field(gt=0)] = Field(description="How many were made up.")
    why: Words = Field(description="Why so many.")
    like: ReleaseId | None = Field(description="The published release that they are like; null for none.")
    seed: int = Field(description="What they were drawn by.")
    says: Words = Field(description="That nothing here is about anybody.")


class Rehearsed(Certificate):
    """What a certificate would say, of made-up records. No certificate has its first field."""

    rehearsal: MadeUp


def made_up_in(certificate: Certificate) -> MadeUp | None:
    """Return what a certificate says of made-up records: None of a published release."""
    return certificate.rehearsal if isinstance(certificate, Rehearsed) else None
