"""The forecast of a spec: the expected margin of every number, in a typical and a small cell.

::

    losses, bounds ─▶ noise ─▶ consistency ─▶ variances ─┐
                                                         ├─▶ margins ─▶ warnings of useless numbers
    size of the spec, or a published release ─▶ cells ───┘

Variances are those of :mod:`tabularium.tasks.plan`. Nothing here opens data. Sums and counts have the margin
of their noise, whatever the size of a cell. The others are put through the tests that a release puts them
through, with the numbers that the cell is expected to have; each kind of measure says which. Weights are not
known: every record is taken to have the largest one, and what comes of it is the least margin there can be.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tabularium.mechanisms.accounting import Definition
from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.inference.margins_of_error.half_widths import margins
from tabularium.mechanisms.inference.margins_of_error.ratio_intervals import EMPTY, chance_if_empty
from tabularium.tasks.plan.planned_model import ArrayMargin, PlannedModel, depends_on_data
from tabularium.tasks.plan.targets import table_like
from tabularium.tasks.postprocess.table_layout import known_on_tree
from tabularium.tasks.publish.read_release import Released
from tabularium.validations.domains.known_marginals import KnownMarginal
from tabularium.validations.release_spec.columns import HierarchyColumn
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.measures.measure import SIZES, Measure, Noise, noise_scale
from tabularium.validations.release_spec.tables import Table


@dataclass(frozen=True)
class NumberMargin:
    """The margin of one number, which is a count where ``reading`` has no measure.

    ``reading``: of its array, only with the bounds of its group.
    """

    reading: ArrayMargin
    noise: Noise

    @property
    def only_noise(self) -> bool:
        """Whether the margin is the same in cells of all sizes."""
        return self.reading.measure is None or self.reading.measure.linear

    @property
    def at_least(self) -> bool:
        """Whether weights, which are not known before, could only widen the margin."""
        measure = self.reading.measure
        return measure is not None and measure.weight is not None and not self.only_noise

    def shown(self, records: float, times: float = 1.0) -> bool:
        """Whether a mean or rate of so many records is published, and not only noise; as :meth:`margin`."""
        noise, measure = self.noise.smaller(times), self.reading.measure
        compared = None if measure is None else measure.expected_comparison(records, noise)
        return compared is None or float(chance_if_empty(*map(np.array, compared))) <= EMPTY

    def margin(self, records: float, times: float = 1.0) -> float:
        """Return the margin in a cell of so many records, in the published unit.

        Parameters
        ----------
        records
            In the cell; of a rate over other numbers what it is over.
        times
            Were the noise so many times smaller.
        """
        noise, measure = self.noise.smaller(times), self.reading.measure
        if measure is None or measure.linear:
            half = float(
                margins(noise.variance, self.reading.level, whole=self.reading.whole, **noise.single)
            )
            return self.reading.shown(half * self.reading.step)
        if not records > 0:
            return math.inf
        half = measure.expected_half(records, noise, self.reading.level)
        unit = 10.0**measure.decimals
        return math.ceil(half * unit - 1e-6) / unit


NEXT_TO_NOTHING = 1e-6
"""Loss in the place of one that buys an error nobody knows before: what is measured so says nothing."""


@dataclass(frozen=True)
class InCell:
    """A number in a cell of so many records.

    Attributes
    ----------
    records
        What the cell has; of a rate over other numbers what it is over.
    margin
        Infinite where nothing bounds it.
    shown
        Whether it is published: a mean of a cell that mere noise could have made is not.
    """

    records: float
    margin: float
    shown: bool

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        margin = self.margin if np.isfinite(self.margin) else None
        return {"records": float(f"{self.records:.6g}"), "margin": margin, "shown": self.shown}


@dataclass(frozen=True)
class Expected:
    """The expected margins of one number in the cells of a level.

    Attributes
    ----------
    table, level
        Where it is published; ``""`` without a hierarchy.
    name
        Of the measure; ``count``.
    group
        Of the bounds, where they differ by groups; else ``""``.
    measure
        With the bounds of its group; None of counts.
    cells
        That somebody can be in, over all groups.
    number
        How its margin follows; None where the error depends on the data.
    typical
        Records of a typical cell; None where nobody stated a size.
    released
        Whether that is by the counts of a release.
    """

    table: str
    level: str
    name: str
    group: str
    measure: Measure | None
    cells: int
    number: NumberMargin | None
    typical: float | None
    released: bool

    @property
    def in_cells(self) -> tuple[InCell, InCell] | None:
        """The typical and the small cell; None where no size, or no error, is known."""
        if self.number is None or self.typical is None:
            return None
        typical, small = self.typical, small_of(self.typical)
        cells = [
            InCell(records, self.number.margin(records), self.number.shown(records))
            for records in (typical, small)
        ]
        return cells[0], cells[1]

    @property
    def of_noise(self) -> float | None:
        """The margin of a count or sum, the same for all sizes; None for other numbers."""
        if self.number is None or not self.number.only_noise:
            return None
        return self.number.margin(0)

    @property
    def at_least(self) -> bool:
        """Whether weights may make the margin wider."""
        return self.number is not None and self.number.at_least

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        typical, small = self.in_cells or (None, None)
        needs = "size" if self.number is not None and self.typical is None and self.of_noise is None else None
        return {
            "table": self.table,
            "level": self.level,
            "number": self.name,
            **({"group": self.group} if self.group else {}),
            "cells": self.cells,
            "margin": self.of_noise,
            "typical_cell": typical and typical.as_json(),
            "small_cell": small and small.as_json(),
            "at_least": self.at_least,
            "depends_on_data": self.number is None,
            "needs": needs,
        }


def forecast(loaded: Loaded, like: Released | None = None) -> list[Expected]:
    """Return the expected margins of every number that a spec publishes.

    ``like``: a published release whose counts say how many records cells have, before what the spec states.

    Raises
    ------
    InputError
        The release has none of the tables of the spec.
    """
    model = PlannedModel.of(loaded)
    return list(_Forecast(loaded, model, CellSizes.of(model, like)).numbers())


@dataclass(frozen=True, eq=False)
class _Forecast:
    loaded: Loaded
    model: PlannedModel
    sizes: CellSizes

    def numbers(self) -> Iterator[Expected]:
        spec, variances = self.loaded.spec, self._variances()
        tables = {table.name: table for table in spec.tables}
        for array in spec.arrays:
            table = tables[array.name.partition("-")[0]]
            for level, depth in self.model.shown(array.name).items():
                if array.measured is not None and not array.measured.adds_up and not self._loss(array, level):
                    continue  # no number of a level follows from choices below it
                layout = self.model.agreement.layouts[array.name]
                nodes = [0] if layout.along is None else layout.along.depth[: layout.nodes] == depth
                worst = float(variances[array.name][nodes].max())
                yield from self._of_array(table, array, level, worst, variances)

    def _variances(self) -> dict[str, Floats]:
        """Return the variances of all arrays, (nodes, 1) each."""
        losses = self.loaded.spec.losses
        unknown = {table.name for table in self.loaded.spec.tables if depends_on_data(table)}
        given = [
            NEXT_TO_NOTHING if place[0] in unknown and place in losses else float(losses.get(place, 0))
            for place in self.model.linear.measurements
        ]
        return self.model.variances(np.array(given))

    def _loss(self, array: Table, level: str) -> float:
        return float(self.loaded.spec.losses.get((array.name, level), 0))

    def _of_array(
        self, table: Table, array: Table, level: str, variance: float, variances: dict[str, Floats]
    ) -> Iterator[Expected]:
        cells = self.sizes.cells[table.name][level]
        typical = self.sizes.typical.get(table.name, {}).get(level)
        reading, released = self.model.reading(array.name), table.name in self.sizes.released
        if array.measured is None:
            loss = self.loaded.spec.losses.get((array.name, level))  # None where it is not measured
            single = {SIZES[self._definition]: noise_scale(self._definition, loss, 1)} if loss else {}
            number = None if depends_on_data(table) else NumberMargin(reading, Noise(variance, single))
            yield Expected(table.name, level, "count", "", None, cells, number, typical, released)
            return
        for name, measure in array.measures.items():
            for index, group in enumerate(measure.groups):
                bounds = measure.of_group(index)
                spread = variance * (bounds.largest / measure.largest) ** 2
                loss = self.loaded.spec.losses.get((array.name, level), Fraction(0))
                noise = measure.cell_noise(spread, loss, self._definition, index)
                at = typical
                if measure.denominator is not None:
                    at = self.sizes.over(table, level, measure)
                    noise = replace(noise, over=self._over(measure, table, level, variances))
                number = NumberMargin(ArrayMargin(bounds, reading.whole, reading.level), noise)
                yield Expected(table.name, level, name, group, bounds, cells, number, at, released)

    @property
    def _definition(self) -> Definition:
        return self.loaded.spec.privacy.definition

    def _over(self, measure: Measure, table: Table, level: str, variances: dict[str, Floats]) -> float:
        """Return the variance of a rate's denominator; 0 where it is public."""
        other = next((table for table in self.loaded.spec.tables if table.name == measure.denominator), None)
        if other is None:
            return 0.0
        layout = self.model.agreement.layouts[other.name]
        if layout.along is None or other.along != table.along:
            return float(variances[other.name].max())
        there = layout.along.depth[: layout.nodes] == layout.along.levels.index(level)
        return float(variances[other.name][there].max())


