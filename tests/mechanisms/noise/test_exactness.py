"""The samplers against every string of random bits.

A draw is a step function of one real number U in [0, 1), read 16 bits at a time, then 48, then 64 more. If
the steps lie where the cumulative probabilities lie, to the last bit that can be read, the distribution is
exact. Nothing here trusts the sampler's own numbers: the truth comes from decimal arithmetic.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabularium.mechanisms.noise.bernoulli_exp import bernoulli_exp, bernoulli_exp_each
from tabularium.mechanisms.noise.choice import below, below_each, exponential, permute_and_flip
from tabularium.mechanisms.noise.discrete_gaussian import _peak, add_gaussian
from tabularium.mechanisms.noise.discrete_laplace import TIE, Inversion, _Laplace, add_laplace
from tabularium.mechanisms.noise.enclosure import Enclosure, _taylor, exp_minus, floors
from tests.mechanisms.noise import reference
from tests.mechanisms.noise.tape import LAST, Constant, Tape

SCALES = [Fraction(1), Fraction(2), Fraction(3, 2)]
EVERY_WORD = np.arange(1 << 16, dtype=np.uint16)


def draw(scale: Fraction, short: int, *long: int) -> int:
    return int(add_laplace(Tape([short], long), np.zeros(1, np.int64), scale)[0])


def jumps(function: Callable[[int], int], low: int, high: int) -> Iterator[int]:
    """Every x in [low, high) with f(x) != f(x + 1); f never returns to a value that it left."""
    stack = [(low, high)]
    while stack:
        left, right = stack.pop()
        if function(left) == function(right):
            continue
        if right == left + 1:
            yield left
            continue
        middle = (left + right) // 2
        stack += [(left, middle), (middle, right)]


def in_order(scale: Fraction, count: int) -> list[int]:
    """The values in the order in which U meets them: 0, 1, 2, ..., then -1, -2, ..."""
    return [*range(count + 1), *range(-1, -count - 2, -1)]


def steps_of_truth(scale: Fraction, folds: int) -> list[Decimal]:
    """Where U must step: after 0, ..., after folds-1, after all of Z >= 0, after -1, ..., after -folds."""
    with localcontext() as context:
        context.prec = reference.DIGITS
        p = reference.exp_minus(1 / scale)
        up = 1 / (1 + p)
        return [
            *(up * (1 - p**n) for n in range(1, folds + 1)),
            up,
            *(up + p * up * (1 - p**n) for n in range(1, folds + 1)),
        ]


@pytest.mark.parametrize("scale", SCALES)
def test_every_first_word(scale: Fraction) -> None:
    """All 65 536 first words: what they decide, and what they leave open, brackets every probability."""
    folds = _Laplace(scale)._folds
    truth = steps_of_truth(scale, folds)
    cells = {reference.floor_bits(step, 16) for step in truth}
    zeros = np.zeros(EVERY_WORD.size, np.int64)
    low = add_laplace(Tape(EVERY_WORD, [0] * len(cells)), zeros, scale)
    high = add_laplace(Tape(EVERY_WORD), zeros, scale)
    decided = low == high
    assert set(np.flatnonzero(~decided).tolist()) == cells
    for value in range(-12, 13):
        sure = int((decided & (low == value)).sum())
        step = value if value >= 0 else folds - value  # the step that ends this value
        open_ = len({reference.floor_bits(truth[n], 16) for n in (step - 1, step) if n >= 0})
        probability = reference.laplace_probability(value, scale) * 65536
        assert sure <= probability <= sure + open_


@pytest.mark.parametrize("scale", SCALES)
def test_every_refinement(scale: Fraction) -> None:
    """In each undecided cell, the next 48 bits and the 64 after them step exactly where the truth does."""
    truth = steps_of_truth(scale, _Laplace(scale)._folds)
    found: list[int] = []
    for cell in sorted({reference.floor_bits(step, 16) for step in truth}):

        def second(word: int, cell: int = cell) -> int:
            return draw(scale, cell, word << 16)

        # The tape goes on with ones, which are above every step: the word after a jump is the tie itself.
        found += [(cell << 48) + jump + 1 for jump in jumps(second, 0, 2**48 - 1)]
    assert sorted(found) == sorted(reference.floor_bits(step, 64) for step in truth)
    for number, step in enumerate(truth):
        bits = reference.floor_bits(step, 128)
        short, middle, last = bits >> 112, (bits >> 64 & (2**48 - 1)) << 16, bits & LAST

        def third(word: int, short: int = short, middle: int = middle) -> int:
            return draw(scale, short, middle, word)

        assert third(0) == third(last - 1) != third(last) == third(LAST)
        if number in {0, len(truth) // 2}:
            assert list(jumps(third, 0, LAST)) == [last - 1]


def test_the_order_of_the_table_is_the_order_of_the_values() -> None:
    scale = Fraction(2)
    values = [draw(scale, int(word), 0) for word in range(0, 1 << 16, 64)]
    order = in_order(scale, 40)
    places = [order.index(value) for value in values]
    assert places == sorted(places)


@pytest.mark.parametrize("scale", SCALES)
def test_the_tail_goes_on_by_exact_trials(scale: Fraction) -> None:
    """Past the end of the table every further step up is a coin of probability exp(-1/s)."""
    folds = _Laplace(scale)._folds
    top = reference.floor_bits(steps_of_truth(scale, folds)[folds], 64) - 1  # just below the end of Z >= 0
    short, rest = top >> 48, (top & (2**48 - 1)) << 16
    heads = reference.floor_bits(reference.exp_minus(1 / scale), 64)
    assert draw(scale, short, rest) == folds
    assert draw(scale, short, rest, heads + 1) == folds
    assert draw(scale, short, rest, heads - 1) == folds + 1
    assert draw(scale, short, rest, 0, 0, 0, 0, 0) == folds + 5
    after = reference.floor_bits(reference.exp_minus(1 / scale), 128) & LAST
    assert draw(scale, short, rest, heads, after - 1) == folds + 1
    assert draw(scale, short, rest, heads, after + 1) == folds
    assert draw(scale, (1 << 16) - 1, LAST, 0, 0, 0) == -folds - 4


@pytest.mark.parametrize("scale", [Fraction(100), Fraction(1000, 3), Fraction(10**6)])
def test_sign_rest_and_low_bits_multiply_to_the_distribution(scale: Fraction) -> None:
    """Large scales: P(sign, rest)·P(low bits) is P(Z), for the very numbers that the tables are made of."""
    sampler = _Laplace(scale)
    bits = sampler._bits
    assert bits == sum(mask.bit_length() for _, mask, _ in sampler._groups)
    with localcontext() as context:
        context.prec = 60
        rest = widths(sampler._rest)
        lows = [(low, widths(table)) for low, _, table in sampler._groups]
        for value in (0, 1, 7, 63, 100, 1000, 12345, -1, -2, -64, -1000, -54321):
            magnitude = value if value >= 0 else ~value
            code = magnitude >> bits if value >= 0 else ~(magnitude >> bits)
            if code not in rest:
                continue
            probability = rest[code]
            for (low, table), (_, mask, _) in zip(lows, sampler._groups, strict=True):
                probability *= table[(magnitude >> low) & mask]
            truth = reference.laplace_probability(value, scale)
            assert abs(probability / truth - 1) < Decimal(10) ** -25


@pytest.mark.parametrize("scale", [Fraction(100), Fraction(1000, 3), Fraction(10**6)], ids=str)
def test_sign_rest_and_low_bits_are_put_together_as_they_should(scale: Fraction) -> None:
    """Through the sampler itself: words that stand for known parts give the value with those parts."""
    sampler = _Laplace(scale)
    for magnitude in (0, 1, 5, 6, 77, 1234, 7 * 2**sampler._bits + 3):
        for value in (magnitude, ~magnitude):
            rest = magnitude >> sampler._bits
            if rest >= 40:
                continue
            words = [word_for(sampler._rest, rest if value >= 0 else ~rest)]
            for low, mask, table in sampler._groups:
                words.append(word_for(table, (magnitude >> low) & mask))
            assert int(add_laplace(Tape(words), np.full(1, 10), scale)[0]) == 10 + value


@pytest.mark.parametrize("scale", [Fraction(100), Fraction(1000, 3)], ids=str)
def test_a_draw_past_the_end_of_the_table_keeps_its_low_bits(scale: Fraction) -> None:
    """The last first word and a refinement of ones mean "below every table entry"; then two heads."""
    sampler = _Laplace(scale)
    ((_, mask, table),) = sampler._groups
    for low in (0, 1, mask):
        words = [(1 << 16) - 1, word_for(table, low)]
        value = int(add_laplace(Tape(words, [LAST, 0, 0]), np.zeros(1, np.int64), scale)[0])
        assert value == ~(((sampler._folds + 2) << sampler._bits) + low)


def word_for(table: Inversion, code: int) -> int:
    """A first word that decides for ``code``."""
    return int(np.flatnonzero(table.table == code)[0])


def widths(table: Inversion) -> dict[int, Decimal]:
    """The probability of each code, from the table's own bounds at 160 bits."""
    edges = [Decimal(0), *(Decimal(e.low) / 2**160 for e in table._cumulative(160)), Decimal(1)]
    return {
        int(code): right - left for code, left, right in zip(table._codes, edges[:-1], edges[1:], strict=True)
    }


