"""The witness: a small file outside the database that remembers the last entry.

After every commit the new head is written here. A database that lacks the witnessed head is an old
backup, or somebody's copy, and accepts no entry: charges that it has forgotten would be spent again.
A crash between the commit and this write leaves the witness behind the ledger, which is harmless.

The file has two fixed records, and the older one is overwritten in place and synced; a torn write can
therefore spoil only the record that was older. Writers take turns with a lock on the file itself, and a
head never replaces a later one.
"""

from __future__ import annotations

import os
import re
from hashlib import sha256
from pathlib import Path

from ledger import files
from ledger.errors import LedgerError, StorageFailed
from ledger.records import EMPTY, Head

_RECORD = 4096  # a record to a page: the two are never torn by one write
_LINE = re.compile(rb"([0-9]{20}) ([0-9a-f]{64}) ([0-9a-f]{16}) *\n")


class WitnessDamaged(LedgerError):
    """The witness file holds no whole record."""


class Witness:
    """The witness file at ``path``, made when the first head is written."""

    def __init__(self, path: Path, lock: Path, wait: float) -> None:
        self.path = path
        self._lock = lock  # held while the file is made
        self._wait = wait

    def read(self) -> Head | None:
        """Return the latest head written, or ``None`` if there is no witness yet.

        Raises
        ------
        WitnessDamaged
            If the file is there but holds no whole record.
        StorageFailed
            If it cannot be read.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError:
            raise self._failed("read") from None
        try:
            return self._latest(descriptor)[0]
        except OSError:
            raise self._failed("read") from None
        finally:
            os.close(descriptor)

    def advance(self, head: Head) -> None:
        """Write ``head``, durably, unless the witness already names a later one."""
        try:
            descriptor = self._open()
            try:
                if not files.lock(descriptor, self._wait):
                    raise BlockingIOError
                latest, older = self._latest(descriptor)
                if head.seq > latest.seq:
                    os.pwrite(descriptor, _record(head), older * _RECORD)
                    os.fsync(descriptor)
            finally:
                files.unlock(descriptor)
        except OSError:
            raise self._failed("written") from None

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CLOEXEC
        try:
            return os.open(self.path, flags)
        except FileNotFoundError:
            self._create()
            return os.open(self.path, flags)

    def _create(self) -> None:
        """Make the file whole or not at all; whoever comes second uses the first one's."""
        with files.turn(self._lock, self._wait) as mine:
            if not mine:
                raise BlockingIOError
            if not self.path.exists():
                draft = self.path.with_name(self.path.name + ".new")
                files.create(draft, _record(EMPTY) * 2)
                draft.replace(self.path)
                files.sync_folder(self.path.parent)

    def _latest(self, descriptor: int) -> tuple[Head, int]:
        """Return the latest head and the position of the record to overwrite next."""
        heads = [_parse(os.pread(descriptor, _RECORD, place * _RECORD)) for place in (0, 1)]
        whole = [(head, place) for place, head in enumerate(heads) if head is not None]
        if not whole:
            raise WitnessDamaged(
                "the witness file is damaged",
                where=self.path.name,
                mend="verify the ledger against the newest certificate, then remove the file",
            )
        head, place = max(whole)
        return head, 1 - place

    def _failed(self, how: str) -> StorageFailed:
        return StorageFailed(
            f"the witness file could not be {how}; what was committed stands in the ledger",
            where=self.path.name,
            mend="check the disk, the file's owner and processes that hang, then run again",
        )


def _record(head: Head) -> bytes:
    line = f"{head.seq:020d} {head.hash}".encode("ascii")
    check = sha256(line).hexdigest()[:16].encode("ascii")
    return (line + b" " + check).ljust(_RECORD - 1) + b"\n"


def _parse(record: bytes) -> Head | None:
    found = _LINE.fullmatch(record)
    if not found or sha256(record[:85]).hexdigest()[:16].encode("ascii") != found[3]:
        return None
    return Head(int(found[1]), found[2].decode("ascii"))
