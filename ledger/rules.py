"""Rules of the ledger: which entry may follow those before it, and how it changes the sums.

A charge takes a step that its state allows, changes what the step may change, and passes no cap. An account
is opened, changed and favoured as its terms and its officers allow; what needs a signature has a good one,
which cannot be an old one used again.

Each rule stands here once, for who appends and for who reads the chain. It raises
:class:`tabularium.ledger.refusals.RuleBroken`, which has the words for either: the rule, that verification
names with the number of the entry, and the refusal with its hint, for the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NoReturn

from tabularium.ledger import composition, events
from tabularium.ledger import keys as signing
from tabularium.ledger.amounts import parse_amount
from tabularium.ledger.books import AccountState, Books, ChargeState, Measurement, RunningSums
from tabularium.ledger.events import OF_SPECS, ChargeStep, subject
from tabularium.ledger.records import (
    ATTEMPTS,
    NOTHING,
    TRANSITIONS,
    Body,
    Draft,
    Quanta,
    Terms,
    approval_of,
    draft_of,
    usage_delta,
)
from tabularium.ledger.refusals import (
    AccountClosed,
    BadAmount,
    BadValue,
    BudgetExhausted,
    Conflict,
    LedgerError,
    NotApproved,
    RuleBroken,
    WrongState,
    retired_account,
    unknown_account,
    unknown_release,
)
from tabularium.ledger.terms import fewer_officers

CHANGEABLE = (
    *("approvals", "approvals_by_product", "approve_exact", "cap", "cap_per_period", "cap_per_product"),
    *("closes_on", "needs_approval", "opens_on"),
)


@dataclass(frozen=True)
class _NeedsSignature:
    """What of an entry needs an officer's signature: named as ``where``, and signed with ``command``."""

    what: str
    where: str
    command: str


def fail(rule: str, refusal: LedgerError | None = None) -> NoReturn:
    """Refuse an entry; ``rule`` continues the words "entry 7 …"."""
    raise RuleBroken(rule, refusal)


def apply(books: Books, event: events.Event) -> RunningSums:
    """Judge an entry against those before it; return the sums after it, which it must repeat.

    Raises ``RuleBroken``, naming the rule that it breaks.
    """
    if books.unconfirmed and not isinstance(event, events.Confirmed):
        fail("follows a restore that nobody has confirmed")
    if isinstance(event, ChargeStep):
        needs, after = _take_step(books, event)
        _require_signed(books, event, needs)
        return after
    judge = _RULES.get(type(event))
    _require_signed(books, event, None if judge is None else judge(books, event))
    return _as_before(books, event) if hasattr(event, "account") else RunningSums({})


def require_sums(event: Any, after: RunningSums) -> None:
    """Refuse an entry that does not repeat the sums after it."""
    for scope, sums in after.sums.items():
        scoped = event.in_parallel if scope == "part" else event
        stated = getattr(scoped, f"{scope}_reserved"), getattr(scoped, f"{scope}_spent")
        if stated != after.stated(sums):
            fail(f"has a wrong running sum of its {scope}")


def follow(books: Books, event: Any) -> None:
    """Hold an entry about an account against only its step, its caps and its sums.

    It is what a few steps of an index tell; signatures, approvals and reviews are left to :func:`apply`.
    """
    if isinstance(event, ChargeStep):
        account, before = _continued(books, event)
        if before is None and event.remade is None:
            require_open(books, account.terms, event.at)
        require_sums(event, _sums_after(books, account, event, before))
        return
    known = books.account(event.account)
    if event.kind == "account" and known is not None:
        fail("opens an account that is open")
    if event.kind != "account" and not (event.kind == "terms" and known is not None):
        require_account(books, event.account)  # one that was retired opens again by terms
    require_sums(event, _as_before(books, event))


def _as_before(books: Books, event: Any) -> RunningSums:
    """Return the sums that an entry leaves as they are."""
    known = books.account(event.account)
    if known is None:
        return RunningSums({"account": NOTHING})
    return RunningSums({"account": known.total}, known.per_unit)


# Charges


