"""Ingestion: name an input by its keyed digest, and check it against the spec, before anything else.

::

    address ▶ copies of its objects in the workspace, which are read as files
    path ──▶ files ──▶ read once each: digest, encoding, compression, header or schema ──▶ InputHandle
              CSV ──▶ copy of the needed columns in the workspace, of as many records ────▶ InputHandle
    url  ──▶ snapshot of the needed columns in the workspace ──▶ digest ──────────────────▶ InputHandle
    table in memory ▶ its needed columns as a file in the workspace, digest of their values ▶ InputHandle
    engine ▶ snapshot that it holds for the run ──▶ digest of records, taken by the engine ─▶ InputHandle
    look-ups ──▶ digests; of those of the privacy unit also in that of the input ───────▶ InputHandle

A bare digest of microdata would let anyone who knows all records but one confirm the last; every digest here
is an HMAC under a key of the agency's secret, and none leaves the home: two that are equal would say that
nobody was added in between.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tabularium.mechanisms.errors import InputError, InputRefused
from tabularium.tasks.arrival.verify_drop import fetch, refused_by_its_files
from tabularium.tasks.engines.in_place import begin
from tabularium.tasks.ingest.csv_text import Text, inspect
from tabularium.tasks.ingest.fetch_objects import fetch_objects
from tabularium.tasks.ingest.find_files import Found, find_files
from tabularium.tasks.ingest.open_source import (
    BATCH_ROWS,
    CSV,
    SNAPSHOT,
    FileHandle,
    InputHandle,
    changed,
    check_unchanged,
    known,
    read_columns,
    see_keys,
    zones_read,
)
from tabularium.tasks.ingest.snapshot import copy_csv, snapshot_digest, take_snapshot, take_values, write_rows
from tabularium.tasks.ingest.source_columns import (
    check_header,
    check_rows,
    check_schemas,
    check_zones,
    needed_columns,
    raw_names,
    read_as,
)
from tabularium.tasks.runtime.progress import note
from tabularium.tasks.runtime.run import HANDED, Run, is_handed
from tabularium.tasks.runtime.stage import stage
from tabularium.validations.domains.domains import Domain
from tabularium.validations.redaction import note_data_opened, redacted
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.source import (
    CopiedTable,
    Files,
    PostgresTable,
    SparkFiles,
    located,
    public_name,
    published_source,
)

__all__ = ["FileHandle", "InputHandle", "files_digest", "ingest", "ingest_public", "ingest_source"]

_BLOCK = 1 << 20
# One purpose, one prefix: no digest of one kind is ever a digest of another.
_FILE, _INPUT = b"tabularium/input-file/1\0", b"tabularium/input/1\0"
_WITH_LOOK_UPS = b"tabularium/input-with-look-ups/1\0"


class _Digest(Protocol):
    """A digest that can be updated: keyed or plain."""

    def update(self, data: bytes, /) -> None: ...

    def hexdigest(self) -> str: ...


@dataclass(frozen=True)
class _FileRead:
    """One file, as it was read."""

    handle: FileHandle
    text: Text


def ingest_source(loaded: Loaded, secret: bytes, scratch: Path, given: Any = None) -> InputHandle:
    """Name the input of a spec by its keyed digest and check that it can be counted.

    The result holds no value of the data and no bare digest.

    Parameters
    ----------
    scratch
        Folder inside the secure workspace; a table behind a URL, and objects of a store, are kept there as
        long as the run lasts.
    given
        A table that was handed over in memory, to be read instead of the source.

    Raises
    ------
    InputError
        If the source is missing, unreadable, empty, cut off or not UTF-8, or its columns are not those of
        the spec.
    """
    note_data_opened()
    instants: frozenset[str] = frozenset()
    if given is not None:
        source = _ingest_handed(loaded, secret, scratch, given)
    elif isinstance(loaded.spec.source, SparkFiles | PostgresTable):
        word, digest = begin(loaded, secret, scratch)
        source = InputHandle(loaded.source_uri, loaded.spec.source.engine, "", (), digest, held=word)
    elif isinstance(loaded.spec.source, CopiedTable):
        source, instants = _ingest_table(loaded, secret, scratch)
    else:
        begun = partial(_begun, secret=secret)
        raw = {name: column for column, name in raw_names(needed_columns(loaded)).items()}
        wanted = _Wanted("source", raw, read_as(loaded))
        source = _ingest_files(loaded.source_uri, loaded.spec.source, wanted, begun, scratch)
        source = replace(source, digest=input_digest(secret, source.files))
    lookups = {name: _ingest_look_up(loaded, name, secret, scratch) for name in loaded.spec.lookups}
    zones = {name: zones_read(handle) for name, handle in {"": source, **lookups}.items()}
    zones[""] |= dict.fromkeys(instants)
    check_zones(loaded, zones)
    private = {
        name: handle.digest for name, handle in lookups.items() if loaded.spec.lookups[name].public is None
    }
    named_by = _with_look_ups(secret, source.digest, private) if private else source.digest
    return replace(source, digest=named_by, main=source.digest, lookups=lookups)


@dataclass(frozen=True)
class _Wanted:
    """The expected content of files: their field in the spec, their columns, and domains of some.

    Columns are by their names inside the engine.
    """

    field: str
    raw: Mapping[str, str]
    domains: Mapping[str, Domain]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.raw.values()))


def _ingest_files(
    uri: str, files: Files, wanted: _Wanted, begun: Callable[[Path, Found], _Digest], scratch: Path
) -> InputHandle:
    """Return a handle, without its digest, of files that were read once and checked."""
    address, field = uri, wanted.field
    if "://" in uri:
        address = str(fetch_objects(uri, files, scratch / f"{field}.objects", field))
    found_files = find_files(address, files.file_format, field, files.ignore, files.limits)
    named_by_spec = found_files.paths == (Path(address),)  # else it is a folder, a glob or an address
    refused = InputError if named_by_spec else InputRefused
    looks = []
    for path in found_files.paths:
        failure = refused(
            "the file cannot be read", where=path.name, hint="check that it is there and may be read"
        )
        read = partial(_look, path, found_files, files, begun(path, found_files), field, refused)
        looks.append(redacted(read, failure))
    handles = tuple(look.handle for look in looks)
    base = str(found_files.base) if found_files.folders else ""
    handle = InputHandle(uri, found_files.kind, base, handles, "")
    if not named_by_spec:
        note(f"{field}: 1 file is read" if len(looks) == 1 else f"{field}: {len(looks)} files are read")
    if found_files.kind != CSV:
        check_schemas(found_files, wanted.columns, wanted.domains, field)
        check_rows(found_files, files.limits, field)
        return handle
    for look in looks:
        check_header(look.text.header, found_files.folders, wanted.columns, Path(look.handle.name).name)
    if len({look.text.header for look in looks}) > 1:
        what, hint = "the files have different headers", "write all with the same columns"
        raise InputRefused(what, where=field, hint=hint)
    records = {Path(look.handle.name): look.text.records for look in looks}
    copies = copy_csv(files, found_files, wanted.raw, records, scratch / f"{field}.copy", field)
    check_unchanged(handle)
    return replace(handle, copies=copies)


def _ingest_look_up(loaded: Loaded, name: str, secret: bytes, scratch: Path) -> InputHandle:
    """Name a look-up by the digest of its files."""
    if loaded.spec.lookups[name].public is not None:
        return ingest_public(loaded, name, scratch)
    handle = _look_up_files(loaded, name, partial(_begun, secret=secret), scratch)
    return replace(handle, digest=input_digest(secret, handle.files))


def ingest_public(loaded: Loaded, name: str, scratch: Path) -> InputHandle:
    """Name a public look-up by its plain digest, which the spec has, and check that it can be joined.

    Raises
    ------
    InputError
        If it cannot be read, lacks a column, changed since the spec was read, or has a key twice.
    """
    handle = _look_up_files(loaded, name, lambda path, _: hashlib.sha256(), scratch)
    digest = handle.files[0].digest
    if digest != loaded.public_files[public_name(name)]:
        raise InputError("changed since the spec was read", where=f"lookups.{name}", hint="run again")
    see_keys(loaded, name, handle, scratch)
    return replace(handle, digest=digest)


def _look_up_files(
    loaded: Loaded, name: str, begun: Callable[[Path, Found], _Digest], scratch: Path
) -> InputHandle:
    look = loaded.spec.lookups[name]
    uri = located(look.path or "", loaded.spec.period, loaded.folder)
    wanted = _Wanted(f"lookups.{name}", read_columns(loaded, name), read_as(loaded, name))
    return _ingest_files(uri, look, wanted, begun, scratch)


def _with_look_ups(secret: bytes, source: str, lookups: Mapping[str, str]) -> str:
    """Return the digest of an input: its source, and each look-up of the privacy unit by name."""
    parts = [source.encode(), *(f"{name} {digest}".encode() for name, digest in sorted(lookups.items()))]
    return hmac.digest(secret, _WITH_LOOK_UPS + b"\0".join(parts), "sha256").hex()


def input_digest(secret: bytes, files: tuple[FileHandle, ...]) -> str:
    """Return the digest of an input: over the digests of its files, whatever their names and order."""
    return _together(secret, [bytes.fromhex(file.digest) for file in files])


def _together(secret: bytes, digests: list[bytes]) -> str:
    return hmac.digest(secret, _INPUT + b"".join(sorted(digests)), "sha256").hex()


def _look(
    path: Path, listed: Found, files: Files, digest: _Digest, field: str, refused: type[InputError]
) -> _FileRead:
    before = path.stat()
    if not stat.S_ISREG(before.st_mode):
        raise refused("is not a regular file", where=path.name, hint="name a file, a glob or a folder")
    text = Text((), 0)
    if listed.kind == CSV:
        text = inspect(path, files, digest.update, field)
    else:
        _read(path, digest.update)
    after = path.stat()
    if (after.st_size, after.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
        raise changed()
    return _FileRead(FileHandle(str(path), after.st_size, after.st_mtime_ns, digest.hexdigest()), text)


def _begun(path: Path, listed: Found, secret: bytes) -> hmac.HMAC:
    """Return a digest for a file, before any of its content."""
    # The folders of a partitioned source hold values of columns; any other folder or name is only a place.
    partition = listed.partition(path).encode()
    return hmac.new(secret, _FILE + len(partition).to_bytes(8, "big") + partition, "sha256")


def files_digest(uri: str, secret: bytes) -> str:
    """Return the digest of an input in files, as ``ingest_source`` would; no spec is needed.

    Raises
    ------
    InputError
        If there is no such file, or the endings do not say which files are data.
    """
    note_data_opened()
    listed, digests = find_files(uri, None), []
    for path in listed.paths:
        digest = _begun(path, listed, secret)
        failure = InputError("the file cannot be read", where=path.name, hint="check that it may be read")
        redacted(partial(_read, path, digest.update), failure)
        digests.append(digest.digest())
    return _together(secret, digests)


def _read(path: Path, see: Callable[[bytes], None]) -> None:
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            see(block)


def _ingest_handed(loaded: Loaded, secret: bytes, scratch: Path, given: Any) -> InputHandle:
    """Return the handle of a table in memory: a file in the workspace, with the digest of its values."""
    path, values, columns = scratch / "table.parquet", scratch / "values.parquet", needed_columns(loaded)
    failure = InputError(
        "the table cannot be read", where="source", hint="write it into a Parquet file, and give that"
    )
    table = redacted(lambda: needed_of(given, columns), failure)
    redacted(lambda: write_rows(table.to_batches(BATCH_ROWS), path, table.schema), failure)
    redacted(lambda: take_values(table, columns, values), failure)
    digest = redacted(lambda: snapshot_digest(values, columns, secret, scratch), failure)
    values.unlink()
    raw = {name: column for column, name in raw_names(columns).items()}
    files = published_source(loaded.spec.source).model_copy(
        update={"path": str(path), "format": "parquet", "ignore": ()}
    )
    begun = partial(_begun, secret=secret)
    handle = _ingest_files(str(path), files, _Wanted("source", raw, read_as(loaded)), begun, scratch)
    return replace(handle, uri="a table in memory", digest=_together(secret, [bytes.fromhex(digest)]))


def _ingest_table(loaded: Loaded, secret: bytes, scratch: Path) -> tuple[InputHandle, frozenset[str]]:
    """Return the handle of a table behind a URL, and its columns of instants."""
    path = scratch / "snapshot.parquet"
    failure = InputError(
        "the table cannot be read",
        where="source.url",
        hint="check the url, the rights, and that the database is up",
    )
    columns = needed_columns(loaded)
    instants = redacted(lambda: take_snapshot(loaded, columns, path), failure)
    digest = redacted(lambda: snapshot_digest(path, columns, secret, scratch), failure)
    files = (known(path, digest),)
    return InputHandle(loaded.source_uri, SNAPSHOT, "", files, input_digest(secret, files)), instants


def _key(run: Run) -> bytes:
    return run.installation.subkey("input")


@stage("ingest")
def ingest(run: Run) -> InputHandle:
    """Name the input by its keyed digest and check that it can be read."""
    loaded, drop, asked = run.loaded, fetch(run), run.request.source
    if asked is not None and is_handed(asked):
        return ingest_source(loaded, _key(run), run.folder("ingest"), table_of(asked))
    if drop is not None:
        loaded = replace(loaded, source_uri=str(drop))
    with refused_by_its_files(drop):
        return ingest_source(loaded, _key(run), run.folder("ingest"))


# Tables in memory. What is counted is their values, not how they hold them: categories and dictionaries are
# written out, so that an input has the same digest from pandas, Polars and Arrow, in any order of its rows.


_PLAIN: tuple[Any, ...] = (
    *(pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    *(
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_date,
        pa.types.is_timestamp,
        pa.types.is_time,
    ),
)
_NAMES_IN_TYPE = re.compile(r"[<\[(]")
_numbers = count(1)
_tables: dict[str, Any] = {}


@contextmanager
def handed_over(table: object) -> Iterator[str]:
    """Keep a table for the runs of this process; yield its name as their source.

    ``table``: a pandas DataFrame, or what has ``__arrow_c_stream__``: of Polars, Arrow, DuckDB.

    Raises
    ------
    InputError
        It is not a table, or two of its columns have one name.
    """
    name = f"{HANDED}{next(_numbers)}"
    _tables[name] = _seen(table)
    try:
        yield name
    finally:
        del _tables[name]


def table_of(source: str) -> Any:
    """Return a table that was handed over.

    Raises
    ------
    InputError
        It was so in another process, or is not any more.
    """
    if source not in _tables:
        raise InputError(
            "is not in the memory of this process", where="source", hint="publish in the process that has it"
        )
    return _tables[source]


def needed_of(table: Any, names: tuple[str, ...]) -> pa.Table:
    """Return the needed columns, each as plain values.

    Raises
    ------
    InputRefused
        A column is missing, or holds what no column of a file holds.
    """
    there = table.column_names if isinstance(table, pa.Table) else list(table.columns)
    if missing := [name for name in names if name not in there]:
        indexed = _is_pandas(table) and missing[0] in table.index.names
        raise InputRefused(
            f"the table lacks {', '.join(map(repr, missing))}",
            where="source",
            hint="make the index a column: reset_index()" if indexed else "check the names under columns",
        )
    return pa.table({name: _plain(name, _column(table, name)) for name in names})


def _seen(table: object) -> Any:
    """Return a table whose columns can be looked up: pandas' or Arrow's."""
    as_seen: Any = table
    if _is_pandas(table):
        names = list(as_seen.columns)
    elif hasattr(table, "__arrow_c_stream__"):
        as_seen = _as_arrow(table)
        names = as_seen.column_names
    else:
        hint = "give a DataFrame of pandas or Polars, or an Arrow table"
        if hasattr(table, "collect"):
            hint = "collect it first: source.collect()"
        raise InputError(f"{type(table).__name__} is no table", where="source", hint=hint)
    if wrong := [name for name in names if not isinstance(name, str)]:
        kind = type(wrong[0]).__name__
        raise InputError(f"a column is named by a {kind}", where="source", hint="name each by a text")
    if len(set(names)) < len(names):
        raise InputError("two columns have one name", where="source", hint="rename one of them")
    return as_seen


def _is_pandas(table: object) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(table, pandas.DataFrame)


def _as_arrow(table: Any) -> pa.Table:
    try:
        converted = pa.table(table)
    except Exception:  # whatever the library raises, whose text may quote data
        converted = None
    if converted is None:
        raise InputError(
            f"{type(table).__name__} could not be read through Arrow",
            where="source",
            hint="give a DataFrame of pandas or Polars, or an Arrow table",
        )
    return converted


def _column(table: Any, name: str) -> pa.ChunkedArray:
    if isinstance(table, pa.Table):
        return table.column(name)
    try:
        array = pa.Array.from_pandas(table[name])
    except Exception:  # whose text may quote data
        array = None
    if array is None:
        raise _refused(name, "values of several kinds, or of one that no file has")
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _plain(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column without dictionaries and not-a-number, its times cut off to microseconds."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_null(kind) or pa.types.is_string_view(kind):
        kind = pa.string()
    elif pa.types.is_float16(kind):
        kind = pa.float32()
    elif not any(is_one(kind) for is_one in _PLAIN):
        # Of a nested type only what it is: the names in it may be keys of dicts, and so data.
        raise _refused(name, f"values of type {_NAMES_IN_TYPE.split(str(kind))[0]}")
    if pa.types.is_dictionary(column.type):
        column = pa.chunked_array([_written_out(chunk, kind) for chunk in column.chunks], kind)
    column = column.cast(kind)
    if pa.types.is_floating(kind):  # pandas means a missing value by it
        return pc.if_else(pc.is_nan(column), pa.scalar(None, kind), column)
    if pa.types.is_time64(kind):
        return column.cast(pa.time64("us"), safe=False)
    if pa.types.is_timestamp(kind) and kind.unit == "ns":
        # In UTC: elsewhere clocks show an hour of a night twice.
        in_utc = column.cast(pa.timestamp("ns", kind.tz and "UTC"))
        return pc.floor_temporal(in_utc, unit="microsecond").cast(pa.timestamp("us", kind.tz))
    return column


def _written_out(part: pa.DictionaryArray, kind: pa.DataType) -> pa.Array:
    """Return a dictionary column as plain values."""
    return pa.DictionaryArray.from_arrays(part.indices, part.dictionary.cast(kind)).dictionary_decode()


def _refused(name: str, what: str) -> InputRefused:
    return InputRefused(
        f"column {name!r} holds {what}",
        where="source",
        hint="make it text, whole or decimal numbers, dates, times or true and false",
    )
