r"""The whole ledger as one file that can be verified without the database, and put back into one.

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
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import NoReturn
from uuid import uuid4

from sqlalchemy import URL, Connection

from ledger import durable_files as files
from ledger.chain import entries as chain
from ledger.chain.verify import Audit, Verified, in_time
from ledger.chain.verify_state import without_collector
from ledger.ledger import Ledger
from ledger.records import EMPTY, GENESIS, Entry, Head
from ledger.refusals import ChainBroken, Conflict, StorageFailed
from ledger.storage import entry_queries as queries
from ledger.storage import schema
from ledger.storage.database import WAIT_SECONDS, Database

MAGIC = b"tabularium ledger export 1\n"
_END = re.compile(rb"end (0|[1-9][0-9]{0,18}) ([0-9a-f]{64}) ([0-9a-f]{64})\n")
_LONGEST = 1 << 20
_STRIDE = 2000


def export(books: Ledger, path: Path) -> Head:
    """Write every entry of ``books`` to a new file, durably; return the head.

    The entries go out as they stand: :func:`verify_export` is what judges them.

    Raises
    ------
    Conflict
        If there is a file at ``path``.
    StorageFailed
        If it cannot be written.
    """
    if path.exists():
        raise Conflict("is there already", where=str(path), mend="name a new file")
    draft = path.with_name(f".{path.name}-{uuid4().hex}")
    try:
        with draft.open("xb") as file:
            draft.chmod(0o600)
            check, head = sha256(), EMPTY
            for line, last in _lines(books):
                check.update(line)
                file.write(line)
                head = last
            file.write(f"end {head.seq} {head.hash} {check.hexdigest()}\n".encode("ascii"))
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        files.sync_folder(path.absolute().parent)
    except OSError:
        raise StorageFailed(
            "cannot be written", where=str(path), mend="check the disk's space and the folder's owner"
        ) from None
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
    return head


def verify_export(path: Path, known_heads: Iterable[Head] = ()) -> Verified:
    """Walk an exported file as ``Ledger.verify`` walks the database.

    Raises
    ------
    ChainBroken
        Naming the first bad entry, the end of the file if that is wrong, or a head that it lacks.
    StorageFailed
        If the file cannot be read.
    """
    return in_time(_verified(path, known_heads), "exported ledger")


def _verified(path: Path, known_heads: Iterable[Head]) -> Verified:
    audit = Audit(latest=chain.latest(datetime.now(UTC)))
    audit.seek(known_heads)
    with without_collector():
        for _entry in _read(path, audit):
            pass
    return _complete(audit)


def restore(
    path: Path, url: str | URL, known_heads: Iterable[Head] = (), *, wait: float = WAIT_SECONDS
) -> Verified:
    """Put an exported ledger into a database that is new or empty.

    The file is verified first. It must hold every known head, and the one in the witness file beside the
    database if there is one: what is older is refused, because charges that it has forgotten would be paid
    for again.

    Raises
    ------
    ChainBroken
        As :func:`verify_export`; nothing is written then.
    Conflict
        If the database holds entries.
    """
    database = Database(url, wait)
    try:
        witness, first = database.backend.witnessed(), _first(path)
        # A wrong clock, then or now, is no reason to be without the books: the heads say what they lack.
        found = _verified(path, [*known_heads, *witness.heads(first)])
        witness.prepare(first)
        with database.write() as connection:
            if queries.head(connection)[0] != EMPTY:
                raise Conflict(
                    "holds entries already", where=database.name, mend="restore into a new database"
                )
            _insert_all(connection, path)
            if queries.head(connection)[0] != found.head:
                raise ChainBroken("the file changed while it was read", where=str(path))
        witness.advance(found.head, first)
        return found
    finally:
        database.close()


def _first(path: Path) -> str:
    """Return the hash of the first entry as the file has it, before anything is verified."""
    try:
        with path.open("rb") as file:
            file.readline(_LONGEST)
            found = re.match(rb"[0-9a-f]{64} ", file.readline(_LONGEST))
    except OSError:
        return GENESIS
    return found[0][:64].decode("ascii") if found else GENESIS


def _lines(books: Ledger) -> Iterator[tuple[bytes, Head]]:
    yield MAGIC, EMPTY
    for entry in books.entries():
        line = f"{entry.hash} {entry.text}\n"
        if not line.isascii() or "\n" in line[:-1]:
            _broken(f"entry {entry.seq} has been altered: it is not canonical JSON")
        yield line.encode("ascii"), Head(entry.seq, entry.hash)


def _read(path: Path, audit: Audit) -> Iterator[tuple[str, str, str]]:
    """Go through a file: the hash before, hash and text of every entry, once ``audit`` finds it in order."""
    check, ended = sha256(), False
    try:
        with path.open("rb") as file:
            if file.readline(_LONGEST) != MAGIC:
                _broken("the first line is not that of an exported ledger")
            check.update(MAGIC)
            while line := file.readline(_LONGEST):
                if line.startswith(b"end "):
                    _ends(line, audit, check.hexdigest())
                    ended = True
                    if file.read(1):
                        _broken("something stands after the last line")
                    break
                if not line.endswith(b"\n") or line[64:65] != b" " or not line.isascii():
                    _broken(f"entry {audit.seq + 1} is cut off or not a line of an exported ledger")
                check.update(line)
                named, text = line[:64].decode("ascii"), line[65:-1].decode("ascii")
                before = audit.hash
                audit.take(audit.seq + 1, before, named, text)
                yield before, named, text
    except OSError:
        raise StorageFailed("cannot be read", where=str(path), mend="check the path and its owner") from None
    if not ended:
        _broken(f"it is cut off after entry {audit.seq}")


def _ends(line: bytes, audit: Audit, check: str) -> None:
    found = _END.fullmatch(line)
    if found is None:
        _broken("the last line is damaged")
    if (int(found[1]), found[2].decode()) != (audit.head.seq, audit.head.hash):
        _broken(f"it ends with entry {audit.seq}, which is not the one that its last line names")
    if found[3].decode() != check:
        _broken("its bytes are not those that its last line names")


def _complete(audit: Audit) -> Verified:
    lacking = audit.lacking()
    if lacking is not None:
        _broken(
            f"it lacks entry {lacking}, which a certificate, a witness or a measurement file names, so it is"
            " old"
        )
    return audit.result()


def _insert_all(connection: Connection, path: Path) -> None:
    audit, rows = Audit(), []
    for before, named, text in _read(path, audit):
        entry = Entry(audit.seq, before, named, text)
        rows.append((entry, schema.repeated(entry.body)))
        if len(rows) == _STRIDE:
            queries.insert(connection, rows)
            rows = []
    if rows:
        queries.insert(connection, rows)


def _broken(what: str) -> NoReturn:
    raise ChainBroken(what, where="exported ledger", mend="take another copy of the export") from None
