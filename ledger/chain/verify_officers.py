"""Verifying the chain: what opens, changes and favours an account, and which officer must have signed it."""

from __future__ import annotations

from dataclasses import replace

from tabularium.ledger import events as entries
from tabularium.ledger import keys as signing
from tabularium.ledger.chain.verify_state import AccountState, LedgerState, broken
from tabularium.ledger.records import ATTEMPTS

CHANGEABLE = (
    *("approvals", "approvals_by_product", "approve_exact", "cap", "cap_per_period", "cap_per_product"),
    *("closes_on", "needs_approval", "opens_on"),
)


def open_account(state: LedgerState, entry: entries.Opening) -> None:
    """An account is opened once; while an officer has a key, with a signature."""
    if entry.account in state.accounts:
        broken(entry.seq, "opens an account that is open")
    countersigned(state, entry, 0, "opens an account" if state.any_active_key() else None)
    account = state.accounts[entry.account] = AccountState(entry.terms)
    state.populations.add(entry.terms.population)
    leaves_the_sums(account, entry)


def change_terms(state: LedgerState, entry: entries.NewTerms) -> None:
    """Caps, dates and the need of approval may change; what loosens them may need a signature."""
    known = state.accounts.get(entry.account)
    if known is not None and known.retired:
        _open_again(state, entry, known)
        return
    account, after = state.account(entry.seq, entry.account), entry.terms
    before = account.terms
    if after == before or after != replace(before, **{name: getattr(after, name) for name in CHANGEABLE}):
        broken(entry.seq, "changes what its step may not change")
    if before.lowered(after) is not None:
        broken(entry.seq, "lowers how many officers must sign")
    loosens = before.loosened(after) and _is_guarded(state, account)
    countersigned(state, entry, account.changes, "loosens an account's terms" if loosens else None)
    account.agree(after)
    account.changes += 1
    if account.passed({"account": account.total}):
        broken(entry.seq, "sets a cap below what is used")
    leaves_the_sums(account, entry)


def _open_again(state: LedgerState, entry: entries.NewTerms, retired: AccountState) -> None:
    """An account that was retired opens on any terms, if no spec was ever approved for it.

    Only of how many officers must sign it asks no fewer.
    """
    if any(name == entry.account for name, _spec in state.decisions):
        broken(entry.seq, "opens an account again for which specs were approved")
    if retired.terms.lowered(entry.terms) is not None:
        broken(entry.seq, "lowers how many officers must sign")
    countersigned(state, entry, retired.changes, "opens an account" if state.any_active_key() else None)
    account = state.accounts[entry.account] = AccountState(entry.terms)
    account.changes, account.retirements = retired.changes + 1, retired.retirements
    state.populations.add(entry.terms.population)
    leaves_the_sums(account, entry)


def retire_account(state: LedgerState, entry: entries.Retirement) -> None:
    """An account may be retired while it was never charged; nothing follows but that it opens again."""
    account = state.account(entry.seq, entry.account)
    if account.periods:
        broken(entry.seq, "retires an account that was charged")
    guarded = _is_guarded(state, account)
    countersigned(state, entry, account.retirements, "retires an account" if guarded else None)
    leaves_the_sums(account, entry)
    account.retired = True
    account.retirements += 1


def may_end(state: LedgerState, entry: entries.Abandoning) -> None:
    """What is voided gives budget back, what is abandoned may evade a review: either may need a signature."""
    if entry.kind == "abandoned":
        evades = entry.review and entry.measurement_digest is not None
        countersigned(state, entry, 0, "gives up what is to be reviewed" if evades else None)
        return
    guarded = _is_guarded(state, state.account(entry.seq, entry.account))
    countersigned(state, entry, 0, "voids a charge" if guarded else None)


def enrol_key(state: LedgerState, entry: entries.Enrolment) -> None:
    """A new key is signed for by an enrolled one; the first, where none is active, by itself."""
    _is_new(state, entry)
    by_itself = entry.signed.by == entry.key and not state.any_active_key()
    _is_signed(state, entry, entry.signed, state.key_changes, entry.public_key if by_itself else None)
    state.keys[entry.key] = entry.public_key
    state.officers[entry.key] = entry.officer
    state.key_changes += 1


def enrol_release_key(state: LedgerState, entry: entries.ReleaseKeyEnrolled) -> None:
    """A key for releases is no officer's, and is signed for with an officer's."""
    _is_new(state, entry)
    _is_signed(state, entry, entry.signed, state.key_changes)
    state.release_keys[entry.key] = True
    state.key_changes += 1


