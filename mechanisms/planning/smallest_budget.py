"""The smallest budget whose margins are as wanted, and the losses of every measurement that make it up.

    minimise  sum of losses x_i   subject to   precision of cell j (p(x)) >= r_j for every wanted cell j

The precision of a cell after least squares is concave in those of the measurements, p_i(x_i), and homogeneous
of degree one (``linear_variances``). Under zCDP p is linear in ρ: a convex problem, and the linear program on
the tangents at the optimum bounds what could be saved (``Found.gap``). Under pure privacy p grows like ε²:
not convex, and often best with few levels measured. The solver takes the best of three starts and leaves out
levels for as long as that lessens the budget; no bound is claimed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats, Indices
from tabularium.mechanisms.noise_distributions import NoiseCurve
from tabularium.mechanisms.planning.linear_variances import LinearVariances, SeparateVariances

ROUNDS = 12
"""Times that the worst cells of every goal are looked for again."""
NEGLIGIBLE = 2e-3
"""Part of its table's budget below which a level is tried to be left out."""
DOUBTFUL = 0.25
"""The same under pure privacy, where leaving out may lessen the budget."""
SIMPLER = 1e-3
"""By how much the budget may grow when a level is left out: fewer levels are simpler."""
_TIGHT = 1e-4
_SLACK = 1e-6
_WIDE = 7.0  # logarithm of the factor by which a step of the search may change a loss


@dataclass(frozen=True)
class Goal:
    """A largest variance for all cells of one level of a table.

    ``depth``: Of the level; 0 for a table without a hierarchy. ``variance``: After least squares; above zero.
    """

    table: str
    depth: int
    variance: float


@dataclass(frozen=True, eq=False)
class Found:
    """Losses that meet goals.

    Attributes
    ----------
    losses
        (measurements,) for one record.
    drives
        (goals,) the part of the budget that each goal causes; they add to 1. A goal with 0 costs nothing: it
        is met anyway. One per cent less variance of a goal costs its part of 1 % of the budget under zCDP,
        and half of that under pure privacy.
    gap
        How much smaller, in parts of the budget, a solution could be at most; None where no bound is known.
    """

    losses: Floats
    drives: Floats
    gap: float | None

    @property
    def budget(self) -> float:
        """The whole loss of one record."""
        return float(self.losses.sum())


