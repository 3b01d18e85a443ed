"""Entries of the chain: how they are linked, and every kind of event with its fields.

An entry is canonical JSON. It holds its own number (``seq``), the hash of the entry before (``prev``), the
time, and everything there is to know about the account or charge after it, running sums included. Its hash
is the SHA-256 of that text. To alter, drop or reorder an entry is therefore to rewrite all that
follow, and then the last hash differs from the heads that stand in certificates and in the witness file.

Each kind of event is one class, and each field is declared once: its type, whether the signature leaves it
out, whether a step of a charge may set it (:class:`Mark`), what the entry is found by (``SUBJECTS``), and
whether only an officer may write it (``OFFICIAL``). Signatures, comparisons, indexes and the guard in SQL
follow from these declarations.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import lru_cache
from hashlib import sha256
from operator import attrgetter
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from tabularium.ledger import amounts, names
from tabularium.ledger.composition import Partition
from tabularium.ledger.records import TRANSITIONS, Entry, Head, Terms
from tabularium.ledger.refusals import BadValue, ClockBehind
from tabularium.ledger.terms import validate_terms

#: Every entry says which format it has, so that a later release can tell.
FORMAT = 1
#: How far ahead of a reader's clock an entry may be: one of the year 2999 would stop all that come after it.
LONGEST_LEAD = timedelta(days=1)
_encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def canonical(body: dict[str, Any]) -> str:
    """Return the one text of ``body``: ASCII JSON, keys sorted, no blanks, no floats."""
    return _encoder.encode(body)


def canonical_text(value: str) -> str:
    """Return a text as it stands in canonical JSON."""
    return _encoder.encode(value)


def digest(text: str) -> str:
    """Return the hash of an entry whose body is ``text``."""
    return sha256(text.encode("ascii")).hexdigest()


def hash_matches(text: object, named: object) -> bool:
    """Whether ``named`` is the hash of ``text``; a database may hand back values of any kind."""
    return isinstance(text, str) and text.isascii() and digest(text) == named


def make_body(head: Head, kind: str, at: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of the entry that continues ``head`` with ``fields``."""
    return {**fields, "at": at, "kind": kind, "prev": head.hash, "seq": head.seq + 1, "v": FORMAT}


def make_entry(head: Head, kind: str, at: str, fields: Mapping[str, Any]) -> tuple[dict[str, Any], Entry]:
    """Return the body and the entry that continue ``head`` with ``fields``."""
    body = make_body(head, kind, at, fields)
    text = canonical(body)
    return body, Entry(seq=head.seq + 1, prev=head.hash, hash=digest(text), text=text)


def format_time(now: datetime) -> str:
    """Return a time as entries have it: UTC, microseconds, sorting as text."""
    return now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def latest(now: datetime) -> str:
    """Return the latest time that an entry can have which was written before ``now``, by whatever clock."""
    return format_time(now + LONGEST_LEAD)


def next_time(now: datetime, last: str, tolerance: timedelta | None) -> str:
    """Return the time of the next entry, never before the ``last`` one's.

    Raises ``ClockBehind`` if the clock is further behind than ``tolerance``. With ``None`` any clock is
    taken: a step that records what has already happened must not fail for a clock.
    """
    at = format_time(now)
    if at >= last:
        return at
    if tolerance is not None and format_time(now + tolerance) < last:
        raise ClockBehind(
            "the clock of this machine is behind the ledger's last entry",
            hint="set the clock; if that entry's time was wrong, set TABULARIUM_CLOCK_TOLERANCE (minutes)",
        )
    return last


class Mark(Enum):
    """What is declared of a field besides its type."""

    UNSIGNED = "no signature covers it"
    SET_BY_A_STEP = "one of a charge's steps sets it; what has no such mark never changes"


_TIME = re.compile(r"([0-9-]{10})T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\.[0-9]{6}Z")
_day = lru_cache(maxsize=8)(names.day)


