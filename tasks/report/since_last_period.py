"""Changes since the last period, in the tables, measures and cells that both releases have.

The noise of two releases is drawn independently, so that where it has a known distribution the margin of a
difference is about the root of the sum of the squared margins. So it is for means and medians, whose
intervals come from tests: the root of the squared distances to the ends bounds the difference (Zou and Donner
2008, who recover variances from the limits of intervals), and a margin is the farther end. What a mechanism
merges or drops is no independent noise, and the margins of such tables bound averages: there no margin of a
difference is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.arrays import strips
from tabularium.mechanisms.errors import InputError, PublicationError
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.publish.frames import ROWS
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.report.released_cells import Floats, ReleasedCells, ask, in_words
from tabularium.tasks.report.wording import listed
from tabularium.validations.derivation import tested_by
from tabularium.validations.release_spec.columns import Derivation
from tabularium.validations.release_spec.measures.measure import Measure
from tabularium.validations.release_spec.source import taken_from
from tabularium.validations.universes.universe import test_of, universe_of

Ints = NDArray[np.int64]

INDEPENDENT = frozenset({"exact", "simulated", "inverted"})
LARGEST = 8
"""Differences that are listed for each table."""


@dataclass(frozen=True)
class Difference:
    """One cell in both periods; margins are None where none is given."""

    level: str
    what: str
    before: float
    now: float
    margin: float | None

    @property
    def change(self) -> float:
        """The increase of the count."""
        return self.now - self.before

    @property
    def exceeds(self) -> bool:
        """Whether the difference is larger than its margin."""
        return self.margin is not None and abs(self.change) > self.margin


@dataclass(frozen=True)
class ComparedLevel:
    """All cells of a level that both releases have.

    Attributes
    ----------
    median_change
        The median of the absolute differences.
    median_margin
        The median of their margins; None where none is given.
    compared, beyond
        How many have a margin, and how many of these differ by more.
    """

    level: str
    cells: int
    median_change: float
    median_margin: float | None
    compared: int
    beyond: int


@dataclass(frozen=True)
class ComparedTable:
    """A table that both releases have.

    Attributes
    ----------
    not_given
        Why differences have no margin; None where they have.
    left_out
        Cells of this release that the last one did not have.
    """

    name: str
    levels: list[ComparedLevel]
    largest: list[Difference]
    not_given: str | None
    left_out: int


@dataclass(frozen=True)
class ComparedMeasure:
    """A measure of a table that both releases have, compared, or the reason why not."""

    name: str
    title: str
    found: ComparedTable | str


def last_of(folder: Path | None) -> Released | None:
    """Read the last period's release; None where there is none that can be read."""
    if folder is None:
        return None
    try:
        return Released.open(folder)
    except (InputError, PublicationError):
        return None


def compared(now: Released, numbers: ReleasedCells, last: Released) -> ComparedTable | str:
    """Compare a table with the one of that name in the last release, or say why not."""
    name = numbers.layout.table.name
    return _incomparable(now, last, name) or _compared(now, numbers, last)


def comparable(
    now: Released, last: Released, name: str, measure: str | None = None
) -> tuple[bool, str | None]:
    """Say whether a table of two releases, or a measure of it, can be compared.

    Returns whether it can, and why it cannot, or has no margins then.
    """
    if name not in now.layouts:
        return False, "only the earlier one has it, or it is a histogram"
    why = _incomparable(now, last, name)
    if why is None and measure is not None:
        why = _measure_incomparable(now, last, name, measure)
    return (True, _not_given(now, last, name, measure)) if why is None else (False, why)


def margin_of_difference(one: Floats, other: Floats) -> Floats:
    """Return the margins of differences of numbers whose noise is independent."""
    margin: Floats = np.hypot(one, other)
    return margin


