"""What the pages need of certificates and indexes, and the form that each must have to be shown."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, StringConstraints

from tabularium.ledger.names import LONGEST_TEXT, is_kept, release_id
from tabularium.validations.spec.kinds import PeriodName, ProductName, TableName
from tabularium.validations.spec.parts.output_options import About
from tabularium.validations.spec.values import Text

FORMAT = 1


_AMOUNT = re.compile(r"(0|[1-9][0-9]{0,99})(/[1-9][0-9]{0,99})?")


def _amount(value: Any) -> Any:
    """Read an exact amount as certificates write it: a text, never a number."""
    return Fraction(value) if isinstance(value, str) and _AMOUNT.fullmatch(value) else None


def _line(value: str) -> str:
    if not is_kept(value, LONGEST_TEXT):
        raise ValueError("is no line of text")
    return value


def _inside(name: str) -> str:
    path = PurePosixPath(name)
    if not is_kept(name, LONGEST_TEXT) or path.is_absolute() or ".." in path.parts or str(path) != name:
        raise ValueError("is no file of the folder")
    return name


Amount = Annotated[Fraction, BeforeValidator(_amount)]
Line = Annotated[str, AfterValidator(_line)]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Time = Annotated[str, StringConstraints(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?(\+00:00|Z)$")]
ReleaseId = Annotated[str, AfterValidator(release_id)]


class _Said(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Reserved(_Said):
    """The charge of a release in its account."""

    entry: int
    at: Time
    amount: Amount
    left_before: Amount


class Cumulative(_Said):
    """The loss of an account when a release was charged, that charge included."""

    used: Amount


class Account(_Said):
    """The account that paid, as it stood then."""

    name: Line
    entity: Line
    population: Line
    relation: Literal["add-remove", "replace"]
    definition: Literal["pure", "zcdp"]
    cap: Amount
    reserved: Reserved
    cumulative: Cumulative


class Head(_Said):
    """The ledger that a certificate is from, named by its first entry."""

    chain: Sha256


class Books(_Said):
    """What a certificate says of the ledger."""

    head: Head


class Titled(_Said):
    """A table, a histogram or a column."""

    title: Text | None = None


class Named(Titled):
    """A table or a histogram."""

    name: TableName
    dimensions: tuple[str, ...] = ()


class Spec(_Said):
    """What tables there are."""

    columns: dict[str, Titled]
    tables: tuple[Named, ...] = ()
    histograms: tuple[Named, ...] = ()


class Certificate(_Said):
    """The part of a certificate that the pages show."""

    format: Literal[1]
    release_id: ReleaseId
    product: ProductName
    period: PeriodName
    revises: Line | None
    about: About
    created: Time
    account: Account
    ledger: Books
    spec: Spec
    files: dict[Annotated[str, AfterValidator(_inside)], Sha256]


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
