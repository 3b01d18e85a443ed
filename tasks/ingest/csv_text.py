"""What is checked in a CSV file while its digest is computed: encoding, compression, header, records.

The file is read once, as a stream: every block goes into the digest, then through decompression, a check of
its encoding and the count of its records. No message quotes the file, since a header may be a record.

Records are counted without the engine that reads them, by a state machine of the dialect. A quote opens only
at the beginning of a field, a doubled one inside is a quote, and outside of quotes LF, CR and CRLF end a
record. An empty line is a record only if there is one column. Blocks may end anywhere. The machine is
compiled: it skips words of eight bytes without a quote or an end of line, since delimiters matter only before
a quote. Short texts are counted by the same loop in plain Python, which is faster than loading the compiler.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.errors import Finding, InputRefused
from tabularium.validations.redaction import redacted
from tabularium.validations.release_spec.source import Files

#: So many irregular lines of each file are named, the first.
MOST_LINES = 3
_BLOCK = 1 << 20
_NEVER_TOO_LARGE = 1 << 30  # bytes that any file may unpack to
_GZIP, _ZSTD, _PARQUET = b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"PAR1"


class _Tee(io.RawIOBase):
    """A readable stream that passes every byte to ``see``, and leaves closing to its owner."""

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
    """Return ``gzip``, ``zstd`` or ``none``, from the first bytes of the file.

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
    """The properties of the text of a CSV file.

    ``records``: how many records stand below. Confidential.
    """

    header: tuple[str, ...]
    records: int