# --- how many records a cell will have: from the size that a spec states, or from a published release
#
# A *typical* cell has the records of its table divided by the cells of its level that somebody can be in;
# by the counts of a release, the median of those that hold something. A *small* one has a tenth of that,
# and no less than one record. Neither is ever taken from the source.

SMALL = 0.1
"""Records of a small cell, in parts of those of a typical one."""


def small_of(typical: float) -> float:
    """Return the number of records in a small cell."""
    return min(typical, max(1.0, SMALL * typical))


@dataclass(frozen=True)
class CellSizes:
    """The typical cells of all tables.

    Attributes
    ----------
    loaded
        The spec with all levels that it publishes.
    cells
        Table -> level -> cells that somebody can be in.
    typical
        Table -> level -> records; nothing of tables whose size nobody stated.
    released
        Tables whose forecast is by the counts of a release.
    """

    loaded: Loaded
    cells: Mapping[str, Mapping[str, int]]
    typical: Mapping[str, Mapping[str, float]]
    released: frozenset[str]

    @classmethod
    def of(cls, model: PlannedModel, like: Released | None = None) -> CellSizes:
        """Return the typical cells; from its counts where a release has a table.

        Raises
        ------
        InputError
            The release has none of the tables.
        """
        spec = model.loaded.spec
        cells = {table.name: model.loaded.measured_cells(table) for table in spec.tables}
        typical: dict[str, dict[str, float]] = {}
        for name, levels in cells.items():
            size = size_of(model.loaded, next(table for table in spec.tables if table.name == name))
            if size is not None:
                typical[name] = {level: size / max(1, number) for level, number in levels.items()}
        released = {} if like is None else _by_release(model, like)
        return cls(model.loaded, cells, typical | released, frozenset(released))

    def over(self, table: Table, level: str, measure: Measure) -> float | None:
        """Return a rate's denominator in a typical cell; for public numbers, the median of the level."""
        for known in (*self.loaded.known, *self.loaded.figures):
            if known.name == measure.denominator:
                return _median(_at_level(self.loaded, known, level))
        other = next(table for table in self.loaded.spec.tables if table.name == measure.denominator)
        return self.typical.get(other.name, {}).get(level if other.along == table.along else "")


