"""The first spec of a file of data: its known columns, and the fields that a person has to fill in.

No record is read, and neither are dictionaries, categories and statistics in a footer: they hold the values
that occur, and so tell who is in the data. The first line of a CSV file may be a record instead of names:
names like values are refused, and no error quotes them. The value labels of SPSS, SAS and Stata files may be
a list of values, too; they are used only on request.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from tabularium.mechanisms.errors import InputError
from tabularium.validations.release_spec.checks.table_checks import RESERVED_COLUMNS
from tabularium.validations.release_spec.kinds import format_of
from tabularium.validations.release_spec.scalars import ColumnName
from tabularium.validations.release_spec.yaml_lines import FILL_IN

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
        What the file calls it, besides its name.
    labels
        Value -> label, as the file has them.
    """

    name: str
    kind: Kind
    title: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Outline:
    """The columns of a file, and the ``delimiter`` of a CSV file, whose first line names them."""

    path: Path
    columns: tuple[Column, ...]
    delimiter: str | None = None

    @property
    def readable(self) -> bool:
        """Whether a release can read it as it is: SPSS, SAS and Stata files are converted first."""
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
    _check_names(path, [column.name for column in outline.columns])
    return outline


def _check_names(path: Path, names: Sequence[str]) -> None:
    """Refuse names that no spec can have, by their positions: they may be values."""
    if not names:
        raise InputError("there are no columns", where=str(path), hint="name a file that has some")
    first: dict[str, int] = {}
    for number, name in enumerate(names, start=1):
        where = f"{path}: name of column {number}"
        try:
            _NAME.validate_python(name)
        except ValidationError as error:
            about = error.errors()[0]["ctx"]
            failure = InputError(about["what"], where=where, hint=about["hint"])
        else:
            same = first.setdefault(name.casefold(), number)
            if same == number:
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
        return tuple(Column(field.name, _kind(field.type)) for field in schema)
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
    for number, name in enumerate(names, start=1):
        # A first record would be data: none of its values may get into a spec, or onto a screen.
        if name.strip() and (not any(map(str.isalpha, name)) or _VALUE.search(name)):
            raise InputError(
                "looks like a value: it has no letter, or holds a date, a long number or an @",
                where=f"{path}: name of column {number}",
                hint="begin the file with one line that names the columns",
            )
    return Outline(path, tuple(Column(name, "unknown") for name in names), delimiter)


def _first_row(text: str, delimiter: str) -> list[str]:
    """Return the fields of the first row; none where it cannot be parsed."""
    try:
        return next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True), [])
    except csv.Error:
        return []


def _no_header(text: str, names: Sequence[str]) -> tuple[str, str] | None:
    """Return why a text does not begin with names, and a hint; None if it does."""
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


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
_ID = re.compile(
    r"(?i:(.*[_ .-])?(id|uuid|key|ssn|pnr)|((id|person|personal|record)[_ .-]?)?(nr|number)"
    r"|(person|household|patient|hh)id)|.*[a-z]I[dD]"
)
_YEAR = re.compile(r"(?<![0-9])(?:19|20)[0-9]{2}(?![0-9])")
_MOST_LABELS = 50


def product_of(path: Path) -> str:
    """Return a product name for a file: the file's name without a year."""
    stem = path.name.partition(".")[0].lower()
    if _year(path):
        stem = _YEAR.sub("-", stem)
    return re.sub(r"[^a-z0-9]+", "-", stem).strip("-")[:63] or "product"


def _year(path: Path) -> str:
    """Return the year in the name of a file; nothing if there is none, or more than one."""
    years = _YEAR.findall(path.name.partition(".")[0])
    return years[0] if len(years) == 1 else ""


def first_spec(outline: Outline, source: str) -> str:
    """Return the text of a spec for a file.

    ``source``: the path of the file, as the spec names it.

    Raises
    ------
    InputError
        Every column looks like an identifier.
    """
    file, product = _text(outline.path.name), _name(product_of(outline.path))
    ids = [column.name for column in outline.columns if _ID.fullmatch(column.name)]
    columns = [column for column in outline.columns if column.name not in ids]
    if not columns:
        raise InputError(
            "all columns look like identifiers, and no table is made of those",
            where=str(outline.path),
            hint="name a file with a column that says something of a record, such as age",
        )
    return "\n".join(
        [
            f"# `tabularium init` read the names and types of the columns of {file}.",
            *_first_line(outline),
            f"# Decide what stands where it says {FILL_IN}: by what is publicly known, and not by the data.",
            "# `tabularium check` says what is left.",
            f"product: {product}",
            f"dataset: {product}   # the account of the ledger that pays",
            *_period(outline.path),
            "# size: 100000   # about how many records there are, if that is public: `check` then says more",
            *_source(outline, source),
            "privacy:",
            *_unit(ids),
            f'  budget: {FILL_IN}   # ε of the whole release, in quotes; "1" if `plan` is to find it',
            "columns:",
            *_HOW,
            *_left_out(ids),
            *_columns(columns),
            "tables:",
            *_table(columns),
            "# targets:   # margins that you need: `tabularium plan --write` puts in the budget they take",
            "#   - {table: first, margin: 50}",
            "rules:",
            "  - {rule: row_count, min: 1}",
            "",
        ]
    )


