"""Probabilities of a private choice, in floating point: for audits only, never to choose by."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import Floats

_NODES = 32
_BLOCK = 1024  # candidates at a time


def log_ratios(gaps: NDArray[np.int64], others: NDArray[np.int64], rate: Fraction, method: str) -> Floats:
    """Return ln P(r)/P'(r) for every candidate r, shape (m,), where P has ``gaps`` and P' has ``others``.

    The gaps are subtracted as integers: near the largest scores, a float holds a gap to some hundreds only.
    What is left of ln P depends on candidates with p_i that is not negligible, hence on small gaps.
    """
    moved = -float(rate) * (gaps - others)
    return np.asarray(moved + _beyond(gaps, rate, method) - _beyond(others, rate, method), dtype=np.float64)


def log_probabilities(gaps: NDArray[np.int64], rate: Fraction, method: str) -> Floats:
    """Return ln P(r) for every candidate r, shape (m,).

    With p_i = exp(-rate·gap_i): the exponential mechanism has P(r) = p_r / Σp_i, and permute-and-flip has
    P(r) = p_r ∫₀¹ Π_{i≠r}(1 - t·p_i) dt (candidate r comes before each other candidate that would have been
    chosen; t is r's place in the order).
    """
    return np.asarray(-float(rate) * gaps + _beyond(gaps, rate, method), dtype=np.float64)


def _beyond(gaps: NDArray[np.int64], rate: Fraction, method: str) -> Floats:
    """Return ln P(r) + rate·gap_r for every candidate."""
    logs = -float(rate) * gaps.astype(np.float64)
    if method == "exponential":
        return np.full(gaps.size, -np.logaddexp.reduce(logs))
    return _log_integrals(np.exp(logs))


def _log_integrals(weights: Floats) -> Floats:
    """Return ln ∫₀¹ Π_{i≠r}(1 - t·p_i) dt for each r, by Gauss-Legendre on panels that halve towards 0.

    The integrand falls like exp(-t·Σp), so for many candidates all of it is near 0; on a panel whose width is
    half its right end, 32 nodes integrate it to machine precision.
    """
    nodes, mass = _panels(weights.size.bit_length() + 4)
    total = np.zeros(nodes.size)
    for block in _blocks(weights):
        total += np.log1p(-np.outer(block, nodes)).sum(axis=0)
    total += mass
    parts = [np.logaddexp.reduce(total - np.log1p(-np.outer(b, nodes)), axis=1) for b in _blocks(weights)]
    return np.concatenate(parts)


def _blocks(weights: Floats) -> list[Floats]:
    return [weights[start : start + _BLOCK] for start in range(0, weights.size, _BLOCK)]


@lru_cache(maxsize=32)
def _panels(halvings: int) -> tuple[Floats, Floats]:
    """Return Gauss-Legendre nodes on [0, 1] and the logarithms of their weights."""
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    right = 0.5 ** np.arange(halvings)
    left = np.append(right[1:], 0.0)
    half = (right - left) / 2
    nodes = left[:, None] + half[:, None] * (points + 1)
    return nodes.reshape(-1), np.log(half[:, None] * weights).reshape(-1)
