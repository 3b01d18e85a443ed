"""What is published of a measure, and its margins where it is no plain sum: means, medians and rates.

Means, medians and rates are made of numbers that were measured, made to agree and finished like counts. Their
margins are not simulated: they follow from the linear estimates of those numbers, for each cell by itself
(:mod:`mechanisms.inference.margins_of_error.ratio_intervals`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mechanisms.inference import Estimate
from mechanisms.inference.margins_of_error.ratio_intervals import (
    median_interval,
    median_of,
    quotient_interval,
    quotient_of,
    ratio_interval,
    ratio_of,
)
from tasks.postprocess.table_layout import Layout
from validations.spec.measures.measure_fields import PART, Measure, array_name
from validations.spec.parts.table_parts import Table

Floats = NDArray[np.float64]


def measure_of(layout: Layout) -> Measure:
    """Return the measure of which a layout is the array."""
    assert layout.table.measured is not None  # noqa: S101 - the caller has looked
    return layout.table.measured


def measure_values(layout: Layout, values: Floats, whole: Floats | None = None) -> Floats:
    """Return what is published of a measure, in the unit of its column.

    Parameters
    ----------
    values
        (nodes, numbers) finished numbers of its array, in steps.
    whole
        (nodes, cells) what a rate is over, where it is not over its own records.

    Returns
    -------
    (nodes, cells of its table); not a number where there is nothing to take a mean, median or rate of.
    """
    measure = measure_of(layout)
    step = float(measure.step)
    if measure.kind == "sum":
        return values * step
    if whole is not None:
        return measure.span * quotient_of(values, whole)
    parts = values.reshape(len(values), -1, measure.parts)
    if measure.form == "pair":
        return by_cell(layout, measure.bottoms) + by_cell(layout, measure.spans) * ratio_of(parts)
    return measure.bottom + step * median_of(parts)


def by_cell(layout: Layout, numbers: Sequence[int]) -> Floats:
    """Return the number of each cell of a measure's table, (cells,), by its group; (1,) without groups."""
    by, own = measure_of(layout).by, np.array(numbers, np.float64)
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

    They have two decimals more than the step of their grid; margins are rounded up. Sums of numbers that were
    not made whole stand as they are.

    Parameters
    ----------
    layouts, values, half
        Of each array: how it lies in memory, its finished numbers, and its margins as they were found: of a
        sum in steps, else of what is published.
    whole
        Numbers have been made whole.
    wholes
        Measure -> what it is over (:func:`tasks.postprocess.denominators.wholes_of`).
    """
    found = {}
    for name, measure in table.measures.items():
        array = array_name(table.name, name)
        numbers = measure_values(layouts[array], values[array], (wholes or {}).get(name))
        reach = half[array]
        if measure.kind == "sum":
            reach = (np.ceil(reach - 1e-9) if whole else reach) * float(measure.step)
        if measure.kind != "sum" or whole:
            unit = 10.0**measure.decimals
            numbers = np.round(numbers, measure.decimals)
            reach = np.round(np.ceil(reach * unit - 1e-6) / unit, measure.decimals)
        found[name] = numbers, reach
    return found


def measure_half(
    layout: Layout,
    published: Floats,
    linear: Estimate,
    level: float,
    over: tuple[Floats, Estimate] | None = None,
) -> Floats:
    """Return the margins of a mean, median or rate, (nodes, cells of its table).

    Not a number where there is none of it, and infinite where nothing bounds it.

    Parameters
    ----------
    published
        (nodes, numbers) finished numbers of its array.
    linear
        What consistency made of the measurements, with variances.
    over
        What a rate is over, likewise: as it is published, and as consistency left it.
    """
    measure = measure_of(layout)
    shape = (len(published), -1, measure.parts)
    parts = linear.values.reshape(shape)
    spread = np.broadcast_to(linear.variances, linear.values.shape).reshape(shape)
    if over is not None:
        unit, (shown, known) = np.array([float(measure.span)]), over
        at = quotient_of(published, shown)
        several = np.broadcast_to(known.variances, known.values.shape)
        low, high = quotient_interval(parts[..., 0], known.values, spread[..., 0], several, level)
    elif measure.form == "pair":
        unit = by_cell(layout, measure.spans)
        at, (low, high) = ratio_of(published.reshape(shape)), ratio_interval(parts, spread, level)
    else:
        unit = np.array([float(measure.step)])
        at, (low, high) = median_of(published.reshape(shape)), median_interval(parts, spread, level)
    half: Floats = unit * np.maximum(np.maximum(at - low, high - at), 0.0)
    return half


def told_of(
    layout: Layout, values: Floats, about: Mapping[str, Any], whole: float | None = None
) -> dict[str, Any]:
    """Return what the certificate says of a measure: its bounds, what a record changes, total and margins.

    Parameters
    ----------
    values
        (nodes, numbers) finished numbers of its array.
    about
        What is known of its accuracy.
    whole
        The total of what a rate is over.
    """
    measure = measure_of(layout)
    roots = values[layout.parents < 0].sum(axis=0).reshape(-1, measure.parts).sum(axis=0)
    all_of_it = None if whole is None else np.array([[whole]])
    # Of a sum the total, of a mean, median or rate that over all records.
    if measure.by is not None and measure.form == "pair":
        pairs = values[layout.parents < 0].sum(axis=0).reshape(-1, 2)
        records = pairs.sum(axis=1) * float(measure.step) / by_cell(layout, measure.spans)
        sums = by_cell(layout, measure.bottoms) * records + pairs[:, 0] * float(measure.step)
        total = float(sums.sum() / records.sum()) if records.sum() > 0 else math.nan
    else:
        total = float(measure_values(layout, roots[None], all_of_it)[0].sum())
    return {
        **measure.declared,
        "total": None if np.isnan(total) else total,
        **about,
    }
