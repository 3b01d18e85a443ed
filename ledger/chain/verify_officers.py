"""Walking the chain: what officers decide, and who signed it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

from ledger.chain.verify_state import AccountState, KeyState, quanta
from ledger.officers import keys as signing
from ledger.records import GENESIS, Terms
from ledger.refusals import ChainBroken
from ledger.terms import agreed


@dataclass(slots=True)
class Decision:
    """The last approval, or withdrawal, of one spec in one account."""

    turn: int
    approved: bool
    by: str
    amount: int | None


@dataclass
class OfficersAudit:
    """Accounts, keys and decisions as the entries so far imply them."""

    first: str = GENESIS
    accounts: dict[str, AccountState] = field(default_factory=dict)
    keys: dict[str, KeyState] = field(default_factory=dict)
    key_turns: int = 0
    decisions: dict[tuple[str, str], Decision] = field(default_factory=dict)

    def _account(self, seq: int, body: dict[str, Any]) -> None:
        terms = _checked(body)
        if terms.name in self.accounts:
            broken(seq, "opens an account that is open")
        opens = "opens an account" if body["v"] > 3 and self._any_key() else None
        self._countersigned(seq, body, 0, opens)
        state = AccountState(terms)
        self.accounts[terms.name] = state
        self._stands(seq, body, state)

    def _terms(self, seq: int, body: dict[str, Any]) -> None:
        terms, state = _checked(body), self.accounts[body["account"]]
        if not state.may_become(terms) or terms == state.terms:
            broken(seq, "changes what its step may not change")
        guarded = body["v"] > 2 and state.terms.loosened(terms) and self._guarded(state.terms)
        self._countersigned(seq, body, state.turns, "loosens an account's terms" if guarded else None)
        state.change(terms)
        state.turns += 1
        if state.total.reserved + state.total.spent > state.cap:
            broken(seq, "sets a cap below what is used")
        self._stands(seq, body, state)

    def _voided(self, seq: int, body: dict[str, Any], form: int) -> None:
        """Check who voided a charge; ``body`` holds its account, and a signature if there is one."""
        guarded = form > 3 and self._guarded(self.accounts[body["account"]].terms)
        self._countersigned(seq, body, 0, "voids a charge" if guarded else None)

    def _guarded(self, terms: Terms) -> bool:
        """Whether terms may be loosened, and charges voided, with an officer's signature alone."""
        return terms.needs_approval or self._any_key()

    def _any_key(self) -> bool:
        return any(key.active for key in self.keys.values())

    def _countersigned(self, seq: int, body: dict[str, Any], turn: int, what: str | None) -> None:
        """Check an officer's signature; there must be one if the entry does ``what`` needs one."""
        if "signature" in body:
            if body["turn"] != turn:
                broken(seq, "is signed for another turn")
            by = self.keys.get(body["by"])
            self._signed(seq, body["kind"], body, by.public_key if by and by.active else None)
        elif what is not None:
            broken(seq, f"{what} without an officer's signature")

    @staticmethod
    def _stands(seq: int, body: dict[str, Any], state: AccountState) -> None:
        """Check the running sums on an entry that adds nothing to them."""
        if not state.total.reads(state.per_unit, body["account_reserved"], body["account_spent"]):
            broken(seq, "has a wrong running sum of its account")

    def _key(self, seq: int, kind: str, body: dict[str, Any]) -> None:
        known, by = self.keys.get(body["key"]), self.keys.get(body["by"])
        if body["turn"] != self.key_turns:
            broken(seq, "is signed for another turn")
        if kind == "key":
            first = not self._any_key()
            if not signing.can_sign(body["public_key"]):
                broken(seq, "enrols a key for which anybody can sign")
            if known is not None or body["key"] != signing.key_id(body["public_key"]):
                broken(seq, "enrols a key that is known, or under another name")
            signer = body["public_key"] if first and body["by"] == body["key"] else None
        else:
            if known is None or not known.active:
                broken(seq, "revokes a key that is not enrolled")
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
        withdraws, amount = kind == "withdrawal", body["amount"]
        if body["turn"] != turn or (withdraws and (last is None or not last.approved)):
            broken(seq, "is signed for another turn")
        self._signed(seq, kind, body, by.public_key if by and by.active else None)
        most = None if amount is None else quanta(amount, state.per_unit)
        if withdraws and most is not None:
            broken(seq, "withdraws an amount")
        self.decisions[name] = Decision(turn, kind == "approval", body["by"], most)
        self._stands(seq, body, state)

    def _signed(self, seq: int, kind: str, body: dict[str, Any], public_key: str | None) -> None:
        if public_key is None:
            broken(seq, "is signed with a key that is not enrolled")
        if not signing.is_signed(public_key, body["signature"], self.first, kind, body):
            broken(seq, "has a signature that is not its key's")


def _checked(body: dict[str, Any]) -> Terms:
    """Return terms that an account may have, in the one way in which they are written."""
    terms = agreed(Terms.of(body))
    if any(body[name] != value for name, value in terms.fields().items() if name in body):
        raise ValueError
    return terms


def broken(seq: int, what: str) -> NoReturn:
    """Name the first bad entry."""
    raise ChainBroken(
        f"entry {seq} {what}", where="ledger", mend="stop releases and restore the last good backup"
    ) from None
