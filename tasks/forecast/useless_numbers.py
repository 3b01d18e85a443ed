"""Numbers that noise will drown in a typical cell, and what would help.

A count is of little use where its margin reaches a part of it, a sum likewise, of values half as large as
their bounds allow; a mean or quantile where it reaches half the width of the bounds, which are known without
a release; a rate where it reaches a quarter of all. A number that a release will not even show is of none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tabularium.mechanisms.accounting import Definition
from tabularium.tasks.forecast.forecast import Expected, InCell
from tabularium.tasks.plan.figures import in_figures
from tabularium.validations.spec.measures.measure import OF_SUM

_TIMES = (1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0)


def largest_useful(expected: Expected, records: float) -> float:
    """Return the margin from which on a number of a cell of so many records is of little use."""
    measure = expected.measure
    return OF_SUM * records if measure is None else measure.largest_useful(records)


def useless(expected: Expected, cell: InCell) -> bool:
    """Whether noise drowns a number in this cell."""
    return not cell.shown or cell.margin >= largest_useful(expected, cell.records)


def warnings_of(numbers: Sequence[Expected], definition: Definition) -> Iterator[str]:
    """Yield a line for every number that is useless in typical cells, at the coarsest level where it is."""
    levels: dict[tuple[str, str, str], list[Expected]] = {}
    for each in numbers:
        if each.in_cells is not None:
            levels.setdefault((each.table, each.name, each.group), []).append(each)
    for own in levels.values():
        drowned = [each for each in own if useless(each, each.in_cells[0])]  # type: ignore[index]
        if drowned:
            first = drowned[0]  # levels stand root first
            finer = len(drowned) > 1
            coarser = next((each.level for each in reversed(own) if each not in drowned), None)
            yield _in_words(first, finer=finer, coarser=coarser, definition=definition)


def where_of(expected: Expected) -> str:
    """Return table, level, number and group in a few words."""
    level = f" at level {expected.level}" if expected.level else ""
    group = f", {expected.group}" if expected.group else ""
    return f"table {expected.table}, {expected.name}{group}{level}"


def _in_words(first: Expected, *, finer: bool, coarser: str | None, definition: Definition) -> str:
    cell, measure = first.in_cells[0], first.measure  # type: ignore[index]
    of = f"in a typical cell of {in_figures(cell.records)}"
    unit = f" {measure.shown_unit}" if measure is not None and measure.shown_unit else ""
    if measure is not None and measure.test is None and not measure.linear:
        of += f", and its bounds are {measure.top - measure.bottom:,} apart"
    said = f"±{in_figures(cell.margin)}{unit} {of}" if cell.shown else f"not even shown {of}"
    where = where_of(first) + (" and below" if finer else "")
    return f"{where}: {said}; what helps: {_helps(first, cell, coarser, definition)}"


def _helps(first: Expected, cell: InCell, coarser: str | None, definition: Definition) -> str:
    helps = []
    times = next((each for each in _TIMES if _enough(first, cell.records, each)), None)
    if times is not None:
        more = times if definition == "pure" else times**2
        helps.append(f"about {math.ceil(10 * more) / 10:g} times the budget")
    helps.append("fewer cells" if coarser is None else f"no level below {coarser}")
    if first.measure is not None and first.measure.of in first.measure.columns:
        helps.append("narrower bounds")
    return f"{', '.join(helps[:-1])} or {helps[-1]}" if len(helps) > 1 else helps[0]


def _enough(first: Expected, records: float, times: float) -> bool:
    assert first.number is not None  # noqa: S101 - it has cells
    narrow = first.number.margin(records, times) < largest_useful(first, records)
    return narrow and first.number.shown(records, times)
