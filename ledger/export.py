"""The whole ledger as one file that can be verified without the database, and put back into one.

The file is ASCII text::

    tabularium ledger export 1\n
    <hash> <canonical JSON of entry 1>\n
    …
    end <number of entries> <hash of the last> <SHA-256 of every byte before this line>\n

A change, an omission, an exchange or a cut anywhere breaks a hash, the chain, or the last line. Who rewrites
all of it, last line included, makes another ledger: hold its head against a certificate.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

from sqlalchemy import URL, Connection

from tabularium.ledger import durable_files as files
from tabularium.ledger.events import columns, hash_matches, latest, make_entry, next_time
from tabularium.ledger.ledger import Ledger
from tabularium.ledger.records import EMPTY, Entry, Head
from tabularium.ledger.refusals import ChainBroken, Conflict, ReadOnly, StorageFailed
from tabularium.ledger.storage import queries
from tabularium.ledger.storage.database import NOT_A_LEDGER, WAIT_SECONDS, Database
from tabularium.ledger.verify import Verification, Verified, in_time, verify_rows, without_collector
from tabularium.ledger.witness import Witness

MAGIC = b"tabularium ledger export 1\n"
_WHERE = "exported ledger"
_LONGEST = 1 << 20  # bytes of a line
_STRIDE = 2000  # entries that are written at once


def export(ledger: Ledger, path: Path) -> Head:
    """Write every entry of ``ledger`` to a new file, durably; return the head.

    The entries go out as they stand, and their hashes are checked: :func:`verify_export` judges them.

    Raises
    ------
    ChainBroken
        Naming the first entry that is not what its hash says, or does not name the one before. The file is
        written all the same.
    Conflict
        If there is a file at ``path``.
    StorageFailed
        If it cannot be written.
    """
    if path.exists():
        raise Conflict("is there already", where=str(path), hint="name a new file")
    draft = path.with_name(f".{path.name}-{uuid4().hex}")
    try:
        with draft.open("xb") as file:
            draft.chmod(0o600)
            check, head, bad = sha256(), EMPTY, 0
            for line, last, complete in _lines(ledger):
                check.update(line)
                file.write(line)
                head, bad = last, bad or (0 if complete else last.seq)
            file.write(_last_line(head, check.hexdigest()))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        files.sync_folder(path.absolute().parent)
    except OSError:
        raise StorageFailed(
            "cannot be written", where=str(path), hint="check the disk's space and the folder's owner"
        ) from None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    if bad:
        raise ChainBroken(
            f"entry {bad} has been altered; every entry was written to {path} as it stands",
            where=ledger.name,
            hint="keep that file for the record, and restore an export that verifies",
        )
    return head


def verify_export(
    path: Path, known_heads: Iterable[Head] = (), *, see: Callable[[Entry], None] = lambda _: None
) -> Verified:
    """Verify an exported file as ``Ledger.verify`` does the database.

    ``see``: called with every entry once it is verified.

    Raises ``ChainBroken``, naming the first bad entry, the end of the file if that is wrong, or a head that
    it lacks. Raises ``StorageFailed`` if the file cannot be read.
    """
    verification = Verification(latest(datetime.now(UTC)))
    verification.expect(known_heads)
    with without_collector():
        for entry in _read(path, verification):
            see(entry)
    lacking = verification.lacking()
    if lacking is not None:
        _lacks(lacking)
    return in_time(verification.result(), _WHERE)


def restore(
    path: Path,
    url: str | URL,
    known_heads: Iterable[Head] = (),
    *,
    wait: float = WAIT_SECONDS,
    scratch: bool = False,
) -> Verified:
    """Put an exported ledger into a database that is new or empty, all of it or nothing.

    Every entry is verified as it is written. The file must hold every known head, and those in the witness
    files if there are any: what is older is refused, because charges that it has forgotten would be paid for
    again. A wrong clock, then or now, is no reason to be without the ledger. An entry is added that says that
    it was put back; no other is accepted until its head is confirmed
    (:meth:`tabularium.ledger.Ledger.confirm`).

    ``scratch``: whether it is to be thrown away, as in a drill: then second witnesses are neither asked nor
    reported, and nothing is added.

    Raises ``ChainBroken``: as :func:`verify_export`; nothing is written then. Raises ``Conflict`` if the
    database holds entries.
    """
    database, verification = Database(url, wait), Verification(latest(datetime.now(UTC)))
    backend = database.backend
    witness = Witness(backend.witness, None, wait) if scratch else backend.open_witness()
    try:
        with database.write() as connection, without_collector():
            if queries.head(connection) != EMPTY:
                raise Conflict(
                    "holds entries already", where=database.name, hint="restore into a new database"
                )
            entries = _read(path, verification)
            while some := list(islice(entries, _STRIDE)):
                queries.insert(connection, [(entry, columns(entry.body)) for entry in some])
            first = verification.state.first
            for known in sorted({*known_heads, *witness.heads(first)}):
                if not queries.holds(connection, known):
                    _lacks(known.seq)
            witness.prepare(first)
            head = verification.head if scratch else append_restore_marker(connection, datetime.now(UTC))
        # Whether the copy goes on in the chain's place is only decided with its confirmation.
        witness.advance(head)
        return verification.result()
    finally:
        database.close()


def append_restore_marker(connection: Connection, now: datetime) -> Head:
    """Append to a ledger that was just put back that it was; return its head.

    One whose backup was made while it waited for a confirmation goes on waiting.
    """
    head = queries.chain_head(connection)
    if head.kind == "restored":
        return head.head
    body, entry = make_entry(head.head, "restored", next_time(now, head.at, None), {})
    queries.insert(connection, [(entry, columns(body))])
    return Head(entry.seq, entry.hash)


def _lines(ledger: Ledger) -> Iterator[tuple[bytes, Head, bool]]:
    """Go through the lines with their heads, and whether each is what its hash says and follows the last."""
    yield MAGIC, EMPTY, True
    before = EMPTY
    for entry in ledger.entries():
        line = f"{entry.hash} {entry.text}\n"
        if not line.isascii() or "\n" in line[:-1]:
            _broken(f"entry {entry.seq} has been altered: it is not canonical JSON")
        follows = (before.seq + 1, before.hash) == (entry.seq, entry.prev)
        before = Head(entry.seq, entry.hash)
        yield line.encode("ascii"), before, follows and hash_matches(entry.text, entry.hash)


def _read(path: Path, verification: Verification) -> Iterator[Entry]:
    """Go through the entries of a file, each once it is verified; at the end, its last line is as well."""
    check = sha256()
    try:
        with path.open("rb") as file:
            line = file.readline(_LONGEST)
            if line != MAGIC:
                _broken("the first line is not that of an exported ledger")
            while True:
                check.update(line)
                line, before = file.readline(_LONGEST), verification.head
                if line.startswith(b"end "):
                    break
                if not line:
                    _broken(f"it is cut off after entry {before.seq}")
                if not line.endswith(b"\n") or line[64:65] != b" " or not line.isascii():
                    _broken(f"entry {before.seq + 1} is cut off or not a line of an exported ledger")
                named, text = line[:64].decode("ascii"), line[65:-1].decode("ascii")
                verification.take(before.seq + 1, before.hash, named, text)
                yield Entry(before.seq + 1, before.hash, named, text)
            _ends_with(line, verification.head, check.hexdigest())
            if file.read(1):
                _broken("something stands after the last line")
    except OSError:
        raise StorageFailed("cannot be read", where=str(path), hint="check the path and its owner") from None


def _last_line(head: Head, check: str) -> bytes:
    return f"end {head.seq} {head.hash} {check}\n".encode("ascii")


def _ends_with(line: bytes, head: Head, check: str) -> None:
    if not line.startswith(f"end {head.seq} {head.hash} ".encode("ascii")):
        _broken(f"it ends with entry {head.seq}, which is not the one that its last line names")
    if line != _last_line(head, check):
        _broken("its bytes are not those that its last line names")


def _lacks(seq: int) -> NoReturn:
    _broken(f"it lacks entry {seq}, which a certificate, a witness or a measurement file names, so it is old")


def _broken(what: str) -> NoReturn:
    raise ChainBroken(what, where=_WHERE, hint="take another copy of the export")


@dataclass(frozen=True)
class Migrated:
    """What the chain holds, and why the ledger takes no entry all the same (``None``: it does)."""

    verified: Verified
    fault: str | None


def migrate(url: str | URL, *, wait: float = WAIT_SECONDS) -> Migrated:
    """Make the tables of a ledger if there are none, and put their guard in place.

    The chain is walked first, in the same transaction and under the one right to append: a ledger that does
    not verify, or is an old copy, is not touched. There is one revision of the tables until the first public
    release.

    Raises
    ------
    ChainBroken
        If the chain does not verify; nothing is changed then.
    ReadOnly
        If the chain lacks the witness's head.
    StorageFailed
        If the database belongs to something else or to another release.
    """
    database = Database(url, wait)
    backend = database.backend
    try:
        if database.fault == NOT_A_LEDGER:
            raise StorageFailed("is not a ledger", where=database.name, hint="check the URL")
        with database.write() as connection:
            state = verify_rows(connection)
            heads = backend.open_witness().heads(queries.first_hash(connection))
            lacking = next((head for head in heads if not queries.holds(connection, head)), None)
            if lacking is not None:
                raise ReadOnly(
                    f"it lacks entry {lacking.seq} as the witness file names it",
                    where=database.name,
                    hint="restore the newest backup, then migrate that",
                )
            backend.guard(connection)
            return Migrated(state, backend.guard_fault(connection))
    finally:
        database.close()
