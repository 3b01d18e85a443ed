"""A spec as a planning problem: every level that may be measured, and its effect on each cell."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod

import numpy as np

from tabularium.mechanisms.accounting import Definition
from tabularium.mechanisms.arrays import Bools, Floats
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.inference.margins_of_error.half_widths import quantile
from tabularium.mechanisms.noise_distributions import NoiseCurve
from tabularium.mechanisms.planning.linear_variances import LinearVariances, PlannedTable, SeparateVariances
from tabularium.mechanisms.planning.smallest_budget import LossSlot, Ties
from tabularium.tasks.postprocess.agreement import Agreement, ReconciledGroup
from tabularium.validations.domains.domains import HierarchyDomain
from tabularium.validations.release_spec.checks.table_checks import default_mechanism
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.measures.measure import Measure
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.tables import Table, array_name, split
from tabularium.validations.universes.universe import key_of

Losses = dict[tuple[str, str], float]
"""(table or array, level) -> the loss of one record."""

_ADDITIVE = ("identity", "cells", "gaussian")  # independent noise of one known variance on every cell


@dataclass(frozen=True, eq=False)
class PlannedModel:
    """The tables of a spec with all levels that might be measured.

    Attributes
    ----------
    written
        The spec as it was given.
    linear
        Variances after consistency, of the tables and the arrays of their measures.
    curves
        (measurements) of the noise; that of a measure has the sensitivity of its array.
    needed
        (measurements,) which cannot be left out.
    planned
        Table -> those of its arrays whose losses are looked for: those with targets, or its counts. The
        others keep their proportion to the first of them.
    ties
        What the losses of the arrays of one table have in common.
    """

    written: ReleaseSpec
    loaded: Loaded
    agreement: Agreement
    linear: SeparateVariances
    curves: tuple[NoiseCurve, ...]
    needed: Bools
    planned: dict[str, tuple[str, ...]]
    ties: Ties

    @classmethod
    def of(cls, loaded: Loaded) -> PlannedModel:
        """Return the model of a spec; variances of tables whose error depends on the data are meaningless."""
        together = loaded.spec.postprocessing.consistency
        wide = replace(loaded, spec=_with_all_levels(loaded)) if together else loaded
        agreement = Agreement.of(wide)
        linear = separate_variances(loaded, agreement, agree=together)
        deepest = dict(linear.measurements)  # levels stand root first
        kept = _counted_apart(loaded)
        needed = [
            not together or deepest[name] == level or (name, level) in kept
            for name, level in linear.measurements
        ]
        arrays = {array.name: array for array in loaded.spec.arrays}
        definition = loaded.spec.privacy.definition
        curves = [
            NoiseCurve(definition, _sensitivity(arrays[name], definition)) for name, _ in linear.measurements
        ]
        planned = _planned(loaded)
        ties = _ties(loaded, linear.measurements, planned)
        return cls(loaded.spec, wide, agreement, linear, tuple(curves), np.array(needed), planned, ties)

    def shown(self, array: str) -> dict[str, int]:
        """Return the published levels of a table or array with their depths; ``""`` without a hierarchy."""
        layout = self.agreement.layouts[array]
        return {
            level: 0 if layout.along is None else layout.along.levels.index(level) for level in layout.cuts
        }

    def reading(self, array: str) -> ArrayMargin:
        """Return the margins of a table or array as functions of its variances."""
        spec = self.loaded.spec
        measure = self.agreement.layouts[array].table.measured
        return ArrayMargin(measure, spec.postprocessing.rounding, float(spec.publication.confidence))

    def losses(self, losses: Floats) -> Losses:
        """Return losses by table and level."""
        return dict(zip(self.linear.measurements, losses.tolist(), strict=True))

    def variances(self, losses: Floats) -> dict[str, Floats]:
        """Return the variances (nodes, 1) of every table that losses (measurements,) give."""
        precisions = np.array(
            [curve.precision(np.array([loss]))[0] for curve, loss in zip(self.curves, losses, strict=True)]
        )
        spread = self.linear.variances(precisions)
        return {
            name: self.linear.by_node(name, variances.values)[:, None] for name, variances in spread.items()
        }


@dataclass(frozen=True)
class Shares:
    """The shares of a plan.

    Attributes
    ----------
    tables
        Table -> its part of the budget.
    arrays
        Table -> array -> its part of the table's; as the spec has them where only one of them is planned.
    levels
        Table -> level -> its part of the table's; empty without a hierarchy.
    """

    tables: Mapping[str, Fraction]
    arrays: Mapping[str, Mapping[str, Fraction]]
    levels: Mapping[str, dict[str, Fraction]]


def with_shares(loaded: Loaded, budget: Fraction, shares: Shares) -> Loaded:
    """Return a spec with another budget, other shares and other measured levels."""
    spec = loaded.spec
    changed = []
    for table in spec.tables:
        parts = shares.arrays[table.name]
        measures = {
            name: measure.model_copy(update={"share": parts.get(array_name(table.name, name), measure.share)})
            for name, measure in table.measures.items()
        }
        new = {"share": shares.tables[table.name], "levels": shares.levels[table.name], "measures": measures}
        changed.append(table.model_copy(update=new))
    privacy = spec.privacy.model_copy(update={"budget": budget})
    return replace(loaded, spec=spec.model_copy(update={"privacy": privacy, "tables": tuple(changed)}))


def without_targets(spec: ReleaseSpec) -> dict[str, Fraction]:
    """Return the tables without targets, where others have targets, with their shares."""
    wanted = {target.table for target in spec.targets} or {table.name for table in spec.tables}
    return {table.name: table.share for table in spec.tables if table.name not in wanted}


def only_targeted(loaded: Loaded) -> Loaded:
    """Return a spec with only its tables that have targets."""
    rest = without_targets(loaded.spec)
    tables = tuple(table for table in loaded.spec.tables if table.name not in rest)
    return replace(loaded, spec=loaded.spec.model_copy(update={"tables": tables}))


def array_shares(table: Table) -> dict[str, Fraction]:
    """Return the part of a table's budget for each of its arrays."""
    return {array.name: array.share / table.share for array in split(table)}


