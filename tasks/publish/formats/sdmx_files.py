"""SDMX: ``<table>.sdmx.csv`` (SDMX-CSV 2.0) of tables and histograms, and one message about structures."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from tabularium.tasks.publish.formats.csv_rows import Take, rows_into_csv
from tabularium.tasks.publish.formats.sdmx_cubes import STATUS, Cube, cubes
from tabularium.tasks.publish.published_tables import PublishedTable
from tabularium.tasks.publish.quality import FLAGS
from tabularium.validations.domains.sdmx_names import code_id
from tabularium.validations.spec.load import Loaded


@contextmanager
def sdmx_file(loaded: Loaded, name: str, table: PublishedTable, aside: Path) -> Iterator[Take]:
    """Give what writes the rows of ``<table>.sdmx.csv``."""
    turned = sdmx_rows(dict(cubes(loaded, {name: table}))[name])
    schema = turned(table.frame.make(0, 0)).schema
    with rows_into_csv(schema, aside / f"{name}.sdmx.csv", quoted=False) as take:
        yield lambda rows: take(turned(rows))


def write_structure(loaded: Loaded, tables: Mapping[str, PublishedTable], aside: Path) -> None:
    """Write ``structure.sdmx.xml``, or ``.json`` where the spec says so."""
    from tabularium.tasks.publish.formats.sdmx_structure import (
        structure_message,  # pysdmx takes long to import
    )

    path = aside / f"structure.sdmx.{loaded.spec.publication.sdmx.structure}"
    found = [cube for _, cube in cubes(loaded, tables)]
    path.write_text(structure_message(loaded, found), encoding="utf-8")


def sdmx_rows(cube: Cube) -> Callable[[pa.Table], pa.Table]:
    """Return what turns rows of a table into structure, action, dimensions, period, observation and the rest.

    That is its margin, its measures, status and level. Texts are dictionaries: each code is spelled as SDMX
    wants it once, however many rows have it.
    """
    none = cube.table.frame.make(0, 0)
    spelled = {
        column: _spelled(none[column])
        for column in cube.dimensions
        if pa.types.is_dictionary(none[column].type)
    }

    status = pa.array([STATUS[flag] for flag in FLAGS])

    def of(part: pa.Table) -> pa.Table:
        rows = part.num_rows
        columns = {
            "STRUCTURE": _same("dataflow", rows),
            "STRUCTURE_ID": _same(cube.flow, rows),
            "ACTION": _same("I", rows),
        }
        for column, name in cube.dimensions.items():
            codes = spelled.get(column)
            columns[name] = part[column] if codes is None else _with(codes, part[column])
        columns["TIME_PERIOD"] = _same(cube.period, rows)
        columns["OBS_VALUE"] = part[cube.value]
        if "margin" in part.column_names:
            columns["MARGIN"] = part["margin"]
        columns |= {
            name: _with(status, part[column]) if pa.types.is_dictionary(part[column].type) else part[column]
            for column, name in cube.measures.items()
        }
        columns["OBS_STATUS"] = (
            _with(status, part["quality"]) if "quality" in part.column_names else _same("A", rows)
        )
        if cube.along is not None:
            columns["LEVEL"] = part["level"]
        return pa.table(columns)

    return of


def _same(text: str, rows: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array([text]))


def _spelled(column: pa.ChunkedArray) -> pa.Array:
    codes = column.combine_chunks().dictionary.to_pylist()
    return pa.array([code_id(code) for code in codes], pa.string())


def _with(texts: pa.Array, column: pa.ChunkedArray) -> pa.Array:
    """Return a column of dictionaries with other texts."""
    return pa.DictionaryArray.from_arrays(column.combine_chunks().indices, texts)
