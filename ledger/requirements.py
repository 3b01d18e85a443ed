"""What a charge must meet to be taken, and what it costs: the rules of who writes, each in one function.

A refusal says what is wrong and what to do; :mod:`tabularium.ledger.rules` judges what stands in the chain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import ceil
from typing import Literal

from sqlalchemy import Connection

from tabularium.ledger import amounts, composition, names
from tabularium.ledger.books import Review
from tabularium.ledger.records import (
    ATTEMPTS,
    SYMBOLS,
    TRANSITIONS,
    Account,
    Charge,
    Draft,
    Sums,
    Terms,
    change,
)
from tabularium.ledger.refusals import (
    AccountClosed,
    BudgetExhausted,
    Conflict,
    NotApproved,
    PriorUnavailable,
    StaleFence,
    UnitMismatch,
    WrongState,
    retired_account,
    unknown_account,
    unknown_release,
)
from tabularium.ledger.storage import queries
from tabularium.ledger.verify import require_continued
from tabularium.mechanisms.accounting import PrivacyLoss


def sums_after(
    connection: Connection, charge: Charge, step: str, stands: queries.ScopeUsage
) -> dict[str, Sums]:
    """Return what will be reserved and spent in each scope once ``charge`` has taken ``step``."""
    if stands.terms is None:
        raise unknown_account(charge.account)
    sums, parts, fold = dict(stands.sums), {}, 1
    if charge.group is not None:
        known = queries.parts(connection, charge.account, charge.group)
        sums["part"] = known.get(charge.part or "", Sums())
        parts = {name: (part.reserved, part.spent) for name, part in known.items()}
        fold = composition.affected_parts(charge.contributions or 1, stands.terms.relation)
    added = change(step, charge.state or None, charge.amount)
    found = composition.deltas(added, charge.group, charge.part, parts, fold)
    return {scope: sums[scope].plus(delta) for scope, delta in found.items()}


def require_open(connection: Connection, terms: Terms, at: str) -> None:
    """Refuse a charge of an account that is not open at the time ``at``."""
    day = at[:10]
    if terms.open_on(day):
        return
    early = terms.opens_on is not None and day < terms.opens_on
    raise AccountClosed(
        f"takes charges only from {terms.opens_on} on" if early else f"is closed since {terms.closes_on}",
        where=f"account {terms.name}",
        hint=("wait, or " if early else "")
        + "have a disclosure officer change its dates: tabularium ledger change "
        f"{terms.name} --reason …{key_option(connection, terms)}",
    )


def require_approved(
    connection: Connection,
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
    last = queries.approval(connection, terms.name, spec_digest)
    needed = terms.approvals_for(product)
    what = "no disclosure officer has approved this spec"
    if needed > 1:
        what = f"0 of {needed} officers have approved this spec"
    if revises is not None:
        what += ", which revises a release"
    if unreviewed:
        what += "; another one of this product and period was to be reviewed, drawn, and not published"
    if last is not None:
        fault = last.fault(amount, needed)
        if fault is None:
            return
        if fault == "withdrawn":
            what = "the approval of this spec was taken back"
        elif fault == "amount":
            what = f"this spec is approved for {last.amount} and asks {amount}"
        elif needed > 1:
            what = f"{len(last.signed_by(needed))} of {needed} officers have approved this spec"
        else:
            what = "the key that approved this spec was revoked"
    raise NotApproved(
        what,
        where=f"account {terms.name}, spec {spec_digest}",
        hint="let an officer run, with the same --period and --revises:"
        " tabularium ledger approve SPEC --key FILE",
    )


def require_within_caps(
    terms: Terms, charge: Charge, before: dict[str, Sums], after: dict[str, Sums]
) -> None:
    """Refuse a charge that would pass the cap of its account, period or product."""
    for scope, cap in terms.caps.items():
        if after[scope].used > cap:
            left = max(cap - before[scope].used, Fraction(0))
            inside = "" if scope == "account" else f", {scope} {getattr(charge, scope)}"
            raise BudgetExhausted(
                f"budget exhausted: {after[scope].used - before[scope].used} was asked and {left} is left",
                where=f"account {charge.account}{inside}",
                hint="ask for less, or have a disclosure officer raise the cap",
            )


def require_allowed(charge: Charge, step: str) -> None:
    """Refuse a step that the charge's state does not allow."""
    if charge.state not in TRANSITIONS[step]:
        hint = {
            "reserved": "begin its drawing, or void it",
            "drawing": "finish it, or abandon it",
            "measured": "publish it, or abandon it; lay it out as a draft before it is withheld",
        }.get(charge.state, "nothing can follow")
        raise WrongState(
            f"is {charge.state} and cannot become {step}", where=f"release {charge.release_id}", hint=hint
        )


