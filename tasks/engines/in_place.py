"""Records that are counted where they lie: which engine has them, and its snapshot from stage to stage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tabularium.mechanisms.errors import InputError, InputRefused
from tabularium.tasks.engines.postgresql import PostgresSource
from tabularium.tasks.engines.row_digest import rows_digest
from tabularium.tasks.engines.spark import SparkSource
from tabularium.tasks.ingest.source_columns import needed_columns, raw_names
from tabularium.tasks.runtime import resources
from tabularium.validations.imported_later import Later
from tabularium.validations.redaction import redacted
from tabularium.validations.spec.load import Loaded
from tabularium.validations.spec.source import PostgresTable, SparkFiles

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

    Returns
    -------
    The handle of the open source, and the keyed digest
    """
    source = _opened(loaded, scratch)
    handle = resources.register(scratch, source)
    return handle, _digest(source, loaded, secret)


def held(handle: str) -> Source:
    """Return the source that a handle names, which is as it was when its digest was taken.

    Raises
    ------
    InputError
        If it is not, or lives no more.
    """
    source = resources.get(handle)
    source.check_unchanged()
    return source


def require_still(handle: str, loaded: Loaded, secret: bytes, digest: str) -> None:
    """See, after counting, that the records are those of the digest, where the engine does not promise it.

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
    """Return a small public table as one that stands in statements."""
    return ibis.memtable(table.to_pyarrow())


def _opened(loaded: Loaded, scratch: Path) -> Source:
    spec = loaded.spec
    raw = raw_names(needed_columns(loaded))
    alike = {spec.privacy.unit.column, *spec.identifiers}
    together = frozenset(name for name in alike if name is not None)
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