def _with_all_levels(loaded: Loaded) -> ReleaseSpec:
    tables = []
    for table in loaded.spec.tables:
        domain = loaded.domains[table.along] if table.along is not None else None
        if isinstance(domain, HierarchyDomain):
            last = max(domain.levels.index(level) for level in table.levels)
            names = domain.levels[: last + 1]
            levels = dict.fromkeys(names, Fraction(1, len(names)))
            tables.append(table.model_copy(update={"levels": levels}))
        else:
            tables.append(table)
    return loaded.spec.model_copy(update={"tables": tuple(tables)})


def _counted_apart(loaded: Loaded) -> set[tuple[str, str]]:
    """Return the arrays and levels of tables with a measure that does not add up: else it would be blank."""
    tables = (t for t in loaded.spec.tables if not all(m.adds_up for m in t.measures.values()))
    return {(array.name, level) for table in tables for array in split(table) for level in table.levels}


def _planned(loaded: Loaded) -> dict[str, tuple[str, ...]]:
    """Return the arrays of each table whose losses are planned."""
    wanted = {target.array for target in loaded.spec.targets}
    planned = {}
    for table in loaded.spec.tables:
        names = list(array_shares(table))
        planned[table.name] = tuple(name for name in names if name in wanted) or (names[0],)
    return planned


def _ties(
    loaded: Loaded, measurements: Sequence[tuple[str, str]], planned: Mapping[str, tuple[str, ...]]
) -> Ties:
    shares = {table.name: array_shares(table) for table in loaded.spec.tables}
    owners = {array: table for table, arrays in shares.items() for array in arrays}
    places, proportions = [], []
    for array, level in measurements:
        table = owners[array]
        head = array if array in planned[table] else planned[table][0]
        places.append(LossSlot(table, level, array, head))
        proportions.append(float(shares[table][array] / shares[table][head]))
    return Ties.of(places, np.array(proportions))


def _sensitivity(array: Table, definition: Definition) -> float:
    """Return the sensitivity of an array to one record, in the norm of the definition's noise."""
    measure = array.measured
    if measure is None:
        return 1.0
    return measure.largest * measure.folds(definition)


def depends_on_data(table: Table) -> bool:
    """Whether the error of a table's counts depends on the data, and so cannot be known before."""
    return table.mechanism not in _ADDITIVE or bool(table.parameters)


def refuse_mechanisms(loaded: Loaded) -> None:
    """Refuse tables whose error depends on the data: no budget can be planned for them."""
    plain = default_mechanism(loaded.spec.privacy.definition)
    for table in filter(depends_on_data, loaded.spec.tables):
        raise InputError(
            f"the error of {table.mechanism} depends on the data, so that no budget can be planned for it",
            where=f"table {table.name}",
            hint=f"plan with {plain}; --like RELEASE --mechanisms says what others would gain",
        )


