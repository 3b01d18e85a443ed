"""Measures of a spec as the language of queries knows them."""

from __future__ import annotations

import numpy as np

from tabularium.mechanisms.queries import MeasuredAttribute
from tabularium.mechanisms.queries.attributes import shown_number
from tabularium.mechanisms.queries.grammar import Measure as Asked
from tabularium.validations.spec.measures.measure_fields import Kind, Measure

ANSWERS: dict[Kind, tuple[Asked, ...]] = {
    "sum": ("sum",),
    "mean": ("average", "sum"),
    "median": ("quantile", "average", "sum"),
    "quantile": ("quantile", "average", "sum"),
    "rate": ("rate", "sum"),
    "percent": ("rate", "sum"),
}
"""What can be computed of each kind: first what is published."""

SHOWN: dict[Kind, Asked] = {
    kind: "average" if each[0] == "rate" else each[0] for kind, each in ANSWERS.items()
}
"""How what is published of each kind is computed."""


def measured_attribute(name: str, measure: Measure) -> MeasuredAttribute:
    """Return a measure as the last attribute of its array, whose numbers are those of the array.

    See :mod:`tabularium.mechanisms.queries.measure_arrays`. Of a rate over another table the array has what
    passes its test, and that is what can be asked for.
    """
    answers = ANSWERS[measure.kind] if measure.over is None else ("sum",)
    if measure.by is not None or measure.form == "choice":
        answers = answers[:1]
    bottom, top, step = float(measure.bottom), float(measure.top), float(measure.step)
    values, unit = [1.0], step
    if measure.test is not None and measure.form == "pair":
        values, unit = [float(measure.span), 0.0], 1 / measure.span
    elif measure.form == "pair":
        values, unit = [top, bottom], 1 / measure.width
    elif measure.form == "tree":
        values, unit = [bottom + step * place for place in range(measure.width + 1)], 1.0
    codes, numbers = tuple(shown_number(value) for value in values), np.array(values)
    return MeasuredAttribute(
        name,
        codes,
        codes,
        numbers,
        numbers,
        column="" if measure.test is not None else measure.of,
        answers=answers,
        unit=unit,
        signed=measure.form == "total" and measure.signed,
        about=_about(measure),
        shown=(SHOWN[measure.kind], float(measure.rank)),
        alike=(*measure.counts_alike[1:], measure.test),
    )


def _about(measure: Measure) -> str:
    weighed = ""
    if measure.weight is not None:
        weighed = f", each as often as {measure.weight.column} says, at most {measure.heaviest} times"
    if measure.over is not None:
        said = f"It is how many records pass `{measure.test}`{weighed}"
        return f"{said}; what its rate is over, {measure.over}, is another number."
    if measure.test is not None:
        said = f"It is of records of which `{measure.test}` is true or false, {measure.shown_unit}"
        return f"{said}{weighed}."
    unit = f" {measure.unit}" if measure.unit else ""
    bounds = f"{shown_number(float(measure.bottom))} to {shown_number(float(measure.top))}{unit}"
    if measure.by is not None:
        bounds += f", which differ by {measure.by}"
    said = f"Values of {measure.of} count as far as their bounds, {bounds}"
    said += f", in steps of {shown_number(float(measure.step))}"
    return f"{said}{weighed}; records without a value are left out."
