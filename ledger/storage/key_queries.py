"""Reading what the ledger says of keys: officers', and the agency's for releases."""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, select

from tabularium.ledger.records import Key
from tabularium.ledger.release_keys import ReleaseKey, release_keys_of
from tabularium.ledger.signers import officer_keys_of
from tabularium.ledger.storage.entry_queries import HASHED_BODY, checked_body, last
from tabularium.ledger.storage.schema import DECIDES, entries

_c = entries.c
_ON_KEYS: ColumnElement[bool] = _c.kind.in_(("key", "release_key", "revocation"))
_OF_KEYS = select(HASHED_BODY).where(_c.account == "", _ON_KEYS).order_by(_c.seq)
_KEY = last("account", "subject", named={"account": ""}, among=[DECIDES])


def keys(connection: Connection) -> dict[str, Key]:
    """Return every officer's key that was ever enrolled, by its name."""
    return officer_keys_of(_bodies(connection))


def release_keys(connection: Connection) -> dict[str, ReleaseKey]:
    """Return every key for releases that was ever enrolled, by its name."""
    return release_keys_of(_bodies(connection))


def any_active(connection: Connection) -> bool:
    """Whether any officer's key is enrolled and not revoked."""
    return any(key.active for key in keys(connection).values())


def is_active(connection: Connection, key: str) -> bool:
    """Whether an officer's key is enrolled and not revoked."""
    found = connection.execute(_KEY, {"subject": key}).scalar()
    return found is not None and checked_body(found)["kind"] == "key"


def _bodies(connection: Connection) -> list[dict[str, Any]]:
    return [checked_body(text) for text in connection.execute(_OF_KEYS).scalars()]
