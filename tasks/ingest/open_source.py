"""Opening a source through Ibis: the engine, the handle of an input, and its table.

The engine is DuckDB, embedded: it works on files out of core, spills into the secure workspace only, loads
no extension and asks nothing of the network. A table behind a database URL is taken into the workspace
when it is ingested (:mod:`tasks.ingest.snapshot`) and opened from there, so that what is counted is what the
digest names.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa

from mechanisms.errors import Finding, InputError, InputRefused
from tasks.ingest.csv_text import compression, read_header
from tasks.ingest.irregular_lines import MOST, irregular_lines
from validations.derivation.derived_columns import source_column
from validations.domains.domains import Domain
from validations.redaction import redacted
from validations.spec.load import Loaded
from validations.spec.parts.rules import UniqueRule
from validations.universes.universe import test_of

BATCH_ROWS = 1_000_000
CSV, PARQUET, SNAPSHOT = "csv", "parquet", "snapshot"
_MEMORY_VARIABLE = "TABULARIUM_ENGINE_MEMORY"
# DuckDB asks for about 125 MB per thread; with less it spills, or gives up.
_LEAST_MIB, _MIB_PER_THREAD = 512, 128
# DuckDB wants at least one text that means null; this one is in no file of text.
_NO_NULL = "\ue000"


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
    uri
        Where it came from.
    kind
        ``csv``, ``parquet``, or ``snapshot`` for a table of a database.
    base
        Folder below which the folders of a partitioned source mean something; empty if none do.
    files
        What to read.
    digest
        Keyed digest of the whole; the same content elsewhere has the same.
    """

    uri: str
    kind: str
    base: str
    files: tuple[FileHandle, ...]
    digest: str


@dataclass(frozen=True)
class OpenSource:
    """An open source.

    Attributes
    ----------
    engine
        The Ibis connection.
    table
        Ibis table of exactly the columns that the spec speaks of.
    raw
        Column of the spec -> its name in ``table``.
    """

    engine: Any
    table: Any
    raw: dict[str, str]


def needed_columns(loaded: Loaded) -> tuple[str, ...]:
    """Return the columns of the source that the spec speaks of: no other is looked at."""
    needed = (source_column(name, loaded.spec.columns[name]) for name in loaded.domains)
    names = dict.fromkeys(name for name in needed if name is not None)
    if loaded.spec.privacy.unit.column is not None:
        names[loaded.spec.privacy.unit.column] = None
    names.update((histogram.of, None) for histogram in loaded.spec.histograms)
    for measure in (each.measured for each in loaded.spec.arrays if each.measured is not None):
        names.update(dict.fromkeys(measure.columns))
        tested = () if measure.test is None else test_of(measure.test, loaded.domains).about
        names.update((name, None) for name in tested if name not in loaded.domains)
    for rule in loaded.spec.rules:
        if isinstance(rule, UniqueRule):
            names.update(dict.fromkeys(rule.columns))
    return tuple(names)


def read_as(loaded: Loaded) -> dict[str, Domain]:
    """Return the domains in which columns of the source are read as they stand."""
    columns = loaded.spec.columns
    plain = (name for name in loaded.domains if not columns[name].is_made)
    return {columns[name].source_column or name: loaded.domains[name] for name in plain}


def raw_names(columns: tuple[str, ...]) -> dict[str, str]:
    """Return the name of each column inside the engine, where a name of the source could not stand."""
    return {name: f"raw{place}" for place, name in enumerate(columns)}


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
        mend="leave the variable out, or set it to a size such as 1GB",
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
    check_unchanged(handle)
    raw = raw_names(needed_columns(loaded))
    with engine(scratch) as connection:
        table = redacted(
            lambda: quietly(lambda: _table(connection, loaded, handle, raw)),
            lambda: unreadable(loaded, handle, scratch),
        )
        if any(kind.is_floating() for kind in table.schema().types):
            # A Parquet file's least and greatest leave not-a-number out, and the engine would take it for one
            # of the numbers between them.
            connection.con.execute("SET disabled_optimizers = 'statistics_propagation'")
        yield OpenSource(connection, table, raw)


