"""Fourier and cosine transforms in double words, with a proven bound on their error.

A privacy proof needs to know how far a computed coefficient lies from the exact one, for the worst data; in
plain floats that is more than one record changes it by. So true counts are transformed in numbers of about
106 bits, and ``relative_error`` bounds the error by some 2^-40 of that change
(docs/reference/mechanisms/efpa.md). Only IEEE doubles, additions and multiplications. Inverse transforms act
on noisy coefficients and are the library's.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.kernels.compiled import compiled

LARGEST_RADIX = 61
_AROUND = 512
_FEW = 1 << 12  # tables of roots up to this length are kept


@lru_cache(maxsize=64)
def relative_error(shape: tuple[int, ...]) -> Fraction:
    """Return a bound on ‖computed - exact‖/‖exact‖ for the transforms of an array of this shape."""
    return Fraction(2 * sum(_units(size) + _AROUND for size in shape), 1 << 106)


def _units(size: int) -> int:
    radices = factors(size)
    if radices is None:
        return 16 * size * (46 + _units(_convolution(size)))
    return sum((92 + 4 * radix) * radix for radix in radices)


def factors(size: int) -> list[int] | None:
    """Return the radices of the passes for a length, or None when it has a prime factor above 61."""
    result = []
    for radix in (4, *range(2, LARGEST_RADIX + 1)):
        while size % radix == 0:
            result.append(radix)
            size //= radix
    return result if size == 1 else None


def spectrum(values: Floats) -> Floats:
    """Return Σ_j x_j·exp(-2πi jk/n) over every axis, the last axis for k = 0 .. n/2 only.

    ``values``: Double words, shape (2, *shape).

    Shape (4, *shape[:-1], shape[-1]//2 + 1).
    """
    shape = values.shape[1:]
    result = _real_rows(values.reshape(2, -1, shape[-1])).reshape(4, *shape[:-1], -1)
    for axis in range(1, len(shape)):
        moved = np.ascontiguousarray(np.moveaxis(result, axis, -1))
        rows = _rows(moved.reshape(4, -1, moved.shape[-1]))
        result = np.moveaxis(rows.reshape(moved.shape), -1, axis)
    return np.ascontiguousarray(result)


def cosine_spectrum(values: Floats) -> Floats:
    """Return Σ_j x_j·cos(πk(2j+1)/2n) over every axis, shape (2, *shape), of the same input."""
    result = values
    for axis in range(1, values.ndim):
        moved = np.moveaxis(result, axis, -1)
        size = moved.shape[-1]
        folded = np.concatenate([moved[..., ::2], moved[..., 1::2][..., ::-1]], axis=-1)
        rows = _real_rows(folded.reshape(2, -1, size))
        waves = cosines(rows, roots(4 * size, size // 2 + 1), size)
        result = np.moveaxis(waves.reshape(moved.shape), -1, axis)
    return np.ascontiguousarray(result)


def roots(size: int, count: int) -> Floats:
    """Return exp(-2πi j/size) for j = 0 .. count-1, shape (4, count); not to be written to."""
    return _few_roots(size, count) if count <= _FEW else _roots(size, count)


def _roots(size: int, count: int) -> Floats:
    width = 1 << (count.bit_length() + 1) // 2
    return powers(table(size, width, -(-count // width)), table(size, 1, width), count)


_few_roots = lru_cache(maxsize=64)(_roots)


def _real_rows(values: Floats) -> Floats:
    """Transform real rows, (2, rows, n) to (4, rows, n//2 + 1)."""
    _, rows, size = values.shape
    if size % 2:
        packed = np.zeros((4, rows, size))
        packed[:2] = values
        return np.ascontiguousarray(_rows(packed)[:, :, : size // 2 + 1])
    packed = np.empty((4, rows, size // 2))
    packed[:2], packed[2:] = values[:, :, ::2], values[:, :, 1::2]
    return halves(_rows(packed), roots(size, size // 2 + 1))


def _rows(values: Floats) -> Floats:
    """Transform complex rows, (4, rows, n); the input may be overwritten."""
    size = values.shape[2]
    radices = factors(size)
    return _convolved(values) if radices is None else _passes(values, roots(size, size), radices)


def _passes(values: Floats, turns: Floats, radices: list[int]) -> Floats:
    left, done, other = values.shape[2], 1, np.empty_like(values)
    for radix in radices:
        left //= radix
        if radix == 4:
            pass_four(values, other, turns, left, done)
        elif radix == 2:
            pass_two(values, other, turns, left, done)
        else:
            pass_any(values, other, turns, radix, left, done)
        done *= radix
        values, other = other, values
    return values


def _convolution(size: int) -> int:
    """Return the length of Bluestein's convolution: a power of two."""
    return 1 << (2 * size - 2).bit_length()


def _convolved(values: Floats) -> Floats:
    """Transform rows of any length: jk = (j² + k² - (k - j)²)/2 makes it a convolution with a chirp."""
    _, rows, size = values.shape
    length = _convolution(size)
    chirp = roots(2 * size, 2 * size)[:, np.arange(size, dtype=np.int64) ** 2 % (2 * size)]
    turns, radices = roots(length, length), factors(length) or []
    padded = np.zeros((4, rows, length))
    padded[:, :, :size] = values
    turn_rows(padded[:, :, :size], chirp, 1.0)
    ahead = np.zeros((4, 1, length))
    ahead[:, 0, :size] = chirp
    ahead[:, 0, length - size + 1 :] = chirp[:, :0:-1]
    ahead[2:] *= -1
    product = _passes(padded, turns, radices)
    turn_rows(product, _passes(ahead, turns, radices)[:, 0], -1.0)
    back = _passes(product, turns, radices)[:, :, :size] / length
    back[2:] *= -1
    turn_rows(back, chirp, 1.0)
    return back


_SPLITTER = 134217729.0  # 2^27 + 1


@compiled
def plus(a: float, aa: float, b: float, bb: float) -> tuple[float, float]:
    """Return (a + aa) + (b + bb)."""
    s = a + b
    t = s - a
    e = (a - (s - t)) + (b - t)
    w = e + (aa + bb)
    high = s + w
    t = high - s
    return high, (s - (high - t)) + (w - t)


@compiled
def times(a: float, aa: float, b: float, bb: float) -> tuple[float, float]:
    """Return (a + aa) · (b + bb)."""
    t = _SPLITTER * a
    a1 = t - (t - a)
    a2 = a - a1
    t = _SPLITTER * b
    b1 = t - (t - b)
    b2 = b - b1
    p = a * b
    e = ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2
    w = e + (a * bb + aa * b)
    high = p + w
    return high, w - (high - p)


@compiled
def complex_multiply(
    x: float, xx: float, y: float, yy: float, c: float, cc: float, s: float, ss: float
) -> tuple[float, float, float, float]:
    """Return the complex product (x + iy)(c + is), each number a double word."""
    a, aa = times(x, xx, c, cc)
    b, bb = times(y, yy, s, ss)
    d, dd = times(x, xx, s, ss)
    e, ee = times(y, yy, c, cc)
    p, pp = plus(a, aa, -b, -bb)
    q, qq = plus(d, dd, e, ee)
    return p, pp, q, qq


BITS = 192
"""Fixed-point bits. A table of 2^12 roots by repeated multiplication errs by less than 2^-170."""


def double_word(value: int, bits: int = BITS) -> tuple[float, float]:
    """Return value/2^bits as a double word; the error is at most 2^-106 of it."""
    high = float(value)  # rounded to nearest
    low = float(value - int(high))
    return high * 2.0**-bits, low * 2.0**-bits


def square_root(numerator: int, denominator: int) -> tuple[float, float]:
    """Return √(numerator/denominator) as a double word."""
    return double_word(isqrt((numerator << 2 * BITS) // denominator))


@lru_cache(maxsize=1)
def pi() -> int:
    """Return π·2^BITS, within two units: Machin's 16·atan(1/5) - 4·atan(1/239)."""
    guard = 32
    return (16 * _arctangent(5, BITS + guard) - 4 * _arctangent(239, BITS + guard)) >> guard


def _arctangent(inverse: int, bits: int) -> int:
    """Return atan(1/inverse)·2^bits by its Taylor series, within one unit a term."""
    power = (1 << bits) // inverse
    total, divisor, sign = 0, 1, 1
    while power:
        total += sign * (power // divisor)
        power //= inverse * inverse
        divisor, sign = divisor + 2, -sign
    return total


def root(numerator: int, denominator: int) -> tuple[int, int]:
    """Return (cos, sin)·2^BITS of the angle -2π·numerator/denominator, within 2^8 units.

    The angle is halved eight times, the series summed, and the result squared back.
    """
    halvings, guard = 8, 32
    angle = -2 * (pi() << guard) * (numerator % denominator) // denominator >> halvings
    one = 1 << (BITS + guard)
    cosine, sine, term, count = one, 0, one, 0
    while term not in {0, -1}:
        count += 1
        term = (term * angle >> (BITS + guard)) // count
        if count % 2:
            sine += term if count % 4 == 1 else -term
        else:
            cosine += term if count % 4 == 0 else -term
    for _ in range(halvings):
        cosine, sine = (
            (cosine * cosine - sine * sine) >> (BITS + guard),
            (2 * cosine * sine) >> (BITS + guard),
        )
    return cosine >> guard, sine >> guard


def table(denominator: int, step: int, count: int) -> Floats:
    """Return exp(-2πi·step·j/denominator) for j = 0 .. count-1.

    Returns
    -------
    Shape (4, count): cosines (high, low) and sines (high, low). One multiplication each, which adds less
    than 4 units of 2^-192 to the error of the root before it.
    """
    result = np.empty((4, count))
    cosine, sine = 1 << BITS, 0
    turn_cosine, turn_sine = root(step, denominator)
    for place in range(count):
        result[0, place], result[1, place] = double_word(cosine)
        result[2, place], result[3, place] = double_word(sine)
        cosine, sine = (
            (cosine * turn_cosine - sine * turn_sine) >> BITS,
            (cosine * turn_sine + sine * turn_cosine) >> BITS,
        )
    return result


Places = NDArray[np.int64]


@compiled
def powers(coarse: Floats, fine: Floats, count: int) -> Floats:
    """Return the first ``count`` powers of a root, shape (4, count), from two tables of powers.

    ``fine`` holds the powers 0 .. K-1, ``coarse`` those of K times 0, 1, 2, ...
    """
    width = fine.shape[1]
    result = np.empty((4, count))
    for k in range(count):
        i, j = k // width, k % width
        c, cc, d, dd = coarse[0, i], coarse[1, i], coarse[2, i], coarse[3, i]
        result[0, k], result[1, k], result[2, k], result[3, k] = complex_multiply(
            fine[0, j], fine[1, j], fine[2, j], fine[3, j], c, cc, d, dd
        )
    return result


@compiled
def pass_two(x: Floats, y: Floats, w: Floats, m: int, s: int) -> None:
    """Radix 2."""
    h = m * s
    for row in range(x.shape[1]):
        for q in range(m):
            k = s * q
            c, cc, d, dd = w[0, k], w[1, k], w[2, k], w[3, k]
            for i in range(k, k + s):
                o = i + k
                a0, a1, a2, a3 = x[0, row, i], x[1, row, i], x[2, row, i], x[3, row, i]
                b0, b1, b2, b3 = x[0, row, i + h], x[1, row, i + h], x[2, row, i + h], x[3, row, i + h]
                y[0, row, o], y[1, row, o] = plus(a0, a1, b0, b1)
                y[2, row, o], y[3, row, o] = plus(a2, a3, b2, b3)
                e0, e1 = plus(a0, a1, -b0, -b1)
                e2, e3 = plus(a2, a3, -b2, -b3)
                o += s
                y[0, row, o], y[1, row, o], y[2, row, o], y[3, row, o] = complex_multiply(
                    e0, e1, e2, e3, c, cc, d, dd
                )


@compiled
def pass_four(x: Floats, y: Floats, w: Floats, m: int, s: int) -> None:
    """Radix 4."""
    h = m * s
    for row in range(x.shape[1]):
        for q in range(m):
            k = s * q
            for i in range(k, k + s):
                i2 = i + 2 * h
                a0, a1 = plus(x[0, row, i], x[1, row, i], x[0, row, i2], x[1, row, i2])
                a2, a3 = plus(x[2, row, i], x[3, row, i], x[2, row, i2], x[3, row, i2])
                b0, b1 = plus(x[0, row, i], x[1, row, i], -x[0, row, i2], -x[1, row, i2])
                b2, b3 = plus(x[2, row, i], x[3, row, i], -x[2, row, i2], -x[3, row, i2])
                i1, i3 = i + h, i + 3 * h
                c0, c1 = plus(x[0, row, i1], x[1, row, i1], x[0, row, i3], x[1, row, i3])
                c2, c3 = plus(x[2, row, i1], x[3, row, i1], x[2, row, i3], x[3, row, i3])
                d0, d1 = plus(x[0, row, i1], x[1, row, i1], -x[0, row, i3], -x[1, row, i3])
                d2, d3 = plus(x[2, row, i1], x[3, row, i1], -x[2, row, i3], -x[3, row, i3])
                o = i + 3 * k
                y[0, row, o], y[1, row, o] = plus(a0, a1, c0, c1)
                y[2, row, o], y[3, row, o] = plus(a2, a3, c2, c3)
                e0, e1 = plus(b0, b1, d2, d3)  # b - i·d
                e2, e3 = plus(b2, b3, -d0, -d1)
                o += s
                y[0, row, o], y[1, row, o], y[2, row, o], y[3, row, o] = complex_multiply(
                    e0, e1, e2, e3, w[0, k], w[1, k], w[2, k], w[3, k]
                )
                e0, e1 = plus(a0, a1, -c0, -c1)
                e2, e3 = plus(a2, a3, -c2, -c3)
                o += s
                y[0, row, o], y[1, row, o], y[2, row, o], y[3, row, o] = complex_multiply(
                    e0, e1, e2, e3, w[0, 2 * k], w[1, 2 * k], w[2, 2 * k], w[3, 2 * k]
                )
                e0, e1 = plus(b0, b1, -d2, -d3)  # b + i·d
                e2, e3 = plus(b2, b3, d0, d1)
                o += s
                y[0, row, o], y[1, row, o], y[2, row, o], y[3, row, o] = complex_multiply(
                    e0, e1, e2, e3, w[0, 3 * k], w[1, 3 * k], w[2, 3 * k], w[3, 3 * k]
                )


@compiled
def pass_any(x: Floats, y: Floats, w: Floats, p: int, m: int, s: int) -> None:
    """Radix p, by the defining sum."""
    h = m * s
    for row in range(x.shape[1]):
        for q in range(m):
            for i in range(s * q, s * q + s):
                for k in range(p):
                    t0, t1, t2, t3 = x[0, row, i], x[1, row, i], x[2, row, i], x[3, row, i]
                    for j in range(1, p):
                        f, g = i + j * h, h * (j * k % p)
                        a, aa, b, bb = x[0, row, f], x[1, row, f], x[2, row, f], x[3, row, f]
                        e0, e1, e2, e3 = complex_multiply(a, aa, b, bb, w[0, g], w[1, g], w[2, g], w[3, g])
                        t0, t1 = plus(t0, t1, e0, e1)
                        t2, t3 = plus(t2, t3, e2, e3)
                    o, g = i + s * q * (p - 1) + s * k, s * q * k
                    y[0, row, o], y[1, row, o], y[2, row, o], y[3, row, o] = complex_multiply(
                        t0, t1, t2, t3, w[0, g], w[1, g], w[2, g], w[3, g]
                    )


@compiled
def turn_rows(x: Floats, w: Floats, sign: float) -> None:
    """Multiply each row of x by the complex row w, shape (4, n), in place; sign -1 conjugates the result."""
    for row in range(x.shape[1]):
        for i in range(x.shape[2]):
            a, aa, b, bb = x[0, row, i], x[1, row, i], x[2, row, i], x[3, row, i]
            a, aa, b, bb = complex_multiply(a, aa, b, bb, w[0, i], w[1, i], w[2, i], w[3, i])
            x[0, row, i], x[1, row, i], x[2, row, i], x[3, row, i] = a, aa, sign * b, sign * bb


@compiled
def halves(z: Floats, w: Floats) -> Floats:
    """Return the spectra of real rows of length 2h from those of (even places) + i·(odd places).

    z of shape (4, rows, h), w the first h + 1 powers of exp(-2πi/2h); result (4, rows, h + 1): with
    E = (Z_k + conj Z_{h-k})/2 and O = (Z_k - conj Z_{h-k})/2i, E + w^k·O.
    """
    h = z.shape[2]
    result = np.empty((4, z.shape[1], h + 1))
    for row in range(z.shape[1]):
        for k in range(h + 1):
            i, j = k % h, (h - k) % h
            a0, a1 = plus(z[0, row, i], z[1, row, i], z[0, row, j], z[1, row, j])
            a2, a3 = plus(z[2, row, i], z[3, row, i], -z[2, row, j], -z[3, row, j])
            b0, b1 = plus(z[0, row, i], z[1, row, i], -z[0, row, j], -z[1, row, j])
            b2, b3 = plus(z[2, row, i], z[3, row, i], z[2, row, j], z[3, row, j])
            c0, c1, c2, c3 = complex_multiply(b2, b3, -b0, -b1, w[0, k], w[1, k], w[2, k], w[3, k])
            e0, e1 = plus(a0, a1, c0, c1)
            e2, e3 = plus(a2, a3, c2, c3)
            result[0, row, k], result[1, row, k] = 0.5 * e0, 0.5 * e1
            result[2, row, k], result[3, row, k] = 0.5 * e2, 0.5 * e3
    return result


@compiled
def cosines(z: Floats, w: Floats, n: int) -> Floats:
    """Return Σ_j x_j·cos(πk(2j+1)/2n) of rows x from the spectra of their folded order, shape (2, rows, n).

    z of shape (4, rows, n//2 + 1), w the first n//2 + 1 powers of exp(-2πi/4n). Re(w^k·Z_k) is coefficient k
    and -Im(w^k·Z_k) is coefficient n - k (Makhoul 1980).
    """
    result = np.empty((2, z.shape[1], n))
    for row in range(z.shape[1]):
        for k in range(n // 2 + 1):
            a, aa, b, bb = z[0, row, k], z[1, row, k], z[2, row, k], z[3, row, k]
            a, aa, b, bb = complex_multiply(a, aa, b, bb, w[0, k], w[1, k], w[2, k], w[3, k])
            result[0, row, k], result[1, row, k] = a, aa
            if 0 < k < n - k:
                result[0, row, n - k], result[1, row, n - k] = -b, -bb
    return result


@compiled
def gathered(values: Floats, places: Places, kinds: Places, scales: Floats) -> Floats:
    """Return values[:, places[i]] · scales[:, kinds[i]], all of them double words, shape (2, places)."""
    result = np.empty((2, places.size))
    for i in range(places.size):
        place, kind = places[i], kinds[i]
        result[0, i], result[1, i] = times(
            values[0, place], values[1, place], scales[0, kind], scales[1, kind]
        )
    return result


@compiled
def tail_energies(values: Floats, ends: Places) -> Floats:
    """Return Σ values[i]² over i >= end, for each of the ascending ``ends``, rounded to floats."""
    result = np.empty(ends.size)
    total, rest, i = 0.0, 0.0, values.shape[1]
    for place in range(ends.size - 1, -1, -1):
        while i > ends[place]:
            i -= 1
            a, aa = times(values[0, i], values[1, i], values[0, i], values[1, i])
            total, rest = plus(total, rest, a, aa)
        result[place] = total
    return result