def attempts_used_up(connection: Connection, charge: Charge) -> bool:
    """Whether drawing began as often as it may, of a release that is being drawn."""
    return charge.fence >= ATTEMPTS and charge.fence >= queries.attempts_allowed(connection, charge)


def _key_option(connection: Connection, charge: Charge) -> str:
    account = queries.account(connection, charge.account)
    return "" if account is None else key_option(connection, account.terms)


def require_attempt(connection: Connection, charge: Charge) -> None:
    """Refuse to begin drawing more often than three times, unless officers have allowed more.

    If a crash hung on the noise, what is stored in the end would be chosen among as many draws as there were
    attempts.
    """
    if attempts_used_up(connection, charge):
        raise NotApproved(
            f"its drawing was cut off {charge.fence} times, and an officer must allow more attempts",
            where=f"release {charge.release_id}",
            hint="find out what ends the runs, then: tabularium ledger allow-attempts"
            f" {charge.release_id} --reason …{_key_option(connection, charge)}",
        )


def require_offered(connection: Connection, priors: Mapping[str, str], charge: Charge | None) -> None:
    """Refuse to draw towards an earlier release that is not published as it is named, or was withdrawn.

    What began to be drawn is spent, so that refusing it would help nobody.

    Parameters
    ----------
    priors
        Release id -> SHA-256 of its certificate.
    charge
        Of the release that is to be drawn; ``None`` while there is none.
    """
    if charge is not None and charge.state != "reserved":
        return
    for release, certificate in priors.items():
        found = queries.charge(connection, release)
        if found is None or (found.state, found.publication_digest) != ("published", certificate):
            what = "the ledger has not published a release of this certificate"
            hint = "name a release that this ledger published, its folder as it was"
        elif (gone := queries.withdrawal(connection, found)) is not None:
            what = f"this release was withdrawn on {gone.at[:10]}: {gone.reason}"
            hint = "name the release that stands for it now, or remove prior"
        else:
            continue
        left = (
            "nothing was charged"
            if charge is None
            else "no noise was drawn, and the budget is given back by: tabularium ledger void "
            f"{charge.release_id} --reason …{_key_option(connection, charge)}"
        )
        raise PriorUnavailable(what, where=f"prior {release}", hint=f"{hint}; {left}")


def require_one_bound(connection: Connection, charge: Charge) -> None:
    """Refuse another bound on how many parts a unit is in than the one that its assignment has already."""
    if charge.group is None:
        return
    bound = queries.group_bound(connection, charge.account, charge.group)
    if bound is not None and bound != charge.contributions:
        raise Conflict(
            f"its assignment is in the ledger with {bound} contributions",
            where=f"release {charge.release_id}",
            hint="give the same bound, or the digest of another assignment",
        )


_DECIDE = "let one run: tabularium ledger accept RELEASE --key FILE, or tabularium ledger withhold"