def _take_step(books: Books, entry: ChargeStep) -> tuple[_NeedsSignature | None, RunningSums]:
    account, before = _continued(books, entry)
    where, needs = f"release {entry.release_id}", None
    if isinstance(entry, events.Withholding):
        _may_withhold(books, entry)
    elif entry.kind == "published":
        _require_accepted(books, account, entry)
    elif isinstance(entry, events.Abandoning):
        _require_no_draft(books, entry)
        if entry.kind == "voided" and signature_required(books, account.terms):
            needs = _NeedsSignature("voiding a charge", where, "void")
        elif entry.kind == "abandoned" and entry.review and entry.measurement_digest is not None:
            needs = _NeedsSignature("giving up what is measured and to be reviewed", where, "abandon")
    elif entry.kind == "drawing":
        require_attempt(books, entry.account, entry.release_id, entry.fence - 1)
    elif before is None:
        if entry.remade is None:
            require_open(books, account.terms, entry.at)
        require_approved(
            *(books, account.terms, entry.spec_digest, parse_amount(entry.amount)),
            product=entry.product,
            exact=entry.exact,
            revises=entry.revises,
            unreviewed=another_is_open(
                *(books, entry.account, entry.product, entry.period, entry.spec_digest), review=entry.review
            ),
        )
    return needs, _sums_after(books, account, entry, before)


def _continued(books: Books, entry: ChargeStep) -> tuple[AccountState, ChargeState | None]:
    """Return the account and the charge, whose state and other fields must allow the step.

    Most fields of a charge never change; each of the others is set by one step only.
    """
    account = require_account(books, entry.account)
    before, step = books.charge(entry.release_id), entry.kind
    require_step(before, entry.release_id, step)
    known = before or _before_the_first(books, entry)
    right = {
        "reserved_at": before is not None or entry.reserved_at == entry.at,
        "fence": entry.fence == known.fence + (step == "drawing"),
        "measurement_digest": entry.measurement_digest is not None
        if step == "measured"
        else entry.measurement_digest == known.measurement,
        "statement": entry.statement is None or step == "published",
        "publication_digest": (entry.publication_digest is not None) == (step == "published"),
        "reason": (entry.reason is not None) == (step in ("voided", "abandoned")),
        "what it is for": entry.content() == known.content,
    }
    if not all(right.values()):
        wrong = ", ".join(name for name, is_right in right.items() if not is_right)
        fail(f"changes what its step may not change: {wrong}")
    return account, before


def require_step(charge: ChargeState | None, release: str, step: str) -> None:
    """Refuse a step that the charge's state does not allow."""
    state = None if charge is None else charge.state
    if state in TRANSITIONS[step]:
        return
    hint = {
        "reserved": "begin its drawing, or void it",
        "drawing": "finish it, or abandon it",
        "measured": "publish it, or abandon it; lay it out as a draft before it is withheld",
    }.get(state or "", "nothing can follow")
    fail(
        "takes a step that its charge's state does not allow",
        WrongState(f"is {state} and cannot become {step}", where=f"release {release}", hint=hint),
    )


def _before_the_first(books: Books, entry: ChargeStep) -> ChargeState:
    """Return a charge before its first step: what is remade has the measurement of a published release."""
    if entry.remade is None:
        return ChargeState("", entry.account, content=entry.content())
    source = require_source(books, entry.remade.measurements_of, entry.account, entry.product, entry.period)
    return ChargeState("", entry.account, source.fence, source.digest, entry.content())


def require_source(books: Books, release: str, account: str, product: str, period: str) -> Measurement:
    """Return what was measured for a release, if another one of the account may be made from it."""
    source, where = books.measurement(release), f"release {release}"
    refusal: LedgerError
    if source is None:
        refusal = unknown_release(release)
    elif source.made_from is not None:
        refusal = WrongState(
            "has no measurements of its own: it was itself made from another's",
            where=where,
            hint=f"name that one: {source.made_from}",
        )
    elif (source.account, source.product, source.period) != (account, product, period):
        refusal = WrongState(
            f"is of account {source.account}, product {source.product}, period {source.period}",
            where=where,
            hint="name a release of the same account, product and period: tabularium ledger show",
        )
    elif source.state != "published":
        refusal = WrongState(
            f"is {source.state}, and only what was published is made again from its measurements",
            where=where,
            hint="publish it first" if source.state == "measured" else "publish a revision with a charge",
        )
    else:
        return source
    fail("is made from measurements of what was not published for its product and period", refusal)


