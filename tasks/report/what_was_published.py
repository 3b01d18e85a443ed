"""What a release holds, for whom and by whom: titles, tables, and how to read a row of each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.report.cells_chart import Chart, chart_of
from tabularium.tasks.report.opened import names_of
from tabularium.tasks.report.released_cells import ReleasedCells
from tabularium.validations.certificate import Measure
from tabularium.validations.spec.columns import Column
from tabularium.validations.spec.tables import Histogram, Table

_SAMPLE = 6
_CODES = 6
_PICTURED = 3  # measures


@dataclass(frozen=True)
class DimensionShown:
    """One dimension of a table: its column, its title, how many values it has and the first of them."""

    name: str
    title: str
    number: int
    values: list[str]
    levels: list[str]


Row = tuple[str, list[str], float, float, list[tuple[float, float]]]


@dataclass(frozen=True)
class TableShown:
    """One table as the page introduces it.

    Attributes
    ----------
    rows
        Column values of some rows, as the file has them: level if there is one, labels, count, margin, and of
        each measure number and margin.
    measures
        What the certificate says of each sum, mean and median beside the counts.
    impossible
        How many of its cells nobody can be in.
    """

    name: str
    title: str
    cells: int
    total: float
    counted: str
    mechanism: str
    dimensions: list[DimensionShown]
    rows: list[Row]
    failed: int
    measures: dict[str, Measure]
    impossible: int = 0

    @property
    def columns(self) -> list[str]:
        """Names of the columns of the rows shown."""
        return [each.title for each in self.dimensions]


def titled(entry: Column | Table | Histogram, name: str) -> str:
    """Return what a table or a column is called for people."""
    return entry.title or name.replace("_", " ")


def shown(released: Released, numbers: ReleasedCells) -> TableShown:
    """Introduce a table: what it counts, by what, and some of its rows."""
    layout, table = numbers.layout, numbers.layout.table
    about = released.certificate.tables[table.name]
    dimensions = []
    for name in table.dimensions:
        title = titled(released.spec.columns[name], name)
        if layout.along is not None and name == table.along:
            number = int(numbers.present.sum())
            levels = [level.name for level in numbers.levels]
            labels = layout.along.node_labels[: min(number, _CODES)]
        else:
            domain = next(each for each in layout.others if each.name == name)
            number, levels, labels = domain.size, [], domain.labels[:_CODES]
        dimensions.append(DimensionShown(name, title, number, list(labels), levels))
    return TableShown(
        table.name,
        titled(table, table.name),
        numbers.rows,
        about.total,
        about.counted,
        table.mechanism_in_words,
        dimensions,
        _rows(numbers, [ReleasedCells(released, table.name, name) for name in table.measures]),
        sum(each.count for each in about.failed_checks or ()),
        about.measures or {},
        about.impossible or 0,
    )


def charts(released: Released, numbers: ReleasedCells) -> list[Chart]:
    """Return a picture of a table's counts, and one of each of its first measures."""
    table = numbers.layout.table
    titles = {name: titled(released.spec.columns[name], name) for name in table.dimensions}
    made = [chart_of(numbers, titles, titled(table, table.name))]
    for name, measure in [*table.measures.items()][:_PICTURED]:
        of_it = f"{titled(table, table.name)}, {measure.title or name}"
        least = None if measure.linear else measure.smallest
        own = ReleasedCells(released, table.name, name, flags=True)
        made.append(chart_of(numbers, titles, of_it, own, least=least))
    return [each for each in made if each is not None]


def _rows(numbers: ReleasedCells, measures: list[ReleasedCells]) -> list[Row]:
    """Return some rows, level by level in turn, of each the first cells that are not empty."""
    layout, levels = numbers.layout, numbers.levels
    each = max(1, _SAMPLE // len(levels))
    rows = []
    for level in levels:
        first, last = level.nodes.start, level.nodes.stop
        nodes = np.arange(first, last)[numbers.present[first:last]]
        head = nodes[: max(1, -(-200 // layout.cells))]
        counts, margins = numbers.at(head)
        beside = [each.at(head) for each in measures]
        filled = np.flatnonzero(np.nan_to_num(counts) > 0)
        places = filled if len(filled) else np.arange(counts.size)
        for at in places[np.unique(np.linspace(0, len(places) - 1, min(each, len(places))).astype(int))]:
            node, cell = divmod(int(at), layout.cells)
            labels = [label for _, _, label in names_of(layout, int(head[node]), cell)]
            both = float(counts[node, cell]), float(margins[node, cell])
            own = [(float(shown[node, cell]), float(half[node, cell])) for shown, half in beside]
            rows.append((level.name, labels, *both, own))
    return rows
