"""The witness: a small file outside the database that remembers the last entry.

After every commit the new head is written here. A database that lacks the witnessed head is an old
backup, or somebody's copy, and accepts no entry: charges that it has forgotten would be spent again.
A crash between the commit and this write leaves the witness behind the ledger, which is harmless.

On a server a ledger can be reached by more than one URL. Its witness is therefore named after its first
entry, and every URL by which it was reached is a link to that file: so a database that was emptied, or
exchanged for another, is seen too. A file in the place of the link is what earlier releases wrote; it is
read, and taken over with the next entry.

The witness of an SQLite file lies beside it, and a copy of both forgets together. Where a folder for
witnesses is named (``TABULARIUM_WITNESS``), the chain's own witness is kept there as well.

The file has two fixed records, and the older one is overwritten in place; a torn write can therefore spoil
only the record that was older. Writers take turns with a lock on the file itself, and a head never replaces
a later one.

Every entry is written at once, so that no process can die before it stands there. The disk is told to keep it
by a process's first entry, by the first in every second after that, and when the ledger is closed. A loss of
power may take the last of it back, never any of the ledger; and an older witness is harmless unless the
ledger's own disk is lost at the same moment. A sync for every entry would halve what a disk can do.
"""

from __future__ import annotations

import os
import re
import time
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from ledger import durable_files as files
from ledger.records import EMPTY, GENESIS, Head
from ledger.refusals import LedgerError, StorageFailed

SYNC_SECONDS = 1.0
_RECORD = 4096  # a record to a page, at its beginning: the two are never torn by one write
_LINE = re.compile(rb"([0-9]{20}) ([0-9a-f]{64}) ([0-9a-f]{16}) *\n")


class WitnessDamaged(LedgerError):
    """The witness file holds no whole record."""