def require_open(books: Books, terms: Terms, at: str) -> None:
    """Refuse a charge of an account that is not open at the time ``at``."""
    day = at[:10]
    if terms.open_on(day):
        return
    early = terms.opens_on is not None and day < terms.opens_on
    fail(
        "charges an account that is not open at that time",
        AccountClosed(
            f"takes charges only from {terms.opens_on} on" if early else f"is closed since {terms.closes_on}",
            where=f"account {terms.name}",
            hint=("wait, or " if early else "")
            + "have a disclosure officer change its dates: tabularium ledger change "
            f"{terms.name} --reason …{key_option(books, terms)}",
        ),
    )


def require_approved(
    books: Books,
    terms: Terms,
    spec_digest: str,
    amount: Fraction,
    *,
    product: str | None,
    exact: bool,
    revises: str | None,
    unreviewed: bool = False,
) -> None:
    """Refuse a charge that wants an approval, by ``Terms.wants_approval``, and has none for its spec.

    So does one where another release of the product and period is in review or was withheld: ``unreviewed``.
    As many different officers as the product asks for must have approved the same amount.
    """
    if not (unreviewed or terms.wants_approval(product=product, exact=exact, revises=revises)):
        return
    last = approval_of(books.decisions(terms.name, spec_digest, *OF_SPECS), books.keys)
    needed = terms.approvals_for(product)
    fault = "missing" if last is None else last.fault(amount, terms, product)
    if fault is None:
        return
    signed = 0 if last is None or fault == "missing" else len(last.signed_by(needed))
    what = "no disclosure officer has approved this spec"
    if needed > 1:
        what = f"{signed} of {needed} officers have approved this spec"
    elif fault == "signers":
        what = "the key that approved this spec was revoked"
    if fault == "missing" and revises is not None:
        what += ", which revises a release"
    if fault == "missing" and unreviewed:
        what += "; another one of this product and period was to be reviewed, drawn, and not published"
    if fault == "withdrawn":
        what = "the approval of this spec was taken back"
    if fault == "product" and last is not None:
        what = f"this spec is approved for {last.product or 'no product'}, and is charged for {product}"
    if fault == "amount" and last is not None:
        what = f"this spec is approved for {last.amount} and asks {amount}"
    fewer = "fewer officers than must have" if needed > 1 and fault == "signers" else "no officer has"
    fail(
        "charges more than was approved for its spec"
        if fault == "amount"
        else "charges for another product than its spec was approved for"
        if fault == "product"
        else f"charges for a spec that {fewer} approved",
        NotApproved(
            what,
            where=f"account {terms.name}, spec {spec_digest}",
            hint="let an officer run, with the same --period and --revises:"
            " tabularium ledger approve SPEC --key FILE",
        ),
    )


def another_is_open(
    books: Books, account: str, product: str, period: str, spec_digest: str, *, review: bool = True
) -> bool:
    """Whether another spec of a product and period was to be reviewed, measured, and not published.

    Who may read its draft could choose by it what to publish instead. A charge that is not to be reviewed
    itself (``review``) evades one of its own spec as well.
    """
    specs = books.reviewed(account, product, period)
    return any(reviewed.open for spec, reviewed in specs.items() if spec != spec_digest or not review)


def attempts_allowed(books: Books, account: str, release: str) -> int:
    """Return how often the drawing of a release may begin, as officers have decided last."""
    decisions = books.decisions(account, subject("attempts", release=release), "attempts")
    return int(decisions[-1]["allowed"]) if decisions else ATTEMPTS


def require_attempt(books: Books, account: str, release: str, begun: int) -> None:
    """Refuse to begin drawing more often than three times, unless officers have allowed more.

    If a crash hung on the noise, what is stored in the end would be chosen among as many draws as there were
    attempts.
    """
    if begun < ATTEMPTS or begun < attempts_allowed(books, account, release):
        return
    known = books.account(account)
    fail(
        "begins to draw more often than is allowed",
        NotApproved(
            f"its drawing was cut off {begun} times, and an officer must allow more attempts",
            where=f"release {release}",
            hint="find out what ends the runs, then: tabularium ledger allow-attempts"
            f" {release} --reason …{key_option(books, None if known is None else known.terms)}",
        ),
    )


