"""What stands in the place of a certificate where a release was rehearsed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tabularium.validations.certificate.certificate import Certificate
from tabularium.validations.certificate.value_kinds import ReleaseId, Said, Words

REHEARSAL = "rehearsal.json"


class MadeUp(Said):
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
