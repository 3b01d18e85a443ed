"""Rules of the chain: which entry may follow those before it, and what it changes.

A charge takes a step that its state allows, changes what the step may change, repeats the sums it counts in,
and passes no cap. An account is opened, changed and favoured as its terms and its officers allow; what needs
a signature has a good one, which cannot be an old one used again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any

from tabularium.ledger import amounts, composition, events
from tabularium.ledger import keys as signing
from tabularium.ledger.books import AccountState, Books, Measurement, OpenCharge, Review, Sum, fail
from tabularium.ledger.events import FIXED, Abandoning, ChargeStep, InParallel, Remade, Withholding
from tabularium.ledger.records import (
    ATTEMPTS,
    FINAL,
    TRANSITIONS,
    Key,
    ReleaseKey,
    approval_of,
    change,
    draft_of,
    state_after,
)


def take_step(state: Books, entry: ChargeStep) -> str | None:
    """Check one step of a charge against everything before it, then take it.

    Raises
    ------
    ChainBroken
        Naming the entry and the rule that it breaks.
    """
    account = state.account(entry.seq, entry.account)
    needs_it = may_end(state, entry) if isinstance(entry, Abandoning) else None
    if isinstance(entry, Withholding):
        may_withhold(state, entry)
    before = state.charges.get(entry.release_id)
    if before is None and entry.release_id in state.charges:
        fail(entry.seq, "takes a step after the charge's last")
    may_follow(entry, before, None if entry.remade is None else _source(state, entry.remade))
    _is_as_reviewed(state, entry, before)
    amount, sums = add_up(account, entry, before)
    if before is None:
        may_begin(account, entry, sums)
        wants_approval = account.terms.wants_approval(
            product=entry.product, exact=entry.exact, revises=entry.revises
        )
        if wants_approval or _another_is_open(state, entry):
            _require_approved(state, entry, account.terms.approvals_for(entry.product))
    allowed = ATTEMPTS if before is None else before.allowed
    if entry.remade is None and entry.fence > allowed:
        fail(entry.seq, "begins to draw more often than is allowed")
    review = before.review if before is not None else _review_of(state, entry)
    after = state_after(entry.kind)
    review.steps.add(after)
    charge = OpenCharge(
        *(after, entry.fence, entry.measurement_digest, amount, content(entry), entry.product, allowed),
        review=review,
    )
    state.charges[entry.release_id] = None if entry.kind in FINAL else charge
    if entry.kind == "published":
        state.published[entry.release_id] = account.terms.name
        if entry.remade is None:
            state.measurements[entry.release_id] = Measurement(
                entry.account, entry.product, entry.period, entry.fence, entry.measurement_digest
            )
    return needs_it


def _source(state: Books, remade: Remade) -> Measurement | None:
    return state.measurements.get(remade.measurements_of)


def may_follow(entry: ChargeStep, before: OpenCharge | None, source: Measurement | None) -> None:
    """Most fields of a charge never change; each of the others is set by one step alone.

    Parameters
    ----------
    before
        The charge before this step; ``None`` if it begins with this one.
    source
        What a release is made from that has no measurements of its own.
    """
    step = entry.kind
    if (before.state if before else None) not in TRANSITIONS[step]:
        fail(entry.seq, "takes a step that its charge's state does not allow")
    known = before or _unborn(entry, source)
    right = {
        "reserved_at": TRANSITIONS[step] != (None,) or entry.reserved_at == entry.at,
        "fence": entry.fence == known.fence + (step == "drawing"),
        "measurement_digest": entry.measurement_digest is not None
        if step == "measured"
        else entry.measurement_digest == known.measurement,
        "statement": entry.statement is None or step == "published",
        "publication_digest": (entry.publication_digest is not None) == (step == "published"),
        "reason": (entry.reason is not None) == (step in ("voided", "abandoned")),
        "what it is for": content(entry) == known.content,
    }
    if not all(right.values()):
        wrong = ", ".join(name for name, is_right in right.items() if not is_right)
        fail(entry.seq, f"changes what its step may not change: {wrong}")


def _unborn(entry: ChargeStep, source: Measurement | None) -> OpenCharge:
    """Return a charge before its first step: what is remade has the measurement of a published release."""
    if entry.remade is None:
        return OpenCharge("", 0, None, 0, content(entry))
    if source is None or (source.account, source.product, source.period) != (
        *(entry.account, entry.product, entry.period),
    ):
        fail(entry.seq, "is made from measurements of what was not published for its product and period")
    return OpenCharge("", source.fence, source.digest, 0, content(entry))


def add_up(account: AccountState, entry: ChargeStep, before: OpenCharge | None) -> tuple[int, dict[str, Sum]]:
    """Add a step to every sum that its charge counts in, which it must repeat; return its amount and them."""
    amount = account.quanta(entry.seq, entry.amount) if before is None else before.amount
    sums = {
        "account": account.total,
        "period": account.periods[entry.period],
        "product": account.products[entry.product],
    }
    _move(account, entry, sums, change(entry.kind, before.state if before else None, amount))
    _states_its_sums(account, entry, sums)
    return amount, sums


def may_begin(account: AccountState, entry: ChargeStep, sums: dict[str, Sum]) -> None:
    """What costs something begins while its account is open, and passes no cap."""
    if entry.remade is not None:
        return
    if not account.terms.open_on(entry.at[:10]):
        fail(entry.seq, "charges an account that is not open at that time")
    exceeded_cap = account.exceeded_cap(sums)
    if exceeded_cap is not None:
        fail(entry.seq, f"passes the cap of its {exceeded_cap}")


def _review_of(state: Books, entry: ChargeStep) -> Review:
    """Return what its spec's charges share, if they are to be reviewed."""
    if not entry.review:
        return Review()
    specs = state.reviews[entry.account, entry.product, entry.period]
    return specs.setdefault(entry.spec_digest, Review())


