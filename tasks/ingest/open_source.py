"""Opening a source through Ibis: the engine, the handle of an input, and its table.

The engine is DuckDB, embedded: it works on files out of core, spills into the secure workspace only, loads
no extension and asks nothing of the network. A table behind a database URL is taken into the workspace
when it is ingested (:mod:`tabularium.tasks.ingest.snapshot`) and opened from there, so that what is counted
is what the digest names.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tabularium.mechanisms.errors import Finding, InputError, InputRefused
from tabularium.tasks.engines.in_place import IN_PLACE, batches_of, held, listed
from tabularium.tasks.ingest.csv_text import LONGEST_ROW, compression, read_header
from tabularium.tasks.ingest.find_files import Found, found_again
from tabularium.tasks.ingest.source_columns import (
    needed_columns,
    parquet_schema,
    raw_names,
    read_as_numbers,
    with_zones,
    zones_of,
)
from tabularium.validations.domains.encoding import as_text, number_column, number_of, plain_column
from tabularium.validations.imported_later import Later
from tabularium.validations.redaction import note_data_opened, redacted
from tabularium.validations.release_spec.columns import Derivation
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.source import Files, taken_from

if TYPE_CHECKING:
    import ibis
else:
    ibis = Later("ibis")

BATCH_ROWS = 1_000_000
CSV, PARQUET, SNAPSHOT = "csv", "parquet", "snapshot"
_MEMORY_VARIABLE = "TABULARIUM_ENGINE_MEMORY"
# DuckDB asks for about 125 MB per thread; with less it spills, or gives up.
_LEAST_MIB, _MIB_PER_THREAD = 512, 128


@dataclass(frozen=True)
class FileHandle:
    """One file of an input.

    Attributes
    ----------
    name
        Absolute path.
    size, mtime_ns
        Bytes and time of change, by which a change under the run is noticed.
    digest
        HMAC-SHA-256 of the content under the agency's secret, hexadecimal.
    """

    name: str
    size: int
    mtime_ns: int
    digest: str


@dataclass(frozen=True)
class InputHandle:
    """An input by name.

    Attributes
    ----------
    kind
        ``csv``, ``parquet``, ``snapshot`` for a table of a database that was taken into the workspace, or the
        name of the engine that holds the records.
    base
        Folder below which the folders of a partitioned source mean something; empty if none do.
    digest
        Keyed digest of the whole, with look-ups of the privacy unit; the same content elsewhere has the same.
    main
        That of the source without its look-ups.
    copies
        What is read instead of CSV files: their needed columns, in the workspace.
    lookups
        The look-ups, by name. A public one has a plain digest, which is not in that of the whole.
    held
        Where an engine holds the records, the word under which it is kept open for the run.
    """

    uri: str
    kind: str
    base: str
    files: tuple[FileHandle, ...]
    digest: str
    main: str = ""
    copies: tuple[FileHandle, ...] = ()
    lookups: dict[str, InputHandle] = field(default_factory=dict)
    held: str = ""


@dataclass(frozen=True)
class OpenSource:
    """An open source.

    Attributes
    ----------
    engine
        The Ibis connection, or the engine that holds the records.
    table
        Ibis table of exactly the columns that the spec speaks of, those of its look-ups among them.
    raw
        Column of the source, or ``LOOKUP.COLUMN`` -> its name in ``table``.
    columns
        Declared column -> where it comes from, dated in the zones that files name.
    """

    engine: Any
    table: Any
    raw: dict[str, str]
    columns: dict[str, Derivation]


@contextmanager
def engine(scratch: Path) -> Iterator[Any]:
    """Open DuckDB for the block, spilling into a closed folder of ``scratch``."""
    spill = scratch / "spill"
    spill.mkdir(mode=0o700, parents=True, exist_ok=True)
    cores = _cores()
    memory = os.environ.get(_MEMORY_VARIABLE) or f"{max(_LEAST_MIB, _MIB_PER_THREAD * cores)}MiB"
    settings = {
        "threads": cores,
        "memory_limit": memory,
        "temp_directory": str(spill),
        "preserve_insertion_order": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "allow_community_extensions": "false",
        "allow_persistent_secrets": "false",
    }
    refusal = InputError(
        "the engine does not start with these settings",
        where=_MEMORY_VARIABLE,
        hint="leave the variable out, or set it to a size such as 1GB",
    )
    connection = redacted(lambda: ibis.duckdb.connect(":memory:", **settings), refusal)
    try:
        connection.con.execute("SET enable_progress_bar = false")
        yield connection
    finally:
        connection.disconnect()


@contextmanager
def opened(loaded: Loaded, handle: InputHandle, scratch: Path) -> Iterator[OpenSource]:
    """Open the input that a handle names.

    Raises
    ------
    InputError
        If a file has changed since the handle was made, or cannot be opened.
    """
    note_data_opened()
    check_unchanged(handle)
    columns = with_zones(loaded, {name: zones_read(one) for name, one in _inputs(handle).items()})
    if handle.kind in IN_PLACE:
        source = held(handle.held)
        failure = partial(unreadable, loaded, handle, scratch)
        made = redacted(partial(_in_place, source, loaded, handle, scratch), failure)
        yield OpenSource(source, *made, columns)
        return
    with engine(scratch) as connection:
        if any(column.date is not None and column.date.zone is not None for column in columns.values()):
            # It would write the steps to a civil date into each other, as often as each is used.
            _optimize_without(connection, "partial_aggregate_pushdown")
        table, raw = redacted(
            lambda: quietly(lambda: _joined(connection, loaded, handle)),
            lambda: unreadable(loaded, handle, scratch),
        )
        yield OpenSource(connection, table, raw, columns)


def zones_read(handle: InputHandle) -> dict[str, str | None]:
    """Return the columns of instants of an input, with the zones in its files; empty for a snapshot."""
    if handle.kind in IN_PLACE:
        return dict.fromkeys(held(handle.held).instants)
    return zones_of(parquet_schema(Path(handle.files[0].name))) if handle.kind == PARQUET else {}


def _inputs(handle: InputHandle) -> dict[str, InputHandle]:
    return {"": handle, **handle.lookups}


def quietly(work: Any) -> Any:
    """Return ``work()`` without the deprecation warnings that Ibis raises in DuckDB."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return work()


