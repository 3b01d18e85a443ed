"""Walking the whole chain: every entry is worked out again from the entries before it.

The walk needs nothing but the rows, in order; it does not trust a running sum, a state or a column.
Memory grows with the number of charges that are still open, not with the number of entries.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import blake2b
from math import gcd
from operator import itemgetter
from typing import Any, NoReturn

from ledger import amounts
from ledger.chain import FORMAT, canonical, is_whole
from ledger.errors import BadValue, ChainBroken
from ledger.names import release_id as check_release_id
from ledger.records import DEFINITIONS, EMPTY, FINAL, RELATIONS, STEPS, Entry, Head, Terms, change

#: Columns that repeat a field of the body; ``input_digest`` stands on the entries that reserve only.
COLUMNS = ("kind", "account", "release_id", "product", "period")
_repeated = itemgetter(*COLUMNS, "input_digest")
_COMMON_FIELDS = {"account", "account_reserved", "account_spent", "at", "kind", "prev", "seq", "v"}
_ACCOUNT_FIELDS = _COMMON_FIELDS | {
    "cap",
    "cap_per_period",
    "cap_per_product",
    "definition",
    "delta",
    "quantum",
    "relation",
    "unit",
}
_CHARGE_FIELDS = _COMMON_FIELDS | {
    "amount",
    "fence",
    "input_digest",
    "measurement_digest",
    "period",
    "period_reserved",
    "period_spent",
    "product",
    "product_reserved",
    "product_spent",
    "publication_digest",
    "reason",
    "release_id",
    "reserved_at",
    "spec_digest",
}
_unchanging = itemgetter(
    "account", "amount", "input_digest", "period", "product", "reserved_at", "spec_digest"
)


@dataclass(frozen=True)
class Verified:
    """What a whole walk found to be in order."""

    entries: int
    head: Head
    accounts: int
    charges: int


@dataclass(slots=True)
class _Limits:
    """An account's terms in whole quanta."""

    per_unit: int  # q of the quantum 1/q
    cap: int
    cap_per_period: int | None
    cap_per_product: int | None


@dataclass(slots=True)
class _Open:
    """A charge that can still take a step."""

    state: str
    fence: int
    measurement: str | None
    content: bytes  # a digest of the fields that never change