class BudgetProblem:
    """Goals for the cells of some tables, and what measuring them costs.

    Parameters
    ----------
    curves
        (measurements) how precision comes of loss.
    goals
        At least one for every table: a table without any would be left without budget. Of tied tables, at
        least one for each head.
    needed
        (measurements,) which must be measured: the deepest level of every table, and all where levels are
        not made to add up.
    ties
        What losses have in common; each is free without.
    """

    def __init__(
        self,
        model: LinearVariances | SeparateVariances,
        curves: Sequence[NoiseCurve],
        goals: Sequence[Goal],
        needed: Bools,
        ties: Ties | None = None,
    ) -> None:
        self.model, self.goals, self.needed = model, list(goals), needed
        self._ties = ties or Ties.none(len(needed))
        self._curves = list(curves)
        self._of = [
            (curve, np.array([place for place, item in enumerate(curves) if item == curve]))
            for curve in dict.fromkeys(curves)
        ]
        self._convex = all(curve.definition == "zcdp" for curve in curves)
        self._rows = [np.flatnonzero(model.depth(goal.table) == goal.depth) for goal in self.goals]
        self._cells = [set[int]() for _ in self.goals]  # the worst of each goal, as far as they were met with

    def precisions(self, losses: Floats) -> Floats:
        """Return the precision of every measurement."""
        result = np.zeros(len(losses))
        for curve, places in self._of:
            result[places] = curve.precision(losses[places])
        return result

    def worst(self, losses: Floats) -> Floats:
        """Return the largest variance over the cells of each goal, (goals,)."""
        spread = self.model.variances(self.precisions(losses))
        return np.array(
            [spread[goal.table].values[rows].max() for goal, rows in zip(self.goals, self._rows, strict=True)]
        )

    def feasibility(self, losses: Floats) -> float:
        """Return how far the goal that is worst off is met: wanted variance over variance."""
        return float(np.min(np.array([goal.variance for goal in self.goals]) / self.worst(losses)))

    def scale_to_feasible(self, shape: Floats) -> Floats:
        """Return the least multiple of some losses that meets all goals.

        Precision grows with the loss, or faster, so that the goals' own distance brackets it.
        """
        from scipy.optimize import brentq

        def beyond(logarithm: float) -> float:
            return math.log(self.feasibility(math.exp(logarithm) * shape))

        away = -beyond(0.0)
        result = brentq(beyond, min(0.0, away) - _SLACK, max(0.0, away) + _SLACK, xtol=1e-9)
        while beyond(result) < 0:
            result += 1e-9
        return np.asarray(math.exp(result) * shape)

    def solve(self, near: Floats | None = None) -> Found:
        """Return the smallest budget, and what it is spent on.

        ``near``: losses that are best for goals not far from these; the search begins there, with the same
        levels.
        """
        if near is not None:
            best = self._optimum(self.scale_to_feasible(near))
        else:
            own = self._own_losses()
            shapes = [np.where(self.needed, 1.0, 0.5) * own]
            if not self._convex:
                shapes += [np.where(self.needed, 1.0, 0.0) * own, self._as_if_convex()]
            tried = [self._optimum(self.scale_to_feasible(shape)) for shape in shapes]
            best = self._fewer(min(tried, key=lambda losses: float(losses.sum())))
        bounded = self._convex and self._ties.loose
        return Found(best, self._drives(best), self._gap(best) if bounded else None)

    def _own_losses(self) -> Floats:
        """Return losses of about the right size: what each array would need by itself for its goals."""
        least: dict[str, float] = {}
        for goal in self.goals:
            least[goal.table] = min(goal.variance, least.get(goal.table, math.inf))
        names = [name for name, _ in self.model.measurements]
        own = np.array(
            [
                float(curve.loss(np.array([1 / least[name]]))[0]) if name in least else 0.0
                for curve, name in zip(self._curves, names, strict=True)
            ]
        )
        return self._ties.following(own)

    def _as_if_convex(self) -> Floats:
        """Return losses with the precisions that would be best under zCDP, where their sum is what costs."""
        curves = [replace(curve, definition="zcdp") for curve in self._curves]
        convex = BudgetProblem(self.model, curves, self.goals, self.needed, self._ties)
        precisions = convex.precisions(convex.solve().losses)
        losses = np.array(
            [
                float(curve.loss(np.array([precision]))[0])
                for curve, precision in zip(self._curves, precisions, strict=True)
            ]
        )
        return self._ties.fitted(losses)

    def _fewer(self, losses: Floats) -> Floats:
        """Leave out levels that are hardly measured, as long as the budget does not grow by it."""
        names = [name for name, _ in self.model.measurements]
        limit = NEGLIGIBLE if self._convex else DOUBTFUL
        blocks = self._ties.blocks
        kept: set[int] = set()
        while True:
            part = np.array(
                [
                    loss / losses[[n == name for n in names]].max()
                    for loss, name in zip(losses, names, strict=True)
                ]
            )
            doubtful = [
                int(blocks[place])
                for place in np.argsort(part)
                if losses[place] > 0
                and not self.needed[place]
                and blocks[place] not in kept
                and part[place] < limit
            ]
            if not doubtful:
                return losses
            doubtful = list(dict.fromkeys(doubtful))
            small = [block for block in doubtful if part[blocks == block].max() < NEGLIGIBLE] or doubtful[:1]
            without = np.where(np.isin(blocks, small), 0.0, losses)
            tried = self._optimum(self.scale_to_feasible(without))
            if tried.sum() <= losses.sum() * (1 + SIMPLER):
                losses = tried
            elif len(small) > 1:
                kept |= set(small[1:])
            else:
                kept.add(small[0])

    def _optimum(self, start: Floats) -> Floats:
        """Return a local optimum near losses that meet the goals; measurements of no loss stay out.

        Only the worst cells of each goal are constraints, and those found to be worse afterwards.
        """
        free = np.flatnonzero(start > 0)
        best, losses, cells = start, start, self._cells
        for _ in range(ROUNDS):
            before = -1 if losses is start else sum(map(len, cells))
            spread = self.model.variances(self.precisions(losses))
            for goal, rows, held in zip(self.goals, self._rows, cells, strict=True):
                values = spread[goal.table].values[rows]
                if not held or values.max() > goal.variance * (1 + _TIGHT):
                    held.add(int(rows[values.argmax()]))
            if sum(map(len, cells)) == before:
                break
            losses = self._with(losses, free)
            enough = self.scale_to_feasible(losses)
            if enough.sum() < best.sum():
                best = enough
        return best

    def _with(self, start: Floats, free: Indices) -> Floats:
        """Return the optimum with the worst cells of each goal as constraints, as far as they are known.

        It is looked for in logarithms of losses, where steps are factors and ties are linear.
        """
        from scipy.optimize import minimize

        parts, cells = start[free] / start[free].sum(), self._cells
        ties = self._ties.factors[free]
        ties = ties[:, ties.any(axis=0)]

        def losses(logarithms: Floats) -> Floats:
            result = np.zeros(len(start))
            result[free] = start[free] * np.exp(ties @ logarithms)
            return result

        def held(logarithms: Floats) -> Floats:
            return np.log(self._held(losses(logarithms), cells)[0])

        def slopes(logarithms: Floats) -> Floats:
            at = losses(logarithms)
            values, rates = self._held(at, cells, slopes=True)
            return np.asarray((rates * at)[:, free] @ ties / values[:, None])

        made = minimize(
            lambda x: float(parts @ np.exp(ties @ x)),
            np.zeros(ties.shape[1]),
            jac=lambda x: (parts * np.exp(ties @ x)) @ ties,
            bounds=[(-_WIDE, _WIDE)] * ties.shape[1],
            constraints={"type": "ineq", "fun": held, "jac": slopes},
            method="SLSQP",
            options={"maxiter": 200, "ftol": 1e-8},
        )
        return losses(made.x) if np.isfinite(made.x).all() else start

    def _held(
        self, losses: Floats, cells: Sequence[set[int]], *, slopes: bool = False
    ) -> tuple[Floats, Floats]:
        """Return wanted variance over variance of some cells of each goal, and its slopes by the losses."""
        spread = self.model.variances(self.precisions(losses), slopes=slopes)
        values, rates = [], []
        for goal, held in zip(self.goals, cells, strict=True):
            rows = np.array(sorted(held))
            variance = spread[goal.table].values[rows]
            values.append(goal.variance / variance)
            if slopes:
                rates.append(-(goal.variance / variance**2)[:, None] * spread[goal.table].slopes[rows])
        if not slopes:
            return np.concatenate(values), np.zeros(0)
        by_loss = np.zeros(len(losses))
        for curve, places in self._of:
            by_loss[places] = curve.slope(losses[places])
        return np.concatenate(values), np.concatenate(rates) * by_loss

    def _tangents(self, losses: Floats, within: float) -> tuple[Floats, Floats, Indices]:
        """Return precisions of the cells of goals, their slopes, and the goal of each.

        ``within``: those only whose goal is met by no more than this.
        """
        every = [set(rows.tolist()) for rows in self._rows]
        values, rates = self._held(losses, every, slopes=True)
        goals = np.repeat(np.arange(len(every)), [len(rows) for rows in every])
        near = values <= 1 + within
        return values[near], rates[near], goals[near]

    def _drives(self, losses: Floats) -> Floats:
        """Return the parts of the budget that goals cause: multipliers that hold the optimum in balance."""
        from scipy.optimize import nnls

        _, rates, goals = self._tangents(losses, 10 * _TIGHT)
        ties = self._ties.factors
        multipliers = nnls(((rates * losses) @ ties).T, losses @ ties)[0]
        parts = np.bincount(goals, multipliers, len(self.goals))
        # Rounded, so that the last bits, which differ between processors, break no tie of percents.
        return np.asarray(np.round(parts / parts.sum(), 6))

    def _gap(self, losses: Floats) -> float:
        """Return the largest part of the budget that could be saved, by linear programming on tangents."""
        from scipy.optimize import linprog

        values, rates, _ = self._tangents(losses, 1.0)
        scale = np.where(losses > 0, losses, losses.max())
        bound = linprog(
            scale / losses.sum(),
            A_ub=-rates * scale,
            b_ub=values - rates @ losses - 1,
            bounds=(0, None),
            method="highs",
        )
        return max(0.0, 1 - float(bound.fun)) if bound.success else 1.0