def _another_is_open(state: Books, entry: ChargeStep) -> bool:
    specs = state.reviews.get((entry.account, entry.product, entry.period), {})
    return any(review.open for spec, review in specs.items() if spec != entry.spec_digest)


def _is_as_reviewed(state: Books, entry: ChargeStep, before: OpenCharge | None) -> None:
    """What is to be reviewed is published as it was accepted, or withheld by an officer."""
    if before is None or entry.kind == "withheld":
        return
    draft = draft_of(before.reviewed, state.keys)
    if draft is not None:
        if entry.kind != "published" or not draft.accepted:
            fail(entry.seq, "ends a draft without an officer's decision")
        if entry.publication_digest != draft.digest:
            fail(entry.seq, "publishes something else than the draft that was accepted")
    elif entry.review:
        if entry.kind == "published" and entry.publication_digest not in before.review.accepted:
            fail(entry.seq, "publishes what no officer has accepted")
        undecided = [name for name in before.review.drafts if state.charges[name] is not None]
        if entry.kind in ("voided", "abandoned") and undecided:
            fail(entry.seq, "gives up what belongs to a draft")


def _move(account: AccountState, entry: ChargeStep, sums: dict[str, Sum], added: tuple[int, int]) -> None:
    """Add what the step changes of (reserved, spent) to every sum that the charge counts in."""
    parallel = entry.in_parallel
    group, part, fold = None, None, 1
    parts: dict[str, tuple[int, int]] = {}
    if parallel is not None:
        _fits_its_group(account, entry, parallel)
        group, part = parallel.group, parallel.part
        contributions, parts = account.groups[group]
        fold = composition.affected_parts(contributions, account.terms.relation)
    if added == (0, 0):
        return
    for scope, delta in composition.deltas(added, group, part, parts, fold).items():
        if scope == "part" and part is not None:
            reserved, spent = parts.get(part, (0, 0))
            parts[part] = reserved + delta[0], spent + delta[1]
        else:
            sums[scope].add(*delta)


def _fits_its_group(account: AccountState, entry: ChargeStep, parallel: InParallel) -> None:
    """Parts of a group share one period (unless the privacy unit has its own) and one bound."""
    wanted = None if composition.per_period(account.terms.unit) else entry.period
    if composition.period_of(parallel.group) != wanted:
        fail(entry.seq, "composes in parallel over periods")
    contributions, _parts = account.groups.setdefault(parallel.group, (parallel.contributions, {}))
    if parallel.contributions != contributions:
        fail(entry.seq, "has another bound on contributions than its group")


def _states_its_sums(account: AccountState, entry: ChargeStep, sums: dict[str, Sum]) -> None:
    """The entry repeats every sum that its charge counts in, as it is after the step."""
    parallel = entry.in_parallel
    if parallel is not None:
        part = Sum(*account.groups[parallel.group][1][parallel.part])
        if not account.matches(part, parallel.part_reserved, parallel.part_spent):
            fail(entry.seq, "has a wrong running sum of its part")
    for scope, found in sums.items():
        if not account.matches(found, getattr(entry, f"{scope}_reserved"), getattr(entry, f"{scope}_spent")):
            fail(entry.seq, f"has a wrong running sum of its {scope}")


