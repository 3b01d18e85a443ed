"""The text of a first spec: what is known of each column, and what a person has to fill in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tabularium.mechanisms.errors import InputError
from tabularium.tasks.begin.outline import Column, Outline
from tabularium.validations.spec.checks.table_checks import OWN_COLUMNS
from tabularium.validations.spec.yaml_lines import FILL_IN

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
_ID = re.compile(
    r"(?i:(.*[_ .-])?(id|uuid|key|ssn|pnr)|((id|person|personal|record)[_ .-]?)?(nr|number)"
    r"|(person|household|patient|hh)id)|.*[a-z]I[dD]"
)
_YEAR = re.compile(r"(?<![0-9])(?:19|20)[0-9]{2}(?![0-9])")
_MOST_LABELS = 50


def product_of(path: Path) -> str:
    """Return a name of a product for a file: that of the file, without a year."""
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

    Parameters
    ----------
    source
        The path of the file, as the spec names it.

    Raises
    ------
    InputError
        Every column looks like an identifier.
    """
    file, product = _text(outline.path.name), _name(product_of(outline.path))
    ids = [each.name for each in outline.columns if _ID.fullmatch(each.name)]
    columns = [each for each in outline.columns if each.name not in ids]
    if not columns:
        raise InputError(
            "all columns look like identifiers, of which no table is made",
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
        yield from (f"  #   {_name(each)}:" for each in ids)


def _columns(columns: Sequence[Column]) -> Iterator[str]:
    for column in columns:
        yield from _date(column.name, columns) if column.kind == "date" else _column(column)


def _date(name: str, columns: Sequence[Column]) -> Iterator[str]:
    yield f"  {_name(_year_of(name, columns))}:   # a part of the date {_name(name)}"
    yield f"    from: {_name(name)}"
    yield "    date: {part: year}   # or quarter, month, iso_week, age"
    yield f"    integer: {{from: {FILL_IN}, to: {FILL_IN}}}"


def _year_of(name: str, columns: Sequence[Column]) -> str:
    """Return a name for the year of a date that no column has."""
    taken = {each.name.casefold() for each in columns}
    free = (f"{name}_year{n}" for n in ("", *map(str, range(2, len(taken) + 3))))
    return next(each for each in free if each.casefold() not in taken)


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
    crossed = sorted(columns, key=lambda each: (_is_own(each.name), each.kind in ("date", "decimal")))[:2]
    names = (_year_of(each.name, columns) if each.kind == "date" else each.name for each in crossed)
    yield "  - name: first   # call it by what it shows, and cross the columns that people ask for"
    yield f"    dimensions: [{', '.join(map(_name, names))}]"


def _is_own(name: str) -> bool:
    """Return whether a published table has, or may have, a column of this name beside its dimensions."""
    return name.casefold() in OWN_COLUMNS or name.casefold().endswith("_label")


def _name(name: str) -> str:
    """Return a name as YAML has it, in quotes unless it is read as text everywhere."""
    plain = _PLAIN.fullmatch(name) is not None and name.lower() not in _WORDS
    return name if plain else _text(name)


def _text(text: str) -> str:
    """Return a text in quotes as YAML has it, on one line."""
    dumped = json.dumps(text, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in dumped)
