"""Multiplicative weights on a row of cells, for answers about ranges of cells.

The weights begin as equal. An update multiplies all cells of a range by one factor, so between two ends of
ranges that have been asked about the weights stay equal: the mass of each such segment is all there is to
keep, and the cost of an update depends on the number of segments alone.

The update. Hardt, Ligett and McSherry multiply by exp((m - a)/2N) for an answer m where the weights have a:
a careful step, which needs hundreds of replays where a is far below N. Here the factors are those that make
the mass equal to m at the least change in relative entropy: m/a inside, and (N - m)/(N - a) outside. An
answer that is negative, or below its own noise, is no reason to empty a range: it is lowered to ``slack`` at
most.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.kernels.compiled import compiled

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_LEAST = 1e-6  # of the uniform weight: what repeated contradictions leave of a segment


def fit_to_ranges(
    cells: int, starts: Integers, stops: Integers, answers: Floats, slack: float, total: float, passes: int
) -> tuple[Integers, Floats]:
    """Return the segments of a row and their masses after some passes over all answers, from equal weights.

    Parameters
    ----------
    cells
        Number of cells.
    starts, stops
        Shape (answers,): ranges that are neither empty nor the whole row.
    answers
        What was measured there.
    slack
        No mass inside or outside a range is lowered below it.
    total
        N: what all masses sum to.
    passes
        How often every answer is replayed.

    Returns
    -------
    edges
        int64, shape (segments + 1,), from 0 to ``cells``.
    masses
        Shape (segments,).
    """
    edges = np.unique(np.concatenate([np.array([0, cells]), starts, stops]))
    masses = np.diff(edges) * (total / cells)
    first, end = np.searchsorted(edges, starts), np.searchsorted(edges, stops)
    replay_ranges(masses, first, end, answers, slack, total, passes)
    return edges, masses


def fit_to_tilings(
    tilings: list[Integers], answers: Floats, slack: float, total: float, passes: int
) -> tuple[Integers, Floats]:
    """Return the segments and masses for answers about all ranges of several tilings of the row.

    Parameters
    ----------
    tilings
        The edges of the ranges of each, from 0 to the number of cells; at least one tiling.
    answers
        For each range of each tiling, one after the other.
    """
    edges = np.unique(np.concatenate(tilings))
    masses = np.diff(edges) * (total / edges[-1])
    bounds = np.concatenate([np.searchsorted(edges, tiling) for tiling in tilings])
    ends = np.cumsum(np.array([tiling.size for tiling in tilings]))
    replay_tilings(masses, bounds, ends, answers, slack, total, passes)
    return edges, masses


@compiled
def replay_ranges(
    masses: Floats, first: Integers, end: Integers, answers: Floats, slack: float, total: float, passes: int
) -> None:
    """Fit the masses, in place, to the answers about segments ``first`` to ``end - 1``, one by one."""
    least = masses * _LEAST
    for _ in range(passes):
        for query in range(answers.size):
            inside = 0.0
            outside = 0.0
            for place in range(masses.size):
                if first[query] <= place < end[query]:
                    inside += masses[place]
                else:
                    outside += masses[place]
            wanted = max(answers[query], min(inside, slack))
            wanted = min(wanted, total - min(outside, slack))
            within, beyond = wanted / inside, (total - wanted) / outside
            for place in range(masses.size):
                factor = within if first[query] <= place < end[query] else beyond
                masses[place] = max(masses[place] * factor, least[place])


@compiled
def replay_tilings(
    masses: Floats, bounds: Integers, ends: Integers, answers: Floats, slack: float, total: float, passes: int
) -> None:
    """Fit the masses, in place, to one tiling after the other, whose edges among segments are ``bounds``."""
    least = masses * _LEAST
    wanted = np.empty(masses.size)
    for _ in range(passes):
        begin, answer = 0, 0
        for tiling in range(ends.size):
            ranges = ends[tiling] - begin - 1
            whole = 0.0
            for one in range(ranges):
                inside = 0.0
                for place in range(bounds[begin + one], bounds[begin + one + 1]):
                    inside += masses[place]
                mass = max(answers[answer + one], min(inside, slack))
                wanted[one] = mass / inside
                whole += mass
            for one in range(ranges):
                factor = wanted[one] * (total / whole)
                for place in range(bounds[begin + one], bounds[begin + one + 1]):
                    masses[place] = max(masses[place] * factor, least[place])
            begin, answer = ends[tiling], answer + ranges