def _sums_after(
    books: Books, account: AccountState, entry: ChargeStep, before: ChargeState | None
) -> RunningSums:
    """Return the sums after the step, and refuse a new charge that would exceed a cap.

    What a charge in a group costs is in :mod:`tabularium.ledger.composition`.
    """
    amount = account.quanta(entry.amount)
    if amount is None:
        fail("has an amount that is no multiple of its account's quantum")
    added = usage_delta(entry.kind, before.state if before else None, amount)
    scopes = {"period": entry.period, "product": entry.product}
    sums = {scope: books.usage(account, scope, name) for scope, name in scopes.items()}
    sums["account"] = account.total
    inside = in_period = added
    if entry.in_parallel is not None:
        inside = _in_group(books, account, entry, entry.in_parallel, added, sums)
        in_period = added if composition.period_of(entry.in_parallel.group) is None else inside
    more = {"account": inside, "period": in_period, "product": added, "part": added}
    after = {
        scope: (reserved + more[scope][0], spent + more[scope][1])
        for scope, (reserved, spent) in sums.items()
    }
    if before is None and entry.remade is None:
        _require_within_caps(account, {"account": entry.account, **scopes}, sums, after)
    return RunningSums(after, account.per_unit)


def _in_group(
    books: Books,
    account: AccountState,
    entry: ChargeStep,
    parallel: events.InParallel,
    added: Quanta,
    sums: dict[str, Quanta],
) -> Quanta:
    """Return what a step adds to its whole group; parts share one period, unless the unit has its own."""
    if composition.period_of(parallel.group) != (
        None if composition.per_period(account.terms.unit) else entry.period
    ):
        fail("composes in parallel over periods")
    bound, parts = books.group(account, parallel.group) or (parallel.contributions, {})
    if bound != parallel.contributions:
        fail(
            "has another bound on contributions than its group",
            Conflict(
                f"its assignment is in the ledger with {bound} contributions",
                where=f"release {entry.release_id}",
                hint="give the same bound, or the digest of another assignment",
            ),
        )
    sums["part"] = parts.get(parallel.part, NOTHING)
    if added == NOTHING:
        return NOTHING
    fold = composition.affected_parts(bound, account.terms.relation)
    return composition.group_change(parts, parallel.part, added, fold)


def _require_within_caps(
    account: AccountState, names: Mapping[str, str], before: Mapping[str, Quanta], after: Mapping[str, Quanta]
) -> None:
    for scope, cap in account.caps.items():
        used = sum(after[scope])
        if used > cap:
            asked, left = (
                Fraction(count, account.per_unit)
                for count in (used - sum(before[scope]), max(cap - sum(before[scope]), 0))
            )
            inside = "" if scope == "account" else f", {scope} {names[scope]}"
            fail(
                f"passes the cap of its {scope}",
                BudgetExhausted(
                    f"budget exhausted: {asked} was asked and {left} is left",
                    where=f"account {names['account']}{inside}",
                    hint="ask for less, or have a disclosure officer raise the cap",
                ),
            )


def require_charge(books: Books, release: str) -> ChargeState:
    """Return a charge, or refuse what is about one that was never reserved."""
    charge = books.charge(release)
    if charge is None:
        fail("is about a release that was never charged", unknown_release(release))
    return charge


def _of_account(books: Books, account: str, release: str) -> ChargeState:
    """Return a charge that must be the account's."""
    require_account(books, account)
    charge = require_charge(books, release)
    if charge.account != account:
        fail("is about a release that is not its account's")
    return charge


def _inquire(books: Books, entry: events.InputInquiry) -> None:
    """An officer may ask about any release that there is."""
    require_account(books, entry.account)
    require_charge(books, entry.of_release)


# Reviews

_OFFICER_DECIDES = "let one run: tabularium ledger accept RELEASE --key FILE, or tabularium ledger withhold"


