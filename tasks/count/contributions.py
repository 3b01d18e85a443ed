"""What each record adds to the array of a measure: its value on the public grid, times its weight.

The engine clamps and rounds, record by record; whole numbers are added up here, in 64 bits. A null value
or weight adds nothing and does not reject the record; the same holds of what is no number, where a rule
allows it. (How many records of a unit count at all: :mod:`tabularium.tasks.count.bounding`.)
Infinities are clamped. The value of a test is 1 or 0, and null where it is neither true nor false.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tabularium.tasks.count.count_files import Counts
from tabularium.validations.domains.domains import Domain
from tabularium.validations.domains.encoding import coded_names, is_missing, number_of, of_group
from tabularium.validations.imported_later import Later
from tabularium.validations.release_spec.measures.measure import Measure
from tabularium.validations.universes.universe import test_of

if TYPE_CHECKING:
    import ibis
else:
    ibis = Later("ibis")

NOTHING = -1  # stands for a null: values and weights are zero or more
NO_ITEM = "-"
"""Stands for a null among values that are told apart as text."""


def engine_columns(
    measure: Measure,
    table: Any,
    raw: dict[str, str],
    name: str,
    domains: Mapping[str, Domain],
    leaf: str | None = None,
) -> dict[str, Any]:
    """Return the expressions of what an array needs of each record, under names that begin with ``name``.

    The value in steps above ``from``, 0 to T, and where there is a weight, the weight; `NOTHING` for nulls.
    Of different values the value as text, `NO_ITEM` for nulls, and the code along ``leaf``, if there is one.
    """
    if measure.identifier is not None:
        along = {} if leaf is None else {f"{name}_leaf": table[coded_names(domains)[leaf].code]}
        return {f"{name}_value": as_item(table[raw[measure.identifier]]), **along}
    if measure.test is not None:
        truth = test_of(measure.test, domains).truth(table, domains, raw)
        found = {f"{name}_value": ibis.cases((truth.isnull(), NOTHING), (truth, 1), else_=0).cast("int64")}
    else:
        group = None if measure.by is None else table[coded_names(domains)[measure.by].code]
        low, high = (of_group(group, bounds, "float64") for bounds in (measure.bottoms, measure.tops))
        most, step = of_group(group, measure.widths, "int64"), measure.grid
        value = number_of(table, raw[measure.of])
        # Clamped before it is put on the grid, so that nothing overflows, and after: nothing rounds out.
        shifted = (_between(value, low, high) - low) * step.denominator / step.numerator
        found = {f"{name}_value": _whole(value, shifted, most)}
    if measure.weight is not None:
        weight = number_of(table, raw[measure.weight.column])
        most = measure.weight.end
        found[f"{name}_weight"] = _whole(weight, _between(weight, 0.0, float(most)), most)
    return found


def as_item(value: Any) -> Any:
    """Return a raw value as text that tells null from any value, and can be strung together with others."""
    text = value.cast("string")
    # With its length before it: what is strung together in an order must not be read in two ways.
    marked = text.length().cast("string").concat(":", text)
    return ibis.ifelse(is_missing(value), ibis.literal(NO_ITEM), marked)


def accumulate(
    array: Counts,
    cells: Counts,
    measure: Measure,
    value: Counts,
    weight: Counts | None,
    groups: Counts | None = None,
) -> None:
    """Add a batch of records to the array of a measure, in place.

    Parameters
    ----------
    array
        Flat: the parts of each cell side by side.
    cells
        The cell of each record.
    value, weight
        As `engine_columns` has them.
    groups
        The group of each record, where bounds differ by groups.
    """
    some = value != NOTHING
    if weight is not None:
        some &= weight != NOTHING
    at, steps = cells[some].astype(np.int64), value[some].astype(np.int64)
    times = np.int64(1) if weight is None else weight[some].astype(np.int64)
    group = np.int64(0) if groups is None else groups[some]
    low, width = (np.array(each, np.int64)[group] for each in (measure.lows, measure.widths))
    weights = np.broadcast_to(times, steps.shape)
    if measure.by_value:
        powers = [weights, steps]
    else:
        powers = [weights * steps**power for power in range(measure.powers + 1)]
    measure.add(array, at, powers, low, width)


def _between(value: Any, low: Any, high: Any) -> Any:
    return ibis.cases((value < low, low), (value > high, high), else_=value)


def _whole(known: Any, value: Any, most: Any) -> Any:
    """Return a number of 0 to ``most``, rounded, as a whole one; `NOTHING` where ``known`` is null."""
    # Halves go up, on which engines' own rounding does not agree; the difference is exact, the value >= 0.
    floor = value.floor().cast("float64")
    rounded = (floor + ibis.ifelse(value - floor >= 0.5, 1.0, 0.0)).cast("int64")
    inside = ibis.cases((rounded < 0, 0), (rounded > most, most), else_=rounded)
    return ibis.ifelse(known.isnull(), NOTHING, inside).cast("int64")
