"""Measures of a spec as the language of queries knows them."""

from __future__ import annotations

import numpy as np

from mechanisms.queries import MeasuredAttribute
from mechanisms.queries.attributes import shown_number
from mechanisms.queries.grammar import Measure as Asked
from validations.spec.measures.measure_fields import Kind, Measure

ANSWERS: dict[Kind, tuple[Asked, ...]] = {
    "sum": ("sum",),
    "mean": ("average", "sum"),
    "median": ("quantile", "average", "sum"),
}
"""What can be computed of each kind: first what is published."""


def measured_attribute(name: str, measure: Measure) -> MeasuredAttribute:
    """Return a measure as the last attribute of its array, whose numbers are those of the array.

    See :mod:`mechanisms.queries.measure_arrays`.
    """
    start, end, step = float(measure.start), float(measure.end), float(measure.step)
    values, unit = [1.0], step
    if measure.kind == "mean":
        values, unit = [end, start], 1 / measure.width
    elif measure.kind == "median":
        values, unit = [start + step * place for place in range(measure.parts)], 1.0
    codes, numbers = tuple(shown_number(value) for value in values), np.array(values)
    return MeasuredAttribute(
        name,
        codes,
        codes,
        numbers,
        numbers,
        column=measure.column,
        answers=ANSWERS[measure.kind],
        unit=unit,
        signed=measure.kind == "sum" and measure.signed,
        about=_about(measure),
        shown=(ANSWERS[measure.kind][0], 0.5),
        alike=measure.counts_alike[1:],
    )


def _about(measure: Measure) -> str:
    unit = f" {measure.unit}" if measure.unit else ""
    bounds = f"{shown_number(float(measure.start))} to {shown_number(float(measure.end))}{unit}"
    said = f"Values of {measure.column} count as far as their bounds, {bounds}"
    said += f", in steps of {shown_number(float(measure.step))}"
    if measure.weight is not None:
        said += f", each as often as {measure.weight.column} says, at most {measure.heaviest} times"
    return f"{said}; records without a value are left out."
