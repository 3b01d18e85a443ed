"""Coins that come up heads with probability exp(-γ), γ rational, exactly."""

from __future__ import annotations

from fractions import Fraction

from mechanisms.noise.enclosure import exp_minus, floors
from mechanisms.noise.keystream import WordStream


def flip(stream: WordStream, rate: Fraction) -> bool:
    """Return True with probability ``exp(-rate)``, rate >= 0.

    Sixty-four bits of a uniform U at a time are compared with the digits of exp(-rate) until they differ.
    """
    if rate == 0:
        return True
    bits = prefix = 0
    while True:
        bits += 64
        prefix = prefix << 64 | int(stream.words64(1)[0])
        threshold = floors(lambda precision: [exp_minus(rate, precision)], bits)[0]
        if prefix != threshold:
            return prefix < threshold