def inspect(path: Path, files: Files, see: Callable[[bytes], None], field: str = "source") -> Text:
    """Read a CSV file to its end, and return its properties.

    Parameters
    ----------
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
    """Return the error for an irregular text, with its lines if there are findings."""
    what = (
        "a row has more or fewer values than the header, a quote is not closed, or rows end in different ways"
    )
    if findings:
        what = "; ".join(
            f"{finding.file}, line {finding.line}: {finding.kind}" for finding in findings[:MOST_LINES]
        )
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
    """Why reading stopped early, and at which byte of the text; None if it is too large."""

    kind: str
    offset: int | None


_NOT_UTF8, _TOO_LARGE = "not UTF-8", "too large"


def _read_all(text: IO[bytes], counter: RecordCounter, most: int | None) -> bytes | _Stop:
    """Read to the end and return the beginning, or stop at the first irregularity."""
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


#: No row and no header is longer, in bytes: the engine's own limit is a little beyond.
LONGEST_ROW = 2_000_000
_PLAIN_BYTES = 1 << 14  # up to which plain Python counts
_AT_ONCE = 1 << 21  # bytes that go to the other thread: on a busy machine each hand-over waits its turn
_QUOTE, _CR, _LF = 34, 13, 10
_BOM = b"\xef\xbb\xbf"
_TAIL = 4  # bytes of the longest character
# Places in the state: all offsets are of the text from its beginning.
_RECORDS, _BLANK, _QUOTED, _START, _CLOSED, _RETURN, _RETURN_BEFORE, _DONE, _FAULT, _AT = range(10)
_NO_FAULT, _LONG, _RETURNS, _FORBIDDEN = range(4)
_KINDS = {
    _LONG: "a row that is longer than 2 MB",
    _RETURNS: "two carriage returns before the line feed",
    _FORBIDDEN: "a quote, and source.quote is none",
}
OPEN_QUOTE = "a quote that is not closed"

_Bytes = NDArray[np.uint8]
_State = NDArray[np.int64]


class RecordCounter:
    """Counts the records of a text that comes in blocks, in another thread.

    ``fault``: (offset, kind) of what no regular text holds, as soon as it was met; the rest is not counted
    then.
    """

    def __init__(self, delimiter: str, *, quoting: bool = True) -> None:
        self._delimiter = np.frombuffer(delimiter.encode(), np.uint8)
        self._quoting = quoting
        self._state = np.zeros(10, np.int64)
        self._state[[_CLOSED, _RETURN, _RETURN_BEFORE]] = -2
        self._tail = np.zeros(_TAIL, np.uint8)
        self._head: bytes | None = b""  # until it is known whether there is a byte order mark
        self._thread: ThreadPoolExecutor | None = None
        self._pending: Future[None] | None = None
        self._blocks: list[bytes] = []  # for the other thread
        self._held = 0  # bytes in them

    def add(self, block: bytes) -> None:
        """Add the next block to be counted."""
        if self._head is not None:
            block, self._head = self._head + block, None
            if len(block) < len(_BOM) and _BOM.startswith(block):
                self._head = block
                return
            if block.startswith(_BOM):
                self._state[[_DONE, _START]] = len(_BOM)
                block = block[len(_BOM) :]
        if self._thread is None and not self._held and self._state[_DONE] + len(block) <= _PLAIN_BYTES:
            self._scan(block, _scan, block, b"")
            return
        self._blocks.append(block)
        self._held += len(block)
        if self._held >= _AT_ONCE:
            self._hand_over()

    def finish(self) -> None:
        """Wait until all blocks are counted."""
        if self._head:
            head, self._head = self._head, None
            self._scan(head, _scan, head, b"")
        self._hand_over()
        self._wait()

    def close(self) -> None:
        """Finish, whether or not the text was read to its end."""
        if self._thread is not None:
            self._thread.shutdown()

    @property
    def fault(self) -> tuple[int, str] | None:
        """The first irregularity in the counted blocks."""
        at, kind = int(self._state[_AT]), int(self._state[_FAULT])
        return (at, _KINDS[kind]) if kind else None

    def records(self, columns: int) -> int | tuple[int, str]:
        """Return the number of records below the header, or (offset, kind) of a fault, after all blocks."""
        self.finish()
        if self.fault:
            return self.fault
        state = self._state
        if state[_QUOTED]:
            return int(state[_START]), OPEN_QUOTE
        last = int(state[_DONE] > state[_START])  # without an end of line
        blank = int(state[_BLANK]) if columns == 1 else 0
        return max(int(state[_RECORDS]) + last + blank - 1, 0)

    def _hand_over(self) -> None:
        """Hand the collected bytes to the other thread, which has finished the earlier ones."""
        self._wait()
        if not self._held:
            return
        block = b"".join(self._blocks)
        self._blocks, self._held = [], 0
        self._thread = self._thread or ThreadPoolExecutor(1)
        data = np.frombuffer(block, np.uint8)
        words = np.frombuffer(block, np.uint64, len(block) // 8)
        self._pending = self._thread.submit(self._scan, block, _compiled(), data, words)

    def _wait(self) -> None:
        if self._pending is not None:
            self._pending.result()
            self._pending = None

    def _scan(self, block: bytes, scan: Callable[..., None], data: Any, words: Any) -> None:
        if self._state[_FAULT]:
            return
        scan(data, words, self._delimiter, self._tail, self._quoting, LONGEST_ROW, self._state)
        last = np.frombuffer(block[-_TAIL:], np.uint8)
        self._tail = np.concatenate([self._tail, last])[-_TAIL:]


def _scan(  # noqa: PLR0912, PLR0915 - one machine, and a kernel is one function
    data: _Bytes,
    words: NDArray[np.uint64],
    delimiter: _Bytes,
    tail: _Bytes,
    quoting: bool,
    longest: int,
    state: _State,
) -> None:
    """Count the records that end in a block.

    Parameters
    ----------
    words
        The same, eight bytes at a time, without what is left over; empty to look at every byte.
    tail
        The last bytes before the block.
    quoting
        Whether a quote means something; it is a fault otherwise.
    longest
        Bytes that a record may have.
    state
        (10,) what is known of the text before, and then with this block.
    """
    low, one, eight = np.uint64(0x7F7F7F7F7F7F7F7F), np.uint64(1), np.uint64(56)
    places = np.uint64(0x0001020304050607)  # shifted by n bytes, its highest is n
    none = np.uint64(0)
    done, start, quoted, records, blank = (
        state[_DONE],
        state[_START],
        state[_QUOTED],
        state[_RECORDS],
        state[_BLANK],
    )
    closed, returned, before = state[_CLOSED], state[_RETURN], state[_RETURN_BEFORE]
    fault, fault_at = _NO_FAULT, 0
    at: Any = 0
    marks, word_at, byte_at, size = none, 0, 8 * len(words), len(data)
    while True:
        if marks != none:
            lowest = marks & (~marks + one)
            marks ^= lowest
            at = 8 * (word_at - 1) + np.int64(((lowest >> np.uint64(7)) * places) >> eight)
        elif word_at < len(words):
            # The highest bit of a byte stays 0 only where the byte is one of those sought.
            word = words[word_at]
            quote = word ^ np.uint64(0x2222222222222222)
            line = word ^ np.uint64(0x0A0A0A0A0A0A0A0A)
            turn = word ^ np.uint64(0x0D0D0D0D0D0D0D0D)
            marks = ~(
                (((quote & low) + low) | quote)
                & (((line & low) + low) | line)
                & (((turn & low) + low) | turn)
                | low
            )
            word_at += 1
            continue
        elif byte_at < size:
            at = byte_at
            byte_at += 1
        else:
            break
        byte, at_byte = data[at], done + at
        if byte == _QUOTE:
            if not quoting:
                fault, fault_at = _FORBIDDEN, at_byte
                break
            if quoted:
                quoted, closed = 0, at_byte
            elif at_byte == start or closed == at_byte - 1:
                quoted = 1
            else:
                quoted = 1
                for back in range(1, len(delimiter) + 1):
                    other = data[at - back] if at >= back else tail[_TAIL + at - back]
                    if other != delimiter[len(delimiter) - back]:
                        quoted = 0
        elif byte in (_LF, _CR) and not quoted:
            if byte == _CR or returned != at_byte - 1:
                if at_byte > start:
                    records += 1
                else:
                    blank += 1
                if at_byte - start > longest:
                    fault, fault_at = _LONG, start
                    break
            elif before == at_byte - 2:
                fault, fault_at = _RETURNS, at_byte - 2
                break
            if byte == _CR:
                before, returned = returned, at_byte
            start = at_byte + 1
    done += size
    if fault == _NO_FAULT and done - start > longest:
        fault, fault_at = _LONG, start
    state[_DONE], state[_START], state[_QUOTED], state[_RECORDS], state[_BLANK] = (
        done,
        start,
        quoted,
        records,
        blank,
    )
    state[_CLOSED], state[_RETURN], state[_RETURN_BEFORE] = closed, returned, before
    state[_FAULT], state[_AT] = fault, fault_at


@cache
def _compiled() -> Callable[..., None]:
    from tabularium.mechanisms.kernels.compiled import compiled

    return compiled(_scan)
