"""A code list as CSV: code, label and, in a tree, parent; and the language of labels where it differs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from tabularium.validations.domains.code_list_rows import SHOWN, Rows
from tabularium.validations.spec.problems import listed

COLUMNS = ("code", "label", "parent")
LANGUAGE = "label_language"
_BLOCK = 512  # rows that are taken up at a time; few, so that the garbage collector does not meet them


def read_csv(text: str, rows: Rows, limit: int, *, flat: bool = False) -> None:
    """Split a CSV into rows, at most one more than ``limit``; what is no such CSV is a problem.

    A flat list may leave out the column ``parent``, which is then empty.
    """
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        rows.add(line, "", "there is a null character here", "save the code list as CSV UTF-8")
        return
    rows.lines = lambda: _places(text)[0]
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, [])
        places = _header(header, rows, flat)
        if places is not None:
            _body(reader, len(header), places, rows, limit, text)
    except csv.Error:
        rows.add(reader.line_num, "", "this is not CSV", "check the quotes at this line and before it")
        rows.codes.clear()


def _header(header: Sequence[str], rows: Rows, flat: bool) -> dict[str, int] | None:
    names = [name.strip().lower() for name in header]
    needed = COLUMNS[:2] if flat else COLUMNS
    hint = f"begin with the line {','.join(needed)}"
    missing = [name for name in needed if name not in names]
    if len(names) == 1 and any(mark in names[0] for mark in ";\t|"):
        rows.add(1, "", "the values are not separated by commas", "save the code list with commas")
    elif missing and names[:1] in (["dataflow"], ["structure"]) and "obs_value" in names:
        hint = "ask the agency's registry for the structure message with the code list"
        rows.add(1, "", "this is SDMX-CSV data, which holds no code list", hint)
    elif missing:
        rows.add(1, "", f"the header lacks {listed(missing)}", hint)
    elif any(names.count(name) > 1 for name in COLUMNS):
        rows.add(1, "", "the header names a column twice", hint)
    else:
        return {name: names.index(name) for name in (*COLUMNS, LANGUAGE) if name in names}
    return None


def _body(
    reader: Iterator[list[str]], width: int, places: Mapping[str, int], rows: Rows, limit: int, text: str
) -> None:
    code, label = places["code"], places["label"]
    parent, language = places.get("parent"), places.get(LANGUAGE)
    torn = False  # there are rows with too many or too few values, or blank lines
    while len(rows.codes) <= limit and (block := list(islice(reader, _BLOCK))):
        if set(map(len, block)) != {width}:
            torn = True
            block = [row for row in block if len(row) == width]
        rows.codes += [row[code] for row in block]
        rows.labels += [row[label].strip() for row in block]
        rows.parents += [""] * len(block) if parent is None else [row[parent].strip() for row in block]
        if language is not None:
            rows.languages += [row[language].strip() for row in block]
    if torn:
        hint = "put quotes around values that hold a comma"
        for line in _places(text)[1][:SHOWN]:
            rows.add(line, "", f"the row does not have {width} values", hint)


def _places(text: str) -> tuple[list[int], list[int]]:
    """Return the lines where whole rows end, and those of rows that are not as wide as the header."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    width = len(next(reader))
    whole, torn = [], []
    for row in reader:
        if len(row) == width:
            whole.append(reader.line_num)
        elif row:
            torn.append(reader.line_num)
    return whole, torn
