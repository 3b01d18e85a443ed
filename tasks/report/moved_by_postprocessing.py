"""What post-processing changed: published counts against the noisy measurements that lie beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tabularium.mechanisms.arrays import strips
from tabularium.mechanisms.measured import Measured
from tabularium.mechanisms.queries.sources import array_of_cells
from tabularium.tasks.postprocess.table_layout import Layout
from tabularium.tasks.public_folder import named
from tabularium.tasks.public_tables import open_parquet
from tabularium.tasks.publish.frames import ROWS
from tabularium.tasks.publish.measurement_files import FOLDER, indexed
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.publish.release_folder import readable
from tabularium.tasks.report.released_cells import Columns, Floats, ReleasedCells, ask


@dataclass(frozen=True)
class MovedLine:
    """What became of the noisy counts of one measured level.

    Attributes
    ----------
    level
        Its name; empty where a table has no hierarchy.
    cells
        How many were measured and are shown.
    moved
        How many are published as another number.
    median, most
        By how much a cell was moved at the median, and at most.
    below_zero
        How many were measured below zero.
    lift
        What these lack to zero, summed.
    before, after
        The sum of all of them, as measured and as published.
    blank, blank_below_zero
        How many cells more were measured and are left blank, and how many of these were below zero.
    """

    level: str
    cells: int
    moved: int
    median: float
    most: float
    below_zero: int
    lift: float
    before: float
    after: float
    blank: int
    blank_below_zero: int


def moved_in(released: Released, name: str, cells: ReleasedCells) -> list[MovedLine] | None:
    """Return the lines of a table; None where what was measured are no counts of cells.

    Raises
    ------
    PublicationError
        The release holds no measurements of the table.
    """
    found = []
    for level in cells.layout.cuts:
        noisy = _noisy(released, name, level, cells.layout)
        if noisy is None:
            return None
        line = _line(level, noisy, cells)
        if line is not None:
            found.append(line)
    return found if len(found) == len(cells.layout.cuts) else None


def _noisy(released: Released, name: str, level: str, layout: Layout) -> Columns | None:
    """Return the noisy counts of a level where they lie, one for each cell that somebody can be in."""
    entry = indexed(released.folder, name, level)
    # Their number is all that is asked of them: no numbers are read for that.
    shapes = {
        array: np.broadcast_to(np.zeros((), about["dtype"]), about["shape"])
        for array, about in entry["arrays"].items()
    }
    possible = layout.measured_at(level)
    number = len(layout.cuts[level]) * layout.cells if possible is None else int(possible.sum())
    array = array_of_cells(Measured.from_document(entry["measured"], shapes), number)
    if array is None:
        return None
    file = f"{FOLDER}/{entry['arrays'][array]['file']}"
    with readable(released.folder), named(file):
        opened = open_parquet(released.folder / file, rows=number, columns=["measured"])
    return Columns(released.folder / file, opened, ["measured"])


_MOVED = """
    select count(published), count(*) filter (away > 1e-9), quantile_disc(away, 0.5), max(away),
        count(*) filter (drawn < 0 and published is not null),
        -sum(least(drawn, 0)) filter (published is not null),
        sum(drawn) filter (published is not null), sum(published),
        count(*) filter (published is null), count(*) filter (drawn < 0 and published is null)
    from (select drawn, published, abs(published - drawn) as away from cells)"""


def _line(level: str, noisy: Columns, cells: ReleasedCells) -> MovedLine | None:
    """Return what became of the noisy counts of a level; None where all are left blank."""
    (found,) = ask(_MOVED, _pairs(level, noisy, cells))
    return MovedLine(level, *found) if found[0] else None


def _pairs(level: str, noisy: Columns, cells: ReleasedCells) -> Iterator[dict[str, Floats]]:
    """Yield the cells of a level, flat: as they were measured, and as they are published.

    Cells that nobody can be in were measured as nothing.
    """
    nodes, possible, done = cells.layout.cuts[level], cells.layout.measured_at(level), 0
    for rows in strips(len(nodes), cells.layout.cells, ROWS):
        some = nodes[rows]
        there = None if possible is None else possible[rows].reshape(-1)
        number = len(some) * cells.layout.cells if there is None else int(there.sum())
        (measured,) = noisy.read(done, done + number)
        done += number
        if there is not None:
            spread = np.zeros(len(there))
            spread[there] = measured
            measured = spread
        yield {"drawn": measured, "published": cells.at(some)[0].reshape(-1)}
