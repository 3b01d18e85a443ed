"""Targets of accuracy as numbers, and bounds of values like those of a published release.

Bounds are never chosen from the data: that would say something of them that no budget covers. A release
publishes means, medians, and sums as well as counts. Let µ be the largest mean of a cell that is known well,
above ``from``. Where values fall off exponentially, e^(-b/µ) of their total is beyond ``from`` + b, which
clamping takes away, and the noise grows with b. In a cell of n records, with noise of standard deviation c·b
in its sum, the two together are least where

    d/db (n µ e^(-b/µ) + c b) = 0,    b = µ ln(n/c).

For a mean both are divided by n. Clamping does not change a median that is within the bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from tabularium.mechanisms.arrays import Bools, Floats
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.inference.hierarchy import Hierarchy
from tabularium.mechanisms.noise_distributions import NoiseCurve
from tabularium.tasks.plan.planned_model import PlannedModel
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.publish.read_release import Released
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.measures.measure import Measure
from tabularium.validations.release_spec.measures.of_column import OfColumn
from tabularium.validations.release_spec.tables import Table, array_of
from tabularium.validations.release_spec.targets import Target
from tabularium.validations.universes.universe import key_of


@dataclass(frozen=True)
class MarginTarget:
    """A largest margin of error for the cells of one level of a table or of an array.

    Attributes
    ----------
    table
        Name of the table, or of the array of a measure.
    margin
        Half-width at the spec's level of confidence; of whole numbers whole, of a measure in its unit.
    at
        The count or sum at which it is wanted, of a mean the number of records; None for all cells.
    words
        The target as it was written.
    value
        The mean at which it is wanted.
    """

    table: str
    level: str
    depth: int
    margin: float
    at: float | None
    words: str
    value: float | None = None


def aims_of(model: PlannedModel, counts: Counts | None) -> list[MarginTarget]:
    """Return the targets of a spec as margins; a target without a level is for every published level.

    ``counts``: public ones, by which parts of unreliable cells are judged.

    Raises
    ------
    InputError
        No budget could meet one.
    """
    return [
        _aim(model, target, level, depth, counts)
        for target in model.loaded.spec.targets
        for level, depth in model.shown(target.array).items()
        if target.level in (None, level)
    ]


def even_aims(model: PlannedModel) -> list[MarginTarget]:
    """Return even targets: the same margin at every published level of the counts of every table."""
    return [
        MarginTarget(table.name, level, depth, 100.0, None, "as narrow as can be")
        for table in model.loaded.spec.tables
        for level, depth in model.shown(table.name).items()
    ]


def _aim(model: PlannedModel, target: Target, level: str, depth: int, counts: Counts | None) -> MarginTarget:
    at = None if target.at is None else float(target.at)
    margin = target.largest
    if margin is None:
        margin, at = _reliable(model, target, level, depth, counts)
    reading = model.reading(target.array)
    size = reading.largest(float(margin))
    if not size > 0:
        raise InputError(
            f"whole numbers have no margin of error below {reading.step:g}",
            where=f"targets, {in_words(target.array, '')}",
            hint=f"aim for a margin of at least {reading.step:g}",
        )
    value = None if target.value is None else float(target.value)
    return MarginTarget(target.array, level, depth, size, at, target.words, value)


def _reliable(
    model: PlannedModel, target: Target, level: str, depth: int, counts: Counts | None
) -> tuple[Fraction, float | None]:
    """Return the margin that leaves so many cells reliable, and the count that decides it."""
    quality = model.loaded.spec.publication.quality
    assert quality is not None and quality.unreliable is not None  # noqa: S101 - the spec's own check
    if isinstance(quality.unreliable, int):
        return Fraction(quality.unreliable), None
    if counts is None or target.table not in counts:
        raise InputError(
            "public counts must say how many cells are unreliable",
            where=f"targets, table {target.table}",
            hint="name a release with --like, or declare public totals as invariants",
        )
    depths = model.agreement.layouts[target.table]
    nodes = [0] if depths.along is None else depths.along.depth[: depths.nodes] == depth
    part = float(target.unreliable or 0)
    count = quantile_count(counts[target.table][nodes], part)
    if count < 1:
        raise InputError(
            f"more than {100 * part:g} % of the cells of {in_words(target.table, level)} are empty by public "
            "counts, and no budget makes those reliable",
            where="targets",
            hint="allow more unreliable cells, or cross fewer columns",
        )
    return quality.unreliable * Fraction(count), count


def in_words(array: str, level: str) -> str:
    """Return a table, or a measure of one, and its level in a few words."""
    name = array.replace("-", ": ", 1)  # the name of a table has none
    return f"{name}, {level}" if level else name


def by_place(aims: Sequence[MarginTarget]) -> dict[tuple[str, str], list[int]]:
    """Return the positions of the targets of every (table, level)."""
    by_key: dict[tuple[str, str], list[int]] = {}
    for number, aim in enumerate(aims):
        by_key.setdefault((aim.table, aim.level), []).append(number)
    return by_key


KNOWN_WELL = 0.2
"""Largest margin of a number that is relied on, in parts of it."""
LEAST, MOST = 3.0, 12.0
"""Between which multiples of the largest mean a bound is proposed."""
MEDIANS = 2
"""Bound of a median over the largest one that was published."""
STEPS, BINS = 1000, 100
"""Into how many steps bounds are divided, and those of a median."""
_ROUND = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


@dataclass(frozen=True)
class Bounds:
    """The proposed bounds of a measure.

    Attributes
    ----------
    start, end, step
        As a spec has them; those of the spec itself where the release says nothing.
    why
        The reasons, in a sentence or two.
    """

    table: str
    measure: str
    start: int
    end: int
    step: Fraction
    new: bool
    why: str


def bounds_like(loaded: Loaded, release: Released) -> tuple[Bounds, ...]:
    """Return proposed bounds from a release for every measure of a spec.

    ``loaded``: the spec; the noise of a measure is taken at the budget that it has there.
    """
    return tuple(
        _proposed(loaded, table, name, measure, release)
        for table in loaded.spec.tables
        for name, measure in table.measures.items()
        if isinstance(measure, OfColumn)
    )


def with_bounds(loaded: Loaded, bounds: Sequence[Bounds]) -> Loaded:
    """Return a spec with these bounds of its measures."""
    bounds_by_name = {(bound.table, bound.measure): bound for bound in bounds if bound.new}
    tables = []
    for table in loaded.spec.tables:
        measures = dict(table.measures)
        for name, measure in table.measures.items():
            bound = bounds_by_name.get((table.name, name))
            if bound is not None:
                update = {"start": bound.start, "end": bound.end, "step": bound.step}
                measures[name] = measure.model_copy(update=update)
        tables.append(table.model_copy(update={"measures": measures}))
    return replace(loaded, spec=loaded.spec.model_copy(update={"tables": tuple(tables)}))


def _proposed(loaded: Loaded, table: Table, name: str, measure: Measure, release: Released) -> Bounds:
    def kept(why: str) -> Bounds:
        return Bounds(table.name, name, measure.bottom, measure.top, measure.grid, new=False, why=why)

    why_not = {
        "they differ by group": measure.by is not None,
        "means and medians say nothing of how far values lie below zero": measure.bottom < 0,
        f"none are proposed for a {measure.in_words}": not measure.plannable and measure.rank is None,
    }
    for reason, holds in why_not.items():
        if holds:
            return kept(reason)
    wanted = measure.level_of or "mean"
    binned = wanted != "mean"
    known = [case for case in _known(release, measure.of) if case[0] == wanted]
    if not known:
        return kept(f"the release publishes no {wanted} of {measure.of} that is known well")
    _, size, where = max(known, key=lambda case: case[1])
    above = size - measure.bottom
    if above <= 0:
        return kept(f"the largest {wanted} of a cell is no more than {measure.bottom}")
    words = f"the largest {wanted} of a cell that is known well is {in_figures(size)} ({where})"
    if binned:
        end, step = _rounded(measure, MEDIANS * above)
        why = f"{words}; a {wanted} feels no clamping as long as it lies within the bounds"
        return Bounds(table.name, name, measure.bottom, end, step, new=True, why=why)
    records = _typical(release, table)
    noise = _noise(loaded, table, name, measure)
    times = min(max(math.log(records / noise), LEAST), MOST) if records > noise else LEAST
    end, step = _rounded(measure, times * above)
    width, of = end - measure.bottom, records if not measure.linear else 1.0
    beyond = math.exp(-width / above)
    lost = in_figures(records * above * beyond / of)
    spread = noise * (width if not measure.linear else end) / of
    why = (
        f"{words}. If values fall off exponentially, {beyond:.2g} of their total lies beyond the bound: a "
        f"{measure.kind} of {records:,.0f} records loses {lost}, and has "
        f"noise of standard deviation {in_figures(spread)}"
    )
    return Bounds(table.name, name, measure.bottom, end, step, new=True, why=why)


def _known(release: Released, column: str) -> Iterator[tuple[str, float, str]]:
    """Yield (mean, or kind of quantile, number, where) of the cells of a release that are known well."""
    for table in release.spec.tables:
        for name, measure in table.measures.items():
            if measure.of != column or column not in measure.columns:
                continue
            values, margins = release.columns(table.name, name, f"{name}_margin")
            kind, well = measure.level_of, _well(values, margins)
            if measure.linear:
                counts, reach = release.columns(table.name, "count", "margin")
                well = well & _well(counts, reach)
                if measure.weight is not None:
                    continue
                values = np.divide(values, counts, out=np.full_like(values, np.nan), where=counts > 0)
                kind = "mean"
            for value in () if kind is None else values[well]:
                yield str(kind), float(value), f"{name} in table {table.name}"


def _well(values: Floats, margins: Floats) -> Bools:
    with np.errstate(invalid="ignore"):
        known_well: Bools = (values > 0) & (margins <= KNOWN_WELL * values)
    return known_well


def _typical(release: Released, table: Table) -> float:
    """Return the median number of records in non-empty cells of a table, in the release."""
    names = [other.name for other in release.spec.tables if set(other.dimensions) == set(table.dimensions)]
    names += [table.name for table in release.spec.tables]
    layout = release.layouts[names[0]]
    last = list(layout.cuts.values())[-1]
    counts = release.table(names[0]).counts[last]
    return float(np.median(counts[counts > 0])) if (counts > 0).any() else 1.0


def _noise(loaded: Loaded, table: Table, name: str, measure: Measure) -> float:
    """Return the standard deviation of the noise in a sum for each unit of its bound, for equal weights."""
    spec = loaded.spec
    array = array_of(table.measures, table.name, name)
    last = [loss for (owner, _), loss in spec.losses.items() if owner == array][-1]
    curve = NoiseCurve(spec.privacy.definition, 1000.0)  # far from where the grid is felt
    return 1 / (math.sqrt(curve.precision(np.array([float(last)]))[0]) * curve.sensitivity)


def _rounded(measure: Measure, width: float) -> tuple[int, Fraction]:
    """Return a bound at least so far above ``from``, and a step that divides both."""
    unit = 10.0 ** math.floor(math.log10(width))
    rounded = max(1, round(next(factor for factor in _ROUND if factor * unit >= width * (1 - 1e-9)) * unit))
    step = rounded // (STEPS if measure.level_of in (None, "mean") else BINS)
    return measure.bottom + rounded, Fraction(math.gcd(step, measure.bottom) or 1)


# --- public counts to judge a plan by: of a release that was published already, or spread from public totals

Counts = dict[str, Floats]
"""Table -> (nodes, cells) counts that add up along its hierarchy."""

_SWEEPS = 20


def counts_like(model: PlannedModel, release: Released) -> Counts:
    """Return the counts that a published release has for the tables of a spec.

    Each is taken from a table of the release that crosses all of its columns, by the same code lists, and
    counts the same universe.

    Raises
    ------
    InputError
        The release has no such table, or left cells of it blank.
    """
    return {
        name: table_like(model, name, release)
        for name, layout in model.agreement.layouts.items()
        if layout.table.measured is None
    }


def table_like(model: PlannedModel, table: str, release: Released) -> Floats:
    """Return the counts that a published release has for one table of a spec; as :func:`counts_like`."""
    layout = model.agreement.layouts[table]
    universe = key_of(layout.table, model.loaded.domains)
    for name, other in release.layouts.items():
        if other.table.measured is not None or key_of(other.table, release.domains) != universe:
            continue
        rows = _rows(layout, other)
        if rows is None:
            continue
        counts = release.table(name).counts
        if np.isnan(counts).any():
            raise InputError(
                f"table {name} of the release has cells that were left blank",
                where="--like",
                hint="name a release without suppressed cells",
            )
        return _arranged(layout, other, counts[rows])
    raise InputError(
        f"the release has no table with the columns, codes and records of table {layout.table.name}",
        where="--like",
        hint="name another release, or leave the option out",
    )


def _rows(layout: Layout, other: Layout) -> slice | None:
    """Return the nodes of a published table that a planned one needs; None where the table does not fit."""
    same = {domain.name: domain.codes for domain in other.others}
    if any(same.get(domain.name) != domain.codes for domain in layout.others):
        return None
    if layout.along is None:
        return slice(None)
    if other.along is None or other.along.name != layout.along.name or other.nodes < layout.nodes:
        return None
    nodes = slice(0, layout.nodes)
    return nodes if other.along.node_codes[nodes] == layout.along.node_codes[nodes] else None


def _arranged(layout: Layout, other: Layout, counts: Floats) -> Floats:
    """Sum over the dimensions that the planned table does not have, and put the others in its order."""
    if layout.along is None:
        counts = counts[np.asarray(other.parents) < 0].sum(axis=0, keepdims=True)
    names = [domain.name for domain in other.others]
    wanted = [domain.name for domain in layout.others]
    away = tuple(1 + index for index, name in enumerate(names) if name not in wanted)
    kept = [name for name in names if name in wanted]
    full = counts.reshape(len(counts), *(domain.size for domain in other.others)).sum(axis=away)
    arranged: Floats = full.transpose(0, *(1 + kept.index(name) for name in wanted)).reshape(len(counts), -1)
    return arranged


def counts_of_totals(agreement: Agreement) -> Counts | None:
    """Return counts that agree with the invariants of a spec and are even otherwise.

    Iterative proportional fitting, table by table. None where the spec has no invariants.
    """
    if not agreement.known:
        return None
    return {name: _fitted(agreement, name) for name in agreement.groups[0].layouts}


def _fitted(agreement: Agreement, name: str) -> Floats:
    frame = agreement.overlap.tables[name]
    counts = np.zeros(frame.shape)
    counts[frame.tree.leaf] = 1.0
    known = {
        marginal: agreement.overlap.views(name, marginal)
        for marginal in agreement.known
        if agreement.overlap.tables[marginal].marginal.within(frame.marginal)
    }
    for _ in range(_SWEEPS):
        for marginal, (mine, other) in known.items():
            have, want = (
                mine.gather(added_up(frame.tree, counts)),
                other.gather(agreement.known[marginal].values),
            )
            ratio = np.divide(want, have, out=np.zeros_like(have), where=have > 0)
            factors = np.zeros(frame.shape)
            mine.scatter(ratio, factors)
            for block in frame.tree.down(frame.cells):
                factors[block.children] += block.to_children(factors[block.parents])
            counts = np.where(frame.tree.leaf[:, None], counts * factors, 0.0)
    return added_up(frame.tree, counts)


def added_up(tree: Hierarchy, counts: Floats) -> Floats:
    """Return a table whose leaves are given with the sums above them."""
    leaves = np.where(tree.leaf[:, None], counts, 0.0)
    for block in tree.up(leaves.shape[1]):
        leaves[block.parents] = block.total(leaves[block.children])
    return leaves


def quantile_count(counts: Floats, part: float) -> float:
    """Return the largest count that at most ``part`` of the cells stay below."""
    ordered = np.sort(counts, axis=None)
    return float(ordered[min(math.floor(part * ordered.size), ordered.size - 1)])


# --- numbers of a plan as people read them


def in_figures(size: float) -> str:
    """Return a margin with four significant digits."""
    return f"{size:,.4g}" if size < 10_000 else f"{float(f'{size:.4g}'):,.0f}"
