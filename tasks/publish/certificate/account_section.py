"""The account that paid, as it stood when the charge was reserved; and who had approved the spec."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any, cast

from tabularium.ledger import Terms, Usage
from tabularium.ledger.records import Approved, Reservation
from tabularium.tasks.publish.certificate.spending import own_amount
from tabularium.validations import certificate as said
from tabularium.validations.certificate.value_kinds import Definition, Relation
from tabularium.validations.release_spec.exact_facts import exact_facts
from tabularium.validations.release_spec.model import ReleaseSpec

_WORDS = (
    "All figures are of the ledger's entry that reserved this charge; they never change, and an export of "
    "the ledger has them. What was charged later is in the certificates of later releases.",
    "`used` is the plain sum, exact, of all that was reserved or spent up to then, this charge and those "
    "for its tallies included. It is what the ledger compares with the cap, and by that sum one unit has "
    "lost at most so much through this account, as far as every release of it is counted.",
    "Under zcdp, where budgets were chosen in view of earlier releases, the bound is the cap as it was fixed "
    "beforehand, and not the sum.",
    "That earlier charges were made is not always independent of the data: each was made because its "
    "own exact rules held, and a draft may have been withheld for what an officer saw. That is listed "
    "as outside the guarantee.",
)


def account_section(found: Reservation) -> said.Account:
    """Return the account's terms, the charge's place in it, and its cumulative loss."""
    terms, cap = found.terms, found.terms.cap
    return said.Account(
        name=terms.name,
        entity=terms.unit,
        population=terms.population,
        relation=cast("Relation", terms.relation),
        definition=cast("Definition", terms.definition),
        delta=terms.delta,
        cap=cap,
        cap_per_period=terms.cap_per_period,
        cap_per_product=terms.cap_per_product,
        reserved=said.Reserved(
            entry=found.entry,
            at=found.at,
            amount=found.after.used - found.before.used,
            left_before=cap - found.before.used,
            left_after=cap - found.after.used,
        ),
        cumulative=said.Cumulative(
            used=found.after.used, charges=found.charges, releases_before=found.releases
        ),
        words=_WORDS,
    )


def approval_section(spec: ReleaseSpec, found: Reservation) -> said.Approval:
    """Return who had approved the spec before it was charged, and whether somebody had to."""
    approved, terms = found.approved, found.terms
    officers = terms.approvals_for(spec.product)
    several: dict[str, Any] = {}
    if officers > 1:
        others = () if approved is None else approved.others
        several = {"officers": officers, "others": tuple(map(_said, others))}
    return said.Approval(
        needed=terms.wants_approval(
            product=spec.product, exact=bool(exact_facts(spec)), revises=spec.revises
        ),
        account_asks_always=terms.needs_approval or officers > 1,
        account_asks_for_exact_facts=terms.approve_exact,
        approved=None if approved is None else _said(approved),
        **several,
    )


def _said(approved: Approved) -> said.Approved:
    return said.Approved(key=approved.key, entry=approved.entry, at=approved.at, at_most=approved.most)


def reservation_in(certificate: said.Certificate) -> Reservation:
    """Return what the two sections were made of."""
    account, approval = certificate.account, certificate.approval
    reserved, by, used = account.reserved, approval.approved, account.cumulative.used
    terms = Terms(
        name=account.name,
        unit=account.entity,
        population=account.population,
        relation=account.relation,
        definition=account.definition,
        cap=account.cap,
        quantum=Fraction(1),  # not stated
        cap_per_period=account.cap_per_period,
        cap_per_product=account.cap_per_product,
        delta=account.delta,
        needs_approval=approval.account_asks_always,
        approve_exact=approval.account_asks_for_exact_facts,
        approvals=approval.officers or 1,
    )
    others = tuple(_read(each) for each in approval.others or ())
    return Reservation(
        entry=reserved.entry,
        at=reserved.at,
        terms=terms,
        before=Usage(account.cap - reserved.left_before),
        after=Usage(used),
        charges=account.cumulative.charges,
        releases=account.cumulative.releases_before,
        approved=None if by is None else replace(_read(by), others=others),
    )


def _read(approved: said.Approved) -> Approved:
    return Approved(approved.key, approved.entry, approved.at, approved.at_most)


def unfit(certificate: said.Certificate, spec: ReleaseSpec) -> str | None:
    """Return the first field of the two sections that does not fit the rest of the certificate, or None."""
    found, head = reservation_in(certificate), certificate.ledger.head.seq
    terms, privacy, by = found.terms, spec.privacy, found.approved
    tally_charges = len(certificate.ledger.tally_charges)
    own, other = own_amount(spec), int(spec.measurements_of is not None)
    each = [] if by is None else [*by.others, by]
    for field, fits in (
        ("account.name", terms.name == spec.dataset),
        ("account.entity", terms.unit == privacy.protects),
        ("account.population", terms.population == certificate.privacy.unit.population),
        ("account.relation", terms.relation == privacy.relation),
        ("account.definition", terms.definition == privacy.definition),
        ("account.delta", _deltas_fit(certificate, terms)),
        ("account.reserved.amount", found.after.used - found.before.used == own),
        ("account.reserved.left_before", found.before.used >= spec.tally_amount * tally_charges),
        ("account.cumulative.used", found.after.used <= terms.cap),
        ("account.cap_per_period", _covers(terms.cap_per_period, own)),
        ("account.cap_per_product", _covers(terms.cap_per_product, own)),
        ("account.reserved.entry", 0 < found.entry < head + other),
        ("account.cumulative.charges", found.charges > tally_charges),
        ("account.cumulative.releases_before", other <= found.releases < found.charges + other),
        ("approval.approved", by is not None or not certificate.approval.needed),
        ("approval.others", len({one.key for one in each}) == len(each)),
        ("approval.others", len(each) >= (certificate.approval.officers or 0)),
        ("approval.approved.entry", all(0 < one.entry < found.entry for one in each)),
        ("approval.approved.at", all(one.at <= found.at for one in each)),
        ("approval.approved.at_most", all(_covers(one.most, own) for one in each)),
    ):
        if not fits:
            return field
    return None


def _deltas_fit(certificate: said.Certificate, terms: Terms) -> bool:
    stated = [each.delta for each in certificate.privacy.epsilon_delta or ()]
    return terms.definition == "pure" or terms.delta is None or terms.delta in stated


def _covers(limit: Fraction | None, amount: Fraction) -> bool:
    return limit is None or amount <= limit
