"""What is looked at in a CSV file while its digest is computed: encoding, compression, header.

The file is read once, as a stream: every block goes into the digest, then through decompression and a
check of its encoding. Nothing that stands in the file is ever told, since a header may be a record.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

from mechanisms.errors import Finding, InputRefused
from validations.redaction import redacted

_BLOCK = 1 << 20
# A header of a thousand columns with long names has some 100 kB.
_LONGEST_HEADER = _BLOCK
_GZIP, _ZSTD, _PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"


class _Tee(io.RawIOBase):
    """A readable stream that shows every byte to ``see`` on its way, and leaves closing to its owner."""

    def __init__(self, file: IO[bytes], see: Callable[[bytes], None]) -> None:
        self._file, self._see = file, see

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        block = self._file.read(len(buffer))
        self._see(block)
        buffer[: len(block)] = block
        return len(block)


def compression(path: Path) -> str:
    """Return ``gzip``, ``zstd`` or ``none``, told from the first bytes of the file.

    Raises
    ------
    InputError
        If the file is empty, or is a Parquet file.
    """
    with path.open("rb") as file:
        first = file.read(4)
    if not first:
        raise InputRefused("the file is empty", where=path.name, mend="name the file that holds the data")
    if first == _PARQUET:
        raise InputRefused("is a Parquet file", where=path.name, mend="write source.format: parquet")
    if first.startswith(_GZIP):
        return "gzip"
    return "zstd" if first == _ZSTD else "none"


def inspect(path: Path, delimiter: str, see: Callable[[bytes], None]) -> tuple[str, ...]:
    """Read a CSV file to its end, and return its header.

    Parameters
    ----------
    path
        The file.
    delimiter
        One character.
    see
        Called with every block of the file as it lies on disk.

    Raises
    ------
    InputError
        If the file is empty, cut off, not UTF-8, or has no header.
    """
    kind = compression(path)
    with path.open("rb") as file:
        tee = _Tee(file, see)
        head = redacted(lambda: _read_all(_decompressed(tee, kind)), _damaged(path, kind))
        while tee.read(_BLOCK):  # what follows the last compressed member belongs to the file too
            pass
    if isinstance(head, int):
        raise InputRefused(
            f"the text is not UTF-8, first in line {head}",
            where=path.name,
            mend="convert it, for instance with iconv -t UTF-8",
            findings=[Finding(kind="not UTF-8", file=path.name, line=head)],
        )
    return _parse_header(head, delimiter, path.name)


def read_header(path: Path, delimiter: str) -> tuple[str, ...]:
    """Return the header of a CSV file without reading on."""

    def first() -> bytes:
        with opened_text(path) as text:
            return text.read(_LONGEST_HEADER)

    return _parse_header(redacted(first, _damaged(path, compression(path))), delimiter, path.name)


@contextmanager
def opened_text(path: Path) -> Iterator[IO[bytes]]:
    """Open the text of a CSV file, decompressed."""
    with path.open("rb") as file:
        yield _decompressed(_Tee(file, lambda _: None), compression(path))


def _decompressed(file: io.RawIOBase, kind: str) -> IO[bytes]:
    if kind == "gzip":
        return cast(IO[bytes], gzip.GzipFile(fileobj=io.BufferedReader(file, _BLOCK), mode="rb"))
    if kind == "zstd":
        import pyarrow as pa

        return cast(IO[bytes], pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd"))
    return cast(IO[bytes], file)


def _read_all(text: IO[bytes]) -> bytes | int:
    """Read to the end; return the first block, or the number of the first line that is not UTF-8."""
    head, line = b"", 1
    decoder = codecs.getincrementaldecoder("utf-8")()
    pending = False
    try:
        while block := text.read(_BLOCK):
            if len(head) < _LONGEST_HEADER:
                head += block
            if pending or not block.isascii():
                decoder.decode(block)
                pending = bool(decoder.getstate()[0])
            line += block.count(b"\n")
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        return line + error.object[: error.start].count(b"\n")
    return head


def _damaged(path: Path, kind: str) -> InputRefused:
    what = "the file cannot be read" if kind == "none" else f"the {kind} file is damaged or cut off"
    return InputRefused(what, where=path.name, mend="copy it again from where it was made")


def _parse_header(head: bytes, delimiter: str, name: str) -> tuple[str, ...]:
    mend = "begin the file with one line that names the columns"
    text = head[:_LONGEST_HEADER].decode("utf-8", errors="ignore").removeprefix("\ufeff")
    if not text.strip():
        raise InputRefused("the file is empty", where=name, mend="name the file that holds the data")

    def first_row() -> list[str]:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter))

    row = redacted(first_row, InputRefused("the header cannot be read", where=name, mend=mend))
    whole = len(head) < _LONGEST_HEADER or "\n" in text or "\r" in text
    if not row or not whole:
        raise InputRefused("there is no header line", where=name, mend=mend)
    return tuple(row)
