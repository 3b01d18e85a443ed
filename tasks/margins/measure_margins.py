"""Published numbers of measures, and the margins of measures that are not simulated.

They are made of numbers that were measured, made to agree and finished like counts. Each kind of measure says
how its number and its interval follow from those of a cell; the intervals are those of
:mod:`tabularium.mechanisms.inference.margins_of_error`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tabularium.mechanisms.arrays import Floats
from tabularium.mechanisms.inference import Estimate
from tabularium.mechanisms.inference.margins_of_error.ratio_intervals import Shown
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.validations.release_spec.measures.measure import PART, Measure, Numbers
from tabularium.validations.release_spec.tables import Table, array_of


def measure_values(
    layout: Layout, measure: Measure, values: Floats, denominator: Floats | None = None
) -> Floats:
    """Return the published numbers of a measure, in the unit of its column.

    Parameters
    ----------
    values
        (nodes, numbers) finished numbers of its array, in steps.
    denominator
        (nodes, cells) what a rate is over, where it is not over its own records.

    Returns
    -------
    (nodes, cells of its table); not a number where there is nothing to take a mean, quantile or rate of.
    """
    return measure.estimate(_numbers(layout, measure, values, denominator))


def _numbers(layout: Layout, measure: Measure, values: Floats, denominator: Floats | None = None) -> Numbers:
    bottom, span = (by_group(layout, numbers) for numbers in (measure.bottoms, measure.spans))
    return Numbers(_by_cell(measure, values), bottom, span, denominator)


def _by_cell(measure: Measure, values: Floats) -> Floats:
    """Return the numbers of an array as (nodes, cells of its table, numbers of each)."""
    domain = measure.part_domain
    return values.reshape(len(values), -1, 1 if domain is None else domain.size)


def by_group(layout: Layout, numbers: Sequence[float]) -> Floats:
    """Return the number of each cell of a measure's table, (cells,), by its group; (1,) without groups."""
    assert layout.table.measured is not None  # noqa: S101 - the caller has looked
    by, numbers_of_groups = layout.table.measured.by, np.array(numbers, np.float64)
    if by is None or len(numbers) == 1:
        return numbers_of_groups[:1]
    cells = [domain for domain in layout.others if domain.name != PART]
    shape = [domain.size if domain.name == by else 1 for domain in cells]
    return np.broadcast_to(numbers_of_groups.reshape(shape), [domain.size for domain in cells]).reshape(-1)


def measure_numbers(
    layouts: Mapping[str, Layout],
    table: Table,
    values: Mapping[str, Floats],
    half: Mapping[str, Floats],
    *,
    whole: bool,
    denominators: Mapping[str, Floats] | None = None,
) -> dict[str, tuple[Floats, Floats]]:
    """Return the published measures of a table: name -> numbers and half-widths.

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
    denominators
        Measure -> what it is over (:func:`tabularium.tasks.postprocess.table_layout.denominator_of`).
    """
    shown = {}
    for name, measure in table.measures.items():
        array = array_of(table.measures, table.name, name)
        numbers = measure_values(layouts[array], measure, values[array], (denominators or {}).get(name))
        reach = half[array]
        if measure.linear:
            reach = (np.ceil(reach - 1e-9) if whole else reach) * float(measure.grid)
            if not measure.adds_up:  # of a level that was not measured nothing is known
                numbers = np.where(np.isfinite(reach), numbers, np.nan)
        else:
            reach = reach[..., list(layouts[array].table.measures).index(name)]
            numbers = np.where(np.isnan(reach), np.nan, numbers)  # it is not shown
        shown[name] = numbers, reach
    _put_in_order(table.measures, shown)
    for name, measure in table.measures.items():
        array = array_of(table.measures, table.name, name)
        if whole or not measure.linear:
            shown[name] = _rounded(*shown[name], measure.decimals)
        limits = measure.limits(_numbers(layouts[array], measure, values[array]))
        if limits is not None:
            shown[name] = _within(limits, measure.decimals, *shown[name])
    return shown


def _rounded(numbers: Floats, reach: Floats, decimals: int) -> tuple[Floats, Floats]:
    unit = 10.0**decimals
    return np.round(numbers, decimals), np.round(np.ceil(reach * unit - 1e-6) / unit, decimals)


def _within(
    limits: tuple[Floats, Floats], decimals: int, numbers: Floats, reach: Floats
) -> tuple[Floats, Floats]:
    """Return numbers with half-widths cut at the farther end of the possible range."""
    least, most = limits
    farther = np.maximum(numbers - least, most - numbers)
    return numbers, np.minimum(reach, np.round(farther, decimals))