@dataclass
class Audit:
    """The state of the books as the entries so far imply it."""

    head: Head = EMPTY
    at: str = ""
    limits: dict[str, _Limits] = field(default_factory=dict)
    sums: dict[tuple[str, ...], tuple[int, int]] = field(default_factory=dict)
    charges: dict[str, _Open | None] = field(default_factory=dict)  # None: in a final state
    inputs: dict[str, tuple[str, int]] = field(default_factory=dict)  # digest -> account, charges not voided

    def feed(self, entry: Entry, columns: Mapping[str, Any] | None = None) -> None:
        """Take the next entry, or raise :class:`ChainBroken` naming it."""
        seq = self.head.seq + 1
        if entry.seq != seq:
            _broken(seq, "is missing" if entry.seq > seq else "stands twice or out of order")
        body = self._body(entry)
        if columns is not None:
            self._columns(seq, body, columns)
        try:
            if body["kind"] == "account":
                self._account(seq, body)
            elif body["kind"] in STEPS:
                self._charge(seq, body)
            else:
                _broken(seq, "is of an unknown kind")
        except (KeyError, ValueError, TypeError, AttributeError, ZeroDivisionError, BadValue):
            _broken(seq, "has a field that is missing or malformed")
        self.head, self.at = Head(entry.seq, entry.hash), body["at"]

    def result(self) -> Verified:
        """Return the summary of what was fed."""
        return Verified(self.head.seq, self.head, len(self.limits), len(self.charges))

    def _body(self, entry: Entry) -> dict[str, Any]:
        seq = self.head.seq + 1
        if not is_whole(entry.text, entry.hash):
            _broken(seq, "has been altered: its hash is not that of its content")
        body: dict[str, Any] = {}
        try:
            body = json.loads(entry.text)
            right = isinstance(body, dict) and canonical(body) == entry.text
        except (ValueError, RecursionError):
            right = False
        if not right:
            _broken(seq, "is not canonical JSON")
        if body.get("prev") != self.head.hash or entry.prev != self.head.hash:
            _broken(seq, "does not continue the entry before it, which has been altered or exchanged")
        if body.get("seq") != seq or body.get("v") != FORMAT:
            _broken(seq, "has another number or format inside")
        if not isinstance(body.get("at"), str) or body["at"] < self.at:
            _broken(seq, "is older than the entry before it")
        return body

    @staticmethod
    def _columns(seq: int, body: Mapping[str, Any], columns: Mapping[str, Any]) -> None:
        there = [body.get(name) for name in COLUMNS]
        there.append(body.get("input_digest") if body.get("kind") == "reserved" else None)
        if there != [*_repeated(columns)]:
            _broken(seq, "has a column that differs from its content")

    def _account(self, seq: int, body: Mapping[str, Any]) -> None:
        if body.keys() != _ACCOUNT_FIELDS:
            _broken(seq, "has a field that is missing or malformed")
        terms = Terms.of(body)
        if terms.name in self.limits:
            _broken(seq, "opens an account that is open")
        zcdp = terms.definition == "zcdp"
        if (
            terms.relation not in RELATIONS
            or terms.definition not in DEFINITIONS
            or zcdp != (terms.delta is not None)
        ):
            _broken(seq, "has a field that is missing or malformed")
        per_unit = amounts.quantum(terms.quantum).denominator
        self.limits[terms.name] = _Limits(
            per_unit,
            _quanta(body["cap"], per_unit),
            _maybe_quanta(body["cap_per_period"], per_unit),
            _maybe_quanta(body["cap_per_product"], per_unit),
        )
        self._sums(seq, body, per_unit, {"account": (terms.name,)}, (0, 0))

    def _charge(self, seq: int, body: Mapping[str, Any]) -> None:
        if body.keys() != _CHARGE_FIELDS or body["account"] not in self.limits:
            _broken(seq, "has a field that is missing or malformed")
        release, step, account = check_release_id(body["release_id"]), body["kind"], body["account"]
        known = self.charges.get(release)
        if release in self.charges and known is None:
            _broken(seq, "takes a step after the charge's last")
        before = known.state if known else None
        if before not in STEPS[step]:
            _broken(seq, "takes a step that its charge's state does not allow")
        self._content(seq, body, known)
        limits = self.limits[account]
        amount = _quanta(body["amount"], limits.per_unit)
        scopes = {
            "account": (account,),
            "period": (account, "period", body["period"]),
            "product": (account, "product", body["product"]),
        }
        self._sums(seq, body, limits.per_unit, scopes, change(step, before, amount))
        if step == "reserved":
            self._caps(seq, limits, scopes)
        self._input(seq, body["input_digest"], account, step)
        self.charges[release] = (
            None
            if step in FINAL
            else _Open(step, body["fence"], body["measurement_digest"], _content_digest(body))
        )

    @staticmethod
    def _content(seq: int, body: Mapping[str, Any], known: _Open | None) -> None:
        """Check the fields that only certain steps may change."""
        step, fence = body["kind"], body["fence"]
        if known is None:
            right = fence == 0 and body["reserved_at"] == body["at"]
        else:
            right = known.content == _content_digest(body)
            right = right and fence == known.fence + (step == "drawing")
        measurement = known.measurement if known else None
        new_measurement, publication = body["measurement_digest"], body["publication_digest"]
        right = right and (bool(new_measurement) if step == "measured" else new_measurement == measurement)
        right = right and bool(publication) == (step == "published")
        right = right and bool(body["reason"]) == (step in ("voided", "abandoned"))
        if not right:
            _broken(seq, "changes what its step may not change")

    def _sums(
        self,
        seq: int,
        body: Mapping[str, Any],
        per_unit: int,
        scopes: Mapping[str, tuple[str, ...]],
        added: tuple[int, int],
    ) -> None:
        for scope, key in scopes.items():
            reserved, spent = self.sums.get(key, (0, 0))
            sums = reserved + added[0], spent + added[1]
            stored = body[f"{scope}_reserved"], body[f"{scope}_spent"]
            if stored != (_text(sums[0], per_unit), _text(sums[1], per_unit)):
                _broken(seq, f"has a wrong running sum of its {scope}")
            self.sums[key] = sums

    def _caps(self, seq: int, limits: _Limits, scopes: Mapping[str, tuple[str, ...]]) -> None:
        caps = {"account": limits.cap, "period": limits.cap_per_period, "product": limits.cap_per_product}
        for scope, cap in caps.items():
            if cap is not None and sum(self.sums[scopes[scope]]) > cap:
                _broken(seq, f"passes the cap of its {scope}")

    def _input(self, seq: int, named: str | None, account: str, step: str) -> None:
        if named is None or step not in ("reserved", "voided"):
            return
        owner, charges = self.inputs.get(named, (account, 0))
        if charges and owner != account:
            _broken(seq, "charges an input that another account has been charged for")
        self.inputs[named] = (account, charges + (1 if step == "reserved" else -1))


def walk(rows: Iterable[tuple[Entry, Mapping[str, Any] | None]]) -> Verified:
    """Check a whole chain; ``rows`` are the entries in order, with their columns if there are any."""
    audit = Audit()
    for entry, columns in rows:
        audit.feed(entry, columns)
    return audit.result()


@lru_cache(maxsize=1024)
def _quanta(stored: str, per_unit: int) -> int:
    """Return an amount's text as a number of quanta above zero; it must be in lowest terms."""
    amount = amounts.from_text(stored)
    quanta = amount * per_unit
    if amounts.text(amount) != stored or quanta.denominator != 1 or quanta <= 0:
        raise ValueError
    return quanta.numerator


def _text(quanta: int, per_unit: int) -> str:
    """Return the one text of a number of quanta."""
    common = gcd(quanta, per_unit)
    return f"{quanta // common}/{per_unit // common}"


def _maybe_quanta(stored: str | None, per_unit: int) -> int | None:
    return None if stored is None else _quanta(stored, per_unit)


def _content_digest(body: Mapping[str, Any]) -> bytes:
    return blake2b(repr(_unchanging(body)).encode(), digest_size=16).digest()


def _broken(seq: int, what: str) -> NoReturn:
    raise ChainBroken(
        f"entry {seq} {what}", where="ledger", mend="stop releases and restore the last good backup"
    ) from None