def _require_approved(state: Books, entry: ChargeStep, needed: int) -> None:
    """The spec's last decision approves the amount, and so many officers by keys that are still enrolled.

    Where one officer suffices, it is the one of the last decision.
    """
    last = approval_of(state.decisions.get((entry.account, entry.spec_digest), ()), state.keys)
    fault = "withdrawn" if last is None else last.fault(amounts.from_text(entry.amount), needed)
    if fault == "amount":
        fail(entry.seq, "charges more than was approved for its spec")
    if fault is not None:
        fewer = "fewer officers than must have" if needed > 1 and fault == "signers" else "no officer has"
        fail(entry.seq, f"charges for a spec that {fewer} approved")


#: Where an event has the fields :data:`tabularium.ledger.events.FIXED`, which never change about a charge.
_PLAIN = attrgetter(*(name for name in FIXED if name in ChargeStep.model_fields))
_PARALLEL = attrgetter(*(name for name in FIXED if name in InParallel.model_fields))


def content(entry: ChargeStep) -> tuple[object, ...]:
    """Return what never changes about a charge; its account comes first."""
    parallel = entry.in_parallel
    return (*_PLAIN(entry), entry.remade, *(_PARALLEL(parallel) if parallel else ()))


CHANGEABLE = (
    *("approvals", "approvals_by_product", "approve_exact", "cap", "cap_per_period", "cap_per_product"),
    *("closes_on", "needs_approval", "opens_on"),
)


def open_account(state: Books, entry: events.Opening) -> str | None:
    """An account is opened once; while an officer has a key, with a signature."""
    if entry.account in state.accounts:
        fail(entry.seq, "opens an account that is open")
    state.open(entry.terms)
    return "opens an account" if state.any_active_key() else None


def change_terms(state: Books, entry: events.NewTerms) -> str | None:
    """Caps, dates and the need of approval may change; what loosens them may need a signature."""
    known = state.accounts.get(entry.account)
    if known is not None and known.retired:
        return _open_again(state, entry, known)
    account, after = state.account(entry.seq, entry.account), entry.terms
    before = account.terms
    if after == before or after != replace(before, **{name: getattr(after, name) for name in CHANGEABLE}):
        fail(entry.seq, "changes what its step may not change")
    if before.lowered(after) is not None:
        fail(entry.seq, "lowers how many officers must sign")
    account.set_terms(after)
    if account.exceeded_cap({"account": account.total}):
        fail(entry.seq, "sets a cap below what is used")
    loosens = before.relaxed_terms(after) and (before.asks_officers or state.any_active_key())
    return "loosens an account's terms" if loosens else None


def _open_again(state: Books, entry: events.NewTerms, retired: AccountState) -> str | None:
    """An account that was retired opens on any terms, if no spec was ever approved for it.

    Only of how many officers must sign it asks no fewer.
    """
    if any(name == entry.account for name, _spec in state.decisions):
        fail(entry.seq, "opens an account again for which specs were approved")
    if retired.terms.lowered(entry.terms) is not None:
        fail(entry.seq, "lowers how many officers must sign")
    state.open(entry.terms)
    return "opens an account" if state.any_active_key() else None


def retire_account(state: Books, entry: events.Retirement) -> str | None:
    """An account may be retired while it was never charged; nothing follows but that it opens again."""
    account = state.account(entry.seq, entry.account)
    if account.periods:
        fail(entry.seq, "retires an account that was charged")
    account.retired = True
    return "retires an account" if state.signature_required(account) else None


def may_end(state: Books, entry: events.Abandoning) -> str | None:
    """What is voided gives budget back, what is abandoned may evade a review: either may need a signature."""
    if entry.kind == "abandoned":
        evades = entry.review and entry.measurement_digest is not None
        return "gives up what is to be reviewed" if evades else None
    return "voids a charge" if state.signature_required(state.account(entry.seq, entry.account)) else None


def enrol_key(state: Books, entry: events.Enrolment) -> None:
    """A new key is signed for by an enrolled one; the first, where none is active, by itself."""
    _is_new(state, entry)
    state.keys[entry.key] = Key(entry.key, entry.officer, entry.public_key, entry.at, entry.signed.by)


def enrol_release_key(state: Books, entry: events.ReleaseKeyEnrolled) -> None:
    """A key for releases is no officer's, and is signed for with an officer's."""
    _is_new(state, entry)
    known = ReleaseKey(entry.key, entry.agency, entry.public_key, entry.seq, entry.at)
    state.release_keys[entry.key] = known


