"""Whether the measurements contradict an invariant beyond chance.

It is found from noisy numbers alone, so that anybody may be told.

A table whose noise has a known variance shows a number of an invariant as a sum of its cells after weighted
least squares along its own hierarchy, before any invariant has touched it. The variance σ² of that sum is
exact: the cells that are added are of different columns or different roots, whose noise is independent.

How far is too far. S = Σ w·Z over independent discrete Laplace or Gaussian errors Z of variances v, with
Σ w²v = σ² and every |w| at most 1, satisfies E exp(sS) <= 1/(1 - b·s²σ²/2) for |s| <= 1, b = 2(cosh 1 - 1):
a discrete Laplace variable has E exp(sZ) = 1/(1 - v(cosh s - 1)), a Gaussian one no more, and a product of
such bounds is no more than the bound of the sum. Chernoff's bound at s = √2(1 - 1/u)/τ, τ² = b·max(σ², 2),
gives

    P(|S| >= u·τ/√2) <= (u + 1)·e^(1 - u)        for u >= 1.

With n numbers compared, u is chosen so that this is ``FALSE_ALARM``/n: if all invariants are right, a release
is called in conflict at most that often.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.inference import Estimate, consistency
from tabularium.tasks.postprocess.agreement import Agreement

FALSE_ALARM = 1e-6
_LATTICE = 2 * (math.cosh(1) - 1)
_STEPS = 50


@dataclass(frozen=True)
class Conflict:
    """How an invariant and the measurements go together.

    Attributes
    ----------
    compared
        How many numbers of it were compared, in all tables that show it with noise of known variance.
    beyond_chance
        How many of those differ by more than noise explains.
    """

    compared: int = 0
    beyond_chance: int = 0

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def conflicts(agreement: Agreement, measured: Mapping[str, Estimate]) -> dict[str, Conflict]:
    """Compare every invariant with every table that shows it.

    Parameters
    ----------
    measured
        Table -> what was measured of it, on its tree; only tables whose noise is independent and of exactly
        known variance.
    """
    measured = {name: each for name, each in measured.items() if name in agreement.overlap.tables}
    trees = {name: agreement.overlap.tables[name].tree for name in measured}
    fitted = {name: consistency(trees[name], each.values, each.variances) for name, each in measured.items()}
    spreads = agreement.groups[0].spreads
    fitted = {name: spreads[name].estimate(each) for name, each in fitted.items()}
    shown: dict[str, list[tuple[NDArray[np.float64], NDArray[np.float64]]]] = {}
    for name, known in agreement.known.items():
        shown[name] = []
        marginal = agreement.overlap.tables[name].marginal
        for table, estimate in fitted.items():
            if not marginal.within(agreement.overlap.tables[table].marginal):
                continue
            ours, theirs = agreement.overlap.views(table, name, marginal)
            spread = ours.gather(np.broadcast_to(estimate.variances, estimate.values.shape))
            shown[name].append((ours.gather(estimate.values) - theirs.gather(known.values), spread))
    number = sum(int(np.isfinite(spread).sum()) for each in shown.values() for _, spread in each)
    limit = deviations(FALSE_ALARM / max(number, 1))
    found = {}
    for name, pairs in shown.items():
        compared = beyond = 0
        for apart, spread in pairs:
            some = np.isfinite(spread)
            far = np.abs(apart[some]) >= limit * np.sqrt(_LATTICE * np.maximum(spread[some], 2))
            compared, beyond = compared + int(some.sum()), beyond + int(far.sum())
        found[name] = Conflict(compared, beyond)
    return found


def deviations(chance: float) -> float:
    """Return u/√2 with (u + 1)·e^(1 - u) <= ``chance``: see the head of this module."""
    u = 1.0
    for _ in range(_STEPS):  # rises to the fixed point: its slope is 1/(u + 1)
        u = 1 - math.log(chance) + math.log(u + 1)
    return u * (1 + 1e-9) / math.sqrt(2)
