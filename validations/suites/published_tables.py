"""The suites for true counts and for tables about to be published: levels add up, tables agree.

`check_table` counts the cells that fail the rules and decides whether a table may be published;
`table_faults` names the cells, also of what may be published all the same: margins of error that are missing,
differences that rounding could not avoid.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabularium.mechanisms.arrays import strips
from tabularium.mechanisms.errors import RuleFailed
from tabularium.mechanisms.inference import Hierarchy
from tabularium.validations.release_spec.publication import PostProcessing
from tabularium.validations.suites.expectations import Bound, Expected, Number, RuleResult, Same, check_suite

Codes = Callable[[int, int], dict[str, str]]
"""Row and column of a table to the code of every dimension there."""

MOST = 20
"""Cells of one check that are named; the others are counted."""

NO_NUMBER = "no number"
NOT_INTEGERS = "not a whole number"
NEGATIVE = "negative"
NOT_THE_SUM = "not the sum of its parts"
NO_MARGIN = "no margin of error"

_SLACK = 1e-9  # relative, for sums of doubles
_EXACT = 2.0**53  # below it a double holds every whole number


@dataclass(frozen=True)
class Fault:
    """Cells that fail one check.

    Attributes
    ----------
    table
        Name of the table, or of the first of two that differ.
    check
        What is wrong with the cells, in words.
    cells
        The first of them, by the codes of their dimensions.
    count
        The number of all of them.
    """

    table: str
    check: str
    cells: tuple[dict[str, str], ...]
    count: int

    def lines(self) -> Iterator[str]:
        """Yield one line for every cell that is named, and one for the others."""
        for codes in self.cells:
            where = ", ".join(f"{name} {code}" for name, code in codes.items()) or "the only cell"
            yield f"table {self.table}: {where}: {self.check}"
        if self.count > len(self.cells):
            yield f"table {self.table}: {self.count - len(self.cells):,} cells more: {self.check}"


def faults_in(table: str, check: str, failing: NDArray[np.bool_], codes: Codes) -> list[Fault]:
    """Return the fault of the cells (rows, columns) that fail a check: a list of one, empty if none fails."""
    places = np.flatnonzero(failing)
    if not len(places):
        return []
    named = tuple(codes(*divmod(int(index), failing.shape[1])) for index in places[:MOST])
    return [Fault(table, check, named, len(places))]


def table_faults(
    table: str,
    parents: NDArray[np.int64],
    values: NDArray[Any],
    codes: Codes,
    *,
    promised: PostProcessing,
    margins: NDArray[np.float64] | None = None,
) -> list[Fault]:
    """Return what is wrong with a table, check by check.

    Parameters
    ----------
    parents
        (nodes,) parent of each node, -1 for a root.
    values
        (nodes, cells) published numbers.
    codes
        What a row and column are about.
    promised
        The steps of post-processing that were done: what they do not promise is not checked.
    margins
        (nodes, cells) half-widths, infinite where there is none; not checked if None.
    """
    failing = failing_cells(parents, values, promised)
    if margins is not None:
        failing = chain(failing, _without_margin(margins))
    named: dict[str, list[dict[str, str]]] = {}
    counts: Counter[str] = Counter()
    for check, nodes, mask in failing:
        counts[check] += int(mask.sum())
        cells = named.setdefault(check, [])
        places = np.flatnonzero(mask)[: MOST - len(cells)] if mask.any() else ()
        cells += [codes(int(nodes[index // mask.shape[1]]), int(index % mask.shape[1])) for index in places]
    return [Fault(table, check, tuple(named[check]), count) for check, count in counts.items() if count]


def failing_cells(
    parents: NDArray[np.int64], values: NDArray[Any], promised: PostProcessing
) -> Iterator[tuple[str, NDArray[np.intp], NDArray[np.bool_]]]:
    """Yield check, nodes, and (nodes, cells) whether a cell fails it: some nodes at a time.

    Each of `NO_NUMBER` and the promised checks comes at least once.
    """
    for rows in strips(*values.shape):
        nodes, some = np.arange(rows.start, rows.stop), values[rows]
        finite = np.isfinite(some)
        yield NO_NUMBER, nodes, ~finite
        if promised.rounding:
            yield NOT_INTEGERS, nodes, finite & (some != np.rint(some))
        if promised.nonnegativity:
            yield NEGATIVE, nodes, finite & (some < 0)
    if promised.consistency:
        yield NOT_THE_SUM, np.zeros(0, np.intp), np.zeros((0, values.shape[1]), bool)
        yield from _not_the_sum(Hierarchy(parents), values)


def _without_margin(
    margins: NDArray[np.float64],
) -> Iterator[tuple[str, NDArray[np.intp], NDArray[np.bool_]]]:
    for rows in strips(*margins.shape):
        some = margins[rows]
        yield NO_MARGIN, np.arange(rows.start, rows.stop), ~np.isfinite(some) | (some < 0)


def differing(one: NDArray[Any], other: NDArray[Any], slack: ArrayLike) -> NDArray[np.bool_]:
    """Return where two arrays of one shape differ: whole numbers at all, others by more than ``slack``.

    What is not a number differs from everything.
    """
    if _are_integers(one) and _are_integers(other):
        slack = 0
    with np.errstate(invalid="ignore"):
        near: NDArray[np.bool_] = np.abs(one - other) <= slack
    return ~near


def _not_the_sum(
    tree: Hierarchy, values: NDArray[Any]
) -> Iterator[tuple[str, NDArray[np.intp], NDArray[np.bool_]]]:
    """Yield inner nodes, and which of their cells differ from the sums of their children."""
    for block in tree.down(values.shape[1]):
        below = values[block.children]
        with np.errstate(invalid="ignore"):
            slack = _SLACK * block.total(np.abs(below)) + _SLACK
            sums = block.total(below)
        yield NOT_THE_SUM, block.parents, differing(sums, values[block.parents], slack)


def _are_integers(values: NDArray[Any]) -> bool:
    if not np.issubdtype(values.dtype, np.floating):
        return True
    return bool(((values == np.rint(values)) & (np.abs(values) < _EXACT)).all())


_RULES = {NOT_INTEGERS: "integral", NEGATIVE: "non-negative", NOT_THE_SUM: "additive"}


def check_table(
    name: str,
    parents: NDArray[np.int64],
    values: NDArray[Any],
    *,
    promised: PostProcessing,
    cells: int | None = None,
    results: Path | None = None,
) -> tuple[RuleResult, ...]:
    """Check a table about to be published.

    Returns a result per rule: ``complete``, then ``integral``, ``non-negative`` and ``additive`` as promised.

    Parameters
    ----------
    name
        Of the table; it names the suite.
    parents
        (nodes,) parent of each node, -1 for a root, parents before their children.
    values
        (nodes, cells) in the order of the tree's nodes.
    promised
        The steps of post-processing that were done; a rule that none of them promises is left out.
    cells
        Number of cells per node in the declared domain; not checked if None.
    results
        File for the results of Great Expectations; nowhere if None.
    """
    fits = values.ndim == 2 and len(values) == len(parents)
    # A table of another shape has no family to add up: what holds for each cell by itself is checked still.
    tree = parents if fits else np.full(len(values), -1)
    totals: Counter[str] = Counter()
    for check, _, mask in failing_cells(tree, values.reshape(len(tree), -1), promised):
        totals[check] += int(mask.sum())
    misfits = int(not fits) + int(cells is not None and values.shape[1:] != (cells,))
    if not fits and promised.consistency:
        totals[NOT_THE_SUM] = 1
    numbers: dict[str, list[Number]] = {"complete": [misfits + totals.pop(NO_NUMBER)]}
    numbers |= {_RULES[check]: [count] for check, count in totals.items()}
    return check_suite(
        f"publication of {name}", numbers, [Bound(rule, rule, 0, 0) for rule in numbers], results
    )


def check_agreement(differences: int, *, named: int, results: Path | None = None) -> tuple[RuleResult, ...]:
    """Check that tables show the same numbers where they share them.

    Returns one result: ``in agreement``, which holds when no difference goes unnamed.

    Parameters
    ----------
    differences
        Shared numbers, over all pairs of tables, on which the two differ.
    named
        How many of them rounding could not avoid, and has named.
    """
    numbers: dict[str, list[Number]] = {"unnamed": [abs(differences - named)]}
    return check_suite("agreement of tables", numbers, [Bound("in agreement", "unnamed", 0, 0)], results)


# All tables of one universe are counted over the same records, hence the totals of all their levels are
# equal. The totals are confidential and stay here.


@dataclass(frozen=True)
class CountedTable:
    """What is checked of one counted table and level: never its cells."""

    total: int
    smallest: int
    shape: tuple[int, ...]
    declared: tuple[int, ...]
    where: str = ""
    impossible: int = 0  # what was counted where nobody can be
    adds_up: bool = True


def check_counts(
    tables: Mapping[tuple[str, str], CountedTable], results: Path | None = None
) -> tuple[RuleResult, ...]:
    """Check counted tables.

    Parameters
    ----------
    tables
        (table, level) -> what was counted.
    results
        File for the results of Great Expectations inside the secure workspace.

    Raises
    ------
    RuleFailed
        If a rule fails: then the counting is wrong, not the data.
    """
    counted = list(tables.values())
    universes = list(dict.fromkeys(table.where for table in counted))
    numbers: dict[str, list[Number]] = {
        f"total{index}": [table.total if table.where == where else None for table in counted]
        for index, where in enumerate(universes)
    }
    numbers |= {
        "smallest": [table.smallest for table in counted],
        "undeclared": [int(table.shape != table.declared) for table in counted],
        "impossible": [table.impossible for table in counted],
    }
    suite: tuple[Expected, ...] = (
        *(Same("totals equal", f"total{index}") for index in range(len(universes))),
        Bound("counts non-negative", "smallest", 0),
        Bound("shapes as declared", "undeclared", 0, 0),
        Bound("impossible cells empty", "impossible", 0, 0),
    )
    verdicts = check_suite("counts", numbers, suite, results)
    failed = [verdict.name for verdict in verdicts if not verdict.passed]
    if failed:
        raise RuleFailed(
            f"the counts break {', '.join(failed)}",
            where="counts",
            hint="the source may have changed while it was read: run again, and report it if it stays",
        )
    return verdicts


def check_sums(
    most: Mapping[str, int],
    tables: Mapping[tuple[str, str], CountedTable],
    sums: Mapping[tuple[str, str], CountedTable],
    results: Path | None = None,
) -> tuple[RuleResult, ...]:
    """Check the arrays of measures: their levels add to the same, and to no more than the records can add.

    Where numbers do not add up those of a level come to no less than those of the level above.

    Parameters
    ----------
    most
        Array -> the most that one record adds.
    tables, sums
        (table, level) and (array, level) -> what was counted.

    Raises
    ------
    RuleFailed
        If a rule fails: then the adding up is wrong, not the data.
    """
    records = {table: counted.total for (table, _), counted in tables.items()}
    first: dict[str, int] = {}
    numbers: dict[str, list[Number]] = {"apart": [], "beyond": [], "undeclared": []}
    for (array, _), total in sums.items():
        bound = most[array] * records[array.partition("-")[0]]
        apart = total.total - first.setdefault(array, total.total)
        numbers["apart"].append(apart if total.adds_up else min(apart, 0))
        numbers["beyond"].append(int(abs(total.total) > bound or total.smallest < -bound))
        numbers["undeclared"].append(int(total.shape != total.declared))
    suite = (
        Bound("levels add to the same", "apart", 0, 0),
        Bound("sums within their bounds", "beyond", 0, 0),
        Bound("shapes as declared", "undeclared", 0, 0),
    )
    verdicts = check_suite("sums", numbers, suite, results)
    failed = [verdict.name for verdict in verdicts if not verdict.passed]
    if failed:
        raise RuleFailed(
            f"the sums break {', '.join(failed)}",
            where="measures",
            hint="the source may have changed while it was read: run again, and report it if it stays",
        )
    return verdicts