def check_unchanged(handle: InputHandle) -> None:
    """Check that the files are unchanged since their digest was taken.

    Raises
    ------
    InputError
        If the size or the time of change of a file differs, or it is gone.
    """
    for file in (file for one in _inputs(handle).values() for file in (*one.files, *one.copies)):
        try:
            now = Path(file.name).stat()
            same = (now.st_size, now.st_mtime_ns) == (file.size, file.mtime_ns)
        except OSError:
            same = False
        if not same:
            raise changed()


def known(path: Path, digest: str = "") -> FileHandle:
    """Return the handle of a file, as it is now."""
    now = path.stat()
    return FileHandle(str(path), now.st_size, now.st_mtime_ns, digest)


def changed() -> InputError:
    """Return the error for a source that changed."""
    return InputError(
        "the source changed while it was read", where="source", hint="run again when nothing writes to it"
    )


def unreadable(loaded: Loaded, handle: InputHandle, scratch: Path) -> InputRefused:
    """Return the error for a source that the engine could not read to its end."""
    if handle.kind in IN_PLACE:
        return InputRefused(
            "the engine could not read the records to their end",
            where="source",
            hint="check that it is up and has room for temporary files, and run again",
        )
    for name, one in _inputs(handle).items():
        if one.kind == PARQUET and one.base:
            with engine(scratch) as connection:
                wanted = _wanted(loaded, name)
                column = contradicted(connection.con, _sql(connection, one, wanted), wanted)
            if column is not None:
                return contradicts(column, f"lookups.{name}" if name else "source")
    return InputRefused("the file is damaged", where="source", hint="write it again from where it was made")