def _line(longest: int) -> AfterValidator:
    def check(value: str) -> str:
        if not names.is_valid_stored_label(value, longest):
            raise ValueError
        return value

    return AfterValidator(check)


def _time(value: str) -> str:
    match = _TIME.fullmatch(value)
    if match is None:
        raise ValueError
    _day(match[1], field="at")
    return value


def _amount(value: str) -> str:
    amount = amounts.parse_amount(value)
    if amount <= 0 or amounts.text(amount) != value:
        raise ValueError
    return value


def _cost(value: str) -> str:
    return value if value == "0/1" else _amount(value)


Name = Annotated[str, _line(names.LONGEST_NAME)]
Line = Annotated[str, _line(names.LONGEST_TEXT)]
Time = Annotated[str, AfterValidator(_time)]
Count = Annotated[int, Field(ge=0)]
Amount = Annotated[str, AfterValidator(_amount)]
Cost = Annotated[str, AfterValidator(_cost)]  # an amount, or nothing
Sha256 = Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]
ReleaseId = Annotated[str, AfterValidator(names.release_id)]
#: The rules work it out (:func:`tabularium.ledger.rules.apply`), so that any other text is refused.
RunningSum = Annotated[str, Mark.UNSIGNED, Mark.SET_BY_A_STEP]


class NotAnEntry(ValueError):
    """A text is no entry; the message continues the words "entry 7 …"."""


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, defer_build=True)


class Signature(_Strict):
    """Who signed, what, and how many decisions on the same thing came before."""

    by: str
    signature: Annotated[str, Mark.UNSIGNED]
    turn: Count


class InParallel(_Strict):
    """The part of the data that a charge is about, and what that part has used."""

    group: Line
    part: Name
    contributions: Count
    part_reserved: RunningSum = ""
    part_spent: RunningSum = ""

    @model_validator(mode="after")
    def _may_be_charged(self) -> InParallel:
        Partition(self.group.partition(" ")[0], "part", self.contributions).checked()  # Name judges the part
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


#: Fields that an entry has all of or none of. A field that tells that they are there -> the name under which
#: the event has them, and their type.
OPTIONAL_GROUPS: Mapping[str, tuple[str, type[_Strict]]] = {
    "signature": ("signed", Signature),
    "group": ("in_parallel", InParallel),
    "measurements_of": ("remade", Remade),
    "approvals": ("of_several", OfSeveral),
    "officers_left": ("still_to_sign", StillToSign),
}


class Event(_Strict):
    """What every entry has: time, kind, the hash of the entry before it, its number, and the format."""

    #: Whether only an officer may write it, where the database knows roles.
    OFFICIAL: ClassVar[bool] = True
    #: What it is found by: the first of these fields that it has, and the words about it.
    SUBJECTS: ClassVar[Mapping[str, str]] = {}
    #: The kinds of decision on the same thing, and the fields that make it the same: a signature says how
    #: many came before.
    TURNS: ClassVar[tuple[str, ...]] = ()
    SAME: ClassVar[tuple[str, ...]] = ()

    at: Time
    kind: str
    prev: str
    seq: Count
    v: int

    @classmethod
    def marks(cls) -> dict[str, set[Mark]]:
        """Return the marks of each field that an entry of this kind may have besides the chain's own."""
        groups = dict(OPTIONAL_GROUPS.values())
        result: dict[str, set[Mark]] = {}
        for name, field in cls.model_fields.items():
            marks = {mark for mark in field.metadata if isinstance(mark, Mark)}
            if name not in groups:
                result[name] = marks
                continue
            for part, inner in groups[name].model_fields.items():
                result[part] = marks | {mark for mark in inner.metadata if isinstance(mark, Mark)}
        return {name: marks for name, marks in result.items() if name not in Event.model_fields}

    @classmethod
    def about(cls, fields: Mapping[str, Any]) -> tuple[object, ...]:
        """Return what a decision is about that says ``fields``: how many on it came before is its turn."""
        return cls.TURNS, *(fields[name] for name in cls.SAME)

    def fields(self) -> dict[str, Any]:
        """Return the fields as the entry has them, all on one level."""
        flat = dict(vars(self))
        for name, _group in OPTIONAL_GROUPS.values():
            part = flat.pop(name, None)
            if part is not None:
                flat.update(vars(part))
        return flat