def _drafted(books: Books, account: str, release: str) -> Sequence[Body]:
    return books.decisions(account, subject("drafted", release=release), "drafted", "acceptance")


def _draft(books: Books, account: str, product: str, release: str) -> Draft | None:
    drafted, known = _drafted(books, account, release), books.account(account)
    if not drafted or known is None:
        return None
    return draft_of(drafted, books.keys, known.terms.approvals_for(product))


def _require_accepted(books: Books, account: AccountState, entry: ChargeStep) -> None:
    """Refuse to publish what is to be reviewed otherwise than as an officer has accepted it."""
    own_draft = _draft(books, entry.account, entry.product, entry.release_id)
    if own_draft is None and not entry.review:
        return
    drafts = [own_draft] if own_draft is not None else _of_its_spec(books, entry)
    accepted = {draft.digest for draft in drafts if draft.accepted}
    where = f"release {entry.release_id}"
    if not accepted:
        decides = "an officer decides"
        if drafts and drafts[0].needed > 1:
            decides = f"{drafts[0].needed} officers accept it; {drafts[0].signed} have"
        laid_out = "is laid out as a draft" if drafts else "is to be reviewed"
        fail(
            "publishes what no officer has accepted"
            if own_draft is None
            else "ends a draft without an officer's decision",
            WrongState(
                f"{laid_out}, and cannot become published unless {decides}",
                where=where,
                hint=_OFFICER_DECIDES if drafts else "run it again, which lays it out as a draft",
            ),
        )
    if entry.publication_digest not in accepted:
        fail(
            "publishes something else than the draft that was accepted",
            Conflict(
                "is not the draft that was accepted",
                where=where,
                hint="publish the draft as it was laid out: tabularium ledger accept "
                f"{entry.release_id} --key FILE",
            ),
        )


def _of_its_spec(books: Books, entry: ChargeStep) -> list[Draft]:
    """Return the drafts of the charges of a charge's own spec."""
    specs = books.reviewed(entry.account, entry.product, entry.period)
    releases = specs[entry.spec_digest].releases if entry.spec_digest in specs else ()
    drafts = (_draft(books, entry.account, entry.product, name) for name in sorted(releases))
    return [draft for draft in drafts if draft is not None]


def _require_no_draft(books: Books, entry: ChargeStep) -> None:
    """Refuse to end otherwise what belongs to a draft that waits for an officer, or was accepted."""
    waits = [bool(_drafted(books, entry.account, entry.release_id))]
    if entry.review:
        for draft in _of_its_spec(books, entry):
            charge = books.charge(draft.release_id)
            waits.append(charge is not None and charge.state == "measured")
    if any(waits):
        fail(
            "ends a draft without an officer's decision",
            WrongState(
                f"is laid out as a draft, and cannot become {entry.kind} unless an officer decides",
                where=f"release {entry.release_id}",
                hint=_OFFICER_DECIDES,
            ),
        )


def require_draft(books: Books, charge: ChargeState, release: str, digest: str) -> Draft:
    """Return the draft of a release, which must be the one of that digest."""
    draft = _draft(books, charge.account, charge.product, release)
    if draft is None:
        fail(
            "decides on what waits for no review",
            WrongState(
                f"is {charge.state}, and waits for no review",
                where=f"release {release}",
                hint="its spec must ask for one: publication.review",
            ),
        )
    require_same_draft(draft, digest)
    return draft


def require_same_draft(draft: Draft, digest: str) -> None:
    """Refuse another draft than the one that was laid out."""
    if draft.digest != digest:
        fail(
            "is about another draft than was laid out",
            Conflict(
                "another draft of it was laid out for review",
                where=f"release {draft.release_id}",
                hint="put the draft back as it was laid out, or withhold it",
            ),
        )


def _submit_draft(books: Books, entry: events.DraftSubmitted) -> None:
    """What is measured is laid out for review once."""
    charge = _of_account(books, entry.account, entry.release)
    if charge.state != "measured":
        fail(
            "lays out a draft of what is not measured",
            WrongState(
                f"is {charge.state}, and only what is measured is laid out for review",
                where=f"release {entry.release}",
                hint="see: tabularium ledger show",
            ),
        )
    if _drafted(books, entry.account, entry.release) or not entry.criteria:
        fail("lays out a draft a second time, or without criteria")