def _incomparable(now: Released, last: Released, name: str) -> str | None:
    if name not in last.layouts or not _same_tree(now.layouts[name], last.layouts[name]):
        return _NO_SUCH_TABLE
    for what, of in _WHO_IS_COUNTED.items():
        if of(now, name) != of(last, name):
            return f"It is not compared with the last release, because {what}."
    return None


def compared_measures(now: Released, numbers: ReleasedCells, last: Released) -> list[ComparedMeasure]:
    """Compare the measures of a table whose counts can be compared with those of the last release."""
    table = numbers.layout.table
    compared: list[ComparedMeasure] = []
    for name, measure in table.measures.items():
        why = _measure_incomparable(now, last, table.name, name)
        result = why or _compared(now, ReleasedCells(now, table.name, name), last, name)
        compared.append(ComparedMeasure(name, measure.title or name.replace("_", " "), result))
    return compared


def _measure_incomparable(now: Released, last: Released, table: str, name: str) -> str | None:
    """Return why a measure of a table that can be compared cannot be, or None."""
    measures, before = (release.layouts[table].table.measures for release in (now, last))
    if name not in measures:
        return "This release has no measure of this name."
    if name not in before:
        return "The last release has no measure of this name."
    return _measured_otherwise(measures[name], before[name]) or _tested_otherwise(measures[name], now, last)


def _measured_otherwise(measure: Measure, before: Measure) -> str | None:
    """Return why two measures of one name do not measure the same, or None."""
    one, other = (
        either.model_dump(mode="json", by_alias=True, exclude=_MAY_DIFFER) for either in (measure, before)
    )
    fields = [field for field in one | other if one.get(field) != other.get(field)]
    if not fields:
        return None
    return f"It is not compared with the last release, because its {listed(fields)} {_WAS[len(fields) > 1]}."


def _tested_otherwise(measure: Measure, now: Released, last: Released) -> str | None:
    """Return why a test of records, or the denominator of a rate, differs from the last release."""
    tested = [] if measure.test is None else test_of(measure.test, now.loaded.domains).about
    for column in tested:
        if now.spec.columns.get(column) != last.spec.columns.get(column):
            return f"It is not compared with the last release, because the column {column} is another."
    over = [
        {
            (table.where, table.dimensions)
            for table in release.spec.tables
            if table.name == measure.denominator
        }
        for release in (now, last)
    ]
    if over[0] != over[1]:
        return "It is not compared with the last release, because the table that it is over is another."
    return None


def _compared(
    now: Released, numbers: ReleasedCells, last: Released, measure: str | None = None
) -> ComparedTable | str:
    name = numbers.layout.table.name
    before = ReleasedCells(last, name, measure)
    why = _not_given(now, last, name, measure)
    here, there = _common(numbers.layout, before.layout)
    levels: list[ComparedLevel] = []
    most: list[tuple[float, Difference]] = []
    # Differences are ranked by their margins, and none of these is taken for less than what is shown.
    least = 1.0 if measure is None else 10.0 ** -numbers.layout.table.measures[measure].decimals
    common = 0
    for level, mine, other in _by_level(numbers, before):
        pairs = _Pairs(numbers, before, (mine, here), (other, there), margins=why is None)
        line = _level(level, pairs)
        if line is None:
            continue
        common += line.cells
        levels.append(line)
        most += _largest(numbers.layout, level, pairs, least)
    if not levels:
        return _NO_SUCH_TABLE
    most.sort(key=lambda change: -change[0])
    return ComparedTable(name, levels, [change for _, change in most[:LARGEST]], why, numbers.rows - common)


def _same_tree(here: Layout, there: Layout) -> bool:
    """Whether two tables have the same dimensions and universe, and a hierarchy along the same one."""
    one, other = here.table, there.table
    return (one.dimensions, one.along, one.where) == (other.dimensions, other.along, other.where)


def _treated(released: Released, name: str) -> set[tuple[str | None, ...]]:
    """Return how columns treat nulls and values outside: the table's, and those that reject records."""
    columns = _columns_of(released, name)
    return {
        (column, about.nulls, about.invalid, about.other)
        for column, about in released.spec.columns.items()
        if column in columns or "reject" in (about.nulls, about.invalid)
    }


