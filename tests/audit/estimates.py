"""A lower confidence bound on the privacy loss, from outputs alone.

It knows nothing of how a mechanism works. Half of the runs on a worst-case pair of neighbours choose an
event that tells the two apart, the other half estimates its probabilities p and q with Clopper-Pearson
bounds. With pure ε, p <= e^ε·q; so ln(p_low/q_high) is below ε except with probability FALSE_ALARM. Under
zCDP the Rényi divergences of the event's two outcomes are below αρ for every α > 1 (post-processing), so the
largest D_α(p_low, q_high)/α is below ρ, except with that probability.

FALSE_ALARM = 10^-6 for each mechanism: with a hundred of them, one false alarm in 10 000 changes of their
code (the seeds are fixed, so a pass stays a pass). RUNS = 1 000 runs on each side for each half find a scale
that is half of what it should be at ε = 1, in a few seconds. It finds gross errors only, and only those that
a half space of outputs shows: the replay audit is the proof, this one does not share its assumptions.

Source of the method: Ding, Wang, Wang, Zhang, Kifer 2018; Bichsel et al. 2021.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from math import inf, log

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv

from tabularium.mechanisms import MECHANISMS
from tabularium.mechanisms.accounting.transcript import Definition
from tabularium.mechanisms.channel import SeededChannel
from tabularium.mechanisms.mechanism import Mechanism
from tests.audit.cases import CASES, Counts

FALSE_ALARM = 1e-6
RUNS = 1_000
FEWER_RUNS = 150  # for gross errors
FEATURES = 24
ORDERS = (1.25, 1.5, 2.0, 3.0, 5.0, 9.0, 17.0)

BUDGET = {"pure": Fraction(1), "zcdp": Fraction(1, 2)}
ONE_CELL = ((4,), (5,))  # where most mechanisms have nothing to hide their noise behind

Table = NDArray[np.float64]


def must_show(name: str, definition: Definition) -> float:
    """The share of the budget that must be seen in the outputs of the worst pair."""
    case = CASES[name]
    return case.shows if definition == MECHANISMS[name].definitions[0] else case.shows_zcdp


def loss_from_outputs(
    mechanism: Mechanism,
    counts: Counts,
    neighbour: Counts,
    budget: Fraction,
    definition: Definition,
    *,
    runs: int = RUNS,
    seed: str = "audit",
) -> float:
    """Return a value that the true ε (or ρ) exceeds except with probability ``FALSE_ALARM``."""
    outputs = [
        np.array(
            [features(mechanism, data, budget, definition, f"{seed} {side} {run}") for run in range(2 * runs)]
        )
        for side, data in enumerate((counts, neighbour))
    ]
    learned = best_event(outputs[0][:runs], outputs[1][:runs], definition)
    first, second = (happens(learned, part[runs:]) for part in outputs)
    return max(
        bound(first.sum(), second.sum(), runs, definition), bound(second.sum(), first.sum(), runs, definition)
    )


def features(
    mechanism: Mechanism, counts: Counts, budget: Fraction, definition: Definition, seed: str
) -> NDArray[np.float64]:
    """Numbers of a fixed length from one release."""
    release = mechanism.release(counts, SeededChannel(budget, seed=seed, definition=definition))
    values = np.asarray(release.values, dtype=np.float64).reshape(-1)[:FEATURES]
    return np.append(np.pad(values, (0, FEATURES - values.size)), values.sum())


Event = tuple[NDArray[np.float64], float]


def best_event(one: Table, other: Table, definition: Definition) -> Event:
    """Return (weights, threshold) of the half space that tells the two samples apart best."""
    best, found = -inf, (np.zeros(one.shape[1]), 0.0)
    for weights in directions(one, other):
        for sign in (1.0, -1.0):
            mine, theirs = one @ (sign * weights), other @ (sign * weights)
            for threshold in np.unique(np.quantile(np.append(mine, theirs), np.linspace(0.02, 0.98, 33))):
                score = bound(
                    (mine >= threshold).sum(), (theirs >= threshold).sum(), one.shape[0], definition
                )
                if score > best:
                    best, found = score, (sign * weights, float(threshold))
    return found


def directions(one: Table, other: Table) -> Iterator[NDArray[np.float64]]:
    """Each feature, and the line between the two medians and the two means."""
    yield from np.eye(one.shape[1])
    for centre in (np.median, np.mean):
        yield centre(one, axis=0) - centre(other, axis=0)


def happens(event: Event, outputs: Table) -> NDArray[np.bool_]:
    weights, threshold = event
    return outputs @ weights >= threshold


def bound(seen: int, seen_other: int, runs: int, definition: Definition) -> float:
    """Return the lower bound on ε or ρ from how often an event was seen on either side."""
    level = FALSE_ALARM / 4  # two sides, two directions
    low = betaincinv(seen, runs - seen + 1, level) if seen else 0.0
    high = betaincinv(seen_other + 1, runs - seen_other, 1 - level) if seen_other < runs else 1.0
    if low <= high:
        return 0.0
    if definition == "pure":
        return log(low / high)
    return max(renyi(low, high, order) / order for order in ORDERS)


def renyi(p: float, q: float, order: float) -> float:
    """The Rényi divergence of two coins."""
    total = p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)
    return log(total) / (order - 1)
