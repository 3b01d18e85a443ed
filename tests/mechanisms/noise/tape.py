"""A stream of words that a test has written itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

LAST = 2**64 - 1


class Tape:
    """Gives the words it was made with, in order; after the last 64-bit word, all ones for ever.

    All ones is the word with which every coin comes up tails, so that loops end.
    """

    def __init__(self, short: Sequence[int] | NDArray[np.uint16] = (), long: Sequence[int] = ()) -> None:
        self._short = np.asarray(short, dtype=np.uint16)
        self._long = list(long)

    def words16(self, count: int) -> NDArray[np.uint16]:
        assert count <= self._short.size, "the tape ran out of 16-bit words"
        head, self._short = self._short[:count], self._short[count:]
        return head

    def words64(self, count: int) -> NDArray[np.uint64]:
        head, self._long = self._long[:count], self._long[count:]
        return np.array(head + [LAST] * (count - len(head)), dtype=np.uint64)


class Constant:
    """Gives one and the same 64-bit word always, and the 16-bit words of a tape."""

    def __init__(self, short: NDArray[np.uint16], word: int) -> None:
        self._tape = Tape(short)
        self._word = word

    def words16(self, count: int) -> NDArray[np.uint16]:
        return self._tape.words16(count)

    def words64(self, count: int) -> NDArray[np.uint64]:
        return np.full(count, self._word, dtype=np.uint64)