def revoke_key(state: Books, entry: events.Revocation) -> None:
    """An enrolled key is revoked by an enrolled officer's, which may be the same."""
    officer, release = state.keys.get(entry.key), state.release_keys.get(entry.key)
    if officer is not None and officer.active:
        state.keys[entry.key] = replace(officer, revoked=entry.seq)
    elif release is not None and release.active:
        state.release_keys[entry.key] = replace(release, revoked=entry.seq)
    else:
        fail(entry.seq, "revokes a key that is not enrolled")


def decide(state: Books, entry: events.SpecDecision) -> None:
    """An officer approves a spec, or takes back an approval that stands."""
    account = state.account(entry.seq, entry.account)
    decisions = state.decisions.setdefault((entry.account, entry.spec_digest), [])
    if entry.kind == "unapproval" and not (decisions and decisions[-1]["kind"] == "approval"):
        fail(entry.seq, "takes back an approval that does not stand")
    if entry.amount is not None:
        account.quanta(entry.seq, entry.amount)
    decisions.append(entry.fields())


def allow_attempts(state: Books, entry: events.MoreAttempts) -> str | None:
    """More attempts are allowed for a release that has used up its own, which may need a signature."""
    account, charge = state.account(entry.seq, entry.account), state.charges.get(entry.release)
    if charge is None or (charge.state, charge.content[0]) != ("drawing", entry.account):
        fail(entry.seq, "allows attempts for what is not being drawn")
    if (charge.fence, charge.fence + ATTEMPTS) != (charge.allowed, entry.allowed):
        fail(entry.seq, "allows attempts before those there were are used up, or more than one may")
    state.charges[entry.release] = replace(charge, allowed=entry.allowed)
    return "allows attempts" if state.signature_required(account) else None


def lay_out(state: Books, entry: events.DraftSubmitted) -> None:
    """A measured release is laid out for review once, with criteria by which it may be withheld."""
    state.account(entry.seq, entry.account)
    charge = state.charges.get(entry.release)
    if charge is None or (charge.state, charge.content[0]) != ("measured", entry.account):
        fail(entry.seq, "lays out a draft of what is not measured")
    if charge.reviewed or not entry.criteria:
        fail(entry.seq, "lays out a draft a second time, or without criteria")
    charge.review.drafts.add(entry.release)
    state.charges[entry.release] = replace(charge, reviewed=(entry.fields(),))


def accept(state: Books, entry: events.Acceptance) -> None:
    """An officer accepts a draft once: the very one that was laid out, by the criteria it came with.

    It is accepted for ever with the signature that makes as many officers as its account asks for then; a key
    that was revoked before that does not count.
    """
    account, charge = state.account(entry.seq, entry.account), state.charges.get(entry.release)
    if charge is None or charge.content[0] != entry.account:
        fail(entry.seq, "accepts what waits for no review")
    draft = draft_of(charge.reviewed, state.keys, account.terms.approvals_for(charge.product))
    if draft is None or draft.accepted:
        fail(entry.seq, "accepts what waits for no review")
    if (draft.digest, draft.criteria) != (entry.draft, tuple(entry.criteria)):
        fail(entry.seq, "accepts another draft than was laid out")
    by = state.keys.get(entry.signed.by)
    if by is not None and by.officer in {each.officer for each in draft.acceptances}:
        fail(entry.seq, "accepts a draft a second time for one officer")
    left = draft.needed - len(draft.acceptances) - 1
    if (left or None) != (entry.still_to_sign and entry.still_to_sign.officers_left):
        fail(entry.seq, "tells another number of officers who are still to accept a draft")
    if not left:
        charge.review.accepted.add(entry.draft)
    state.charges[entry.release] = replace(charge, reviewed=(*charge.reviewed, entry.fields()))


def may_withhold(state: Books, entry: events.Withholding) -> None:
    """An officer withholds a draft that was not accepted, by one of its criteria."""
    charge = state.charges.get(entry.release_id)
    draft = None if charge is None else draft_of(charge.reviewed, state.keys)
    if draft is None or draft.digest != entry.draft or draft.accepted:
        fail(entry.seq, "withholds what waits for no review, or another draft than was laid out")
    if entry.criterion not in draft.criteria:
        fail(entry.seq, "withholds a draft by a criterion that is not one of its own")


def withdraw(state: Books, entry: events.Withdrawing) -> None:
    """An officer withdraws a published release once; nothing of its budget comes back."""
    state.account(entry.seq, entry.account)
    if state.published.pop(entry.release, None) != entry.account:
        fail(entry.seq, "withdraws what is not published, or was withdrawn before")


