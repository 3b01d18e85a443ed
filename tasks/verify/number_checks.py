"""Checks of the tables: the cells of the spec, numbers that follow from the measurements, promises kept."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tabularium.tasks.margins.measure_margins import describe_measure
from tabularium.tasks.postprocess.agreement import Agreement
from tabularium.tasks.postprocess.estimation import failed_cells
from tabularium.tasks.postprocess.table_layout import total_over
from tabularium.tasks.public_folder import longest_text, parquet_batches
from tabularium.tasks.publish.formats.base import first_format, known_rows
from tabularium.tasks.publish.frames import Frame, Shape
from tabularium.tasks.publish.measurement_files import FOLDER
from tabularium.tasks.publish.published_tables import frame_of, histogram_table
from tabularium.tasks.runtime.run import without_data
from tabularium.tasks.verify.certificate_checks import EXCEPTIONS
from tabularium.tasks.verify.subject import Check, Failed, Skipped, Subject, described_in, failing, recomputed
from tabularium.validations.release_spec.tables import array_of

_GROUP = "Tables"


def _rows(subject: Subject) -> str:
    subject.bounded()
    rows = 0
    for name in subject.names:
        numbers, _ = numbers_of(subject, name)
        rows += len(next(iter(numbers.values())))
        if len(next(iter(numbers.values()))) != subject.certificate.tables[name].rows:
            raise Failed(f"table {name} does not have as many rows as the certificate says")
    return f"{rows:,} rows"


def _recomputed(subject: Subject) -> str:
    spec, made = subject.released.spec, recomputed(subject)
    layouts, half = subject.released.layouts, {name: margin.half for name, margin in made.margins.items()}
    numbers = 0
    for table in spec.tables:
        frame = frame_of(subject.released.loaded, layouts, table, made.estimates, half)
        numbers += 2 * _see_frame(subject, table.name, frame)
    for histogram in spec.histograms:
        largest = histogram.largest_size(spec.privacy)
        frame = histogram_table(made.parts[histogram.name][""].release.values, largest)
        numbers += 2 * _see_frame(subject, histogram.name, frame)
    return f"{numbers:,} numbers and margins"


def _see_frame(subject: Subject, name: str, frame: Frame) -> int:
    """Compare the numbers of a table with a frame that was made again; return how many rows it has."""
    shape, (numbers, flags) = subject.released.shape(name), numbers_of(subject, name)
    see_rows(name, len(next(iter(numbers.values()))), frame.num_rows)
    done = 0
    for part in frame.parts():
        rows = slice(done, done + part.num_rows)
        for column in shape.numbers:
            expected = np.asarray(part[column].cast(pa.float64()).fill_null(np.nan).to_numpy())
            what = f"{name}: {column}, made again from the measurements,"
            whole = shape.whole and column not in shape.measures
            see_numbers(what, numbers[column][rows], expected, whole=whole, after=done)
        for column, values in flags.items():
            if not values.slice(done, part.num_rows).equals(part[column].cast(pa.string())):
                raise Failed(f"{name}: {column} is not what the quality rules give")
        done = rows.stop
    return frame.num_rows


def _measured(subject: Subject) -> str:
    """The codes of a measurement with a number per cell are those of the cells."""
    compared = 0
    for (name, level), entry in described_in(subject).items():
        layout = subject.released.layouts.get(name)
        for array in entry["arrays"].values():
            if layout is None or tuple(array["shape"]) != layout.measured_shape(level):
                continue
            cells = replace(
                subject.released.shape(name),
                nodes=layout.cuts[level],
                flagged=False,
                numbers=("measured",),
                measures=(),
                possible=layout.possible(level),
            )
            with failing():
                batches = parquet_batches(subject.folder / FOLDER, array["file"], math.prod(array["shape"]))
                read_rows(array["file"], batches, cells)
            compared += 1
    return f"{compared} measurements"


def _descriptions(subject: Subject) -> str:
    """The certificate's descriptions of tables and their agreement follow from the measurements."""
    made, spec, certificate = recomputed(subject), subject.released.spec, subject.certificate.document()
    for table in spec.tables:
        layouts, consistent = subject.released.layouts, spec.postprocessing.consistency
        roots = made.estimates[table.name].values[layouts[table.name].tops(consistent=consistent)]
        expected = {
            "total": round(float(roots.sum())),
            **layouts[table.name].impossible_rows(consistent=consistent),
            **made.margins[table.name].about,
            "failed_checks": made.failed[table.name],
        }
        _see_described(f"tables.{table.name}", certificate["tables"][table.name], expected)
        for name, measure in table.measures.items():
            array = array_of(table.measures, table.name, name)
            about, values = made.margins[array].about, made.estimates[array].values
            tops = values[layouts[array].tops(consistent=consistent)]
            denominator = total_over(subject.released.loaded, layouts, array, made.estimates)
            expected_measures = {
                **describe_measure(layouts[array], measure, tops, about, denominator),
                "failed_checks": made.failed[array],
            }
            _see_described(
                f"tables.{table.name}.measures.{name}",
                certificate["tables"][table.name]["measures"][name],
                expected_measures,
            )
    for histogram in spec.histograms:
        total = int(made.parts[histogram.name][""].release.diagnostics["total"])
        _see_described(f"tables.{histogram.name}", certificate["tables"][histogram.name], {"total": total})
    if not _equal(certificate["agreement"], made.agreement()):
        raise Failed("agreement is not what the measurements give")
    for known in certificate["invariants"]:
        conflict = made.conflicts.get(known["name"])
        _see_described(f"invariants.{known['name']}", known, conflict.as_json() if conflict else {})
    return "totals, margins and their method, failed checks, agreement"


