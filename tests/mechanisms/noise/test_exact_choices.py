"""Gaussian noise and choices, driven bit by bit: each is made of proposals, coins and uniform integers.

Where the proposals and coins step is settled in ``test_exactness``; here the samplers themselves are given
words that stand for known proposals and coins on either side of their step, and must do with them what the
distribution says.
"""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tabularium.mechanisms.noise.choice import below, below_each, exponential, permute_and_flip
from tabularium.mechanisms.noise.discrete_gaussian import _peak, add_gaussian
from tabularium.mechanisms.noise.discrete_laplace import _Laplace
from tests.mechanisms.noise import reference
from tests.mechanisms.noise.tape import LAST, Tape
from tests.mechanisms.noise.test_exactness import word_for

LAST16 = (1 << 16) - 1
VARIANCES = [Fraction(1), Fraction(4), Fraction(9, 4), Fraction(1, 2)]


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 8, 255])
def test_uniform_below_over_every_word_of_its_length(bound: int) -> None:
    """With b bits, each of the 2^b words gives its own value or is refused: the values are equally likely."""
    bits = (bound - 1).bit_length()
    words = [word << (64 - bits) for word in range(1 << bits)]
    found = [int(below(Tape(long=[word, 0]), bound, 1)[0]) for word in words] if bits else [0]
    accepted = [value for word, value in enumerate(found) if value == word]
    assert accepted == list(range(bound))
    assert set(found) <= set(range(bound))


@pytest.mark.parametrize("variance", [Fraction(1, 9), Fraction(1), Fraction(7, 3), Fraction(12345, 7)])
def test_proposal_times_acceptance_is_the_discrete_gaussian(variance: Fraction) -> None:
    """In exact fractions: the exponents of proposal and acceptance add up to -y²/2σ² and a constant."""
    peak, parts = _peak(variance)
    scale, rate = variance * parts / peak, 1 / (2 * variance * parts**2)
    constants = {
        -Fraction(abs(y)) / scale - rate * abs(abs(y) * parts - peak) ** 2 + Fraction(y * y) / (2 * variance)
        for y in range(-50, 51)
    }
    assert len(constants) == 1


@pytest.mark.parametrize("variance", VARIANCES, ids=str)
@pytest.mark.parametrize("value", [0, 1, -1, 2, -3, 5])
def test_a_gaussian_proposal_is_kept_as_often_as_it_should(variance: Fraction, value: int) -> None:
    """The words of a known proposal y, then its coin at the step of exp(-(|y| - m)²/2σ²), m near σ."""
    peak, parts = _peak(variance)
    m = Fraction(peak, parts)
    rest = _Laplace(variance / m)._rest
    gamma = (abs(value) - m) ** 2 / (2 * variance)
    step = reference.floor_bits(reference.exp_minus(gamma), 128)
    cell, second, third = step >> 112, step >> 64 & ((1 << 48) - 1), step & LAST
    # Seventeen proposals are made for one draw. The first is the one asked about; if it is turned down, the
    # next round's proposals are all zero, with coins of their own: heads, so that the round ends.
    ones = word_for(rest, value)

    def draw(word: int, *long: int) -> int:
        coins = [word] + [LAST16] * 16 if gamma else []
        again = [word_for(rest, 0)] * 17 + [0] * 17
        tape = Tape([ones] * 17 + coins + again, [*long, *[LAST] * 16])
        return int(add_gaussian(tape, np.zeros(1, np.int64), variance)[0])

    if gamma == 0:
        assert draw(LAST16) == value
        return
    other = 0 if value else None
    kept = [draw(word, LAST) for word in {0, cell // 2, cell - 1} if 0 <= word < cell]
    assert set(kept) <= {value}
    if value:
        assert draw(cell + 1, LAST) == other
        assert draw(cell, (second - 1) << 16) == value
        assert draw(cell, (second + 1) << 16) == other
        assert draw(cell, second << 16, third - 1) == value
        assert draw(cell, second << 16, third + 1) == other


def test_permute_and_flip_is_a_uniform_one_among_the_heads() -> None:
    """Every outcome of the coins, every uniform word: counted, they give P(r) as a polynomial in the p's.

    P(r) = Σ over subsets S of heads with r in S of Π_{S} p·Π_{not S} (1 - p)/|S|, worked out here from the
    outputs: for each subset, how many of the equally likely words choose r.
    """
    gaps, rate = np.array([2, 0, 1, 5]), Fraction(1, 3)
    cells = {gap: reference.floor_bits(reference.exp_minus(rate * gap), 16) for gap in (2, 1, 5)}
    standing = [0, 2, 3]  # the best candidate tosses no coin
    for heads in product([True, False], repeat=3):
        coins = [
            cells[int(gaps[place])] + (-1 if up else 1) for place, up in zip(standing, heads, strict=True)
        ]
        subset = sorted([1, *(place for place, up in zip(standing, heads, strict=True) if up)])
        bits = (len(subset) - 1).bit_length()
        chosen = Counter()
        for word in range(1 << bits):
            tape = Tape(coins, [word << (64 - bits), 0] if bits else [])
            if word < len(subset):  # the others are drawn again
                chosen[int(permute_and_flip(tape, gaps, np.array([0]), rate)[0])] += 1
        assert chosen == dict.fromkeys(subset, 1)


def test_every_group_has_coins_and_a_uniform_word_of_its_own() -> None:
    gaps, starts, rate = np.array([0, 0, 7, 0, 3, 0, 0]), np.array([0, 3, 4]), Fraction(1, 2)
    # Coins of the third and the fifth: tails, heads. Then words for groups with several heads: {0, 1}, {4, 5, 6}.
    for first, last in product([0, 1], [0, 1, 2]):
        tape = Tape([LAST16, 0], [first << 63, last << 62])
        assert permute_and_flip(tape, gaps, starts, rate).tolist() == [first, 0, last]
    tape = Tape([LAST16, 0], [0, 3 << 62, 1 << 62])  # the last group's first word is refused
    assert permute_and_flip(tape, gaps, starts, rate).tolist() == [0, 0, 1]


def test_the_exponential_mechanism_takes_the_first_proposal_that_is_kept() -> None:
    """Sixty-four uniform proposals, a coin for each that is not the best: the first heads is the answer."""
    gaps, rate = np.array([0, 2, 1, 9]), Fraction(1, 4)
    cells = [reference.floor_bits(reference.exp_minus(rate * int(gap)), 16) for gap in gaps]
    for proposal in (1, 2, 3):
        for word, expected in ((cells[proposal] - 1, proposal), (cells[proposal] + 1, 0)):
            proposals = [proposal << 62, *[0] * 63]  # then the best candidate, always kept
            assert exponential(Tape([word], proposals), gaps, rate).tolist() == [expected]


@pytest.mark.parametrize("bound", [1, 2, 3, 5, 8, 255])
def test_uniform_below_each_bound_over_every_word(bound: int) -> None:
    bits = (bound - 1).bit_length()
    bounds = np.array([bound, 1, bound])
    for word in range(1 << bits):
        words = [word << (64 - bits), 0, 0] if bits else []
        first, alone, last = below_each(Tape(long=words), bounds).tolist()
        assert (first, alone, last) == (word if word < bound else 0, 0, 0)
