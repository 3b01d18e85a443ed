"""Variances of joint estimates that were found by conjugate gradients: exact if small, estimated if large.

Let x^ be the tables' estimates on their own, with exact variances V^, and x the joint one. x is the
projection of x^ in the metric of its covariance, so x^ - x and x are uncorrelated, and

    V = V^ - Var(x^ - x).

*Exact* (small systems): the second term is the diagonal of Sigma C' S^+ C Sigma, from the response
Sigma C' e to every single agreement e. Only here S is written out: one row per agreement.

*Estimated* (large systems): mean squares over synthetic measurements of pure noise, with public seeded
numbers; only variances enter, no data. Two unbiased estimates are at hand: the mean square of x itself, and
V^ less the mean square of x^ - x. Their relative standard errors, sqrt(2 / probes), are of V and of V^ - V,
so the second is taken where it is the better one (V above V^ / 2: most cells, since a shared margin tells
much about the margin and little about a cell), and neither exceeds V^. So with 32 probes a variance is within
a quarter of itself (one standard error), usually within a few per cent.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mechanisms.inference.joint.conjugate_gradients import Coupled, half_inverse
from mechanisms.noise.synthetic import generator

Floats = NDArray[np.float64]


def exact_variances(coupled: Coupled) -> dict[str, Floats]:
    """Return the exact variances (nodes, cells) of every table: O(agreements x cells) memory.

    The invented measurements of unmeasured leaves are taken away again by the Woodbury identity.
    """
    if coupled.any_loose:
        # What is to be taken away again had better not be the largest number about.
        coupled = Coupled(coupled.overlap, coupled.variances, loose=1.0)
    diagonal = _joined(coupled, coupled.alone())
    responses, system = coupled.responses()
    halves = half_inverse(system) @ responses
    variances = diagonal - (halves**2).sum(axis=0)
    if coupled.any_loose:
        columns, loose = _loose_columns(coupled, halves)
        # (P - I/M)^-1 = Sigma + Sigma_U (M - Sigma_UU)^-1 Sigma_U': what these leaves were said to be goes.
        inner = coupled.invented * np.eye(loose.size) - columns[:, loose]
        variances += (columns * np.linalg.solve((inner + inner.T) / 2, columns)).sum(axis=0)
    return _parted(coupled, np.maximum(variances, 0.0))


def estimated_variances(coupled: Coupled, probes: int) -> dict[str, Floats]:
    """Return estimates of the variances (nodes, cells) from ``probes`` draws of pure noise."""
    rng = generator(2)
    joined = _joined(coupled, coupled.alone())
    together, apart = np.zeros_like(joined), np.zeros_like(joined)
    for _ in range(probes):
        before, after = coupled.noise(rng)
        one, other = _joined(coupled, before), _joined(coupled, after)
        together, apart = together + other**2 / probes, apart + (one - other) ** 2 / probes
    less = joined - apart
    best = np.where(less > joined / 2, less, together)
    return _parted(coupled, np.minimum(best, joined))


def _loose_columns(coupled: Coupled, halves: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """Return the joint covariances (unmeasured leaves, all cells), and which cells those leaves are."""
    where = {
        name: np.broadcast_to(coupled.loose[name], frame.shape)
        for name, frame in coupled.overlap.frames.items()
    }
    loose = np.flatnonzero(_joined(coupled, where))
    columns = np.empty((loose.size, halves.shape[1]))
    for row, place in enumerate(loose):
        unit = np.zeros(halves.shape[1])
        unit[place] = 1.0
        force = _parted(coupled, unit)
        moved = {name: coupled.covariance[name](push) for name, push in force.items()}
        columns[row] = _joined(coupled, moved) - halves[:, place] @ halves
    return columns, loose


def _joined(coupled: Coupled, tables: Mapping[str, NDArray[np.generic]]) -> Floats:
    """Lay all tables end to end."""
    return np.concatenate([np.asarray(tables[name], float).ravel() for name in coupled.overlap.frames])


def _parted(coupled: Coupled, joined: Floats) -> dict[str, Floats]:
    """Cut what ``_joined`` laid out into tables again."""
    tables, here = {}, 0
    for name, frame in coupled.overlap.frames.items():
        rows, cells = frame.shape
        tables[name] = joined[here : here + rows * cells].reshape(rows, cells)
        here += rows * cells
    return tables