def _made_from(released: Released, name: str) -> dict[str, object]:
    """Return the source columns of the table, and the digests of its look-ups."""
    columns = released.spec.columns
    lookups = [lookup.model_dump(exclude={"reason"}) for lookup in released.certificate.lookups]
    return {
        "": lookups if any(_looked_up(released, column) for column in _columns_of(released, name)) else [],
        **{
            column: columns[column].model_dump(mode="json", include=set(Derivation.model_fields))
            for column in _columns_of(released, name)
        },
    }


def _looked_up(released: Released, column: str) -> bool:
    source = released.spec.columns[column].source_column or column
    return bool(taken_from(source, released.spec.lookups)[0])


def _columns_of(released: Released, name: str) -> list[str]:
    """Return the columns that a table crosses or tests, and those that select their cases."""
    table, domains = released.layouts[name].table, released.loaded.domains
    tested = [] if table.where is None else universe_of(table.where, domains).about
    columns = [*table.dimensions, *tested]
    return [
        *columns,
        *(test for column in columns for test in tested_by(released.spec.columns[column], domains)),
    ]


_MAY_DIFFER = {"share", "title"}
_WAS = ("is another", "are others")
_NO_SUCH_TABLE = "The last release has no table of this name with the same dimensions and cells."
_WHO_IS_COUNTED: dict[str, Callable[[Released, str], object]] = {
    "the privacy unit is another": lambda release, _: release.certificate.privacy.unit,
    "another part of each unit's records is counted": lambda release, name: (
        release.certificate.privacy.max_contributions,
        release.certificate.tables[name].counted,
    ),
    "nulls or values outside the domains are treated differently": _treated,
    "its columns are made from the source in another way": _made_from,
}
"""Why two tables of a name do not count the same -> what of a release and table then differs."""


def _not_given(now: Released, last: Released, name: str, measure: str | None) -> str | None:
    tables = [release.certificate.tables[name] for release in (now, last)]
    methods = {
        (entry if measure is None else (entry.measures or {})[measure]).margins.method for entry in tables
    }
    if now.certificate.measurements.digest == last.certificate.measurements.digest:
        return "both releases show the same measurements"
    if "prior" in methods:
        return "counts were drawn towards those of an earlier release, so that changes look too small"
    if "above" in methods:
        return "counts were drawn towards the level above, so that differences between areas look too small"
    if not methods <= INDEPENDENT:
        return "errors of this table are not only independent noise of a known distribution"
    if now.certificate.confidence != last.certificate.confidence:
        return "the two releases state their margins at different levels"
    return None


