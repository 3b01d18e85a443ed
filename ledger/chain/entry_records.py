"""What an entry says: one record for every kind of entry, with the type of each field.

Canonical JSON spells each content in one way, so a key that stands twice, a needless blank or keys in another
order are seen by writing the content again and comparing the texts. The record then refuses a field that is
missing, unknown or of the wrong type. Whether the entry may stand where it does is judged afterwards, in
:mod:`tabularium.ledger.chain.verify`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from tabularium.ledger.chain.entries import canonical
from tabularium.ledger.chain.entry_fields import (
    Amount,
    Cost,
    Count,
    Line,
    Name,
    ReleaseId,
    RunningSum,
    Sha256,
    Time,
)
from tabularium.ledger.charges.composition import Partition
from tabularium.ledger.records import STEPS, Terms
from tabularium.ledger.refusals import BadValue
from tabularium.ledger.terms import agreed


class NotAnEntry(ValueError):
    """A text is no entry; the message continues the words "entry 7 …"."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class Signature(_Strict):
    """Who signed, what, and how many decisions on the same thing came before."""

    by: str
    signature: str
    turn: Count


class InParallel(_Strict):
    """The part of the data that a charge is about, and what that part has used."""

    contributions: Count
    group: Line
    part: Name
    part_reserved: RunningSum
    part_spent: RunningSum

    @model_validator(mode="after")
    def _may_be_charged(self) -> InParallel:
        Partition(self.group.partition(" ")[0], self.part, self.contributions).checked()
        return self


class Remade(_Strict):
    """The earlier release from whose measurements one is made that has none of its own."""

    measurements_of: ReleaseId


class OfSeveral(_Strict):
    """How many officers must sign, where it is more than one: of an account, and of its products."""

    approvals: Count
    approvals_by_product: dict[Name, Count]


class StillToSign(_Strict):
    """How many more officers must accept a draft."""

    officers_left: Count


class EntryRecord(_Strict):
    """What every entry has: time, kind, the hash of the entry before it, its number, and the format."""

    at: Time
    kind: str
    prev: str
    seq: Count
    v: int

    @classmethod
    def all_fields(cls) -> set[str]:
        """Return the names of the fields that an entry of this kind may have."""
        together = {name for name, _model in TOGETHER.values()}
        parts = {field for _name, model in TOGETHER.values() for field in model.model_fields}
        return {*cls.model_fields, *parts} - together

    def fields(self) -> dict[str, Any]:
        """Return the fields as the entry has them, all on one level."""
        flat = dict(vars(self))
        for together, _model in TOGETHER.values():
            part = flat.pop(together, None)
            if part is not None:
                flat.update(vars(part))
        return flat


class ChargeStep(EntryRecord):
    """A charge takes a step: all about the charge as it is afterwards, and every sum that it counts in."""

    kind: Literal["reserved", "remade", "drawing", "measured", "published", "voided", "abandoned", "withheld"]
    account: Name
    account_reserved: RunningSum
    account_spent: RunningSum
    amount: Cost
    exact: bool
    fence: Count
    measurement_digest: Line | None
    period: Name
    period_reserved: RunningSum
    period_spent: RunningSum
    product: Name
    product_reserved: RunningSum
    product_spent: RunningSum
    publication_digest: Line | None
    reason: Line | None
    release_id: ReleaseId
    reserved_at: str
    review: bool
    revises: Line | None
    spec_digest: Line
    statement: Sha256 | None
    in_parallel: InParallel | None = None
    remade: Remade | None = None

    @model_validator(mode="after")
    def _costs_what_is_drawn(self) -> ChargeStep:
        free = self.remade is not None
        if free != (self.amount == "0/1") or (free and self.revises is None):
            raise BadValue("is not that of a charge", where="amount")
        if free != (self.kind == "remade") and self.kind in ("remade", "reserved", "drawing", "measured"):
            raise BadValue("is not for this step", where="measurements_of")
        if free and self.in_parallel is not None:
            raise BadValue("is not for what is remade", where="group")
        return self

    @model_validator(mode="after")
    def _is_reviewed_whole(self) -> ChargeStep:
        if self.review and self.in_parallel is not None:
            raise BadValue("is not for what is to be reviewed", where="group")
        return self


class Voiding(ChargeStep):
    """A charge is voided, which gives budget back, or abandoned: an officer may have to sign it."""

    signed: Signature | None = None


class Withholding(ChargeStep):
    """An officer withholds a draft: spent, and never published."""

    consulted: bool
    criterion: Name
    draft: Line
    signed: Signature


class _OfAccount(EntryRecord):
    account: Name
    account_reserved: RunningSum
    account_spent: RunningSum


class Opening(_OfAccount):
    """An account is opened."""

    kind: Literal["account", "terms"]
    approve_exact: bool
    cap: Amount
    cap_per_period: Amount | None
    cap_per_product: Amount | None
    closes_on: str | None
    definition: str
    delta: Amount | None
    needs_approval: bool
    opens_on: str | None
    population: Name
    quantum: Amount
    relation: str
    unit: Name
    of_several: OfSeveral | None = None
    signed: Signature | None = None

    @property
    def terms(self) -> Terms:
        """The terms of the account from here on."""
        return Terms.of(self.fields())

    @model_validator(mode="after")
    def _may_be_agreed(self) -> Opening:
        found = agreed(self.terms)
        if (self.of_several is not None) != ("approvals" in found.fields()):
            raise BadValue("is not written where one officer suffices", where="approvals")
        return self


class NewTerms(Opening):
    """The terms of an account are changed; of one that was retired, all of them: it opens again."""

    reason: Line


