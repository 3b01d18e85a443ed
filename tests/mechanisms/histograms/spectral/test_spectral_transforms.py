"""Transforms in double words: against whole-number arithmetic, and against what the privacy proofs claim."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tabularium.mechanisms.histograms import double_fourier
from tabularium.mechanisms.histograms.double_fourier import (
    BITS,
    complex_multiply,
    double_word,
    pi,
    plus,
    root,
    square_root,
    table,
    tail_energies,
    times,
)
from tabularium.mechanisms.histograms.spectral_transforms import (
    TRANSFORMS,
    Layout,
    coordinates,
    corner,
    inverse,
    layout,
)
from tabularium.mechanisms.noise.synthetic import generator

SMALL = [(n,) for n in range(1, 41)]
FLAT = [*SMALL, (61,), (64,), (67,), (100,), (134,), (149,)]
DEEP = [
    (1, 1),
    (2, 2),
    (2, 3),
    (3, 2),
    (4, 4),
    (2, 1, 3),
    (4, 6, 2),
    (2, 2, 2, 2),
    (5, 3, 4),
    (3, 67),
    (6, 1),
]
U2 = Fraction(1, 1 << 106)


# --- arithmetic -------------------------------------------------------------------------------------


def test_pi_to_57_digits() -> None:
    digits = 314159265358979323846264338327950288419716939937510582097
    assert pi() * 10**56 >> BITS == digits


def test_roots_that_have_a_closed_form() -> None:
    one = 1 << BITS
    closed = {(0, 7): (one, 0), (1, 4): (0, -one), (1, 2): (-one, 0), (3, 4): (0, one)}
    half, root_half, root_three = one // 2, isqrt(one * one // 2), isqrt(3 * one * one) // 2
    closed |= {(1, 8): (root_half, -root_half), (1, 6): (half, -root_three), (5, 12): (-root_three, -half)}
    for (numerator, denominator), expected in closed.items():
        for got, wanted in zip(root(numerator, denominator), expected, strict=True):
            assert abs(got - wanted) < 1 << 8


def test_a_long_table_of_roots_stays_on_the_circle() -> None:
    made = table(1 << 20, 1, 1 << 12)
    for place in (1, 1000, 4095):
        cosine, sine = root(place, 1 << 20)
        for got, wanted in ((made[:2, place], cosine), (made[2:, place], sine)):
            assert abs(exactly(*got) - Fraction(wanted, 1 << BITS)) < U2


def test_square_roots() -> None:
    assert square_root(1, 4) == (0.5, 0.0)
    high, low = square_root(1, 2)
    assert abs(exactly(high, low) ** 2 - Fraction(1, 2)) < 3 * U2


def exactly(high: float, low: float) -> Fraction:
    return Fraction(float(high)) + Fraction(float(low))


words = st.builds(
    lambda mantissa, exponent: double_word(mantissa, 120 - exponent),
    st.integers(-(1 << 120), 1 << 120),
    st.integers(-20, 60),
)


@given(words, words)
@settings(max_examples=300, deadline=None)
def test_sums_and_products_err_no_more_than_is_claimed(
    a: tuple[float, float], b: tuple[float, float]
) -> None:
    x, y = exactly(*a), exactly(*b)
    assert abs(exactly(*plus(*a, *b)) - (x + y)) <= 4 * U2 * (abs(x) + abs(y))
    assert abs(exactly(*times(*a, *b)) - x * y) <= 9 * U2 * abs(x * y)


@given(st.tuples(words, words, words, words))
@settings(max_examples=200, deadline=None)
def test_complex_products_err_no_more_than_is_claimed(parts: tuple[tuple[float, float], ...]) -> None:
    x, y, c, s = (exactly(*part) for part in parts)
    got = complex_multiply(*(number for part in parts for number in part))
    real, imaginary = exactly(*got[:2]) - (x * c - y * s), exactly(*got[2:]) - (x * s + y * c)
    assert real**2 + imaginary**2 <= (20 * U2) ** 2 * (x * x + y * y) * (c * c + s * s)


# --- transforms -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(n,) for n in (1, 2, 3, 8, 9, 30, 61, 64, 67, 100)] + DEEP[1:9], ids=str)
def test_the_error_is_within_its_bound(shape: tuple[int, ...]) -> None:
    """Against sums of whole numbers that are right to 2^-170. The DCT has three passes more."""
    counts = generator(len(shape)).integers(0, 1 << 40, shape)
    norm = isqrt(sum(int(count) ** 2 for count in counts.flat)) * isqrt(counts.size) + 1
    allowed = double_fourier.relative_error(shape) * norm
    values = np.stack([counts.astype(np.float64), np.zeros(shape)])
    found = double_fourier.spectrum(values)
    waves = double_fourier.cosine_spectrum(values)
    far = near = Fraction(0)
    for place in product(*(range(min(size, 5)) for size in shape)):
        real, imaginary, cosine = exact_sums(counts, place)
        if place[-1] <= shape[-1] // 2:
            far += (exactly(*found[:2, *place]) - real) ** 2 + (exactly(*found[2:, *place]) - imaginary) ** 2
        near += (exactly(*waves[:, *place]) - cosine) ** 2
    assert far <= allowed**2
    assert near <= allowed**2


def exact_sums(counts: np.ndarray, place: tuple[int, ...]) -> tuple[Fraction, Fraction, Fraction]:
    """Return the Fourier and the cosine sum at one place."""
    real = imaginary = cosine = Fraction(0)
    unit = Fraction(1, 1 << BITS)
    for cell in product(*(range(size) for size in counts.shape)):
        count = int(counts[cell])
        turns = sum(Fraction(j * k, n) for j, k, n in zip(cell, place, counts.shape, strict=True))
        c, s = root(turns.numerator % turns.denominator, turns.denominator)
        real, imaginary = real + count * c * unit, imaginary + count * s * unit
        wave = Fraction(count)
        for j, k, n in zip(cell, place, counts.shape, strict=True):
            wave *= root(k * (2 * j + 1), 4 * n)[0] * unit
        cosine += wave
    return real, imaginary, cosine


def test_long_transforms_against_scipy() -> None:
    """Lengths of one large prime, of small factors, and a table; in plain floats."""
    from scipy import fft

    for shape in ((4099,), (5000,), (75, 103)):
        counts = generator(2).integers(0, 1000, shape)
        values = np.stack([counts.astype(np.float64), np.zeros(shape)])
        found, wanted = double_fourier.spectrum(values), fft.rfftn(counts)
        np.testing.assert_allclose(found[0] + 1j * found[2], wanted, atol=1e-8)
        waves = fft.dctn(counts, type=2) / 2 ** len(shape)
        np.testing.assert_allclose(double_fourier.cosine_spectrum(values)[0], waves, atol=1e-8)


def test_the_bound_adds_up_passes() -> None:
    assert double_fourier.factors(720) == [4, 4, 3, 3, 5]
    assert double_fourier.factors(2 * 67) is None
    assert double_fourier.relative_error((8,)) == Fraction(2 * (108 * 4 + 100 * 2 + 512), 1 << 106)
    assert double_fourier.relative_error((67,)) == 2 * U2 * (16 * 67 * (46 + 4 * 108 * 4) + 512)
    assert double_fourier.relative_error((1 << 20,)) < Fraction(1, 1 << 92)
    assert double_fourier.relative_error((999_983,)) < Fraction(1, 1 << 65)


# --- coordinates ------------------------------------------------------------------------------------


def matrix(plan: Layout) -> np.ndarray:
    """One row for each coordinate, one column for each cell; from the inverse alone."""
    return np.array([inverse(row, plan).reshape(-1) for row in np.eye(plan.size)])


@pytest.mark.parametrize("shape", FLAT[:20] + DEEP, ids=str)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_the_transform_is_an_isometry_and_its_inverse_undoes_it(shape: tuple[int, ...], transform) -> None:  # type: ignore[no-untyped-def]
    plan = layout(shape, transform)
    rows = matrix(plan)
    np.testing.assert_allclose(rows @ rows.T, np.eye(plan.size), atol=1e-12)
    counts = generator(1).integers(0, 100, shape)
    np.testing.assert_allclose(coordinates(counts, plan)[0], rows @ counts.reshape(-1), atol=1e-10)


@pytest.mark.parametrize("shape", [(1,), (2,), (7,), (8,), (3, 4), (4, 4), (2, 3, 2)], ids=str)
def test_coordinates_come_from_slow_to_fast(shape: tuple[int, ...]) -> None:
    """The squared turns of each row, found from the row itself, are the same between two ends, and ascend."""
    for transform in TRANSFORMS:
        plan = layout(shape, transform)
        radii = [squared_turns(row.reshape(shape), transform) for row in matrix(plan)]
        groups = np.split(np.array(radii), plan.ends[:-1])
        assert all(len(set(group.tolist())) == 1 for group in groups)
        assert [group[0] for group in groups] == sorted({*radii})


def squared_turns(wave: np.ndarray, transform: str) -> int:
    from scipy import fft

    if transform == "dct":
        peak = np.unravel_index(np.abs(fft.dctn(wave, norm="ortho")).argmax(), wave.shape)
        return sum(int(k) ** 2 for k in peak)
    peak = np.unravel_index(np.abs(fft.fftn(wave)).argmax(), wave.shape)
    return sum(min(int(k), n - int(k)) ** 2 for k, n in zip(peak, wave.shape, strict=True))


def test_a_wave_by_hand() -> None:
    """Four cells: the constant, cosine and sine of one complex_multiply, the alternating wave."""
    got = coordinates(np.array([7, 1, 3, 5]), layout((4,), "dft"))[0]
    half_root = np.sqrt(0.5)
    np.testing.assert_allclose(got, [8, half_root * 4, half_root * 4, 2], atol=1e-14)


# --- what the privacy proofs claim ------------------------------------------------------------------


@pytest.mark.parametrize("shape", FLAT + DEEP, ids=str)
def test_columns_of_the_real_fourier_transform(shape: tuple[int, ...]) -> None:
    """Up to each radius: L1 norm at most z/√N, L2 norm √(z/N), for every cell."""
    plan = layout(shape, "dft")
    columns = matrix(plan)
    absolute = np.cumsum(np.abs(columns), axis=0)[plan.ends - 1]
    squared = np.cumsum(columns**2, axis=0)[plan.ends - 1]
    assert (absolute <= (plan.ends / np.sqrt(plan.size) + 1e-12)[:, None]).all()
    np.testing.assert_allclose(squared, np.repeat((plan.ends / plan.size)[:, None], plan.size, 1), atol=1e-12)


@pytest.mark.parametrize("shape", FLAT + DEEP, ids=str)
def test_the_first_cell_is_the_worst_for_cosines(shape: tuple[int, ...]) -> None:
    """Up to each radius, in L1 and L2. Lengths with odd divisors are the hard case of the proof."""
    plan = layout(shape, "dct")
    columns = matrix(plan)
    np.testing.assert_allclose(columns[:, 0], corner(plan), atol=1e-12)
    for norms in (np.cumsum(np.abs(columns), axis=0), np.cumsum(columns**2, axis=0)):
        kept = norms[plan.ends - 1]
        assert (kept.max(axis=1) <= kept[:, 0] + 1e-12).all()


def test_the_first_cell_is_the_worst_for_every_number_of_waves() -> None:
    for size in range(1, 130):
        angles = np.pi / (2 * size) * np.outer(np.arange(size), 2 * np.arange(size) + 1)
        for norms in (np.cumsum(np.abs(np.cos(angles)), axis=0), np.cumsum(np.cos(angles) ** 2, axis=0)):
            assert (norms <= norms[:, :1] + 1e-11).all()


def test_energies_of_what_is_dropped() -> None:
    values = np.array([[5.0, 3.0, 2.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    assert tail_energies(values, np.array([1, 3, 4])).tolist() == [14.0, 1.0, 0.0]
