"""Copies of the needed columns in the secure workspace: of a table behind a database URL, and of CSV files.

A database changes while it is read, and each sorts and prints in its own way. The needed columns are
therefore read once, in one statement, as text, into a Parquet file of the workspace: what is counted
is what the digest names, and the same rows have the same digest in every database.

CSV files are read once, by one thread, and their records counted twice::

    files ─▶ DuckDB, sequentially ─▶ the needed columns as text, in Parquet ─▶ metrics, counts, …
      └────▶ count of records and the digest (:mod:`tabularium.tasks.ingest.csv_text`) ═ as many

If the numbers differ, the file is refused before anything is charged.
"""

from __future__ import annotations

import hmac
import io
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tabularium.mechanisms.errors import Finding, InputError, InputRefused
from tabularium.tasks.arrival.verify_drop import see_that_there_is_room
from tabularium.tasks.ingest.csv_text import (
    LONGEST_ROW,
    MOST_LINES,
    OPEN_QUOTE,
    compression,
    irregular,
    lines_at,
    opened_text,
    read_header,
)
from tabularium.tasks.ingest.find_files import Found
from tabularium.tasks.ingest.open_source import (
    BATCH_ROWS,
    FileHandle,
    contradicted,
    contradicts,
    csv_tables,
    engine,
    known,
    literal,
    miscounted,
    quietly,
    stream,
)
from tabularium.tasks.ingest.source_columns import raw_names
from tabularium.validations.imported_later import Later
from tabularium.validations.redaction import redacted
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.source import DatabaseTable, Files

if TYPE_CHECKING:
    import ibis
else:
    ibis = Later("ibis")

_TABLE = b"tabularium/input-table/1\0"
# Rows per fetch through a driver that hands out Python objects.
_FETCH = 50_000
_EXACT = 2**53  # below it every whole number is a double


def take_snapshot(loaded: Loaded, columns: tuple[str, ...], target: Path) -> frozenset[str]:
    """Write the needed columns of the spec's table to ``target``, as text, mode 0600.

    Returns the columns of instants, which are written in UTC.

    Raises
    ------
    InputError
        If the database or its driver is not there, or the table lacks a column.
    InputRefused
        If the copy does not fit on its disk.
    """
    names = raw_names(columns)
    schema = pa.schema([(name, pa.string()) for name in names.values()])
    with _selected_from(loaded, names, target.parent) as (batches, instants):
        write_rows((batch.cast(schema) for batch in batches), target, schema)
    return instants


def take_values(table: pa.Table, columns: tuple[str, ...], target: Path) -> None:
    """Write a table in memory as :func:`take_snapshot` does, so that its values can have a digest."""
    names = raw_names(columns)
    schema = pa.schema([(name, pa.string()) for name in names.values()])
    with engine(target.parent) as connection:
        connection.con.execute("SET TimeZone = 'UTC'")
        connection.con.register("handed_over", table.rename_columns(list(names.values())))
        source = quietly(lambda: connection.table("handed_over"))
        same = {raw: raw for raw in names.values()}
        batches = stream(connection, _as_text(source, same, frozenset()))
        plain = _with_plain_numbers(batches, _fractions(source, same))
        write_rows((batch.cast(schema) for batch in plain), target, schema)


