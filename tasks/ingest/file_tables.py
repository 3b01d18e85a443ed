"""SQL of the tables that stand in files: columns of the files themselves, and of the folders they lie in.

Values in the names of folders (``sex=f/``) are joined by the name of the file, since the engine would read
them in its own way: an ``=`` within a value, or names that differ in capital letters alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tabularium.mechanisms.errors import Finding, InputRefused
from tabularium.tasks.ingest.csv_text import compression, read_header
from tabularium.tasks.ingest.find_files import Found
from tabularium.tasks.ingest.record_counts import LONGEST_ROW
from tabularium.tasks.ingest.source_columns import parquet_schema, zones_of
from tabularium.validations.release_spec.source import Files

# DuckDB wants at least one text that means null; this one is in no file of text.
_NO_NULL = "\ue000"
_FOLDERS, _FILE, _DIFFERS = "tabularium_folders", "tabularium_file", "tabularium_differs"


def csv_tables(
    connection: Any, files: Files, found: Found, wanted: Mapping[str, str]
) -> dict[str, tuple[tuple[Path, ...], str]]:
    """Return for each compression the CSV files that have it, and the SQL of their wanted columns, as text.

    Each file is read from its beginning to its end by one thread: in parallel the engine loses records where
    a row or a quoted value lies across a border between threads. Without quotes, as ``quote: none``
    declares, all borders are found rightly.

    Parameters
    ----------
    connection
        DuckDB's; the values of folders are registered there.
    found
        Files of one header.
    wanted
        Name inside the engine -> column of the header, or of the folders.
    """
    header = read_header(found.paths[0], files)
    fields = {name: f"field{place}" for place, name in enumerate(header)}
    columns = ", ".join(f"{field}: 'VARCHAR'" for field in fields.values())
    nulls = ", ".join(map(_text, files.nulls or [_NO_NULL]))
    quoting = files.quote != "none"
    quote = _text(files.quote if quoting else "")
    options = (
        f"columns = {{{columns}}}, header = true, auto_detect = false, delim = {_text(files.delimiter)}, "
        f"quote = {quote}, escape = {quote}, nullstr = [{nulls}], "
        f"parallel = {str(not quoting).lower()}, max_line_size = {LONGEST_ROW + 1000}"
    )
    kinds: dict[str, list[Path]] = {}
    for path in found.paths:
        kinds.setdefault(compression(path), []).append(path)
    return {
        kind: (
            tuple(paths),
            _selected(
                connection,
                f"read_csv({_listed(paths)}, {options}, compression = '{kind}'",
                {raw: (fields.get(column), column) for raw, column in wanted.items()},
                found,
            ),
        )
        for kind, paths in kinds.items()
    }


def parquet_table(connection: Any, found: Found, wanted: Mapping[str, str]) -> str:
    """Return the SQL of the wanted columns of Parquet files, by their names inside the engine.

    Instants are read as text in UTC, whatever the zone of the session is.
    """
    schema = parquet_schema(found.paths[0])
    there = {name: _name(name) for name in schema.names}
    there |= {name: _in_utc(_name(name), schema.field(name).type.unit) for name in zones_of(schema)}
    return _selected(
        connection,
        f"read_parquet({_listed(found.paths)}",
        {raw: (there.get(column), column) for raw, column in wanted.items()},
        found,
    )


def contradicted(connection: Any, table: str, wanted: Mapping[str, str]) -> str | None:
    """Return the column of which a file holds another value than the folder it lies in, if any does.

    Parameters
    ----------
    table
        SQL of this module, which could not be read to its end.
    """
    try:
        connection.execute(f"SELECT {', '.join(f'max({raw})' for raw in wanted)} FROM ({table})").fetchall()
    except Exception as error:  # whose text may quote data: nothing else of it is used
        raw = re.search(rf"{_DIFFERS} (\w+)", str(error))
        return wanted[raw[1]] if raw else None
    return None


def contradicts(column: str, field: str) -> InputRefused:
    """Return the error for a column of which files hold other values than the folders they lie in."""
    return InputRefused(
        f"column {column!r} holds other values in the files than the names of their folders",
        where=field,
        hint="remove it from the files, or name the folders without it",
        findings=[Finding(column=column, kind="other values in the files than the names of their folders")],
    )


def literal(path: str) -> str:
    """Return a pattern that stands for this one file: the engine takes every name for a pattern."""
    return re.sub(r"([*?\[])", r"[\1]", path)


def _selected(
    connection: Any, reader: str, wanted: Mapping[str, tuple[str | None, str]], found: Found
) -> str:
    """Return the SQL of wanted columns: name inside the engine -> name in the reader or None, and column.

    ``reader`` is a call without its last parenthesis.
    """
    columns = []
    for raw, (here, column) in wanted.items():
        folder = f"folders.part{found.folders.index(column)}" if column in found.folders else None
        if here is None or folder is None:
            columns.append(f"{here or folder} AS {raw}")
            continue
        differs = f"CAST({here} AS VARCHAR) IS DISTINCT FROM {folder}"
        columns.append(f"CASE WHEN {differs} THEN error('{_DIFFERS} {raw}') ELSE {here} END AS {raw}")
    listed = ", ".join(columns) or "1 AS none"
    if not found.folders:
        return f"SELECT {listed} FROM {reader}, hive_partitioning = false)"
    values = [(str(path), *found.values(path)) for path in found.paths]
    names = ["file", *(f"part{place}" for place in range(len(found.folders)))]
    table = pa.table([pa.array(column, pa.string()) for column in zip(*values, strict=True)], names)
    connection.register(_FOLDERS, table)
    read = f"{reader}, hive_partitioning = false, filename = '{_FILE}')"
    return f"SELECT {listed} FROM {read} JOIN {_FOLDERS} AS folders ON {_FILE} = folders.file"


def _in_utc(column: str, unit: str) -> str:
    # A cast from nanoseconds would round up, over midnight too.
    nanos = f"epoch_ns({column})::HUGEINT"
    floored = f"(({nanos} - (({nanos} % 1000) + 1000) % 1000) // 1000)::BIGINT"
    micros = floored if unit == "ns" else f"epoch_us({column})"
    text = f"CAST(make_timestamp({micros}) AS VARCHAR) || '+00:00'"
    return f"CASE WHEN {column} IS NOT NULL THEN coalesce({text}, 'infinite') END"


def _listed(paths: Sequence[Path]) -> str:
    return f"[{', '.join(_text(literal(str(path))) for path in paths)}]"


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
