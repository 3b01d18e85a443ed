"""Tables that a process hands over in memory, to be taken into the secure workspace as a file is.

What is counted is what stands in them and not how they hold it: categories and dictionaries are written out,
and an input has the same digest from pandas, Polars and Arrow, in whatever order its rows come.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tabularium.mechanisms.errors import InputError, InputRefused
from tabularium.tasks.runtime.run import HANDED

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
    """Keep a table for the runs of this process; yields what names it as their source.

    Parameters
    ----------
    table
        A pandas DataFrame, or what has ``__arrow_c_stream__``: of Polars, Arrow, DuckDB.

    Raises
    ------
    InputError
        It is no table, or one whose columns cannot be told apart.
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
    """Return a table by whose columns one can ask: pandas' own, or Arrow's."""
    found: Any = table
    if _is_pandas(table):
        names = list(found.columns)
    elif hasattr(table, "__arrow_c_stream__"):
        found = _read(table)
        names = found.column_names
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
    return found


def _is_pandas(table: object) -> bool:
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(table, pandas.DataFrame)


def _read(table: Any) -> pa.Table:
    try:
        found = pa.table(table)
    except Exception:  # whatever the library raises, whose text may quote data
        found = None
    if found is None:
        raise InputError(
            f"{type(table).__name__} could not be read through Arrow",
            where="source",
            hint="give a DataFrame of pandas or Polars, or an Arrow table",
        )
    return found


def _column(table: Any, name: str) -> pa.ChunkedArray:
    if isinstance(table, pa.Table):
        return table.column(name)
    try:
        found = pa.Array.from_pandas(table[name])
    except Exception:  # whose text may quote data
        found = None
    if found is None:
        raise _refused(name, "values of several kinds, or of one that no file has")
    return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])


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
        column = pa.chunked_array([_written_out(each, kind) for each in column.chunks], kind)
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
    """Return the values that a dictionary's numbers stand for."""
    return pa.DictionaryArray.from_arrays(part.indices, part.dictionary.cast(kind)).dictionary_decode()


def _refused(name: str, what: str) -> InputRefused:
    return InputRefused(
        f"column {name!r} holds {what}",
        where="source",
        hint="make it text, whole or decimal numbers, dates, times or true and false",
    )
