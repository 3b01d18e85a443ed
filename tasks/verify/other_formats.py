"""Readers of SDMX-CSV and of workbooks, which yield the rows of a table under its own names of columns.

They know the formats and none of our writers.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.csv

from tabularium.tasks.verify.findings import Failed
from tabularium.tasks.verify.published_rows import QUALITY, Shape
from tabularium.validations.domains.sdmx_names import measure_id, original_code
from tabularium.validations.public_files import MIB

_STATUS = {
    **{"reliable": "A", "exact": "A", "unreliable": "U"},
    **{"suppressed": "Q", "unknown": "V", "zero": "N"},
}
_FIXED = ("STRUCTURE", "STRUCTURE_ID", "ACTION", "TIME_PERIOD")
_ROWS_AT_ONCE = 20_000
_CELL = 400  # bytes of XML that a cell of a workbook may take
WORKBOOK = "tables.xlsx"


def sdmx_shape(shape: Shape) -> Shape:
    """Return the rows of a table as SDMX has them: codes and levels, no labels."""
    if shape.layout is None:
        return shape
    return replace(
        shape, labels=tuple(each for each in shape.labels if each == "level" or _is_code(shape, each))
    )


def statuses(flags: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return how SDMX spells flags, of which two are one status."""
    return pa.chunked_array([_mapped(each, _STATUS) for each in flags.chunks], pa.string())


def _is_code(shape: Shape, column: str) -> bool:
    return shape.layout is not None and column in shape.layout.table.dimensions


def sdmx_rows(
    file: BinaryIO, name: str, shape: Shape, period: str, ids: Mapping[str, str]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of SDMX-CSV 2.0 under our names: a code for each dimension, then the numbers.

    ``ids``: what each column is called in SDMX.
    """
    number = pa.int64() if shape.whole else pa.float64()
    own = {*shape.measures, *shape.flags} - {QUALITY}
    dimensions = [each for each in shape.labels if each != "level"]
    if shape.layout is None:
        dimensions = ["size"]
    wanted = len(dimensions)
    header = _header(file)
    names = {ids.get(each, "SIZE"): each for each in dimensions}
    measures = [measure_id(each) for each in shape.columns if each in own]
    rest = ["OBS_VALUE", *(["MARGIN"] if shape.layout is not None else []), *measures, "OBS_STATUS"]
    rest += ["LEVEL"] if "level" in shape.labels else []
    if [*_FIXED[:3], *names, "TIME_PERIOD", *rest] != header or len(names) != wanted:
        raise Failed(f"{name} does not have the columns of SDMX-CSV for its table")
    types = {**dict.fromkeys(header, pa.string()), "OBS_VALUE": number, "MARGIN": number}
    types |= {measure_id(each): pa.float64() for each in shape.measures}
    if shape.layout is None:
        types[header[3]] = number
    flow: set[str] = set()
    try:
        with pa.csv.open_csv(
            file, convert_options=pa.csv.ConvertOptions(column_types=types, null_values=[""])
        ) as reader:
            for batch in reader:
                found = {name: batch.column(name) for name in header}
                flow |= set(found["STRUCTURE_ID"].unique().to_pylist())
                _see_constant(name, found, period, flow)
                yield _in_our_names(shape, found, names)
    except pa.ArrowException:
        raise Failed(f"{name} is not SDMX-CSV with the columns of its table") from None


def _header(file: BinaryIO) -> list[str]:
    line = file.readline(MIB).decode("utf-8", "replace")
    file.seek(0)
    return [each.strip().strip('"') for each in line.split(",")]


def _see_constant(file: str, found: dict[str, pa.Array], period: str, flow: set[str]) -> None:
    for name, expected in (("STRUCTURE", "dataflow"), ("ACTION", "I"), ("TIME_PERIOD", period)):
        if found[name].unique().to_pylist() not in ([expected], []):
            raise Failed(f"{file}: {name} is not {expected} everywhere")
    if len(flow) > 1:
        raise Failed(f"{file} names several structures")


def _in_our_names(shape: Shape, found: dict[str, pa.Array], names: dict[str, str]) -> pa.RecordBatch:
    ours = {column: name for name, column in names.items()}
    columns: dict[str, pa.Array] = {}
    for column in shape.columns:
        if column == "level":
            columns[column] = found["LEVEL"]
        elif column == QUALITY:
            columns[column] = found["OBS_STATUS"]
        elif column in ("count", "number"):
            columns[column] = found["OBS_VALUE"]
        elif column in shape.measures or column in shape.flags:
            columns[column] = found[measure_id(column)]
        elif column == "margin":
            columns[column] = found["MARGIN"]
        elif shape.layout is None:
            columns[column] = found[ours[column]]
        else:
            codes = found[ours[column]].unique().to_pylist()
            columns[column] = _mapped(
                found[ours[column]], {code: original_code(code or "") for code in codes}
            )
    return pa.RecordBatch.from_pydict(columns)


def _mapped(column: pa.Array, names: dict[str, str]) -> pa.Array:
    encoded = column.dictionary_encode()
    spelled = pa.array([names.get(each) for each in encoded.dictionary.to_pylist()], pa.string())
    return pa.DictionaryArray.from_arrays(encoded.indices, spelled).cast(pa.string())


def see_workbook_bounded(file: BinaryIO, cells: int) -> None:
    """See, before it is unpacked, that a workbook is not many times larger than its cells explain."""
    with zipfile.ZipFile(file) as parts:
        size = sum(each.file_size for each in parts.infolist())
    if size > 16 * MIB + _CELL * cells:
        raise Failed(
            f"{WORKBOOK} would unpack to {size / MIB:,.0f} MiB, which no workbook of its tables does"
        )


def workbook_rows(sheet: Any, shape: Shape, title: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a sheet; its title stands above the row that names the columns."""
    rows = sheet.iter_rows(values_only=True)
    if [next(rows, (None,))[0] for _ in title] != list(title):
        raise Failed(f"sheet {sheet.title} has another title than its table")
    header = list(next(rows, ()))
    kinds = dict.fromkeys(shape.numbers, pa.int64() if shape.whole else pa.float64())
    kinds |= dict.fromkeys(shape.measures, pa.float64())
    while some := list(islice(rows, _ROWS_AT_ONCE)):
        columns = dict(zip(header, map(list, zip(*some, strict=True)), strict=True))
        try:
            made = {name: pa.array(values, kinds.get(name, pa.string())) for name, values in columns.items()}
        except pa.ArrowException:
            raise Failed(
                f"sheet {sheet.title} has text where numbers should be, or numbers for texts"
            ) from None
        yield pa.RecordBatch.from_pydict(made)
