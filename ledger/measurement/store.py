"""Measurement store: durable files, one for each part of a release, and one that names them all.

::

    <folder>/<release id>/part-<digest of its name>     one table at one level: drawn once, for whatever fence
    <folder>/<release id>/<fence>                       names every part with the SHA-256 of its file

A file appears under its name only when it is whole and synced, and is never replaced. A part belongs to the
release: whichever attempt is first to give it its name has drawn it for all. The digest that the ledger holds
is the SHA-256 of the file that names the parts. A file has its own checksum, and nothing in it can run code::

    tabularium measurement 1\n
    {"arrays":[{"dtype":"<i8","name":…,"offset":…,"shape":[…]},…],"fence":…,"head":[seq,hash],"meta":…,…}\n
    blanks up to a multiple of 64, then each array's bytes in C order, each from a multiple of 64 on
    sha256 of all bytes before, 64 hexadecimal digits\n
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

from tabularium.ledger import durable_files, names
from tabularium.ledger.records import Head
from tabularium.ledger.refusals import BadValue, MeasurementDamaged, MeasurementExists, StorageFailed

MAGIC = b"tabularium measurement 1\n"
_ALIGN = 64
_TRAILER = 65  # hexadecimal SHA-256 and a newline
_AT_ONCE = 1 << 20
_KINDS = "biufc"  # truth values and numbers; never Python objects


@dataclass(frozen=True, eq=False)
class Payload:
    """Meta and arrays in a form that can certainly be written."""

    meta: str
    arrays: dict[str, NDArray[Any]]

    @classmethod
    def of(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Payload:
        """Check that ``meta`` is JSON and ``arrays`` are numbers; nothing is written.

        Raises ``BadValue`` if they are not; the message names the array, never a value.
        """
        try:
            text = json.dumps(dict(meta), separators=(",", ":"), ensure_ascii=True, allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            text = ""
        if not text:
            raise BadValue(
                "is not plain JSON", where="meta", hint="give text, finite numbers, lists and mappings"
            )
        checked = {}
        for name, array in arrays.items():
            names.check_label(name, field="array name")
            if not isinstance(array, np.ndarray) or array.dtype.kind not in _KINDS:
                raise BadValue("is not an array of numbers", where=f"array {name}", hint="give a NumPy array")
            checked[name] = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
        return cls(text, checked)


@dataclass(frozen=True)
class FileKey:
    """Which file it is.

    Attributes
    ----------
    fence
        The attempt that wrote it.
    part
        The name of the part; empty for the file that names all of them.
    """

    release_id: str
    fence: int
    part: str = ""


@dataclass(frozen=True, eq=False)
class Content:
    """What a file holds that was found whole.

    Attributes
    ----------
    head
        The ledger's head when the file was written.
    arrays
        Name to array, read-only views of the mapped file.
    digest
        SHA-256 of the whole file, hexadecimal.
    """

    whose: FileKey
    head: Head
    meta: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    digest: str


def write_file(path: Path, whose: FileKey, head: Head, payload: Payload) -> str:
    """Write and sync a whole new file; return its digest."""
    check = sha256()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        for piece in _pieces(_header(whose, head, payload), payload):
            check.update(piece)
            durable_files.write_all(descriptor, piece)
        trailer = check.hexdigest().encode("ascii") + b"\n"
        check.update(trailer)
        durable_files.write_all(descriptor, trailer)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    return check.hexdigest()


def read_file(path: Path) -> Content | None:
    """Read a file and check every byte of it; ``None`` if it is incomplete or altered.

    Raises ``OSError``, ``ValueError``, ``KeyError``, ``TypeError`` if it is missing, or is no file of this
    form.
    """
    with path.open("rb") as file:
        digest = _digest(file.fileno())
        if digest is None:
            return None
        header, start = _read_header(file.fileno())
        return _content(file.fileno(), header, start, digest)


def read_head(path: Path) -> Head:
    """Return the ledger's head that a file names, at a glance; raises as :func:`read` does."""
    with path.open("rb") as file:
        return Head(*_read_header(file.fileno())[0]["head"])


def _header(whose: FileKey, head: Head, payload: Payload) -> bytes:
    """Return the magic line, the header and its padding; offsets count from where the arrays begin."""
    table, offset = [], 0
    for name, array in payload.arrays.items():
        table.append({"name": name, "dtype": array.dtype.str, "shape": array.shape, "offset": offset})
        offset += _padded(array.nbytes)
    fields = {
        "arrays": table,
        "fence": whose.fence,
        "head": [head.seq, head.hash],
        "meta": json.loads(payload.meta),
        "part": whose.part,
        "release_id": whose.release_id,
        "size": offset,
    }
    line = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    text = MAGIC + line.encode("ascii") + b"\n"
    return text.ljust(_padded(len(text)))


