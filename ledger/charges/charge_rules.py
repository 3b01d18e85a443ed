"""What a charge must meet to be taken, and what it costs: the rules of the debit, each in one function."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from sqlalchemy import Connection

from tabularium.ledger.charges import composition
from tabularium.ledger.officers.countersigning import key_option
from tabularium.ledger.records import ATTEMPTS, STEPS, Charge, Sums, Terms, change
from tabularium.ledger.refusals import (
    AccountClosed,
    BudgetExhausted,
    Conflict,
    NotApproved,
    NotOffered,
    WrongState,
    unknown_account,
)
from tabularium.ledger.storage import decision_queries, entry_queries


def sums_after(
    connection: Connection, charge: Charge, step: str, stands: entry_queries.Standing
) -> dict[str, Sums]:
    """Return what will be reserved and spent in each scope once ``charge`` has taken ``step``."""
    added = change(step, charge.state or None, charge.amount)
    inside, part = added, None
    if charge.group is not None:
        inside, part = _in_parallel(connection, charge, stands.terms, added)
    bound = charge.group is not None and composition.period_of(charge.group) is not None
    scopes = {"account": inside, "period": inside if bound else added, "product": added}
    after = {scope: stands.sums[scope].plus(scopes[scope]) for scope in scopes}
    return after if part is None else {**after, "part": part}


def _in_parallel(
    connection: Connection, charge: Charge, terms: Terms | None, added: tuple[Fraction, Fraction]
) -> tuple[tuple[Fraction, Fraction], Sums]:
    """Return what a step adds to the cost of its whole group, and how its own part stands after it."""
    if terms is None or charge.group is None or charge.part is None or charge.contributions is None:
        raise unknown_account(charge.account)
    parts = entry_queries.parts(connection, charge.account, charge.group)
    pairs = {name: (sums.reserved, sums.spent) for name, sums in parts.items()}
    fold = composition.folds(charge.contributions, terms.relation)
    inside = composition.group_change(pairs, charge.part, added, fold)
    return inside, parts.get(charge.part, Sums()).plus(added)


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
    last = decision_queries.approval(connection, terms.name, spec_digest)
    needed = terms.approvals_for(product)
    what = "no disclosure officer has approved this spec"
    if needed > 1:
        what = f"0 of {needed} officers have approved this spec"
    if revises is not None:
        what += ", which revises a release"
    if unreviewed:
        what += "; another one of this product and period was to be reviewed, drawn, and not published"
    if last is not None:
        if not last.approved:
            what = "the approval of this spec was taken back"
        elif last.amount is not None and amount > last.amount:
            what = f"this spec is approved for {last.amount} and asks {amount}"
        elif (signed := len(last.signed_by(needed))) >= needed:
            return
        elif needed > 1:
            what = f"{signed} of {needed} officers have approved this spec"
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
    caps = {
        "account": (terms.cap, f"account {charge.account}"),
        "period": (terms.cap_per_period, f"account {charge.account}, period {charge.period}"),
        "product": (terms.cap_per_product, f"account {charge.account}, product {charge.product}"),
    }
    for scope, (cap, where) in caps.items():
        if cap is not None and after[scope].used > cap:
            left = max(cap - before[scope].used, Fraction(0))
            raise BudgetExhausted(
                f"budget exhausted: {after[scope].used - before[scope].used} was asked and {left} is left",
                where=where,
                hint="ask for less, or have a disclosure officer raise the cap",
            )


def require_allowed(charge: Charge, step: str) -> None:
    """Refuse a step that the charge's state does not allow."""
    if charge.state not in STEPS[step]:
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
    return charge.fence >= ATTEMPTS and charge.fence >= entry_queries.attempts_allowed(connection, charge)


def _key_option(connection: Connection, charge: Charge) -> str:
    """Return what a hint adds to a command about a charge, where its account wants an officer's key."""
    account = entry_queries.account(connection, charge.account)
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
        found = entry_queries.charge(connection, release)
        if found is None or (found.state, found.publication_digest) != ("published", certificate):
            what = "the ledger has not published a release of this certificate"
            hint = "name a release that this ledger published, its folder as it was"
        elif (gone := decision_queries.withdrawal(connection, found)) is not None:
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
        raise NotOffered(what, where=f"prior {release}", hint=f"{hint}; {left}")


def require_one_bound(connection: Connection, charge: Charge) -> None:
    """Refuse another bound on how many parts a unit is in than the one that its assignment has already."""
    if charge.group is None:
        return
    bound = entry_queries.group_bound(connection, charge.account, charge.group)
    if bound is not None and bound != charge.contributions:
        raise Conflict(
            f"its assignment is in the ledger with {bound} contributions",
            where=f"release {charge.release_id}",
            hint="give the same bound, or the digest of another assignment",
        )