def quietly(work: Any) -> Any:
    """Return ``work()`` without the deprecation warnings that Ibis raises in DuckDB."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return work()


def check_unchanged(handle: InputHandle) -> None:
    """See that the files are still those of which the digest was taken.

    Raises
    ------
    InputError
        If the size or the time of change of a file differs, or it is gone.
    """
    for file in handle.files:
        try:
            now = Path(file.name).stat()
            same = (now.st_size, now.st_mtime_ns) == (file.size, file.mtime_ns)
        except OSError:
            same = False
        if not same:
            raise changed()


def changed() -> InputError:
    """Return the error for a source that did not stay as it was."""
    return InputError(
        "the source changed while it was read", where="source", mend="run again when nothing writes to it"
    )


def unreadable(loaded: Loaded, handle: InputHandle, scratch: Path) -> InputRefused:
    """Return the error for a source that the engine could not read to its end; of a CSV file, where."""
    if handle.kind != CSV:
        return InputRefused(
            "the file is damaged", where="source", mend="write it again from where it was made"
        )
    found: list[Finding] = []
    delimiter = loaded.spec.source.delimiter
    for path in (Path(file.name) for file in handle.files):
        with suppress(Exception), engine(scratch) as connection:  # the engine's own words may quote data
            found += irregular_lines(connection.con, path, literal(str(path)), delimiter)
    what = (
        "a row has more or fewer values than the header, a quote is not closed, or rows end in different ways"
    )
    if found:
        what = "; ".join(f"{each.file}, line {each.line}: {each.kind}" for each in found[:MOST])
    return InputRefused(
        f"the text is not a regular CSV table: {what}",
        where="source",
        mend="check source.delimiter and how the file was written",
        findings=found,
    )


def stream(source_engine: Any, expression: Any, rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Yield the result of an expression in batches, on DuckDB.

    Goes through a view, which makes Ibis register the code lists the expression joins with.
    """
    name = ibis.util.gen_name("stream")
    quietly(lambda: source_engine.create_view(name, expression))
    relation = source_engine.con.sql(f'SELECT * FROM "{name}"')
    yield from relation.to_arrow_reader(rows)


def first_row(expression: Any) -> dict[str, Any]:
    """Return the only row of an expression."""
    rows: list[dict[str, Any]] = quietly(lambda: expression.to_pyarrow().to_pylist())
    return rows[0]


def _cores() -> int:
    """Return the number of processors this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def _table(connection: Any, loaded: Loaded, handle: InputHandle, raw: dict[str, str]) -> Any:
    if handle.kind == CSV:
        whole, columns = _csv_table(connection, loaded, handle)
    else:
        paths = [literal(file.name) for file in handle.files]
        whole = connection.read_parquet(paths, **_partitioning(handle))
        columns = {name: raw[name] if handle.kind == SNAPSHOT else name for name in raw}
    return whole.select(**{name: whole[columns[column]] for column, name in raw.items()})


def _csv_table(connection: Any, loaded: Loaded, handle: InputHandle) -> tuple[Any, dict[str, str]]:
    """Return the table of all columns as text, and the name in it of each column of the header."""
    source = loaded.spec.source
    paths = [file.name for file in handle.files]
    header = read_header(Path(paths[0]), source.delimiter)
    columns = {name: f"field{place}" for place, name in enumerate(header)}
    kinds = {compression(Path(path)) for path in paths}
    whole = connection.read_csv(
        [literal(path) for path in paths],
        columns=dict.fromkeys(columns.values(), "VARCHAR"),
        header=True,
        delim=source.delimiter,
        quote='"',
        escape='"',
        nullstr=list(source.nulls) or [_NO_NULL],
        compression=kinds.pop(),
        **_partitioning(handle),
    )
    folders = [name for name in whole.columns if name not in set(columns.values())]
    return whole, columns | {name: name for name in folders}


def literal(path: str) -> str:
    """Return a pattern that stands for this one file: the engine takes every name for a pattern."""
    return re.sub(r"([*?\[])", r"[\1]", path)


def _partitioning(handle: InputHandle) -> dict[str, Any]:
    if not handle.base:
        return {"hive_partitioning": False}
    return {"hive_partitioning": True, "hive_types_autocast": False}
