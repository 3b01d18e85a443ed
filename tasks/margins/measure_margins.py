"""What is published of a measure, and its margins where it is no plain sum: means, quantiles and rates.

They are made of numbers that were measured, made to agree and finished like counts. Their
margins are not simulated: they follow from the linear estimates of those numbers, for each cell by itself
(:mod:`tabularium.mechanisms.inference.margins_of_error.ratio_intervals`, ``quantile_trees``); those of a
chosen quantile from what was measured beside it (``chosen_quantiles``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.inference import Estimate
from tabularium.mechanisms.inference.margins_of_error.quantile_margins import (
    chosen_interval,
    chosen_position,
    tree_over,
)
from tabularium.mechanisms.inference.margins_of_error.ratio_intervals import (
    Shown,
    quotient_interval,
    quotient_of,
    ratio_interval,
    ratio_of,
    steady_half,
)
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.validations.spec.measures.array_owners import array_of
from tabularium.validations.spec.measures.measure_fields import PART, Measure
from tabularium.validations.spec.parts.table_parts import Table

Floats = NDArray[np.float64]

_QUANTILES = ("tree", "choice")
"""Forms whose intervals are as wide as the bounds in empty cells, and whose own numbers say little of how
many records there are: these are shown wherever there is a number."""


def measure_values(layout: Layout, measure: Measure, values: Floats, whole: Floats | None = None) -> Floats:
    """Return what is published of a measure, in the unit of its column.

    Parameters
    ----------
    values
        (nodes, numbers) finished numbers of its array, in steps.
    whole
        (nodes, cells) what a rate is over, where it is not over its own records.

    Returns
    -------
    (nodes, cells of its table); not a number where there is nothing to take a mean, quantile or rate of.
    """
    step = float(measure.step)
    if measure.kind == "sum":
        return values * step
    if whole is not None:
        return measure.span * quotient_of(values, whole)
    parts = _by_cell(measure, values)
    if measure.form == "pair":
        return by_group(layout, measure.bottoms) + by_group(layout, measure.spans) * ratio_of(parts)
    if measure.form == "choice":
        return measure.bottom + step * chosen_position(parts)
    return measure.bottom + step * tree_over(measure.width + 1).quantile_of(parts, measure.rank)


def _by_cell(measure: Measure, values: Floats) -> Floats:
    """Return the numbers of an array as (nodes, cells of its table, numbers of each)."""
    domain = measure.part_domain
    return values.reshape(len(values), -1, 1 if domain is None else domain.size)


def by_group(layout: Layout, numbers: Sequence[int]) -> Floats:
    """Return the number of each cell of a measure's table, (cells,), by its group; (1,) without groups."""
    assert layout.table.measured is not None  # noqa: S101 - the caller has looked
    by, own = layout.table.measured.by, np.array(numbers, np.float64)
    if by is None or len(numbers) == 1:
        return own[:1]
    cells = [domain for domain in layout.others if domain.name != PART]
    shape = [domain.size if domain.name == by else 1 for domain in cells]
    return np.broadcast_to(own.reshape(shape), [domain.size for domain in cells]).reshape(-1)


def measure_numbers(
    layouts: Mapping[str, Layout],
    table: Table,
    values: Mapping[str, Floats],
    half: Mapping[str, Floats],
    *,
    whole: bool,
    wholes: Mapping[str, Floats] | None = None,
) -> dict[str, tuple[Floats, Floats]]:
    """Return what is published of the measures of a table: name -> numbers and half-widths.

    They have two decimals more than the step of their grid; margins are rounded up, and reach no farther than
    the bounds. Sums of numbers that were not made whole stand as they are. Quantiles of one cell rise with
    their rank: those that were chosen apart are put in order, and their margins reach as much farther as that
    moved them.

    Parameters
    ----------
    layouts, values, half
        Of each array: how it lies in memory, its finished numbers, and its margins as they were found: of a
        sum in steps, else of what is published.
    whole
        Numbers have been made whole.
    wholes
        Measure -> what it is over (:func:`tabularium.tasks.postprocess.denominators.whole_of`).
    """
    found = {}
    for name, measure in table.measures.items():
        array = array_of(table.measures, table.name, name)
        numbers = measure_values(layouts[array], measure, values[array], (wholes or {}).get(name))
        reach = half[array]
        if measure.kind == "sum":
            reach = (np.ceil(reach - 1e-9) if whole else reach) * float(measure.step)
        else:
            reach = reach[..., list(layouts[array].table.measures).index(name)]
            numbers = np.where(np.isnan(reach), np.nan, numbers)  # it is not shown
        found[name] = numbers, reach
    _put_in_order(table.measures, found)
    for name, measure in table.measures.items():
        if whole or measure.kind != "sum":
            found[name] = _rounded(*found[name], measure.decimals)
        if measure.kind != "sum" and measure.over is None:
            layout = layouts[array_of(table.measures, table.name, name)]
            found[name] = _within_bounds(layout, measure, *found[name])
    return found


