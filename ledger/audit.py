"""Walking the whole chain: every entry is worked out again from the entries before it.

The walk needs nothing but the rows, in order; it does not trust a running sum, a state or a column.
Memory grows with the number of charges (a name each, and some digests while one is open), not of entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from operator import itemgetter
from typing import Any, NoReturn

from ledger import composition, schema, shapes, signing
from ledger.audit_state import AccountState, KeyState, Sum, quanta
from ledger.chain import FORMATS
from ledger.errors import BadValue, ChainBroken
from ledger.names import day as check_day
from ledger.names import release_id as check_release_id
from ledger.records import DEFINITIONS, EMPTY, FINAL, GENESIS, RELATIONS, STEPS, Entry, Head, Terms, change

_TIME = re.compile(shapes.TIME)
_charge_fields = itemgetter(*shapes.CHARGE)
_ENDED = ("voided", "abandoned")
_SAME = (
    *("account", "amount", "contributions", "group", "input_digest", "part", "period", "product"),
    *("reserved_at", "spec_digest"),
)
_plain = shapes.PLAIN_CHARGE.fullmatch
Columns = tuple[str | None, ...]


@dataclass(frozen=True)
class Verified:
    """What a whole walk found to be in order."""

    entries: int
    head: Head
    accounts: int
    charges: int
    keys: int = 0
    approvals: int = 0


@dataclass(slots=True)
class _Open:
    """A charge that can still take a step."""

    state: str
    fence: int
    measurement: str | None
    content: bytes  # a digest of the fields that never change


@dataclass(slots=True)
class _Decision:
    """The last approval, or withdrawal, of one spec in one account."""

    turn: int
    approved: bool
    by: str
    amount: int | None


@dataclass
class Audit:
    """The state of the books as the entries so far imply it."""

    seq: int = 0
    hash: str = GENESIS
    at: str = ""
    form: int = 0
    first: str = GENESIS
    accounts: dict[str, AccountState] = field(default_factory=dict)
    charges: dict[str, _Open | None] = field(default_factory=dict)  # None: in a final state
    inputs: dict[str, tuple[str, int]] = field(default_factory=dict)  # digest -> account, charges not voided
    keys: dict[str, KeyState] = field(default_factory=dict)
    key_turns: int = 0
    decisions: dict[tuple[str, str], _Decision] = field(default_factory=dict)
    sought: dict[int, set[str]] = field(default_factory=dict)  # number -> hashes that it should have

    def feed(self, entry: Entry, columns: Columns | None = None) -> None:
        """Take the next entry, or raise :class:`ChainBroken` naming it."""
        self.take(entry.seq, entry.prev, entry.hash, entry.text, columns)

    def take(self, number: Any, prev: Any, named: Any, text: Any, columns: Columns | None = None) -> None:
        """Take the next entry as it stands in a row; values of any kind are looked at with suspicion."""
        seq = self.seq + 1
        if number != seq:
            _missing(seq, number)
        if type(text) is not str or not text.isascii() or sha256(text.encode()).hexdigest() != named:
            _broken(seq, "has been altered: its hash is not that of its content")
        found = _plain(text)
        if found is None:
            at, form = self._long(seq, prev, text, columns)
        else:
            fields = found.groups()
            at = fields[4]
            if fields[12] != self.hash or prev != self.hash:
                _broken(seq, "does not continue the entry before it, which has been altered or exchanged")
            form = int(fields[22])
            if fields[20] != str(seq) or form < self.form:
                _broken(seq, "has another number or format inside")
            if at < self.at:
                _broken(seq, "is older than the entry before it")
            if columns is not None:
                kind, named_input = fields[7], fields[6] if fields[7] == "reserved" else None
                repeated = (kind, fields[0], fields[18], fields[13], fields[9], named_input, None, None)
                if columns != repeated:
                    _broken(seq, "has a column that differs from its content")
            try:
                self._charge(seq, fields, int(fields[5]), None)
            except (KeyError, ValueError, TypeError, ZeroDivisionError, BadValue):
                _broken(seq, "has a field that is missing or malformed")
        self.seq, self.hash, self.at, self.form = seq, named, at, form
        if seq == 1:
            self.first = named
        if seq in self.sought and self.sought[seq] != {named}:
            _broken(seq, "is not the one that a certificate, a witness or a measurement file names")

    def seek(self, heads: Iterable[Head]) -> None:
        """Name heads that the entries to come must hold."""
        for head in heads:
            self.sought.setdefault(head.seq, set()).add(head.hash)

    def lacking(self) -> int | None:
        """Return the number of a sought head that lies beyond the last entry, or ``None``."""
        beyond = [seq for seq in self.sought if seq > self.seq]
        return min(beyond, default=None)

    @property
    def head(self) -> Head:
        """The last entry taken."""
        return EMPTY if self.seq == 0 else Head(self.seq, self.hash)

    def result(self) -> Verified:
        """Return the summary of what was fed."""
        active = sum(key.active for key in self.keys.values())
        approved = sum(decision.approved for decision in self.decisions.values())
        return Verified(self.seq, self.head, len(self.accounts), len(self.charges), active, approved)

    def _time(self, seq: int, at: object) -> None:
        if not isinstance(at, str) or at < self.at:
            _broken(seq, "is older than the entry before it")
        if not _TIME.fullmatch(at):
            _broken(seq, "has a field that is missing or malformed")

    def _long(self, seq: int, prev: Any, text: str, columns: Columns | None) -> tuple[str, int]:
        """Take an entry that is not a plain charge."""
        body = shapes.read(text)
        if body is None:
            _broken(seq, "is not canonical JSON")
        if body.get("prev") != self.hash or prev != self.hash:
            _broken(seq, "does not continue the entry before it, which has been altered or exchanged")
        if type(body.get("seq")) is not int or body["seq"] != seq or not self._follows(body.get("v")):
            _broken(seq, "has another number or format inside")
        self._time(seq, body.get("at"))
        if body.get("kind") not in shapes.KINDS:
            _broken(seq, "is of an unknown kind")
        try:
            if not shapes.well_formed(body):
                raise ValueError
            if columns is not None and columns != schema.repeated(body):
                _broken(seq, "has a column that differs from its content")
            self._kind(seq, body)
        except (KeyError, ValueError, TypeError, AttributeError, ZeroDivisionError, BadValue):
            _broken(seq, "has a field that is missing or malformed")
        return str(body["at"]), body["v"]

    def _follows(self, form: object) -> bool:
        """Whether an entry may have this format: one that is known, and not older than the one before."""
        return type(form) is int and form in FORMATS and form >= self.form

    def _kind(self, seq: int, body: dict[str, Any]) -> None:
        kind = body["kind"]
        if kind in STEPS:
            self._charge(seq, _charge_fields(body), body["fence"], body if "group" in body else None)
        elif kind == "account":
            self._account(seq, body)
        elif kind == "terms":
            self._terms(seq, body)
        elif kind in ("key", "revocation"):
            self._key(seq, kind, body)
        else:
            self._decision(seq, kind, body)

    def _account(self, seq: int, body: dict[str, Any]) -> None:
        terms = _checked(Terms.of(body))
        if terms.name in self.accounts:
            _broken(seq, "opens an account that is open")
        state = AccountState(terms)
        self.accounts[terms.name] = state
        self._stands(seq, body, state)

    def _terms(self, seq: int, body: dict[str, Any]) -> None:
        terms, state = _checked(Terms.of(body)), self.accounts[body["account"]]
        if not state.may_become(terms) or not body["reason"]:
            _broken(seq, "changes what its step may not change")
        if "signature" in body:
            if body["turn"] != state.turns:
                _broken(seq, "is signed for another turn")
            by = self.keys.get(body["by"])
            self._signed(seq, "terms", body, by.public_key if by and by.active else None)
        elif body["v"] > 2 and state.terms.loosened(terms) and self._guarded(state.terms):
            _broken(seq, "loosens an account's terms without an officer's signature")
        state.change(terms)
        state.turns += 1
        if state.total.reserved + state.total.spent > state.cap:
            _broken(seq, "sets a cap below what is used")
        self._stands(seq, body, state)

    def _guarded(self, terms: Terms) -> bool:
        """Whether terms may be loosened with an officer's signature alone."""
        return terms.needs_approval or any(key.active for key in self.keys.values())

    @staticmethod
    def _stands(seq: int, body: dict[str, Any], state: AccountState) -> None:
        """Check the running sums on an entry that adds nothing to them."""
        if not state.total.reads(state.per_unit, body["account_reserved"], body["account_spent"]):
            _broken(seq, "has a wrong running sum of its account")

    def _key(self, seq: int, kind: str, body: dict[str, Any]) -> None:
        known, by = self.keys.get(body["key"]), self.keys.get(body["by"])
        if body["turn"] != self.key_turns:
            _broken(seq, "is signed for another turn")
        if kind == "key":
            first = not any(key.active for key in self.keys.values())
            if known is not None or body["key"] != signing.key_id(body["public_key"]):
                _broken(seq, "enrols a key that is known, or under another name")
            signer = body["public_key"] if first and body["by"] == body["key"] else None
        else:
            if known is None or not known.active:
                _broken(seq, "revokes a key that is not enrolled")
            signer = None
        if signer is None and by is not None and by.active:
            signer = by.public_key
        self._signed(seq, kind, body, signer)
        if kind == "key":
            self.keys[body["key"]] = KeyState(body["public_key"], True)
        elif known is not None:
            known.active = False
        self.key_turns += 1

    def _decision(self, seq: int, kind: str, body: dict[str, Any]) -> None:
        name = body["account"], body["spec_digest"]
        state, by, last = self.accounts[body["account"]], self.keys.get(body["by"]), self.decisions.get(name)
        turn = last.turn + 1 if last else 0
        if body["turn"] != turn or (kind == "withdrawal" and (last is None or not last.approved)):
            _broken(seq, "is signed for another turn")
        self._signed(seq, kind, body, by.public_key if by and by.active else None)
        amount = None if body["amount"] is None else quanta(body["amount"], state.per_unit)
        self.decisions[name] = _Decision(turn, kind == "approval", body["by"], amount)
        self._stands(seq, body, state)

    def _signed(self, seq: int, kind: str, body: dict[str, Any], public_key: str | None) -> None:
        if public_key is None:
            _broken(seq, "is signed with a key that is not enrolled")
        if not signing.is_signed(public_key, body["signature"], self.first, kind, body):
            _broken(seq, "has a signature that is not its key's")

    # In one piece, because it is nearly all of the time that a long chain takes.
    def _charge(  # noqa: PLR0912, PLR0915
        self, seq: int, fields: tuple[Any, ...], fence: int, body: dict[str, Any] | None
    ) -> None:
        """Take a step of a charge; ``body`` is given where it has a partition."""
        account, of_account, step, release = fields[0], fields[1:3], fields[7], fields[18]
        state, known = self.accounts[account], self.charges.get(release)
        if known is None and release in self.charges:
            _broken(seq, "takes a step after the charge's last")
        before = None if known is None else known.state
        if before not in STEPS[step]:
            _broken(seq, "takes a step that its charge's state does not allow")
        content = _content(fields, body)
        measured = fields[8]
        if known is None:
            check_release_id(release)
            right = fence == 0 and fields[19] == fields[4] and measured is None
        else:
            right = known.content == content and fence == known.fence + (step == "drawing")
            right = right and (bool(measured) if step == "measured" else measured == known.measurement)
        published, ended = step == "published", step in _ENDED
        if not right or (fields[16] is not None) != published or (fields[17] is not None) != ended:
            _broken(seq, "changes what its step may not change")
        amount = quanta(fields[3], state.per_unit)
        added = change(step, before, amount)
        period, product = state.periods.get(fields[9]), state.products.get(fields[13])
        if period is None:
            period = state.periods[fields[9]] = Sum()
        if product is None:
            product = state.products[fields[13]] = Sum()
        if added[0] or added[1]:
            inside = added if body is None else self._grouped(state, body, added)
            state.total.add(inside)
            period.add(added if inside is added or composition.period_of(body["group"]) is None else inside)  # type: ignore[index]
            product.add(added)
        if body is not None:
            self._part(seq, state, body)
        per_unit = state.per_unit
        if not state.total.reads(per_unit, *of_account):
            _broken(seq, "has a wrong running sum of its account")
        if not period.reads(per_unit, fields[10], fields[11]):
            _broken(seq, "has a wrong running sum of its period")
        if not product.reads(per_unit, fields[14], fields[15]):
            _broken(seq, "has a wrong running sum of its product")
        if before is None:
            self._reserved(seq, state, fields, amount)
            passed = state.passes(period, product)
            if passed is not None:
                _broken(seq, f"passes the cap of its {passed}")
        if fields[6] is not None and (before is None or step == "voided"):
            self._input(seq, fields[6], account, step)
        if step in FINAL:
            self.charges[release] = None
        elif known is None:
            self.charges[release] = _Open(step, fence, None, content)
        else:
            known.state, known.fence, known.measurement = step, fence, measured

    @staticmethod
    def _grouped(state: AccountState, body: dict[str, Any], added: tuple[int, int]) -> tuple[int, int]:
        """Take a step of a partitioned charge; return what it changes of what the whole group costs."""
        contributions, parts = state.groups.setdefault(body["group"], (body["contributions"], {}))
        part, fold = body["part"], composition.folds(contributions, state.terms.relation)
        inside = composition.group_change(parts, part, added, fold)
        before = parts.get(part, (0, 0))
        parts[part] = before[0] + added[0], before[1] + added[1]
        return inside

    @staticmethod
    def _part(seq: int, state: AccountState, body: dict[str, Any]) -> None:
        """Check what only partitioned charges have."""
        group = body["group"]
        wanted = None if composition.per_period(state.terms.unit) else body["period"]
        if composition.period_of(group) != wanted:
            _broken(seq, "composes in parallel over periods")
        contributions, parts = state.groups[group]
        if contributions != body["contributions"] or contributions < 1:
            _broken(seq, "has another bound on contributions than its group")
        own = Sum(*parts[body["part"]])
        if not own.reads(state.per_unit, body["part_reserved"], body["part_spent"]):
            _broken(seq, "has a wrong running sum of its part")

    def _reserved(self, seq: int, state: AccountState, fields: tuple[Any, ...], amount: int) -> None:
        """Check what must hold when a charge is taken: the account's dates, and an officer's approval."""
        if not state.terms.open_on(fields[4][:10]):
            _broken(seq, "charges an account that is not open at that time")
        if state.terms.needs_approval:
            decision = self.decisions.get((fields[0], fields[21]))
            key = self.keys.get(decision.by) if decision and decision.approved else None
            covered = decision is not None and (decision.amount is None or amount <= decision.amount)
            if key is None or not key.active or not covered:
                _broken(seq, "charges for a spec that no officer has approved")

    def _input(self, seq: int, named: str, account: str, step: str) -> None:
        owner, charges = self.inputs.get(named, (account, 0))
        if charges and owner != account:
            _broken(seq, "charges an input that another account has been charged for")
        self.inputs[named] = (account, charges + (1 if step == "reserved" else -1))