def _common(here: Layout, there: Layout) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the flat positions of the cells at a node that both tables have, by codes and labels."""
    own, other = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for mine, theirs in zip(here.others, there.others, strict=True):
        positions = {named: at for at, named in enumerate(zip(theirs.codes, theirs.labels, strict=True))}
        named = enumerate(zip(mine.codes, mine.labels, strict=True))
        pairs = [(at, positions[code]) for at, code in named if code in positions]
        first = np.array([pair[0] for pair in pairs], np.int64)
        second = np.array([pair[1] for pair in pairs], np.int64)
        own = (own[:, None] * mine.size + first).reshape(-1)
        other = (other[:, None] * theirs.size + second).reshape(-1)
    return own, other


def _by_level(
    now: ReleasedCells, before: ReleasedCells
) -> list[tuple[str, NDArray[np.int64], NDArray[np.int64]]]:
    """Return the levels of the same name with the nodes that both tables publish, by codes and labels."""
    if now.layout.along is None or before.layout.along is None:
        return [("", np.zeros(1, np.int64), np.zeros(1, np.int64))]
    nodes = {}
    for cells in (now, before):
        along = cells.layout.along
        assert along is not None  # noqa: S101 - both have one
        nodes[cells] = {
            (along.levels[along.depth[node]], along.node_codes[node], along.node_labels[node]): node
            for node in np.flatnonzero(cells.present)
        }
    shared = [(key, node, nodes[before][key]) for key, node in nodes[now].items() if key in nodes[before]]
    names = dict.fromkeys(key[0] for key, _, _ in shared)
    return [
        (
            name,
            np.array([node for key, node, _ in shared if key[0] == name], np.int64),
            np.array([node for key, _, node in shared if key[0] == name], np.int64),
        )
        for name in names
    ]


@dataclass(frozen=True, eq=False)
class _Pairs:
    """The cells of a level that both releases have, a part at a time.

    Attributes
    ----------
    here, there
        Nodes, and the cells at each of them, in this release and in the last one.
    margins
        Whether differences have margins.
    """

    now: ReleasedCells
    before: ReleasedCells
    here: tuple[Ints, Ints]
    there: tuple[Ints, Ints]
    margins: bool

    def parts(self) -> Iterator[tuple[int, Floats, Floats, Floats]]:
        """Yield the number of nodes before, then old and new numbers and margins of differences.

        All three (nodes, cells); margins are infinite where none is given.
        """
        for rows in strips(len(self.here[0]), max(self.now.layout.cells, self.before.layout.cells), ROWS):
            old, wide = (array[:, self.there[1]] for array in self.before.at(self.there[0][rows]))
            new, narrow = (array[:, self.here[1]] for array in self.now.at(self.here[0][rows]))
            margin = margin_of_difference(wide, narrow) if self.margins else np.full(new.shape, np.inf)
            yield rows.start, old, new, margin


_CHANGES = """
    select count(*), quantile_disc(away, 0.5), quantile_disc(margin, 0.5), count(margin),
        count(*) filter (away > margin)
    from (select abs(new - old) as away, margin from cells where old is not null and new is not null)"""


def _level(name: str, pairs: _Pairs) -> ComparedLevel | None:
    """Compare the cells of a level that both releases show; None where there are none."""
    parts = (
        {"old": old.reshape(-1), "new": new.reshape(-1), "margin": margin.reshape(-1)}
        for _, old, new, margin in pairs.parts()
    )
    (row,) = ask(_CHANGES, parts)
    return ComparedLevel(name, *row) if row[0] else None


def _largest(layout: Layout, level: str, pairs: _Pairs, least: float) -> list[tuple[float, Difference]]:
    """Return the largest differences relative to their margins, or absolute ones where none is given."""
    in_both: list[tuple[float, Difference]] = []
    without_margins: list[tuple[float, Difference]] = []
    any_known = False
    for done, old, new, margin in pairs.parts():
        known = np.isfinite(margin)
        away = np.nan_to_num(np.abs(new - old))
        any_known = any_known or bool(known.any())
        rank = np.where(known, away / np.where(known, np.maximum(margin, least), 1), -1.0)
        for differences, by in ((in_both, rank), (without_margins, away)):
            if by is away and any_known:
                continue
            most = min(LARGEST, by.size)
            chosen = np.argpartition(-by, most - 1, axis=None)[:most]
            for flat in sorted(chosen.tolist(), key=lambda at, by=by: (-by.flat[at], at)):  # type: ignore[misc]
                row, column = np.unravel_index(flat, by.shape)
                if by[row, column] <= 0:
                    continue
                bound = float(margin[row, column]) if known[row, column] else None
                what = in_words(layout, int(pairs.here[0][done + row]), int(pairs.here[1][column]))
                entry = Difference(level, what, float(old[row, column]), float(new[row, column]), bound)
                differences.append((float(by[row, column]), entry))
    most_of_all = in_both if any_known else without_margins
    most_of_all.sort(key=lambda change: -change[0])  # of equal ones the first in the table
    return most_of_all[:LARGEST]