def write_rows(batches: Iterable[pa.RecordBatch], target: Path, schema: pa.Schema) -> int:
    """Write rows to a Parquet file of mode 0600, and return their number.

    Raises
    ------
    InputRefused
        If they do not fit on the disk, where some room is left to others.
    """
    rows = 0
    target.unlink(missing_ok=True)
    with (
        os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file,
        pq.ParquetWriter(file, schema, compression="zstd") as writer,
    ):
        for batch in batches:
            see_that_there_is_room(batch.nbytes, "the source", target.parent)
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def snapshot_digest(path: Path, columns: tuple[str, ...], secret: bytes, scratch: Path) -> str:
    """Return the keyed digest of a snapshot's rows, which does not depend on their order.

    The rows are sorted by all columns. Each column is two streams, the lengths of its values (-1 for null)
    and their UTF-8 bytes, so that the digest does not depend on how rows are batched.
    """
    names = list(raw_names(columns).values())
    lengths = {name: hmac.new(secret, _TABLE + b"lengths", "sha256") for name in names}
    texts = {name: hmac.new(secret, _TABLE + b"texts", "sha256") for name in names}
    with engine(scratch) as connection:
        table = quietly(lambda: connection.read_parquet(str(path)))
        ordered = connection.compile(table.order_by([table[name] for name in names]))
        for batch in connection.con.sql(ordered).to_arrow_reader(BATCH_ROWS):
            for name in names:
                column = batch.column(name).cast(pa.large_string())
                sizes = pc.fill_null(pc.binary_length(column).cast(pa.int64()), -1)
                lengths[name].update(np.ascontiguousarray(sizes.to_numpy(zero_copy_only=False)).tobytes())
                # Joining drops nothing: nulls have no bytes, and the lengths say where they stand.
                texts[name].update(b"".join(_bytes(pc.fill_null(column, ""))))
    digest = hmac.new(secret, _TABLE + b"columns", "sha256")
    for column, name in zip(columns, names, strict=True):
        text = column.encode()
        digest.update(len(text).to_bytes(8, "big") + text + lengths[name].digest() + texts[name].digest())
    return digest.hexdigest()


def _bytes(column: Any) -> Iterator[bytes]:
    """Yield the bytes of a string column without nulls."""
    _, offsets, data = column.buffers()
    if data is not None and len(column):
        ends = np.frombuffer(offsets, np.int64)[column.offset : column.offset + len(column) + 1]
        yield memoryview(data)[int(ends[0]) : int(ends[-1])].tobytes()


@contextmanager
def _selected_from(
    loaded: Loaded, names: dict[str, str], scratch: Path
) -> Iterator[tuple[Iterator[pa.RecordBatch], frozenset[str]]]:
    """Open the database of a URL: the needed columns as text in batches, and the columns of instants."""
    source = loaded.spec.source
    assert isinstance(source, DatabaseTable)  # noqa: S101 - of files nothing is copied here
    url, table = source.url, source.table
    scheme = urlsplit(url).scheme
    if scheme == "duckdb":
        with engine(scratch) as connection:
            connection.con.execute("SET TimeZone = 'UTC'")
            connection.attach(_escaped(_database_file(loaded, url)), name="source", read_only=True)
            source = _table(connection, f"source.{_with_schema(table)}", names)
            instants = _instants(source, names)
            batches = stream(connection, _as_text(source, names, instants))
            yield _with_plain_numbers(batches, _fractions(source, names)), instants
        return
    failure = InputError(
        "no connection to the database",
        where="source.url",
        hint=f"check the url, and that Ibis is installed with its driver for {scheme}",
    )
    if scheme == "sqlite":
        file = _database_file(loaded, url)
        connection = redacted(lambda: quietly(lambda: ibis.sqlite.connect(file)), failure)
    else:
        connection = redacted(lambda: quietly(lambda: ibis.connect(url)), failure)
    try:
        source = _table(connection, table, names)
        if scheme == "sqlite":  # which has no times but those that are written as text
            numbers = _fractions(source, names)
            yield _fetched(connection, _as_text(source, names, frozenset(), numbers)), frozenset()
            return
        instants = _instants(source, names)
        as_they_are: frozenset[str] = frozenset()
        if scheme in ("postgres", "postgresql"):
            connection.raw_sql("SET TIME ZONE 'UTC'").close()
        elif instants:
            raise InputRefused(
                f"column {min(instants)!r} holds instants, which {scheme} prints in the zone of a session",
                where="source.table",
                hint="give a view that casts the column to text, with its offset from UTC",
            )
        else:  # SQL Server, for one, prints six digits of a float: it becomes text here
            as_they_are = frozenset(raw for name, raw in names.items() if source[name].type().is_floating())
        expression = _as_text(source, names, instants, as_they_are)
        batches = connection.to_pyarrow_batches(expression, chunk_size=BATCH_ROWS)
        yield _with_plain_numbers(batches, _fractions(source, names)), instants
    finally:
        connection.disconnect()


