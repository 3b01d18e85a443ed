"""The measurement store: one durable, self-describing file per release and fence.

A file stands at ``<folder>/<release id>/<fence>`` and is, in this order::

    tabularium measurement 1\\n
    {"arrays":[{"dtype":"<i8","name":…,"offset":…,"shape":[…]},…],"fence":…,"head":[seq,hash],"meta":…,…}\\n
    blanks up to a multiple of 64, then each array's bytes in C order, each from a multiple of 64 on
    sha256 of all bytes before, 64 hexadecimal digits\\n

It appears under its name only when it is whole and synced, and is never replaced. Its digest, which the
ledger holds, is the SHA-256 of the whole file. Nothing in it can run code when it is read.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from ledger import durable_files, names
from ledger.records import Head
from ledger.refusals import BadValue, MeasurementDamaged, MeasurementExists, StorageFailed

MAGIC = b"tabularium measurement 1\n"
_ALIGN = 64
_TRAILER = 65  # hexadecimal SHA-256 and a newline
_PART = 1 << 20
_KINDS = "biufc"  # truth values and numbers; never Python objects
_DRAFT = ".part-"


@dataclass(frozen=True, eq=False)
class Stored:
    """A measurement file that was read and found whole.

    Attributes
    ----------
    head
        The ledger's head when the file was written.
    meta
        What the release task noted beside the arrays.
    arrays
        Name to array, read-only views of the mapped file.
    digest
        SHA-256 of the whole file, hexadecimal.
    """

    release_id: str
    fence: int
    head: Head
    meta: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    digest: str


@dataclass(frozen=True, eq=False)
class Payload:
    """Meta and arrays in a form that can certainly be written."""

    meta: str
    arrays: dict[str, NDArray[Any]]


class MeasurementStore:
    """The store in ``folder``, which is made, mode 0700, when the first file is written."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder).expanduser().absolute()

    @staticmethod
    def prepare(meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Payload:
        """Check that ``meta`` is JSON and ``arrays`` are numbers; nothing is written.

        Raises
        ------
        BadValue
            If they are not; the message names the array, never a value.
        """
        try:
            text = json.dumps(dict(meta), separators=(",", ":"), ensure_ascii=True, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            text = ""
        if not text:
            raise BadValue(
                "is not plain JSON", where="meta", mend="give text, finite numbers, lists and mappings"
            )
        checked = {}
        for name, array in arrays.items():
            names.line(name, field="array name")
            if not isinstance(array, np.ndarray) or array.dtype.kind not in _KINDS:
                raise BadValue("is not an array of numbers", where=f"array {name}", mend="give a NumPy array")
            checked[name] = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
        return Payload(text, checked)

    def write(
        self,
        release_id: str,
        fence: int,
        head: Head,
        meta: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
    ) -> str:
        """Write a new file, durably, and return its digest."""
        return self.write_payload(release_id, fence, head, self.prepare(meta, arrays))

    def write_payload(self, release_id: str, fence: int, head: Head, payload: Payload) -> str:
        """Write what :meth:`prepare` returned, durably, and return the file's digest.

        Raises
        ------
        MeasurementExists
            If this release has a file of this fence.
        StorageFailed
            If the file cannot be written; nothing stands under its name then.
        """
        path = self.path(release_id, fence)
        draft = path.with_name(f"{_DRAFT}{fence}-{uuid4().hex}")
        try:
            durable_files.make_folder(path.parent)
            try:
                digest = _write(draft, _header(release_id, fence, head, payload), payload)
                _name_for_good(draft, path, release_id)
            finally:
                draft.unlink(missing_ok=True)
            self.settle(release_id)
        except OSError:
            raise StorageFailed(
                "the measurement file could not be written",
                where=f"release {release_id}",
                mend="check the disk's space and the folder's owner, then run again",
            ) from None
        return digest

    def read(self, release_id: str, fence: int, digest: str | None = None) -> Stored:
        """Read a file and check every byte of it.

        Parameters
        ----------
        digest
            What the ledger holds; a file with another digest is refused.

        Raises
        ------
        MeasurementDamaged
            If the file is missing, incomplete, altered, or another release's or attempt's.
        """
        try:
            with self.path(release_id, fence).open("rb") as file:
                found = _digest(file.fileno())
                if found is None:
                    raise _damaged(release_id, "is incomplete or altered")
                if digest is not None and found != digest:
                    raise _damaged(release_id, "is not the one that the ledger holds the digest of")
                header, start = _read_header(file.fileno())
                stored = _stored(file.fileno(), header, start, found)
        except FileNotFoundError:
            raise _damaged(release_id, "is missing") from None
        except (OSError, ValueError, KeyError, TypeError):
            raise _damaged(release_id, "cannot be read") from None
        if (stored.release_id, stored.fence) != (release_id, fence):
            raise _damaged(release_id, "belongs to another release or attempt")
        return stored

    def complete(self, release_id: str, fence: int) -> str | None:
        """Return the digest of a whole file of this release and fence, or ``None`` if there is none."""
        try:
            return self.read(release_id, fence).digest
        except MeasurementDamaged:
            return None

    def settle(self, release_id: str) -> None:
        """Make the names of the release's files durable: the writer may have died before it could."""
        for folder in (self.folder / names.release_id(release_id), self.folder, self.folder.parent):
            durable_files.sync_folder(folder)

    def remove(self, release_id: str, fence: int) -> None:
        """Remove this file unread, if it is there."""
        self._remove(release_id, [self.path(release_id, fence)])

    def destroy_older_fences(self, release_id: str, fence: int) -> None:
        """Remove, unread, the files of earlier fences, and interrupted drafts up to this one's.

        A later fence's file is never touched: whoever asks may have been suspended, and another attempt
        may have finished since.
        """
        folder = self.folder / names.release_id(release_id)
        found = sorted(folder.iterdir()) if folder.is_dir() else []
        self._remove(release_id, [path for path in found if _older(path.name, fence)])

    def heads(self) -> Iterator[Head]:
        """Go through the ledger heads that the files name, for ``Ledger.connect(known_heads=…)``."""
        for path in sorted(self.folder.glob("*/*")):
            if path.name.isdecimal():
                try:
                    with path.open("rb") as file:
                        yield Head(*_read_header(file.fileno())[0]["head"])
                except (OSError, ValueError, KeyError, TypeError):
                    continue  # reading the file for its release will tell

    def path(self, release_id: str, fence: int) -> Path:
        """Return where the file of this release and fence stands."""
        return self.folder / names.release_id(release_id) / str(names.fence(fence))

    def _remove(self, release_id: str, paths: list[Path]) -> None:
        try:
            for path in paths:
                path.unlink(missing_ok=True)
            for folder in {path.parent for path in paths if path.parent.is_dir()}:
                durable_files.sync_folder(folder)
        except OSError:
            raise StorageFailed(
                "an old measurement file could not be removed",
                where=f"release {release_id}",
                mend="check the folder's owner and mode, then run again",
            ) from None


def _older(name: str, fence: int) -> bool:
    if name.startswith(_DRAFT):
        made_for = name.removeprefix(_DRAFT).partition("-")[0]
        return made_for.isdecimal() and int(made_for) <= fence
    return name.isdecimal() and int(name) < fence


def _header(release_id: str, fence: int, head: Head, payload: Payload) -> bytes:
    """Return the magic line, the header and its padding; offsets count from where the arrays begin."""
    table, offset = [], 0
    for name, array in payload.arrays.items():
        table.append({"name": name, "dtype": array.dtype.str, "shape": array.shape, "offset": offset})
        offset += _padded(array.nbytes)
    fields = {
        "arrays": table,
        "fence": fence,
        "head": [head.seq, head.hash],
        "meta": json.loads(payload.meta),
        "release_id": release_id,
        "size": offset,
    }
    line = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    text = MAGIC + line.encode("ascii") + b"\n"
    return text.ljust(_padded(len(text)))


def _write(draft: Path, header: bytes, payload: Payload) -> str:
    """Write and sync a whole file; return its digest."""
    check = sha256()
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        for part in _parts(header, payload):
            check.update(part)
            durable_files.write_all(descriptor, part)
        trailer = check.hexdigest().encode("ascii") + b"\n"
        check.update(trailer)
        durable_files.write_all(descriptor, trailer)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return check.hexdigest()


def _name_for_good(draft: Path, path: Path, release_id: str) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        raise MeasurementExists(
            "a measurement file of this fence exists already and is never replaced",
            where=f"release {release_id}",
            mend="run again: it will be adopted, or a new attempt begun",
        ) from None


def _parts(header: bytes, payload: Payload) -> Iterator[bytes | memoryview]:
    yield header
    for array in payload.arrays.values():
        data = array.reshape(-1).view(np.uint8).data
        for begin in range(0, len(data), _PART):
            yield data[begin : begin + _PART]
        yield bytes(_padded(array.nbytes) - array.nbytes)


def _digest(descriptor: int) -> str | None:
    """Return the digest of the open file, or ``None`` if its trailer is not that of what precedes it."""
    body = os.fstat(descriptor).st_size - _TRAILER
    if body < len(MAGIC):
        return None
    check, place = sha256(), 0
    while place < body:
        part = os.pread(descriptor, min(_PART, body - place), place)
        if not part:
            return None
        check.update(part)
        place += len(part)
    trailer = os.pread(descriptor, _TRAILER, body)
    if trailer != check.hexdigest().encode("ascii") + b"\n":
        return None
    check.update(trailer)
    return check.hexdigest()


def _read_header(descriptor: int) -> tuple[dict[str, Any], int]:
    """Return the header and where the arrays begin."""
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        if file.readline(len(MAGIC)) != MAGIC:
            raise ValueError
        line = file.readline()
        header = json.loads(line)
    if not (line.endswith(b"\n") and isinstance(header, dict)):
        raise ValueError
    return header, _padded(len(MAGIC) + len(line))


def _stored(descriptor: int, header: dict[str, Any], start: int, digest: str) -> Stored:
    size = os.fstat(descriptor).st_size
    if start + header["size"] + _TRAILER != size:
        raise ValueError
    data = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ)
    arrays = {}
    for entry in header["arrays"]:
        kind = np.dtype(entry["dtype"])
        if kind.kind not in _KINDS:
            raise ValueError
        count = int(np.prod(entry["shape"], dtype=np.int64))
        flat = np.frombuffer(data, kind, count, start + entry["offset"]) if count else np.empty(0, kind)
        flat.flags.writeable = False
        arrays[entry["name"]] = flat.reshape(entry["shape"])
    head = Head(*header["head"])
    return Stored(header["release_id"], header["fence"], head, header["meta"], arrays, digest)


def _padded(length: int) -> int:
    return -(-length // _ALIGN) * _ALIGN


def _damaged(release_id: str, what: str) -> MeasurementDamaged:
    return MeasurementDamaged(
        f"the measurement file {what}; it will not be drawn again",
        where=f"release {release_id}",
        mend="restore the file from a backup, or abandon the release (its budget stays spent)",
    )
