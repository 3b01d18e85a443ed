"""A ledger that was put back is read-only until somebody says that its head is the newest.

A backup cannot know what came after it. Unless a second witness names its very head, a restored ledger
therefore has a mark beside its witness file, and accepts no entry while the mark stands. Who lifts it has
the head from elsewhere: the newest certificate, an export that was given away, another machine's witness.
While an officer's key is enrolled it is an officer, who signs; what was said is kept beside the mark.

The mark is this machine's. On a server, the other machines know an old copy by witnesses of their own.
"""

from __future__ import annotations

import json
import os
from datetime import datetime
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger import durable_files as files
from ledger.chain.entries import canonical
from ledger.officers.keys import key_id, public_hex, statement
from ledger.records import Head, Key
from ledger.refusals import BadValue, Conflict, NotApproved, StorageFailed

#: What mends a ledger that is read-only for its mark.
CONFIRM = (
    "hold it against the newest certificate, then say its head, as an officer with --key: "
    "tabularium ledger confirm HASH"
)
_SHORTEST = 16  # digits of the head's hash that must be said


class Restored:
    """The mark of a ledger, beside ``place``: what its files on this machine are named after."""

    def __init__(self, place: Path) -> None:
        self._mark = place.with_name(f"{place.name}.restored")
        self._said = place.with_name(f"{place.name}.confirmed")

    def mark(self, head: Head) -> None:
        """Mark the ledger, durably."""
        files.make_folder(self._mark.parent)
        files.create(self._mark, f"{head.seq} {head.hash}\n".encode())
        files.sync_folder(self._mark.parent)

    @property
    def reason(self) -> str | None:
        """Why no entry is accepted, or ``None``."""
        if not os.path.lexists(self._mark):
            return None
        return "it was put back from a backup, and nobody has said that its head is the newest"

    def confirm(
        self,
        said: str,
        head: Head,
        *,
        chain: str,
        keys: dict[str, Key],
        by: Ed25519PrivateKey | None,
        now: datetime,
    ) -> None:
        """Lift the mark.

        Parameters
        ----------
        said
            The head's hash, or its first 16 digits and more.
        head
            The ledger's.
        chain
            Hash of its first entry.
        keys
            Of officers, by their names.

        Raises
        ------
        Conflict
            If there is no mark.
        BadValue
            If another hash is said.
        NotApproved
            If an officer's key is enrolled, and ``by`` is none.
        StorageFailed
            If it cannot be written down.
        """
        if self.reason is None:
            raise Conflict(
                "there is nothing to confirm: it was not put back from a backup, or that is done",
                where="ledger",
                mend="go on",
            )
        if len(said) < _SHORTEST or not head.hash.startswith(said.lower()):
            raise BadValue(
                "is too short" if len(said) < _SHORTEST else "is not the hash of this ledger's head",
                where="HASH",
                mend=f"give {_SHORTEST} digits of it or more, from the newest certificate, export or witness;"
                " if they name another head, this ledger is not the newest",
            )
        fields: dict[str, str | int] = {"seq": head.seq, "hash": head.hash, "at": now.isoformat()}
        if any(key.active for key in keys.values()):
            fields |= _signed(fields, chain, keys, by)
        self._lift(canonical(fields))

    def _lift(self, line: str) -> None:
        try:
            descriptor = os.open(self._said, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                files.write_all(descriptor, f"{line}\n".encode())
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            self._mark.unlink(missing_ok=True)
            files.sync_folder(self._mark.parent)
        except OSError:
            raise StorageFailed(
                "cannot be written", where=str(self._said), mend="check the folder's owner and its disk"
            ) from None

    def confirmations(self) -> list[dict[str, str | int]]:
        """Return what was said, oldest first."""
        if not self._said.exists():
            return []
        return [json.loads(line) for line in self._said.read_text().splitlines()]


def _signed(
    fields: dict[str, str | int], chain: str, keys: dict[str, Key], by: Ed25519PrivateKey | None
) -> dict[str, str]:
    signer = None if by is None else key_id(public_hex(by))
    if by is None or signer is None or signer not in keys or not keys[signer].active:
        raise NotApproved(
            "an officer with an enrolled key must say that this head is the newest",
            where="ledger",
            mend="give --key",
        )
    text = statement(chain, "confirmation", {**fields, "by": signer})
    return {"by": signer, "signature": by.sign(text).hex()}