def _rounded(numbers: Floats, reach: Floats, decimals: int) -> tuple[Floats, Floats]:
    unit = 10.0**decimals
    return np.round(numbers, decimals), np.round(np.ceil(reach * unit - 1e-6) / unit, decimals)


def _within_bounds(layout: Layout, measure: Measure, numbers: Floats, reach: Floats) -> tuple[Floats, Floats]:
    """Return numbers with half-widths that reach no farther than the farther bound of the values."""
    bottom = by_group(layout, measure.bottoms)
    farther = np.maximum(numbers - bottom, bottom + by_group(layout, measure.spans) - numbers)
    return numbers, np.minimum(reach, np.round(farther, measure.decimals))


def _put_in_order(measures: Mapping[str, Measure], found: dict[str, tuple[Floats, Floats]]) -> None:
    """Sort chosen quantiles of the same values by their rank, cell by cell, in place."""
    alike: dict[object, list[str]] = {}
    for name, measure in measures.items():
        if measure.form == "choice":
            alike.setdefault(measure.counts_alike, []).append(name)
    for names in alike.values():
        names.sort(key=lambda name: measures[name].rank)
        ordered = np.sort(np.stack([found[name][0] for name in names]), axis=0)
        for name, numbers in zip(names, ordered, strict=True):
            before, reach = found[name]
            found[name] = numbers, reach + np.abs(numbers - before)


def measure_half(
    layout: Layout,
    published: Floats,
    linear: Estimate,
    level: float,
    over: tuple[Floats, Estimate] | None = None,
) -> tuple[Floats, list[dict[str, Any]]]:
    """Return the margins of means, quantiles and rates, and which of these are shown.

    Not a number where nothing is shown, and infinite where nothing bounds it. What is shown, and how often
    intervals then hold, is decided for each level of the table by itself
    (:mod:`tabularium.mechanisms.inference.margins_of_error.ratio_intervals`).

    Parameters
    ----------
    published
        (nodes, numbers) finished numbers of its array.
    linear
        What consistency made of the measurements, with variances.
    over
        What a rate is over, likewise: as it is published, and as consistency left it.

    Returns
    -------
    (nodes, cells of its table, measures that are read off the array), and for each level what the certificate
    says of what is shown.
    """
    found: list[Floats] = []
    notes: list[dict[str, Any]] = []
    for measure in layout.table.measures.values():
        at = measure_values(layout, measure, published, None if over is None else over[0])
        half = np.full(at.shape, np.nan)
        notes = []
        for name, nodes in _levels(layout):
            tested = _Tested.of(layout, measure, linear, nodes, None if over is None else over[1])
            shown = tested.shown(at[nodes], level)
            half[nodes] = np.where(shown.there, tested.reach(at[nodes], shown.level), np.nan)
            notes.append({**name, **shown.as_json()})
        found.append(half)
    quantiles = any(measure.form in _QUANTILES for measure in layout.table.measures.values())
    return np.stack(found, axis=-1), [] if quantiles else notes


def _levels(layout: Layout) -> Iterator[tuple[dict[str, str], Any]]:
    """Yield the levels of a table with their nodes, of which there is one without a hierarchy."""
    if layout.along is None:
        yield {}, slice(None)
        return
    depth = layout.along.depth[: layout.nodes]
    for number in range(int(depth.max()) + 1):
        yield {"level": layout.along.levels[number]}, np.flatnonzero(depth == number)


