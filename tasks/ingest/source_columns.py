"""Whether a source has the columns that the spec declares, and of types that can be coded.

Messages name columns that the spec names. What else a header holds is not told: a file without a header
begins with a record.
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
from tabularium.tasks.ingest.time_columns import parquet_schema
from tabularium.validations.domains.domains import Domain, NumberDomain
from tabularium.validations.redaction import redacted
from tabularium.validations.spec.source import Limits

_NEVER_TOO_MANY = 100_000_000  # rows, however small the file


def _spelled(missing: list[str], there: Iterable[str]) -> str:
    """Say how a file spells names that it has in other capitals, all of them: then they are no values."""
    known = {name.casefold(): name for name in there}
    if any(each.casefold() not in known for each in missing):
        return ""
    return f"the file has {_listed([known[each.casefold()] for each in missing])}: spell it so under columns"


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
    found: Found, columns: tuple[str, ...], domains: Mapping[str, Domain], field: str = "source"
) -> None:
    """Check the schemas of Parquet files, of which the spec speaks in ``field``.

    Raises
    ------
    InputError
        If a file is damaged or empty, a column is missing or there twice, its type cannot be coded, or
        files differ in it.
    """
    first: dict[str, Any] = {}
    for path in found.paths:
        schema = _schema(path)
        missing = [column for column in columns if column not in schema.names and column not in found.folders]
        if missing:
            hint = _spelled(missing, schema.names) or "check the names under columns"
            raise InputRefused(f"the file lacks {_listed(missing)}", where=path.name, hint=hint)
        alike = Counter(name.casefold() for name in schema.names)
        for column in (column for column in columns if column in schema.names):
            if schema.names.count(column) > 1:
                what, hint = f"the file has {_listed([column])} twice", "give every column a name of its own"
                raise InputRefused(what, where=path.name, hint=hint)
            if alike[column.casefold()] > 1:
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


def check_rows(found: Found, limits: Limits, field: str = "source") -> None:
    """Refuse a Parquet file of so many rows for its size that it was made to occupy whoever reads it.

    Raises
    ------
    InputRefused
        Naming the file.
    """
    for path in found.paths:
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
    """Refuse a type none of whose values could lie in the domain."""
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
        hint=f"write the column as {_MEND[wanted]}",
    )


_MEND = {"whole numbers": "integers", "numbers": "decimals or integers", "codes": "text or integers"}


def _named(kind: Any) -> str:
    # The name of a nested type spells out the names inside it.
    return "struct, list or map" if pa.types.is_nested(kind) else str(kind)


def _listed(names: list[str]) -> str:
    quoted = [repr(name) for name in names]
    return f"the column {quoted[0]}" if len(quoted) == 1 else f"the columns {', '.join(quoted)}"