@pytest.mark.parametrize("scale", [Fraction(100), Fraction(1000, 3), Fraction(5, 7), Fraction(1, 50)])
def test_every_table_says_what_its_bounds_say(scale: Fraction) -> None:
    """All 65 536 entries of every table against the 64-bit bounds, read one by one."""
    sampler = _Laplace(scale)
    for table in (sampler._rest, *(table for _, _, table in sampler._groups)):
        edges = [edge.low >> 48 for edge in table._cumulative(64)]
        precise = [edge.low >> 112 for edge in table._cumulative(128)]
        ties = set(precise)
        place = 0
        for word in range(1 << 16):
            while place < len(edges) and precise[place] < word:
                place += 1
            expected = TIE if word in ties else int(table._codes[place])
            assert table.table[word] == expected


@pytest.mark.parametrize("rate", [Fraction(1), Fraction(1, 3), Fraction(7, 1000), Fraction(30)])
def test_a_coin_steps_where_it_should(rate: Fraction) -> None:
    threshold = reference.floor_bits(reference.exp_minus(rate), 128)
    first, second = threshold >> 64, threshold & LAST
    if first:
        assert bernoulli_exp(Tape(long=[first - 1]), rate)
    assert not bernoulli_exp(Tape(long=[first + 1]), rate)
    if second:
        assert bernoulli_exp(Tape(long=[first, second - 1]), rate)
    assert not bernoulli_exp(Tape(long=[first, second + 1]), rate)


