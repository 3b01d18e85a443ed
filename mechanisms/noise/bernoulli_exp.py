"""Bernoulli variables of probability exp(-γ), γ rational, exactly: coins that come up heads so often.

An array of coins has γ = k·c, with whole numbers k and one rational c. In base 256, k = Σ d_j·256^j, so
exp(-k·c) = Π exp(-d_j·256^j·c): a coin comes up heads when one coin for each digit does. Each of those
needs a threshold from a table of 256, compared with 16 random bits; a tie takes 48 more, and then digits
computed when needed, as in ``inversion``. No rounding anywhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.noise.enclosure import Enclosure, exp_minus, floors
from tabularium.mechanisms.noise.keystream import WordStream

_DIGIT = 8  # bits of k judged at a time


def bernoulli_exp(stream: WordStream, rate: Fraction) -> bool:
    """Return True with probability ``exp(-rate)``, rate >= 0.

    Sixty-four bits of a uniform U at a time are compared with the digits of exp(-rate) until they differ.
    """
    if rate == 0:
        return True
    word, threshold = int(stream.words64(1)[0]), _digits(rate, 64)
    return word < threshold if word != threshold else _settle(stream, rate, word, 64)


def bernoulli_exp_each(stream: WordStream, folds: NDArray[np.int64], rate: Fraction) -> NDArray[np.bool_]:
    """Return one coin for each fold: True with probability ``exp(-folds · rate)``.

    ``folds``: int64 array of shape (n,), non-negative. ``rate``: Positive.
    """
    heads = np.ones(folds.shape, dtype=np.bool_)
    standing = np.flatnonzero(folds)
    heads[standing] = False
    left = folds[standing]
    top = int(left.max(initial=0)).bit_length()
    for shift in reversed(range(0, top, _DIGIT)):  # large digits first: they fell most
        digits = (left >> shift) & ((1 << _DIGIT) - 1)
        up = _digit_coins(rate * (1 << shift)).toss(stream, digits)
        standing, left = standing[up], left[up]
    heads[standing] = True
    return heads


class _DigitCoins:
    """Thresholds of exp(-d·rate) for the digits d = 0..255."""

    def __init__(self, rate: Fraction) -> None:
        self._rate = rate
        self._floors = np.array([0, *floors(self._powers, 64)], dtype=np.uint64)
        self._short = (self._floors >> np.uint64(48)).astype(np.uint32)
        self._short[0] = 1 << 16  # digit 0: heads whatever the word

    def toss(self, stream: WordStream, digits: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return a coin of probability ``exp(-digit · rate)`` for each digit."""
        words = stream.words16(digits.size)
        thresholds = self._short.take(digits)
        heads = words < thresholds
        ties = np.flatnonzero(words == thresholds)
        if ties.size:
            longer = words[ties].astype(np.uint64) << np.uint64(48)
            longer |= stream.words64(ties.size) >> np.uint64(16)
            bounds = self._floors[digits[ties]]
            heads[ties] = longer < bounds
            for place in np.flatnonzero(longer == bounds):
                rate = self._rate * int(digits[ties[place]])
                heads[ties[place]] = _settle(stream, rate, int(longer[place]), 64)
        return heads

    def _powers(self, bits: int) -> Iterator[Enclosure]:
        base = power = exp_minus(self._rate, bits)
        for _ in range(1, 1 << _DIGIT):
            yield power
            power = power * base


_digit_coins = lru_cache(maxsize=64)(_DigitCoins)


def _settle(stream: WordStream, rate: Fraction, prefix: int, bits: int) -> bool:
    """Decide U < exp(-rate), given that the first ``bits`` bits of U are ``prefix`` and agree so far."""
    while True:
        bits += 64
        prefix = prefix << 64 | int(stream.words64(1)[0])
        threshold = _digits(rate, bits)
        if prefix != threshold:
            return prefix < threshold


@lru_cache(maxsize=256)
def _digits(rate: Fraction, bits: int) -> int:
    """Return ``floor(exp(-rate) * 2**bits)``."""
    return floors(lambda precision: [exp_minus(rate, precision)], bits)[0]
