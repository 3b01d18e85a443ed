"""Charges of accounts, from the reservation to the last step: each is one transaction and one entry.

Every decision and its entry are one transaction that first takes the one right to append, so that no two
processes can spend the same budget. The rules (:mod:`tabularium.ledger.rules`) compare every step with the
state and fence that stand in the ledger at that moment, and the sums with the caps.

The amount of a charge is given by the caller: the spec's budget. What charges cost together is in
:mod:`tabularium.ledger.composition`; the rules apply it, with the caps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection

from tabularium.ledger import names, rules
from tabularium.ledger.amounts import multiple, positive
from tabularium.ledger.books import Measurement
from tabularium.ledger.composition import Partition
from tabularium.ledger.events import ASKED, next_time
from tabularium.ledger.records import Account, Charge, Terms
from tabularium.ledger.refusals import (
    BadValue,
    NotApproved,
    PriorUnavailable,
    RuleBroken,
    require_same,
)
from tabularium.ledger.storage import queries
from tabularium.ledger.storage.indexed import IndexedBooks
from tabularium.ledger.terms import require_same_units
from tabularium.ledger.transactions import Part
from tabularium.ledger.views import (
    books_of,
    current_charge,
    get_account,
    is_paid,
    known_charge,
    stale_fence,
)


class Charges(Part):
    """Charges, from ``reserved`` to their last step, and those of what is made again from measurements.

    Refusals, with their errors and hints, stand with their rules in
    :mod:`tabularium.ledger.rules`. Besides, ``UnknownRelease`` names what was never reserved,
    ``StaleFence`` an attempt that another has overtaken, ``UnitMismatch`` an amount that is about another
    unit than its account, ``PriorUnavailable`` an earlier release that is not, or no more, offered, and
    ``Conflict`` a release id that stands for something else.
    """

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
        """
        charge = Charge(
            release_id=names.release_id(release_id),
            account=names.check_label(account, field="account"),
            product=names.check_label(product, field="product"),
            period=names.check_label(period, field="period"),
            amount=positive(amount, field="amount"),
            spec_digest=names.check_text(spec_digest, field="spec_digest"),
            revises=None if revises is None else names.check_text(revises, field="revises"),
            exact=exact,
            review=review,
        )
        if review and partition is not None:
            raise BadValue("is not for what is to be reviewed", where="partition", hint="leave it out")
        partition = None if partition is None else partition.checked()
        with self._appending(charging=True) as append:
            append.books.expect(vars(charge))
            terms = rules.require_account(append.books, charge.account).terms
            require_same_units(terms, charge.amount, unit, relation, definition, population)
            multiple(charge.amount, terms.quantum, field="amount")
            charge = _in_group(charge, partition, terms)
            append.books.charge(charge.release_id)  # holds its last step to the rules
            known = queries.charge(append.connection, charge.release_id)
            if known is not None:
                require_same("release", charge.release_id, _content(charge), _content(known))
                return known
            _require_offered(append.connection, append.books, priors or {}, None)
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
        """
        asked = positive(amount, field="amount")
        digest = names.check_text(spec_digest, field="spec_digest")
        with self._reading() as connection:
            of_account, books = get_account(connection, account), books_of(connection)
            terms = rules.require_account(books, of_account.name).terms
            require_same_units(terms, asked, unit, relation, definition, population)
            multiple(asked, terms.quantum, field="amount")
            at = next_time(
                self._transactions.clock(), queries.chain_head(connection).at, self._transactions.tolerance
            )
            another = product is not None and period is not None
            try:
                rules.require_open(books, terms, at)
                rules.require_approved(
                    *(books, terms, digest, asked),
                    product=product,
                    exact=exact,
                    revises=revises,
                    unreviewed=another
                    and rules.another_is_open(books, of_account.name, str(product), str(period), digest),
                )
            except RuleBroken:
                if not is_paid(connection, of_account.name, digest):
                    raise
        return of_account

    def drawing(
        self, release_id: str, *, expected: int | None = None, priors: Mapping[str, str] | None = None
    ) -> int:
        """Record, before the first random bit, that noise is about to be drawn; return the new fence.

        The caller must hold the release (:func:`tabularium.ledger.measurement.release_lock.hold`): a charge
        that is already in ``drawing`` gets the next fence, which shuts out the holder of the one before.

        ``expected``: the fence that the caller saw (0 while reserved): if it has moved on, nothing is
        written. ``priors``: as for :meth:`reserve`. What is drawn in part is spent, and is finished whatever
        became of them.
        """
        with self._appending() as append:
            charge = known_charge(append.connection, release_id)
            if expected is not None and charge.fence != expected:
                raise stale_fence(charge)
            _require_offered(append.connection, append.books, priors or {}, charge)
            return append.step(replace(charge, fence=charge.fence + 1), "drawing").fence

    def precheck_drawing(self, release_id: str) -> None:
        """Refuse now what :meth:`drawing` would refuse later for want of an officer's permission."""
        with self._reading() as connection:
            charge = known_charge(connection, release_id)
            rules.require_attempt(books_of(connection), charge.account, release_id, charge.fence)

    def precheck_priors(self, priors: Mapping[str, str], charge: Charge | None = None) -> None:
        """Refuse now which priors :meth:`reserve` would refuse, or :meth:`drawing` for ``charge``."""
        with self._reading() as connection:
            _require_offered(connection, books_of(connection), priors, charge)

    def measured(self, release_id: str, fence: int, *, digest: str) -> Charge:
        """Record the digest of the durable measurement file; from here on nothing is drawn again."""
        digest = names.check_text(digest, field="digest")
        with self._appending() as append:
            charge = current_charge(append.connection, release_id, fence)
            if charge.state in ("measured", "published") and charge.measurement_digest == digest:
                return charge
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

        ``statement``: SHA-256 of the signed statement that was published with it; ``None`` for a release
        without one. ``signed_by``: the key for releases that signed it, which may not be revoked by now: from
        this entry on a signature counts or never will.
        """
        digest = names.check_text(digest, field="digest")
        statement = None if statement is None else names.sha256(statement, field="statement")
        with self._appending() as append:
            charge = current_charge(append.connection, release_id, fence)
            if charge.state == "published" and charge.publication_digest == digest:
                require_same("release", release_id, {"statement": statement}, {"statement": charge.statement})
                return charge
            if signed_by is not None:
                require_active_release_key(append.books, signed_by)
            done = replace(charge, publication_digest=digest, statement=statement)
            return append.step(done, "published")

    def void(self, release_id: str, reason: str, *, by: Ed25519PrivateKey | None = None) -> Charge:
        """Give back a reservation for which no drawing ever began.

        While an officer's key is enrolled, and while the account needs approvals, it is signed.
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

        ``fence``: the caller's own fence, if it may not abandon what another attempt has taken over.
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
        reason = names.check_text(reason, field="reason")
        with self._appending() as append:
            if fence is None:
                charge = known_charge(append.connection, release_id)
            else:
                charge = current_charge(append.connection, release_id, fence)
            if charge.state == state:
                return charge
            return append.step(replace(charge, reason=reason), state, by)

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

        This corrects a mistake in post-processing, formats or titles. Nothing is drawn, so the charge is of
        nothing (post-processing; Dwork and Roth 2014, Proposition 2.1). An officer approves its spec, as of
        every revision: an operator must not publish a second view of the same numbers unseen.
        Only what was published can be the source, withdrawn or not.

        It is ``measured`` at once, with the fence and the digest of those measurements.

        ``measurements_of``: the earlier release: of the same account, product and period, and published.
        ``revises``, ``exact``, ``review``: as for :meth:`tabularium.ledger.charges.Charges.reserve`.
        """
        charge = _remade(account, release_id, measurements_of, product, period, spec_digest, revises)
        charge = replace(charge, exact=exact, review=review)
        with self._appending(charging=True) as append:
            rules.require_account(append.books, charge.account)
            append.books.charge(charge.release_id)  # holds its last step to the rules
            known = queries.charge(append.connection, charge.release_id)
            if known is not None:
                require_same("release", charge.release_id, _content(charge), _content(known))
                return known
            source = _source(append.books, charge)
            return append.step(
                replace(charge, fence=source.fence, measurement_digest=source.digest), "remade"
            )

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
        charge = _remade(account, release_id, measurements_of, product, period, spec_digest, revises)
        with self._reading() as connection:
            known, books = queries.charge(connection, charge.release_id), books_of(connection)
            if known is None or known.measurements_of != charge.measurements_of:
                terms = rules.require_account(books, charge.account).terms
                _source(books, charge)
                rules.require_approved(
                    *(books, terms, charge.spec_digest, charge.amount),
                    product=charge.product,
                    exact=exact,
                    revises=charge.revises,
                )
            return known_charge(connection, charge.measured_as)


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


def _remade(
    account: str,
    release_id: str,
    measurements_of: str,
    product: str,
    period: str,
    spec_digest: str,
    revises: str,
) -> Charge:
    """Return the charge, of nothing, of a release that is made from an earlier one's measurements."""
    return Charge(
        release_id=names.release_id(release_id),
        account=names.check_label(account, field="account"),
        product=names.check_label(product, field="product"),
        period=names.check_label(period, field="period"),
        amount=Fraction(0),
        spec_digest=names.check_text(spec_digest, field="spec_digest"),
        revises=names.check_text(revises, field="revises"),
        measurements_of=names.release_id(measurements_of),
    )


