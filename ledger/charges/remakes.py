"""Releases that are made again from the measurements of an earlier one: nothing is drawn, nothing is charged.

A mistake in post-processing, formats or titles is mended so. What is published follows from noisy numbers
that were paid for and are out already, and what follows from them tells nothing more about anybody
(post-processing; Dwork and Roth 2014, Proposition 2.1). So the charge is of nothing, and leaves every sum as
it is.

An officer approves the spec of it, as of every revision: whoever can run releases must not publish a second
view of the same numbers unseen. Only what was published can be the source, withdrawn or not. A draft that was
withheld stays withheld, and what was given up stays unseen.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from sqlalchemy import Connection

from tabularium.ledger import names
from tabularium.ledger.charges.charge_rules import require_approved
from tabularium.ledger.charges.charge_steps import known_charge, stepped
from tabularium.ledger.events import ASKED
from tabularium.ledger.reader import usable_account
from tabularium.ledger.records import Charge
from tabularium.ledger.refusals import WrongState, require_same, unknown_release
from tabularium.ledger.storage import entry_queries
from tabularium.ledger.transactions import Transactions


class Remakes:
    """Charges of releases that have no measurements of their own."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

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

        It is ``measured`` at once, with the fence and the digest of those measurements.

        Parameters
        ----------
        measurements_of
            The earlier release: of the same account, product and period, and published.
        revises, exact, review
            As for :meth:`tabularium.ledger.charges.charges.Charges.reserve`.

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
        with self._transactions.appending(charge) as append:
            known = append.standing(charge).charge
            if known is not None:
                wanted, there = ({name: getattr(each, name) for name in ASKED} for each in (charge, known))
                require_same("release", charge.release_id, wanted, there)
                return known
            source = _source(append.connection, charge)
            charge = replace(charge, fence=source.fence, measurement_digest=source.measurement_digest)
            return stepped(append, charge, "remade", tolerance=self._transactions.tolerance)

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
        with self._transactions.reading() as connection:
            known = entry_queries.charge(connection, charge.release_id)
            if known is not None and known.measurements_of == charge.measurements_of:
                return known_charge(connection, charge.measured_as)
            return _source(connection, charge)


def _source(connection: Connection, charge: Charge) -> Charge:
    """Return the charge whose measurements another one is to be made from, if it may be."""
    account = usable_account(connection, charge.account)
    found = entry_queries.charge(connection, charge.measured_as)
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
