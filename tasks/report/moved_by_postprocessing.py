"""What post-processing changed: published counts against the noisy measurements that lie beside them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mechanisms.queries.cell_measurements import noisy_cells
from tasks.publish.measurement_files import read_measurement
from tasks.publish.read_release import Released, ReleasedNumbers


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


def moved_in(released: Released, name: str, numbers: ReleasedNumbers) -> list[MovedLine] | None:
    """Return the lines of a table; None where what was measured are no counts of cells.

    Raises
    ------
    PublicationError
        The release holds no measurements of the table.
    """
    lines = list(_lines(released, name, numbers))
    return lines if len(lines) == len(numbers.layout.cuts) else None


def _lines(released: Released, name: str, numbers: ReleasedNumbers) -> Iterator[MovedLine]:
    layout = numbers.layout
    shape = tuple(domain.size for domain in layout.others)
    for level, nodes in layout.cuts.items():
        part = noisy_cells(
            read_measurement(released.folder, name, level), nodes, shape, layout.measured_at(level)
        )
        if part is None:
            return
        noisy = np.asarray(part.values, np.float64).reshape(-1)
        counts = numbers.counts[nodes].reshape(-1)
        shown = ~np.isnan(counts)
        blank = noisy[~shown]
        if len(blank):
            noisy, counts = noisy[shown], counts[shown]
        if not len(counts):
            continue
        away = np.abs(counts - noisy)
        yield MovedLine(
            level,
            len(counts),
            int((away > 1e-9).sum()),
            float(np.quantile(away, 0.5, method="inverted_cdf")),
            float(away.max()),
            int((noisy < 0).sum()),
            float(-np.minimum(noisy, 0).sum()),
            float(noisy.sum()),
            float(counts.sum()),
            len(blank),
            int((blank < 0).sum()),
        )