def another_is_open(
    connection: Connection, account: str, product: str, period: str, spec_digest: str
) -> bool:
    """Whether another spec of a product and period was to be reviewed, measured, and not published.

    Who may read its draft could choose by it what to publish instead.
    """
    specs: defaultdict[str, Review] = defaultdict(Review)
    for step in queries.reviewed_steps(connection, account, product, period):
        specs[step.spec_digest].steps.add(step.state)
    return any(review.open for spec, review in specs.items() if spec != spec_digest)


def require_published_as_accepted(connection: Connection, charge: Charge, digest: str) -> None:
    """Refuse to publish what is to be reviewed otherwise than as an officer has accepted it."""
    own = queries.draft(connection, charge)
    if own is None and not charge.review:
        return
    drafts = [own] if own is not None else [draft for _, draft in _of_its_spec(connection, charge)]
    accepted = {draft.digest for draft in drafts if draft.accepted}
    where = f"release {charge.release_id}"
    if not accepted:
        laid_out = "is laid out as a draft" if drafts else "is to be reviewed"
        decides = "an officer decides"
        if drafts and drafts[0].needed > 1:
            decides = f"{drafts[0].needed} officers accept it; {drafts[0].signed} have"
        raise WrongState(
            f"{laid_out}, and cannot become published unless {decides}",
            where=where,
            hint=_DECIDE if drafts else "run it again, which lays it out as a draft",
        )
    if digest not in accepted:
        raise Conflict(
            "is not the draft that was accepted",
            where=where,
            hint="publish the draft as it was laid out: tabularium ledger accept "
            f"{charge.release_id} --key FILE",
        )


def require_no_draft(connection: Connection, charge: Charge, step: str) -> None:
    """Refuse to end otherwise what belongs to a draft that waits for an officer, or was accepted."""
    own = queries.draft(connection, charge)
    others = _of_its_spec(connection, charge) if charge.review else ()
    if own is not None or any(not each.final for each, _ in others):
        raise WrongState(
            f"is laid out as a draft, and cannot become {step} unless an officer decides",
            where=f"release {charge.release_id}",
            hint=_DECIDE,
        )


def _of_its_spec(connection: Connection, charge: Charge) -> Iterator[tuple[Charge, Draft]]:
    """Go through the charges of a charge's own spec that were laid out, each as it stands."""
    steps = queries.reviewed_steps(connection, charge.account, charge.product, charge.period)
    newest: dict[str, Charge] = {}
    for step in steps:
        if step.spec_digest == charge.spec_digest and newest.get(step.release_id, step).seq <= step.seq:
            newest[step.release_id] = step
    for each in newest.values():
        draft = queries.draft(connection, each)
        if draft is not None:
            yield each, draft


def require_same_units(
    terms: Terms,
    amount: Fraction,
    unit: str | None,
    relation: str | None,
    definition: str | None,
    population: str | None = None,
) -> None:
    """Refuse a charge whose unit, relation … (``None``: the account's) is not the account's.

    What is suggested instead: an ε-DP release is ε²/2-zCDP (Bun and Steinke 2016, Proposition 1.4), and no ρ
    is any pure ε. What protects against adding or removing a unit at ε protects against replacing one at 2ε
    (4ρ under zCDP), and not the other way: under ``replace`` the number of units is public. What protects one
    record at ε protects a unit of at most c records at cε (c²ρ); the ledger does not know c.

    Raises
    ------
    UnitMismatch
        Naming what differs, and the conversion that would make the charge fit.
    """
    asked = {"unit": unit, "relation": relation, "definition": definition, "population": population}
    there = {name: getattr(terms, name) for name in asked}
    differing = [name for name, value in asked.items() if value is not None and value != there[name]]
    if not differing:
        return
    what = ", ".join(
        f"the charge's {name} is {asked[name]}, the account's {there[name]}" for name in differing
    )
    raise UnitMismatch(what, where=f"account {terms.name}", hint=_conversion(terms, amount, asked, differing))