class _OfAccount(Event):
    account: Name
    account_reserved: RunningSum = ""
    account_spent: RunningSum = ""


class ChargeStep(_OfAccount):
    """A charge takes a step: all about the charge as it is afterwards, and every sum that it counts in."""

    OFFICIAL = False
    SUBJECTS = {"review": "review {product} {period}", "group": "{group}"}

    kind: Literal["reserved", "remade", "drawing", "measured", "published", "voided", "abandoned", "withheld"]
    amount: Cost
    exact: Annotated[bool, Mark.UNSIGNED]
    fence: Annotated[Count, Mark.UNSIGNED, Mark.SET_BY_A_STEP]
    measurement_digest: Annotated[Line | None, Mark.UNSIGNED, Mark.SET_BY_A_STEP]
    period: Name
    period_reserved: RunningSum = ""
    period_spent: RunningSum = ""
    product: Name
    product_reserved: RunningSum = ""
    product_spent: RunningSum = ""
    publication_digest: Annotated[Line | None, Mark.UNSIGNED, Mark.SET_BY_A_STEP]
    reason: Annotated[Line | None, Mark.UNSIGNED, Mark.SET_BY_A_STEP]
    release_id: ReleaseId
    reserved_at: Annotated[str, Mark.UNSIGNED]
    review: Annotated[bool, Mark.UNSIGNED]
    revises: Annotated[Line | None, Mark.UNSIGNED]
    spec_digest: Line
    statement: Annotated[Sha256 | None, Mark.UNSIGNED, Mark.SET_BY_A_STEP]
    in_parallel: Annotated[InParallel | None, Mark.UNSIGNED] = None
    remade: Annotated[Remade | None, Mark.UNSIGNED] = None

    def content(self) -> tuple[object, ...]:
        """Return what never changes about the charge."""
        parallel = self.in_parallel
        return (*_PLAIN(self), self.remade, *(_PARALLEL(parallel) if parallel else ()))

    @model_validator(mode="after")
    def _costs_what_is_drawn(self) -> ChargeStep:
        free = self.remade is not None
        if free != (self.amount == "0/1") or (free and self.revises is None):
            raise BadValue("is not that of a charge", where="amount")
        if free != (self.kind == "remade") and self.kind in ("remade", "reserved"):
            raise BadValue("is not for this step", where="measurements_of")
        if self.in_parallel is not None and (free or self.review):
            raise BadValue("is not for what is remade or reviewed", where="group")
        return self


class Abandoning(ChargeStep):
    """A charge whose drawing began is given up: an officer may have to sign it."""

    reason: Annotated[Line | None, Mark.SET_BY_A_STEP]
    signed: Signature | None = None


class Voiding(Abandoning):
    """A charge is voided, which gives budget back."""

    OFFICIAL = True


class Withholding(ChargeStep):
    """An officer withholds a draft: spent, and never published."""

    OFFICIAL = True

    consulted: bool
    criterion: Name
    draft: Line
    signed: Signature


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
        terms = validate_terms(self.terms)
        if (self.of_several is not None) != ("approvals" in terms.fields()):
            raise BadValue("is not written where one officer suffices", where="approvals")
        return self


class NewTerms(Opening):
    """The terms of an account are changed; of one that was retired, all of them: it opens again."""

    TURNS = ("terms",)
    SAME = ("account",)

    reason: Line


class Retirement(_OfAccount):
    """An account that was never charged is retired."""

    TURNS = ("retired",)
    SAME = ("account",)

    kind: Literal["retired"]
    reason: Line
    signed: Signature | None = None