class Witness:
    """The witness file at ``path``, made when the first head is written.

    Parameters
    ----------
    lock
        A lock file, held while the witness is made.
    shared
        Whether other paths may lead to the same ledger, so that ``path`` is a link to the chain's own file.
    beside
        A folder in which the chain's own witness is kept too, under its name, whatever ``path`` is.
    called
        What to call it in messages; ``None``: the file's name.
    """

    def __init__(
        self,
        path: Path,
        lock: Path,
        wait: float,
        *,
        shared: bool = False,
        beside: Path | None = None,
        called: str | None = None,
    ) -> None:
        self.path = path
        self._lock = lock
        self._wait = wait
        self._shared = shared
        self._beside = beside
        self._called = called
        self._twin: tuple[str, Witness] | None = None  # the one in that folder, and the chain it is of
        self._prepared: str | None = None  # the chain for which that one is known to be writable
        self._settled: str | None = None  # the chain that ``path`` leads to, for all that this process knows
        self._synced: float | None = None  # when this process last told the disk
        self._pending = False  # whether it has written since

    def heads(self, first: str) -> list[Head]:
        """Return every head that the chain must hold whose first entry has the hash ``first``.

        Parameters
        ----------
        first
            Zeros while there is no entry.
        """
        named = [self.read()]
        if self._shared and (named[0] is None or self._settled != first):
            named.append(self._at(self._of_chain(first)))
        twin = self._other(first)
        if twin is not None:
            named.append(twin.read())
        return [head for head in dict.fromkeys(named) if head is not None]

    def read(self) -> Head | None:
        """Return the latest head written, or ``None`` if there is no witness yet.

        Raises
        ------
        WitnessDamaged
            If the file is there but holds no whole record.
        StorageFailed
            If it cannot be read.
        """
        return self._at(self.path)

    def _at(self, path: Path) -> Head | None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
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

    def advance(self, head: Head, first: str = GENESIS) -> None:
        """Write ``head`` unless the witness already names a later one.

        Parameters
        ----------
        first
            The hash of the chain's first entry, where other paths may lead to the same ledger.
        """
        if head == EMPTY:
            return
        try:
            if self._shared and (self._settled != first or not self.path.exists()):
                self._settle(first)
            descriptor = self._open()
            try:
                if not files.lock(descriptor, self._wait):
                    raise BlockingIOError
                latest, older = self._latest(descriptor)
                if head.seq > latest.seq:
                    os.pwrite(descriptor, _record(head), older * _RECORD)
                    self._pending = True
                if self._synced is None or time.monotonic() - self._synced >= SYNC_SECONDS:
                    self._sync(descriptor)
            finally:
                files.unlock(descriptor)
        except OSError:
            raise self._failed("written") from None
        twin = self._other(first)
        if twin is not None:
            twin.advance(head)

    def keep(self) -> None:
        """Let the disk keep what this process has written."""
        if self._twin is not None:
            self._twin[1].keep()
        if not self._pending:
            return
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        except OSError:
            raise self._failed("written") from None
        try:
            self._sync(descriptor)
        except OSError:
            raise self._failed("written") from None
        finally:
            os.close(descriptor)

    def _sync(self, descriptor: int) -> None:
        files.sync_data(descriptor)
        self._synced, self._pending = time.monotonic(), False

    def _other(self, first: str) -> Witness | None:
        """Return the witness in the folder beside, if there is one and the chain has begun."""
        if self._beside is None or first == GENESIS:
            return None
        if self._twin is None or self._twin[0] != first:
            path = self._beside / f"chain-{first}.witness"
            lock = self._beside / "locks" / "witness.lock"
            self._twin = first, Witness(path, lock, self._wait, called=str(path))
        return self._twin[1]

    def prepare(self, first: str) -> None:
        """See, before anything is committed, that the witness in the folder beside can be written."""
        if self._beside is None or self._prepared == first:
            return
        twin = self._other(first)
        try:
            files.make_folder(self._beside / "locks")
            if twin is not None:
                os.close(twin._open())
            elif not os.access(self._beside, os.W_OK):
                raise PermissionError
        except OSError:
            raise StorageFailed(
                "the folder of TABULARIUM_WITNESS cannot be written by this user; nothing was committed",
                where=str(self._beside),
                mend="give every user who runs releases a folder of his own there, with mode 0700",
            ) from None
        self._prepared = first

    def _of_chain(self, first: str) -> Path:
        return self.path.with_name(f"chain-{first}.witness")

    def _settle(self, first: str) -> None:
        """Let ``path`` lead to the chain's own file, whichever of the two there were."""
        own = self._of_chain(first)
        with files.turn(self._lock, self._wait) as mine:
            if not mine:
                raise BlockingIOError
            if not own.exists():
                _make(own, self.path.read_bytes() if self.path.exists() else _record(EMPTY) * 2)
            elif not self.path.is_symlink():
                before = self.read()
                if before is not None:
                    Witness(own, self._lock, self._wait).advance(before)
            if not (self.path.is_symlink() and self.path.readlink() == Path(own.name)):
                draft = self.path.with_name(self.path.name + ".new")
                draft.unlink(missing_ok=True)
                draft.symlink_to(own.name)
                draft.replace(self.path)
                files.sync_folder(own.parent)
        self._settled = first

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
                _make(self.path, _record(EMPTY) * 2)

    def _latest(self, descriptor: int) -> tuple[Head, int]:
        """Return the latest head and the position of the record to overwrite next."""
        both = os.pread(descriptor, 2 * _RECORD, 0)
        heads = [_parse(both[place * _RECORD :][:_RECORD]) for place in (0, 1)]
        whole = [(head, place) for place, head in enumerate(heads) if head is not None]
        if not whole:
            raise WitnessDamaged(
                "the witness file is damaged",
                where=self._file(),
                mend="verify the ledger against the newest certificate, then remove the file",
            )
        head, place = max(whole)
        return head, 1 - place

    def _file(self) -> str:
        """Return the name of the file itself, not of a link to it."""
        if self._called is not None:
            return self._called
        with suppress(OSError, RuntimeError):
            return self.path.resolve().name
        return self.path.name

    def _failed(self, how: str) -> StorageFailed:
        return StorageFailed(
            f"the witness file could not be {how}; what was committed stands in the ledger",
            where=self._file(),
            mend="check the disk, the file's owner and processes that hang, then run again",
        )


def _make(path: Path, content: bytes) -> None:
    """Make a file whole or not at all."""
    draft = path.with_name(path.name + ".new")
    files.create(draft, content)
    draft.replace(path)
    files.sync_folder(path.parent)


def _record(head: Head) -> bytes:
    line = f"{head.seq:020d} {head.hash}".encode("ascii")
    check = sha256(line).hexdigest()[:16].encode("ascii")
    return (line + b" " + check).ljust(_RECORD - 1) + b"\n"


def _parse(record: bytes) -> Head | None:
    found = _LINE.fullmatch(record)
    if not found or sha256(record[:85]).hexdigest()[:16].encode("ascii") != found[3]:
        return None
    return Head(int(found[1]), found[2].decode("ascii"))
