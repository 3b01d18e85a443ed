"""``<table>.sdmx.csv``: the rows of a table as SDMX-CSV 2.0."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tasks.publish.formats.sdmx_cubes import STATUS, Cube
from validations.domains.sdmx_names import code_id


def sdmx_rows(cube: Cube) -> pa.Table:
    """Return the rows: structure, action, dimensions, period, observation, its margin, status and level.

    Texts are dictionaries: each code is spelled as SDMX wants it once, however many rows have it.
    """
    frame = cube.table.frame
    rows = frame.num_rows
    columns = {
        "STRUCTURE": _same("dataflow", rows),
        "STRUCTURE_ID": _same(cube.flow, rows),
        "ACTION": _same("I", rows),
    }
    for column, name in cube.dimensions.items():
        columns[name] = (
            _spelled(frame[column]) if pa.types.is_dictionary(frame[column].type) else frame[column]
        )
    columns["TIME_PERIOD"] = _same(cube.period, rows)
    columns["OBS_VALUE"] = frame[cube.value]
    if "margin" in frame.column_names:
        columns["MARGIN"] = frame["margin"]
    columns |= {name: frame[column] for column, name in cube.measures.items()}
    columns["OBS_STATUS"] = (
        _mapped(frame["quality"], STATUS) if "quality" in frame.column_names else _same("A", rows)
    )
    if cube.along is not None:
        columns["LEVEL"] = frame["level"]
    return pa.table(columns)


def _same(text: str, rows: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array([text]))


def _spelled(column: pa.ChunkedArray) -> pa.Array:
    codes = column.combine_chunks()
    return pa.DictionaryArray.from_arrays(
        codes.indices, pa.array([code_id(code) for code in codes.dictionary.to_pylist()], pa.string())
    )


def _mapped(column: pa.ChunkedArray, names: dict[str, str]) -> pa.Array:
    flags = column.combine_chunks()
    return pa.DictionaryArray.from_arrays(
        flags.indices, pa.array([names[flag] for flag in flags.dictionary.to_pylist()])
    )