def revoke_key(state: LedgerState, entry: entries.Revocation) -> None:
    """An enrolled key is revoked by an enrolled officer's, which may be the same."""
    of_releases = state.release_keys.get(entry.key, False)
    if not of_releases and state.keys.get(entry.key) is None:
        broken(entry.seq, "revokes a key that is not enrolled")
    _is_signed(state, entry, entry.signed, state.key_changes)
    if of_releases:
        state.release_keys[entry.key] = False
    else:
        state.keys[entry.key] = None
    state.key_changes += 1


def decide(state: LedgerState, entry: entries.SpecDecision) -> None:
    """An officer approves a spec, or takes back an approval that stands."""
    account = state.account(entry.seq, entry.account)
    last = state.decisions.get((entry.account, entry.spec_digest))
    if entry.kind == "unapproval" and (last is None or last.kind != "approval"):
        broken(entry.seq, "takes back an approval that does not stand")
    if entry.amount is not None:
        account.quanta(entry.seq, entry.amount)
    _is_signed(state, entry, entry.signed, 0 if last is None else last.signed.turn + 1)
    leaves_the_sums(account, entry)
    about = entry.account, entry.spec_digest
    if last is None or (last.kind, last.amount) != ("approval", entry.amount):
        state.approvals[about] = []  # all must have signed the same
    if entry.kind == "approval":
        state.approvals[about].append(entry.signed.by)
    state.decisions[about] = entry


def allow_attempts(state: LedgerState, entry: entries.MoreAttempts) -> None:
    """More attempts are allowed for a release that has used up its own, which may need a signature."""
    account, charge = state.account(entry.seq, entry.account), state.charges.get(entry.release)
    if charge is None or (charge.state, charge.content[0]) != ("drawing", entry.account):
        broken(entry.seq, "allows attempts for what is not being drawn")
    if (charge.fence, charge.fence + ATTEMPTS) != (charge.allowed, entry.allowed):
        broken(entry.seq, "allows attempts before those there were are used up, or more than one may")
    guarded = _is_guarded(state, account)
    countersigned(state, entry, 0, "allows attempts" if guarded else None)
    leaves_the_sums(account, entry)
    state.charges[entry.release] = replace(charge, allowed=entry.allowed)


def lay_out(state: LedgerState, entry: entries.DraftSubmitted) -> None:
    """A measured release is laid out for review once, with criteria by which it may be withheld."""
    account, charge = state.account(entry.seq, entry.account), state.charges.get(entry.release)
    if charge is None or (charge.state, charge.content[0]) != ("measured", entry.account):
        broken(entry.seq, "lays out a draft of what is not measured")
    if charge.draft is not None or not entry.criteria:
        broken(entry.seq, "lays out a draft a second time, or without criteria")
    leaves_the_sums(account, entry)
    charge.review.drafts.add(entry.release)
    state.charges[entry.release] = replace(charge, draft=entry.draft, criteria=tuple(entry.criteria))


def accept(state: LedgerState, entry: entries.Acceptance) -> None:
    """An officer accepts a draft once: the very one that was laid out, by the criteria it came with.

    It is accepted for ever with the signature that makes as many officers as its account asks for then; a key
    that was revoked before that does not count.
    """
    account, charge = state.account(entry.seq, entry.account), state.charges.get(entry.release)
    if charge is None or charge.accepted or charge.content[0] != entry.account:
        broken(entry.seq, "accepts what waits for no review")
    if (charge.draft, charge.criteria) != (entry.draft, tuple(entry.criteria)):
        broken(entry.seq, "accepts another draft than was laid out")
    _is_signed(state, entry, entry.signed, len(charge.signed_by))
    leaves_the_sums(account, entry)
    before, signed_by = state.officers_of(charge.signed_by), (*charge.signed_by, entry.signed.by)
    officers = state.officers_of(signed_by)
    if officers == before:
        broken(entry.seq, "accepts a draft a second time for one officer")
    left = account.terms.approvals_for(charge.product) - len(officers)
    if (left or None) != (entry.still_to_sign and entry.still_to_sign.officers_left):
        broken(entry.seq, "tells another number of officers who are still to accept a draft")
    if not left:
        charge.review.accepted.add(entry.draft)
    state.charges[entry.release] = replace(charge, signed_by=signed_by, accepted=not left)