def _pieces(header: bytes, payload: Payload) -> Iterator[bytes | memoryview]:
    yield header
    for array in payload.arrays.values():
        data = array.reshape(-1).view(np.uint8).data
        for begin in range(0, len(data), _AT_ONCE):
            yield data[begin : begin + _AT_ONCE]
        yield bytes(_padded(array.nbytes) - array.nbytes)


def _digest(descriptor: int) -> str | None:
    """Return the digest of the open file, or ``None`` if its trailer does not fit what precedes it."""
    body = os.fstat(descriptor).st_size - _TRAILER
    if body < len(MAGIC):
        return None
    check, offset = sha256(), 0
    while offset < body:
        piece = os.pread(descriptor, min(_AT_ONCE, body - offset), offset)
        if not piece:
            return None
        check.update(piece)
        offset += len(piece)
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


def _content(descriptor: int, header: dict[str, Any], start: int, digest: str) -> Content:
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
    whose = FileKey(header["release_id"], header["fence"], header["part"])
    return Content(whose, Head(*header["head"]), header["meta"], arrays, digest)


def _padded(length: int) -> int:
    return -(-length // _ALIGN) * _ALIGN


_DRAFT = ".draft-"
_PART = "part-"
_UNREADABLE = (OSError, ValueError, KeyError, TypeError)


@dataclass(frozen=True, eq=False)
class Part:
    """One table at one level, or whatever else is drawn at once, as the attempt ``fence`` stored it.

    ``head`` is the ledger's when it was written, ``meta`` what the release task noted; the arrays are
    read-only views of the mapped file, and ``digest`` is the SHA-256 of all of it.
    """

    name: str
    fence: int
    head: Head
    meta: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    digest: str


@dataclass(frozen=True, eq=False)
class Stored:
    """The whole measurement of a release, every byte of it checked.

    The attempt ``fence`` completed it, when the ledger's head was ``head``; ``digest`` is the SHA-256 of the
    file that names the parts, which come in the order in which they were asked for.
    """

    release_id: str
    fence: int
    head: Head
    parts: dict[str, Part]
    digest: str


class MeasurementStore:
    """The store in ``folder``, which is made, mode 0700, when the first file is written."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder).expanduser().absolute()

    def write_part(self, release_id: str, fence: int, head: Head, name: str, payload: Payload) -> str:
        """Write one part, durably, and return its file's digest.

        Raises ``MeasurementExists`` if the release has this part. Raises ``StorageFailed`` if the file cannot
        be written; nothing stands under its name then.
        """
        path = self.part_path(release_id, name)
        return self._write(path, FileKey(release_id, fence, name), head, payload)

    def write(self, release_id: str, fence: int, head: Head, parts: Mapping[str, str]) -> str:
        """Write the file that names the ``parts`` (name to digest), durably, and return its digest.

        Raises ``MeasurementExists`` if this release has a file of this fence. Raises ``StorageFailed``: as
        ``write_part``.
        """
        named = Payload.of({"parts": [[name, digest] for name, digest in parts.items()]}, {})
        return self._write(self.path(release_id, fence), FileKey(release_id, fence), head, named)

    def has_part(self, release_id: str, name: str) -> bool:
        """Whether something stands under the name of this part."""
        return os.path.lexists(self.part_path(release_id, name))

    def read_part(self, release_id: str, name: str) -> Part:
        """Read one part and check every byte of it.

        Raises ``MeasurementDamaged`` if the file is missing, incomplete, altered, or another release's or
        part's.
        """
        content = self._read(self.part_path(release_id, name), release_id)
        if (content.whose.release_id, content.whose.part) != (release_id, name):
            raise _damaged(release_id, "belongs to another release or part")
        fence, head, meta = content.whose.fence, content.head, content.meta
        return Part(name, fence, head, meta, content.arrays, content.digest)

    def read(self, release_id: str, fence: int, digest: str | None = None) -> Stored:
        """Read a whole measurement and check every byte of it.

        ``digest``: what the ledger holds; a measurement with another digest is refused.

        Raises ``MeasurementDamaged`` if a file is missing, incomplete, altered, or another release's,
        attempt's or part's.
        """
        content = self._read(self.path(release_id, fence), release_id)
        if digest is not None and content.digest != digest:
            raise _damaged(release_id, "is not the one that the ledger holds the digest of")
        if content.whose != FileKey(release_id, fence):
            raise _damaged(release_id, "belongs to another release or attempt")
        try:
            named = {str(name): str(of_part) for name, of_part in content.meta["parts"]}
        except _UNREADABLE:
            raise _damaged(release_id, "cannot be read") from None
        parts = {name: self.read_part(release_id, name) for name in named}
        if any(part.digest != named[name] for name, part in parts.items()):
            raise _damaged(release_id, "of a part is not the one that the measurement names")
        return Stored(release_id, fence, content.head, parts, content.digest)

    def complete(self, release_id: str, fence: int) -> str | None:
        """Return the digest of a whole measurement of this release and fence, or ``None``."""
        try:
            return self.read(release_id, fence).digest
        except MeasurementDamaged:
            return None

    def fsync_release(self, release_id: str) -> None:
        """Make the names of the release's files durable: the writer may have died before it could."""
        for folder in (self.folder / names.release_id(release_id), self.folder, self.folder.parent):
            durable_files.sync_folder(folder)

    def remove(self, release_id: str, fence: int) -> None:
        """Remove the file that names the parts, unread, if it is there; the parts stay."""
        self._remove(release_id, [self.path(release_id, fence)])

    def destroy_older_fences(self, release_id: str, fence: int) -> None:
        """Remove, unread, what earlier fences named, and interrupted drafts up to this one's.

        A later fence's file is never touched: the caller may have been suspended, and another attempt
        may have finished since.
        """
        folder = self.folder / names.release_id(release_id)
        paths = sorted(folder.iterdir()) if folder.is_dir() else []
        self._remove(release_id, [path for path in paths if _older(path.name, fence)])

    def heads(self) -> Iterator[Head]:
        """Go through the ledger heads that the files name, for ``Ledger.connect(known_heads=…)``.

        Where a measurement is complete its last file names a later head than its parts do.
        """
        for folder in sorted(self.folder.glob("*/")):
            paths = sorted(path for path in folder.iterdir() if not path.name.startswith(_DRAFT))
            for path in [path for path in paths if path.name.isdecimal()] or paths:
                try:
                    yield read_head(path)
                except _UNREADABLE:
                    continue  # reading the file for its release will tell

    def path(self, release_id: str, fence: int) -> Path:
        """Return where the file stands that names the parts of this release and fence."""
        return self.folder / names.release_id(release_id) / str(names.fence(fence))

    def part_path(self, release_id: str, name: str) -> Path:
        """Return where a part of this release stands."""
        digest = sha256(names.check_text(name, field="part").encode()).hexdigest()
        return self.folder / names.release_id(release_id) / f"{_PART}{digest[:32]}"

    def _write(self, path: Path, whose: FileKey, head: Head, payload: Payload) -> str:
        draft = path.with_name(f"{_DRAFT}{whose.fence}-{uuid4().hex}")
        try:
            durable_files.make_folder(path.parent)
            try:
                digest = write_file(draft, whose, head, payload)
                _link_exclusive(draft, path, whose.release_id)
            finally:
                draft.unlink(missing_ok=True)
            self.fsync_release(whose.release_id)
        except OSError:
            raise StorageFailed(
                "the measurement file could not be written",
                where=f"release {whose.release_id}",
                hint="check the disk's space and the folder's owner, then run again",
            ) from None
        return digest

    def _read(self, path: Path, release_id: str) -> Content:
        try:
            content = read_file(path)
        except FileNotFoundError:
            raise _damaged(release_id, "is missing") from None
        except _UNREADABLE:
            raise _damaged(release_id, "cannot be read") from None
        if content is None:
            raise _damaged(release_id, "is incomplete or altered")
        return content

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
                hint="check the folder's owner and mode, then run again",
            ) from None


def _older(name: str, fence: int) -> bool:
    if name.startswith(_DRAFT):
        made_for = name.removeprefix(_DRAFT).partition("-")[0]
        return made_for.isdecimal() and int(made_for) <= fence
    return name.isdecimal() and int(name) < fence


def _link_exclusive(draft: Path, path: Path, release_id: str) -> None:
    try:
        os.link(draft, path)
    except FileExistsError:
        raise MeasurementExists(
            "a measurement file of this name exists already and is never replaced",
            where=f"release {release_id}",
            hint="run again: it will be adopted",
        ) from None


def _damaged(release_id: str, what: str) -> MeasurementDamaged:
    return MeasurementDamaged(
        f"the measurement file {what}; it will not be drawn again",
        where=f"release {release_id}",
        hint="restore the file from a backup, or abandon the release (its budget stays spent)",
    )