@pytest.mark.parametrize("rate", [Fraction(1, 1000), Fraction(1, 7)])
@pytest.mark.parametrize("folds", [1, 2, 255])
def test_an_array_of_coins_steps_where_it_should(rate: Fraction, folds: int) -> None:
    """One base-256 digit: every 16-bit word, then the bits after a tie."""
    truth = reference.exp_minus(rate * folds)
    words = np.arange(1 << 16, dtype=np.uint16)
    coins = np.full(words.size, folds, dtype=np.int64)
    cell = reference.floor_bits(truth, 16)
    assert bernoulli_exp_each(Constant(words, LAST), coins, rate).sum() == cell
    assert bernoulli_exp_each(Constant(words, 0), coins, rate).sum() == cell + 1
    bits = reference.floor_bits(truth, 128)
    one = np.array([folds], dtype=np.int64)
    refine = ((bits >> 64) & (2**48 - 1)) << 16
    assert bernoulli_exp_each(Tape([cell], [refine - (1 << 16)]), one, rate)[0]
    assert not bernoulli_exp_each(Tape([cell], [refine + (1 << 16)]), one, rate)[0]
    assert bernoulli_exp_each(Tape([cell], [refine, (bits & LAST) - 1]), one, rate)[0]
    assert not bernoulli_exp_each(Tape([cell], [refine, (bits & LAST) + 1]), one, rate)[0]


