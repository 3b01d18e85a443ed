"""Walking the whole chain: every entry is worked out again from the entries before it.

The walk needs nothing but the rows, in order; it does not trust a running sum, a state or a column.
Memory grows with the number of charges (a name each, and some digests while one is open), not of entries.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import blake2b, sha256
from operator import itemgetter
from sys import intern
from typing import Any, NoReturn

from ledger import composition
from ledger.chain import entry_fields as shapes
from ledger.chain.entries import FORMATS
from ledger.chain.verify_officers import OfficersAudit, broken
from ledger.chain.verify_state import AccountState, Sum, quanta
from ledger.names import day as check_day
from ledger.names import release_id as check_release_id
from ledger.records import EMPTY, FINAL, GENESIS, STEPS, Entry, Head, change
from ledger.refusals import BadValue, ChainBroken
from ledger.storage import schema

_charge_fields = itemgetter(*shapes.CHARGE)
_SAME = (
    *("account", "amount", "contributions", "group", "input_digest", "part", "period", "product"),
    *("reserved_at", "spec_digest"),
)
_ENDED = ("voided", "abandoned")
_STILL = frozenset({"measured", "published", "abandoned"})  # steps that move no budget
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
    ahead: int | None = None  # the first entry that is dated later than the reader's clock allows


@dataclass(slots=True)
class _Open:
    """A charge that can still take a step."""

    state: str | None
    fence: int
    measurement: str | None
    content: Any  # the fields that never change, or a digest of them
    amount: int


_NEW = _Open(None, 0, None, None, 0)  # of a charge that was never seen: it can be reserved


@dataclass
class Audit(OfficersAudit):
    """The state of the books as the entries so far imply it."""

    seq: int = 0
    hash: str = GENESIS
    at: str = ""
    form: int = 0
    charges: dict[str, _Open | None] = field(default_factory=dict)  # None: in a final state
    inputs: dict[str, tuple[str, int]] = field(default_factory=dict)  # digest -> account, charges not voided
    sought: dict[int, set[str]] = field(default_factory=dict)  # number -> hashes that it should have
    latest: str = "~"  # entries of later times are told of; the tilde sorts after every time
    ahead: int | None = None
    day: str = ""  # the last entry's; a day that was looked at is not looked at again

    def feed(self, entry: Entry, columns: Columns | None = None) -> None:
        """Take the next entry, or raise :class:`ChainBroken` naming it."""
        self.take(entry.seq, entry.prev, entry.hash, entry.text, columns)

    def take(  # noqa: PLR0912
        self, number: Any, prev: Any, named: Any, text: Any, columns: Columns | None = None
    ) -> None:
        """Take the next entry as it stands in a row; values of any kind are looked at with suspicion."""
        seq = self.seq + 1
        if number != seq:
            _missing(seq, number)
        if type(text) is not str or not text.isascii() or sha256(text.encode()).hexdigest() != named:
            broken(seq, "has been altered: its hash is not that of its content")
        found = _plain(text)
        if found is None:
            at, form = self._long(seq, prev, text, columns)
        else:
            fields = found.groups()
            at = fields[4]
            if fields[12] != self.hash or prev != self.hash:
                broken(seq, "does not continue the entry before it, which has been altered or exchanged")
            form = int(fields[22])
            if fields[20] != str(seq) or form < self.form:
                broken(seq, "has another number or format inside")
            if at < self.at or at > self.latest or at[:10] != self.day:
                self._time(seq, at)
            if columns is not None:
                kind, named_input = fields[7], fields[6] if fields[7] == "reserved" else None
                repeated = (kind, fields[0], fields[18], fields[13], fields[9], named_input, None, None)
                if columns != repeated:
                    broken(seq, "has a column that differs from its content")
            try:
                if fields[7] == "voided":
                    self._voided(seq, {"account": fields[0]}, form)
                self._charge(seq, fields, int(fields[5]), None)
            except (KeyError, ValueError, TypeError, ZeroDivisionError, BadValue):
                broken(seq, "has a field that is missing or malformed")
        self.seq, self.hash, self.at, self.form = seq, named, at, form
        if seq == 1:
            self.first = named
        if seq in self.sought and self.sought[seq] != {named}:
            broken(seq, "is not the one that a certificate, a witness or a measurement file names")

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
        return Verified(
            self.seq, self.head, len(self.accounts), len(self.charges), active, approved, self.ahead
        )

    def _time(self, seq: int, at: str) -> None:
        """Look at a time that has the right shape."""
        if at < self.at:
            broken(seq, "is older than the entry before it")
        if at > self.latest and self.ahead is None:
            self.ahead = seq
        try:
            self.day = check_day(at[:10], field="at")
        except BadValue:
            broken(seq, "has a field that is missing or malformed")

    def _long(self, seq: int, prev: Any, text: str, columns: Columns | None) -> tuple[str, int]:
        """Take an entry that is not a plain charge."""
        body = shapes.read(text)
        if body is None:
            broken(seq, "is not canonical JSON")
        if body.get("prev") != self.hash or prev != self.hash:
            broken(seq, "does not continue the entry before it, which has been altered or exchanged")
        if type(body.get("seq")) is not int or body["seq"] != seq or not self._follows(body.get("v")):
            broken(seq, "has another number or format inside")
        if body.get("kind") not in shapes.KINDS:
            broken(seq, "is of an unknown kind")
        try:
            if not shapes.well_formed(body):
                raise ValueError
            self._time(seq, body["at"])
            if columns is not None and columns != schema.repeated(body):
                broken(seq, "has a column that differs from its content")
            self._kind(seq, body)
        except (KeyError, ValueError, TypeError, AttributeError, ZeroDivisionError, BadValue):
            broken(seq, "has a field that is missing or malformed")
        return str(body["at"]), body["v"]

    def _follows(self, form: object) -> bool:
        """Whether an entry may have this format: one that is known, and not older than the one before."""
        return type(form) is int and form in FORMATS and form >= self.form

    def _kind(self, seq: int, body: dict[str, Any]) -> None:
        kind = body["kind"]
        if kind in STEPS:
            if kind == "voided":
                self._voided(seq, body, body["v"])
            self._charge(seq, _charge_fields(body), body["fence"], body if "group" in body else None)
        elif kind == "account":
            self._account(seq, body)
        elif kind == "terms":
            self._terms(seq, body)
        elif kind in ("key", "revocation"):
            self._key(seq, kind, body)
        else:
            self._decision(seq, kind, body)

    # In one piece, because it is nearly all of the time that a long chain takes.
    def _charge(  # noqa: PLR0912, PLR0915
        self, seq: int, fields: tuple[Any, ...], fence: int, body: dict[str, Any] | None
    ) -> None:
        """Take a step of a charge; ``body`` is given where it has a partition."""
        # fmt: off
        (account, account_reserved, account_spent, asked, at, _, named, step, measured, of_period,
         period_reserved, period_spent, _, of_product, product_reserved, product_spent, publication, reason,
         release, reserved_at, _, spec, _) = fields
        # fmt: on
        state, known = self.accounts[account], self.charges.get(release, _NEW)
        if known is None:
            broken(seq, "takes a step after the charge's last")
        before = known.state
        if before not in STEPS[step]:
            broken(seq, "takes a step that its charge's state does not allow")
        same = (account, asked, of_period, of_product, reserved_at, spec, named)
        content = same if body is None else _content(body)
        if before is None:
            check_release_id(release)
            right = fence == 0 and reserved_at == at and measured is None
        else:
            right = known.content == content and fence == known.fence + (step == "drawing")
            right = right and (bool(measured) if step == "measured" else measured == known.measurement)
        if (
            not right
            or (publication is None) == (step == "published")
            or (reason is None) == (step in _ENDED)
        ):
            broken(seq, "changes what its step may not change")
        per_unit = state.per_unit
        amount = quanta(asked, per_unit) if before is None else known.amount
        total, period, product = state.total, state.periods.get(of_period), state.products.get(of_product)
        if period is None:
            period = state.periods[of_period] = Sum()
        if product is None:
            product = state.products[of_product] = Sum()
        if step not in _STILL:
            added = change(step, before, amount)
            inside = added if body is None else self._grouped(state, body, added)
            total.add(inside)
            period.add(added if body is None or composition.period_of(body["group"]) is None else inside)
            product.add(added)
        if body is not None:
            self._part(seq, state, body)
        # What has not changed since the last entry of the scope is seen to be the same text.
        if (account_spent != total.spent_text or account_reserved != total.reserved_text) and not total.reads(
            per_unit, account_reserved, account_spent
        ):
            broken(seq, "has a wrong running sum of its account")
        if (
            period_spent != period.spent_text or period_reserved != period.reserved_text
        ) and not period.reads(per_unit, period_reserved, period_spent):
            broken(seq, "has a wrong running sum of its period")
        if (
            product_spent != product.spent_text or product_reserved != product.reserved_text
        ) and not product.reads(per_unit, product_reserved, product_spent):
            broken(seq, "has a wrong running sum of its product")
        if before is None:
            self._reserved(seq, state, fields, amount)
            passed = state.passes(period, product)
            if passed is not None:
                broken(seq, f"passes the cap of its {passed}")
        if named is not None and (before is None or step == "voided"):
            self._input(seq, named, account, step)
        if step in FINAL:
            self.charges[release] = None
        elif before is None:  # what charges have in common is kept once
            kept = content if body is not None else (*map(intern, same[:4]), same[4], intern(spec), named)
            self.charges[release] = _Open(step, fence, None, kept, amount)
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
            broken(seq, "composes in parallel over periods")
        contributions, parts = state.groups[group]
        composition.Partition(group.partition(" ")[0], body["part"], contributions).checked()
        if contributions != body["contributions"]:
            broken(seq, "has another bound on contributions than its group")
        own = Sum(*parts[body["part"]])
        if not own.reads(state.per_unit, body["part_reserved"], body["part_spent"]):
            broken(seq, "has a wrong running sum of its part")

    def _reserved(self, seq: int, state: AccountState, fields: tuple[Any, ...], amount: int) -> None:
        """Check what must hold when a charge is taken: the account's dates, and an officer's approval."""
        if not state.terms.open_on(fields[4][:10]):
            broken(seq, "charges an account that is not open at that time")
        if state.terms.needs_approval:
            decision = self.decisions.get((fields[0], fields[21]))
            key = self.keys.get(decision.by) if decision and decision.approved else None
            covered = decision is not None and (decision.amount is None or amount <= decision.amount)
            if key is None or not key.active or not covered:
                broken(seq, "charges for a spec that no officer has approved")

    def _input(self, seq: int, named: str, account: str, step: str) -> None:
        owner, charges = self.inputs.get(named, (account, 0))
        if charges and owner != account:
            broken(seq, "charges an input that another account has been charged for")
        self.inputs[named] = (account, charges + (1 if step == "reserved" else -1))


def in_time(found: Verified, where: str) -> Verified:
    """Return what was found in order, unless the clock that dated it, or the reader's, is wrong."""
    if found.ahead is None:
        return found
    raise ChainBroken(
        f"its {found.entries} entries are in order, but entry {found.ahead} is dated after this clock's day",
        where=where,
        mend="look at this machine's clock first, then at who wrote that entry",
    )


def walk(rows: Iterable[tuple[Entry, Columns | None]]) -> Verified:
    """Check a whole chain; ``rows`` are the entries in order, with their columns if there are any."""
    audit = Audit()
    for entry, columns in rows:
        audit.feed(entry, columns)
    return audit.result()


def _content(body: dict[str, Any]) -> bytes:
    """Return a digest of the fields that never change in the life of a partitioned charge."""
    return blake2b(repr([body[name] for name in _SAME]).encode(), digest_size=16).digest()


def _missing(seq: int, number: object) -> NoReturn:
    later = isinstance(number, int) and number > seq
    broken(seq, "is missing" if later else "stands twice or out of order")
