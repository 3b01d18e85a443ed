"""The text of a first spec: what is known of each column, and what a person has to fill in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from tabularium.tasks.begin.outline import Column, Outline
from tabularium.validations.spec.filled_in import FILL_IN

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}
_ID = re.compile(r"(?i)(.*[_ .-])?(id|uuid|key|nr|number|ssn|pnr)|.*[a-z]ID")


def product_of(path: Path) -> str:
    """Return a name of a product for a file."""
    stem = path.name.partition(".")[0].lower()
    return re.sub(r"[^a-z0-9]+", "-", stem).strip("-")[:63] or "product"


def first_spec(outline: Outline, source: str) -> str:
    """Return the text of a spec for a file.

    Parameters
    ----------
    source
        The path of the file, as the spec names it.
    """
    product = product_of(outline.path)
    ids = [each.name for each in outline.columns if _ID.fullmatch(each.name)]
    columns = [each for each in outline.columns if each.name not in ids]
    return "\n".join(
        [
            f"# Begun from names and types of the columns of {outline.path.name}: no value of it was read.",
            f"# Where {FILL_IN} stands something is to be decided, from what is publicly known and not from",
            "# the data. `tabularium check` says what is left.",
            f"product: {product}",
            f"dataset: {product}   # the account of the ledger that pays",
            f'period: {FILL_IN}   # in quotes, such as "2026" or "2026-Q1"',
            "# size: 100000   # about how many records there are, if that is public: `check` then says more",
            *_source(outline, source),
            "privacy:",
            *_unit(ids),
            f'  budget: {FILL_IN}   # ε of the whole release, in quotes, such as "1"',
            *_HOW,
            "columns:",
            *(line for each in columns for line in _column(each)),
            "tables:",
            *_table(columns),
            "# targets:   # margins that you need: `tabularium plan` finds the budget",
            "#   - {table: first, margin: 50}",
            "rules:",
            "  - {rule: row_count, min: 1}",
            "",
        ]
    )


_HOW = (
    "# Delete the columns that no table needs; give each of the others one of",
    '#   categories: {"1": male, "2": female}      all its codes, also those that nobody has',
    "#   categories: sexes.csv                     the same in a code list (columns code, label), or in",
    "#                                             one of an SDMX file: lists.xml#CL_SEX",
    "#   integer: {from: 0, to: 99, width: 5}      numbers, in classes; decimals as well",
    "#   hierarchy: areas.csv                      a code list with a column parent: nation, region, ...",
    "# A column whose mean or sum is wanted, and by which nothing is crossed, is not declared here: a",
    "# measure of a table names it, as in measures: {pay: {mean: income, from: 0, to: 100000}}.",
)


def _source(outline: Outline, source: str) -> Iterator[str]:
    if not outline.readable:
        yield f"# Releases are made of CSV and Parquet files: write {outline.path.name} as one of them."
        source = str(Path(source).with_suffix(".parquet"))
    delimiter = "" if outline.delimiter == "," else f", delimiter: {json.dumps(outline.delimiter)}"
    yield f"source: {{path: {json.dumps(source, ensure_ascii=False)}{delimiter}}}"


def _unit(ids: list[str]) -> Iterator[str]:
    column = ids[0] if ids else "person_id"
    yield "  unit: record   # whom the release protects, who has one record; where somebody may have several:"
    yield f"  # unit: {{entity: person, column: {_name(column)}}}"
    yield "  # max_contributions: 5   # so many records of one are counted; others are left out at random"


def _column(column: Column) -> Iterator[str]:
    name = _name(column.name)
    if column.kind == "date":
        yield f"  {_name(f'{column.name}_year')}:   # a part of the date {name}"
        yield f"    from: {name}"
        yield "    date: {part: year}   # or quarter, month, iso_week, age"
        yield f"    integer: {{from: {FILL_IN}, to: {FILL_IN}}}"
        return
    yield f"  {name}:"
    if column.title:
        yield f"    # title: {json.dumps(column.title, ensure_ascii=False)}"
    if column.labels:
        pairs = ", ".join(
            f"{json.dumps(code, ensure_ascii=False)}: {json.dumps(label, ensure_ascii=False)}"
            for code, label in column.labels.items()
        )
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


def _table(columns: list[Column]) -> Iterator[str]:
    crossed = [each for each in columns if each.kind in ("text", "switch", "unknown", "whole")][:2]
    names = ", ".join(_name(each.name) for each in crossed) or FILL_IN
    yield "  - name: first   # call it by what it shows, and cross the columns that people ask for"
    yield f"    dimensions: [{names}]"


def _name(name: str) -> str:
    """Return a name as YAML has it, in quotes unless it is read as text everywhere."""
    plain = _PLAIN.fullmatch(name) is not None and name.lower() not in _WORDS
    return name if plain else json.dumps(name, ensure_ascii=False)
