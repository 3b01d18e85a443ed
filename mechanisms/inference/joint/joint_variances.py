"""Variances of joint estimates that were found by conjugate gradients: exact if small, estimated if large.

Let x^ be the tables' estimates on their own, with exact variances V^, and x the joint one. x is the
projection of x^ in the metric of its covariance, so x^ - x and x are uncorrelated, and

    V = V^ - Var(x^ - x).

*Exact* (small systems): the second term is the diagonal of Sigma C' S^+ C Sigma, from the response
Sigma C' e to every single agreement e. Only here S is written out: one row per agreement.

*Estimated* (large systems): mean squares over synthetic measurements of pure noise, with public seeded
numbers; only variances enter, no data. There are two unbiased estimates: the mean square of x itself, and
V^ less the mean square of x^ - x. Their relative standard errors, sqrt(2 / probes), are of V and of V^ - V,
so the second is taken where it is the better one (V above V^ / 2: most cells, since a shared marginal tells
much about the marginal and little about a cell), and neither exceeds V^. So with 32 probes a variance is
within a quarter of itself (one standard error), usually within a few per cent.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.inference.arrays import Floats, Indices
from tabularium.mechanisms.inference.joint.conjugate_gradients import JointSystem, pseudo_inverse_root
from tabularium.mechanisms.noise.synthetic import generator


def exact_variances(joint: JointSystem) -> dict[str, Floats]:
    """Return the exact variances (nodes, cells) of every table: O(agreements x cells) memory.

    The invented measurements of unmeasured leaves are taken away again by the Woodbury identity.
    """
    if joint.any_unmeasured:
        # A huge invented variance would swallow the digits of what is left when it is taken away.
        joint = JointSystem(joint.overlap, joint.variances, proximal=1.0)
    diagonal = _stacked(joint, joint.own_variances())
    responses, system = joint.responses()
    halves = pseudo_inverse_root(system) @ responses
    variances = diagonal - (halves**2).sum(axis=0)
    if joint.any_unmeasured:
        columns, unmeasured = _unmeasured_columns(joint, halves)
        # (P - I/M)^-1 = Sigma + Sigma_U (M - Sigma_UU)^-1 Sigma_U': what was invented for these leaves goes.
        inner = joint.proximal_variance * np.eye(unmeasured.size) - columns[:, unmeasured]
        variances += (columns * np.linalg.solve((inner + inner.T) / 2, columns)).sum(axis=0)
    return _unstacked(joint, np.maximum(variances, 0.0))


def estimated_variances(joint: JointSystem, probes: int) -> dict[str, Floats]:
    """Return estimates of the variances (nodes, cells) from ``probes`` draws of pure noise."""
    rng = generator(2)
    alone = _stacked(joint, joint.own_variances())
    together, apart = np.zeros_like(alone), np.zeros_like(alone)
    for _ in range(probes):
        before, after = (_stacked(joint, errors) for errors in joint.simulated_errors(rng))
        together, apart = together + after**2 / probes, apart + (before - after) ** 2 / probes
    less = alone - apart
    best = np.where(less > alone / 2, less, together)
    return _unstacked(joint, np.minimum(best, alone))


def _unmeasured_columns(joint: JointSystem, halves: Floats) -> tuple[Floats, Indices]:
    """Return the joint covariances (unmeasured leaves, all cells), and which cells those leaves are."""
    unmeasured = np.flatnonzero(_stacked(joint, joint.unmeasured))
    columns = np.empty((unmeasured.size, halves.shape[1]))
    for row, place in enumerate(unmeasured):
        unit = np.zeros(halves.shape[1])
        unit[place] = 1.0
        moved = {name: joint.covariance[name](table) for name, table in _unstacked(joint, unit).items()}
        columns[row] = _stacked(joint, moved) - halves[:, place] @ halves
    return columns, unmeasured


def _stacked(joint: JointSystem, tables: Mapping[str, NDArray[np.generic]]) -> Floats:
    """Lay all tables end to end."""
    return np.concatenate([np.asarray(tables[name], float).ravel() for name in joint.overlap.frames])


def _unstacked(joint: JointSystem, numbers: Floats) -> dict[str, Floats]:
    """Cut what ``_stacked`` laid end to end into tables again."""
    shapes = {name: frame.shape for name, frame in joint.overlap.frames.items()}
    ends = np.cumsum([prod(shape) for shape in shapes.values()])
    parts = np.split(numbers, ends[:-1])
    return {name: part.reshape(shapes[name]) for name, part in zip(shapes, parts, strict=True)}
