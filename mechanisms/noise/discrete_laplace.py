"""Geometric and discrete Laplace variables with a rational scale, exactly.

Z has the discrete Laplace distribution of scale s, P(Z = z) proportional to p^|z| with p = exp(-1/s):

- Z >= 0 with probability 1/(1+p), and then Z is geometric, P(G = g) = (1-p) p^g; otherwise -1-Z is that same
  geometric variable. So a sign of probability p/(1+p) and one geometric variable make a draw: Z = G or ~G.
- The binary digits of a geometric variable are independent, so its low bits and the rest are independent,
  and the rest, G div 2^b, is geometric again with ratio exp(-2^b/s) (Canonne, Kamath, Steinke 2020 use the
  same split).

The sign and G div 2^b are drawn together from one exact table, with b such that the rest has a scale of at
most 16; the low bits from a second table (a few, beyond eight bits). The first table ends in "K or more":
there the rest is K plus a fresh geometric variable, since it has no memory, drawn by repeated exact
Bernoulli trials. The support is unbounded, as pure differential privacy needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from math import ceil

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.errors import MechanismError
from tabularium.mechanisms.noise.bernoulli_exp import bernoulli_exp
from tabularium.mechanisms.noise.enclosure import Enclosure, exp_minus, floors
from tabularium.mechanisms.noise.keystream import Words16, WordStream

BLOCK = 1 << 17  # draws made at a time: the working set stays in the processor's cache
LARGEST_SCALE = 1 << 40
TIE = 32767  # code of a table entry that does not decide
_TAIL_UP, _TAIL_DOWN = TIE - 1, TIE - 2
_REST_SCALE = 16
_TAIL_FOLDS = 14  # the table covers this many times the scale of the rest: a tail in 10^6 draws
_GROUP_BITS = 8


def add_laplace(stream: WordStream, values: NDArray[np.int64], scale: Fraction) -> NDArray[np.int64]:
    """Return ``values`` plus independent discrete Laplace noise.

    ``values``: int64 array of any shape, at most 2^62 in absolute value. ``scale``: s in P(z) proportional to
    exp(-|z|/s); positive, at most 2^40.

    Source: Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy" (2020), section 5.
    """
    sampler = _sampler(scale)
    noisy = np.array(values, dtype=np.int64, order="C", copy=True)
    flat = noisy.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        sampler.add(stream, flat[start : start + BLOCK])
    return noisy


class _Laplace:
    """The tables of one scale."""

    def __init__(self, scale: Fraction) -> None:
        if not 0 < scale <= LARGEST_SCALE:
            raise MechanismError(
                "the noise scale is not between 0 and 2^40", where="laplace", hint="use a larger budget"
            )
        self._rate = 1 / scale
        self._bits = 0
        while scale > _REST_SCALE << self._bits:
            self._bits += 1
        self._tail_rate = self._rate * (1 << self._bits)
        self._folds = max(1, ceil(_TAIL_FOLDS / self._tail_rate))
        self._rest = self._rest_table()
        self._groups = [
            (low, (1 << width) - 1, self._low_table(low, width)) for low, width in _groups(self._bits)
        ]

    def add(self, stream: WordStream, block: NDArray[np.int64]) -> None:
        """Add one draw to every element of ``block``, in place."""
        rest = self._rest.draw(stream, block.size)
        tails = np.flatnonzero(rest >= _TAIL_DOWN)
        beyond = [self._beyond(stream, int(rest[place])) for place in tails]
        rest[tails] = [(value >= 0) - 1 for value in beyond]  # right sign for the low bits
        sign = rest >> 15  # 0 or -1
        block += np.left_shift(rest, self._bits, dtype=np.int64)
        for place, value in zip(tails, beyond, strict=True):
            block[place] += (value - int(rest[place])) << self._bits
        for low, mask, table in self._groups:
            digits = table.draw(stream, block.size)
            digits ^= sign & np.int16(mask)
            block += np.left_shift(digits, low, dtype=np.int64)

    def _rest_table(self) -> Inversion:
        folds = self._folds
        codes = [*range(folds), _TAIL_UP, *range(-1, -folds - 1, -1), _TAIL_DOWN]

        def cumulative(bits: int) -> Iterator[Enclosure]:
            ratio = exp_minus(self._tail_rate, bits)
            base = exp_minus(self._rate, bits)
            up = Enclosure.one(bits) / (Enclosure.one(bits) + base)
            within = list(_geometric_cdf(ratio, folds, bits))
            yield from (up * part for part in within)
            yield up
            yield from (up + base * up * part for part in within)

        return Inversion(codes, cumulative)

    def _low_table(self, low: int, width: int) -> Inversion:
        rate = self._rate * (1 << low)

        def cumulative(bits: int) -> Iterator[Enclosure]:
            parts = list(_geometric_cdf(exp_minus(rate, bits), 1 << width, bits))
            yield from (part / parts[-1] for part in parts[:-1])

        return Inversion(range(1 << width), cumulative)

    def _beyond(self, stream: WordStream, code: int) -> int:
        """Return the signed rest of a draw that fell past the end of the table."""
        value = self._folds + geometric(stream, self._tail_rate)
        return value if code == _TAIL_UP else ~value


_sampler = lru_cache(maxsize=64)(_Laplace)


def geometric(stream: WordStream, rate: Fraction) -> int:
    """Return one geometric variable, P(g) proportional to exp(-rate·g), by repeated trials."""
    count = 0
    while bernoulli_exp(stream, rate):
        count += 1
    return count


def _geometric_cdf(ratio: Enclosure, count: int, bits: int) -> Iterable[Enclosure]:
    power = Enclosure.one(bits)
    for _ in range(count):
        power = power * ratio
        yield power.complement()


def _groups(bits: int) -> Iterator[tuple[int, int]]:
    """Cut ``bits`` low bits into (position, width) groups of nearly equal width, at most eight bits each."""
    count = -(-bits // _GROUP_BITS)
    for group in range(count):
        start, stop = bits * group // count, bits * (group + 1) // count
        yield start, stop - start


Codes = NDArray[np.int16]


class Inversion:
    """A finite distribution over 16-bit codes, inverted exactly.

    The first 16 bits of a uniform number U look up the outcome, or ``TIE`` where some cumulative probability
    F_i lies within the cell; a tie is settled by 48 more bits, then 64 more at a time, against digits of F_i
    computed when they are needed. All of it is integer arithmetic.

    ``codes``: The outcomes, none equal to ``TIE``. ``cumulative``: ``cumulative(bits)`` encloses F_1 < ... <
    F_{m-1}, F_i the probability of the first i outcomes. All irrational, strictly between 0 and 1.
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
        result = self.table.take(words)
        ties = np.flatnonzero(result == TIE)
        if ties.size:
            result[ties] = self.settle(stream, words[ties])
        return result

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
