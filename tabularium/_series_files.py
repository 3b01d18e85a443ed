"""Tables of several releases as a file for other programs: CSV, Parquet, or a DuckDB database."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from tabularium.mechanisms.errors import InputError
from tabularium.validations.redaction import reason_of

KINDS = (".csv", ".parquet", ".duckdb")


def check_place(path: Path, *, overwrite: bool) -> None:
    """See, before anything is read, that a file can be written here.

    Raises
    ------
    InputError
        It is of no kind that is known, is there already, or its folder is not there.
    """
    if path.suffix not in KINDS:
        raise InputError(
            "is of no kind that is written", where=str(path), hint=f"let it end in {', '.join(KINDS)}"
        )
    if os.path.lexists(path) and not overwrite:
        raise InputError("is there already", where=str(path), hint="name another, or allow overwriting")
    if not path.parent.is_dir():
        raise InputError("its folder is not there", where=str(path), hint="make the folder first")


def write_series(tables: Mapping[str, pa.Table], path: Path) -> None:
    """Write tables into a file, which is there whole or not at all.

    Parameters
    ----------
    tables
        By name; one alone for ``.csv`` and ``.parquet``.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    aside = path.with_name(f".{path.name}.part")
    try:
        aside.unlink(missing_ok=True)
        if path.suffix == ".duckdb":
            with duckdb.connect(str(aside)) as database:
                for name, table in tables.items():
                    database.register("rows", _plain(table))
                    database.execute(f'CREATE TABLE "{name.replace(chr(34), chr(34) * 2)}" AS FROM rows')
                    database.unregister("rows")
        else:
            (table,) = tables.values()
            if path.suffix == ".csv":
                pa.csv.write_csv(_plain(table), aside)
            else:
                pa.parquet.write_table(table, aside)
        aside.replace(path)
    except OSError as error:
        reason = reason_of(error)
    except duckdb.Error as error:
        reason = type(error).__name__
    else:
        return
    with contextlib.suppress(OSError):
        aside.unlink()
    raise InputError(f"cannot be written ({reason})", where=str(path), hint="see its rights and its disk")


def _plain(table: pa.Table) -> pa.Table:
    """Return a table with its texts written out: not all programs know dictionaries."""
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))
