"""Charges of accounts, from the reservation to the last step: each is one transaction and one entry.

Every decision and its entry are one transaction that first takes the one right to append, so that no two
processes can spend the same budget, and every step of a charge is a comparison with the state and fence that
stand in the ledger at that moment. What is refused, and what a charge adds to the sums that the caps are
compared with, is in :mod:`tabularium.ledger.charges.charge_rules`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import amounts, names
from tabularium.ledger.account_history import reserved_for
from tabularium.ledger.charges import review_rules
from tabularium.ledger.charges.charge_rules import (
    require_allowed,
    require_approved,
    require_attempt,
    require_offered,
    require_one_bound,
    require_open,
    require_within_caps,
    sums_after,
)
from tabularium.ledger.charges.charge_steps import current_charge, known_charge, stale, stepped
from tabularium.ledger.charges.composition import Partition
from tabularium.ledger.charges.unit_check import require_same_units
from tabularium.ledger.events import ASKED
from tabularium.ledger.officers.countersigning import (
    countersignature,
    guarded,
    key_option,
    require_active_release_key,
)
from tabularium.ledger.reader import known_account, usable_account
from tabularium.ledger.records import Account, Charge, Terms
from tabularium.ledger.refusals import (
    AccountClosed,
    BadValue,
    NotApproved,
    require_same,
    retired_account,
    unknown_account,
)
from tabularium.ledger.storage import entry_queries
from tabularium.ledger.storage.append import Append
from tabularium.ledger.storage.chain_head import read_head
from tabularium.ledger.transactions import Transactions


class Charges:
    """Charges, from ``reserved`` to their last step."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def reserve(
        self,
        account: str,
        *,
        release_id: str,
        amount: Fraction,
        product: str,
        period: str,
        spec_digest: str,
        revises: str | None = None,
        exact: bool = False,
        review: bool = False,
        partition: Partition | None = None,
        unit: str | None = None,
        relation: str | None = None,
        definition: str | None = None,
        population: str | None = None,
        priors: Mapping[str, str] | None = None,
    ) -> Charge:
        """Set ``amount`` aside for a release, or return the charge that the same call made before.

        Parameters
        ----------
        revises
            Why what was published for this product and period before is published again; an officer must
            have approved the spec then.
        exact
            Whether the release states exact facts, which an account may want an officer to approve.
        review
            Whether it is published only as a draft that an officer has accepted; then without a partition.
        partition
            Which part of the data the release reads, if it composes in parallel with others: see
            :mod:`tabularium.ledger.charges.composition`.
        unit, relation, definition, population
            What the amount is about, to be compared with the account's; ``None``: the account's.
        priors
            The releases that its tables are drawn towards: id -> SHA-256 of the certificate.

        Raises
        ------
        UnknownAccount
            If the account was never opened.
        BadAmount
            If the amount is not an exact positive multiple of the account's quantum.
        Unfit
            If the amount is about another unit, relation, definition or population than the account's.
        AccountClosed
            If the account is not open today.
        NotApproved
            If the charge wants an approval (``Terms.wants_approval``), or another spec of this product and
            period is in review or was withheld, and not as many officers as must have approved the spec.
        NotOffered
            If one of ``priors`` is not published, or was withdrawn.
        BudgetExhausted
            If a cap would be passed.
        Conflict
            If the release id stands for something else, or the account is retired.
        """
        charge = Charge(
            release_id=names.release_id(release_id),
            account=names.line(account, field="account"),
            product=names.line(product, field="product"),
            period=names.line(period, field="period"),
            amount=amounts.positive(amount, field="amount"),
            spec_digest=names.line(spec_digest, field="spec_digest", longest=names.LONGEST_TEXT),
            revises=None
            if revises is None
            else names.line(revises, field="revises", longest=names.LONGEST_TEXT),
            exact=exact,
            review=review,
        )
        if review and partition is not None:
            raise BadValue("is not for what is to be reviewed", where="partition", hint="leave it out")
        partition = None if partition is None else partition.checked()
        tolerance = self._transactions.tolerance
        with self._transactions.appending(charge) as append:
            stands = append.standing(charge)
            if stands.terms is None:
                raise unknown_account(charge.account)
            if stands.retired:
                raise retired_account(charge.account, key_option(append.connection))
            terms = stands.terms
            require_same_units(terms, charge.amount, unit, relation, definition, population)
            amounts.multiple(charge.amount, terms.quantum, field="amount")
            charge = _in_group(charge, partition, terms)
            if stands.charge is not None:
                require_same("release", charge.release_id, _content(charge), _content(stands.charge))
                return stands.charge
            require_open(append.connection, terms, append.time(tolerance))
            require_offered(append.connection, priors or {}, None)
            require_approved(
                append.connection,
                terms,
                charge.spec_digest,
                charge.amount,
                product=charge.product,
                exact=charge.exact,
                revises=charge.revises,
                unreviewed=review_rules.another_is_open(
                    append.connection, charge.account, charge.product, charge.period, charge.spec_digest
                ),
            )
            require_one_bound(append.connection, charge)
            after = sums_after(append.connection, charge, "reserved", stands)
            require_within_caps(terms, charge, stands.sums, after)
            return stepped(append, charge, "reserved", tolerance=tolerance)

    def precheck(
        self,
        account: str,
        *,
        amount: Fraction,
        spec_digest: str,
        product: str | None = None,
        period: str | None = None,
        revises: str | None = None,
        exact: bool = False,
        unit: str | None = None,
        relation: str | None = None,
        definition: str | None = None,
        population: str | None = None,
    ) -> Account:
        """Refuse now what :meth:`reserve` would refuse later, before any data is read; nothing is written.

        The dates, the approval, what the amount is about, and the quantum are looked at, not the caps; and
        another spec's review, where product and period are given. Only ``reserve`` decides. A spec that was
        charged before passes the dates and the approval: its run may only be finishing, or finding, what is
        paid for.

        Raises
        ------
        UnknownAccount, BadAmount, Unfit, AccountClosed, NotApproved, Conflict
            As :meth:`reserve` would.
        """
        asked = amounts.positive(amount, field="amount")
        digest = names.line(spec_digest, field="spec_digest", longest=names.LONGEST_TEXT)
        with self._transactions.reading() as connection:
            found = usable_account(connection, account)
            terms = found.terms
            require_same_units(terms, asked, unit, relation, definition, population)
            amounts.multiple(asked, terms.quantum, field="amount")
            append = Append(connection, self._transactions.clock(), read_head(connection))
            try:
                require_open(connection, terms, append.time(self._transactions.tolerance))
                require_approved(
                    *(connection, terms, digest, asked),
                    product=product,
                    exact=exact,
                    revises=revises,
                    unreviewed=product is not None
                    and period is not None
                    and review_rules.another_is_open(connection, found.name, product, period, digest),
                )
            except (AccountClosed, NotApproved):
                before = reserved_for(connection, found.name, digest)
                if not entry_queries.any_counts(connection, [charge.release_id for charge in before]):
                    raise
        return found

    def drawing(
        self, release_id: str, *, expected: int | None = None, priors: Mapping[str, str] | None = None
    ) -> int:
        """Record, before the first random bit, that noise is about to be drawn; return the new fence.

        The caller must hold the release (:func:`tabularium.ledger.measurement.release_lock.hold`): a charge
        that is already in ``drawing`` gets the next fence, which shuts out whoever had the one before.

        Parameters
        ----------
        expected
            The fence that the caller saw (0 while reserved): if it has moved on, nothing is written.
        priors
            As for :meth:`reserve`. What is drawn in part is spent, and is finished whatever became of them.

        Raises
        ------
        NotApproved, NotOffered
            If drawing began three times, or as often as officers have allowed since; or one of ``priors`` was
            withdrawn before it began.
        """
        with self._transactions.appending() as append:
            charge = known_charge(append.connection, release_id)
            if expected is not None and charge.fence != expected:
                raise stale(charge)
            require_allowed(charge, "drawing")
            require_attempt(append.connection, charge)
            require_offered(append.connection, priors or {}, charge)
            after = replace(charge, fence=charge.fence + 1)
            return stepped(append, after, "drawing", tolerance=self._transactions.tolerance).fence

    def precheck_drawing(self, release_id: str) -> None:
        """Refuse now what :meth:`drawing` would refuse later for want of an officer's permission."""
        with self._transactions.reading() as connection:
            require_attempt(connection, known_charge(connection, release_id))

    def precheck_priors(self, priors: Mapping[str, str], charge: Charge | None = None) -> None:
        """Refuse now which priors :meth:`reserve` would refuse, or :meth:`drawing` for ``charge``."""
        with self._transactions.reading() as connection:
            require_offered(connection, priors, charge)

    def measured(self, release_id: str, fence: int, *, digest: str) -> Charge:
        """Record the digest of the durable measurement file; from here on nothing is drawn again."""
        digest = names.line(digest, field="digest", longest=names.LONGEST_TEXT)
        with self._transactions.appending() as append:
            charge = current_charge(append.connection, release_id, fence)
            if charge.state in ("measured", "published") and charge.measurement_digest == digest:
                return charge
            require_allowed(charge, "measured")
            return stepped(append, replace(charge, measurement_digest=digest), "measured")

    def published(
        self,
        release_id: str,
        fence: int,
        *,
        digest: str,
        statement: str | None = None,
        signed_by: str | None = None,
    ) -> Charge:
        """Record the digest of what was published.

        Parameters
        ----------
        statement
            SHA-256 of the signed statement that was published with it; ``None`` for a release without one.
        signed_by
            The key for releases that signed it, which may not be revoked by now: from this entry on a
            signature counts or never will.

        Raises
        ------
        NotApproved
            If that key was revoked, or never enrolled.
        Conflict
            If it was published with another statement.
        """
        digest = names.line(digest, field="digest", longest=names.LONGEST_TEXT)
        statement = None if statement is None else names.sha256(statement, field="statement")
        with self._transactions.appending() as append:
            charge = current_charge(append.connection, release_id, fence)
            if charge.state == "published" and charge.publication_digest == digest:
                require_same("release", release_id, {"statement": statement}, charge.fields())
                return charge
            require_allowed(charge, "published")
            if signed_by is not None:
                require_active_release_key(append.connection, signed_by)
            review_rules.require_published_as_accepted(append.connection, charge, digest)
            return stepped(
                append, replace(charge, publication_digest=digest, statement=statement), "published"
            )

    def void(self, release_id: str, reason: str, *, by: Ed25519PrivateKey | None = None) -> Charge:
        """Give back a reservation for which no drawing ever began.

        While an officer's key is enrolled, and while the account needs approvals, it is signed.

        Parameters
        ----------
        by
            The enrolled key that signs.

        Raises
        ------
        NotApproved
            If a signature is needed and there is none, or ``by`` is not an enrolled key.
        """
        return self._end(release_id, "voided", reason, None, by)

    def abandon(
        self,
        release_id: str,
        reason: str,
        *,
        fence: int | None = None,
        by: Ed25519PrivateKey | None = None,
    ) -> Charge:
        """Give up a release whose drawing began; its budget stays spent.

        What is to be reviewed is given up once it is measured only by an officer, who signs; what is laid out
        is withheld instead.

        Parameters
        ----------
        fence
            The caller's own fence, if it may not abandon what another attempt has taken over.
        by
            The enrolled key that signs.

        Raises
        ------
        NotApproved
            If a signature is needed and there is none, or ``by`` is not an enrolled key.
        WrongState
            If it belongs to a draft about which no officer has decided, or that was accepted.
        """
        return self._end(release_id, "abandoned", reason, fence, by)

    def _end(
        self,
        release_id: str,
        state: str,
        reason: str,
        fence: int | None,
        by: Ed25519PrivateKey | None = None,
    ) -> Charge:
        reason = names.line(reason, field="reason", longest=names.LONGEST_TEXT)
        with self._transactions.appending() as append:
            if fence is None:
                charge = known_charge(append.connection, release_id)
            else:
                charge = current_charge(append.connection, release_id, fence)
            if charge.state == state:
                return charge
            require_allowed(charge, state)
            review_rules.require_in_no_draft(append.connection, charge, state)
            ended, where = replace(charge, reason=reason), f"release {release_id}"
            if state == "voided":
                terms = known_account(append.connection, charge.account).terms
                what, command = "voiding a charge", "void"
                needed = guarded(append.connection, terms)
            else:
                what, command = "giving up what is measured and to be reviewed", "abandon"
                needed = charge.review and charge.state == "measured"
            fields = ended.fields()
            signature = countersignature(
                append, state, fields, 0, by, what if needed else None, where, command
            )
            return stepped(append, ended, state, signature=signature)


def _content(charge: Charge) -> dict[str, Any]:
    return {name: getattr(charge, name) for name in ASKED}


def _in_group(charge: Charge, partition: Partition | None, terms: Terms) -> Charge:
    if partition is None:
        return charge
    return replace(
        charge,
        group=partition.group(charge.period, terms.unit),
        part=partition.part,
        contributions=partition.contributions,
    )