def size_of(loaded: Loaded, table: Table) -> float | None:
    """Return the number of records of a table: stated, or an invariant's total of all records."""
    if table.size is not None:
        return float(table.size)
    if table.where is not None:
        return None  # a part of them, and nobody knows which
    if loaded.spec.size is not None:
        return float(loaded.spec.size)
    return next((float(known.values.sum()) for known in loaded.known), None)


def _by_release(model: PlannedModel, like: Released) -> dict[str, dict[str, float]]:
    by_release, refused = {}, []
    for table in model.loaded.spec.tables:
        layout = model.agreement.layouts[table.name]
        try:
            counts = table_like(model, table.name, like)
        except InputError as error:
            refused.append(error)
            continue
        by_release[table.name] = {level: _median(counts[nodes]) for level, nodes in layout.cuts.items()}
    if not by_release:
        raise refused[0]
    return by_release


def _at_level(loaded: Loaded, known: KnownMarginal, level: str) -> Floats:
    tree, values = known_on_tree(loaded, known)
    column = None if known.along is None else loaded.spec.columns[known.along]
    names = column.levels if isinstance(column, HierarchyColumn) else ()
    at_level: Floats = values[tree.depth == names.index(level)] if level in names else values
    return at_level


def _median(counts: Floats) -> float:
    some = counts[counts > 0]
    return float(np.median(some)) if some.size else 0.0
