"""Counts where public numbers are known exactly: what they fix, and what they say of parts of it.

Let F be the sum over some cells, estimated from measurements, and N that over the fewest numbers of an
invariant whose cells hold all of them, which is known to be K. Their estimates F' and N' err together, so

    F' + β·(K - N'),   β = Cov(F', N') / Var(N'),

has the least variance of all that are linear in both, Var F' - Cov²/Var N', and no bias. If both are over the
same cells that is K with the variance 0. With D the cells of N that F lacks, N' is F' + D', and the estimates
of both with their covariances are asked of the source (``parts``). Which invariant is used depends on
variances alone, and not on what was drawn. As no count is negative, F is never more than K.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tabularium.mechanisms.arrays import Bools
from tabularium.mechanisms.inference import margins
from tabularium.mechanisms.queries.answer_sources import KnownSums, NoisySource
from tabularium.mechanisms.queries.measures import Values
from tabularium.mechanisms.queries.query_plan import Plan
from tabularium.mechanisms.queries.selection import cells_of_rows

MOST_WORK = 20_000_000
"""Rows of an answer times cells of the table up to which invariants are made use of."""


def narrowed(
    table: NoisySource, known: Sequence[KnownSums], made: Sequence[Plan], counts: Values, level: float
) -> tuple[Values, tuple[str, ...]]:
    """Return the counts of all rows with what invariants say of them, and the names of these.

    Parameters
    ----------
    table, made
        What was asked, and the plans of the query.
    counts
        What the measurements alone say of each row.
    level
        Of the intervals.
    """
    rows = len(counts.value)
    if not known or rows * math.prod(table.axes.shape) * len(table.axes.parents) > MOST_WORK:
        return counts, ()
    found = [each.copy() for each in (counts.value, counts.standard_error, counts.low, counts.high)]
    used: dict[str, None] = {}
    for row, cells in enumerate(cells_of_rows(table.axes, made)):
        best = min((_Narrowed.of(table, each, cells) for each in known), key=lambda each: each.variance)
        if best.variance >= 0.999 * counts.standard_error[row] ** 2:
            continue
        used[best.name] = None
        half = float(margins(np.array([best.variance + best.step**2 / 12]), level)[0]) + best.step / 2
        ends = (0.0, best.most) if best.variance > 0 else (best.value, best.value)
        low, high = (min(max(best.value + sign * half, ends[0]), ends[1]) for sign in (-1, 1))
        for column, number in zip(found, (best.value, math.sqrt(best.variance), low, high), strict=True):
            column[row] = number
    return Values(*found), tuple(used)


@dataclass(frozen=True)
class _Narrowed:
    """A count with what one invariant says of it, and ``most``, its bound."""

    name: str
    value: float
    variance: float
    step: float
    most: float

    @classmethod
    def of(cls, table: NoisySource, known: KnownSums, cells: Bools) -> _Narrowed:
        possible = np.ones(cells.shape, bool)
        if table.impossible is not None:
            possible = ~table.impossible[table.axes.leaves].reshape(cells.shape)
        cells = cells & possible
        touched = np.zeros(len(known.values), bool)
        touched[known.groups[cells]] = True
        whole, most = touched[known.groups] & possible, float(known.values[touched].sum())
        if most == 0 or (whole == cells).all():
            return cls(known.name, most, 0.0, 0.0, most)
        found = table.parts(cells, whole & ~cells)
        if found is None:
            return cls(known.name, most, math.inf, 1.0, most)
        values, covariances = found
        both, of_whole = float(covariances[0].sum()), float(covariances.sum())
        value = float(values[0] + both / of_whole * (most - values.sum()))
        variance = max(float(covariances[0, 0]) - both**2 / of_whole, 0.0)
        step = min(1.0, math.sqrt(variance / table.least_variance))
        return cls(known.name, value, variance, step, most)