def rows_of(handle: InputHandle) -> int:
    """Return the number of records: from the footers of the files, or as an engine counted before."""
    if handle.kind in IN_PLACE:
        return int(held(handle.held).records)
    return sum(int(pq.read_metadata(file.name).num_rows) for file in handle.copies or handle.files)


def miscounted(read: int, there: int, field: str = "source") -> InputRefused:
    """Return the error for a wrong number of records read; the numbers stay at home."""
    return InputRefused(
        "the engine read another number of records than are there",
        where=field,
        hint=f"check {field}.delimiter, and that quotes stand around whole values; write the files again",
        findings=[Finding(kind=f"{read} records were read, and there are {there}")],
    )


def see_keys(loaded: Loaded, name: str, handle: InputHandle, scratch: Path) -> None:
    """Check that the keys of a public look-up are unique.

    Raises
    ------
    InputRefused
        If one stands there again, or the file cannot be read to its end.
    """
    _of_look_up(loaded, name, handle, scratch, partial(require_unique, loaded, name))


def keys_of(loaded: Loaded, name: str, handle: InputHandle, scratch: Path) -> pa.Array:
    """Return the keys of a public look-up as text.

    Raises
    ------
    InputRefused
        If the file cannot be read to its end.
    """
    read = _of_look_up(loaded, name, handle, scratch, lambda table: keys_in(loaded, name, table).to_pyarrow())
    return read.column(0).combine_chunks()


def _of_look_up(
    loaded: Loaded, name: str, handle: InputHandle, scratch: Path, work: Callable[[Any], Any]
) -> Any:
    """Return the result of ``work`` on the table of a look-up."""
    with engine(scratch) as connection:
        return redacted(
            lambda: quietly(lambda: work(_table(connection, handle, _wanted(loaded, name)))),
            lambda: unreadable(loaded, replace(handle, files=(), lookups={name: handle}), scratch),
        )