def _conversion(terms: Terms, amount: Fraction, asked: dict[str, str | None], differing: list[str]) -> str:
    if "population" in differing:
        return "what one population loses is no charge for another: charge an account of that population"
    if "definition" in differing and terms.definition == "pure":
        return "no ρ implies a pure ε: charge an account with definition zcdp, or release under pure ε"
    if "relation" in differing and terms.relation == "add-remove":
        return (
            "protection under replace implies none under add-remove: charge an account with relation replace,"
            " or release under add-remove"
        )
    own: Literal["pure", "zcdp"] = "zcdp" if (asked["definition"] or terms.definition) == "zcdp" else "pure"
    loss = PrivacyLoss(amount, own)
    if "relation" in differing:
        loss = loss.for_unit(2)
    if "definition" in differing:
        loss = loss.as_zcdp()
    rounded = ceil(loss.amount / terms.quantum) * terms.quantum
    charge = f"{SYMBOLS[terms.definition]} = {amounts.short(rounded)}"
    if "unit" in differing:
        times = "c²" if terms.definition == "zcdp" else "c"
        return (
            f"charge {times} times {charge}, where one {terms.unit} has at most c of the unit {asked['unit']}"
            f", or open an account with unit {asked['unit']}"
        )
    return f"charge {charge}, which is what it implies here"


def get_account(connection: Connection, name: str) -> Account:
    """Return an account as it stands, or raise ``UnknownAccount``."""
    found = queries.account(connection, names.line(name, field="account"))
    if found is None:
        raise unknown_account(name)
    require_continued(connection, queries.last_of_account(connection, name))
    return found


def get_open_account(connection: Connection, name: str) -> Account:
    """Return an account about which entries may follow, or raise ``UnknownAccount`` or ``Conflict``."""
    found = get_account(connection, name)
    if found.retired:
        raise retired_account(found.name, key_option(connection))
    return found


def known_charge(connection: Connection, release_id: str) -> Charge:
    """Return a charge, or raise ``UnknownRelease``."""
    charge = queries.charge(connection, names.release_id(release_id))
    if charge is None:
        raise unknown_release(release_id)
    return charge


def current_charge(connection: Connection, release_id: str, fence: int) -> Charge:
    """Return the charge if ``fence`` is its current one."""
    charge = known_charge(connection, release_id)
    if names.fence(fence) < charge.fence:
        raise stale(charge)
    if fence > charge.fence:
        raise Conflict("this fence was never given", where=f"release {release_id}", hint="call drawing()")
    return charge


def stale(charge: Charge) -> StaleFence:
    """Return the refusal of a fence that is not the charge's last."""
    return StaleFence(
        "another attempt has taken over; nothing was written",
        where=f"release {charge.release_id}",
        hint="leave it to that attempt, or run again",
    )


def signature_required(connection: Connection, terms: Terms | None = None) -> bool:
    """Whether what favours the spending of an account, or opens one, needs an officer's signature."""
    return (terms is not None and terms.asks_officers) or queries.any_active(connection)


def key_option(connection: Connection, terms: Terms | None = None) -> str:
    """Return what a hint adds to a command that favours the spending of an account, or opens one."""
    return " --key FILE" if signature_required(connection, terms) else ""


def require_active(connection: Connection, key: str) -> None:
    """Refuse a key that is not enrolled."""
    if not queries.is_active(connection, key):
        raise NotApproved(
            "is not enrolled, or was revoked",
            where=f"key {key}",
            hint="sign with an enrolled key (tabularium ledger keys lists them), or enrol it: "
            "tabularium ledger keys enrol",
        )


def require_active_release_key(connection: Connection, key: str) -> None:
    """Refuse a key for releases with which nothing may be published any more."""
    known = queries.release_keys(connection).get(key)
    if known is None or not known.active:
        raise NotApproved(
            "the key for releases that signed it was revoked meanwhile",
            where=f"key {key}",
            hint="run again: it is signed anew, with a key that is enrolled; its noise and its charge stay",
        )