def _see_described(where: str, actual: dict[str, Any], expected: dict[str, Any]) -> None:
    for key, value in expected.items():
        if key not in actual or not _equal(actual[key], value):
            raise Failed(f"{where}.{key} is not what the measurements give")


def _equal(actual: Any, expected: Any) -> bool:
    """Compare JSON values, floats to four digits: a certificate needs no more."""
    if isinstance(expected, dict):
        return (
            isinstance(actual, dict)
            and actual.keys() == expected.keys()
            and all(_equal(actual[key], value) for key, value in expected.items())
        )
    if isinstance(expected, list | tuple):
        same_length = isinstance(actual, list) and len(actual) == len(expected)
        return same_length and all(map(_equal, actual, expected))
    if isinstance(expected, float) and isinstance(actual, float | int) and not isinstance(actual, bool):
        both_nothing = math.isnan(expected) and math.isnan(actual)
        return both_nothing or math.isclose(actual, expected, rel_tol=1e-9, abs_tol=1e-9)
    return type(actual) is type(expected) and bool(actual == expected)


def _exceptions(subject: Subject) -> str:
    named = recomputed(subject).exceptions
    if (EXCEPTIONS in subject.certificate.files) != bool(named):
        raise Failed(f"{EXCEPTIONS} is there without need, or missing")
    if named and subject.read(EXCEPTIONS) != ("\n".join(named) + "\n").encode():
        raise Failed(f"{EXCEPTIONS} does not name the sums that whole numbers could not meet")
    return f"{len(named)} sums" if named else "none"


def _kept(subject: Subject) -> str:
    """Published numbers keep the promises of post-processing, but for cells that the certificate names."""
    subject.bounded()
    released = subject.released
    agreement = Agreement.of(released.loaded)
    published, half, blank = {}, {}, 0
    for table in released.spec.tables:
        name, layout = table.name, released.layouts[table.name]
        shape, (numbers, _) = released.shape(name), numbers_of(subject, name)
        published[name] = _on_tree(shape, layout.nodes, layout.cells, numbers["count"], 0.0)
        margins = _on_tree(shape, layout.nodes, layout.cells, numbers["margin"], np.inf)
        half[name] = np.where(np.isnan(margins), np.inf, margins)  # a copy: other checks read the column too
        for measure, about in table.measures.items():
            if about.linear:
                sums = _on_tree(shape, layout.nodes, layout.cells, numbers[measure], 0.0) / float(about.grid)
                rounded = released.spec.postprocessing.rounding
                published[array_of(table.measures, name, measure)] = np.rint(sums) if rounded else sums
        blank += int(np.isnan(published[name]).sum())
        if (published[name] < 0).any() and released.spec.postprocessing.nonnegativity:
            raise Failed(f"table {name} holds a negative number")
    if blank:
        try:
            made = recomputed(subject)
        except Skipped:
            raise Skipped(
                f"the {blank:,} counts that quality rules left blank; sums with them cannot be added up"
            ) from None
        for name, shown in published.items():
            left, again = np.isnan(shown), np.asarray(made.estimates[name].values, np.float64)
            published[name] = np.where(left, again, shown)
            if name in half:  # sums of measures have none here
                half[name] = np.where(left, made.margins[name].half, half[name])
    run = without_data(released.loaded)
    faults = failed_cells(run, agreement, published, half)
    for name in (table.name for table in released.spec.tables):
        faults_here = [
            {"check": fault.check, "count": fault.count, "cells": list(fault.cells)}
            for fault in faults
            if fault.table == name
        ]
        named = [check.document() for check in subject.certificate.tables[name].failed_checks or ()]
        if not _equal(named, faults_here):
            wrong = faults_here[0]["check"] if faults_here else "nothing"
            raise Failed(f"table {name} fails other checks than the certificate names, first: {wrong}")
    exact = f", {len(released.loaded.known)} invariants shown exactly" if released.loaded.known else ""
    filled = f"; of {blank:,} blank counts as they were made again" if blank else ""
    return f"sums, signs and agreement of {len(published)} tables{exact}{filled}"