def _accept(books: Books, entry: events.Acceptance) -> None:
    """An officer accepts a draft once: the very one that was laid out, by the criteria it came with.

    It is accepted for ever with the signature that makes as many officers as its account asks for then; a key
    that was revoked before that does not count.
    """
    charge = _of_account(books, entry.account, entry.release)
    draft = require_draft(books, charge, entry.release, entry.draft)
    require_step(charge, entry.release, "published")
    if draft.criteria != tuple(entry.criteria):
        fail("is about another draft than was laid out")
    by = books.keys.get(entry.signed.by)
    if draft.accepted:
        fail("decides on what waits for no review")
    if by is not None and by.officer in {acceptance.officer for acceptance in draft.acceptances}:
        fail("accepts a draft a second time for one officer")
    left = draft.needed - len(draft.acceptances) - 1
    if (left or None) != (entry.still_to_sign and entry.still_to_sign.officers_left):
        fail("tells another number of officers who are still to accept a draft")


def _may_withhold(books: Books, entry: events.Withholding) -> None:
    """An officer withholds a draft that was not accepted, by one of its criteria."""
    charge = require_charge(books, entry.release_id)
    draft = require_draft(books, charge, entry.release_id, entry.draft)
    if draft.accepted:  # until then a single officer may withhold it
        fail(
            "withholds a draft that was accepted",
            WrongState(
                "was accepted, which is not taken back",
                where=f"release {entry.release_id}",
                hint=f"publish it: tabularium ledger accept {entry.release_id} --key FILE, or run it again",
            ),
        )
    if entry.criterion not in draft.criteria:
        fail(
            "withholds a draft by a criterion that is not one of its own",
            BadValue(
                "is not among " + ", ".join(draft.criteria), where="criterion", hint="choose one of them"
            ),
        )


def _withdraw(books: Books, entry: events.Withdrawing) -> None:
    """An officer withdraws a published release once; nothing of its budget comes back."""
    charge = _of_account(books, entry.account, entry.release)
    if charge.state != "published":
        fail(
            "withdraws what is not published",
            WrongState(
                f"is {charge.state}, and only what is published is withdrawn",
                where=f"release {entry.release}",
                hint="see: tabularium ledger show",
            ),
        )
    if books.decisions(entry.account, subject("withdrawn", release=entry.release), "withdrawn"):
        fail("withdraws what was withdrawn before")


# Accounts


def require_account(books: Books, name: str) -> AccountState:
    """Return an account about which entries may follow: it was opened, and not retired."""
    account = books.account(name)
    if account is None:
        fail("names an account that was never opened", unknown_account(name))
    if account.retired:
        fail(
            "names an account that was retired, which nothing may follow",
            retired_account(name, key_option(books)),
        )
    return account


def _open_account(books: Books, entry: events.Opening) -> _NeedsSignature | None:
    """An account is opened once; while an officer has a key, with a signature."""
    if books.account(entry.account) is not None:
        fail("opens an account that is open")
    return _opening(books, entry.account)


def _opening(books: Books, name: str) -> _NeedsSignature | None:
    if not signature_required(books):
        return None
    return _NeedsSignature("opening an account", f"account {name}", "open")


def _change_terms(books: Books, entry: events.NewTerms) -> _NeedsSignature | None:
    """Caps, dates and the need of approval may change; what loosens them may need a signature.

    An account that was retired opens again on any terms, if no spec was ever approved for it. How many
    officers must sign is never lowered: one of them could then undo the rule.
    """
    account, after = books.account(entry.account), entry.terms
    if account is None or not account.retired:
        account = require_account(books, entry.account)
    before, where = account.terms, f"account {entry.account}"
    if account.retired and books.was_decided(entry.account):
        fail(
            "opens an account again for which specs were approved",
            Conflict(
                "is retired, and specs were approved for it, so that its name is not used again",
                where=where,
                hint="open an account under another name",
            ),
        )
    lowered = before.lowered(after)
    if lowered is not None:
        fail("lowers how many officers must sign", fewer_officers(lowered))
    if account.retired:
        return _opening(books, entry.account)
    if after == before or after != replace(before, **{name: getattr(after, name) for name in CHANGEABLE}):
        fail("changes what its step may not change")
    used = Fraction(sum(account.total), account.per_unit)
    if after.cap < used:
        fail(
            "sets a cap below what is used",
            BadAmount(
                f"is below the {used} that is reserved and spent",
                where="cap",
                hint="give at least that much, or close the account",
            ),
        )
    relaxed = before.relaxed_terms(after)
    if relaxed and signature_required(books, before):
        return _NeedsSignature(f"loosening {', '.join(relaxed)}", where, "change")
    return None


