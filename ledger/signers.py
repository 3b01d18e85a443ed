"""Who has signed one thing, where several officers must: each officer once, by keys that are not revoked.

Two keys of officers of one name are one officer's. Whoever enrols another key of their own under another name
could sign twice; that enrolment stands in the ledger, with who signed it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tabularium.ledger import amounts
from tabularium.ledger.drafts import Acceptance, Draft
from tabularium.ledger.records import MOST_APPROVALS, Approval, Key, Signer

Body = Mapping[str, Any]


def officer_keys_of(bodies: Iterable[Body]) -> dict[str, Key]:
    """Return every officer's key that entries tell of, by its name; other entries are passed over."""
    found: dict[str, Key] = {}
    for body in bodies:
        if body["kind"] == "key":
            named = (body["key"], body["officer"], body["public_key"], body["at"], body["by"])
            found[body["key"]] = Key(*named)
        elif body["kind"] == "revocation" and body["key"] in found:
            found[body["key"]] = replace(found[body["key"]], revoked=body["seq"])
    return found


def approval_of(decisions: Iterable[Body], keys: Mapping[str, Key], at: int | None = None) -> Approval | None:
    """Return the last word of decisions on one spec, with all whose approvals stand together with it.

    An approval of another amount begins anew, as one that follows a withdrawal: all have signed the same.

    Parameters
    ----------
    decisions
        What the entries say, in order.
    at
        The entry before which keys must not have been revoked; ``None``: now.
    """
    last: Body | None = None
    standing: list[Body] = []
    for body in decisions:
        if body["kind"] == "unapproval" or (last is not None and last["amount"] != body["amount"]):
            standing = []
        if body["kind"] == "approval":
            standing.append(body)
        last = body
    if last is None:
        return None
    return Approval(
        last["account"],
        last["spec_digest"],
        None if last["amount"] is None else amounts.from_text(last["amount"]),
        last["kind"] == "approval",
        last["by"],
        last["turn"],
        last["at"],
        last["reason"],
        tuple(
            Signer(keys[body["by"]].officer, body["by"], body["at"], body["seq"])
            for body in _of_each_officer(standing, keys, at)
        ),
    )


def draft_of(bodies: Sequence[Body], keys: Mapping[str, Key], needed: int = MOST_APPROVALS) -> Draft | None:
    """Return a draft from the entries that laid it out and accepted it, in order; ``None`` if none did.

    What is accepted stays so: from then on it is asked neither which keys were revoked later, nor how many
    officers must sign by now.

    Parameters
    ----------
    needed
        How many officers must accept it, as far as it is not accepted.
    """
    if not bodies:
        return None
    laid_out, *accepted = bodies
    last = accepted[-1] if accepted and "officers_left" not in accepted[-1] else None
    counted = tuple(
        Acceptance.of(body, keys[body["by"]].officer)
        for body in _of_each_officer(accepted, keys, None if last is None else last["seq"])
    )
    return Draft(
        laid_out["release"],
        laid_out["draft"],
        tuple(laid_out["criteria"]),
        (last or laid_out)["at"],
        len(counted) if last is not None else needed,
        counted,
    )


def _of_each_officer(bodies: Iterable[Body], keys: Mapping[str, Key], at: int | None) -> list[Body]:
    """Return the last of each officer, in order; keys that were revoked do not count."""
    newest: dict[str, Body] = {}
    for body in bodies:
        key = keys.get(body["by"])
        if key is not None and key.counts_at(at):
            newest.pop(key.officer, None)
            newest[key.officer] = body
    return list(newest.values())