_OF_KEYS = ("key", "release_key", "revocation")
#: The decisions on a spec.
OF_SPECS = ("approval", "unapproval")


class _Signed(Event):
    signed: Signature


class Enrolment(_Signed):
    """An officer's key is enrolled."""

    SUBJECTS = {"key": "{key}"}
    TURNS = _OF_KEYS

    kind: Literal["key"]
    key: str
    officer: Name
    public_key: str


class ReleaseKeyEnrolled(_Signed):
    """A key of the agency's, for releases, is enrolled."""

    SUBJECTS = {"key": "{key}"}
    TURNS = _OF_KEYS

    kind: Literal["release_key"]
    agency: Name
    key: str
    public_key: str


class Revocation(_Signed):
    """A key is revoked, an officer's or one for releases."""

    SUBJECTS = {"key": "{key}"}
    TURNS = _OF_KEYS

    kind: Literal["revocation"]
    key: str
    reason: Line


class SpecApproval(_OfAccount, _Signed):
    """An officer approves a spec, up to an amount if one is named.

    It is of one product, unless it was approved by its digest in an account that treats all products the
    same.
    """

    SUBJECTS = {"spec_digest": "{spec_digest}"}
    TURNS = OF_SPECS
    SAME = ("account", "spec_digest")

    kind: Literal["approval"]
    amount: Amount | None
    for_product: Name | None
    reason: Line | None
    spec_digest: Line


class SpecUnapproval(_OfAccount, _Signed):
    """An officer takes back an approval."""

    SUBJECTS = {"spec_digest": "{spec_digest}"}
    TURNS = OF_SPECS
    SAME = ("account", "spec_digest")

    kind: Literal["unapproval"]
    amount: None
    reason: Line
    spec_digest: Line


class MoreAttempts(_OfAccount):
    """A release whose attempts to draw are used up is allowed some more: ``allowed`` in all."""

    SUBJECTS = {"release": "attempts {release}"}

    kind: Literal["attempts"]
    allowed: Count
    reason: Line
    release: ReleaseId
    signed: Signature | None = None


class DraftSubmitted(_OfAccount):
    """A measured release is laid out for review: the digest of its certificate, and the spec's criteria."""

    OFFICIAL = False
    SUBJECTS = {"release": "draft {release}"}

    kind: Literal["drafted"]
    criteria: list[Name]
    draft: Line
    release: ReleaseId


class Acceptance(_OfAccount, _Signed):
    """An officer lets a draft be published as it was laid out, once as many have as must."""

    SUBJECTS = {"release": "draft {release}"}
    TURNS = ("acceptance",)
    SAME = ("account", "release")

    kind: Literal["acceptance"]
    consulted: bool
    criteria: list[Name]
    draft: Line
    release: ReleaseId
    still_to_sign: StillToSign | None = None


class Withdrawing(_OfAccount, _Signed):
    """An officer withdraws a release that is published: it stays spent, and is offered no more."""

    SUBJECTS = {"release": "withdrawn {release}"}

    kind: Literal["withdrawn"]
    reason: Line
    release: ReleaseId


class InputInquiry(_OfAccount, _Signed):
    """An officer asks whether an input is the one that a release was made from; the answer stands nowhere."""

    TURNS = ("evidence",)
    SAME = ("account",)

    kind: Literal["evidence"]
    of_release: ReleaseId
    reason: Line | None


class PopulationsDisjoint(_Signed):
    """An officer says that nobody is in both of two populations, or withdraws it."""

    TURNS = ("disjoint", "overlapping")
    SAME = ("population", "other")

    kind: Literal["disjoint", "overlapping"]
    other: Name
    population: Name
    reason: Line

    @model_validator(mode="after")
    def _in_order(self) -> PopulationsDisjoint:
        if self.population >= self.other:
            raise BadValue("stands behind the other", where="population")
        return self