def walk(rows: Iterable[tuple[Entry, Columns | None]]) -> Verified:
    """Check a whole chain; ``rows`` are the entries in order, with their columns if there are any."""
    audit = Audit()
    for entry, columns in rows:
        audit.feed(entry, columns)
    return audit.result()


def _content(fields: tuple[Any, ...], body: dict[str, Any] | None) -> bytes:
    """Return a digest of the fields that never change in a charge's life."""
    if body is not None:
        return blake2b(repr([body[name] for name in _SAME]).encode(), digest_size=16).digest()
    named = fields[6]
    same = (fields[0], fields[3], fields[9], fields[13], fields[19], fields[21])
    text = "\n".join(same if named is None else (*same, named))  # no field of the pattern holds a newline
    return blake2b(text.encode("ascii", "backslashreplace"), digest_size=16).digest()


def _checked(terms: Terms) -> Terms:
    """Return terms that an account may have, or raise ``ValueError``."""
    if (
        terms.relation not in RELATIONS
        or terms.definition not in DEFINITIONS
        or (terms.definition == "zcdp") != (terms.delta is not None)
    ):
        raise ValueError
    for date in (terms.opens_on, terms.closes_on):
        if date is not None:
            check_day(date, field="date")
    return terms


def _missing(seq: int, number: object) -> NoReturn:
    later = isinstance(number, int) and number > seq
    _broken(seq, "is missing" if later else "stands twice or out of order")


def _broken(seq: int, what: str) -> NoReturn:
    raise ChainBroken(
        f"entry {seq} {what}", where="ledger", mend="stop releases and restore the last good backup"
    ) from None
