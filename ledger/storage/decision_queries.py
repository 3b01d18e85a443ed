"""Reading what officers decided: on specs, on drafts, and on what is published."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, bindparam, select

from tabularium.ledger.drafts import Draft, Withdrawal
from tabularium.ledger.events import KINDS, columns, subject
from tabularium.ledger.records import Approval, Charge, Separation
from tabularium.ledger.signers import approval_of, draft_of
from tabularium.ledger.storage import entry_queries
from tabularium.ledger.storage.entry_queries import ABOUT, HASHED_BODY, checked_body
from tabularium.ledger.storage.key_queries import keys
from tabularium.ledger.storage.schema import DECIDES, STATES_TERMS, entries

_c = entries.c
_WITHHELD = (
    select(HASHED_BODY).where(_c.account == bindparam("account"), _c.kind == "withheld").order_by(_c.seq)
)
REVIEWED = select(HASHED_BODY).where(
    DECIDES, _c.account == bindparam("account"), _c.subject == bindparam("subject")
)
_TERMS_STATED = select(HASHED_BODY).where(STATES_TERMS)
_SAID = select(HASHED_BODY).where(_c.account == "", _c.kind.in_(("disjoint", "overlapping"))).order_by(_c.seq)
_DECISIONS = ("approval", "unapproval")
_DECIDED = select(HASHED_BODY).where(_c.kind.in_(_DECISIONS)).order_by(_c.seq)


def approval(
    connection: Connection, account: str, spec_digest: str, before: int | None = None
) -> Approval | None:
    """Return the last word on a spec in an account: its approval, or that it was taken back.

    Parameters
    ----------
    before
        As it was when the entry of that number was written; ``None``: now.
    """
    found = _about(connection, account, spec_digest, *_DECISIONS)
    decisions = [body for body in found if before is None or body["seq"] < before]
    return approval_of(decisions, keys(connection) if decisions else {}, before)


def approvals(connection: Connection) -> list[Approval]:
    """Return every approval, and every taking back of one, in order."""
    so_far: defaultdict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    found, known = [], keys(connection)
    for body in map(checked_body, connection.execute(_DECIDED).scalars()):
        decisions = so_far[body["account"], body["spec_digest"]]
        decisions.append(body)
        found.append(approval_of(decisions, known))
    return [each for each in found if each is not None]


def reviewed_steps(connection: Connection, account: str, product: str, period: str) -> list[Charge]:
    """Return every step of a product's charges for a period that are to be reviewed, in any order."""
    asked = {"account": account, "subject": subject("reserved", product=product, period=period)}
    found = [Charge.of(checked_body(text)) for text in connection.execute(REVIEWED, asked).scalars()]
    return [step for step in found if (step.product, step.period) == (product, period)]


def draft(connection: Connection, charge: Charge) -> Draft | None:
    """Return the draft of a release, if one was laid out, with who has accepted it."""
    about = subject("drafted", release=charge.release_id)
    found = _about(connection, charge.account, about, "drafted", "acceptance")
    account = entry_queries.account(connection, charge.account) if found else None
    if account is None:
        return None
    return draft_of(found, keys(connection), account.terms.approvals_for(charge.product))


def turn(connection: Connection, kind: str, fields: Mapping[str, Any]) -> int:
    """Return how many decisions on the same thing came before one of ``kind`` that says ``fields``."""
    event = KINDS[kind]
    if not event.TURNS:
        return 0
    account, *_columns, about, _part = columns({**fields, "kind": kind})[1:]
    found = select(HASHED_BODY).where(_c.account == account, _c.kind.in_(event.TURNS))
    if event.SUBJECTS and event.SAME:
        found = found.where(DECIDES, _c.subject == about)
    bodies = map(checked_body, connection.execute(found).scalars())
    return sum(all(body[name] == fields[name] for name in event.SAME) for body in bodies)


def _about(connection: Connection, account: str, subject: str, *kinds: str) -> list[dict[str, Any]]:
    """Return what the entries of some kinds about something say, in order."""
    asked = {"account": account, "subject": subject}
    found = [checked_body(text) for text in connection.execute(REVIEWED, asked).scalars()]
    return sorted((body for body in found if body["kind"] in kinds), key=lambda body: body["seq"])


def withheld(connection: Connection, account: str) -> list[tuple[Charge, str, bool]]:
    """Return the charges of an account that were withheld, in the order in which they were.

    With each comes the criterion, and whether confidential figures were consulted.
    """
    found = connection.execute(_WITHHELD, {"account": account}).scalars()
    bodies = [checked_body(text) for text in found]
    return [(Charge.of(body), body["criterion"], body["consulted"]) for body in bodies]


def withdrawal(connection: Connection, charge: Charge) -> Withdrawal | None:
    """Return the withdrawal of a release, if it was withdrawn."""
    asked = {"account": charge.account, "subject": subject("withdrawn", release=charge.release_id)}
    found = connection.execute(ABOUT, asked).scalar()
    if found is None:
        return None
    body = checked_body(found)
    return Withdrawal(body["release"], body["reason"], body["by"], body["seq"], body["at"])


def populations(connection: Connection) -> set[str]:
    """Return every population that an account is, or was, about."""
    return {checked_body(text)["population"] for text in connection.execute(_TERMS_STATED).scalars()}


def separations(connection: Connection) -> dict[tuple[str, str], Separation]:
    """Return the last word on each two populations."""
    found: dict[tuple[str, str], Separation] = {}
    known = keys(connection)
    for text in connection.execute(_SAID).scalars():
        body = checked_body(text)
        disjoint = body["kind"] == "disjoint"
        holds = disjoint and body["by"] in known and known[body["by"]].active
        said = {name: body[name] for name in ("population", "other", "turn", "at", "reason")}
        pair = (body["population"], body["other"])
        found[pair] = Separation(disjoint=disjoint, holds=holds, key=body["by"], **said)
    return found
