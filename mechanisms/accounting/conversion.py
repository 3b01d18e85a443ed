"""From transcripts to (ε, δ): the tightest of the bounds that are sound.

For any transcript, whatever its draws depended on:

1. What was spent in pure channels, ε, with what was spent in zCDP channels, ρ, converted: ε + ε'(ρ, δ), where
   δ = inf over α > 1 of exp((α-1)(αρ-ε'))/(α-1)·(1-1/α)^α (Canonne, Kamath, Steinke 2020, Proposition 12).
2. The same with each pure channel's ε taken as ρ = ε²/2 (Bun & Steinke 2016, Proposition 1.4). The whole
   ε of a transcript is squared, not that of each event: a mechanism that divides ε by what it sees is ε-DP,
   hence ε²/2-zCDP, while its events' ε_i²/2 sum to something that depends on the data.

For a plan that was settled before the first draw (``fixed_plan``), also

3. The sum of the pure ε's, and the sum of the ρ's of the single events, converted.
4. The privacy loss distribution of the composition, by dp-accounting (Koskela, Jälkö, Honkela 2020;
   Doroshenko et al. 2022), rounded pessimistically.

For the last, every event is replaced by a one-dimensional pair that dominates it. For Laplace noise on a
table that pair is the shift of one coordinate by the whole sensitivity: along a chain of shifts of a
log-concave distribution the same threshold tests stay optimal, so a shift that is split over coordinates
gives an attacker no more than the group bound of the chain, which the one-coordinate shift attains (Dong,
Roth, Su 2022, section 2.5). The argument serves discrete Gaussian noise too when a record changes one cell
by 1. A choice is taken as an ε-DP step, hence dominated by randomised response. Lattice noise of L2
sensitivity has the second bound only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, exp, inf, log, log1p, nextafter, sqrt
from typing import Any

from tabularium.mechanisms.accounting.losses import by_scope, spent
from tabularium.mechanisms.accounting.transcript import Event
from tabularium.mechanisms.errors import MechanismError

_LARGEST_SHIFT = 1000  # beyond, dp-accounting's discrete distributions take long: taken as ε-DP
_LOSS_STEPS = 10_000  # points of a privacy loss distribution: seven digits, since the dots are connected
_FINEST, _COARSEST = 1e-7, 1e-4  # distance of those points


@dataclass(frozen=True, slots=True)
class Step:
    """What one event can cost one record.

    ``kind`` is how dp-accounting is to see it: its name there, its scale and the shift, or None.
    """

    epsilon: Fraction | None
    rho: Fraction
    kind: tuple[str, Fraction, Fraction] | None


def epsilon_at(events: Iterable[Event], delta: float, *, group: int = 1, fixed_plan: bool = False) -> float:
    """Return the least of the bounds on ε at δ, for a unit of ``group`` records.

    Parameters
    ----------
    events
        Transcripts of whole releases: what they declare is what their channels were opened with.
    delta
        At least 0 and below 1.
    group
        How many records a unit may have.
    fixed_plan
        Whether every event, with its scale and its place, was settled before the first draw. Only then may
        the events' own distributions be composed. A mechanism that divides its budget by what it has drawn
        is protected by what its channel held, under the channel's own definition, and by nothing finer.
    """
    events = list(events)
    if not 0 <= delta < 1:
        raise MechanismError("delta must be at least 0 and below 1", where="delta")
    pure, concentrated = _spent_by_definition(events, group)
    bounds = [
        _above(pure) + zcdp_epsilon(_above(concentrated), delta),
        zcdp_epsilon(_above(concentrated + pure**2 / 2), delta),
    ]
    if not fixed_plan:
        return min(bounds)
    steps = worst_case_steps(events)
    total, rho = _sum_pure(steps), sum((step.rho for step in steps), Fraction(0))
    bounds += [inf if total is None else _above(total * group), zcdp_epsilon(_above(rho * group**2), delta)]
    if delta > 0 and (distribution := _distribution(steps, group)) is not None:
        bounds.append(max(0.0, float(distribution.get_epsilon_for_delta(delta))))
    return min(bounds)


def _spent_by_definition(events: list[Event], group: int) -> tuple[Fraction, Fraction]:
    """Return the ε of the pure channels and the ρ of the zCDP channels, for a unit of ``group`` records.

    Gaussian noise that other systems drew outside any channel is counted by its ρ.
    """
    pure = [event for event in events if event.definition == "pure"]
    concentrated = [event for event in events if event.definition == "zcdp"]
    return spent(pure) * group, spent(concentrated) * group**2


def zcdp_epsilon(rho: float, delta: float) -> float:
    """Return an ε, the least up to a search, such that ρ-zCDP gives (ε, δ): every α gives a valid one."""
    if rho == 0:
        return 0.0
    if delta == 0:
        return inf

    def bound(order: float) -> float:  # order = ln(α - 1)
        excess = exp(order)
        whole = log1p(excess)  # ln α
        return (1 + excess) * rho - (log(delta) + whole) / excess + order - whole

    return max(0.0, _lowest(bound))


def _lowest(function: Callable[[float], float]) -> float:
    """Return the lowest value met on a grid of ln(α - 1), made finer around the best point four times."""
    low, high, best = -20.0, 40.0, inf
    for _ in range(5):
        points = [low + (high - low) * place / 200 for place in range(201)]
        values = [function(point) for point in points]
        at = min(range(len(points)), key=values.__getitem__)
        best = min(best, values[at])
        low, high = points[max(at - 1, 0)], points[min(at + 1, 200)]
    return best


def worst_case_steps(events: Iterable[Event], depth: int = 0) -> list[Step]:
    """Return what one record can meet: everything outside parallel scopes, one branch of each scope.

    If all branches of a scope draw the same, one of them stands for the scope. Otherwise the scope counts as
    one step of the dearest branch's ε and the dearest branch's ρ.
    """
    outside, scopes = by_scope(events, depth)
    steps = [_step(event) for event in outside]
    for branches in scopes:
        inside = [worst_case_steps(branch, depth + 1) for branch in branches]
        if all(Counter(branch) == Counter(inside[0]) for branch in inside):
            steps.extend(inside[0])
        else:
            steps.append(_dearest(inside))
    return steps


def _step(event: Event) -> Step:
    step = Step(event.epsilon, event.rho, None)
    kind: tuple[str, Fraction, Fraction] | None = None
    shift = Fraction(ceil(event.sensitivity))
    if event.primitive in {"discrete_laplace", "lattice_laplace"} and shift <= _LARGEST_SHIFT:
        kind = ("discrete_laplace", Fraction(event.scale), shift)
    elif event.primitive == "discrete_gaussian" and event.sensitivity == 1:
        kind = ("discrete_gaussian", event.scale_squared, shift)
    elif event.primitive in {"laplace", "gaussian"}:
        kind = (event.primitive, event.scale_squared, event.sensitivity)
    elif event.epsilon is not None:
        kind = ("pure", Fraction(1), event.epsilon)
    return replace(step, kind=kind)


def _dearest(branches: list[list[Step]]) -> Step:
    pure = [_sum_pure(branch) for branch in branches]
    known = [epsilon for epsilon in pure if epsilon is not None]
    epsilon = max(known) if len(known) == len(pure) else None
    rho = max(sum((step.rho for step in branch), Fraction(0)) for branch in branches)
    return Step(epsilon, rho, None if epsilon is None else ("pure", Fraction(1), epsilon))


def _sum_pure(steps: list[Step]) -> Fraction | None:
    total = Fraction(0)
    for step in steps:
        if step.epsilon is None:
            return None
        total += step.epsilon
    return total


def _above(value: Fraction) -> float:
    """Return the float nearest above an exact value, so that no bound is rounded in the wrong direction."""
    nearest = float(value)
    return nearest if Fraction(nearest) >= value else nextafter(nearest, inf)


def _below(value: Fraction) -> float:
    nearest = float(value)
    return nearest if Fraction(nearest) <= value else nextafter(nearest, 0)


def _distribution(steps: list[Step], group: int) -> Any | None:
    """Return the privacy loss distribution of all steps, or None when some step has none."""
    counted = Counter(step.kind for step in steps)
    if not steps or None in counted:
        return None
    largest = sum(float(step.epsilon or 4 * sqrt(2 * step.rho) + step.rho) for step in steps) * group
    interval = min(_COARSEST, max(_FINEST, largest / _LOSS_STEPS))
    total: Any | None = None
    for kind, count in counted.items():
        if kind is not None:
            one = _privacy_loss(kind, group, interval)
            many = one.self_compose(count) if count > 1 else one
            total = many if total is None else total.compose(many)
    return total


def _privacy_loss(kind: tuple[str, Fraction, Fraction], group: int, interval: float) -> Any:
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    name, scale, shift = kind
    moved = shift * group
    if name == "discrete_laplace":
        return pld.from_discrete_laplace_mechanism(
            _above(1 / scale),
            sensitivity=int(moved),
            value_discretization_interval=interval,
            use_connect_dots=True,
        )
    if name == "discrete_gaussian":
        sigma = nextafter(sqrt(_below(scale)), 0)
        return pld.from_discrete_gaussian_mechanism(
            sigma,
            sensitivity=int(moved),
            value_discretization_interval=interval,
            use_connect_dots=True,
        )
    if name == "pure":
        loss = common.DifferentialPrivacyParameters(_above(moved), 0)
        return pld.from_privacy_parameters(loss, value_discretization_interval=interval)
    make: Callable[..., Any] = (
        pld.from_laplace_mechanism if name == "laplace" else pld.from_gaussian_mechanism
    )
    return make(
        nextafter(sqrt(_below(scale)), 0), sensitivity=_above(moved), value_discretization_interval=interval
    )
