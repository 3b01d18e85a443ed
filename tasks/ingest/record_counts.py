"""The number of records in the text of a CSV file, counted without the engine that reads it.

A state machine of the dialect goes over the same bytes of which the digest is taken. A quote opens only where
a field begins, a doubled one inside stands for itself, and outside of quotes LF, CR and CRLF end a record. A
line without a byte is no record, unless there is one column alone. Blocks may end anywhere.

The machine is compiled. Words of eight bytes without a quote or an end of line are passed over at once; what
a delimiter is matters only before a quote. Where a text is short, the same loop runs as plain Python, which
costs less than to load the compiler.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    """Counts the records of a text that comes in blocks, beside whatever else is done with them.

    Attributes
    ----------
    fault
        (offset, kind) of what no regular text holds, as soon as it was met; the rest is not counted then.
    """

    def __init__(self, delimiter: str, *, quoting: bool = True) -> None:
        self._delimiter = np.frombuffer(delimiter.encode(), np.uint8)
        self._quoting = quoting
        self._state = np.zeros(10, np.int64)
        self._state[[_CLOSED, _RETURN, _RETURN_BEFORE]] = -2
        self._tail = np.zeros(_TAIL, np.uint8)
        self._head: bytes | None = b""  # until it can be told whether a byte order mark is there
        self._thread: ThreadPoolExecutor | None = None
        self._pending: Future[None] | None = None
        self._blocks: list[bytes] = []  # for the other thread
        self._held = 0  # bytes in them

    def add(self, block: bytes) -> None:
        """Count what comes next, soon."""
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
        """Wait until all is counted that was added."""
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
        """What no regular text holds, among the blocks that are done."""
        at, kind = int(self._state[_AT]), int(self._state[_FAULT])
        return (at, _KINDS[kind]) if kind else None

    def records(self, columns: int) -> int | tuple[int, str]:
        """Return the number of records below the header, or (offset, kind) of a fault, once all is added."""
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
        """Have the other thread count what is held; it is done with what it had before."""
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
    data
        The block.
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
        byte, place = data[at], done + at
        if byte == _QUOTE:
            if not quoting:
                fault, fault_at = _FORBIDDEN, place
                break
            if quoted:
                quoted, closed = 0, place
            elif place == start or closed == place - 1:
                quoted = 1
            else:
                quoted = 1
                for back in range(1, len(delimiter) + 1):
                    other = data[at - back] if at >= back else tail[_TAIL + at - back]
                    if other != delimiter[len(delimiter) - back]:
                        quoted = 0
        elif byte in (_LF, _CR) and not quoted:
            if byte == _CR or returned != place - 1:
                if place > start:
                    records += 1
                else:
                    blank += 1
                if place - start > longest:
                    fault, fault_at = _LONG, start
                    break
            elif before == place - 2:
                fault, fault_at = _RETURNS, place - 2
                break
            if byte == _CR:
                before, returned = returned, place
            start = place + 1
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