def stream(source_engine: Any, expression: Any, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Yield the result of an expression in batches.

    On DuckDB this goes through a view, which makes Ibis register the code lists the expression joins with.
    """
    if source_engine.name in IN_PLACE:
        yield from batches_of(source_engine, expression)
        return
    name = ibis.util.gen_name("stream")
    quietly(lambda: source_engine.create_view(name, expression))
    relation = source_engine.con.sql(f'SELECT * FROM "{name}"')
    yield from relation.to_arrow_reader(rows)


def first_row(expression: Any, source_engine: Any = None) -> dict[str, Any]:
    """Return the only row of an expression; over records that an engine holds, from that engine."""
    if source_engine is not None and source_engine.name in IN_PLACE:
        records: dict[str, Any] = pa.Table.from_batches(batches_of(source_engine, expression)).to_pylist()[0]
        return records
    rows: list[dict[str, Any]] = quietly(lambda: expression.to_pyarrow().to_pylist())
    return rows[0]


def _cores() -> int:
    """Return the number of processors this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def _joined(connection: Any, loaded: Loaded, handle: InputHandle) -> tuple[Any, dict[str, str]]:
    """Return the table of all records joined with look-ups, and the names of its columns."""
    raw = raw_names(needed_columns(loaded))
    table = _table(connection, handle, _wanted(loaded))
    raw |= raw_names_found(loaded)
    tables = {
        name: _table(connection, lookup, _wanted(loaded, name)) for name, lookup in handle.lookups.items()
    }
    return _with_plain_numbers(joined(table, raw, loaded, tables), raw, loaded), raw


def _with_plain_numbers(table: Any, raw: Mapping[str, str], loaded: Loaded) -> Any:
    """Return a table with plain numbers added for text columns that write them in another way."""
    spec, added = loaded.spec, {}
    for column in read_as_numbers(loaded):
        name = raw.get(column)
        lookup, _ = taken_from(column, spec.lookups)
        written = (spec.lookups[lookup] if lookup else spec.source).separators
        if name is not None and table[name].type().is_string() and not written.are_usual:
            added[plain_column(name)] = written.plain(table[name])
    return table.mutate(**added) if added else table


def _in_place(source: Any, loaded: Loaded, handle: InputHandle, scratch: Path) -> tuple[Any, dict[str, str]]:
    """Return the same as :func:`_joined` for records in an engine: their look-ups are public."""
    raw = raw_names(needed_columns(loaded))
    measured = [raw[name] for name in loaded.spec.measured_columns if name in raw]
    table = _with_plain_numbers(source.table, raw, loaded)
    table = table.mutate(**{number_column(name): number_of(table, name) for name in measured})
    if not handle.lookups:
        return table, raw
    with engine(scratch) as connection:
        tables = {
            name: quietly(
                lambda name=name, of_lookup=lookup: listed(
                    _table(connection, of_lookup, _wanted(loaded, name))
                )
            )
            for name, lookup in handle.lookups.items()
        }
    raw_names_ = raw_names_found(loaded)
    raw |= raw_names_
    return _with_plain_numbers(joined(table, raw, loaded, tables), raw_names_, loaded), raw


def _wanted(loaded: Loaded, look_up: str = "") -> dict[str, str]:
    """Return the columns to read from a look-up, or from the source: name inside the engine -> column."""
    if look_up:
        return read_columns(loaded, look_up)
    return {name: column for column, name in raw_names(needed_columns(loaded)).items()}


def _table(connection: Any, handle: InputHandle, wanted: Mapping[str, str]) -> Any:
    """Return the wanted columns of one input."""
    name = ibis.util.gen_name("files")
    connection.con.execute(f"CREATE TEMP VIEW {name} AS {_sql(connection, handle, wanted)}")
    table = connection.table(name)
    if any(kind.is_floating() for kind in table.schema().types):
        # A Parquet file's least and greatest leave not-a-number out, and the engine would take it for one
        # of the numbers between them.
        _optimize_without(connection, "statistics_propagation")
    return table


def _optimize_without(connection: Any, name: str) -> None:
    """Switch one of DuckDB's optimizers off, if this version has it."""
    known = connection.con.execute("SELECT name FROM duckdb_optimizers()").fetchall()
    (off,) = connection.con.execute("SELECT current_setting('disabled_optimizers')").fetchone()
    if (name,) in known:
        both = ",".join(sorted({*filter(None, off.split(",")), name}))
        connection.con.execute(f"SET disabled_optimizers = '{both}'")


def _sql(connection: Any, handle: InputHandle, wanted: Mapping[str, str]) -> str:
    base, files = handle.base, handle.files
    if handle.kind != PARQUET:  # a copy, in which columns have their names inside the engine
        base, files, wanted = "", handle.copies or handle.files, {raw: raw for raw in wanted}
    paths = [Path(file.name) for file in files]
    return parquet_table(connection.con, found_again("parquet", base, paths), wanted)


# Look-ups, joined so that no record is lost, doubled or changed by others:
#
#     record ── value of `from`, and its unit ──▶ the one row of the look-up with that key, of that unit
#                                                 (none, or more than one: null)
#
# A public look-up is a fixed function of the value. In any other a record finds only rows of its own unit:
# what is found depends on the unit's own rows, and so does a missing key or one that is there twice. Keys
# are compared as text, as codes are.


_KEY, _UNIT = "key", "unit"


def read_columns(loaded: Loaded, name: str) -> dict[str, str]:
    """Return the columns to read from a look-up's file, by their names inside the engine."""
    look, number = loaded.spec.lookups[name], _place(loaded, name)
    keys = {f"look{number}_{_KEY}": look.key, f"look{number}_{_UNIT}": look.unit}
    columns = {f"look{number}_{at}": column for at, column in enumerate(needed_columns(loaded, name))}
    return {raw: column for raw, column in keys.items() if column is not None} | columns


def raw_names_found(loaded: Loaded) -> dict[str, str]:
    """Return ``LOOKUP.COLUMN`` -> its name inside the engine, for every column in use."""
    return {
        f"{name}.{column}": f"look{_place(loaded, name)}_{at}"
        for name in loaded.spec.lookups
        for at, column in enumerate(needed_columns(loaded, name))
    }


def joined(table: Any, raw: Mapping[str, str], loaded: Loaded, tables: Mapping[str, Any]) -> Any:
    """Return the records joined with every look-up, null where it has no row.

    Parameters
    ----------
    table
        Ibis table of the records of the source.
    raw
        Column of the source, or ``LOOKUP.COLUMN`` -> its name inside the engine.
    tables
        Look-up -> Ibis table of the columns of :func:`read_columns`.
    """
    unit = loaded.spec.privacy.unit.column
    for name, look in loaded.spec.lookups.items():
        number = _place(loaded, name)
        on = {} if look.looked_up is None else {f"look{number}_{_KEY}": look.looked_up}
        if look.unit is not None:
            on[f"look{number}_{_UNIT}"] = unit or ""  # there is none: never without the unit
        both = {key: (tables[name][key], table[raw[column]]) for key, column in on.items()}
        keys = {key: _comparable(*columns) for key, columns in both.items()}
        rows = _one_of_each(
            tables[name].mutate(**{key: there for key, (there, _) in keys.items()}), list(keys)
        )
        table = table.left_join(rows, [here == rows[key] for key, (_, here) in keys.items()]).drop(*keys)
    return table


def require_unique(loaded: Loaded, name: str, table: Any) -> None:
    """Refuse a public look-up with a repeated key: it is not known which of its rows is meant.

    Raises
    ------
    InputRefused
        Saying for how many keys. It is public.
    """
    counts = keys_in(loaded, name, table).group_by(_KEY).aggregate(rows=ibis._.count())
    twice = counts.filter(counts.rows > 1).count().execute()
    if twice:
        raise InputRefused(
            f"{twice} keys stand in more than one row" if twice > 1 else "a key stands in more than one row",
            where=f"lookups.{name}",
            hint="leave one row of each key: a public look-up gives each value one row",
        )


def keys_in(loaded: Loaded, name: str, table: Any) -> Any:
    """Return the keys of a look-up as text, a table of one column; rows without a key are left out."""
    key = table[f"look{_place(loaded, name)}_{_KEY}"]
    return table.select(as_text(key).name(_KEY)).filter(ibis._[_KEY].notnull())


def _place(loaded: Loaded, name: str) -> int:
    return list(loaded.spec.lookups).index(name)


def _comparable(there: Any, here: Any) -> tuple[Any, Any]:
    """Return a key and the value to look up as types that are equal if their texts are."""
    if there.type().is_integer() and here.type() == there.type():
        return there, here  # a whole number has one text
    return as_text(there), as_text(here)


def _one_of_each(table: Any, keys: list[str]) -> Any:
    """Return one row for each key: its only row, or nulls where there are several."""
    rows = table.filter(*(table[key].notnull() for key in keys))
    columns = [name for name in rows.columns if name not in keys]
    only = ibis._.count() == 1
    # Of a single row `arbitrary` gives its value, or null where that is null.
    values = {
        name: ibis.ifelse(only, rows[name].arbitrary(), ibis.null(rows[name].type())) for name in columns
    }
    return rows.group_by(keys).aggregate(**values)


# SQL of tables in files: columns of the files, and values in the names of their folders (``sex=f/``). These
# are joined by the name of the file, since the engine would read them in its own way: an ``=`` within a
# value, or names that differ only in capital letters.


# DuckDB wants at least one text that means null; this one is in no file of text.
_NO_NULL = "\ue000"
_FOLDERS, _FILE, _DIFFERS = "tabularium_folders", "tabularium_file", "tabularium_differs"


def csv_tables(
    connection: Any, files: Files, listed: Found, wanted: Mapping[str, str]
) -> dict[str, tuple[tuple[Path, ...], str]]:
    """Return, for each compression, its CSV files and the SQL of their wanted columns, as text.

    Each file is read from its beginning to its end by one thread: in parallel the engine loses records where
    a row or a quoted value lies across a border between threads. Without quotes, as ``quote: none``
    declares, all borders are found rightly.

    Parameters
    ----------
    connection
        DuckDB's; the values of folders are registered there.
    listed
        Files of one header.
    wanted
        Name inside the engine -> column of the header, or of the folders.
    """
    header = read_header(listed.paths[0], files)
    fields = {name: f"field{index}" for index, name in enumerate(header)}
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
    for path in listed.paths:
        kinds.setdefault(compression(path), []).append(path)
    return {
        kind: (
            tuple(paths),
            _selected(
                connection,
                f"read_csv({_listed(paths)}, {options}, compression = '{kind}'",
                {raw: (fields.get(column), column) for raw, column in wanted.items()},
                listed,
            ),
        )
        for kind, paths in kinds.items()
    }


def parquet_table(connection: Any, listed: Found, wanted: Mapping[str, str]) -> str:
    """Return the SQL of the wanted columns of Parquet files, by their names inside the engine.

    Instants are read as text in UTC, whatever the zone of the session is.
    """
    schema = parquet_schema(listed.paths[0])
    there = {name: _name(name) for name in schema.names}
    there |= {name: _in_utc(_name(name), schema.field(name).type.unit) for name in zones_of(schema)}
    return _selected(
        connection,
        f"read_parquet({_listed(listed.paths)}",
        {raw: (there.get(column), column) for raw, column in wanted.items()},
        listed,
    )


def contradicted(connection: Any, table: str, wanted: Mapping[str, str]) -> str | None:
    """Return a column in which a file contradicts the name of its folder, if there is one.

    ``table``: SQL of this module, which could not be read to its end.
    """
    try:
        connection.execute(f"SELECT {', '.join(f'max({raw})' for raw in wanted)} FROM ({table})").fetchall()
    except Exception as error:  # whose text may quote data: nothing else of it is used
        raw = re.search(rf"{_DIFFERS} (\w+)", str(error))
        return wanted[raw[1]] if raw else None
    return None


def contradicts(column: str, field: str) -> InputRefused:
    """Return the error for a column in which files contradict the names of their folders."""
    return InputRefused(
        f"column {column!r} holds other values in the files than the names of their folders",
        where=field,
        hint="remove it from the files, or name the folders without it",
        findings=[Finding(column=column, kind="other values in the files than the names of their folders")],
    )


def literal(path: str) -> str:
    """Return a pattern for this one file: the engine takes every name for a pattern."""
    return re.sub(r"([*?\[])", r"[\1]", path)


def _selected(
    connection: Any, reader: str, wanted: Mapping[str, tuple[str | None, str]], files_found: Found
) -> str:
    """Return the SQL of wanted columns: name inside the engine -> name in the reader or None, and column.

    ``reader`` is a call without its last parenthesis.
    """
    columns = []
    for raw, (here, column) in wanted.items():
        folder = f"folders.part{files_found.folders.index(column)}" if column in files_found.folders else None
        if here is None or folder is None:
            columns.append(f"{here or folder} AS {raw}")
            continue
        differs = f"CAST({here} AS VARCHAR) IS DISTINCT FROM {folder}"
        columns.append(f"CASE WHEN {differs} THEN error('{_DIFFERS} {raw}') ELSE {here} END AS {raw}")
    listed = ", ".join(columns) or "1 AS none"
    if not files_found.folders:
        return f"SELECT {listed} FROM {reader}, hive_partitioning = false)"
    values = [(str(path), *files_found.values(path)) for path in files_found.paths]
    names = ["file", *(f"part{index}" for index in range(len(files_found.folders)))]
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
