"""The witness: the last entry of a ledger, remembered in files outside the database.

After every commit the new head is written here. A database that lacks a head that is witnessed is an old
backup, or somebody's copy, and accepts no entry: charges that it has forgotten would be paid for again.
A crash between the commit and this write leaves the witness behind the ledger, which is harmless.

A witness file has a line for each head, its number and its hash (86 bytes); lines are only ever added, under
a lock on the file, each later than the one before. It appears with its first line. A last line that a loss of
power tore has no end, and is passed over; any other damage at the end makes the ledger read-only. A file that
was cut where a line ends looks like an older one. There are two files:

- the *place's*, named after where the ledger lies. It sees that the database was emptied or exchanged.
- the *chain's*, named after the first entry, in a folder that all ledgers of a machine share. It sees that a
  copy went on elsewhere, or that the place's file is old too. For an SQLite file it is kept only where that
  folder is named (``TABULARIUM_WITNESS``).

Every head is written at once, so that no process can die before it stands there. It is synced to disk
by a process's first entry, by the first in every second after that, and when the ledger is closed: a sync for
every entry would halve what a disk can do. A loss of power may so take back the last heads, but no entry;
that matters only if the ledger's own disk is lost at the same moment.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tabularium.ledger import durable_files as files
from tabularium.ledger.records import EMPTY, GENESIS, Head
from tabularium.ledger.refusals import LedgerError, StorageFailed

SYNC_SECONDS = 1.0
#: What is reported where a ledger has no witness but the one next to its file.
NO_SECOND = (
    "no second witness: each publication folder remembers only its own releases, so a restored home may have"
    " forgotten what was spent (set TABULARIUM_WITNESS to a folder on another disk)"
)
_LINE = re.compile(rb"^([0-9]{20}) ([0-9a-f]{64})$", re.MULTILINE)
_APPEND = os.O_RDWR | os.O_APPEND
_TAIL = 512  # bytes in which the last line is found, unless they were damaged


class WitnessDamaged(LedgerError):
    """A witness file is not what this program leaves, whole or torn."""


class HeadFile:
    """One file of heads, the latest on its last line; it is made when the first is written."""

    def __init__(self, path: Path, wait: float) -> None:
        self.path, self._wait = path, wait
        self._synced: float | None = None  # when this process last synced
        self._pending = False  # whether it has written since

    def latest(self) -> Head | None:
        """Return the latest head written, or ``None`` if there is none yet.

        Raises ``WitnessDamaged`` if the file holds no whole line, or something after the last one that no
        torn write leaves. Raises ``StorageFailed`` if it cannot be read.
        """
        if not self.path.exists():
            return None
        with self._opened("read", os.O_RDONLY) as descriptor:
            return self._last_line(descriptor)

    def check_writable(self) -> None:
        """Raise ``OSError`` if the file is there and cannot be written."""
        with suppress(FileNotFoundError):
            os.close(os.open(self.path, _APPEND))

    def append(self, head: Head) -> None:
        """Write ``head`` unless the file names one as late already."""
        with self._translated_errors("written"):
            if not self.path.exists() and self._begin(head):
                return
        with self._opened("written", _APPEND) as descriptor:
            if not files.lock(descriptor, self._wait):
                raise BlockingIOError
            if head.seq > self._last_line(descriptor).seq:
                self._write(descriptor, head)
            if self._synced is None or time.monotonic() - self._synced >= SYNC_SECONDS:
                self._sync(descriptor)

    def _begin(self, head: Head) -> bool:
        """Make the file with its first line, durably; tell whether nobody else was first."""
        aside = self.path.with_name(f".{self.path.name}-{os.getpid()}-{threading.get_ident()}")
        files.create(aside, _line(head))
        try:
            os.link(aside, self.path)
        except FileExistsError:
            return False
        finally:
            aside.unlink()
        files.sync_folder(self.path.parent)
        self._synced = time.monotonic()
        return True

    def keep(self) -> None:
        """Let the disk keep what this process has written."""
        if self._pending and self.path.exists():
            with self._opened("written", os.O_RDWR) as descriptor:
                self._sync(descriptor)

    @contextmanager
    def _opened(self, how: str, flags: int) -> Iterator[int]:
        with self._translated_errors(how):
            descriptor = os.open(self.path, flags)
            try:
                yield descriptor
            finally:
                files.unlock(descriptor)

    @contextmanager
    def _translated_errors(self, how: str) -> Iterator[None]:
        try:
            yield
        except OSError:
            raise StorageFailed(
                f"the witness file could not be {how}; what was committed stands in the ledger",
                where=str(self.path),
                hint="check the disk, the file's owner and processes that hang, then run again",
            ) from None

    def _last_line(self, descriptor: int) -> Head:
        size = os.fstat(descriptor).st_size
        for length in (min(_TAIL, size), size):
            tail = os.pread(descriptor, length, size - length)
            line = max(_LINE.finditer(tail), key=re.Match.start, default=None)
            if line is not None and b"\n" not in tail[line.end() + 1 :]:
                return Head(int(line[1]), line[2].decode("ascii"))
        raise WitnessDamaged(
            "the witness file is damaged",
            where=str(self.path),
            hint="verify the ledger against the newest certificate, then remove the file",
        )

    def _write(self, descriptor: int, head: Head) -> None:
        size = os.fstat(descriptor).st_size
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        files.write_all(descriptor, b"\n" * torn + _line(head))
        self._pending = True

    def _sync(self, descriptor: int) -> None:
        files.sync_data(descriptor)
        self._synced, self._pending = time.monotonic(), False


def _line(head: Head) -> bytes:
    return f"{head.seq:020d} {head.hash}\n".encode("ascii")


class Witness:
    """The witness of the ledger at one place.

    Parameters
    ----------
    chains
        The folder of the chains' files, if they are kept.
    wait
        Seconds to wait for other writers.
    """

    def __init__(self, path: Path, chains: Path | None, wait: float) -> None:
        self._file = HeadFile(path, wait)
        self._chains, self._wait = chains, wait
        self._of_chain: dict[str, HeadFile] = {}  # first entry -> its file
        self._prepared: str | None = None  # the chain whose file is known to be writable

    @property
    def elsewhere(self) -> bool:
        """Whether heads are kept in another place as well."""
        return self._chains is not None

    def heads(self, first: str) -> list[Head]:
        """Return the heads that the chain must hold whose first entry is ``first`` (zeros: there is none)."""
        named = (file.latest() for file in self._files(first))
        return [head for head in dict.fromkeys(named) if head is not None]

    def prepare(self, first: str) -> None:
        """See, before anything is committed, that the chain's file can be written; else ``StorageFailed``."""
        if self._chains is None or self._prepared == first:
            return
        try:
            files.make_folder(self._chains)
            if not os.access(self._chains, os.W_OK):
                raise PermissionError
            for file in self._files(first)[1:]:
                file.check_writable()
        except OSError:
            raise StorageFailed(
                "the folder of witnesses (TABULARIUM_WITNESS) cannot be written by this user; nothing was"
                " committed",
                where=str(self._chains),
                hint="give every user who runs releases a folder of his own there, with mode 0700",
            ) from None
        self._prepared = first

    def advance(self, head: Head, first: str = GENESIS) -> None:
        """Write ``head``, unless a later one stands there already."""
        for file in self._files(first) if head != EMPTY else ():
            file.append(head)

    def keep(self) -> None:
        """Let the disk keep what this process has written."""
        for file in (self._file, *self._of_chain.values()):
            file.keep()

    def _files(self, first: str) -> list[HeadFile]:
        if self._chains is None or first == GENESIS:
            return [self._file]
        if first not in self._of_chain:
            self._of_chain[first] = HeadFile(self._chains / f"chain-{first}.witness", self._wait)
        return [self._file, self._of_chain[first]]
