"""Review before publication: a release is laid out as a draft, and an officer accepts or withholds it.

The run that measured a release lays it out and records the digest of its certificate, which names every other
file: from then on there is one draft of it. An officer's decision names that digest. What is accepted is
published byte for byte; what is withheld stays spent, and is never published. Neither decision is taken back,
and no time that passes decides.

The criteria are the spec's, so that no free text tells what was seen. Whether confidential figures were
consulted is signed too: such a decision depends on the data in a way that no budget pays for.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection

from tabularium.ledger import names
from tabularium.ledger.account_history import reserved_for
from tabularium.ledger.charges.charge_rules import require_allowed
from tabularium.ledger.charges.charge_steps import current_charge, known_charge, stepped
from tabularium.ledger.drafts import Acceptance, Draft, Withheld
from tabularium.ledger.officers.countersigning import require_active, signed
from tabularium.ledger.officers.keys import key_id, public_hex
from tabularium.ledger.reader import known_account
from tabularium.ledger.records import Charge, Sums
from tabularium.ledger.refusals import BadValue, Conflict, WrongState
from tabularium.ledger.storage import decision_queries, key_queries
from tabularium.ledger.storage.append import Append
from tabularium.ledger.transactions import Transactions


class DraftReview:
    """Drafts, and what officers decide about them."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def draft(self, release_id: str) -> Draft | None:
        """Return the draft of a release, or ``None`` if none was laid out."""
        with self._transactions.reading() as connection:
            return decision_queries.draft(connection, known_charge(connection, release_id))

    def withheld(self, account: str) -> list[Withheld]:
        """Return the drafts of an account that were withheld, each with what all its charges cost."""
        with self._transactions.reading() as connection:
            ended = decision_queries.withheld(connection, known_account(connection, account).name)
            return [
                Withheld(
                    *(each.release_id, each.product, each.period, _cost(connection, each)),
                    criterion=criterion,
                    consulted=consulted,
                )
                for each, criterion, consulted in ended
            ]

    def drafted(self, release_id: str, fence: int, *, digest: str, criteria: tuple[str, ...]) -> Draft:
        """Record that a measured release is laid out for review; the same draft again changes nothing.

        Parameters
        ----------
        digest
            SHA-256 of its certificate.
        criteria
            For what it may be withheld.

        Raises
        ------
        WrongState
            If the release is not measured, or ended.
        Conflict
            If another draft of it was laid out.
        """
        digest = names.line(digest, field="digest", longest=names.LONGEST_TEXT)
        listed = [names.line(name, field="criteria") for name in criteria]
        if not listed:
            raise BadValue("is empty", where="criteria", hint="name at least one")
        with self._transactions.appending() as append:
            charge = current_charge(append.connection, release_id, fence)
            known = decision_queries.draft(append.connection, charge)
            if known is not None:
                _require_same_draft(known, digest)
                return known
            if charge.state != "measured":
                raise WrongState(
                    f"is {charge.state}, and only what is measured is laid out for review",
                    where=f"release {release_id}",
                    hint="see: tabularium ledger show",
                )
            fields = {"criteria": listed, "draft": digest, "release": charge.release_id}
            body = append.append("drafted", {**fields, **_account(append, charge)})
            return Draft(charge.release_id, digest, tuple(listed), body["at"])

    def accept(
        self, release_id: str, *, draft: str, by: Ed25519PrivateKey, consulted_confidential: bool = False
    ) -> Draft:
        """Let a draft be published as it was laid out, signed by an enrolled key; again changes nothing.

        It is accepted once as many different officers have signed as the product asks for; what is returned
        tells how many have.

        Parameters
        ----------
        draft
            SHA-256 of the certificate that the officer was shown.
        consulted_confidential
            Whether confidential figures were consulted.

        Raises
        ------
        WrongState
            If it waits for no review, or was withheld.
        Conflict
            If that is not the draft that was laid out.
        NotApproved
            If ``by`` is not an enrolled key.
        """
        signer = key_id(public_hex(by))
        with self._transactions.appending() as append:
            charge, known = _in_review(append.connection, release_id, draft)
            if known.accepted:
                return known
            require_allowed(charge, "published")
            require_active(append.connection, signer)
            officer = key_queries.keys(append.connection)[signer].officer
            if officer in {each.officer for each in known.acceptances}:
                return known
            left = known.needed - len(known.acceptances) - 1
            fields = {
                "by": signer,
                "consulted": consulted_confidential,
                "criteria": list(known.criteria),
                "draft": known.digest,
                "release": charge.release_id,
                "turn": decision_queries.acceptances(append.connection, charge),
                **({"officers_left": left} if left else {}),
                **_account(append, charge),
            }
            signature = signed(append, "acceptance", fields, by)
            tolerance = self._transactions.tolerance
            body = append.append("acceptance", {**fields, "signature": signature}, tolerance)
            acceptances = (*known.acceptances, Acceptance.of(body, officer))
            return replace(known, at=known.at if left else body["at"], acceptances=acceptances)

    def withhold(
        self,
        release_id: str,
        *,
        draft: str,
        criterion: str,
        by: Ed25519PrivateKey,
        consulted_confidential: bool = False,
    ) -> Charge:
        """End a draft, signed by an enrolled key: its budget stays spent, and it is never published.

        Parameters
        ----------
        criterion
            For what: one of those it was laid out with.
        draft, consulted_confidential
            As for ``accept``.

        Raises
        ------
        WrongState
            If it waits for no review, or was accepted.
        BadValue
            If the criterion is not one of its own.
        Conflict, NotApproved
            As ``accept``.
        """
        signer = key_id(public_hex(by))
        with self._transactions.appending() as append:
            charge, known = _in_review(append.connection, release_id, draft)
            if charge.state == "withheld":
                return charge
            require_allowed(charge, "withheld")
            if known.accepted:  # until then one officer alone may withhold it
                raise WrongState(
                    "was accepted, which is not taken back",
                    where=f"release {release_id}",
                    hint=f"publish it: tabularium ledger accept {release_id} --key FILE, or run it again",
                )
            names.one_of(criterion, known.criteria, field="criterion")
            require_active(append.connection, signer)
            decided: dict[str, Any] = {
                "by": signer,
                "consulted": consulted_confidential,
                "criterion": criterion,
                "draft": known.digest,
                "turn": 0,
            }
            decided["signature"] = signed(append, "withheld", {**charge.fields(), **decided}, by)
            return stepped(append, charge, "withheld", signature=decided)


