"""Charges of accounts, from the reservation to the last step: each is one transaction and one entry.

Every decision and its entry are one transaction that first takes the one right to append, so that no two
processes can spend the same budget, and every step of a charge is a comparison with the state and fence that
stand in the ledger at that moment. What is refused, and what a charge adds to the sums that the caps are
compared with, is in :mod:`tabularium.ledger.requirements`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection

from tabularium.ledger import amounts, names
from tabularium.ledger.composition import Partition
from tabularium.ledger.events import ASKED, next_time
from tabularium.ledger.records import Account, Charge, Terms
from tabularium.ledger.refusals import (
    AccountClosed,
    BadValue,
    NotApproved,
    WrongState,
    require_same,
    retired_account,
    unknown_account,
    unknown_release,
)
from tabularium.ledger.requirements import (
    another_is_open,
    current_charge,
    get_account,
    get_open_account,
    key_option,
    known_charge,
    require_active_release_key,
    require_allowed,
    require_approved,
    require_attempt,
    require_no_draft,
    require_offered,
    require_one_bound,
    require_open,
    require_published_as_accepted,
    require_same_units,
    require_within_caps,
    signature_required,
    stale,
    sums_after,
)
from tabularium.ledger.storage import queries
from tabularium.ledger.transactions import Part
from tabularium.ledger.views import is_paid


class Charges(Part):
    """Charges, from ``reserved`` to their last step, and those of what is made again from measurements."""

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
            :mod:`tabularium.ledger.composition`.
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
        UnitMismatch
            If the amount is about another unit, relation, definition or population than the account's.
        AccountClosed
            If the account is not open today.
        NotApproved
            If the charge wants an approval (``Terms.wants_approval``), or another spec of this product and
            period is in review or was withheld, and not as many officers as must have approved the spec.
        PriorUnavailable
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
        with self._appending(charging=True) as append:
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
            require_open(append.connection, terms, append.time())
            require_offered(append.connection, priors or {}, None)
            require_approved(
                append.connection,
                terms,
                charge.spec_digest,
                charge.amount,
                product=charge.product,
                exact=charge.exact,
                revises=charge.revises,
                unreviewed=another_is_open(
                    append.connection, charge.account, charge.product, charge.period, charge.spec_digest
                ),
            )
            require_one_bound(append.connection, charge)
            after = sums_after(append.connection, charge, "reserved", stands)
            require_within_caps(terms, charge, stands.sums, after)
            return append.step(charge, "reserved")

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
        with self._reading() as connection:
            found = get_open_account(connection, account)
            terms = found.terms
            require_same_units(terms, asked, unit, relation, definition, population)
            amounts.multiple(asked, terms.quantum, field="amount")
            at = next_time(
                self._transactions.clock(), queries.chain_head(connection).at, self._transactions.tolerance
            )
            try:
                require_open(connection, terms, at)
                require_approved(
                    *(connection, terms, digest, asked),
                    product=product,
                    exact=exact,
                    revises=revises,
                    unreviewed=product is not None
                    and period is not None
                    and another_is_open(connection, found.name, product, period, digest),
                )
            except (AccountClosed, NotApproved):
                if not is_paid(connection, found.name, digest):
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
        with self._appending() as append:
            charge = known_charge(append.connection, release_id)
            if expected is not None and charge.fence != expected:
                raise stale(charge)
            require_allowed(charge, "drawing")
            require_attempt(append.connection, charge)
            require_offered(append.connection, priors or {}, charge)
            after = replace(charge, fence=charge.fence + 1)
            return append.step(after, "drawing").fence

    def precheck_drawing(self, release_id: str) -> None:
        """Refuse now what :meth:`drawing` would refuse later for want of an officer's permission."""
        with self._reading() as connection:
            require_attempt(connection, known_charge(connection, release_id))

    def precheck_priors(self, priors: Mapping[str, str], charge: Charge | None = None) -> None:
        """Refuse now which priors :meth:`reserve` would refuse, or :meth:`drawing` for ``charge``."""
        with self._reading() as connection:
            require_offered(connection, priors, charge)

    def measured(self, release_id: str, fence: int, *, digest: str) -> Charge:
        """Record the digest of the durable measurement file; from here on nothing is drawn again."""
        digest = names.line(digest, field="digest", longest=names.LONGEST_TEXT)
        with self._appending() as append:
            charge = current_charge(append.connection, release_id, fence)
            if charge.state in ("measured", "published") and charge.measurement_digest == digest:
                return charge
            require_allowed(charge, "measured")
            return append.step(replace(charge, measurement_digest=digest), "measured")

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
        with self._appending() as append:
            charge = current_charge(append.connection, release_id, fence)
            if charge.state == "published" and charge.publication_digest == digest:
                require_same("release", release_id, {"statement": statement}, charge.fields())
                return charge
            require_allowed(charge, "published")
            if signed_by is not None:
                require_active_release_key(append.connection, signed_by)
            require_published_as_accepted(append.connection, charge, digest)
            done = replace(charge, publication_digest=digest, statement=statement)
            return append.step(done, "published")

    def void(self, release_id: str, reason: str, *, by: Ed25519PrivateKey | None = None) -> Charge:
        """Give back a reservation for which no drawing ever began.

        While an officer's key is enrolled, and while the account needs approvals, it is signed.

        ``NotApproved`` is raised if there is no signature of an enrolled key then.
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
        with self._appending() as append:
            if fence is None:
                charge = known_charge(append.connection, release_id)
            else:
                charge = current_charge(append.connection, release_id, fence)
            if charge.state == state:
                return charge
            require_allowed(charge, state)
            require_no_draft(append.connection, charge, state)
            ended, where = replace(charge, reason=reason), f"release {release_id}"
            if state == "voided":
                terms = get_account(append.connection, charge.account).terms
                what, command = "voiding a charge", "void"
                needed = signature_required(append.connection, terms)
            else:
                what, command = "giving up what is measured and to be reviewed", "abandon"
                needed = charge.review and charge.state == "measured"
            signature = append.signed(
                state, ended.fields(), by, needs=what if needed else None, where=where, command=command
            )
            return append.step(ended, state, signature)

    def remake(
        self,
        account: str,
        *,
        release_id: str,
        measurements_of: str,
        product: str,
        period: str,
        spec_digest: str,
        revises: str,
        exact: bool = False,
        review: bool = False,
    ) -> Charge:
        """Begin a release that is made from an earlier one's measurements; the same again changes nothing.

        A mistake in post-processing, formats or titles is mended so. Nothing is drawn, so the charge is of
        nothing (post-processing; Dwork and Roth 2014, Proposition 2.1). An officer approves its spec, as of
        every revision: whoever can run releases must not publish a second view of the same numbers unseen.
        Only what was published can be the source, withdrawn or not.

        It is ``measured`` at once, with the fence and the digest of those measurements.

        Parameters
        ----------
        measurements_of
            The earlier release: of the same account, product and period, and published.
        revises, exact, review
            As for :meth:`tabularium.ledger.charges.Charges.reserve`.

        Raises
        ------
        UnknownRelease
            If there is no such earlier release.
        WrongState
            If it was not published, is another product's or period's, or has no measurements of its own.
        UnknownAccount, NotApproved, Conflict
            As for ``reserve``.
        """
        charge = Charge(
            release_id=names.release_id(release_id),
            account=names.line(account, field="account"),
            product=names.line(product, field="product"),
            period=names.line(period, field="period"),
            amount=Fraction(0),
            spec_digest=names.line(spec_digest, field="spec_digest", longest=names.LONGEST_TEXT),
            revises=names.line(revises, field="revises", longest=names.LONGEST_TEXT),
            exact=exact,
            review=review,
            measurements_of=names.release_id(measurements_of),
        )
        with self._appending(charging=True) as append:
            known = append.standing(charge).charge
            if known is not None:
                require_same("release", charge.release_id, _content(charge), _content(known))
                return known
            source = _source(append.connection, charge)
            charge = replace(charge, fence=source.fence, measurement_digest=source.measurement_digest)
            return append.step(charge, "remade")

    def precheck_remake(
        self,
        account: str,
        *,
        release_id: str,
        measurements_of: str,
        product: str,
        period: str,
        spec_digest: str,
        revises: str,
        exact: bool = False,
    ) -> Charge:
        """Refuse now what :meth:`remake` would refuse later; return the charge of the earlier release.

        A release that was begun passes: its run may only be finishing it, or finding it.
        """
        charge = Charge(
            *(names.release_id(release_id), account, product, period, Fraction(0), spec_digest),
            revises=revises,
            exact=exact,
            measurements_of=names.release_id(measurements_of),
        )
        with self._reading() as connection:
            known = queries.charge(connection, charge.release_id)
            if known is not None and known.measurements_of == charge.measurements_of:
                return known_charge(connection, charge.measured_as)
            return _source(connection, charge)


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


def _source(connection: Connection, charge: Charge) -> Charge:
    """Return the charge whose measurements another one is to be made from, if it may be."""
    account = get_open_account(connection, charge.account)
    found = queries.charge(connection, charge.measured_as)
    where = f"release {charge.measured_as}"
    if found is None:
        raise unknown_release(charge.measured_as)
    if found.measurements_of is not None:
        raise WrongState(
            "has no measurements of its own: it was itself made from another's",
            where=where,
            hint=f"name that one: {found.measurements_of}",
        )
    theirs, ours = ((each.account, each.product, each.period) for each in (found, charge))
    if theirs != ours:
        raise WrongState(
            f"is of account {theirs[0]}, product {theirs[1]}, period {theirs[2]}",
            where=where,
            hint="name a release of the same account, product and period: tabularium ledger show",
        )
    if found.state != "published":
        raise WrongState(
            f"is {found.state}, and only what was published is made again from its measurements",
            where=where,
            hint="publish it first" if found.state == "measured" else "publish a revision with a charge",
        )
    require_approved(
        *(connection, account.terms, charge.spec_digest, Fraction(0)),
        product=charge.product,
        exact=charge.exact,
        revises=charge.revises,
    )
    return found
