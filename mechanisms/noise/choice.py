"""Exact uniform integers, and choices whose probabilities are built on exp(-rate·gap)."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.noise.bernoulli_exp import bernoulli_exp_each
from tabularium.mechanisms.noise.keystream import WordStream

_FIRST_BATCH, _LARGEST_BATCH = 64, 1 << 16


def below(stream: WordStream, bound: int, count: int) -> NDArray[np.int64]:
    """Return ``count`` independent uniform integers from 0 to bound - 1, for 1 <= bound <= 2^62.

    As many bits as ``bound - 1`` has, drawn again when they are too large.
    """
    drop = np.uint64(64 - (bound - 1).bit_length())
    if drop == 64:
        return np.zeros(count, dtype=np.int64)
    result: list[NDArray[np.int64]] = []
    missing = count
    while missing > 0:
        words = (stream.words64(missing) >> drop).astype(np.int64)
        kept = words[words < bound]
        result.append(kept)
        missing -= kept.size
    return np.concatenate(result)


def below_each(stream: WordStream, bounds: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return an independent uniform integer from 0 to bound - 1 for each bound, 1 <= bound < 2^53."""
    _, lengths = np.frexp(bounds - 1)  # exact below 2^53: the number of bits of bound - 1
    result = np.zeros(bounds.shape, dtype=np.int64)
    open_ = np.flatnonzero(lengths)
    while open_.size:
        drop = (64 - lengths[open_]).astype(np.uint64)
        words = (stream.words64(open_.size) >> drop).astype(np.int64)
        kept = words < bounds[open_]
        result[open_[kept]] = words[kept]
        open_ = open_[~kept]
    return result


def permute_and_flip(
    stream: WordStream, gaps: NDArray[np.int64], starts: NDArray[np.int64], rate: Fraction
) -> NDArray[np.int64]:
    """Choose one candidate of every group by permute-and-flip.

    The published algorithm goes through the candidates in random order, flips for each a coin with heads of
    probability exp(-rate·gap), and returns the first that comes up heads. The order does not depend on the
    coins, so all coins may be flipped first: the answer is a uniform one among the heads. The best candidate
    has gap 0 and is always among them.

    Parameters
    ----------
    gaps
        int64, shape (m,): best score of its group minus score.
    starts
        int64, shape (groups,): the first position of each group, ascending from 0.
    rate
        ε/2Δ for one unit of a gap.

    Returns
    -------
    int64, shape (groups,): the place of the chosen one within its group.

    Source: McKenna & Sheldon, "Permute-and-Flip" (2020), Algorithm 1.
    """
    heads = np.flatnonzero(bernoulli_exp_each(stream, gaps, rate))
    first = np.searchsorted(heads, starts)
    number = np.diff(first, append=heads.size)
    return np.asarray(heads[first + below_each(stream, number)] - starts, dtype=np.int64)


def exponential(stream: WordStream, gaps: NDArray[np.int64], rate: Fraction) -> NDArray[np.int64]:
    """Choose one candidate, shape (1,), with probability proportional to exp(-rate·gap), by rejection.

    Uniform candidates are proposed and accepted with probability exp(-rate·gap); the first accepted is the
    answer. Source: McSherry & Talwar, "Mechanism Design via Differential Privacy" (2007).
    """
    batch = _FIRST_BATCH
    while True:
        proposals = below(stream, gaps.size, batch)
        accepted = np.flatnonzero(bernoulli_exp_each(stream, gaps[proposals], rate))
        if accepted.size:
            return np.asarray(proposals[accepted[:1]])
        batch = min(2 * batch, _LARGEST_BATCH)
