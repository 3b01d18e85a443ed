"""The output of `check` for a valid spec: what is published, what it costs, and how accurate it will be."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tabularium.mechanisms.accounting import Definition
from tabularium.tasks.forecast.forecast import Expected, InCell
from tabularium.tasks.plan.targets import in_figures
from tabularium.validations.release_spec.exact_facts import Neighbours, in_words, stopping
from tabularium.validations.release_spec.measures.kinds import KINDS
from tabularium.validations.release_spec.measures.measure import OF_SUM
from tabularium.validations.release_spec.privacy import Privacy
from tabularium.validations.release_spec.summary import Summary

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as Grid

_NOTHING = "-"
_NEEDS_SIZE = "needs size:"


def render(summary: Summary, expected: Sequence[Expected], account: str | None = None) -> RenderableType:
    """Return the description of a spec as a `rich` renderable.

    Parameters
    ----------
    expected
        Of every number that it publishes.
    account
        What its account can pay; None where no home is there.
    """
    from rich.console import Group
    from rich.text import Text

    definition = summary.spec.privacy.definition
    lines = [
        *_about_margins(summary, expected),
        *(f"Hardly useful: {line}" for line in warnings_of(expected, definition)),
        *([] if account is None else [account]),
        *_outside(summary),
        *_rules(summary),
        *(f"Note: {line}" for line in summary.advice),
    ]
    head = [_head(summary), *([summary.kept] if summary.kept else [])]
    return Group(
        *(Text(line) for line in head),
        _measured(summary),
        _worth(summary, expected),
        *(Text(line) for line in lines),
    )


def _head(summary: Summary) -> str:
    spec, privacy = summary.spec, summary.spec.privacy
    head = (
        f"{spec.product} {spec.period}: {summary.price} from account {spec.dataset}, "
        f"for one {privacy.protects}, {privacy.relation}"
    )
    if summary.tallies:
        head += (
            f"; {spec.tally_amount} for tallies, spent whatever they say, and {spec.main_amount} after them"
        )
    if privacy.record_budget != privacy.budget:
        head += f"; {privacy.symbol} = {privacy.record_budget} per record"
    return head


def _grid(*titles: str) -> Grid:
    """Return an empty grid; columns whose title begins with ``>`` hold numbers."""
    from rich.table import Table as Grid

    grid = Grid()
    for title in titles:
        numbers = title.startswith(">")
        grid.add_column(title.removeprefix(">"), justify="right" if numbers else "left", overflow="fold")
    return grid


def _measured(summary: Summary) -> Grid:
    """Return the table of measurements and their costs."""
    from rich.text import Text

    symbol = summary.spec.privacy.symbol
    grid = _grid("table", "level", "mechanism", ">cells", f">{symbol} per record", ">noise scale")
    for table in summary.tables:
        for level in table.levels:
            grid.add_row(
                Text(table.name),
                Text(": ".join(filter(None, (level.level, level.group))) or _NOTHING),
                Text(table.mechanism if table.measure is None else table.measure),
                f"{level.cells:,}",
                str(level.loss),
                _NOTHING if level.scale is None else f"{level.scale:.4g}",
            )
    for histogram in summary.histograms:
        grid.add_row(
            Text(histogram.name),
            _NOTHING,
            Text(f"sizes of {histogram.of}"),
            _NOTHING,
            str(histogram.loss),
            _NOTHING,
        )
    for tally in summary.tallies:
        cost = f"{tally['loss']} per unit"
        grid.add_row(
            *(Text(f"tally of {tally['of']}"), _NOTHING, tally["counts"], "1", cost, f"{tally['scale']:.4g}")
        )
    return grid


def _worth(summary: Summary, expected: Sequence[Expected]) -> Grid:
    """Return the table of expected margins."""
    from rich.text import Text

    sized = any(number.in_cells for number in expected)
    margin = f">± ({float(summary.spec.publication.confidence):.4g})"
    cells = (">typical cell", margin, ">small cell", ">±") if sized else (margin,)
    grid = _grid("published", "level", "number", *cells)
    for number in expected:
        grid.add_row(
            Text(number.table),
            Text(": ".join(filter(None, (number.level, number.group))) or _NOTHING),
            Text(_named(number)),
            *_margins(number, sized=sized),
        )
    for tally in summary.tallies:
        empty = (_NOTHING,) * (len(cells) - 1)
        at = (_NOTHING, f"{tally['margin']:,}", *empty[1:]) if sized else (f"{tally['margin']:,}",)
        grid.add_row(Text(f"tally of {tally['of']}"), _NOTHING, tally["counts"], *at)
    return grid


def _named(expected: Expected) -> str:
    measure = expected.measure
    if measure is None:
        return expected.name
    unit = f", {measure.shown_unit}" if measure.shown_unit not in (None, measure.kind) else ""
    return f"{expected.name} ({measure.in_words}{unit})"


def _margins(expected: Expected, *, sized: bool) -> Iterator[str]:
    """Yield the columns of margins."""
    if expected.in_cells is not None:
        for cell in expected.in_cells:
            yield _records(cell.records)
            yield _margin(expected, cell)
        return
    note = _NEEDS_SIZE
    if expected.number is None:
        note = "depends on data"
    elif expected.of_noise is not None:
        note = in_figures(expected.of_noise)
    yield from (_NOTHING, note, _NOTHING, note) if sized else (note,)


def _margin(expected: Expected, cell: InCell) -> str:
    if not cell.shown:
        return "not shown"
    if math.isinf(cell.margin):
        return "unbounded"
    return f"{'≥ ' if expected.at_least else ''}{in_figures(cell.margin)}"


def _records(records: float) -> str:
    return f"{records:,.0f}" if records >= 10 else f"{records:.2g}"


def _about_margins(summary: Summary, expected: Sequence[Expected]) -> Iterator[str]:
    """Yield notes on reading the margins, for the kinds that occur."""
    agree = summary.spec.postprocessing.consistency
    yield (
        "± is the margin of error to expect"
        + (" once tables and levels agree" if agree else "")
        + ("; small counts have less." if summary.spec.postprocessing.nonnegativity else ".")
    )
    notes = {number.measure.margin_note for number in expected if number.measure is not None}
    sized = [number for number in expected if number.in_cells]
    if any(number.released for number in sized):
        yield "A typical cell has the median of the release's cells that hold something, a small one a tenth."
    if any(not number.released for number in sized):
        yield "A typical cell has the records of its table over the cells of its level, a small one a tenth."
    for note in dict.fromkeys(kind.margin_note for kind in KINDS):
        if note is not None and note in notes:
            yield note
    if any(table.prior for table in summary.spec.tables):
        names = [table.name for table in summary.spec.tables if table.prior]
        yield f"Drawn towards their prior, counts of {', '.join(names)} mostly have less."
    if any(number.at_least for number in expected):
        yield "≥: if every weight were the largest; with smaller ones wider, or the number is not shown."
    without = list(dict.fromkeys(number.table for number in expected if _lacks_size(number)))
    if without:
        tables = ", ".join(without)
        yield (
            f"needs size: say about how many records {tables} will count, from what is public and never from "
            "the data (size: 50000), or name a release that was published (--like)."
        )


def _lacks_size(expected: Expected) -> bool:
    return expected.number is not None and expected.typical is None and expected.of_noise is None


def _outside(summary: Summary) -> Iterator[str]:
    facts = [fact.what for fact in summary.exact]
    if summary.near.fixed is not None:
        facts.append(_nearest(summary.spec.privacy, summary.near))
    if facts:
        yield (
            f"Outside the guarantee: whatever {summary.spec.privacy.symbol} is, who sees the release knows "
            "for certain:"
        )
        yield from (f"  {fact}" for fact in facts)


def _rules(summary: Summary) -> Iterator[str]:
    exact = stopping(summary.spec)
    for rule in summary.spec.rules:
        if rule not in exact:
            warns = ", which only warns" if rule.severity == "warn" else ""
            yield f"Rule {rule.name}{warns}: {in_words(rule)}"
    review = summary.spec.publication.review
    if review is not None:
        yield f"Review: an officer may withhold it before it is published ({', '.join(review.criteria)})"


def _nearest(privacy: Privacy, near: Neighbours) -> str:
    """Describe the guarantee under a fixed total."""
    if near.units == 0:
        return f"the invariants fix every number of the tables, and {privacy.symbol} protects nothing in them"
    cost = f"{privacy.symbol} = {near.loss.amount}"
    if near.units is None:
        return (
            f"a total is fixed; replacing one unit costs {cost}, and not every one can be replaced by itself"
        )
    what = "one" if near.units == 1 else str(near.units)
    return f"a total is fixed: the smallest change that keeps it replaces {what}, which costs {cost}"


# --- numbers that noise will drown in a typical cell, and what would help
#
# A count is of little use where its margin reaches a part of it; so is a sum, of values half as large as
# their bounds allow; a mean or quantile where it reaches half the width of the bounds, which are known
# without a release; a rate where it reaches a quarter of all. A number that a release will not even show is
# of none.

_TIMES = (1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 50.0, 100.0)


def largest_useful(expected: Expected, records: float) -> float:
    """Return the smallest margin at which a number of a cell of so many records is of little use."""
    measure = expected.measure
    return OF_SUM * records if measure is None else measure.largest_useful(records)


def useless(expected: Expected, cell: InCell) -> bool:
    """Whether noise drowns a number in this cell."""
    return not cell.shown or cell.margin >= largest_useful(expected, cell.records)


def warnings_of(numbers: Sequence[Expected], definition: Definition) -> Iterator[str]:
    """Yield a line for every number that is useless in typical cells, at its coarsest such level."""
    levels: dict[tuple[str, str, str], list[Expected]] = {}
    for number in numbers:
        if number.in_cells is not None:
            levels.setdefault((number.table, number.name, number.group), []).append(number)
    for numbers_of_level in levels.values():
        drowned = [number for number in numbers_of_level if useless(number, number.in_cells[0])]  # type: ignore[index]
        if drowned:
            first = drowned[0]  # levels stand root first
            finer = len(drowned) > 1
            coarser = next(
                (number.level for number in reversed(numbers_of_level) if number not in drowned), None
            )
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
    words = f"±{in_figures(cell.margin)}{unit} {of}" if cell.shown else f"not even shown {of}"
    where = where_of(first) + (" and below" if finer else "")
    return f"{where}: {words}; what helps: {_helps(first, cell, coarser, definition)}"


def _helps(first: Expected, cell: InCell, coarser: str | None, definition: Definition) -> str:
    helps = []
    times = next((factor for factor in _TIMES if _enough(first, cell.records, factor)), None)
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
