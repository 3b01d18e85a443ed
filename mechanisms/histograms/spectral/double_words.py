"""Arithmetic on double words: numbers held as an unevaluated sum high + low of two floats, about 106 bits.

Only additions, subtractions and multiplications of doubles, each rounded to nearest, u = 2^-53; no fused
operations. With |error| bounds that need no assumption on signs (far from underflow and overflow):

- ``plus``: at most 4u²(|a| + |b|). (Rounding of the sum of the low parts: u²(|a|+|b|); of adding it to the
  error of the high sum: 2u²(|a|+|b|); the rest is error-free.)
- ``times``: at most 9u²·|a·b|. (Two mixed products u² each, their sum 2u², the product of the low parts u²,
  the last addition 3u².)
- complex sum: 4u²(|a| + |b|); complex product: 20u²·|a||b| (each part 9u² + 4u² and a bit, times √2).

Source: Dekker 1971 (exact product), Knuth (exact sum), as analysed by Joldes, Muller, Popescu 2017.
"""

from __future__ import annotations

from tabularium.mechanisms.kernels.compiled import compiled

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
def turn(
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
