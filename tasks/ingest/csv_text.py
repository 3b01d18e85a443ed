"""What is looked at in a CSV file while its digest is computed: encoding, compression, header, records.

The file is read once, as a stream: every block goes into the digest, then through decompression, a check of
its encoding and the count of its records. Nothing that stands in the file is ever told, since a header may
be a record.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from tabularium.mechanisms.errors import Finding, InputRefused
from tabularium.tasks.ingest.record_counts import LONGEST_ROW, RecordCounter
from tabularium.validations.redaction import redacted
from tabularium.validations.release_spec.source import Files

#: So many irregular lines of each file are named, the first.
MOST_LINES = 3
_BLOCK = 1 << 20
_NEVER_TOO_LARGE = 1 << 30  # bytes that any file may unpack to
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
        raise InputRefused("the file is empty", where=path.name, hint="name the file that holds the data")
    if first == _PARQUET:
        raise InputRefused("is a Parquet file", where=path.name, hint="write source.format: parquet")
    if first.startswith(_GZIP):
        return "gzip"
    return "zstd" if first == _ZSTD else "none"


@dataclass(frozen=True)
class Text:
    """What was seen of the text of a CSV file.

    Attributes
    ----------
    header
        The names of its columns.
    records
        How many records stand below. Confidential.
    """

    header: tuple[str, ...]
    records: int


def inspect(path: Path, files: Files, see: Callable[[bytes], None], field: str = "source") -> Text:
    """Read a CSV file to its end, and return what it holds.

    Parameters
    ----------
    path
        The file.
    files
        How the spec says that it is written.
    see
        Called with every block of the file as it lies on disk.
    field
        Where the spec speaks of it.

    Raises
    ------
    InputError
        If the file is empty, cut off, not UTF-8, has no header, or is larger or wider than allowed.
    """
    kind = compression(path)
    most = None
    if kind != "none":
        most = max(_NEVER_TOO_LARGE, files.limits.unpacked * path.stat().st_size)
    counter = RecordCounter(files.delimiter, quoting=files.quote != "none")
    try:
        with path.open("rb") as file:
            tee = _Tee(file, see)
            read = redacted(lambda: _read_all(_decompressed(tee, kind), counter, most), _damaged(path, kind))
            while not isinstance(read, _Stop) and tee.read(_BLOCK):
                pass  # what follows the last compressed member belongs to the file too
        if isinstance(read, _Stop):
            raise _stopped(path, kind, read, files, field)
        counter.finish()
        if counter.fault:
            raise _irregular_at(path, *counter.fault, field)
        header = _parse_header(read, files, path.name, field)
        records = counter.records(len(header))
        if isinstance(records, tuple):
            raise _irregular_at(path, *records, field)
    finally:
        counter.close()
    return Text(header, records)


def irregular(findings: Sequence[Finding], field: str) -> InputRefused:
    """Return the error for a text whose irregular lines are known, or are not if there are no findings."""
    what = (
        "a row has more or fewer values than the header, a quote is not closed, or rows end in different ways"
    )
    if findings:
        what = "; ".join(f"{each.file}, line {each.line}: {each.kind}" for each in findings[:MOST_LINES])
    return InputRefused(
        f"the text is not a regular CSV table: {what}",
        where=field,
        hint=f"check {field}.delimiter and how the file was written",
        findings=findings,
    )


def read_header(path: Path, files: Files) -> tuple[str, ...]:
    """Return the header of a CSV file without reading on."""

    def first() -> bytes:
        with opened_text(path) as text:
            return text.read(LONGEST_ROW + 1)

    head = redacted(first, _damaged(path, compression(path)))
    return _parse_header(head, files, path.name, "source")


def lines_at(path: Path, offsets: Sequence[int]) -> list[int]:
    """Return the number of the line at each offset of the text, ascending; a record may have several."""
    lines, passed, breaks = [], 0, 0
    with opened_text(path) as text:
        for offset in offsets:
            while passed < offset and (block := text.read(min(_BLOCK, offset - passed))):
                breaks += block.count(b"\n") or block.count(b"\r")
                passed += len(block)
            lines.append(breaks + 1)
    return lines


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


@dataclass(frozen=True)
class _Stop:
    """Why reading ended early, and at which byte of the text; None if it is too large."""

    kind: str
    offset: int | None


_NOT_UTF8, _TOO_LARGE = "not UTF-8", "too large"


def _read_all(text: IO[bytes], counter: RecordCounter, most: int | None) -> bytes | _Stop:
    """Read to the end and return the beginning, or stop at what no text in order holds."""
    head, passed = b"", 0
    decoder = codecs.getincrementaldecoder("utf-8")()
    pending = 0
    try:
        while block := text.read(_BLOCK):
            if len(head) <= LONGEST_ROW:
                head += block
            if pending or not block.isascii():
                decoder.decode(block)
                pending = len(decoder.getstate()[0])
            counter.add(block)
            passed += len(block)
            if most is not None and passed > most:
                return _Stop(_TOO_LARGE, None)
            if counter.fault:
                return _Stop(counter.fault[1], counter.fault[0])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        return _Stop(_NOT_UTF8, passed - pending + error.start)
    return head


def _stopped(path: Path, kind: str, stop: _Stop, files: Files, field: str) -> InputRefused:
    if stop.offset is None:
        return InputRefused(
            f"the {kind} file unpacks to more than {files.limits.unpacked} times its size",
            where=path.name,
            hint=f"look at it before anything else, or raise {field}.limits.unpacked",
        )
    if stop.kind != _NOT_UTF8:
        return _irregular_at(path, stop.offset, stop.kind, field)
    (line,) = lines_at(path, [stop.offset])
    return InputRefused(
        f"the text is not UTF-8, first in line {line}",
        where=path.name,
        hint="convert it, for instance with iconv -t UTF-8",
        findings=[Finding(kind=_NOT_UTF8, file=path.name, line=line)],
    )


def _irregular_at(path: Path, offset: int, kind: str, field: str) -> InputRefused:
    (line,) = lines_at(path, [offset])
    return irregular([Finding(kind=kind, file=path.name, line=line)], field)


def _damaged(path: Path, kind: str) -> InputRefused:
    what = "the file cannot be read" if kind == "none" else f"the {kind} file is damaged or cut off"
    return InputRefused(what, where=path.name, hint="copy it again from where it was made")


def _parse_header(head: bytes, files: Files, name: str, field: str) -> tuple[str, ...]:
    hint = "begin the file with one line that names the columns"
    text = head[:LONGEST_ROW].decode("utf-8", errors="ignore").removeprefix("\ufeff")
    if not text.strip():
        raise InputRefused("the file is empty", where=name, hint="name the file that holds the data")
    quoting: Any = csv.QUOTE_NONE if files.quote == "none" else csv.QUOTE_MINIMAL

    def first_row() -> list[str]:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=files.delimiter, quoting=quoting))

    row = redacted(first_row, InputRefused("the header cannot be read", where=name, hint=hint))
    if not row:
        raise InputRefused("there is no header line", where=name, hint=hint)
    if len(row) > files.limits.columns:
        raise InputRefused(
            f"the header has more than {files.limits.columns} columns",
            where=name,
            hint=f"leave out those that are not needed, or raise {field}.limits.columns",
        )
    return tuple(row)