def _cost(connection: Connection, ended: Charge) -> Fraction:
    """Return what a release cost: all charges for its spec, which has its period and product in it."""
    names_of_all = [each.release_id for each in reserved_for(connection, ended.account, ended.spec_digest)]
    charges = (known_charge(connection, name) for name in names_of_all)
    return sum((each.amount for each in charges if each.state != "voided"), Fraction(0))


def _in_review(connection: Connection, release_id: str, digest: str) -> tuple[Charge, Draft]:
    """Return a charge and its draft, which must be the one of that digest."""
    charge = known_charge(connection, release_id)
    known = decision_queries.draft(connection, charge)
    if known is None:
        raise WrongState(
            f"is {charge.state}, and waits for no review",
            where=f"release {release_id}",
            hint="its spec must ask for one: publication.review",
        )
    _require_same_draft(known, digest)
    return charge, known


def _require_same_draft(known: Draft, digest: str) -> None:
    if known.digest != digest:
        raise Conflict(
            "another draft of it was laid out for review",
            where=f"release {known.release_id}",
            hint="put the draft back as it was laid out, or withhold it",
        )


def _account(append: Append, charge: Charge) -> dict[str, str]:
    known = known_account(append.connection, charge.account)
    return {"account": known.name, **Sums(known.reserved, known.spent).texts("account")}