def _table(connection: Any, table: str, names: dict[str, str]) -> Any:
    *path, last = table.split(".")
    failure = InputError(
        "there is no such table, or it may not be read",
        where="source.table",
        hint="check its name and the rights of the database user",
    )

    def find() -> Any:
        return connection.table(last, database=tuple(path) if path else None)

    source = redacted(lambda: quietly(find), failure)
    missing = [name for name in names if name not in source.columns]
    if missing:
        raise InputRefused(
            f"the table lacks {', '.join(map(repr, missing))}",
            where="source.table",
            hint="check the names under columns",
        )
    return source


def _instants(source: Any, names: dict[str, str]) -> frozenset[str]:
    """Return the named columns that hold times with a zone."""
    return frozenset(name for name in names if _is_instant(source[name].type()))


def _is_instant(kind: Any) -> bool:
    if kind.is_timestamp():
        return kind.timezone is not None
    return "TIMESTAMPTZ" in str(kind).upper()  # of nanoseconds, which Ibis does not know


def _fractions(source: Any, names: dict[str, str]) -> frozenset[str]:
    """Return the columns, by their names inside the engine, whose type has decimals."""
    kinds = {raw: source[name].type() for name, raw in names.items()}
    return frozenset(raw for raw, kind in kinds.items() if kind.is_floating() or kind.is_decimal())


def _as_text(
    source: Any, names: dict[str, str], instants: frozenset[str], as_they_are: Collection[str] = ()
) -> Any:
    """Return the named columns as text, by their names inside the engine; instants in UTC."""
    texts = {raw: source[name].cast("string") for name, raw in names.items()}
    texts |= {raw: texts[raw].concat(":00") for name, raw in names.items() if name in instants}
    texts |= {raw: source[name] for name, raw in names.items() if raw in as_they_are}
    return source.select(**texts)


def _with_plain_numbers(
    batches: Iterable[pa.RecordBatch], numbers: Collection[str]
) -> Iterator[pa.RecordBatch]:
    """Yield batches of text with whole numbers without a point, as in codes, and nulls for not-a-number."""
    for batch in batches:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name in numbers:
            text = pc.replace_substring_regex(columns[name].cast(pa.string()), r"^(-?[0-9]+)\.0*$", r"\1")
            text = pc.replace_substring_regex(text, "^-0$", "0")
            nothing = pc.match_substring_regex(text, "^-?nan$", ignore_case=True)
            columns[name] = pc.if_else(nothing, pa.scalar(None, pa.string()), text)
        yield pa.record_batch(columns)


