"""A PostgreSQL table counted in place, in one snapshot from the first statement to the last.

::

    connect ─▶ BEGIN REPEATABLE READ, READ ONLY ─▶ digest ─▶ metrics ─▶ cells ─▶ end of the run

Every statement of the run sees the rows as they were when the transaction began, whatever others commit
meanwhile. For a view, a foreign or a partitioned table the server does not promise as much (a view may call
what it likes), so that of those the digest is taken again after counting.

Text is compared by its bytes, whatever collation the columns or the database have, and functions are those of
only ``pg_catalog``: nobody who may create objects in the database puts his own in their place.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import pyarrow as pa
import pyarrow.csv as pacsv

from tabularium.mechanisms.errors import InputError, InputRefused
from tabularium.tasks.engines.dialects import records_table, sql_of
from tabularium.validations.redaction import redacted
from tabularium.validations.release_spec.source import way_problem

_SETTINGS = {
    "search_path": "pg_catalog",
    "row_security": "off",  # a policy that hides rows is an error then, and no smaller table
    "TimeZone": "UTC",
    "DateStyle": "ISO, YMD",
    "extra_float_digits": "1",
    "standard_conforming_strings": "on",
    "client_encoding": "UTF8",
    "statement_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
}
_INTEGERS, _FLOATS = {"int2", "int4", "int8"}, {"float4", "float8"}
_TEXTS = {"uuid", "date", "timestamp", "timestamptz", "time", "char"}  # besides those of category S and E
_PLAIN = {"r", "m"}  # kinds of relations that a snapshot holds still: tables, materialised views
_WAY = ("host", "hostaddr", "sslmode")
_REFUSED = (
    "the table cannot be read",
    "check that the user may read the table and all its rows (no policy hides any), that the database is up, "
    "and that it has room for temporary files",
)


@dataclass(frozen=True)
class _Column:
    """A column in the catalogue: its type, the type's category, its number of decimals or None."""

    type: str
    category: str
    scale: int | None


@dataclass(frozen=True)
class _Relation:
    """A table by its quoted name, the wanted columns, and whether a snapshot holds its rows still."""

    name: str
    columns: dict[str, _Column]
    still: bool


