"""The columns that a spec needs, and checks that a source has them with types that can be coded.

No other column is read. Messages name columns of the spec only. Other content of a header is not shown:
a file without a header begins with a record.

An instant says when something was, and a date needs to know where. A column is dated in the zone that its
spec names, else in the one that the schema of its files names, and refused where neither does. What is read
of it is text in UTC (``1999-12-31 23:00:00+00:00``), whatever the zone of a session is; so it is no code, and
no key but for columns of instants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tabularium.mechanisms.errors import InputRefused
from tabularium.tasks.ingest.find_files import Found
from tabularium.validations.derivation import is_utc, is_zone, source_column
from tabularium.validations.domains.domains import Domain, NumberDomain
from tabularium.validations.redaction import redacted
from tabularium.validations.release_spec.columns import Derivation
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.privacy import UniqueRule
from tabularium.validations.release_spec.source import Limits, taken_from
from tabularium.validations.universes.universe import test_of

_NEVER_TOO_MANY = 100_000_000  # rows, however small the file


def _spelled(missing: list[str], there: Iterable[str]) -> str:
    """Return a hint on names that a file has in other capitals, if it has all: then they are not values."""
    known = {name.casefold(): name for name in there}
    if any(name.casefold() not in known for name in missing):
        return ""
    return f"the file has {_listed([known[name.casefold()] for name in missing])}: spell it so under columns"


def check_header(
    header: tuple[str, ...], folders: tuple[str, ...], columns: tuple[str, ...], name: str
) -> None:
    """Check the header of a CSV file.

    Parameters
    ----------
    header
        The names that stand in it.
    folders
        Columns that stand in folder names instead.
    columns
        Those that the spec speaks of.
    name
        Of the file.

    Raises
    ------
    InputError
        If a column is missing or a name is there twice.
    """
    missing = [column for column in columns if column not in header and column not in folders]
    if missing:
        if len(header) == 1 and len(columns) > 1:
            hint = "is source.delimiter right? only one column was found"
        else:
            hint = "check the header, source.delimiter and the names under columns"
            hint = _spelled(missing, header) or hint
        raise InputRefused(f"the header lacks {_listed(missing)}", where=name, hint=hint)
    twice = [column for column, times in Counter(header).items() if times > 1]
    if twice:
        ours = [column for column in columns if column in twice]
        what = f"the header has {_listed(ours)} twice" if ours else "the header has a name twice"
        raise InputRefused(what, where=name, hint="give every column a name of its own")


def check_schemas(
    listed: Found, columns: tuple[str, ...], domains: Mapping[str, Domain], field: str = "source"
) -> None:
    """Check the schemas of Parquet files; ``field`` is theirs in the spec.

    Raises
    ------
    InputError
        If a file is damaged or empty, a column is missing or there twice, its type cannot be coded, or
        files differ in it.
    """
    first: dict[str, Any] = {}
    for path in listed.paths:
        schema = _schema(path)
        missing = [
            column for column in columns if column not in schema.names and column not in listed.folders
        ]
        if missing:
            hint = _spelled(missing, schema.names) or "check the names under columns"
            raise InputRefused(f"the file lacks {_listed(missing)}", where=path.name, hint=hint)
        spellings = Counter(name.casefold() for name in schema.names)
        for column in (column for column in columns if column in schema.names):
            if schema.names.count(column) > 1:
                what, hint = f"the file has {_listed([column])} twice", "give every column a name of its own"
                raise InputRefused(what, where=path.name, hint=hint)
            if spellings[column.casefold()] > 1:
                raise InputRefused(
                    f"two columns are called {column!r} but for capital letters",
                    where=path.name,
                    hint="rename one of them",
                )
            kind = _plain(schema.field(column).type)
            _check_type(column, kind, domains.get(column), field)
            if not first.setdefault(column, kind).equals(kind):
                raise InputRefused(
                    f"the files hold column {column!r} in different types",
                    where=field,
                    hint="write all files with one schema",
                )


def check_rows(listed: Found, limits: Limits, field: str = "source") -> None:
    """Refuse a Parquet file with implausibly many rows for its size.

    Raises
    ------
    InputRefused
        Naming the file.
    """
    for path in listed.paths:
        rows = pq.read_metadata(path).num_rows
        if rows > max(_NEVER_TOO_MANY, limits.unpacked * path.stat().st_size):
            raise InputRefused(
                f"the file has more than {limits.unpacked} rows for each of its bytes",
                where=path.name,
                hint=f"look at it before anything else, or raise {field}.limits.unpacked",
            )


def _schema(path: Path) -> pa.Schema:
    if not path.stat().st_size:
        raise InputRefused("the file is empty", where=path.name, hint="name the file that holds the data")
    failure = InputRefused(
        "is not a Parquet file, or is damaged or cut off",
        where=path.name,
        hint="write it again, or correct source.format",
    )
    return redacted(lambda: parquet_schema(path), failure)


def _plain(kind: Any) -> Any:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _check_type(column: str, kind: Any, domain: Domain | None, field: str) -> None:
    """Refuse a type without values in the domain."""
    types = pa.types
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    text = types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)
    if types.is_null(kind) or number or (domain is None and not types.is_nested(kind)):
        return
    if isinstance(domain, NumberDomain):
        wanted = "whole numbers" if domain.digits is None else "numbers"
    elif text or types.is_boolean(kind) or types.is_date(kind):
        return
    else:
        wanted = "codes"
    raise InputRefused(
        f"column {column!r} is of type {_named(kind)}, and {wanted} are declared",
        where=field,
        hint=f"write the column as {_HINTS[wanted]}",
    )


_HINTS = {"whole numbers": "integers", "numbers": "decimals or integers", "codes": "text or integers"}


def _named(kind: Any) -> str:
    # The name of a nested type spells out the names inside it.
    return "struct, list or map" if pa.types.is_nested(kind) else str(kind)


def _listed(names: list[str]) -> str:
    quoted = [repr(name) for name in names]
    return f"the column {quoted[0]}" if len(quoted) == 1 else f"the columns {', '.join(quoted)}"


def needed_columns(loaded: Loaded, look_up: str = "") -> tuple[str, ...]:
    """Return the columns that the spec takes from a look-up, or from the source itself."""
    places = (taken_from(name, loaded.spec.lookups) for name in _spoken_of(loaded))
    return tuple(column for lookup, column in places if lookup == look_up)


def read_as(loaded: Loaded, look_up: str = "") -> dict[str, Domain]:
    """Return the domains of columns that are read unchanged from a look-up, or from the source."""
    domains = {}
    for name, domain in loaded.domains.items():
        column = loaded.spec.columns[name]
        lookup, name_there = taken_from(column.source_column or name, loaded.spec.lookups)
        if lookup == look_up and not column.is_made:
            domains[name_there] = domain
    return domains


def read_as_numbers(loaded: Loaded) -> tuple[str, ...]:
    """Return the columns of the source and of look-ups from which numbers are read."""
    spec, columns = loaded.spec, dict.fromkeys(loaded.spec.measured_columns)
    for name, domain in loaded.domains.items():
        column = spec.columns[name]
        if isinstance(domain, NumberDomain) and not column.is_made:
            columns[column.source_column or name] = None
    return tuple(columns)


def raw_names(columns: tuple[str, ...]) -> dict[str, str]:
    """Return the name of each column inside the engine, which takes not every name of a source."""
    return {name: f"raw{index}" for index, name in enumerate(columns)}


def _spoken_of(loaded: Loaded) -> dict[str, None]:
    spec = loaded.spec
    needed = (source_column(name, spec.columns[name]) for name in loaded.domains)
    names = dict.fromkeys(name for name in needed if name is not None)
    if spec.privacy.unit.column is not None:
        names[spec.privacy.unit.column] = None
    names.update(dict.fromkeys(spec.identifiers))
    for measure in (array.measured for array in spec.arrays if array.measured is not None):
        names.update(dict.fromkeys(measure.columns))
        tested = () if measure.test is None else test_of(measure.test, loaded.domains).about
        names.update((name, None) for name in tested if name not in loaded.domains)
    for rule in spec.rules:
        if isinstance(rule, UniqueRule):
            names.update(dict.fromkeys(rule.columns))
    names.update((look.looked_up, None) for look in spec.lookups.values() if look.looked_up is not None)
    return names


Zones = Mapping[str, str | None]
"""Columns of instants, and the zone that is known of each; None where none is."""
_EXAMPLE = "for instance zone: Europe/Rome"


def parquet_schema(path: Path) -> pa.Schema:
    """Return the schema of a Parquet file, with times of the old type (INT96) as instants.

    That is how Spark writes them. Arrow reads them as civil time.
    """
    with pq.ParquetFile(path) as file:
        columns = [file.schema.column(index) for index in range(len(file.schema))]
        old = {column.path for column in columns if column.physical_type == "INT96"}
        schema = file.schema_arrow
    for index, field in enumerate(schema):
        if field.name in old and pa.types.is_timestamp(field.type):
            schema = schema.set(index, field.with_type(pa.timestamp(field.type.unit, "UTC")))
    return schema


def zones_of(schema: pa.Schema) -> dict[str, str | None]:
    """Return the columns of instants of a Parquet file with their zones; UTC counts as no zone."""
    return {
        field.name: None if is_utc(field.type.tz) else field.type.tz
        for field in schema
        if pa.types.is_timestamp(field.type) and field.type.tz is not None
    }


def with_zones(loaded: Loaded, zones: Mapping[str, Zones]) -> dict[str, Derivation]:
    """Return the derivation of every declared column, its dates in the zones of the files.

    ``zones``: look-up, or ``""`` for the source -> its columns of instants.
    """
    columns: dict[str, Derivation] = dict(loaded.spec.columns)
    for name, column in loaded.spec.columns.items():
        known = _zone(loaded, source_column(name, column), zones)
        if known is not None and column.date is not None and column.date.zone is None:
            columns[name] = column.model_copy(update={"date": column.date.model_copy(update={"zone": known})})
    return columns


def check_zones(loaded: Loaded, zones: Mapping[str, Zones]) -> None:
    """Check that every use of instants has a known zone, or needs none.

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
    lookup, name_there = taken_from(column, loaded.spec.lookups)
    return name_there in zones.get(lookup, {})


def _zone(loaded: Loaded, column: str | None, zones: Mapping[str, Zones]) -> str | None:
    lookup, name_there = taken_from(column or "", loaded.spec.lookups)
    return zones.get(lookup, {}).get(name_there)
