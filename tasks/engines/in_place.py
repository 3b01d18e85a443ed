"""Records that are counted where they are: their engine, its snapshot from stage to stage, and their digest.

The digest does not depend on the order of the records. Each record is written as text that can be read in one
way only: for every column its length and its value, or that it is null. The record's digest is the SHA-256 of
that text. The engine sorts these digests into :data:`BOXES` boxes by their first digits, joins the digests of
each box in ascending order, and digests the result; the home digests the boxes in order under its key, with
the names and types of the columns.

Two inputs with the same digest have the same records, each as often. The sorted digests in the order of boxes
are one text for each multiset of digests, since a box is a range of them. So two inputs with one digest but
different records give two texts with one SHA-256 at the home, in a box, or of a record: a collision of
SHA-256 (or of HMAC-SHA-256, which the key only makes harder). Sums of the records' digests would be cheaper,
but a sum of 256 bits can be hit on purpose with some 2^32 records (Wagner, *A generalized birthday problem*,
2002), and a sum that resists is thousands of bits wide, which costs more than sorting.

No statement contains a key. The engine returns one digest for each box, to a process that may see every
record. It is not stored; only its keyed digest goes into a handle.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tabularium.mechanisms.errors import InputError, InputRefused
from tabularium.tasks.engines.postgresql import PostgresSource
from tabularium.tasks.engines.spark import SparkSource
from tabularium.tasks.ingest.source_columns import needed_columns, raw_names
from tabularium.tasks.runtime import workspace as resources
from tabularium.validations.imported_later import Later
from tabularium.validations.redaction import redacted
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.source import PostgresTable, SparkFiles

if TYPE_CHECKING:
    import ibis
else:
    ibis = Later("ibis")

IN_PLACE = ("postgresql", "spark")
"""Engines that hold the records themselves."""

Source = Any
"""An open engine: see :class:`tabularium.tasks.engines.postgresql.PostgresSource`."""


def begin(loaded: Loaded, secret: bytes, scratch: Path) -> tuple[str, str]:
    """Open the source of a spec for the run, and digest its records.

    Returns the handle of the open source, and the keyed digest.
    """
    source = _opened(loaded, scratch)
    handle = resources.register(scratch, source)
    return handle, _digest(source, loaded, secret)


def held(handle: str) -> Source:
    """Return the source that a handle names, unchanged since its digest was taken.

    Raises
    ------
    InputError
        If it is not, or lives no more.
    """
    source = resources.get(handle)
    source.check_unchanged()
    return source


def require_still(handle: str, loaded: Loaded, secret: bytes, digest: str) -> None:
    """Check, after counting, that the records are those of the digest, where the engine does not promise it.

    Raises
    ------
    InputError
        If they are not.
    """
    source = held(handle)
    if not source.still and _digest(source, loaded, secret) != digest:
        raise InputError(
            "gave other records when it was read again",
            where="source.table",
            hint="name a table, or a view that makes its rows only of tables",
        )


def batches_of(source: Source, expression: Any) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an expression over the table of a source: cells, numbers, never records."""
    yield from source.batches(source.sql(expression), expression.schema().to_pyarrow())


def listed(table: Any) -> Any:
    """Return a small public table as literals for statements."""
    return ibis.memtable(table.to_pyarrow())


def _opened(loaded: Loaded, scratch: Path) -> Source:
    spec = loaded.spec
    raw = raw_names(needed_columns(loaded))
    as_text = {spec.privacy.unit.column, *spec.identifiers}
    together = frozenset(name for name in as_text if name is not None)
    if isinstance(spec.source, SparkFiles):
        ignore = spec.source.ignore
        return SparkSource(spec.source.master, loaded.source_uri, raw, together, scratch, ignore)
    assert isinstance(spec.source, PostgresTable)  # noqa: S101 - no other is counted in place
    return PostgresSource(spec.source.url, spec.source.table, raw, together)


def _digest(source: Source, loaded: Loaded, secret: bytes) -> str:
    # It may be one record that cannot be read, as of a view that casts: which is learnt from the data.
    failure = InputRefused(
        "the engine could not read the records to their end",
        where="source",
        hint="check that it is up, and has room for temporary files",
    )
    return redacted(lambda: rows_digest(source, raw_names(needed_columns(loaded)), secret), failure)


BOXES = 4096
"""Boxes of digests: of a thousand million records each has a quarter of a million, 16 megabytes to sort."""
_DIGITS = 3  # hexadecimal: 4096
_ROWS = b"tabularium/input-rows/1\0"
_BOXED = {
    "postgresql": "SELECT substr(h, 1, 3) AS box, "
    "encode(sha256(convert_to(string_agg(h, '' ORDER BY h COLLATE \"C\"), 'UTF8')), 'hex') AS digest, "
    "count(*) AS number FROM ({each}) AS records GROUP BY 1",
    "spark": "SELECT substr(h, 1, 3) AS box, "
    "sha2(concat_ws('', sort_array(collect_list(h))), 256) AS digest, count(*) AS number "
    "FROM ({each}) AS records GROUP BY 1",
}
_SCHEMA = pa.schema([("box", pa.string()), ("digest", pa.string()), ("number", pa.int64())])


def rows_digest(source: Any, columns: Mapping[str, str], secret: bytes) -> str:
    """Return the keyed digest of all records, hexadecimal.

    Parameters
    ----------
    source
        An open engine: its ``name``, ``table``, ``types``, ``sql`` and ``batches`` are used, and it is given
        the number of ``records``.
    columns
        Column of the source -> its name inside the engine.
    """
    statement = source.sql(
        source.table.select(h=_as_text(source.table, list(columns.values())).hexdigest("sha256"))
    )
    boxes = [
        row
        for batch in source.batches(_BOXED[source.name].format(each=statement), _SCHEMA)
        for row in batch.to_pylist()
    ]
    source.records = sum(box["number"] for box in boxes)
    digest = hmac.new(secret, _ROWS, "sha256")
    for column, name in columns.items():
        for text in (column, source.types[name]):
            digest.update(len(text.encode()).to_bytes(8, "big") + text.encode())
    for box in sorted(boxes, key=lambda box: str(box["box"])):
        digest.update(f"|{box['box']} {box['number']} {box['digest']}".encode())
    return digest.hexdigest()


def _as_text(table: Any, names: list[str]) -> Any:
    """Return a record as text that can be read in one way only."""
    parts = [ibis.literal("record")]
    for name in names:
        text = table[name].cast("string")
        marked = text.length().cast("string").concat(":", text)
        parts += [ibis.ifelse(table[name].isnull(), ibis.literal("-"), marked), ibis.literal(",")]
    first, *rest = parts
    return first.concat(*rest) if rest else first