def _retire_account(books: Books, entry: events.Retirement) -> _NeedsSignature | None:
    """An account may be retired while it was never charged; nothing follows but that it opens again."""
    account, where = require_account(books, entry.account), f"account {entry.account}"
    if books.was_charged(entry.account):
        fail(
            "retires an account that was charged",
            Conflict(
                "was charged, and only an account that never was can be retired",
                where=where,
                hint=f"close it: tabularium ledger close {entry.account} --reason …",
            ),
        )
    if not signature_required(books, account.terms):
        return None
    return _NeedsSignature("retiring an account", where, "retire")


# Officers' decisions


def any_active_key(books: Books) -> bool:
    """Whether any officer has a key."""
    return any(key.active for key in books.keys.values())


def signature_required(books: Books, terms: Terms | None = None) -> bool:
    """Whether what favours the spending of an account, or opens one, needs an officer's signature."""
    return (terms is not None and terms.asks_officers) or any_active_key(books)


def key_option(books: Books, terms: Terms | None = None) -> str:
    """Return what a hint adds to a command that favours the spending of an account, or opens one."""
    return " --key FILE" if signature_required(books, terms) else ""


def require_active(books: Books, key: str) -> None:
    """Refuse a key that is not enrolled."""
    known = books.keys.get(key)
    if known is None or not known.active:
        fail(
            "is signed with a key that is not enrolled",
            NotApproved(
                "is not enrolled, or was revoked",
                where=f"key {key}",
                hint="sign with an enrolled key (tabularium ledger keys lists them), or enrol it: "
                "tabularium ledger keys enrol",
            ),
        )


def _require_signed(books: Books, event: events.Event, needs: _NeedsSignature | None) -> None:
    """Refuse an entry without the signature that it needs, or with one that is old or not its key's.

    The first key, and one that is enrolled while none is active, signs for itself.
    """
    signed: events.Signature | None = getattr(event, "signed", None)
    if signed is None:
        if needs is not None:
            fail(
                f"lacks an officer's signature, which {needs.what} needs",
                NotApproved(
                    f"{needs.what} needs an officer's signature",
                    where=needs.where,
                    hint=f"sign it with an enrolled key: tabularium ledger {needs.command} … --key FILE",
                ),
            )
        return
    fields = event.fields()
    if signed.turn != books.turn(event.kind, fields):
        fail("is signed for another turn")
    if isinstance(event, events.Enrolment) and event.key == signed.by and not any_active_key(books):
        public_key = event.public_key
    else:
        require_active(books, signed.by)
        public_key = books.keys[signed.by].public_key
    if not signing.is_signed(public_key, signed.signature, books.first, event.kind, fields):
        fail("has a signature that is not its key's")


def _enrol(books: Books, entry: events.Enrolment | events.ReleaseKeyEnrolled) -> None:
    """A new key is enrolled, of an officer or for releases; no key is ever both, or enrolled twice."""
    if not signing.can_sign(entry.public_key) or entry.key != signing.key_id(entry.public_key):
        fail("enrols a key for which anybody can sign, or under another name")
    is_officers = entry.key in books.keys or (entry.kind == "release_key" and entry.key == entry.signed.by)
    if not is_officers and entry.key not in books.release_keys:
        return
    what, hint = "was enrolled before", "make a new key"
    if is_officers and entry.kind == "release_key":
        what = "is an officer's, so it can never sign releases"
        hint = "make a key of the agency's own: tabularium ledger release-key new"
    elif not is_officers and entry.kind == "key":
        what = "signs releases, so it can never be an officer's"
    fail("enrols a key that is known", Conflict(what, where=f"key {entry.key}", hint=hint))


