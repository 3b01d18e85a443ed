"""The outline of a file of data: names and types of its columns, and the labels that it carries.

No record is read, and neither are dictionaries, categories and statistics in a footer: they hold the values
that occur, and so tell who is in the data. The first line of a CSV file may be a record for want of names:
what looks like a value is refused, and no error quotes it. The value labels of SPSS, SAS and Stata files may
be a list of values, too; whoever uses them here says so.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from tabularium.mechanisms.errors import InputError
from tabularium.validations.spec.kinds import format_of
from tabularium.validations.spec.scalars import ColumnName

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
_NAME: TypeAdapter[str] = TypeAdapter(ColumnName)
_NOT_UTF8 = re.compile("[^\r\n]*[\0\ud800-\udfff]")
_VALUE = re.compile(  # a long number, a date, an address
    r"(\d[-+ ./:()]*){7}|\d{1,4}[-./]\d{1,2}[-./]\d{1,4}|^\d{1,2}[ .-]+[^\W\d_]{3,9}[ .,-]+\d{2,4}$|@"
)
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
    """The columns of a file; ``delimiter`` is that of a CSV file, whose first line names them."""

    path: Path
    columns: tuple[Column, ...]
    delimiter: str | None = None

    @property
    def readable(self) -> bool:
        """Whether a release can be made of it as it is: SPSS, SAS and Stata files are turned into another."""
        return format_of(self.path.name) is not None


def outline_of(path: Path) -> Outline:
    """Return the outline of a CSV, Parquet, SPSS, SAS or Stata file.

    Raises
    ------
    InputError
        The file is missing, of another kind or cannot be read, or its columns have no names for a spec.
    """
    if not path.is_file():
        raise InputError("there is no such file", where=str(path), hint="name one file of data")
    reader = STATISTICAL.get(path.suffix.lower())
    kind = format_of(path.name)
    if reader is not None:
        outline = Outline(path, _statistical(path, reader))
    elif kind == "parquet":
        outline = Outline(path, _parquet(path))
    elif kind == "csv":
        outline = _csv(path)
    else:
        raise InputError(
            "cannot tell the kind of file from this ending",
            where=str(path),
            hint=f"name a file in .csv, .csv.gz, .parquet, {', '.join(STATISTICAL)}",
        )
    _check_names(path, [each.name for each in outline.columns])
    return outline


def _check_names(path: Path, names: Sequence[str]) -> None:
    """Refuse names that no spec can have, by their places: they may be values."""
    if not names:
        raise InputError("there are no columns", where=str(path), hint="name a file that has some")
    first: dict[str, int] = {}
    for place, name in enumerate(names, start=1):
        where = f"{path}: name of column {place}"
        try:
            _NAME.validate_python(name)
        except ValidationError as error:
            about = error.errors()[0]["ctx"]
            failure = InputError(about["what"], where=where, hint=about["hint"])
        else:
            same = first.setdefault(name.casefold(), place)
            if same == place:
                continue
            failure = InputError(
                f"is also that of column {same}, capital letters aside",
                where=where,
                hint="give every column its own name",
            )
        raise failure


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
    except (OSError, pa.ArrowException):
        raise _unreadable(path) from None
    text = begun.decode("utf-8-sig", errors="surrogateescape")  # the header is judged, not what follows
    rows = {mark: _first_row(text, mark) for mark in _DELIMITERS}
    delimiter = max(_DELIMITERS, key=lambda mark: len(rows[mark]))
    names = rows[delimiter]
    wrong = _no_header(text, names)
    if wrong is not None:
        raise InputError(wrong[0], where=f"{path}: first line", hint=wrong[1])
    for place, name in enumerate(names, start=1):
        # A first record would be data: none of its values may get into a spec, or onto a screen.
        if name.strip() and (not any(map(str.isalpha, name)) or _VALUE.search(name)):
            raise InputError(
                "looks like a value: it has no letter, or holds a date, a long number or an @",
                where=f"{path}: name of column {place}",
                hint="begin the file with one line that names the columns",
            )
    return Outline(path, tuple(Column(name, "unknown") for name in names), delimiter)


def _first_row(text: str, delimiter: str) -> list[str]:
    """Return the fields of the first row; none where it cannot be cut so."""
    try:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []


def _no_header(text: str, names: Sequence[str]) -> tuple[str, str] | None:
    """Return why a text does not begin with names, and what to do about it; None if it does."""
    if _NOT_UTF8.match(text):
        return "is not UTF-8", "convert the file, for instance with iconv -t UTF-8"
    if not names or any('"' in name for name in names):
        return "is empty, or has a quote in a name or one that is not closed", "write the names there"
    if all(len(name) > 1 and name[0] == name[-1] == "'" for name in names):
        return "has names in single quotes", "write them in double quotes, or in none"
    return None


def _statistical(path: Path, reader: str) -> tuple[Column, ...]:
    try:
        import pyreadstat
    except ImportError:
        raise InputError(
            "pyreadstat is not installed", where=str(path), hint="pip install 'tabularium-dp[stat]'"
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
    return InputError("cannot be read", where=str(path), hint="check that it is whole and may be read")