class PostgresSource:
    """An open snapshot of one table."""

    name = "postgresql"
    records = 0  # known once the digest is taken

    def __init__(self, url: str, table: str, raw: Mapping[str, str], as_text: frozenset[str]) -> None:
        """Connect, begin the transaction, and find the table.

        Parameters
        ----------
        url
            As the spec has it; it holds no password.
        raw
            Column of the table -> its name inside the engine.
        as_text
            Columns whose values are compared with one another: text or whole numbers.

        Raises
        ------
        InputError
            If there is no connection, no table, or no such columns, or the way there is not safe.
        """
        self._connection = _connected(url)
        what, hint = _REFUSED
        failure = InputError(what, where="source.table", hint=hint)
        try:
            relation = redacted(lambda: _relation(self._connection, table, tuple(raw)), failure)
            redacted(lambda: _settle(self._connection), failure)
            self.still = relation.still
            self.types, read = {}, []
            for column, name in raw.items():
                self.types[name], text = _read_as(column, relation.columns[column], column in as_text)
                read.append(f"{text} AS {name}")
            self.instants = frozenset(
                column for column in raw if relation.columns[column].type == "timestamptz"
            )
        except BaseException:
            self.close()
            raise
        # A spec may speak of no column at all: then records are counted, and nothing more.
        self._records = f"SELECT {', '.join(read) or '1 AS none'} FROM {relation.name}"
        self.table = records_table(self.types or {"none": "int64"})

    def sql(self, expression: Any) -> str:
        """Return the SQL of an expression over :attr:`table`."""
        return sql_of(expression, "postgres", self._records)

    def batches(self, sql: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a query, of small numbers and texts without line ends."""
        options = pacsv.ConvertOptions(
            column_types=schema, strings_can_be_null=True, quoted_strings_can_be_null=False
        )
        names = pacsv.ReadOptions(column_names=schema.names)
        with self._connection.cursor() as cursor, cursor.copy(f"COPY ({sql}) TO STDOUT (FORMAT csv)") as rows:
            blocks = iter(rows)
            first = next(blocks, b"")
            if not first:
                return
            stream = io.BufferedReader(_Blocks(bytes(first), blocks), 1 << 20)
            yield from pacsv.open_csv(stream, read_options=names, convert_options=options)

    def check_unchanged(self) -> None:
        """Check that the transaction is still the one that began."""
        if self._connection.closed or self._connection.info.transaction_status.name != "INTRANS":
            raise InputError("the database ended the snapshot", where="source.url", hint="run again")

    def close(self) -> None:
        """End the transaction."""
        self._connection.close()


class _Blocks(io.RawIOBase):
    """The output of a COPY, as a file."""

    def __init__(self, first: bytes, rest: Iterator[Any]) -> None:
        self._left, self._rest = memoryview(first), rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not len(self._left):
            block = next(self._rest, None)
            if block is None:
                return 0
            self._left = memoryview(bytes(block))
        size = min(len(buffer), len(self._left))
        buffer[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


def _connected(url: str) -> Any:
    try:
        import psycopg
    except ImportError:
        hint = 'pip install "tabularium-dp[postgres]"'
        raise InputError("a driver is missing", where="source.engine: postgresql", hint=hint) from None
    failure = InputError(
        "no connection to the database",
        where="source.url",
        hint="check the url, its certificate (sslrootcert), the password file, and that the database is up",
    )
    _, _, rest = url.partition("://")
    wrong = way_problem(redacted(lambda: _way(f"postgresql://{rest}"), failure))
    if wrong is not None:
        raise InputError(wrong[0], where="source.url, with PGHOST and the like", hint=wrong[1])
    connection = redacted(lambda: psycopg.connect(f"postgresql://{rest}"), failure)
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    connection.read_only = True
    return connection


def _way(url: str) -> str:
    """Return a URL with all connection settings, also those of the environment and of services."""
    from psycopg import conninfo, pq

    elsewhere = {
        option.keyword.decode(): (option.val or b"").decode() for option in pq.Conninfo.get_defaults()
    }
    options = elsewhere | conninfo.conninfo_to_dict(url)
    return f"postgresql:///?{urlencode({name: options[name] for name in _WAY if options.get(name)})}"


def _settle(connection: Any) -> None:
    """Fix the settings by which the server reads and prints, whatever its and the user's settings are."""
    for name, value in _SETTINGS.items():
        connection.execute("SELECT pg_catalog.set_config(%s, %s, false)", (name, value))


def _relation(connection: Any, table: str, wanted: tuple[str, ...]) -> _Relation:
    """Find the table by the search path of the user, and the types of the wanted columns."""
    from psycopg import sql

    quoted = sql.SQL(".").join(map(sql.Identifier, table.split("."))).as_string(connection)
    row = connection.execute(
        "SELECT c.oid, n.nspname, c.relname, c.relkind, c.relhassubclass,"
        " pg_catalog.row_security_active(c.oid) FROM pg_catalog.pg_class c"
        " JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = pg_catalog.to_regclass(%s)",
        (quoted,),
    ).fetchone()
    if row is None:
        hint = "check its name and the rights of the database user"
        raise InputError("there is no such table, or it may not be read", where="source.table", hint=hint)
    oid, schema, name, what, parent, restricted = row
    if restricted:
        hint = "read as its owner, or as a user with BYPASSRLS"
        raise InputError("a row policy hides records from this user", where="source.table", hint=hint)
    there = {
        column
        for (column,) in connection.execute(
            "SELECT attname FROM pg_catalog.pg_attribute"
            " WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped",
            (oid,),
        )
    }
    missing = [column for column in wanted if column not in there]
    if missing:
        what = f"the table lacks {', '.join(map(repr, missing))}"
        raise InputRefused(what, where="source.table", hint="check the names under columns")
    full = sql.Identifier(schema, name)
    listed = sql.SQL(", ").join(map(sql.Identifier, wanted)) if wanted else sql.SQL("1")
    cursor = connection.execute(sql.SQL("SELECT {} FROM {} LIMIT 0").format(listed, full))
    columns = {}
    for column, described in zip(wanted, cursor.description, strict=False):
        ((kind, category),) = connection.execute(
            "SELECT typname, typcategory::text FROM pg_catalog.pg_type WHERE oid = %s", (described.type_code,)
        ).fetchall()
        columns[column] = _Column(kind, category, described.scale)
    return _Relation(full.as_string(connection), columns, what in _PLAIN and not parent)


def _read_as(name: str, column: _Column, as_text: bool) -> tuple[str, str]:
    """Return the type in which a column is read, and its SQL."""
    from psycopg import sql

    quoted = sql.Identifier(name).as_string(None)
    whole_decimal = column.type == "numeric" and column.scale == 0
    if column.type in _INTEGERS:
        return "int64", f"CAST({quoted} AS bigint)"
    if column.type == "bool" and not as_text:
        return "boolean", quoted
    if column.type in _FLOATS | {"numeric"} and not (as_text and whole_decimal):
        if as_text:
            raise InputRefused(
                f"column {name!r} is of type {column.type}, and units and items are distinguished by text or "
                "whole numbers",
                where="source.table",
                hint="give a view that casts the column to text or bigint",
            )
        if column.type == "numeric":
            # What a double could not hold is as good as infinite, or zero. (LEAST passes over nulls.)
            inside = f"WHEN ABS({quoted}) < 1e-300 THEN 0 ELSE LEAST(GREATEST({quoted}, -1e300), 1e300) END"
            return "decimal", f"CASE WHEN {quoted} IS NULL OR {quoted} = 'NaN' THEN NULL {inside}"
        return "float32" if column.type == "float4" else "float64", quoted
    if column.category not in "SE" and column.type not in _TEXTS | {"bool", "numeric"}:
        raise InputRefused(
            f"column {name!r} is of a type whose values are no codes and no numbers",
            where="source.table",
            hint="give a view that casts the column to text",
        )
    text = f"CAST({quoted} AS text)"
    if column.type == "timestamptz":
        text = f"(CAST({quoted} AT TIME ZONE 'UTC' AS text) || '+00:00')"
    return "string", f'{text} COLLATE "C"'
