"""The loops of a Fourier transform in double words.

Arrays are float64 of shape (4, rows, n): real part (high, low) and imaginary part (high, low). A Stockham
pass of radix p reads p·m values, with s transforms interleaved (n = p·m·s), and leaves them in order:
y[s·(p·q + k) + r] = w^(s·q·k) · Σ_j x[s·(q + m·j) + r] · exp(-2πi·jk/p), where w = exp(-2πi/n).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.histograms.spectral.double_words import plus, times, turn
from tabularium.mechanisms.kernels.compiled import compiled

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


@compiled
def powers(coarse: Floats, fine: Floats, count: int) -> Floats:
    """Return the first ``count`` powers of a root, shape (4, count), from two tables of powers.

    ``fine`` holds the powers 0 .. K-1, ``coarse`` those of K times 0, 1, 2, ...
    """
    width = fine.shape[1]
    found = np.empty((4, count))
    for k in range(count):
        i, j = k // width, k % width
        c, cc, d, dd = coarse[0, i], coarse[1, i], coarse[2, i], coarse[3, i]
        found[0, k], found[1, k], found[2, k], found[3, k] = turn(
            fine[0, j], fine[1, j], fine[2, j], fine[3, j], c, cc, d, dd
        )
    return found


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
                y[0, row, o], y[1, row, o], y[2, row, o], y[3, row, o] = turn(e0, e1, e2, e3, c, cc, d, dd)


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
                y[0, row, o], y[1, row, o], y[2, row, o], y[3, row, o] = turn(
                    e0, e1, e2, e3, w[0, k], w[1, k], w[2, k], w[3, k]
                )
                e0, e1 = plus(a0, a1, -c0, -c1)
                e2, e3 = plus(a2, a3, -c2, -c3)
                o += s
                y[0, row, o], y[1, row, o], y[2, row, o], y[3, row, o] = turn(
                    e0, e1, e2, e3, w[0, 2 * k], w[1, 2 * k], w[2, 2 * k], w[3, 2 * k]
                )
                e0, e1 = plus(b0, b1, -d2, -d3)  # b + i·d
                e2, e3 = plus(b2, b3, d0, d1)
                o += s
                y[0, row, o], y[1, row, o], y[2, row, o], y[3, row, o] = turn(
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
                        e0, e1, e2, e3 = turn(a, aa, b, bb, w[0, g], w[1, g], w[2, g], w[3, g])
                        t0, t1 = plus(t0, t1, e0, e1)
                        t2, t3 = plus(t2, t3, e2, e3)
                    o, g = i + s * q * (p - 1) + s * k, s * q * k
                    y[0, row, o], y[1, row, o], y[2, row, o], y[3, row, o] = turn(
                        t0, t1, t2, t3, w[0, g], w[1, g], w[2, g], w[3, g]
                    )


@compiled
def turn_rows(x: Floats, w: Floats, sign: float) -> None:
    """Multiply each row of x by the complex row w, shape (4, n), in place; sign -1 conjugates the result."""
    for row in range(x.shape[1]):
        for i in range(x.shape[2]):
            a, aa, b, bb = x[0, row, i], x[1, row, i], x[2, row, i], x[3, row, i]
            a, aa, b, bb = turn(a, aa, b, bb, w[0, i], w[1, i], w[2, i], w[3, i])
            x[0, row, i], x[1, row, i], x[2, row, i], x[3, row, i] = a, aa, sign * b, sign * bb


@compiled
def halves(z: Floats, w: Floats) -> Floats:
    """Return the spectra of real rows of length 2h from those of (even places) + i·(odd places).

    z of shape (4, rows, h), w the first h + 1 powers of exp(-2πi/2h); result (4, rows, h + 1): with
    E = (Z_k + conj Z_{h-k})/2 and O = (Z_k - conj Z_{h-k})/2i, E + w^k·O.
    """
    h = z.shape[2]
    found = np.empty((4, z.shape[1], h + 1))
    for row in range(z.shape[1]):
        for k in range(h + 1):
            i, j = k % h, (h - k) % h
            a0, a1 = plus(z[0, row, i], z[1, row, i], z[0, row, j], z[1, row, j])
            a2, a3 = plus(z[2, row, i], z[3, row, i], -z[2, row, j], -z[3, row, j])
            b0, b1 = plus(z[0, row, i], z[1, row, i], -z[0, row, j], -z[1, row, j])
            b2, b3 = plus(z[2, row, i], z[3, row, i], z[2, row, j], z[3, row, j])
            c0, c1, c2, c3 = turn(b2, b3, -b0, -b1, w[0, k], w[1, k], w[2, k], w[3, k])
            e0, e1 = plus(a0, a1, c0, c1)
            e2, e3 = plus(a2, a3, c2, c3)
            found[0, row, k], found[1, row, k] = 0.5 * e0, 0.5 * e1
            found[2, row, k], found[3, row, k] = 0.5 * e2, 0.5 * e3
    return found


@compiled
def cosines(z: Floats, w: Floats, n: int) -> Floats:
    """Return Σ_j x_j·cos(πk(2j+1)/2n) of rows x from the spectra of their folded order, shape (2, rows, n).

    z of shape (4, rows, n//2 + 1), w the first n//2 + 1 powers of exp(-2πi/4n). Re(w^k·Z_k) is coefficient k
    and -Im(w^k·Z_k) is coefficient n - k (Makhoul 1980).
    """
    found = np.empty((2, z.shape[1], n))
    for row in range(z.shape[1]):
        for k in range(n // 2 + 1):
            a, aa, b, bb = z[0, row, k], z[1, row, k], z[2, row, k], z[3, row, k]
            a, aa, b, bb = turn(a, aa, b, bb, w[0, k], w[1, k], w[2, k], w[3, k])
            found[0, row, k], found[1, row, k] = a, aa
            if 0 < k < n - k:
                found[0, row, n - k], found[1, row, n - k] = -b, -bb
    return found


@compiled
def gathered(values: Floats, places: Places, kinds: Places, scales: Floats) -> Floats:
    """Return values[:, places[i]] · scales[:, kinds[i]], all of them double words, shape (2, places)."""
    found = np.empty((2, places.size))
    for i in range(places.size):
        place, kind = places[i], kinds[i]
        found[0, i], found[1, i] = times(values[0, place], values[1, place], scales[0, kind], scales[1, kind])
    return found


@compiled
def tail_energies(values: Floats, ends: Places) -> Floats:
    """Return Σ values[i]² over i >= end, for each of the ascending ``ends``, rounded to floats."""
    found = np.empty(ends.size)
    total, rest, i = 0.0, 0.0, values.shape[1]
    for place in range(ends.size - 1, -1, -1):
        while i > ends[place]:
            i -= 1
            a, aa = times(values[0, i], values[1, i], values[0, i], values[1, i])
            total, rest = plus(total, rest, a, aa)
        found[place] = total
    return found
