"""Fourier and cosine transforms in double words, and a proof of how far they err.

A privacy proof needs to know how far a computed coefficient lies from the exact one, for the worst data. In
plain floats that is more than one record changes it by, already for a few thousand cells with counts near
2^30; and what a library's transform does for a given length is its own affair. So the true counts are
transformed here, in numbers of about 106 bits: the worst error is then some 2^-40 of what one record changes,
and a crude bound on it is enough. It needs no hardware beyond IEEE doubles. (Inverse transforms act on noisy
coefficients, prove nothing, and are the library's.)

How far it errs, in units of u² = 2^-106 and relative in the Euclidean norm of a row, from the bounds of
``double_words`` (complex sum 4(|a|+|b|), complex product 20|a||b|; a root of unity is within 24 of the truth
as a product of two table entries, so a product with a root errs by at most 46|a|):

- a pass of radix p: each of p outputs is a sum of p terms with p - 1 additions, off by at most
  (46 + 4p)·Σ|a_j| <= (46 + 4p)·√p·‖a‖, all p together by (46 + 4p)·p·‖a‖, where the exact pass has the norm
  √p·‖a‖; then a product with a root: relative error at most (92 + 4p)·p;
- passes one after the other add up, and so do the axes of an array: every exact pass is a multiple of an
  isometry;
- even and odd places separated, folded order turned to cosines, scaling: at most 512 together;
- a length n with a prime factor above 61 goes through a convolution of length m >= 2n - 1, a power of two
  (Bluestein 1970). With δ = 46 + the error of a transform of length m: the chirped row is off by 46·‖x‖, its
  transform A by δ√m·‖x‖ and the chirp's transform B by δ√m·√2n; as |A| <= √n‖x‖ and |B| <= 2n everywhere,
  their product is off by at most 6δn√m·‖x‖ and the convolution by 8δn·‖x‖, where the exact result has norm
  √n·‖x‖. Relative error at most 8δ√n, and 16δn leaves room for the last product.

Terms of second order, a factor 1 + 2^-50, are covered by doubling the sum.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.histograms.spectral.fourier_passes import (
    cosines,
    halves,
    pass_any,
    pass_four,
    pass_two,
    powers,
    turn_rows,
)
from tabularium.mechanisms.histograms.spectral.roots_of_unity import table

Floats = NDArray[np.float64]

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
    found = []
    for radix in (4, *range(2, LARGEST_RADIX + 1)):
        while size % radix == 0:
            found.append(radix)
            size //= radix
    return found if size == 1 else None


def spectrum(values: Floats) -> Floats:
    """Return Σ_j x_j·exp(-2πi jk/n) over every axis, the last axis for k = 0 .. n/2 only.

    Parameters
    ----------
    values
        Double words, shape (2, *shape).

    Returns
    -------
    Shape (4, *shape[:-1], shape[-1]//2 + 1).
    """
    shape = values.shape[1:]
    found = _real_rows(values.reshape(2, -1, shape[-1])).reshape(4, *shape[:-1], -1)
    for axis in range(1, len(shape)):
        moved = np.ascontiguousarray(np.moveaxis(found, axis, -1))
        rows = _rows(moved.reshape(4, -1, moved.shape[-1]))
        found = np.moveaxis(rows.reshape(moved.shape), -1, axis)
    return np.ascontiguousarray(found)


def cosine_spectrum(values: Floats) -> Floats:
    """Return Σ_j x_j·cos(πk(2j+1)/2n) over every axis, shape (2, *shape), of the same input."""
    found = values
    for axis in range(1, values.ndim):
        moved = np.moveaxis(found, axis, -1)
        size = moved.shape[-1]
        folded = np.concatenate([moved[..., ::2], moved[..., 1::2][..., ::-1]], axis=-1)
        rows = _real_rows(folded.reshape(2, -1, size))
        waves = cosines(rows, roots(4 * size, size // 2 + 1), size)
        found = np.moveaxis(waves.reshape(moved.shape), -1, axis)
    return np.ascontiguousarray(found)


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
