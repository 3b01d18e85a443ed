"""The plan of a spec: the smallest budget for its targets, or the best margins for a budget.

::

    targets ─▶ largest variances ─▶ losses (smallest budget) ─▶ shares, short and exact ─▶ margins
                    ▲                                                                        │
                    └────── by what factor non-negativity and rounding change them ◀─────────┘
                                        (on public counts, where there are any)

Tables without a target are left out of that search. Without a budget they keep the shares that are written:
what the others need is what is left of the budget by these. With one they share what the others leave of it,
in proportion to their written shares. Either way they can only narrow the margins of tables they agree with.

Nothing here opens data: it reads the spec, its public files, and a release that was published.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.noise_distributions import NOTHING
from tabularium.mechanisms.planning.smallest_budget import (
    DENOMINATORS,
    WASTE,
    BudgetProblem,
    Found,
    Goal,
    rounded_shares,
    short_above,
)
from tabularium.tasks.plan.finished_plan import MET, Plan, PlannedMargin
from tabularium.tasks.plan.planned_model import (
    Losses,
    PlannedModel,
    Shares,
    array_shares,
    left_out_of_account,
    only_targeted,
    refuse_mechanisms,
    with_shares,
    without_targets,
)
from tabularium.tasks.plan.rehearsal import factors, proposals, rehearse
from tabularium.tasks.plan.targets import (
    Counts,
    MarginTarget,
    aims_of,
    bounds_like,
    by_place,
    counts_like,
    counts_of_totals,
    even_aims,
    in_words,
    with_bounds,
)
from tabularium.tasks.postprocess.postprocessing import PostProcessor
from tabularium.tasks.publish.read_release import Released
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.targets import Tuning

MULTIPLES = (Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))
"""Of the planned budget, for which margins are shown."""
_REHEARSALS = 5
_SETTLED = 0.02
_PLENTY = 2  # rehearsals after which a plan that meets its targets need not be the narrowest
_FITS = 5
_CLOSE = 1e-4

Place = tuple[str, str]


def plan(
    loaded: Loaded,
    *,
    budget: Fraction | None = None,
    like: Released | None = None,
    mechanisms: bool = False,
    bounds: bool = False,
) -> Plan:
    """Plan a spec.

    Parameters
    ----------
    loaded
        The spec; its budget, shares and levels are what is looked for, its source is never opened.
    budget
        Find the best margins for it, in the proportions of the targets, or equal ones where there are none.
        Where some tables have no target, targets get what they need of it, and these the rest.
    like
        A published release whose counts stand for those to come.
    mechanisms
        Try other mechanisms on those counts.
    bounds
        Give measures the bounds that the release proposes.

    Raises
    ------
    InputError
        There are no targets, or none that could be judged or met, or they leave other tables nothing.
    """
    targets = loaded.spec.targets
    if not targets and budget is None:
        raise InputError(
            "the spec has no targets to plan for",
            where="targets",
            hint="write targets: [{table: NAME, margin: 50}], or give --budget",
        )
    if mechanisms and like is None:
        raise InputError(
            "mechanisms are tried on public counts", where="--mechanisms", hint="give --like RELEASE"
        )
    if bounds and like is None:
        raise InputError("bounds are proposed by a release", where="--bounds", hint="give --like RELEASE")
    proposed = () if like is None else bounds_like(loaded, like)
    if bounds:
        loaded = with_bounds(loaded, proposed)
    refuse_mechanisms(loaded)
    model = PlannedModel.of(loaded)
    counts: Counts | None = None
    if like is not None:
        counts = counts_like(model, like)
    elif any(target.unreliable is not None for target in targets):
        counts = counts_of_totals(model.agreement)
    aims = aims_of(model, counts) if targets else even_aims(model)
    rest = without_targets(loaded.spec)
    targeted = _Planner(PlannedModel.of(only_targeted(loaded)), aims, None) if rest else None
    planner = _Planner(model, aims, budget, targeted)
    simulated = like is not None and counts is not None and not PostProcessor.of(loaded).linear
    if simulated and counts is not None:
        planner.rehearse(counts)
    else:
        planner.fit()
    tuning = None
    if like is not None:
        tuning = Tuning(release=like.certificate.release_id, certificate=like.digest)
    return Plan(
        planner.loaded,
        planner.margins(),
        tuple((planner.budget * m, tuple(planner.predicted(planner.losses * float(m)))) for m in MULTIPLES),
        planner.gap,
        tuning,
        simulated,
        tuple(in_words(name, "") for name in model.agreement.layouts if name in planner.kept),
        tuple(left_out_of_account(loaded, model.agreement)),
        proposed,
        bounds,
        tuple(proposals(planner.loaded, counts)) if mechanisms and counts is not None else (),
        tuple(rest),
        budget is not None,
    )


class _Planner:
    """The search for one plan, and its state.

    ``targeted``: that of the tables with targets, where others have none.
    """

    budget: Fraction
    losses: Floats
    drives: Floats
    _shares: Shares

    def __init__(
        self,
        model: PlannedModel,
        aims: Sequence[MarginTarget],
        budget: Fraction | None,
        targeted: _Planner | None = None,
    ) -> None:
        self.model, self.aims, self._given, self._targeted = model, list(aims), budget, targeted
        self.gap: float | None = None
        spec = model.loaded.spec
        self._level = float(spec.publication.confidence)
        self._readings = {name: model.reading(name) for name in model.agreement.layouts}
        self.kept = {
            array
            for table in spec.tables
            for array in array_shares(table)
            if array not in model.planned[table.name]
        }
        self._places = self._shown_places()
        # One for each aim; and of every place, for what is shown of it.
        self._factors = [1.0] * len(self.aims)
        self._shown = [1.0] * len(self._places)
        self._rehearsed = False
        self._near: Floats | None = None

    def _shown_places(self) -> dict[Place, MarginTarget]:
        """Return the places with margins to show: all levels; for means and rates, those with targets."""
        wanted = by_place(self.aims)
        shown_places = {}
        for name in self.model.agreement.layouts:
            reading = self._readings[name]
            for level, depth in self.model.shown(name).items():
                target = wanted.get((name, level))
                if target and reading.by_records:
                    shown_places[name, level] = self.aims[target[0]]
                elif reading.foretold and not reading.by_records:
                    shown_places[name, level] = MarginTarget(name, level, depth, 1.0, None, "")
        return shown_places

    def rehearse(self, counts: Counts) -> None:
        """Fit, simulate, and fit again until the simulated margins are as wanted.

        The first fit is by the linear estimates, whose errors are larger: the next ones come from its side.
        """
        if self._targeted is not None:
            names = self._targeted.model.agreement.layouts
            self._targeted.rehearse({name: array for name, array in counts.items() if name in names})
            self._join(self._targeted)
            self._try_out(counts)
            self._join(self._targeted)
            return
        for number in range(_REHEARSALS):
            self.fit()
            moved = self._try_out(counts)
            met = self._given is not None or self._off(self.losses) <= MET
            if met and (number >= _PLENTY or moved <= _SETTLED):
                break

    def _try_out(self, counts: Counts) -> float:
        """Simulate releases, and return the largest relative change of the targets' factors."""
        depths = {
            name: np.zeros(1, np.int64) if layout.along is None else layout.along.depth[: layout.nodes]
            for name, layout in self.model.agreement.layouts.items()
        }
        errors, spread = rehearse(self.loaded, counts), self.model.variances(self.losses)
        state = counts, errors, depths, spread, self._level
        before, self._factors = self._factors, factors(self.aims, *state)
        self._shown = factors(list(self._places.values()), *state)
        self._rehearsed = True
        return max(abs(now / then - 1) for now, then in zip(self._factors, before, strict=True))

    def fit(self) -> None:
        """Find losses for the targets, and short exact shares for them."""
        if self._targeted is not None:
            self._targeted.fit()
            self._join(self._targeted)
            return
        scale = 1.0
        for _ in range(_FITS):
            problem = self._problem(scale)
            solution = problem.solve(self._near)
            self._near = solution.losses
            if self._given is None:
                break
            ratio = solution.budget / self._tables_loss(self._given)
            scale *= ratio ** (0.5 if self.model.curves[0].definition == "zcdp" else 1.0)
            if abs(ratio - 1) < _CLOSE:
                break
        self.drives, self.gap = solution.drives, solution.gap
        self._shorten(problem, solution)
        self._see_noise(problem)

    def _join(self, targeted: _Planner) -> None:
        """Give tables without a target their part next to the budget that the others need."""
        rest = without_targets(self.model.loaded.spec)
        written = sum(rest.values(), Fraction(0))
        part = 1 - written
        if self._given is not None:
            part = short_above(float(targeted.losses.sum()) / self._tables_loss(self._given))
            if part >= 1:
                first = next(iter(rest))
                raise InputError(
                    f"the targets need {targeted.budget}, which would leave nothing for table {first}",
                    where="--budget",
                    hint=f"give more, loosen a target, or add - {{table: {first}, margin: 50}}, say",
                )
        tables = {table.name: table for table in self.model.written.tables if table.name in rest}
        shares = targeted._shares
        self._shares = Shares(
            {name: share * part for name, share in shares.tables.items()}
            | {name: share / written * (1 - part) for name, share in rest.items()},
            {**shares.arrays, **{name: array_shares(table) for name, table in tables.items()}},
            {**shares.levels, **{name: dict(table.levels) for name, table in tables.items()}},
        )
        problem = self._problem(1.0)
        shape = np.array([float(self.part(place)) for place in self.model.linear.measurements])
        if self._given is None:
            self._enough(problem.scale_to_feasible(shape))
        else:
            self.budget = self._given
        self.losses = shape * self._tables_loss(self.budget)
        # Of a budget that is given the rest is not the targets' doing.
        self.drives = targeted.drives * (1.0 if self._given is None else float(part))
        self.gap = None
        self._see_noise(problem)

    def _enough(self, losses: Floats) -> None:
        """Set the budget for losses of all tables, in few digits."""
        self.budget = short_above(float(losses.sum()) * float(self._folds / self._free))

    def _see_noise(self, problem: BudgetProblem) -> None:
        """Refuse a given budget that leaves no noise."""
        if self._given is not None and problem.precisions(self.losses).max() > 1 / NOTHING:
            raise InputError(
                "leaves no noise at all, so that there are no margins to plan",
                where="--budget",
                hint="give a smaller one; usual is 1 or less",
            )

    def _problem(self, scale: float) -> BudgetProblem:
        goals = [
            Goal(
                aim.table,
                aim.depth,
                self._readings[aim.table].variance(scale * aim.margin / factor, aim.at, aim.value),
            )
            for aim, factor in zip(self.aims, self._factors, strict=True)
        ]
        model = self.model
        return BudgetProblem(model.linear, model.curves, goals, model.needed, model.ties)

    def _shorten(self, problem: BudgetProblem, solution: Found) -> None:
        """Find the shortest fractions that cost hardly more, and their budget."""
        losses = self.model.losses(solution.losses)
        tables = self.model.loaded.spec.tables
        settled = {table.name: array_shares(table) for table in tables}
        of = {array: table.name for table in tables for array in settled[table.name]}
        by_table, by_array, by_level = _sums(losses, of)
        for denominator in DENOMINATORS:
            if denominator < len(losses):
                continue
            self._shares = Shares(
                rounded_shares(by_table, denominator),
                {
                    name: rounded_shares(by_array[name], denominator) if len(planned) > 1 else settled[name]
                    for name, planned in self.model.planned.items()
                },
                {name: rounded_shares(levels, denominator) for name, levels in by_level.items()},
            )
            shape = np.array([float(self.part(place)) for place in self.model.linear.measurements])
            enough = problem.scale_to_feasible(shape)
            if enough.sum() <= solution.budget * (1 + WASTE):
                break
        self._enough(enough)
        self.budget = self._given or self.budget
        self.losses = shape * self._tables_loss(self.budget)
        flat = {name for name in by_level if self.model.agreement.layouts[name].along is None}
        levels = {name: {} if name in flat else shares for name, shares in self._shares.levels.items()}
        self._shares = replace(self._shares, levels=levels)

    @property
    def loaded(self) -> Loaded:
        """The spec with the planned values."""
        return with_shares(self.model.loaded, self.budget, self._shares)

    def part(self, place: Place) -> Fraction:
        """Return the part of the tables' budget that measures a level of a table."""
        array, level = place
        table = array.partition("-")[0]
        levels = self._shares.levels[table] or {"": Fraction(1)}
        share = self._shares.tables[table] * self._shares.arrays[table][array]
        return share * levels.get(level, Fraction(0))

    @cached_property
    def _folds(self) -> Fraction:
        """The factor from a record's loss to a unit's: its number of records, or the square of it."""
        privacy = self.model.loaded.spec.privacy
        return privacy.budget / privacy.record_budget

    @cached_property
    def _free(self) -> Fraction:
        """The part of the budget for tables, without tallies and histograms."""
        spec = self.model.loaded.spec
        return spec.table_budget / spec.privacy.record_budget

    def _tables_loss(self, budget: Fraction) -> float:
        return float(budget / self._folds * self._free)

    def _half(self, variances: dict[str, Floats], aim: MarginTarget) -> float:
        layout = self.model.agreement.layouts[aim.table]
        nodes = [0] if layout.along is None else layout.along.depth[: layout.nodes] == aim.depth
        worst = float(variances[aim.table][nodes].max())
        return self._readings[aim.table].half(worst, aim.at, aim.value)

    def predicted(self, losses: Floats) -> list[float]:
        """Return the margins of every place that is shown."""
        spread = self.model.variances(losses)
        predictions = []
        for aim, factor in zip(self._places.values(), self._shown, strict=True):
            half = self._half(spread, aim) * factor
            rehearsed = self._rehearsed and self._readings[aim.table].measure is None
            predictions.append(half if rehearsed else self._readings[aim.table].shown(half))
        return predictions

    def _off(self, losses: Floats) -> float:
        """Return the largest quotient of predicted and wanted margin."""
        spread = self.model.variances(losses)
        return max(
            self._half(spread, aim) * factor / aim.margin
            for aim, factor in zip(self.aims, self._factors, strict=True)
        )

    def margins(self) -> tuple[PlannedMargin, ...]:
        """Return the planned margins of every level of every table."""
        numbers = by_place(self.aims)
        spread = self.model.variances(self.losses)
        margins = []
        for place, shown in zip(self._places, self.predicted(self.losses), strict=True):
            margin = shown
            values = numbers.get(place, [])
            # Of several targets, the one that asks for more here.
            first = min(values, key=lambda n: self.aims[n].margin / self._factors[n], default=None)
            wanted = None if first is None or not self.model.loaded.spec.targets else self.aims[first].margin
            if first is not None and self._rehearsed and self._readings[place[0]].measure is None:
                margin = self._half(spread, self.aims[first]) * self._factors[first]
            margins.append(
                PlannedMargin(
                    *place,
                    "; ".join(self.aims[n].words for n in values),
                    wanted,
                    margin,
                    self.part(place),
                    float(sum(self.drives[n] for n in values)),
                )
            )
        return tuple(margins)


def _sums(
    losses: Losses, of: Mapping[str, str]
) -> tuple[dict[str, float], dict[str, dict[str, float]], dict[str, dict[str, float]]]:
    """Return losses added up by table, by array of each table, and by measured level of each table."""
    tables: dict[str, float] = {}
    arrays: dict[str, dict[str, float]] = {}
    levels: dict[str, dict[str, float]] = {}
    for (array, level), loss in losses.items():
        table = of[array]
        tables[table] = tables.get(table, 0.0) + loss
        for parts, name in ((arrays, array), (levels, level)):
            if loss > 0:
                of_table = parts.setdefault(table, {})
                of_table[name] = of_table.get(name, 0.0) + loss
    return tables, arrays, levels