_HOW = (
    "  # Delete the columns that no table needs; give each of the others one of",
    '  #   categories: {"1": male, "2": female}      all its codes, also those that nobody has',
    "  #   categories: sexes.csv                     the same in a code list (columns code, label), or in",
    "  #                                             one of an SDMX file: lists.xml#CL_SEX",
    "  #   integer: {from: 0, to: 99, width: 5}      numbers, in classes; decimals as well",
    "  #   integer: {from: 0, to: 99, edges: [18]}   the same in classes of your own: 0-17 and 18-99",
    "  #   hierarchy: areas.csv                      a code list with a column parent: nation, region, ...",
    "  # A column whose mean or sum is wanted, and by which nothing is crossed, is not declared here: a",
    "  # measure of a table names it, as in measures: {pay: {mean: income, from: 0, to: 100000}}.",
)


def _first_line(outline: Outline) -> Iterator[str]:
    if outline.delimiter is not None:
        yield "# The names are its first line: if that is a record, delete this spec, which holds its values."


def _period(path: Path) -> Iterator[str]:
    year = _year(path)
    if year:
        yield f'period: "{year}"   # from the name of the file'
    else:
        yield f'period: {FILL_IN}   # in quotes, such as "2026" or "2026-Q1"'


def _source(outline: Outline, source: str) -> Iterator[str]:
    if not outline.readable:
        file = _text(outline.path.name)
        yield f"# Releases are made of CSV and Parquet files: write {file} as one of them."
        source = str(Path(source).with_suffix(".parquet"))
    mark = outline.delimiter
    delimiter = "" if mark in (None, ",") else f", delimiter: {json.dumps(mark)}"
    yield f"source: {{path: {_text(source)}{delimiter}}}"


def _unit(ids: Sequence[str]) -> Iterator[str]:
    column = _name(ids[0]) if ids else "person_id"
    yield "  # The unit is whom the release protects. Where each person has one record at most, it is"
    yield "  #   unit: record"
    yield "  # Where a person may have several, and a column says whose they are, it is"
    yield f"  #   unit: {{entity: person, column: {column}}}"
    yield "  #   max_contributions: 5   # so many records of each person are counted, chosen at random"
    yield f"  unit: {FILL_IN}"


def _left_out(ids: Sequence[str]) -> Iterator[str]:
    if ids:
        yield "  # Left out, because their names look like identifiers; add those that a table needs:"
        yield from (f"  #   {_name(name)}:" for name in ids)


def _columns(columns: Sequence[Column]) -> Iterator[str]:
    for column in columns:
        yield from _date(column.name, columns) if column.kind == "date" else _column(column)


def _date(name: str, columns: Sequence[Column]) -> Iterator[str]:
    yield f"  {_name(_year_of(name, columns))}:   # a part of the date {_name(name)}"
    yield f"    from: {_name(name)}"
    yield "    date: {part: year}   # or quarter, month, iso_week, age"
    yield f"    integer: {{from: {FILL_IN}, to: {FILL_IN}}}"


def _year_of(name: str, columns: Sequence[Column]) -> str:
    """Return an unused column name for the year of a date."""
    taken = {column.name.casefold() for column in columns}
    free = (f"{name}_year{n}" for n in ("", *map(str, range(2, len(taken) + 3))))
    return next(name for name in free if name.casefold() not in taken)


def _column(column: Column) -> Iterator[str]:
    yield f"  {_name(column.name)}:"
    if column.title:
        yield f"    # title: {_text(column.title)}"
    if len(column.labels) > _MOST_LABELS:
        yield f"    # The file has {len(column.labels)} labels for it: use a public list of them."
    elif column.labels:
        pairs = ", ".join(f"{_text(code)}: {_text(label)}" for code, label in column.labels.items())
        yield "    # The file has these labels. They may be of just the values that occur, which tells who is"
        yield "    # in the data: take them only if a public list has the same."
        yield f"    # categories: {{{pairs}}}"
    if column.kind == "switch":
        yield '    categories: {"true": "yes", "false": "no"}'
    elif column.kind == "whole":
        yield f"    integer: {{from: {FILL_IN}, to: {FILL_IN}}}"
    elif column.kind == "decimal":
        yield f"    integer: {{from: {FILL_IN}, to: {FILL_IN}, edges: [{FILL_IN}]}}"
    else:
        yield f"    categories: {FILL_IN}"


def _table(columns: Sequence[Column]) -> Iterator[str]:
    by_use = sorted(columns, key=lambda column: (_is_own(column.name), column.kind in ("date", "decimal")))
    crossed = by_use[:2]
    names = (_year_of(column.name, columns) if column.kind == "date" else column.name for column in crossed)
    yield "  - name: first   # call it by what it shows, and cross the columns that people ask for"
    yield f"    dimensions: [{', '.join(map(_name, names))}]"


def _is_own(name: str) -> bool:
    """Whether a published table has, or may have, a column of this name besides its dimensions."""
    return name.casefold() in RESERVED_COLUMNS or name.casefold().endswith("_label")


def _name(name: str) -> str:
    """Return a name as YAML, in quotes unless it is read as text everywhere."""
    plain = _PLAIN.fullmatch(name) is not None and name.lower() not in _WORDS
    return name if plain else _text(name)


def _text(text: str) -> str:
    """Return a text in quotes as YAML, on one line."""
    dumped = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in dumped)
