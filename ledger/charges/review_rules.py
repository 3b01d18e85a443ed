"""What a charge that is to be reviewed must meet: it is published as an officer has accepted it, or never.

A release may have several charges, all of one spec: its tallies are published with its draft.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from sqlalchemy import Connection

from tabularium.ledger.drafts import Draft
from tabularium.ledger.records import Charge
from tabularium.ledger.refusals import Conflict, WrongState
from tabularium.ledger.storage import decision_queries

_DECIDE = "let one run: tabularium ledger accept RELEASE --key FILE, or tabularium ledger withhold"


def another_is_open(
    connection: Connection, account: str, product: str, period: str, spec_digest: str
) -> bool:
    """Whether another spec of a product and period was to be reviewed, measured, and not published.

    Who may read its draft could choose by it what to publish instead.
    """
    kinds: defaultdict[str, set[str]] = defaultdict(set)
    for step in decision_queries.reviewed_steps(connection, account, product, period):
        kinds[step.spec_digest].add(step.state)
    kinds.pop(spec_digest, None)
    return any("measured" in taken and "published" not in taken for taken in kinds.values())


def require_published_as_accepted(connection: Connection, charge: Charge, digest: str) -> None:
    """Refuse to publish what is to be reviewed otherwise than as an officer has accepted it."""
    own = decision_queries.draft(connection, charge)
    if own is None and not charge.review:
        return
    drafts = [own] if own is not None else [draft for _, draft in _of_its_spec(connection, charge)]
    accepted = {draft.digest for draft in drafts if draft.accepted}
    where = f"release {charge.release_id}"
    if not accepted:
        laid_out = "is laid out as a draft" if drafts else "is to be reviewed"
        decides = "an officer decides"
        if drafts and drafts[0].needed > 1:
            decides = f"{drafts[0].needed} officers accept it; {drafts[0].signed} have"
        raise WrongState(
            f"{laid_out}, and cannot become published unless {decides}",
            where=where,
            hint=_DECIDE if drafts else "run it again, which lays it out as a draft",
        )
    if digest not in accepted:
        raise Conflict(
            "is not the draft that was accepted",
            where=where,
            hint="publish the draft as it was laid out: tabularium ledger accept "
            f"{charge.release_id} --key FILE",
        )


def require_in_no_draft(connection: Connection, charge: Charge, step: str) -> None:
    """Refuse to end otherwise what belongs to a draft that waits for an officer, or was accepted."""
    own = decision_queries.draft(connection, charge)
    others = _of_its_spec(connection, charge) if charge.review else ()
    if own is not None or any(not each.final for each, _ in others):
        raise WrongState(
            f"is laid out as a draft, and cannot become {step} unless an officer decides",
            where=f"release {charge.release_id}",
            hint=_DECIDE,
        )


def _of_its_spec(connection: Connection, charge: Charge) -> Iterator[tuple[Charge, Draft]]:
    """Go through the charges of a charge's own spec that were laid out, each as it stands."""
    steps = decision_queries.reviewed_steps(connection, charge.account, charge.product, charge.period)
    newest: dict[str, Charge] = {}
    for step in steps:
        if step.spec_digest == charge.spec_digest and newest.get(step.release_id, step).seq <= step.seq:
            newest[step.release_id] = step
    for each in newest.values():
        draft = decision_queries.draft(connection, each)
        if draft is not None:
            yield each, draft