def may_withhold(state: LedgerState, entry: entries.Withholding) -> None:
    """An officer withholds a draft that was not accepted, by one of its criteria."""
    charge = state.charges.get(entry.release_id)
    if charge is None or charge.draft != entry.draft or charge.accepted:
        broken(entry.seq, "withholds what waits for no review, or another draft than was laid out")
    if entry.criterion not in charge.criteria:
        broken(entry.seq, "withholds a draft by a criterion that is not one of its own")
    _is_signed(state, entry, entry.signed, 0)


def withdraw(state: LedgerState, entry: entries.Withdrawing) -> None:
    """An officer withdraws a published release once; nothing of its budget comes back."""
    account = state.account(entry.seq, entry.account)
    if state.published.pop(entry.release, None) != entry.account:
        broken(entry.seq, "withdraws what is not published, or was withdrawn before")
    _is_signed(state, entry, entry.signed, 0)
    leaves_the_sums(account, entry)


def ask_for_evidence(state: LedgerState, entry: entries.InputInquiry) -> None:
    """An officer may ask about any release that the account was charged for."""
    account = state.account(entry.seq, entry.account)
    if entry.of_release not in state.charges:
        broken(entry.seq, "asks about a release that was never charged")
    _is_signed(state, entry, entry.signed, account.evidence)
    leaves_the_sums(account, entry)
    account.evidence += 1


def separate(state: LedgerState, entry: entries.PopulationsDisjoint) -> None:
    """An officer says that two populations are disjoint, or withdraws what stands."""
    pair = (entry.population, entry.other)
    if not state.populations.issuperset(pair):
        broken(entry.seq, "names a population that no account is about")
    last = state.separations.get(pair)
    if entry.kind == "overlapping" and (last is None or last.kind != "disjoint"):
        broken(entry.seq, "withdraws that two populations are disjoint, which nobody said")
    _is_signed(state, entry, entry.signed, 0 if last is None else last.signed.turn + 1)
    state.separations[pair] = entry


def _is_new(state: LedgerState, entry: entries.Enrolment | entries.ReleaseKeyEnrolled) -> None:
    """No key is enrolled twice, nor both for an officer and for releases."""
    if not signing.can_sign(entry.public_key):
        broken(entry.seq, "enrols a key for which anybody can sign")
    known = entry.key in state.keys or entry.key in state.release_keys
    if known or entry.key != signing.key_id(entry.public_key):
        broken(entry.seq, "enrols a key that is known, or under another name")


def _is_guarded(state: LedgerState, account: AccountState) -> bool:
    """Whether what favours the spending of an account needs an officer's signature."""
    return account.terms.asks_officers or state.any_active_key()


def leaves_the_sums(
    account: AccountState,
    entry: entries.Opening
    | entries.Retirement
    | entries.SpecDecision
    | entries.DraftSubmitted
    | entries.Acceptance
    | entries.Withdrawing
    | entries.InputInquiry
    | entries.MoreAttempts,
) -> None:
    """What is no step of a charge repeats the sums of its account."""
    if not account.reads(account.total, entry.account_reserved, entry.account_spent):
        broken(entry.seq, "has a wrong running sum of its account")


def countersigned(
    state: LedgerState,
    entry: entries.Opening
    | entries.Retirement
    | entries.Abandoning
    | entries.MoreAttempts
    | entries.Confirmed,
    turn: int,
    needs_it: str | None,
) -> None:
    """A signature is good if there is one; there must be one if the entry does what needs it."""
    if entry.signed is not None:
        _is_signed(state, entry, entry.signed, turn)
    elif needs_it is not None:
        broken(entry.seq, f"{needs_it} without an officer's signature")


def _is_signed(
    state: LedgerState,
    entry: entries.Event,
    signed: entries.Signature,
    turn: int,
    public_key: str | None = None,
) -> None:
    """The signature is of an enrolled key, or of ``public_key``, and cannot be an old one used again."""
    key, fields = public_key or state.keys.get(signed.by), entry.fields()
    if signed.turn != turn:
        broken(entry.seq, "is signed for another turn")
    if key is None:
        broken(entry.seq, "is signed with a key that is not enrolled")
    if not signing.is_signed(key, signed.signature, state.first, entry.kind, fields):
        broken(entry.seq, "has a signature that is not its key's")