DENOMINATORS = (10, 20, 50, 100, 200, 500, 1000, 10_000, 100_000, 1_000_000)
"""Of shares, the rough ones first."""
WASTE = 0.003
"""Part of the budget that short fractions may cost."""
_DIGITS = 3


def rounded_shares(parts: Mapping[str, float], denominator: int) -> dict[str, Fraction]:
    """Return shares that add to exactly one, multiples of 1/denominator and each above zero.

    What the fractions rounded down leave goes to those that lost most (Hamilton's method).

    ``parts``: Name -> a part, above zero; they need not add to one.

    Examples
    --------
    >>> {name: str(share) for name, share in rounded_shares({"a": 2.0, "b": 1.0}, 10).items()}
    {'a': '7/10', 'b': '3/10'}
    """
    whole = sum(parts.values())
    wanted = {name: denominator * part / whole for name, part in parts.items()}
    result = {name: max(1, math.floor(number)) for name, number in wanted.items()}
    order = sorted(wanted, key=lambda name: wanted[name] - result[name], reverse=True)
    left = denominator - sum(result.values())
    for name in order[: max(left, 0)]:
        result[name] += 1
    while left < 0:  # shares that were raised to 1
        largest = max(result, key=lambda name: result[name])
        result[largest] -= 1
        left += 1
    return {name: Fraction(number, denominator) for name, number in result.items()}


