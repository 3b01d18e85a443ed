"""The SDMX format: rows of tables and histograms as SDMX-CSV 2.0, and their structure message."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.csv

from tabularium.tasks.public_folder import named, open_csv
from tabularium.tasks.publish.formats.base import TableFormat, Tables
from tabularium.tasks.publish.formats.sdmx.cubes import (
    STATUS,
    Cube,
    code_id,
    cubes,
    dimension_ids,
    measure_id,
    original_code,
    product_id,
    time_period,
)
from tabularium.tasks.publish.frames import QUALITY, Shape, WriteRows, rows_into_csv
from tabularium.tasks.publish.published_tables import FLAGS, PublishedTable
from tabularium.validations.public_files import MIB, Unreadable
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.partial_spec import PartialSpec
from tabularium.validations.release_spec.problems import quoted
from tabularium.validations.release_spec.publication_formats import FileKind

_FIXED = ("STRUCTURE", "STRUCTURE_ID", "ACTION", "TIME_PERIOD")


class Sdmx(TableFormat):
    """SDMX-CSV of each table and histogram, and one message about structures."""

    name = "sdmx"
    summary = "`<table>.sdmx.csv` (SDMX-CSV 2.0) and the structure of all tables"
    kinds = (
        FileKind(".sdmx.csv", "SDMX-CSV 2.0", "SDMX-CSV 2.0", "application/vnd.sdmx.data+csv", "CSV"),
        FileKind(
            ".sdmx.xml",
            "SDMX structure (XML)",
            "SDMX-ML 3.0, structure",
            "application/vnd.sdmx.structure+xml",
            "XML",
            stem="structure",
        ),
        FileKind(
            ".sdmx.json",
            "SDMX structure (JSON)",
            "SDMX-JSON 2.0, structure",
            "application/vnd.sdmx.structure+json",
            "JSON",
            stem="structure",
        ),
    )
    same = "SDMX-CSV holds the same as the first format"

    def files(self, spec: ReleaseSpec) -> set[str]:
        """Return the files of rows, and the structure as the spec wants it written."""
        return {name for name in super().files(spec) if not name.startswith("structure.")} | {
            _structure_file(spec)
        }

    def check(self, partial: PartialSpec) -> None:
        """Check that SDMX can write the period."""
        period = partial.document.data.get("period")
        if isinstance(period, str | int) and time_period(str(period)) is None:
            hint = (
                "write such as 2026, 2026-Q1, 2026-03 or 2026-03-01, or take sdmx out of publication.formats"
            )
            partial.add(("period",), f"{quoted(period)} is no period that SDMX can write", hint)

    @contextmanager
    def writer(self, loaded: Loaded, name: str, table: PublishedTable, folder: Path) -> Iterator[WriteRows]:
        """Open ``<table>.sdmx.csv``."""
        turned = _row_maker(dict(cubes(loaded, {name: table}))[name])
        schema = turned(table.frame.make(0, 0)).schema
        with rows_into_csv(schema, folder / f"{name}.sdmx.csv", quoted=False) as write:
            yield lambda rows: write(turned(rows))

    def finish(self, loaded: Loaded, tables: Tables, folder: Path) -> None:
        """Write ``structure.sdmx.xml``, or ``.json`` where the spec says so."""
        from tabularium.tasks.publish.formats.sdmx.structure import (
            structure_message,  # pysdmx takes long to import
        )

        text = structure_message(loaded, [cube for _, cube in cubes(loaded, tables)])
        (folder / _structure_file(loaded.spec)).write_text(text, encoding="utf-8")

    def shape(self, shape: Shape) -> Shape:
        """Return codes and levels, without labels."""
        if shape.layout is None:
            return shape
        codes = shape.layout.table.dimensions
        return replace(shape, labels=tuple(label for label in shape.labels if label in ("level", *codes)))

    def spelled(self, flags: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the statuses of flags; two flags share one status."""
        return pa.chunked_array([_mapped(chunk, STATUS) for chunk in flags.chunks], pa.string())

    def read(
        self,
        loaded: Loaded,
        folder: Path,
        shape: Shape,
        rows: Mapping[str, int],
        columns: Collection[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows: a code for each dimension, then the numbers."""
        name, period, ids = (
            f"{shape.name}.sdmx.csv",
            time_period(loaded.spec.period),
            dimension_ids(loaded.spec),
        )
        number = pa.int64() if shape.whole else pa.float64()
        ours = {*shape.measures, *shape.flags} - {QUALITY}
        dimensions = ["size"] if shape.layout is None else [name for name in shape.labels if name != "level"]
        with named(name):
            file = open_csv(folder / name, largest=shape.largest_text)
        with file:
            header = _header(file)
            names = {ids.get(dimension, "SIZE"): dimension for dimension in dimensions}
            measures = [measure_id(column) for column in shape.columns if column in ours]
            rest = ["OBS_VALUE", *(["MARGIN"] if shape.layout is not None else []), *measures, "OBS_STATUS"]
            rest += ["LEVEL"] if "level" in shape.labels else []
            if [*_FIXED[:3], *names, "TIME_PERIOD", *rest] != header or len(names) != len(dimensions):
                raise Unreadable(f"{name} does not have the columns of SDMX-CSV for its table")
            types = {**dict.fromkeys(header, pa.string()), "OBS_VALUE": number, "MARGIN": number}
            types |= {measure_id(measure): pa.float64() for measure in shape.measures}
            if shape.layout is None:
                types[header[3]] = number
            flow: set[str] = set()
            options = pa.csv.ConvertOptions(column_types=types, null_values=[""])
            try:
                with pa.csv.open_csv(file, convert_options=options) as reader:
                    for batch in reader:
                        by_column = {column: batch.column(column) for column in header}
                        flow |= set(by_column["STRUCTURE_ID"].unique().to_pylist())
                        _see_constant(name, by_column, period or "", flow)
                        yield _in_our_names(shape, by_column, names)
            except pa.ArrowException:
                raise Unreadable(f"{name} is not SDMX-CSV with the columns of its table") from None

    def identities(self, loaded: Loaded) -> Mapping[str, str]:
        """Return the beginning of the ids of dataflows."""
        return {_structure_file(loaded.spec): f'"DF_{product_id(loaded)}_'}


def _structure_file(spec: ReleaseSpec) -> str:
    return f"structure.sdmx.{spec.publication.sdmx.structure}"


def _row_maker(cube: Cube) -> Callable[[pa.Table], pa.Table]:
    """Return a function that turns rows of a table into the columns of SDMX-CSV.

    That is its margin, its measures, status and level. Texts are dictionaries: each code is spelled as SDMX
    wants it once, however many rows have it.
    """
    status = pa.array([STATUS[flag] for flag in FLAGS])
    last: dict[str, tuple[pa.Array, pa.Array]] = {}  # of each column: codes, and how SDMX spells them

    def spelled(name: str, column: pa.ChunkedArray) -> pa.DictionaryArray | pa.ChunkedArray:
        if not pa.types.is_dictionary(column.type):
            return column
        codes = column.combine_chunks().dictionary  # those of a large table differ between its parts
        if name not in last or not codes.equals(last[name][0]):
            last[name] = codes, pa.array([code_id(code) for code in codes.to_pylist()], pa.string())
        return _with(last[name][1], column)

    def of(part: pa.Table) -> pa.Table:
        rows = part.num_rows
        columns = {
            "STRUCTURE": _same("dataflow", rows),
            "STRUCTURE_ID": _same(cube.flow, rows),
            "ACTION": _same("I", rows),
        }
        for column, name in cube.dimensions.items():
            columns[name] = spelled(column, part[column])
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


def _with(texts: pa.Array, column: pa.ChunkedArray) -> pa.Array:
    """Return a column of dictionaries with other texts."""
    return pa.DictionaryArray.from_arrays(column.combine_chunks().indices, texts)


def _header(file: BinaryIO) -> list[str]:
    line = file.readline(MIB).decode("utf-8", "replace")
    file.seek(0)
    return [name.strip().strip('"') for name in line.split(",")]


def _see_constant(file: str, columns: dict[str, pa.Array], period: str, flow: set[str]) -> None:
    for name, expected in (("STRUCTURE", "dataflow"), ("ACTION", "I"), ("TIME_PERIOD", period)):
        if columns[name].unique().to_pylist() not in ([expected], []):
            raise Unreadable(f"{file}: {name} is not {expected} everywhere")
    if len(flow) > 1:
        raise Unreadable(f"{file} names several structures")


def _in_our_names(shape: Shape, by_column: dict[str, pa.Array], names: dict[str, str]) -> pa.RecordBatch:
    ours = {column: name for name, column in names.items()}
    columns: dict[str, pa.Array] = {}
    for column in shape.columns:
        if column == "level":
            columns[column] = by_column["LEVEL"]
        elif column == QUALITY:
            columns[column] = by_column["OBS_STATUS"]
        elif column in ("count", "number"):
            columns[column] = by_column["OBS_VALUE"]
        elif column in shape.measures or column in shape.flags:
            columns[column] = by_column[measure_id(column)]
        elif column == "margin":
            columns[column] = by_column["MARGIN"]
        elif shape.layout is None:
            columns[column] = by_column[ours[column]]
        else:
            codes = by_column[ours[column]].unique().to_pylist()
            columns[column] = _mapped(
                by_column[ours[column]], {code: original_code(code or "") for code in codes}
            )
    return pa.RecordBatch.from_pydict(columns)


def _mapped(column: pa.Array, names: dict[str, str]) -> pa.Array:
    encoded = column.dictionary_encode()
    spelled = pa.array([names.get(code) for code in encoded.dictionary.to_pylist()], pa.string())
    return pa.DictionaryArray.from_arrays(encoded.indices, spelled).cast(pa.string())