class Retirement(_OfAccount):
    """An account that was never charged is retired."""

    kind: Literal["retired"]
    reason: Line
    signed: Signature | None = None


class _Signed(EntryRecord):
    signed: Signature


class Enrolment(_Signed):
    """An officer's key is enrolled."""

    kind: Literal["key"]
    key: str
    officer: Name
    public_key: str


class ReleaseKeyEnrolled(_Signed):
    """A key of the agency's, for releases, is enrolled."""

    kind: Literal["release_key"]
    agency: Name
    key: str
    public_key: str


class Revocation(_Signed):
    """A key is revoked, an officer's or one for releases."""

    kind: Literal["revocation"]
    key: str
    reason: Line


class SpecApproval(_OfAccount, _Signed):
    """An officer approves a spec, up to an amount if one is named."""

    kind: Literal["approval"]
    amount: Amount | None
    reason: Line | None
    spec_digest: Line


class SpecUnapproval(_OfAccount, _Signed):
    """An officer takes back an approval."""

    kind: Literal["unapproval"]
    amount: None
    reason: Line
    spec_digest: Line


class MoreAttempts(_OfAccount):
    """A release whose attempts to draw are used up is allowed some more: ``allowed`` in all."""

    kind: Literal["attempts"]
    allowed: Count
    reason: Line
    release: ReleaseId
    signed: Signature | None = None


class DraftLaidOut(_OfAccount):
    """A measured release is laid out for review: the digest of its certificate, and the spec's criteria."""

    kind: Literal["drafted"]
    criteria: list[Name]
    draft: Line
    release: ReleaseId


class Acceptance(_OfAccount, _Signed):
    """An officer lets a draft be published as it was laid out, once as many have as must."""

    kind: Literal["acceptance"]
    consulted: bool
    criteria: list[Name]
    draft: Line
    release: ReleaseId
    still_to_sign: StillToSign | None = None


class Withdrawing(_OfAccount, _Signed):
    """An officer withdraws a release that is published: it stays spent, and is offered no more."""

    kind: Literal["withdrawn"]
    reason: Line
    release: ReleaseId


class EvidenceAsked(_OfAccount, _Signed):
    """An officer asks whether an input is the one that a release was made from; the answer stands nowhere."""

    kind: Literal["evidence"]
    of_release: ReleaseId
    reason: Line | None


class Separating(_Signed):
    """An officer says that nobody is in both of two populations, or withdraws it."""

    kind: Literal["disjoint", "overlapping"]
    other: Name
    population: Name
    reason: Line

    @model_validator(mode="after")
    def _in_order(self) -> Separating:
        if self.population >= self.other:
            raise BadValue("stands behind the other", where="population")
        return self


class PutBack(EntryRecord):
    """The ledger was put back from a backup; the entry before it was the backup's head."""

    kind: Literal["restored"]


class Confirmed(EntryRecord):
    """That head was the newest, says somebody who has it from elsewhere."""

    kind: Literal["confirmed"]
    mark: str
    signed: Signature | None = None


SpecDecision = SpecApproval | SpecUnapproval
KINDS: Mapping[str, type[EntryRecord]] = {
    **dict.fromkeys(STEPS, ChargeStep),
    "voided": Voiding,
    "abandoned": Voiding,
    "withheld": Withholding,
    "account": Opening,
    "terms": NewTerms,
    "retired": Retirement,
    "key": Enrolment,
    "release_key": ReleaseKeyEnrolled,
    "revocation": Revocation,
    "approval": SpecApproval,
    "unapproval": SpecUnapproval,
    "attempts": MoreAttempts,
    "drafted": DraftLaidOut,
    "acceptance": Acceptance,
    "withdrawn": Withdrawing,
    "evidence": EvidenceAsked,
    "disjoint": Separating,
    "overlapping": Separating,
    "restored": PutBack,
    "confirmed": Confirmed,
}
#: A field that tells that some others are there; their common name in the record, and its type.
TOGETHER: Mapping[str, tuple[str, type[_Strict]]] = {
    "signature": ("signed", Signature),
    "group": ("in_parallel", InParallel),
    "measurements_of": ("remade", Remade),
    "approvals": ("of_several", OfSeveral),
    "officers_left": ("still_to_sign", StillToSign),
}


def parse(text: str) -> EntryRecord:
    """Return the record of an entry, or raise :class:`NotAnEntry`."""
    body = _content(text)
    kind = body.get("kind")
    if not (isinstance(kind, str) and kind in KINDS):
        raise NotAnEntry("is of an unknown kind")
    record, field = KINDS[kind], ""
    try:
        return record.model_validate(_grouped(body))
    except ValidationError as error:
        told = {str(name) for found in error.errors() for name in found["loc"]}
        field = min(told & record.all_fields(), default="")  # never a name that only the entry has
    except BadValue as error:
        field = error.where
    raise NotAnEntry(f"has a field that is missing or malformed: {field}".removesuffix(": "))


def _content(text: str) -> dict[str, Any]:
    try:
        body = json.loads(text)
        if isinstance(body, dict) and canonical(body) == text:
            return body
    except (ValueError, RecursionError):
        pass
    raise NotAnEntry("is not canonical JSON")


def _grouped(body: dict[str, Any]) -> dict[str, Any]:
    """Put fields that an entry has all of or none of under one name, as its record does."""
    for field, (together, model) in TOGETHER.items():
        if together in body:
            raise BadValue("is a name of the record alone", where=together)
        if field in body:
            part = {name: body[name] for name in model.model_fields if name in body}
            body = {name: value for name, value in body.items() if name not in part} | {together: part}
    return body