def _revoke(books: Books, entry: events.Revocation) -> None:
    """An enrolled key is revoked by an enrolled officer's, which may be the same."""
    known = books.keys.get(entry.key) or books.release_keys.get(entry.key)
    if known is None or not known.active:
        fail("revokes a key that is not enrolled")


def _decide(books: Books, entry: events.SpecApproval | events.SpecUnapproval) -> None:
    """An officer approves a spec, or takes back an approval that stands."""
    account = require_account(books, entry.account)
    decisions = books.decisions(entry.account, entry.spec_digest, *OF_SPECS)
    if entry.kind == "unapproval" and not (decisions and decisions[-1]["kind"] == "approval"):
        fail(
            "takes back an approval that does not stand",
            NotApproved(
                "is not approved", where=f"spec {entry.spec_digest}", hint="there is nothing to take back"
            ),
        )
    if entry.amount is not None and account.quanta(entry.amount) is None:
        fail("has an amount that is no multiple of its account's quantum")
    if entry.kind == "approval" and entry.for_product is None and account.terms.approvals_by_product:
        fail(
            "approves a spec of no product where products ask for different numbers of officers",
            BadValue(
                f"is needed: account {entry.account} asks for more officers for some products",
                where="product",
                hint="name the spec's product: --product NAME",
            ),
        )


def _allow_attempts(books: Books, entry: events.MoreAttempts) -> _NeedsSignature | None:
    """More attempts are allowed for a release that has used up its own, which may need a signature."""
    account = require_account(books, entry.account)
    charge = _of_account(books, entry.account, entry.release)
    where = f"release {entry.release}"
    if charge.state != "drawing":
        fail(
            "allows attempts for what is not being drawn",
            WrongState(
                "is not being drawn",
                where=where,
                hint="there is nothing to allow; run it, or see: tabularium ledger show",
            ),
        )
    if (charge.fence, charge.fence + ATTEMPTS) != (
        *(attempts_allowed(books, entry.account, entry.release), entry.allowed),
    ):
        fail("allows attempts before those there were are used up, or more than one may")
    if not signature_required(books, account.terms):
        return None
    return _NeedsSignature("allowing more attempts", where, "allow-attempts")


def _declare_disjoint(books: Books, entry: events.PopulationsDisjoint) -> None:
    """An officer says that two populations are disjoint, or withdraws what stands."""
    for name in (entry.population, entry.other):
        if name not in books.populations:
            fail(
                "names a population that no account is about",
                BadValue(
                    "no account is about this population",
                    where=f"population {name}",
                    hint="see: tabularium ledger show",
                ),
            )
    if entry.kind == "overlapping" and (entry.population, entry.other) not in books.disjoint:
        fail(
            "withdraws that two populations are disjoint, which nobody declared",
            Conflict(
                "nobody declared that they are disjoint",
                where=f"populations {entry.population} and {entry.other}",
                hint="nothing is to be done",
            ),
        )


def _confirm(books: Books, entry: events.Confirmed) -> _NeedsSignature | None:
    """A restore is confirmed at once, while an officer has a key with a signature."""
    if not books.unconfirmed or entry.mark != entry.prev:
        fail("confirms what was not put back")
    if not signature_required(books):
        return None
    return _NeedsSignature("confirming that this head is the newest", "ledger", "confirm")


#: What judges an entry that is no step of a charge; it returns what of it needs an officer's signature.
_RULES: Mapping[type[events.Event], Callable[[Books, Any], _NeedsSignature | None]] = {
    events.Opening: _open_account,
    events.NewTerms: _change_terms,
    events.Retirement: _retire_account,
    events.Enrolment: _enrol,
    events.ReleaseKeyEnrolled: _enrol,
    events.Revocation: _revoke,
    events.SpecApproval: _decide,
    events.SpecUnapproval: _decide,
    events.MoreAttempts: _allow_attempts,
    events.DraftSubmitted: _submit_draft,
    events.Acceptance: _accept,
    events.Withdrawing: _withdraw,
    events.InputInquiry: _inquire,
    events.PopulationsDisjoint: _declare_disjoint,
    events.Confirmed: _confirm,
}
