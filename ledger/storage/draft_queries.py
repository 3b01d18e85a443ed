"""Reading what the ledger says of drafts: which were laid out for review, and which were withheld."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select

from ledger.drafts import Draft
from ledger.records import Charge
from ledger.storage.entry_queries import ABOUT, HASHED_BODY, checked_body
from ledger.storage.schema import about_draft, entries

_c = entries.c
_WITHHELD = (
    select(HASHED_BODY).where(_c.account == bindparam("account"), _c.kind == "withheld").order_by(_c.seq)
)


def draft(connection: Connection, charge: Charge) -> Draft | None:
    """Return the draft of a release, if one was laid out."""
    asked = {"account": charge.account, "subject": about_draft(charge.release_id)}
    found = connection.execute(ABOUT, asked).scalar()
    if found is None:
        return None
    body = checked_body(found)
    accepted = body["kind"] == "acceptance"
    return Draft(charge.release_id, body["draft"], tuple(body["criteria"]), accepted, body["at"])


def withheld(connection: Connection, account: str) -> list[Charge]:
    """Return the charges of an account that were withheld, in the order in which they were."""
    found = connection.execute(_WITHHELD, {"account": account}).scalars()
    return [Charge.of(checked_body(text)) for text in found]