def _on_tree(
    shape: Shape, nodes: int, cells: int, column: NDArray[np.float64], nothing: float
) -> NDArray[np.float64]:
    """Return a column as an array (nodes, cells)."""
    if len(shape.nodes) == nodes:
        return column.reshape(nodes, cells)
    spread = np.full((nodes, cells), nothing)
    spread[shape.nodes] = column.reshape(-1, cells)
    return spread


def _impossible(subject: Subject) -> str:
    """Impossible cells are exactly zero."""
    number = 0
    for table in subject.released.spec.tables:
        impossible = subject.released.loaded.impossible_in(table)
        if impossible is None:
            continue
        numbers, _ = numbers_of(subject, table.name)
        there = impossible[subject.released.shape(table.name).nodes].ravel()
        number += int(there.sum())
        for column in ("count", "margin"):
            if (numbers[column][there] != 0).any():
                raise Failed(f"table {table.name} has a {column} other than 0 in a cell that is impossible")
        for name, measure in table.measures.items():
            for column in (name, f"{name}_margin"):
                shown = numbers[column][there]
                nothing = np.zeros_like(shown) if measure.parts == 1 else np.full_like(shown, np.nan)
                if not (np.isnan(shown) | (shown == nothing)).all():
                    raise Failed(f"table {table.name} has a {column} in a cell that is impossible")
    return f"{number:,} cells" if number else "none"


CHECKS = (
    Check(_GROUP, "they hold the cells of the spec, with their codes and labels", _rows),
    Check(_GROUP, "numbers and margins follow from the noisy measurements", _recomputed),
    Check(_GROUP, "noisy measurements stand at the cells that they are of", _measured),
    Check(_GROUP, "cells that the spec calls impossible are exactly zero", _impossible),
    Check(_GROUP, "what the certificate says of them follows from the measurements", _descriptions),
    Check(_GROUP, "sums that whole numbers could not meet are named", _exceptions),
    Check(_GROUP, "they add up, are not negative, agree, and show invariants exactly", _kept),
)


# --- the rows of a published table, read part by part and held against what the spec says of them
#
# Which cell stands in which row, with which codes and labels, follows from the spec and the code lists. So
# a table is read once, from the first of its formats, into bare numbers; every other format is compared
# with these, and the measurements are as well.

_LONGEST_FLAG = 100  # bytes

Numbers = dict[str, NDArray[np.float64]]
"""Column of numbers -> its values row by row; not a number where it is blank."""
Flags = dict[str, pa.ChunkedArray]
"""Column of flags -> its flags row by row; none without quality rules."""
Read = tuple[Numbers, Flags]
"""Numbers and flags."""