def _fetched(connection: Any, expression: Any) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a database driver, a bounded number at a time."""
    columns = list(expression.columns)
    with closing(connection.raw_sql(connection.compile(expression))) as cursor:
        while rows := cursor.fetchmany(_FETCH):
            values = zip(*rows, strict=True)
            yield pa.record_batch(
                [pa.array(map(_text, column), pa.string()) for column in values], names=columns
            )


def _text(value: Any) -> str | None:
    """Return a value of SQLite as text: a double in its shortest form and without ``.0``."""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) <= _EXACT else repr(value)
    if isinstance(value, bytes):
        return value.decode()
    return None if value is None else str(value)


def _database_file(loaded: Loaded, url: str) -> Path:
    """Return the file of an embedded database, which must exist: these engines would make an empty one."""
    parts = urlsplit(url)
    # Three slashes and a relative path, four and an absolute one, as database URLs are written.
    text = unquote(parts.netloc + parts.path if parts.netloc else parts.path.removeprefix("/"))
    for path in (loaded.folder / text, Path("/") / text):
        if path.is_file():
            return path
    raise InputError(
        "there is no such database file",
        where="source.url",
        hint="write sqlite:////absolute/path or sqlite:///path-next-to-the-spec",
    )


def _with_schema(table: str) -> str:
    return table if "." in table else f"main.{table}"


def _escaped(path: Path) -> str:
    return str(path).replace("'", "''")


def copy_csv(
    files: Files,
    listed: Found,
    wanted: Mapping[str, str],
    records: Mapping[Path, int],
    target: Path,
    field: str,
) -> tuple[FileHandle, ...]:
    """Write the wanted columns of CSV files to ``target``'s folder, and return the written files.

    Parameters
    ----------
    wanted
        Name inside the engine -> column.
    records
        How many records stand in each file.
    target
        A name inside the secure workspace, to which the compression is added.
    field
        Where the spec speaks of the files.

    Raises
    ------
    InputRefused
        If a file is not regular, contradicts its folder, or gave another number of records; or if the copy
        does not fit on its disk.
    """
    copies = []
    with engine(target.parent) as connection:
        for kind, (paths, table) in csv_tables(connection.con, files, listed, wanted).items():
            copy = target.with_name(f"{target.name}.{kind}.parquet")

            def write(table: str = table, copy: Path = copy) -> int:
                rows = connection.con.sql(table).to_arrow_reader(BATCH_ROWS)
                return write_rows(rows, copy, rows.schema)

            def unreadable(
                kind: str = kind, paths: tuple[Path, ...] = paths, table: str = table
            ) -> InputRefused:
                column = contradicted(connection.con, table, wanted)
                if column is not None:
                    return contradicts(column, field)
                return _irregular(files, kind, paths, target.parent, field)

            read = redacted(write, unreadable)
            counted = sum(records[path] for path in paths)
            if read != counted:
                raise miscounted(read, counted, field)
            copies.append(known(copy))
    return tuple(copies)


def _irregular(files: Files, kind: str, paths: tuple[Path, ...], scratch: Path, field: str) -> InputRefused:
    """Return the error for files that the engine could not read to their end: the lines, and the reason."""
    findings: list[Finding] = []
    for path in paths:
        with suppress(Exception), engine(scratch) as another:  # the engine's own words may quote data
            findings += irregular_lines(another.con, path, literal(str(path)), files)
    if not findings and kind == "gzip":
        return InputRefused(
            "the gzip file holds bytes after its last member",
            where=paths[0].name if len(paths) == 1 else field,
            hint="unpack it and write it again",
        )
    return irregular(findings, field)


_KINDS = {
    "MISSING COLUMNS": "fewer values than the header",
    "TOO MANY COLUMNS": "more values than the header",
    "UNQUOTED VALUE": OPEN_QUOTE,
    "LINE SIZE OVER MAXIMUM": "a line that is too long",
}


def irregular_lines(connection: Any, path: Path, pattern: str, files: Files) -> list[Finding]:
    """Return the first irregular lines of a file, as the engine judges them.

    Parameters
    ----------
    connection
        An engine of DuckDB's, opened for this file.
    path, pattern
        The file, and what the engine calls it; it is read twice more.
    """
    rows: list[Any] = []
    with suppress(Exception):  # some irregularities it cannot pass over either
        rows = _rejected(connection, path, pattern, files)
    if not rows:
        other = "another end than the header"
        return [Finding(file=path.name, line=line, kind=other) for line in _other_ends(path)]
    lines = lines_at(path, [int(position) for position, _ in rows])
    return [
        Finding(file=path.name, line=line, kind=_KINDS.get(kind, "not regular"))
        for line, (_, kind) in zip(lines, rows, strict=True)
    ]


def _rejected(connection: Any, path: Path, pattern: str, files: Files) -> list[Any]:
    """Return (position in bytes, kind) of the first lines that the engine rejects."""
    columns = {f"field{index}": "VARCHAR" for index in range(len(read_header(path, files)))}
    connection.execute(
        "SELECT count(*) FROM read_csv($path, header = true, delim = $delimiter, quote = $quote, "
        f"escape = $quote, parallel = false, max_line_size = {LONGEST_ROW + 1000}, auto_detect = false, "
        f"hive_partitioning = false, compression = $compression, columns = {columns}, "
        "store_rejects = true, rejects_scan = 'scans', rejects_table = 'rejects')",
        {
            "path": pattern,
            "delimiter": files.delimiter,
            "quote": "" if files.quote == "none" else files.quote,
            "compression": compression(path),
        },
    ).fetchall()
    rejected: list[Any] = connection.execute(
        "SELECT min(line_byte_position), any_value(error_type::VARCHAR) FROM rejects"
        " GROUP BY line ORDER BY 1 LIMIT $most",
        {"most": MOST_LINES},
    ).fetchall()
    return rejected


def _other_ends(path: Path) -> list[int]:
    """Return the number of the first line whose line end differs from the header's, if there is one."""
    with opened_text(path) as text, io.BufferedReader(cast(io.RawIOBase, text)) as lines:
        header = next(lines).endswith(b"\r\n")
        return list(islice((at for at, line in enumerate(lines, 2) if line.endswith(b"\r\n") != header), 1))
