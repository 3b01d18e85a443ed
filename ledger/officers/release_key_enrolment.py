"""The agency's keys for releases: officers enrol and revoke them, each time with a signature."""

from __future__ import annotations

from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import names
from tabularium.ledger.officers.countersigning import require_active, signed, write_revocation
from tabularium.ledger.officers.keys import checked_public, key_id, public_hex
from tabularium.ledger.refusals import BadValue, Conflict
from tabularium.ledger.release_keys import ReleaseKey
from tabularium.ledger.storage import key_queries
from tabularium.ledger.transactions import Transactions


class ReleaseKeyEnrolment:
    """Keys with which releases are signed; their private halves lie where releases are published."""

    def __init__(self, transactions: Transactions) -> None:
        self._transactions = transactions

    def release_keys(self) -> dict[str, ReleaseKey]:
        """Return every key for releases that was ever enrolled, by its name."""
        with self._transactions.reading() as connection:
            return key_queries.release_keys(connection)

    def enrol_release_key(self, public_key: str, *, agency: str, by: Ed25519PrivateKey) -> ReleaseKey:
        """Enrol a key for releases (32 bytes, hexadecimal), signed with an enrolled officer's key.

        It may sign from then on; a key that is enrolled already goes on beside it.

        Parameters
        ----------
        agency
            Whose key it is.

        Raises
        ------
        NotApproved
            If ``by`` is not an enrolled officer's key.
        Conflict
            If the key was enrolled before, or is an officer's; a revoked key never comes back.
        """
        public = checked_public(public_key)
        name, signer = key_id(public), key_id(public_hex(by))
        agency = names.line(agency, field="agency")
        with self._transactions.appending() as append:
            known = key_queries.release_keys(append.connection).get(name)
            if known is not None and known.active and known.agency == agency:
                return known
            if known is not None:
                raise Conflict("was enrolled before", where=f"key {name}", hint="make a new key")
            if name in key_queries.keys(append.connection) or name == signer:
                raise Conflict(
                    "is an officer's, so it can never sign releases",
                    where=f"key {name}",
                    hint="make a key of the agency's own: tabularium ledger release-key new",
                )
            require_active(append.connection, signer)
            turn = key_queries.key_turn(append.connection)
            fields: dict[str, Any] = {"agency": agency, "by": signer, "key": name, "public_key": public}
            fields["turn"] = turn
            fields["signature"] = signed(append, "release_key", fields, by)
            append.append("release_key", fields, self._transactions.tolerance)
        return self.release_keys()[name]

    def revoke_release_key(self, key: str, *, reason: str, by: Ed25519PrivateKey) -> ReleaseKey:
        """Revoke a key for releases: what is published from now on cannot be signed with it.

        What was published before stays signed.

        Raises
        ------
        BadValue
            If it was never enrolled.
        NotApproved
            If ``by`` is not an enrolled officer's key.
        """
        reason = names.line(reason, field="reason", longest=names.LONGEST_TEXT)
        with self._transactions.appending() as append:
            known = key_queries.release_keys(append.connection).get(key)
            if known is None:
                raise BadValue(
                    "was never enrolled for releases",
                    where=f"key {key}",
                    hint="give all 32 digits, as in: tabularium ledger release-key",
                )
            if known.active:
                write_revocation(append, key, reason, by)
        return self.release_keys()[key]