@dataclass(frozen=True, eq=False)
class _Tested:
    """The numbers of one measure at some nodes, as consistency left them.

    Attributes
    ----------
    parts, spread
        (nodes, cells, numbers of each) and their variances.
    possible
        (nodes, cells) which cells somebody can be in.
    unit, bottom
        (cells,) or (1,), by what and from where on a position between the bounds is counted.
    over
        What a rate is over, (nodes, cells), and its variances.
    """

    measure: Measure
    parts: Floats
    spread: Floats
    possible: NDArray[np.bool_]
    unit: Floats
    bottom: Floats
    over: tuple[Floats, Floats] | None

    @classmethod
    def of(
        cls, layout: Layout, measure: Measure, linear: Estimate, nodes: Any, over: Estimate | None
    ) -> _Tested:
        """Take them from the estimates of all nodes."""
        parts = _by_cell(measure, linear.values[nodes])
        spread = _by_cell(measure, np.broadcast_to(linear.variances, linear.values.shape)[nodes])
        possible = np.ones(parts.shape[:2], bool)
        if layout.impossible is not None:
            possible = ~layout.impossible[nodes].reshape(*parts.shape[:2], -1)[..., 0]
        unit, bottom = np.array([float(measure.step)]), np.array([float(measure.bottom)])
        whole = None
        if over is not None:
            unit = np.array([float(measure.span)])
            whole = over.values[nodes], np.broadcast_to(over.variances, over.values.shape)[nodes]
        elif measure.form == "pair":
            unit, bottom = by_group(layout, measure.spans), by_group(layout, measure.bottoms)
        return cls(measure, parts, spread, possible, unit, bottom, whole)

    def shown(self, at: Floats, level: float) -> Shown:
        """Return which cells are shown, of those in which there is a number; of quantiles all."""
        there = np.isfinite(at)
        if self.measure.form in _QUANTILES:
            return Shown(there, int(there.sum()), level, 0.0, np.inf)
        if self.over is not None:
            records, variances = self.over
        else:
            records, variances = self.parts.sum(axis=-1), self.spread.sum(axis=-1)
        return Shown.of(np.where(there, records, -np.inf), variances, self.possible, level)

    def reach(self, at: Floats, level: float) -> Floats:
        """Return how far intervals reach from the published numbers, (nodes, cells)."""
        bins, steady = self.measure.width + 1, np.zeros(1)
        one, spread = self.parts[..., 0], self.spread[..., 0]
        if self.over is not None:
            low, high = quotient_interval(one, self.over[0], spread, self.over[1], level)
            steady = steady_half(one, self.over[0], spread, self.over[1], level, over=True)
        elif self.measure.form == "pair":
            low, high = ratio_interval(self.parts, self.spread, level)
            steady = steady_half(one, self.parts[..., 1], spread, self.spread[..., 1], level, over=False)
        elif self.measure.form == "choice":
            low, high = chosen_interval(self.parts, self.spread, bins, level)
        else:
            low, high = tree_over(bins).interval(self.parts, self.spread, self.measure.rank, level)
        place = at - self.bottom
        found: Floats = np.maximum(place - self.unit * low, self.unit * high - place)
        return np.maximum(np.maximum(found, self.unit * steady), 0.0)


def told_of(
    layout: Layout,
    measure: Measure,
    values: Floats,
    about: Mapping[str, Any],
    whole: float | None = None,
) -> dict[str, Any]:
    """Return what the certificate says of a measure: its bounds, what a record changes, total and margins.

    Parameters
    ----------
    layout, measure
        Of its array, and what is read off it.
    values
        (nodes, numbers) finished numbers of its array.
    about
        What is known of its accuracy.
    whole
        The total of what a rate is over.
    """
    total = np.nan  # choices of single cells say nothing of all records
    roots = values[layout.parents < 0].sum(axis=0)
    if measure.by is not None and measure.form == "pair":
        pairs = roots.reshape(-1, 2)
        records = pairs.sum(axis=1) * float(measure.step) / by_group(layout, measure.spans)
        sums = by_group(layout, measure.bottoms) * records + pairs[:, 0] * float(measure.step)
        total = float(sums.sum() / records.sum()) if records.sum() > 0 else np.nan
    elif measure.form != "choice":
        all_of_it = None if whole is None else np.array([[whole]])
        # Of a sum the total, of a mean, quantile or rate that over all records.
        whole_roots = roots.reshape(-1, measure.parts).sum(axis=0)
        total = float(measure_values(layout, measure, whole_roots[None], all_of_it)[0].sum())
    return {
        **measure.declared,
        "total": None if np.isnan(total) else total + 0.0,  # zero has no sign
        **about,
    }