def ask_for_evidence(state: Books, entry: events.InputInquiry) -> None:
    """An officer may ask about any release that the account was charged for."""
    state.account(entry.seq, entry.account)
    if entry.of_release not in state.charges:
        fail(entry.seq, "asks about a release that was never charged")


def separate(state: Books, entry: events.PopulationsDisjoint) -> None:
    """An officer says that two populations are disjoint, or withdraws what stands."""
    pair = (entry.population, entry.other)
    if not state.populations.issuperset(pair):
        fail(entry.seq, "names a population that no account is about")
    if entry.kind == "overlapping" and pair not in state.disjoint:
        fail(entry.seq, "withdraws that two populations are disjoint, which nobody said")
    if entry.kind == "disjoint":
        state.disjoint.add(pair)
    else:
        state.disjoint.remove(pair)


def put_back(state: Books, _entry: events.LedgerRestored) -> None:
    """A ledger may be put back at any time."""
    state.unconfirmed = True


def confirmed(state: Books, entry: events.Confirmed) -> str | None:
    """A restore is confirmed at once, while an officer has a key with a signature."""
    if not state.unconfirmed or entry.mark != entry.prev:
        fail(entry.seq, "confirms what was not put back")
    state.unconfirmed = False
    return "confirms a restore" if state.any_active_key() else None


def _is_new(state: Books, entry: events.Enrolment | events.ReleaseKeyEnrolled) -> None:
    """No key is enrolled twice, nor both for an officer and for releases."""
    if not signing.can_sign(entry.public_key):
        fail(entry.seq, "enrols a key for which anybody can sign")
    known = entry.key in state.keys or entry.key in state.release_keys
    if known or entry.key != signing.key_id(entry.public_key):
        fail(entry.seq, "enrols a key that is known, or under another name")


def leaves_the_sums(account: AccountState, entry: Any) -> None:
    """What is no step of a charge repeats the sums of its account."""
    if not account.matches(account.total, entry.account_reserved, entry.account_spent):
        fail(entry.seq, "has a wrong running sum of its account")


def _is_signed(state: Books, entry: events.Event, signed: events.Signature, key: str | None) -> None:
    """The signature is of an enrolled ``key``, and cannot be an old one used again."""
    fields = entry.fields()
    if signed.turn != state.turns[entry.about()]:
        fail(entry.seq, "is signed for another turn")
    if key is None:
        fail(entry.seq, "is signed with a key that is not enrolled")
    if not signing.is_signed(key, signed.signature, state.first, entry.kind, fields):
        fail(entry.seq, "has a signature that is not its key's")


#: What judges an entry of each type against the state, and then changes the state. Each returns what of the
#: entry needs an officer's signature, where one is not part of its form anyway.
_RULES: Mapping[type[events.Event], Callable[[Books, Any], str | None]] = {
    events.Opening: open_account,
    events.NewTerms: change_terms,
    events.Retirement: retire_account,
    events.ChargeStep: take_step,
    events.Voiding: take_step,
    events.Abandoning: take_step,
    events.Withholding: take_step,
    events.Enrolment: enrol_key,
    events.ReleaseKeyEnrolled: enrol_release_key,
    events.Revocation: revoke_key,
    events.SpecApproval: decide,
    events.SpecUnapproval: decide,
    events.MoreAttempts: allow_attempts,
    events.DraftSubmitted: lay_out,
    events.Acceptance: accept,
    events.Withdrawing: withdraw,
    events.InputInquiry: ask_for_evidence,
    events.PopulationsDisjoint: separate,
    events.LedgerRestored: put_back,
    events.Confirmed: confirmed,
}


def apply(state: Books, event: Any) -> None:
    """Judge an entry against what those before it imply, then add it to that.

    Raises
    ------
    ChainBroken
        Naming the entry and the rule that it breaks.
    """
    if state.unconfirmed and not isinstance(event, events.Confirmed):
        fail(event.seq, "follows a restore that nobody has confirmed")
    signed: events.Signature | None = getattr(event, "signed", None)
    key = None if signed is None else state.signing_key(event, signed.by)
    is_step = isinstance(event, ChargeStep)  # what an officer signed of a charge is named before its step
    if signed is not None and is_step:
        _is_signed(state, event, signed, key)
    needs_it = _RULES[type(event)](state, event)
    if signed is not None and not is_step:
        _is_signed(state, event, signed, key)
    if signed is None and needs_it is not None:
        fail(event.seq, f"{needs_it} without an officer's signature")
    if event.TURNS:
        state.turns[event.about()] += 1
    if hasattr(event, "account") and not is_step:
        leaves_the_sums(state.accounts[event.account], event)