def _source(books: IndexedBooks, charge: Charge) -> Measurement:
    return rules.require_source(books, charge.measured_as, charge.account, charge.product, charge.period)


def _require_offered(
    connection: Connection, books: IndexedBooks, priors: Mapping[str, str], charge: Charge | None
) -> None:
    """Refuse to draw towards an earlier release that is not published as it is named, or was withdrawn.

    What began to be drawn is spent, so that refusing it would help nobody.

    ``priors``: release id -> SHA-256 of its certificate. ``charge``: of the release that is to be drawn;
    ``None`` while there is none.
    """
    if charge is not None and charge.state != "reserved":
        return
    for release, certificate in priors.items():
        known = queries.charge(connection, release)
        if known is None or (known.state, known.publication_digest) != ("published", certificate):
            what = "the ledger has not published a release of this certificate"
            hint = "name a release that this ledger published, its folder as it was"
        elif (gone := queries.withdrawal(connection, known.account, release)) is not None:
            what = f"this release was withdrawn on {gone.at[:10]}: {gone.reason}"
            hint = "name the release that stands for it now, or remove prior"
        else:
            continue
        left = "nothing was charged"
        if charge is not None:
            key = rules.key_option(books, rules.require_account(books, charge.account).terms)
            left = (
                "no noise was drawn, and the budget is given back by: tabularium ledger void "
                f"{charge.release_id} --reason …{key}"
            )
        raise PriorUnavailable(what, where=f"prior {release}", hint=f"{hint}; {left}")


def require_active_release_key(books: IndexedBooks, key: str) -> None:
    """Refuse a key for releases that may not publish any more."""
    known = books.release_keys.get(key)
    if known is None or not known.active:
        raise NotApproved(
            "the key for releases that signed it was revoked meanwhile",
            where=f"key {key}",
            hint="run again: it is signed again, with a key that is enrolled; its noise and its charge stay",
        )
