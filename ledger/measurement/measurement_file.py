"""The form of a measurement file: self-describing, with its own checksum; nothing in it can run code.

In this order::

    tabularium measurement 1\\n
    {"arrays":[{"dtype":"<i8","name":…,"offset":…,"shape":[…]},…],"fence":…,"head":[seq,hash],"meta":…,…}\\n
    blanks up to a multiple of 64, then each array's bytes in C order, each from a multiple of 64 on
    sha256 of all bytes before, 64 hexadecimal digits\\n
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

import numpy as np
from numpy.typing import NDArray

from tabularium.ledger import durable_files, names
from tabularium.ledger.records import Head
from tabularium.ledger.refusals import BadValue

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
                "is not plain JSON", where="meta", hint="give text, finite numbers, lists and mappings"
            )
        checked = {}
        for name, array in arrays.items():
            names.line(name, field="array name")
            if not isinstance(array, np.ndarray) or array.dtype.kind not in _KINDS:
                raise BadValue("is not an array of numbers", where=f"array {name}", hint="give a NumPy array")
            checked[name] = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
        return cls(text, checked)


@dataclass(frozen=True)
class Whose:
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

    whose: Whose
    head: Head
    meta: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    digest: str


def write(path: Path, whose: Whose, head: Head, payload: Payload) -> str:
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


def read(path: Path) -> Content | None:
    """Read a file and check every byte of it; ``None`` if it is incomplete or altered.

    Raises
    ------
    OSError, ValueError, KeyError, TypeError
        If it is missing, or is no file of this form.
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


def _header(whose: Whose, head: Head, payload: Payload) -> bytes:
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
    """Return the digest of the open file, or ``None`` if its trailer is not that of what precedes it."""
    body = os.fstat(descriptor).st_size - _TRAILER
    if body < len(MAGIC):
        return None
    check, place = sha256(), 0
    while place < body:
        piece = os.pread(descriptor, min(_AT_ONCE, body - place), place)
        if not piece:
            return None
        check.update(piece)
        place += len(piece)
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
    whose = Whose(header["release_id"], header["fence"], header["part"])
    return Content(whose, Head(*header["head"]), header["meta"], arrays, digest)


def _padded(length: int) -> int:
    return -(-length // _ALIGN) * _ALIGN
