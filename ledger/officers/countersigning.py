"""What an officer countersigns while officers have keys: whatever favours the spending of an account."""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlalchemy import Connection

from tabularium.ledger.officers.keys import key_id, public_hex, statement
from tabularium.ledger.records import Terms
from tabularium.ledger.refusals import NotApproved
from tabularium.ledger.storage import entry_queries, key_queries
from tabularium.ledger.storage.append import Append


def guarded(connection: Connection, terms: Terms) -> bool:
    """Whether what favours the spending of an account needs an officer's signature."""
    return terms.asks_officers or key_queries.any_active(connection)


def key_option(connection: Connection, terms: Terms | None = None) -> str:
    """Return what a hint adds to a command that favours the spending of an account, or opens one."""
    needed = key_queries.any_active(connection) if terms is None else guarded(connection, terms)
    return " --key FILE" if needed else ""


def countersignature(
    append: Append,
    kind: str,
    fields: dict[str, Any],
    turn: int,
    by: Ed25519PrivateKey | None,
    what: str | None,
    where: str,
    command: str,
) -> dict[str, Any]:
    """Return an officer's signature as fields; none if there is no key, unless ``what`` needs one."""
    if by is not None:
        signer = key_id(public_hex(by))
        require_active(append.connection, signer)
        signature = signed(append, kind, {**fields, "by": signer, "turn": turn}, by)
        return {"by": signer, "signature": signature, "turn": turn}
    if what is not None:
        raise NotApproved(
            f"{what} needs an officer's signature",
            where=where,
            hint=f"sign it with an enrolled key: tabularium ledger {command} … --key FILE",
        )
    return {}


def signed(append: Append, kind: str, fields: dict[str, Any], by: Ed25519PrivateKey) -> str:
    """Return the signature of an entry of this ledger, in hexadecimal."""
    ledger = entry_queries.first_hash(append.connection)
    return by.sign(statement(ledger, kind, fields)).hex()


def require_active(connection: Connection, key: str) -> None:
    """Refuse a key that is not enrolled."""
    if not key_queries.is_active(connection, key):
        raise NotApproved(
            "is not enrolled, or was revoked",
            where=f"key {key}",
            hint="sign with an enrolled key (tabularium ledger keys lists them), or enrol it: "
            "tabularium ledger keys enrol",
        )


def require_active_release_key(connection: Connection, key: str) -> None:
    """Refuse a key for releases with which nothing may be published any more."""
    known = key_queries.release_keys(connection).get(key)
    if known is None or not known.active:
        raise NotApproved(
            "the key for releases that signed it was revoked meanwhile",
            where=f"key {key}",
            hint="run again: it is signed anew, with a key that is enrolled; its noise and its charge stay",
        )


def write_revocation(append: Append, key: str, reason: str, by: Ed25519PrivateKey) -> None:
    """Write, signed with an enrolled officer's key, that a key of an officer or for releases is revoked.

    What only stops things must not fail for a clock that is behind: none is compared.
    """
    signer = key_id(public_hex(by))
    require_active(append.connection, signer)
    turn = key_queries.key_turn(append.connection)
    fields: dict[str, Any] = {"by": signer, "key": key, "reason": reason, "turn": turn}
    append.append("revocation", {**fields, "signature": signed(append, "revocation", fields, by)})
