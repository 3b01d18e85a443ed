"""Reading what officers decided: which drafts were laid out or withheld, which releases withdrawn."""

from __future__ import annotations

from sqlalchemy import Connection, bindparam, select

from tabularium.ledger.drafts import Acceptance, Draft, Withdrawal
from tabularium.ledger.records import Charge
from tabularium.ledger.storage.entry_queries import ABOUT, HASHED_BODY, checked_body
from tabularium.ledger.storage.key_queries import keys
from tabularium.ledger.storage.schema import DECIDES, about_draft, about_review, about_withdrawal, entries

_c = entries.c
_WITHHELD = (
    select(HASHED_BODY).where(_c.account == bindparam("account"), _c.kind == "withheld").order_by(_c.seq)
)
REVIEWED = select(HASHED_BODY).where(
    DECIDES, _c.account == bindparam("account"), _c.subject == bindparam("subject")
)


def reviewed_steps(connection: Connection, account: str, product: str, period: str) -> list[Charge]:
    """Return every step of a product's charges for a period that are to be reviewed, in any order."""
    asked = {"account": account, "subject": about_review(product, period)}
    found = [Charge.of(checked_body(text)) for text in connection.execute(REVIEWED, asked).scalars()]
    return [step for step in found if (step.product, step.period) == (product, period)]


def draft(connection: Connection, charge: Charge) -> Draft | None:
    """Return the draft of a release, if one was laid out."""
    asked = {"account": charge.account, "subject": about_draft(charge.release_id)}
    found = connection.execute(ABOUT, asked).scalar()
    if found is None:
        return None
    body = checked_body(found)
    accepted = None
    if body["kind"] == "acceptance":
        accepted = Acceptance.of(body, keys(connection)[body["by"]].officer)
    return Draft(charge.release_id, body["draft"], tuple(body["criteria"]), body["at"], accepted)


def withheld(connection: Connection, account: str) -> list[tuple[Charge, str, bool]]:
    """Return the charges of an account that were withheld, in the order in which they were.

    With each comes the criterion, and whether confidential figures were consulted.
    """
    found = connection.execute(_WITHHELD, {"account": account}).scalars()
    bodies = [checked_body(text) for text in found]
    return [(Charge.of(body), body["criterion"], body["consulted"]) for body in bodies]


def withdrawal(connection: Connection, charge: Charge) -> Withdrawal | None:
    """Return the withdrawal of a release, if it was withdrawn."""
    asked = {"account": charge.account, "subject": about_withdrawal(charge.release_id)}
    found = connection.execute(ABOUT, asked).scalar()
    if found is None:
        return None
    body = checked_body(found)
    return Withdrawal(body["release"], body["reason"], body["by"], body["seq"], body["at"])