def _put_in_order(measures: Mapping[str, Measure], shown: dict[str, tuple[Floats, Floats]]) -> None:
    """Sort chosen quantiles of the same values by their rank, cell by cell, in place."""
    related: dict[object, list[str]] = {}
    for name, measure in measures.items():
        if measure.rank is not None and not measure.adds_up:
            related.setdefault(measure.counts_alike, []).append(name)
    for names in related.values():
        names.sort(key=lambda name: measures[name].rank or 0)
        ordered = np.sort(np.stack([shown[name][0] for name in names]), axis=0)
        for name, numbers in zip(names, ordered, strict=True):
            before, reach = shown[name]
            shown[name] = numbers, reach + np.abs(numbers - before)


def measure_half(
    layout: Layout,
    published: Floats,
    linear: Estimate,
    level: float,
    over: tuple[Floats, Estimate] | None = None,
) -> tuple[Floats, list[dict[str, Any]]]:
    """Return the margins of means, quantiles and rates, and the mask of shown ones.

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
        The denominators of rates, also as they are published and as consistency left them.

    Returns
    -------
    (nodes, cells of its table, measures that are read off the array), and for each level what the certificate
    says of what is shown.
    """
    halves: list[Floats] = []
    notes: list[dict[str, Any]] = []
    for measure in layout.table.measures.values():
        at = measure_values(layout, measure, published, None if over is None else over[0])
        half = np.full(at.shape, np.nan)
        notes = []
        for name, nodes in _levels(layout):
            numbers = _at_nodes(layout, measure, linear, nodes, None if over is None else over[1])
            shown = _shown(layout, measure, at[nodes], numbers, nodes, level)
            half[nodes] = np.where(shown.there, measure.reach(at[nodes], numbers, shown.level), np.nan)
            if measure.compared(numbers) is not None:
                notes.append({**name, **shown.as_json()})
        halves.append(half)
    return np.stack(halves, axis=-1), notes


def _levels(layout: Layout) -> Iterator[tuple[dict[str, str], Any]]:
    """Yield the levels of a table with their nodes; one node without a hierarchy."""
    if layout.along is None:
        yield {}, slice(None)
        return
    depth = layout.along.depth[: layout.nodes]
    for number in range(int(depth.max()) + 1):
        yield {"level": layout.along.levels[number]}, np.flatnonzero(depth == number)


def _at_nodes(
    layout: Layout, measure: Measure, linear: Estimate, nodes: Any, over: Estimate | None
) -> Numbers:
    """Return the numbers of a measure at some nodes, as consistency left them."""
    values, spread = linear.values[nodes], np.broadcast_to(linear.variances, linear.values.shape)[nodes]
    numbers = replace(_numbers(layout, measure, values), spread=_by_cell(measure, spread))
    if over is None:
        return numbers
    spread_whole = np.broadcast_to(over.variances, over.values.shape)[nodes]
    return replace(numbers, whole=over.values[nodes], spread_whole=spread_whole)


def _shown(layout: Layout, measure: Measure, at: Floats, numbers: Numbers, nodes: Any, level: float) -> Shown:
    """Return the mask of shown cells, among those with a number."""
    there = np.isfinite(at)
    compared = measure.compared(numbers)
    if compared is None:
        return Shown(there, int(there.sum()), level, 0.0, np.inf)
    possible = np.ones(numbers.parts.shape[:2], bool)
    if layout.impossible is not None:
        possible = ~layout.impossible[nodes].reshape(*possible.shape, -1)[..., 0]
    records, variances = compared
    return Shown.of(np.where(there, records, -np.inf), variances, possible, level)


def describe_measure(
    layout: Layout,
    measure: Measure,
    values: Floats,
    about: Mapping[str, Any],
    denominator: float | None = None,
) -> dict[str, Any]:
    """Return the certificate's entry of a measure: bounds, sensitivity, total and margins.

    Parameters
    ----------
    layout, measure
        Of its array, and what is read off it.
    values
        (nodes, numbers) finished numbers of its array at :meth:`Layout.tops`.
    about
        What is known of its accuracy.
    denominator
        The total of what a rate is over.
    """
    roots = values.sum(axis=0)
    total = measure.total(
        _numbers(layout, measure, roots[None], None if denominator is None else np.array([[denominator]]))
    )
    return {
        **measure.declared,
        "total": None if np.isnan(total) else total + 0.0,  # zero has no sign
        **about,
    }
