"""Verifying the chain: what opens, changes and favours an account, and which officer must have signed it."""

from __future__ import annotations

from dataclasses import replace

from ledger.chain.entry_records import (
    Enrolment,
    EntryRecord,
    NewTerms,
    Opening,
    Revocation,
    Signature,
    SpecApproval,
    SpecWithdrawal,
    Voiding,
)
from ledger.chain.verify_state import AccountState, Decision, LedgerState, OfficerKey, broken
from ledger.officers import keys as signing
from ledger.records import Terms


def open_account(state: LedgerState, entry: Opening) -> None:
    """An account is opened once; while an officer has a key, with a signature."""
    if entry.account in state.accounts:
        broken(entry.seq, "opens an account that is open")
    _is_countersigned(state, entry, 0, "opens an account" if state.any_active_key() else None)
    account = state.accounts[entry.account] = AccountState(entry.terms)
    _leaves_the_sums(account, entry)


def change_terms(state: LedgerState, entry: NewTerms) -> None:
    """Caps, dates and the need of approval may change; what loosens them may need a signature."""
    account, terms = state.account(entry.seq, entry.account), entry.terms
    if terms == account.terms or terms != _with_changeable_of(account.terms, terms):
        broken(entry.seq, "changes what its step may not change")
    loosens = account.terms.loosened(terms) and _is_guarded(state, account)
    _is_countersigned(state, entry, account.changes, "loosens an account's terms" if loosens else None)
    account.agree(terms)
    account.changes += 1
    if not account.total.within(account.cap):
        broken(entry.seq, "sets a cap below what is used")
    _leaves_the_sums(account, entry)


def may_void(state: LedgerState, entry: Voiding) -> None:
    """A charge that is voided gives budget back, which may need a signature."""
    guarded = _is_guarded(state, state.account(entry.seq, entry.account))
    _is_countersigned(state, entry, 0, "voids a charge" if guarded else None)


def enrol_key(state: LedgerState, entry: Enrolment) -> None:
    """A new key is signed for by an enrolled one; the first, where none is active, by itself."""
    _is_signed_for_this_turn(entry, entry.signed, state.key_changes)
    if not signing.can_sign(entry.public_key):
        broken(entry.seq, "enrols a key for which anybody can sign")
    if entry.key in state.keys or entry.key != signing.key_id(entry.public_key):
        broken(entry.seq, "enrols a key that is known, or under another name")
    by_itself = entry.signed.by == entry.key and not state.any_active_key()
    _is_signed(state, entry, entry.signed, entry.public_key if by_itself else None)
    state.keys[entry.key] = OfficerKey(entry.public_key, active=True)
    state.key_changes += 1


def revoke_key(state: LedgerState, entry: Revocation) -> None:
    """An enrolled key is revoked by an enrolled one, which may be the same."""
    _is_signed_for_this_turn(entry, entry.signed, state.key_changes)
    if state.active_key(entry.key) is None:
        broken(entry.seq, "revokes a key that is not enrolled")
    _is_signed(state, entry, entry.signed)
    state.keys[entry.key].active = False
    state.key_changes += 1


def decide(state: LedgerState, entry: SpecApproval | SpecWithdrawal) -> None:
    """An officer approves a spec, or withdraws an approval that stands."""
    account = state.account(entry.seq, entry.account)
    last = state.decisions.get((entry.account, entry.spec_digest))
    _is_signed_for_this_turn(entry, entry.signed, 0 if last is None else last.turn + 1)
    approves, most = entry.kind == "approval", None
    if not approves and (last is None or not last.approved):
        broken(entry.seq, "withdraws an approval that does not stand")
    if entry.amount is not None:
        most = account.quanta(entry.amount)
        if most is None:
            broken(entry.seq, "approves an amount that is no multiple of its account's quantum")
    _is_signed(state, entry, entry.signed)
    _leaves_the_sums(account, entry)
    state.decisions[entry.account, entry.spec_digest] = Decision(
        entry.signed.turn, approves, entry.signed.by, most
    )


def _with_changeable_of(before: Terms, after: Terms) -> Terms:
    """Return terms with only what may change taken from those afterwards."""
    return replace(
        before,
        cap=after.cap,
        cap_per_period=after.cap_per_period,
        cap_per_product=after.cap_per_product,
        opens_on=after.opens_on,
        closes_on=after.closes_on,
        needs_approval=after.needs_approval,
    )


def _is_guarded(state: LedgerState, account: AccountState) -> bool:
    """Whether what favours the spending of an account needs an officer's signature."""
    return account.terms.needs_approval or state.any_active_key()


def _leaves_the_sums(account: AccountState, entry: Opening | SpecApproval | SpecWithdrawal) -> None:
    if not account.reads(account.total, entry.account_reserved, entry.account_spent):
        broken(entry.seq, "has a wrong running sum of its account")


def _is_countersigned(state: LedgerState, entry: Opening | Voiding, turn: int, needs_it: str | None) -> None:
    """A signature is good if there is one; there must be one if the entry does what needs it."""
    if entry.signed is not None:
        _is_signed_for_this_turn(entry, entry.signed, turn)
        _is_signed(state, entry, entry.signed)
    elif needs_it is not None:
        broken(entry.seq, f"{needs_it} without an officer's signature")


def _is_signed_for_this_turn(entry: EntryRecord, signed: Signature, turn: int) -> None:
    """An old signature cannot be used again: it names how many decisions came before."""
    if signed.turn != turn:
        broken(entry.seq, "is signed for another turn")


def _is_signed(
    state: LedgerState, entry: EntryRecord, signed: Signature, public_key: str | None = None
) -> None:
    """The signature is that of an enrolled key, or of the ``public_key`` that is given."""
    key = public_key or state.active_key(signed.by)
    fields = entry.fields()
    if key is None:
        broken(entry.seq, "is signed with a key that is not enrolled")
    if not signing.is_signed(key, signed.signature, state.first, fields["kind"], fields):
        broken(entry.seq, "has a signature that is not its key's")
