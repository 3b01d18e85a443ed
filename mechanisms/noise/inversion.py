"""Exact inversion of a finite distribution, sixteen random bits at a time.

A real number U, uniform on [0, 1), falls into one of the intervals between the distribution's cumulative
probabilities F_1 < F_2 < ...; which one is the outcome. The first 16 bits of U nearly always decide: a
table of 65 536 entries says which outcome, or *tie* when some F lies inside that cell. A tie takes more
bits of U: 48, compared with the 64-bit floors of every F; and if U still agrees with an F in 64 bits,
64 more, and so on, against digits computed when they are needed. Nothing is rounded: every outcome has
exactly its probability. All of it is integer arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.noise.enclosure import Enclosure, floors
from tabularium.mechanisms.noise.keystream import Words16, WordStream

Codes = NDArray[np.int16]

TIE = 32767  # code of a table entry that does not decide


class Inversion:
    """A finite distribution over 16-bit codes.

    Parameters
    ----------
    codes
        The outcomes, none equal to ``TIE``.
    cumulative
        ``cumulative(bits)`` encloses F_1 < ... < F_{m-1}, F_i the probability of the first i outcomes. All
        irrational, strictly between 0 and 1.
    """

    def __init__(self, codes: Sequence[int], cumulative: Callable[[int], Iterable[Enclosure]]) -> None:
        self._cumulative = cumulative
        self._codes: Codes = np.asarray(codes, dtype=np.int16)
        self._floors = np.array(floors(cumulative, 64), dtype=np.uint64)
        cells = (self._floors >> np.uint64(48)).astype(np.int64)
        self.table: Codes = np.repeat(self._codes, np.diff(cells, prepend=0, append=1 << 16))
        self.table[cells] = TIE

    def draw(self, stream: WordStream, count: int) -> Codes:
        """Return ``count`` independent codes, shape (count,)."""
        words = stream.words16(count)
        found = self.table.take(words)
        ties = np.flatnonzero(found == TIE)
        if ties.size:
            found[ties] = self.settle(stream, words[ties])
        return found

    def settle(self, stream: WordStream, words: Words16) -> Codes:
        """Return the outcomes of draws whose first 16 bits, ``words``, did not decide."""
        first = words.astype(np.uint64) << np.uint64(48) | stream.words64(words.size) >> np.uint64(16)
        index = np.searchsorted(self._floors, first)  # how many F have smaller first 64 bits
        agree = np.append(self._floors, np.uint64(0))[index] == first
        agree &= index < self._floors.size
        for place in np.flatnonzero(agree):
            index[place] = self._settle_exactly(stream, int(first[place]))
        return self._codes[index]

    def _settle_exactly(self, stream: WordStream, prefix: int) -> int:
        """Go on until the bits of U differ from those of every F (probability 2^-48 of being needed)."""
        bits = 64
        while True:
            bits += 64
            prefix = prefix << 64 | int(stream.words64(1)[0])
            digits = floors(self._cumulative, bits)
            if prefix not in digits:
                return sum(value < prefix for value in digits)