class Rows:
    """Batches of rows, taken in portions of any size."""

    def __init__(self, file: str, batches: Iterator[pa.RecordBatch], columns: list[str]) -> None:
        self._file, self._batches, self._columns = file, batches, columns
        self._held: list[pa.RecordBatch] = []

    def take(self, rows: int | None) -> pa.Table:
        """Return the next rows, all that are left if ``rows`` is None."""
        held = sum(batch.num_rows for batch in self._held)
        while rows is None or held < rows:
            batch = next(self._batches, None)
            if batch is None:
                break
            if batch.schema.names != self._columns:
                raise Failed(f"{self._file} does not have the columns that it should have")
            self._held.append(batch)
            held += batch.num_rows
        if rows is not None and held < rows:
            raise Failed(f"{self._file} has fewer rows than the spec declares")
        if not self._held:
            return pa.table({name: [] for name in self._columns})
        table = pa.Table.from_batches(self._held)
        rows = held if rows is None else rows
        self._held = table.slice(rows).to_batches()
        return table.slice(0, rows)

    def end(self) -> None:
        """Check that nothing is left."""
        if any(batch.num_rows for batch in self._held) or next(self._batches, None) is not None:
            raise Failed(f"{self._file} has more rows than the spec declares")


def numbers_of(subject: Subject, name: str) -> Read:
    """Return the numbers and the flags of a table from its first format, read once."""

    def read() -> Read:
        subject.bounded()
        released = subject.released
        shape, first = released.shape(name), first_format(released.spec)
        with failing():
            batches = first.read(released.loaded, subject.folder, shape, known_rows(shape))
            return read_rows(first.label(name), batches, shape)

    return subject.cached(f"numbers of {name}", read)


def read_rows(file: str, batches: Iterator[pa.RecordBatch], shape: Shape) -> Read:
    """Compare the codes and labels of a table with the spec, and return its numbers and its flags.

    Raises
    ------
    Failed
        Naming the file and the first row that is not what it should be.
    """
    parts = list(rows_in_parts(file, batches, shape))
    numbers = {name: np.concatenate([part[name] for part, _ in parts]) for name in shape.numbers}
    flags = {
        name: pa.chunked_array([chunk for _, part in parts for chunk in part[name].chunks], pa.string())
        for name in shape.flags
    }
    return numbers, flags


def rows_in_parts(file: str, batches: Iterator[pa.RecordBatch], shape: Shape) -> Iterator[Read]:
    """Yield numbers and flags part by part, compared with the spec as in :func:`read_rows`."""
    rows, done = Rows(file, batches, shape.columns), 0
    for count, labels in shape.parts() if shape.layout is not None else [(None, {})]:
        part = rows.take(count)
        for name, expected in labels.items():
            _see_same(f"{file}: {name}", part[name], expected, done)
        numbers = {name: _as_numbers(part[name]) for name in shape.numbers}
        for name in shape.flags:
            if longest_text(part[name]) > _LONGEST_FLAG:
                raise Failed(f"{file}: {name} holds what is no flag")
        yield numbers, {name: part[name].cast(pa.string()) for name in shape.flags}
        done += part.num_rows
    rows.end()


def _as_numbers(column: pa.ChunkedArray) -> NDArray[np.float64]:
    return np.asarray(column.cast(pa.float64()).fill_null(np.nan).to_numpy())


def _see_same(what: str, actual: pa.ChunkedArray, expected: pa.Array, done: int) -> None:
    """Compare texts row by row; a blank row differs."""
    if longest_text(actual) > longest_text(expected):
        raise Failed(f"{what} holds a text that is longer than any that should be there")
    texts = actual.cast(pa.string())
    same = pc.fill_null(pc.equal(texts, expected.cast(pa.string())), fill_value=False)
    if not pc.all(same).as_py():
        position = pc.index(same, value=False).as_py()
        raise Failed(f"{what} is not what it should be in row {done + position + 1}")


def see_rows(what: str, actual: int, expected: int) -> None:
    """Check the number of rows."""
    if actual != expected:
        raise Failed(f"{what} has {actual:,} rows and not {expected:,}")


def see_numbers(
    what: str, actual: NDArray[np.float64], expected: NDArray[np.float64], *, whole: bool, after: int = 0
) -> None:
    """Compare numbers row by row: whole numbers exactly, others to 1e-9, blanks with blanks.

    ``after``: how many rows come before these.

    Raises
    ------
    Failed
        Naming the first row that differs.
    """
    see_rows(what, len(actual), len(expected))
    same = actual == expected
    if not same.all():
        blank = np.isnan(actual) & np.isnan(expected)
        near = np.zeros(len(actual), bool) if whole else np.isclose(actual, expected, rtol=1e-9, atol=1e-9)
        same = same | blank | near
    if not same.all():
        raise Failed(f"{what} is not what it should be in row {after + int(np.argmin(same)) + 1}")