def test_a_coin_of_several_digits_is_heads_when_each_digit_is() -> None:
    rate, folds = Fraction(1, 5000), 3 * 256 + 7
    high = reference.floor_bits(reference.exp_minus(rate * 3 * 256), 16)
    low = reference.floor_bits(reference.exp_minus(rate * 7), 16)
    one = np.array([folds], dtype=np.int64)
    outcomes = {
        (a, b): bool(bernoulli_exp_each(Tape([a, b]), one, rate)[0])
        for a in (high - 1, high + 1)
        for b in (low - 1, low + 1)
    }
    assert outcomes == {key: key == (high - 1, low - 1) for key in outcomes}


def test_no_coin_is_tossed_for_a_certain_outcome() -> None:
    assert bernoulli_exp_each(Tape(), np.zeros(5, np.int64), Fraction(1)).all()
    assert bernoulli_exp(Tape(), Fraction(0))


# --- Gaussian noise and choices, driven bit by bit: each is made of proposals, coins and uniform integers ---


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


# --- The integer bounds that every threshold comes from ----------------------------------------------


RATES = st.fractions(min_value=Fraction(1, 10**12), max_value=60, max_denominator=10**12)


@given(RATES, st.sampled_from([8, 64, 128, 200]))
def test_the_bounds_hold_and_are_tight(rate: Fraction, bits: int) -> None:
    found = exp_minus(rate, bits)
    truth = reference.exp_minus(rate)
    assert found.low <= reference.floor_bits(truth, bits)
    assert found.high >= reference.floor_bits(truth, bits) + 1 or found.high == 1 << bits
    assert found.high - found.low <= 3


@pytest.mark.parametrize(
    "rate", [Fraction(0), Fraction(10**9), Fraction(1, 10**30), Fraction(709), Fraction(1)]
)
def test_extreme_rates(rate: Fraction) -> None:
    found = exp_minus(rate, 64)
    truth = Fraction(reference.exp_minus(rate)) * 2**64
    assert found.low <= truth <= found.high
    assert found.high - found.low <= 3


@given(RATES, st.integers(1, 300))
def test_the_floor_is_the_floor(rate: Fraction, bits: int) -> None:
    (found,) = floors(lambda precision: [exp_minus(rate, precision)], bits)
    assert found == reference.floor_bits(reference.exp_minus(rate), bits)


@given(
    st.fractions(min_value=0, max_value=Fraction(1, 128), max_denominator=10**12),
    st.sampled_from([16, 64, 200]),
)
def test_the_series_is_bounded_from_both_sides(point: Fraction, bits: int) -> None:
    steps = int(point * 2**bits)
    low, high = _taylor(steps, bits)
    truth = 2**bits / Fraction(reference.exp_minus(Fraction(steps, 2**bits)))
    assert low <= truth <= high
    assert high - low <= 200


def test_a_value_too_near_to_one_for_its_digits_to_be_computed() -> None:
    def nearly_one(bits: int) -> list[Enclosure]:
        return [exp_minus(Fraction(10**7), bits).complement()]

    assert floors(nearly_one, 64) == [2**64 - 1]


def test_precision_is_raised_until_the_digits_are_certain() -> None:
    asked: list[int] = []

    def just_above_half(bits: int) -> list[Enclosure]:
        asked.append(bits)
        value = (1 << (bits - 1)) + ((1 << bits) >> 300)
        return [Enclosure(value - 1, value + 1, bits)]

    assert floors(just_above_half, 8) == [128]
    assert asked == [72, 136, 264, 520]


@given(RATES, RATES)
def test_arithmetic_rounds_outwards(one: Fraction, other: Fraction) -> None:
    bits = 96
    a, b = exp_minus(one, bits), exp_minus(other, bits)
    x, y = Fraction(reference.exp_minus(one)), Fraction(reference.exp_minus(other))
    unit = Fraction(1, 2**bits)
    for found, truth in ((a * b, x * y), (a + b, x + y), (a.complement(), 1 - x)):
        assert found.low * unit <= truth <= found.high * unit
    if b.low > 2**60:
        assert (a / b).low * unit <= x / y <= (a / b).high * unit
