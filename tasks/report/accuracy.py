"""How accurate each table is: its margins of error by level and by size of the published count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import NDArray

from mechanisms.inference.margins_of_error.tallies import SIZES
from tasks.publish.read_release import Released, ReleasedNumbers
from tasks.report.opened import Level, levels_of, published_cells, size_class

FLAGGED = ("unreliable", "suppressed", "unknown")


@dataclass(frozen=True)
class AccuracyLine:
    """The margins of the cells of one level and size.

    Attributes
    ----------
    level
        Its name; empty where a table has no hierarchy.
    size
        First and last published count; None where the count was left blank.
    cells
        How many there are.
    median, most
        Margins that half and 95 % of them do not exceed; None where none is given.
    relative, relative_most
        The same of margin by count, of cells above zero.
    wide
        Share of cells whose margin is more than half the count; None where no margin is given.
    flagged
        Share of cells that the quality rules flag; None where there are no rules.
    held
        Share of intervals of such cells that held the assumed truth in simulated releases, where simulated.
    """

    level: str
    size: tuple[int, int | None] | None
    cells: int
    median: float | None
    most: float | None
    relative: float | None
    relative_most: float | None
    wide: float | None
    flagged: float | None
    held: float | None


def accuracy_of(released: Released, name: str, numbers: ReleasedNumbers) -> list[AccuracyLine]:
    """Return the lines of a table, by level from the root down and by size from zero up."""
    errors = released.certificate["tables"][name]["margins"].get("errors", [])
    held = {(each.get("level", ""), tuple(each["counts"])): float(each["held"]) for each in errors}
    flags = _flags(released, name)
    lines: list[AccuracyLine] = []
    first = 0
    for level in levels_of(numbers):
        counts, margins = published_cells(numbers, level)
        own = None if flags is None else flags[first : first + len(counts)]
        lines += _lines(level, counts, margins, own, held)
        first += len(counts)
    return lines


def _flags(released: Released, name: str) -> NDArray[np.bool_] | None:
    """Return which cells of a table are flagged, in the order of its file; None without quality rules."""
    if released.spec.publication.quality is None:
        return None
    path = released.folder / f"{name}.parquet"
    if path.is_file():
        column = pa.parquet.read_table(path, columns=["quality"])["quality"]
    else:
        some = pa.csv.ConvertOptions(include_columns=["quality"], auto_dict_encode=True)
        column = pa.csv.read_csv(path.with_suffix(".csv"), convert_options=some)["quality"]
    found: NDArray[np.bool_] = pa.compute.is_in(column.cast(pa.string()), pa.array(FLAGGED)).to_numpy()
    return found


def _lines(
    level: Level,
    counts: NDArray[np.float64],
    margins: NDArray[np.float64],
    flags: NDArray[np.bool_] | None,
    held: dict[tuple[str, tuple[Any, ...]], float],
) -> Iterator[AccuracyLine]:
    of = size_class(counts)
    for number, size in ((-1, None), *enumerate(SIZES)):
        chosen = of == number
        cells = int(chosen.sum())
        if not cells:
            continue
        known = chosen & np.isfinite(margins)
        own, some = margins[known], counts[known]
        part = own[some > 0] / some[some > 0] if size is not None else own[:0]
        median, most = _quantiles(own)
        relative, relative_most = _quantiles(part)
        yield AccuracyLine(
            level.name,
            size,
            cells,
            median,
            most,
            relative,
            relative_most,
            float((own > some / 2).mean()) if len(own) and size is not None else None,
            None if flags is None else float(flags[chosen].mean()),
            None if size is None else held.get((level.name, tuple(size))),
        )


def _quantiles(numbers: NDArray[np.float64]) -> tuple[float | None, float | None]:
    """Return the median and the 95th percentile, both of them numbers that occur."""
    if not len(numbers):
        return None, None
    median, most = np.quantile(numbers, (0.5, 0.95), method="inverted_cdf")
    return float(median), float(most)