def short_above(amount: float) -> Fraction:
    """Return a decimal number of few digits that is not below ``amount``, by half a per cent at most.

    Examples
    --------
    >>> str(short_above(0.12344)), str(short_above(2.0)), str(short_above(0.995))
    ('31/250', '2', '199/200')
    """
    for digits in range(1, _DIGITS + 1):
        step = Fraction(10) ** (math.floor(math.log10(amount)) - digits + 1)
        result = math.ceil(Fraction(amount) / step) * step
        if result <= Fraction(amount) * Fraction(201, 200):
            break
    return result


@dataclass(frozen=True)
class LossSlot:
    """What one measurement is of.

    ``table``, ``level``: Arrays of one table have the same parts for their levels. ``head``: The array whose
    loss it follows: its own, or one of its table to which it is in proportion.
    """

    table: str
    level: str
    array: str
    head: str


@dataclass(frozen=True, eq=False)
class Ties:
    """Measurements whose losses cannot be chosen one by one: log loss = log proportion + factors · unknowns.

    The arrays of a table have the same parts of their losses for their levels; an array whose share is
    settled beforehand stands in a fixed proportion to another one of its table.

    Attributes
    ----------
    factors
        (measurements, unknowns): 1 where a loss is multiplied by what an unknown is the logarithm of.
    blocks
        (measurements,) those of one number are left out together.
    heads
        (measurements,) the measurement of the same level that each follows; its own number where it is free.
    proportions
        (measurements,) loss over that of the head.
    """

    factors: Floats
    blocks: Indices
    heads: Indices
    proportions: Floats

    @classmethod
    def none(cls, measurements: int) -> Ties:
        """Return that of losses that are each free."""
        every = np.arange(measurements)
        return cls(np.eye(measurements), every, every, np.ones(measurements))

    @classmethod
    def of(cls, places: Sequence[LossSlot], proportions: Floats) -> Ties:
        """Tie the arrays of each table, whose levels stand in one order, the deepest last."""
        heads: dict[str, set[str]] = {}
        for place in places:
            heads.setdefault(place.table, set()).add(place.head)
        last = {place.table: place.level for place in places}
        unknowns: dict[tuple[str, ...], int] = {}
        rows: list[list[int]] = []
        for place in places:
            several = len(heads[place.table]) > 1
            own: list[tuple[str, ...]] = [("head", place.head)] if several else []
            if not several or place.level != last[place.table]:
                own.append(("level", place.table, place.level))
            rows.append([unknowns.setdefault(name, len(unknowns)) for name in own])
        factors = np.zeros((len(places), len(unknowns)))
        for row, own_columns in enumerate(rows):
            factors[row, own_columns] = 1.0
        levels = [(place.table, place.level) for place in places]
        numbers = {level: number for number, level in enumerate(dict.fromkeys(levels))}
        at = {(place.array, place.level): number for number, place in enumerate(places)}
        followed = np.array([at[place.head, place.level] for place in places])
        return cls(factors, np.array([numbers[level] for level in levels]), followed, proportions)

    @property
    def loose(self) -> bool:
        """Whether every loss may be chosen by itself."""
        return len(self.factors) == np.count_nonzero(self.factors.any(axis=0))

    def following(self, losses: Floats) -> Floats:
        """Return losses, where only those of heads count: the others are in proportion to them."""
        return np.asarray(losses[self.heads] * self.proportions)

    def fitted(self, losses: Floats) -> Floats:
        """Return the tied losses that are nearest to some, in logarithms; what is zero stays so."""
        free = losses > 0
        wanted = np.log(losses[free] / self.proportions[free])
        unknowns = np.linalg.lstsq(self.factors[free], wanted, rcond=None)[0]
        result = np.zeros(len(losses))
        result[free] = self.proportions[free] * np.exp(self.factors[free] @ unknowns)
        return result