# --- which tables and arrays of a spec are made to agree, as the planner sees it
#
# Where every number that tables of one universe share is a sum of equally many of their cells, the
# variances after consistency are worked out exactly
# (:mod:`tabularium.mechanisms.planning.linear_variances`). What is not of that kind, such as nested codings
# whose groups are not of one size, is left out of account, and so are cells that are exactly zero. That can
# only make margins wider than they will be: least squares over more measurements has no larger variances.


def separate_variances(loaded: Loaded, agreement: Agreement, *, agree: bool) -> SeparateVariances:
    """Return the variances of all tables and arrays, universe by universe.

    ``agree``: whether tables and levels are made to.
    """
    variances = []
    for group in agreement.groups:
        universes = {name: key_of(layout.table, loaded.domains) for name, layout in group.layouts.items()}
        for universe in dict.fromkeys(universes.values()):
            names = [name for name, key in universes.items() if key == universe]
            names += [name for name in group.known if universe is None and _even(group, name)]
            variances.append(LinearVariances([_table(group, name) for name in names], agree=agree))
    return SeparateVariances(variances)


def left_out_of_account(loaded: Loaded, agreement: Agreement) -> list[str]:
    """Return the tables with agreement or exact zeros that the plan does not model."""
    names = []
    for group in agreement.groups:
        universes = {key_of(layout.table, loaded.domains) for layout in group.layouts.values()}
        more = len(universes) > 1 or not all(_even(group, name) for name in group.overlap.tables)
        names += [name for name, layout in group.layouts.items() if more or layout.impossible is not None]
    return names


def _even(group: ReconciledGroup, name: str) -> bool:
    """Whether the cells of a table or invariant are all places of its frame."""
    at = group.spreads[name].at
    return at is None or len(at) == prod(group.overlap.tables[name].flat.values())


def _table(group: ReconciledGroup, name: str) -> PlannedTable:
    frame = group.overlap.tables[name]
    if name not in group.layouts:
        return PlannedTable(name, frame.flat, frame.along, frame.tree, {})
    layout = group.layouts[name]
    sizes = {other.name: other.size for other in layout.others}
    flat = frame.flat if _even(group, name) else sizes
    return PlannedTable(name, flat, frame.along, frame.tree, layout.cuts)


# --- from the variance of the numbers of an array to the margin of what is published of them, and back
#
# A count, or a sum in steps of its grid, has the margin q·√V, q being the quantile of the stated level; of
# others the kind of measure knows it.


@dataclass(frozen=True)
class ArrayMargin:
    """The margins of an array as functions of its variances.

    Attributes
    ----------
    measure
        What is measured; None of counts.
    whole
        Whether numbers are made whole, and margins with them.
    level
        Share of the errors that a margin holds.
    """

    measure: Measure | None
    whole: bool
    level: float

    @property
    def step(self) -> float:
        """The published unit, in which the numbers of the array are whole."""
        return 1.0 if self.measure is None else float(self.measure.grid)

    @property
    def by_records(self) -> bool:
        """Whether the margin depends on the size of a cell, as for a mean or rate."""
        return self.measure is not None and not self.measure.linear

    @property
    def foretold(self) -> bool:
        """Whether its margins follow from variances; those of medians and rates over other numbers do not."""
        return self.measure is None or self.measure.plannable

    def largest(self, margin: float) -> float:
        """Return the largest margin that can be published within a wanted one; 0 where there is none."""
        if self.whole and not self.by_records:
            return math.floor(margin / self.step + 1e-9) * self.step
        return margin

    def shown(self, half: float) -> float:
        """Return a half-width in the published unit."""
        if self.whole and not self.by_records:
            return math.ceil(half / self.step - 1e-9) * self.step
        return half

    def half(self, variance: float, at: float | None = None, value: float | None = None) -> float:
        """Return the half-width of a variance; for a mean or rate, of ``at`` records and this value."""
        if self.measure is None or self.measure.linear:
            return self.step * quantile(self.level) * math.sqrt(variance)
        assert at is not None  # noqa: S101 - the spec's own check
        return self.measure.planned_half(variance, self.level, at, value)

    def variance(self, half: float, at: float | None = None, value: float | None = None) -> float:
        """Return the largest variance that gives no more than a half-width."""
        if self.measure is None or self.measure.linear:
            return (half / (self.step * quantile(self.level))) ** 2
        assert at is not None  # noqa: S101 - as above
        return self.measure.planned_variance(half, self.level, at, value)
