"""Columns that hold instants: what their types say of the zone in which they are dated.

An instant says when something was, and a date needs to know where. A column is dated in the zone that its
spec names, else in the one that the schema of its files names, and refused where neither does. What is read
of it is text in UTC (``1999-12-31 23:00:00+00:00``), whatever the zone of a session is; so it is no code, and
no key but for columns of instants.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tabularium.mechanisms.errors import InputRefused
from tabularium.validations.derivation.civil_dates import is_utc, is_zone
from tabularium.validations.derivation.derived_columns import source_column
from tabularium.validations.spec.columns import Derivation
from tabularium.validations.spec.load import Loaded
from tabularium.validations.spec.source import taken_from

Zones = Mapping[str, str | None]
"""Columns of instants, and the zone that is known of each; None where none is."""
_EXAMPLE = "for instance zone: Europe/Rome"


def parquet_schema(path: Path) -> pa.Schema:
    """Return the schema of a Parquet file, in which times of the old form (INT96) are instants.

    That is how Spark writes them. Arrow reads them as civil time.
    """
    with pq.ParquetFile(path) as file:
        columns = [file.schema.column(place) for place in range(len(file.schema))]
        old = {column.path for column in columns if column.physical_type == "INT96"}
        schema = file.schema_arrow
    for place, field in enumerate(schema):
        if field.name in old and pa.types.is_timestamp(field.type):
            schema = schema.set(place, field.with_type(pa.timestamp(field.type.unit, "UTC")))
    return schema


def zones_of(schema: pa.Schema) -> dict[str, str | None]:
    """Return the columns of instants of a Parquet file; UTC is no place, and so no zone."""
    return {
        field.name: None if is_utc(field.type.tz) else field.type.tz
        for field in schema
        if pa.types.is_timestamp(field.type) and field.type.tz is not None
    }


def with_zones(loaded: Loaded, zones: Mapping[str, Zones]) -> dict[str, Derivation]:
    """Return where every declared column comes from, its dates in the zones that files name.

    Parameters
    ----------
    zones
        Look-up, or ``""`` for the source -> its columns of instants.
    """
    columns: dict[str, Derivation] = dict(loaded.spec.columns)
    for name, column in loaded.spec.columns.items():
        known = _zone(loaded, source_column(name, column), zones)
        if known is not None and column.date is not None and column.date.zone is None:
            columns[name] = column.model_copy(update={"date": column.date.model_copy(update={"zone": known})})
    return columns


def check_zones(loaded: Loaded, zones: Mapping[str, Zones]) -> None:
    """See that every use of instants is one that no zone, or a known one, decides.

    Parameters
    ----------
    zones
        As in :func:`with_zones`.

    Raises
    ------
    InputRefused
        If a date needs a zone, or a column of instants is coded as text or compared with text.
    """
    for name, column in loaded.spec.columns.items():
        source = source_column(name, column)
        if source is None or not _is_instant(loaded, source, zones):
            continue
        where = f"columns.{name}"
        if column.date is None:
            raise InputRefused(
                f"column {source!r} holds times with a time zone, whose text is no code",
                where=where,
                hint="take a part of their date, as date: {part: year}, or write the column as text",
            )
        zone = column.date.zone or _zone(loaded, source, zones)
        if zone is None:
            raise InputRefused(
                f"column {source!r} holds instants, whose date depends on a time zone",
                where=f"{where}.date",
                hint=f"name the zone in which they are dated, {_EXAMPLE}",
            )
        if not is_zone(zone):
            raise InputRefused(
                f"the schema dates column {source!r} in an unknown time zone",
                where=f"{where}.date",
                hint=f"name the zone, {_EXAMPLE}",
            )
    for name, look in loaded.spec.lookups.items():
        if look.key is None or look.looked_up is None:
            continue
        both = [look.key in zones.get(name, {}), _is_instant(loaded, look.looked_up, zones)]
        if any(both) and not all(both):
            raise InputRefused(
                "times with a time zone are looked up among what are no such times",
                where=f"lookups.{name}.key",
                hint="write both columns as dates, or both as times with a time zone",
            )


def _is_instant(loaded: Loaded, column: str, zones: Mapping[str, Zones]) -> bool:
    place, own = taken_from(column, loaded.spec.lookups)
    return own in zones.get(place, {})


def _zone(loaded: Loaded, column: str | None, zones: Mapping[str, Zones]) -> str | None:
    place, own = taken_from(column or "", loaded.spec.lookups)
    return zones.get(place, {}).get(own)
