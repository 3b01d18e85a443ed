"""The suite for true counts: equal totals, no negative count, nobody in impossible cells, shapes as declared.

All tables of one universe are counted over the same records, hence the totals of all their levels are
equal. The totals are confidential and stay here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tabularium.mechanisms.errors import RuleFailed
from tabularium.validations.suites.expectations import Bound, Expected, Number, RuleResult, Same, check_suite


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
        f"total{place}": [table.total if table.where == where else None for table in counted]
        for place, where in enumerate(universes)
    }
    numbers |= {
        "smallest": [table.smallest for table in counted],
        "undeclared": [int(table.shape != table.declared) for table in counted],
        "impossible": [table.impossible for table in counted],
    }
    suite: tuple[Expected, ...] = (
        *(Same("totals equal", f"total{place}") for place in range(len(universes))),
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
    results
        As for counts.

    Raises
    ------
    RuleFailed
        If a rule fails: then the adding up is wrong, not the data.
    """
    records = {table: counted.total for (table, _), counted in tables.items()}
    first: dict[str, int] = {}
    numbers: dict[str, list[Number]] = {"apart": [], "beyond": [], "undeclared": []}
    for (array, _), found in sums.items():
        bound = most[array] * records[array.partition("-")[0]]
        apart = found.total - first.setdefault(array, found.total)
        numbers["apart"].append(apart if found.adds_up else min(apart, 0))
        numbers["beyond"].append(int(abs(found.total) > bound or found.smallest < -bound))
        numbers["undeclared"].append(int(found.shape != found.declared))
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