class LedgerRestored(Event):
    """The ledger was put back from a backup; the entry before it was the backup's head."""

    kind: Literal["restored"]


class Confirmed(Event):
    """That head was the newest, says somebody who has it from elsewhere."""

    kind: Literal["confirmed"]
    mark: str
    signed: Signature | None = None


KINDS: Mapping[str, type[Event]] = {
    **dict.fromkeys(TRANSITIONS, ChargeStep),
    "voided": Voiding,
    "abandoned": Abandoning,
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
    "drafted": DraftSubmitted,
    "acceptance": Acceptance,
    "withdrawn": Withdrawing,
    "evidence": InputInquiry,
    "disjoint": PopulationsDisjoint,
    "overlapping": PopulationsDisjoint,
    "restored": LedgerRestored,
    "confirmed": Confirmed,
}
#: What favours spending: a writer whose clock is behind may not write it. What only records, tightens or
#: stops must not fail for a clock.
IN_TIME = frozenset(
    (
        *("account", "acceptance", "approval", "attempts", "disjoint", "drawing"),
        *("evidence", "key", "release_key", "remade", "reserved"),
    )
)
#: The fields of each kind that its signature covers, as far as an entry has them.
SIGNED: Mapping[str, tuple[str, ...]] = {
    kind: tuple(name for name, marks in event.marks().items() if Mark.UNSIGNED not in marks)
    for kind, event in KINDS.items()
}
#: The fields of a charge that are as they were when it began, for ever.
FIXED = tuple(name for name, marks in ChargeStep.marks().items() if Mark.SET_BY_A_STEP not in marks)
#: Where an event has them.
_PLAIN = attrgetter(*(name for name in FIXED if name in ChargeStep.model_fields))
_PARALLEL = attrgetter(*(name for name in FIXED if name in InParallel.model_fields))
#: What makes a charge the same charge when it is asked for again.
ASKED = tuple(name for name in FIXED if name not in ("release_id", "reserved_at"))

#: The columns next to the text of an entry, by which it is found.
COLUMNS = ("kind", "account", "release_id", "product", "period", "subject", "part")


def columns(body: Mapping[str, Any]) -> tuple[str | None, ...]:
    """Return what the columns :data:`COLUMNS` must hold for an entry with this ``body``."""
    indexed = {"account": "", **body, "subject": subject_of(body)}
    return tuple(indexed.get(name) for name in COLUMNS)


def subject_of(body: Mapping[str, Any]) -> str | None:
    """Return what an entry that says ``body`` is found by, if by anything."""
    subjects = KINDS[body["kind"]].SUBJECTS
    return next((words.format_map(body) for name, words in subjects.items() if body.get(name)), None)


def subject(kind: str, **fields: str) -> str:
    """Return what an entry of a kind with one subject is found by."""
    return next(iter(KINDS[kind].SUBJECTS.values())).format(**fields)


def parse(text: str) -> Event:
    """Return the event of an entry, or raise :class:`NotAnEntry`."""
    return event_of(_content(text))


def event_of(body: dict[str, Any]) -> Event:
    """Return the event that an entry's body tells of, or raise :class:`NotAnEntry`."""
    kind = body.get("kind")
    if not (isinstance(kind, str) and kind in KINDS):
        raise NotAnEntry("is of an unknown kind")
    event, field = KINDS[kind], ""
    try:
        return event.model_validate(_grouped(body))
    except ValidationError as error:
        named = {str(name) for problem in error.errors() for name in problem["loc"]}
        known = {*event.marks(), *Event.model_fields}
        field = min(named & known, default="")  # never a name that only the entry has
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
    """Put fields that an entry has all of or none of under one name, as its event does."""
    for field, (name, group) in OPTIONAL_GROUPS.items():
        if name in body:
            raise BadValue("is a name that only the event has", where=name)
        if field in body:
            part = {name: body[name] for name in group.model_fields if name in body}
            body = {name: value for name, value in body.items() if name not in part} | {name: part}
    return body
