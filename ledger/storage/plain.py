"""The plain case of a charge, which a server can write in one call.

Whoever has the one right to append makes all others wait: for its round trips, and until it is woken. A
server that is told what the account's terms were, and what to write, needs neither. It says no more than
"yes": an account that needs approvals, a partition, other terms by now, a release or an input that is in the
books, a clock behind, a cap that would be passed, all go the way of every other entry, which alone refuses.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from ledger.chain import entries as chain
from ledger.records import Charge, Head, Terms

#: Stands where the server fills in what only the turn can tell; no field of a charge can hold it.
_GAP = "\x00"
_IN_TURN = (
    *("account_reserved", "account_spent", "at", "period_reserved", "period_spent", "prev"),
    *("product_reserved", "product_spent", "reserved_at", "seq"),
)


@dataclass(frozen=True)
class Seen:
    """The terms of an account as this process last saw them, and the hash of the entry that holds them."""

    hash: str
    terms: Terms


def values(
    charge: Charge, seen: Seen, witnessed: Head, now: datetime, tolerance: timedelta
) -> dict[str, Any] | None:
    """Return what the server is asked to write, or ``None`` if the charge is not plain.

    Parameters
    ----------
    witnessed
        The head in the witness file, which the chain must hold.
    """
    terms, at = seen.terms, chain.stamp(now)
    unit = terms.quantum.denominator
    amount = charge.amount * unit
    plain = charge.group is None and not terms.needs_approval and amount.denominator == 1
    if not plain or not terms.open_on(at[:10]) or witnessed.seq == 0:
        return None
    caps = (terms.cap, terms.cap_per_period, terms.cap_per_product)
    body = {**charge.fields(), **dict.fromkeys(_IN_TURN, _GAP), "kind": "reserved", "v": chain.FORMAT}
    parts = chain.canonical(body).split(chain.canonical_text(_GAP))
    if len(parts) != len(_IN_TURN) + 1:
        return None
    return {
        "release_id": charge.release_id,
        "account": charge.account,
        "period": charge.period,
        "product": charge.product,
        "input_digest": charge.input_digest,
        "terms": seen.hash,
        "seen": witnessed.seq,
        "seen_hash": witnessed.hash,
        "now": at,
        "latest": chain.stamp(now + tolerance),
        "amount": int(amount),
        "unit": unit,
        "caps": ",".join("" if cap is None else str(int(cap * unit)) for cap in caps),
        "parts": "\n".join(parts),  # canonical JSON holds no such character
    }


def charged(charge: Charge, head: Head, at: str) -> Charge:
    """Return the charge as the server has written it."""
    return replace(charge, state="reserved", reserved_at=at, changed_at=at, seq=head.seq)
