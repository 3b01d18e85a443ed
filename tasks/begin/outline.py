"""The outline of a file of data: names and types of its columns, and the labels that it carries.

No row is read, and neither are dictionaries, categories and statistics in a footer: they hold the values that
occur, and so tell who is in the data. The value labels of SPSS, SAS and Stata files may be such a list, too;
whoever uses them here says so.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from tabularium.mechanisms.errors import InputError
from tabularium.validations.spec.kinds import format_of

Kind = Literal["whole", "decimal", "text", "switch", "date", "unknown"]

STATISTICAL = {
    **dict.fromkeys((".sav", ".zsav"), "read_sav"),
    **dict.fromkeys((".por",), "read_por"),
    **dict.fromkeys((".sas7bdat",), "read_sas7bdat"),
    **dict.fromkeys((".xpt",), "read_xport"),
    **dict.fromkeys((".dta",), "read_dta"),
}
"""Ending of a file of a statistics package -> the reader of pyreadstat."""
_LONGEST_HEADER = 1 << 20
_DELIMITERS = ",;\t|"
_NUMBER = re.compile(r"\s*[-+]?[0-9]+([.,][0-9]+)*\s*")
_DATES = re.compile(r"(DATE|TIME|%t[dcwmqhy]|DDMMYY|MMDDYY|YYMMDD)", re.IGNORECASE)


@dataclass(frozen=True)
class Column:
    """A column.

    Attributes
    ----------
    title
        What the file calls it beside its name.
    labels
        Value -> label, as the file has them.
    """

    name: str
    kind: Kind
    title: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outline:
    """The columns of a file; ``delimiter`` is that of a CSV file."""

    path: Path
    columns: tuple[Column, ...]
    delimiter: str = ","

    @property
    def readable(self) -> bool:
        """Whether a release can be made of it as it is: SPSS, SAS and Stata files are turned into another."""
        return format_of(self.path.name) is not None


def outline_of(path: Path) -> Outline:
    """Return the outline of a CSV, Parquet, SPSS, SAS or Stata file.

    Raises
    ------
    InputError
        The file is missing, of another kind, cannot be read, or its first line holds no names.
    """
    if not path.is_file():
        raise InputError("there is no such file", where=str(path), mend="name one file of data")
    reader = STATISTICAL.get(path.suffix.lower())
    if reader is not None:
        return Outline(path, _statistical(path, reader))
    kind = format_of(path.name)
    if kind == "parquet":
        return Outline(path, _parquet(path))
    if kind == "csv":
        return _csv(path)
    raise InputError(
        "cannot tell the kind of file from this ending",
        where=str(path),
        mend=f"name a file in .csv, .csv.gz, .parquet, {', '.join(STATISTICAL)}",
    )


def _parquet(path: Path) -> tuple[Column, ...]:
    try:
        schema = pq.read_schema(path)
    except (OSError, pa.ArrowException):
        pass
    else:
        return tuple(Column(each.name, _kind(each.type)) for each in schema)
    raise _unreadable(path)


def _kind(kind: pa.DataType) -> Kind:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_integer(kind):
        return "whole"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "decimal"
    if pa.types.is_boolean(kind):
        return "switch"
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return "date"
    return "text" if pa.types.is_string(kind) or pa.types.is_large_string(kind) else "unknown"


def _csv(path: Path) -> Outline:
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            begun = stream.read(_LONGEST_HEADER)
        line = begun.partition(b"\n")[0].decode("utf-8-sig").rstrip("\r")
    except (OSError, ValueError, pa.ArrowException):
        raise _unreadable(path) from None
    delimiter = max(_DELIMITERS, key=line.count)
    names = next(csv.reader(io.StringIO(line), delimiter=delimiter), [])
    # A first record would be data: none of its values may get into a spec, or onto a screen.
    if not names or any(not name.strip() or _NUMBER.fullmatch(name) for name in names):
        raise InputError(
            "the first line does not name the columns",
            where=str(path),
            mend="write the names of the columns into the first line, and let none be a number",
        )
    return Outline(path, tuple(Column(name, "unknown") for name in names), delimiter)


def _statistical(path: Path, reader: str) -> tuple[Column, ...]:
    try:
        import pyreadstat
    except ImportError:
        raise InputError(
            "pyreadstat is not installed", where=str(path), mend="pip install 'tabularium-dp[stat]'"
        ) from None
    try:
        _, about = getattr(pyreadstat, reader)(str(path), metadataonly=True)
    except Exception:  # whatever the library raises, whose text may quote data
        raise _unreadable(path) from None
    titles: Mapping[str, str | None] = about.column_names_to_labels
    labels: Mapping[str, Mapping[Any, str]] = about.variable_value_labels
    formats: Mapping[str, str] = about.original_variable_types
    kinds: Mapping[str, str] = about.readstat_variable_types
    return tuple(
        Column(
            name,
            "date" if _DATES.search(formats.get(name) or "") else _of_package(kinds.get(name, "")),
            titles.get(name) or "",
            {_code(value): label for value, label in labels.get(name, {}).items()},
        )
        for name in about.column_names
    )


def _of_package(kind: str) -> Kind:
    if kind == "string":
        return "text"
    return "whole" if kind.startswith("int") else "unknown"  # of a double nobody knows


def _code(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _unreadable(path: Path) -> InputError:
    return InputError("cannot be read", where=str(path), mend="check that it is whole and may be read")
