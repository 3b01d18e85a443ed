"""How an account stood when a charge was reserved, read from the entry that reserved it.

That entry never changes, so whoever has the ledger, or an export of it, finds the same figures for ever.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, bindparam, func, select

from tabularium.ledger import names
from tabularium.ledger.records import Approved, Reservation, Sums, Terms
from tabularium.ledger.storage import decision_queries
from tabularium.ledger.storage.entry_queries import HASHED_BODY, checked_body
from tabularium.ledger.storage.schema import STATES_TERMS, entries
from tabularium.ledger.transactions import Transactions

_c = entries.c
_OWN = (_c.account == bindparam("account"), _c.seq < bindparam("before"))
_BEGUN = select(HASHED_BODY).where(
    _c.release_id == bindparam("release_id"), _c.kind.in_(("reserved", "remade"))
)
_NEWEST = select(HASHED_BODY).where(*_OWN).order_by(_c.account.desc(), _c.seq.desc()).limit(1)
_TERMS = select(HASHED_BODY).where(STATES_TERMS, *_OWN).order_by(_c.seq.desc()).limit(1)
_NUMBER = select(func.count()).select_from(entries).where(*_OWN, _c.kind == bindparam("kind"))
_PUBLISHED = select(HASHED_BODY).where(*_OWN, _c.kind == "published")


class Reservations:
    """Reads of reservations; each sees one moment of the ledger."""

    def __init__(self, transactions: Transactions) -> None:
        self._reading = transactions.reading

    def reservation(self, release_id: str) -> Reservation | None:
        """Return how a charge was reserved, or ``None`` if it never was."""
        with self._reading() as connection:
            found = connection.execute(_BEGUN, {"release_id": names.release_id(release_id)}).scalar()
            return None if found is None else _reservation(connection, checked_body(found))


def _reservation(connection: Connection, body: dict[str, Any]) -> Reservation:
    entry = body["seq"]
    asked = {"account": body["account"], "before": entry}
    number = {
        kind: int(connection.execute(_NUMBER, {**asked, "kind": kind}).scalar_one())
        for kind in ("reserved", "voided")
    }
    # The charges of one release, its tallies' too, name one certificate.
    before = [checked_body(text) for text in connection.execute(_PUBLISHED, asked).scalars()]
    published = {each["publication_digest"] for each in before if "measurements_of" not in each}
    terms = Terms.of(checked_body(connection.execute(_TERMS, asked).scalar_one()))
    return Reservation(
        entry=entry,
        at=body["at"],
        terms=terms,
        before=Sums.of(checked_body(connection.execute(_NEWEST, asked).scalar_one()), "account"),
        after=Sums.of(body, "account"),
        charges=number["reserved"] - number["voided"] + (body["kind"] == "reserved"),
        releases=len(published),
        approved=_approved(connection, body, terms.approvals_for(body["product"])),
    )


def _approved(connection: Connection, body: dict[str, Any], needed: int) -> Approved | None:
    """Return the approval that held: not withdrawn, and its key not revoked; with those of other officers."""
    found = decision_queries.approval(connection, body["account"], body["spec_digest"], body["seq"])
    if found is None:
        return None
    each = [Approved(signer.key, signer.entry, signer.at, found.amount) for signer in found.signed_by(needed)]
    return replace(each[-1], others=tuple(each[:-1])) if each else None
