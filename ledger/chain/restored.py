"""A ledger that was put back is read-only until somebody says that its head is the newest.

A backup cannot know what came after it. So whoever restores one appends an entry, ``restored``, behind its
head, and nothing may follow but ``confirmed``: the word of somebody who has the head from elsewhere, from the
newest certificate, an export that was given away, another machine's witness. While an officer's key is
enrolled it is an officer, who signs. Both stand in the chain: every machine sees them, whatever URL it knows
the ledger by, an export carries them, and ``verify`` asks for them.
"""

from __future__ import annotations

from datetime import datetime

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection

from tabularium.ledger.chain.verify_officers import countersigned
from tabularium.ledger.chain.verify_state import LedgerState, broken
from tabularium.ledger.events import Confirmed, Event, LedgerRestored, columns, next_time, seal
from tabularium.ledger.records import Head
from tabularium.ledger.refusals import BadValue, Conflict
from tabularium.ledger.storage import entry_queries, key_queries
from tabularium.ledger.storage.append import Append

#: Why such a ledger accepts no entry, and what mends that.
UNCONFIRMED = "it was put back from a backup, and nobody has said that its head is the newest"
CONFIRM = (
    "hold it against the newest certificate, then say its head, as an officer with --key: "
    "tabularium ledger confirm HASH"
)
_SHORTEST = 16  # digits of the head's hash that must be said


def mark(connection: Connection, now: datetime) -> Head:
    """Append to a ledger that was just put back that it was; return its head.

    One whose backup was made while it waited for a confirmation goes on waiting.
    """
    head, at = entry_queries.head(connection)
    if unconfirmed(connection) is not None:
        return head
    body, entry = seal(head, "restored", next_time(now, at, None), {})
    entry_queries.insert(connection, [(entry, columns(body))])
    return Head(entry.seq, entry.hash)


def unconfirmed(connection: Connection) -> Head | None:
    """Return the head that a ledger had when it was put back, while nobody has confirmed it."""
    last = entry_queries.last_body(connection)
    return Head(last["seq"] - 1, last["prev"]) if last and last["kind"] == "restored" else None


def confirm(append: Append, said: str, by: Ed25519PrivateKey | None) -> None:
    """Append that the head of the ledger that was put back is the newest.

    Parameters
    ----------
    said
        The hash of that head, or its first 16 digits and more.

    Raises
    ------
    Conflict
        If the ledger was not put back, or that is done.
    BadValue
        If another hash is said.
    NotApproved
        If an officer's key is enrolled and ``by`` is none.
    """
    head = unconfirmed(append.connection)
    if head is None:
        raise Conflict(
            "there is nothing to confirm: it was not put back from a backup, or that is done",
            where="ledger",
            hint="go on",
        )
    if len(said) < _SHORTEST or not head.hash.startswith(said.lower()):
        raise BadValue(
            "is too short" if len(said) < _SHORTEST else "is not the hash of the head that was put back",
            where="HASH",
            hint=f"give {_SHORTEST} digits of it or more, from the newest certificate, export or witness;"
            " if they name another head, this ledger is not the newest",
        )
    fields = {"mark": append.head.hash}
    what = "confirming that this head is the newest" if key_queries.any_active(append.connection) else None
    signature = append.signed("confirmed", fields, by, needs=what, where="ledger", command="confirm")
    append.append("confirmed", {**fields, **signature})


def may_follow(state: LedgerState, entry: Event) -> None:
    """Nothing but its confirmation follows the entry that says that the ledger was put back."""
    if state.unconfirmed and not isinstance(entry, Confirmed):
        broken(entry.seq, "follows a restore that nobody has confirmed")


def put_back(state: LedgerState, _entry: LedgerRestored) -> None:
    """A ledger may be put back at any time."""
    state.unconfirmed = True


def confirmed(state: LedgerState, entry: Confirmed) -> None:
    """A restore is confirmed at once, while an officer has a key with a signature."""
    if not state.unconfirmed or entry.mark != entry.prev:
        broken(entry.seq, "confirms what was not put back")
    countersigned(state, entry, 0, "confirms a restore" if state.any_active_key() else None)
    state.unconfirmed = False
