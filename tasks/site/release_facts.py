"""What the index of a period says, and the form that it must have to be shown."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from tabularium.validations.certificate.value_kinds import Line, ReleaseId, Sha256, Time
from tabularium.validations.spec.kinds import PeriodName, ProductName


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Ended(_Said):
    """What a release has in its place since, or who withdrew it."""

    at: Time
    reason: Line | Literal[""] | None


class Indexed(_Said):
    """A release in the index of its period."""

    release_id: ReleaseId
    certificate: Sha256
    state: Literal["current", "superseded", "withdrawn"]
    ended: Ended | None


class Index(_Said):
    """The index of a period."""

    format: Literal[1]
    product: ProductName
    period: PeriodName
    releases: tuple[Indexed, ...]
