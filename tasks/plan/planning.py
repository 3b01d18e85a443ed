"""The plan of a spec: the smallest budget for its targets, or the best margins for a budget.

::

    targets ─▶ largest variances ─▶ losses (smallest budget) ─▶ shares, short and exact ─▶ margins
                    ▲                                                                        │
                    └────── by what factor non-negativity and rounding change them ◀─────────┘
                                        (on public counts, where there are any)

Nothing here opens data: it reads the spec, its public files, and a release that was published.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from mechanisms.errors import InputError
from mechanisms.inference.arrays import Floats
from mechanisms.inference.margins_of_error.half_widths import quantile
from mechanisms.planning.exact_shares import DENOMINATORS, WASTE, rounded_shares, short_above
from mechanisms.planning.smallest_budget import BudgetProblem, Found, Goal
from tasks.plan.aims import Aim, aims_of, by_place, even_aims, in_words
from tasks.plan.mechanism_proposals import Proposal, proposals
from tasks.plan.planned_model import PlannedModel, with_shares
from tasks.plan.public_counts import Counts, counts_like, counts_of_totals
from tasks.plan.rehearsal import factors, rehearse
from tasks.postprocess.postprocessing import PostProcessor
from tasks.publish.read_release import Released
from validations.spec.load import Loaded
from validations.spec.targets.wanted_margins import Tuning

MULTIPLES = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
"""Of the planned budget, for which margins are shown."""
_REHEARSALS = 5
_SETTLED = 0.02
_PLENTY = 2  # rehearsals after which a plan that meets its targets need not be the narrowest
_MET = 1.01
"""Predicted over wanted margin up to which a simulation says that a target is met: it knows no better."""
_FITS = 5
_CLOSE = 1e-4

Place = tuple[str, str]


@dataclass(frozen=True)
class PlannedMargin:
    """What a plan says of one level of a table.

    Attributes
    ----------
    target
        In words; empty where none is about it.
    wanted
        The largest margin that its targets allow; None without one.
    margin
        The predicted one: of the worst cell where errors are linear, on average where it was simulated.
    part
        Of the tables' budget that measures this level; 0 where it is added up from others.
    drives
        Part of the budget that would not be needed but for these targets.
    """

    table: str
    level: str
    target: str
    wanted: float | None
    margin: float
    part: Fraction
    drives: float

    @property
    def where(self) -> str:
        """Table and level."""
        return in_words(self.table, self.level)


@dataclass(frozen=True, eq=False)
class Plan:
    """A spec with planned budget, shares and levels.

    Attributes
    ----------
    loaded
        The spec with them.
    margins
        Table by table and level by level.
    trade_off
        Budgets, and the margins that the same shares give with them, in the order of ``margins``.
    gap
        Part of the budget that other shares could save at most; None where that is not known.
    tuning
        The release on whose counts it was chosen.
    simulated
        Whether margins are those of simulated releases.
    proposals
        What other mechanisms would make of the same counts.
    """

    loaded: Loaded
    margins: tuple[PlannedMargin, ...]
    trade_off: tuple[tuple[Fraction, tuple[float, ...]], ...]
    gap: float | None
    tuning: Tuning | None
    simulated: bool
    proposals: tuple[Proposal, ...]

    @property
    def budget(self) -> Fraction:
        """Of the whole release, for one unit."""
        return self.loaded.spec.privacy.budget

    @property
    def missed(self) -> list[PlannedMargin]:
        """Levels whose margin is wider than wanted; none where the budget was free."""
        return [each for each in self.margins if each.wanted and each.margin > each.wanted * _MET]


def plan(
    loaded: Loaded,
    *,
    budget: Fraction | None = None,
    like: Released | None = None,
    mechanisms: bool = False,
) -> Plan:
    """Plan a spec.

    Parameters
    ----------
    loaded
        The spec; its budget, shares and levels are what is looked for, its source is never opened.
    budget
        Find the best margins for it, in the proportions of the targets, or alike where there are none.
    like
        A published release whose counts stand for those to come.
    mechanisms
        Try other mechanisms on those counts.

    Raises
    ------
    InputError
        There are no targets, or none that could be judged or met.
    """
    targets = loaded.spec.targets
    if not targets and budget is None:
        raise InputError(
            "the spec has no targets to plan for",
            where="targets",
            mend="write targets: [{table: NAME, margin: 50}], or give --budget",
        )
    if mechanisms and like is None:
        raise InputError(
            "mechanisms are tried on public counts", where="--mechanisms", mend="give --like RELEASE"
        )
    model = PlannedModel.of(loaded)
    counts: Counts | None = None
    if like is not None:
        counts = counts_like(model, like)
    elif any(target.unreliable is not None for target in targets):
        counts = counts_of_totals(model.agreement)
    aims = aims_of(model, counts) if targets else even_aims(model)
    planner = _Planner(model, aims, budget)
    simulated = like is not None and counts is not None and not PostProcessor.of(loaded).linear
    if simulated and counts is not None:
        planner.rehearse(counts)
    else:
        planner.fit()
    tuning = None
    if like is not None:
        tuning = Tuning(release=like.certificate["release_id"], certificate=like.digest)
    return Plan(
        planner.loaded,
        planner.margins(),
        tuple((planner.budget * m, tuple(planner.predicted(planner.losses * float(m)))) for m in MULTIPLES),
        planner.gap,
        tuning,
        simulated,
        tuple(proposals(planner.loaded, counts)) if mechanisms and counts is not None else (),
    )


class _Planner:
    """The search for one plan, and what it has come to."""

    def __init__(self, model: PlannedModel, aims: Sequence[Aim], budget: Fraction | None) -> None:
        self.model, self.aims, self._given = model, list(aims), budget
        spec = model.loaded.spec
        self._whole = spec.postprocessing.rounding
        self._level = float(spec.publication.confidence)
        self._quantile = quantile(self._level)
        self._places = {
            (name, level): depth
            for name in model.agreement.layouts
            for level, depth in model.shown(name).items()
        }
        # One for each aim; and of every place, for what is shown of it.
        self._factors = [1.0] * len(self.aims)
        self._shown = [1.0] * len(self._places)
        self._rehearsed = False
        self._near: Floats | None = None

    def rehearse(self, counts: Counts) -> None:
        """Fit, simulate what comes of it, and fit again until the simulated margins are as wanted.

        The first fit is by the linear estimates, whose errors are larger: the next ones come from its side.
        """
        places = [Aim(*place, depth, 1.0, None, "") for place, depth in self._places.items()]
        depths = {
            name: np.zeros(1, np.int64) if layout.along is None else layout.along.depth[: layout.nodes]
            for name, layout in self.model.agreement.layouts.items()
        }
        for number in range(_REHEARSALS):
            self.fit()
            told = counts, rehearse(self.loaded, counts), depths
            before, self._factors = self._factors, factors(self.aims, *told, self._level)
            self._shown = factors(places, *told, self._level)
            self._rehearsed = True
            moved = max(abs(now / then - 1) for now, then in zip(self._factors, before, strict=True))
            met = self._given is not None or self._off(self.losses) <= _MET
            if met and (number >= _PLENTY or moved <= _SETTLED):
                break

    def fit(self) -> None:
        """Find losses for the aims, and short exact shares for them."""
        scale = 1.0
        for _ in range(_FITS):
            problem = self._problem(scale)
            found = problem.solve(self._near)
            self._near = found.losses
            if self._given is None:
                break
            ratio = found.budget / self._tables_loss(self._given)
            scale *= ratio ** (0.5 if self.model.curves[0].definition == "zcdp" else 1.0)
            if abs(ratio - 1) < _CLOSE:
                break
        self._found, self.gap = found, found.gap
        self._shorten(problem, found)

    def _problem(self, scale: float) -> BudgetProblem:
        goals = [
            Goal(aim.table, aim.depth, (scale * aim.margin / (self._quantile * factor)) ** 2)
            for aim, factor in zip(self.aims, self._factors, strict=True)
        ]
        return BudgetProblem(self.model.linear, self.model.curves, goals, self.model.needed)

    def _shorten(self, problem: BudgetProblem, found: Found) -> None:
        """Find the shortest fractions that cost hardly more, and the budget that they need."""
        losses = self.model.losses(found.losses)
        names = list(self.model.agreement.layouts)
        whole = {n: sum(loss for (name, _), loss in losses.items() if name == n) for n in names}
        for denominator in DENOMINATORS:
            if denominator < len(losses):
                continue
            self.tables = rounded_shares(whole, denominator)
            self.levels = {
                n: rounded_shares(
                    {level: loss for (name, level), loss in losses.items() if name == n and loss > 0},
                    denominator,
                )
                for n in names
            }
            shape = np.array([float(self.part(place)) for place in self.model.linear.measurements])
            enough = problem.enough(shape)
            if enough.sum() <= found.budget * (1 + WASTE):
                break
        self.budget = self._given or short_above(float(enough.sum()) * float(self._folds / self._free))
        self.losses: Floats = shape * self._tables_loss(self.budget)
        self.levels = {
            n: {} if self.model.agreement.layouts[n].along is None else levels
            for n, levels in self.levels.items()
        }

    @property
    def loaded(self) -> Loaded:
        """The spec with what was found."""
        return with_shares(self.model.loaded, self.budget, self.tables, self.levels)

    def part(self, place: Place) -> Fraction:
        """Return the part of the tables' budget that measures a level of a table."""
        name, level = place
        levels = self.levels[name] or {"": Fraction(1)}
        return self.tables[name] * levels.get(level, Fraction(0))

    @cached_property
    def _folds(self) -> Fraction:
        """What a unit's loss is of a record's: by how many records it has, or their square."""
        privacy = self.model.loaded.spec.privacy
        return privacy.budget / privacy.record_budget

    @cached_property
    def _free(self) -> Fraction:
        """The part of the budget that tables have: without tallies and histograms."""
        spec = self.model.loaded.spec
        return spec.table_budget / spec.privacy.record_budget

    def _tables_loss(self, budget: Fraction) -> float:
        return float(budget / self._folds * self._free)

    def _half(self, variances: dict[str, Floats], table: str, depth: int) -> float:
        layout = self.model.agreement.layouts[table]
        nodes = [0] if layout.along is None else layout.along.depth[: layout.nodes] == depth
        return float(self._quantile * math.sqrt(variances[table][nodes].max()))

    def predicted(self, losses: Floats) -> list[float]:
        """Return the margins of every published level of every table."""
        spread = self.model.variances(losses)
        made = [
            self._half(spread, name, depth) * factor
            for ((name, _), depth), factor in zip(self._places.items(), self._shown, strict=True)
        ]
        if self._whole and not self._rehearsed:
            return [float(math.ceil(half - 1e-9)) for half in made]
        return made

    def _off(self, losses: Floats) -> float:
        """Return the largest quotient of predicted and wanted margin."""
        spread = self.model.variances(losses)
        return max(
            self._half(spread, aim.table, aim.depth) * factor / aim.margin
            for aim, factor in zip(self.aims, self._factors, strict=True)
        )

    def margins(self) -> tuple[PlannedMargin, ...]:
        """Return what the plan says of every level of every table."""
        numbers = by_place(self.aims)
        spread = self.model.variances(self.losses)
        found = []
        for (place, depth), shown in zip(self._places.items(), self.predicted(self.losses), strict=True):
            margin = shown
            own = numbers.get(place, [])
            # Of several targets, the one that asks for more here.
            first = min(own, key=lambda n: self.aims[n].margin / self._factors[n], default=None)
            wanted = None if first is None or not self.model.loaded.spec.targets else self.aims[first].margin
            if first is not None and self._rehearsed:
                margin = self._half(spread, place[0], depth) * self._factors[first]
            found.append(
                PlannedMargin(
                    *place,
                    "; ".join(self.aims[n].words for n in own),
                    wanted,
                    margin,
                    self.part(place),
                    float(sum(self._found.drives[n] for n in own)),
                )
            )
        return tuple(found)
