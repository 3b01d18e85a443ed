"""PC-Axis: ``<table>.px``, a cube with its codes and texts, as PxWeb loads it.

Source: "PC-Axis file format specification" of Statistics Sweden, AXIS-VERSION 2013. Every column of numbers
is a value of the contents variable, side by side in a row; quality flags are numbers, which a note explains.
Texts stand between quotes, which nothing inside can escape.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tabularium.tasks.public_folder import named
from tabularium.tasks.publish.data_dictionary import (
    DataDictionaryEntry,
    column_meanings,
    confidence,
    title_of,
    title_with_period,
)
from tabularium.tasks.publish.formats.base import TableFormat
from tabularium.tasks.publish.frames import QUALITY, Shape, WriteRows, crossed
from tabularium.tasks.publish.published_tables import FLAGS, PublishedTable
from tabularium.validations.domains.domains import Domain, HierarchyDomain
from tabularium.validations.public_files import MIB, Unreadable, open_plain
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.partial_spec import PartialSpec
from tabularium.validations.release_spec.problems import quoted
from tabularium.validations.release_spec.publication_formats import FileKind
from tabularium.validations.release_spec.tables import Histogram

CONTENTS, PERIOD, SIZE = "contents", "period", "size"
_LONGEST_CODE, _LONGEST_NAME, _LINE, _MOST_DECIMALS = 255, 20, 200, 15
_ROWS_AT_ONCE = 50_000
_BLANK = '".."'
_NOT_IN_TEXT = re.compile(r'["\x00-\x1f\x7f-\x9f\u2028\u2029]')
_KEYWORD = re.compile(r'([A-Z0-9-]+)(?:\[[^\]]*\])?(?:\(((?:"[^"]*",?)+)\))?=(.*)', re.DOTALL)
#: A period as the spec has it -> the time scale, and how PC-Axis writes it.
_SCALES = (
    (re.compile(r"(\d{4})"), "A1"),
    (re.compile(r"(\d{4})-[HS]([12])"), "H1"),
    (re.compile(r"(\d{4})-Q([1-4])"), "Q1"),
    (re.compile(r"(\d{4})-M?(0[1-9]|1[0-2])"), "M1"),
    (re.compile(r"(\d{4})-W(0[1-9]|[1-4]\d|5[0-3])"), "W1"),
)


class Px(TableFormat):
    """A file for each table and histogram, in UTF-8, which it declares."""

    name = "px"
    summary = (
        "`<table>.px` (PC-Axis, for PxWeb): codes, labels and hierarchies, and each column of numbers as a "
        "value of the variable `contents`; flags are codes, which a note explains"
    )
    kinds = (FileKind(".px", "PC-Axis, for PxWeb", "PC-Axis", "text/plain", "TXT"),)
    same = "PC-Axis files hold the same as the first format"

    def check(self, partial: PartialSpec) -> None:
        """Check that codes can be quoted."""
        for name in {name for _, table in partial.tables for name in table.dimensions}:
            codes = _codes(partial.domains[name]) if name in partial.domains else ()
            wrong = next((code for code in codes if not _is_code(code)), None)
            if wrong is not None:
                what = f"has the code {quoted(wrong)}, which PC-Axis cannot write"
                hint = "leave out quotes, double spaces, and more than 255 characters, or"
                partial.add(("columns", name), what, f"{hint} take px out of publication.formats")

    @contextmanager
    def writer(self, loaded: Loaded, name: str, table: PublishedTable, folder: Path) -> Iterator[WriteRows]:
        """Open ``<table>.px`` below its keywords."""
        layout = None if isinstance(table.entry, Histogram) else table.layout
        shape = Shape.of(loaded.spec, name, layout)
        with (folder / f"{name}.px").open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(f"{line};\n" for line in _keywords(loaded, table, shape))
            file.write("DATA=\n")

            def write(rows: pa.Table) -> None:
                for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
                    some = rows.slice(start, _ROWS_AT_ONCE)
                    columns = [_as_text(some[content]) for content in _contents(shape)]
                    lines = pc.binary_join_element_wise(*columns, " ")
                    file.write("\n".join([*lines.to_pylist(), ""]))

            yield write
            file.write(";\n")

    def shape(self, shape: Shape) -> Shape:
        """Return codes, without levels and labels, which follow from them."""
        return shape.only_codes()

    def read(
        self,
        loaded: Loaded,
        folder: Path,
        shape: Shape,
        rows: Mapping[str, int],
        columns: Collection[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows, with the codes that the keywords name."""
        name = f"{shape.name}.px"
        with named(name):
            file = open_plain(folder / name, shape.largest_text + MIB)
        with file, named(name):
            keywords = _read_keywords(file)
            names = [_text(variable) for variable in _variables(loaded, shape)]
            if keywords.get(("STUB", "")) != names or keywords.get(("HEADING", "")) != [
                PERIOD,
                CONTENTS,
            ]:
                raise Unreadable("has other variables than its table")
            contents = keywords.get(("CODES", CONTENTS)), keywords.get(("CODES", PERIOD))
            if contents != (_contents(shape), [_time(loaded.spec.period)[1]]):
                raise Unreadable("has other contents than its table")
            codes = {
                column: keywords.get(("CODES", variable), [])
                for column, variable in zip(shape.dimensions or ("size",), names, strict=True)
            }
            lines, done = _data_lines(file), 0
            while some := [*islice(lines, _ROWS_AT_ONCE)]:
                yield _batch(shape, codes, some, done)
                done += len(some)


def _codes(domain: Domain) -> Sequence[str]:
    return domain.node_codes if isinstance(domain, HierarchyDomain) else domain.codes


def _is_code(code: str) -> bool:
    return 0 < len(code) <= _LONGEST_CODE and _text(code) == code


def _text(text: str) -> str:
    """Return a text that may be quoted: other quotes for its quotes, blanks for control characters."""
    return " ".join(_NOT_IN_TEXT.sub(lambda match: "'" if match[0] == '"' else " ", text).split())


def _contents(shape: Shape) -> list[str]:
    """Return the columns of a table that are contents: counts first, flags behind their margins."""
    columns = [column for column in shape.columns if column not in shape.labels]
    if QUALITY in columns:
        columns.remove(QUALITY)
        columns.insert(2, QUALITY)
    return columns if shape.layout is not None else ["number"]


def _variables(loaded: Loaded, shape: Shape) -> list[str]:
    """Return the names of the dimensions: their titles where these are unique, else unique names."""
    titles = {name: loaded.spec.columns[name].title or name for name in shape.dimensions}
    taken = [*(_text(title) for title in titles.values()), PERIOD, CONTENTS]
    called: list[str] = []
    for name, title in titles.items():
        others = (name, *(f"{name} ({number})" for number in range(2, len(titles) + 4)))
        free = (other for other in others if _text(other) not in (*taken, *called))
        called.append(title if taken.count(_text(title)) == 1 else next(free))
    return called or [SIZE]


def _keywords(loaded: Loaded, table: PublishedTable, shape: Shape) -> Iterator[str]:
    """Yield all keywords above the data, in the order of the specification."""
    spec, about = loaded.spec, loaded.spec.about
    meanings = {meaning.name: meaning for meaning in column_meanings(loaded, table)}
    contents = _contents(shape)
    decimals = {content: _decimals(table, shape, content) for content in contents}
    product, title = title_with_period(about, spec.product, spec.period), title_of(table.entry)
    yield 'CHARSET="ANSI"'
    yield 'AXIS-VERSION="2013"'
    yield 'CODEPAGE="utf-8"'
    yield f"LANGUAGE={_quoted(about.language.partition('-')[0].lower())}"
    yield f"DECIMALS={_MOST_DECIMALS if any(decimals.values()) else 0}"
    yield f"SHOWDECIMALS={min(decimals.values())}"
    yield f"MATRIX={_quoted(_short(shape.name))}"
    yield "AGGREGALLOWED=NO"
    yield f"SUBJECT-CODE={_quoted(_short(spec.product))}"
    yield f"SUBJECT-AREA={_quoted(about.title or spec.product)}"
    yield f"DESCRIPTION={_quoted(f'{title}. {product}')}"
    yield f"TITLE={_quoted(f'{title}, {spec.period}')}"
    yield "DESCRIPTIONDEFAULT=YES"
    yield f"CONTENTS={_quoted(title)}"
    yield f"UNITS={_quoted(_unit(meanings[contents[0]]))}"
    variables = dict(zip(shape.dimensions or ("size",), map(_text, _variables(loaded, shape)), strict=True))
    yield f"STUB={_list(variables.values())}"
    yield f"HEADING={_list([PERIOD, CONTENTS])}"
    yield f"CONTVARIABLE={_quoted(CONTENTS)}"
    domains = {domain.name: domain for domain in shape.domains}
    values = {column: _values(table, shape, domains.get(column)) for column in variables}
    for column, variable in variables.items():
        yield f"VALUES({_key(variable)})={_list(_distinct(values[column]))}"
    yield f"VALUES({_key(PERIOD)})={_quoted(spec.period)}"
    labels = dict(zip(contents, _distinct([(c, meanings[c].title) for c in contents]), strict=True))
    yield f"VALUES({_key(CONTENTS)})={_list(labels.values())}"
    scale, when = _time(spec.period)
    if scale:
        yield f"TIMEVAL({_key(PERIOD)})=TLIST({scale}),{_quoted(when)}"
    for column, variable in variables.items():
        yield f"CODES({_key(variable)})={_list(code for code, _ in values[column])}"
    yield f"CODES({_key(PERIOD)})={_quoted(when)}"
    yield f"CODES({_key(CONTENTS)})={_list(contents)}"
    for column, domain in domains.items():
        if isinstance(domain, HierarchyDomain):
            yield from _hierarchy(variables[column], domain, [code for code, _ in values[column]])
    for name, label in labels.items():
        if decimals[name] > min(decimals.values()):
            yield f"PRECISION({_key(CONTENTS)},{_key(label)})={decimals[name]}"
        yield f"UNITS({_key(label)})={_quoted(_unit(meanings[name]))}"
    if about.curator is not None:
        yield f"SOURCE={_quoted(about.curator.name)}"
        if about.curator.email is not None:
            yield f"CONTACT={_quoted(f'{about.curator.name}, {about.curator.email}')}"
    yield f"NOTE={_quoted(_note(loaded, shape))}"
    for name, label in labels.items():
        if meanings[name].description:
            text = meanings[name].description
            yield f"VALUENOTE({_key(CONTENTS)},{_key(label)})={_quoted(text)}"


def _note(loaded: Loaded, shape: Shape) -> str:
    """Return the note for readers of the numbers; ``#`` begins a line."""
    noted = ["Published under differential privacy: every number has noise."]
    if shape.layout is not None:
        noted.append(f"Margins of error are at a level of {confidence(loaded)}.")
    noted.append("Two dots stand where a number is suppressed or not known.")
    if shape.flagged:
        flags = ", ".join(f"{index} {flag}" for index, flag in enumerate(FLAGS))
        noted.append(f"Codes of quality: {flags}.")
    if "level" in shape.labels:
        noted.append("Each level of a hierarchy counts all records again: choose one before adding up.")
    return "#".join(noted)


def _values(table: PublishedTable, shape: Shape, domain: Domain | None) -> list[tuple[str, str]]:
    """Return the published codes and labels of a dimension."""
    if domain is None:
        sizes = table.frame.whole()["size"].to_pylist()
        return [(str(size), str(size)) for size in sizes]
    labels = domain.node_labels if isinstance(domain, HierarchyDomain) else domain.labels
    texts = dict(zip(_codes(domain), labels, strict=True))
    return [(code, texts[code]) for code in shape.dimensions[domain.name]]


def _distinct(values: Sequence[tuple[str, str]]) -> list[str]:
    """Return the labels, with their code where several are equal or one is empty."""
    labels = [_text(label) or f"({code})" for code, label in values]
    while len(set(labels)) < len(labels):  # codes differ, so that this ends
        counted = Counter(labels)
        labels = [
            f"{label} ({code})" if counted[label] > 1 else label
            for label, (code, _) in zip(labels, values, strict=True)
        ]
    return labels


def _hierarchy(variable: str, domain: HierarchyDomain, codes: Sequence[str]) -> Iterator[str]:
    """Yield the tree of a dimension, and its root as the value that holds all."""
    parents = {code: int(parent) for code, parent in zip(domain.node_codes, domain.parents, strict=True)}
    there = set(codes)
    roots = [code for code in codes if parents[code] < 0]
    if len(roots) != 1:
        return
    pairs = [
        f"{_key(domain.node_codes[parents[code]])}:{_key(code)}"
        for code in codes
        if parents[code] >= 0 and domain.node_codes[parents[code]] in there
    ]
    depth = len({int(domain.depth[index]) for index, code in enumerate(domain.node_codes) if code in there})
    if len(pairs) + 1 == len(codes):
        yield f"HIERARCHIES({_key(variable)})={_lines([_key(roots[0]), *pairs])}"
        yield f"HIERARCHYLEVELS({_key(variable)})={depth}"
        yield f"HIERARCHYNAMES({_key(variable)})={_list(domain.levels[:depth])}"
    label = dict(zip(domain.node_codes, domain.node_labels, strict=True))
    labels = _distinct([(code, label[code]) for code in codes])
    yield f"ELIMINATION({_key(variable)})={_key(labels[codes.index(roots[0])])}"


def _time(period: str) -> tuple[str, str]:
    """Return the time scale of a period, empty where PC-Axis has none, and its code."""
    for pattern, scale in _SCALES:
        match = pattern.fullmatch(period)
        if match is not None:
            return scale, "".join(match.groups())
    return "", _text(period)


def _decimals(table: PublishedTable, shape: Shape, column: str) -> int:
    if column not in shape.measures:
        return 0 if shape.whole or column not in shape.numbers else 6
    measure = shape.layout.table.measures[column.removesuffix("_margin")] if shape.layout else None
    return min(0 if measure is None else measure.decimals, 6)


def _unit(column: DataDictionaryEntry) -> str:
    return column.unit or ("code" if column.name.endswith(QUALITY) else column.title)


def _short(name: str) -> str:
    """Return a unique name of at most 20 characters."""
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 7]}_{sha256(name.encode()).hexdigest()[:6]}"


def _quoted(text: str) -> str:
    """Return a text between quotes, in pieces where it is long."""
    text = _text(text)
    pieces = [text[start : start + _LINE] for start in range(0, len(text), _LINE)] or [""]
    return "\n".join(f'"{piece}"' for piece in pieces)


def _key(text: str) -> str:
    """Return the subject of a keyword, in quotes and in one piece."""
    return f'"{_text(text)}"'


def _list(texts: Collection[str] | Iterator[str]) -> str:
    return _lines([_key(text) for text in texts])


def _lines(texts: Sequence[str]) -> str:
    """Return texts with commas between them, in lines that are not long."""
    lines, length = [""], 0
    for index, text in enumerate(texts):
        more = text if index == len(texts) - 1 else f"{text},"
        if length and length + len(more) > _LINE:
            lines.append("")
            length = 0
        lines[-1] += more
        length += len(more)
    return "\n".join(lines)


def _as_text(column: pa.ChunkedArray) -> pa.Array:
    """Return numbers as PC-Axis writes them: no exponents, two dots for nulls, flags by their position."""
    column = column.combine_chunks()
    if pa.types.is_dictionary(column.type):
        return column.indices.cast(pa.string())
    if pa.types.is_integer(column.type):
        return pc.fill_null(column.cast(pa.string()), _BLANK)
    return pa.array(
        [
            _BLANK if value is None else np.format_float_positional(value, trim="-")
            for value in column.to_pylist()
        ],
        pa.string(),
    )


def _read_keywords(file: BinaryIO) -> dict[tuple[str, str], list[str]]:
    """Return (keyword, its variable) -> texts, and leave the file at the data."""
    keywords: dict[tuple[str, str], list[str]] = {}
    entry: list[str] = []
    for raw in file:
        line = raw.decode("utf-8", "replace").rstrip("\n")
        if line == "DATA=" and not entry:
            return keywords
        entry.append(line)
        if not line.endswith(";"):
            continue
        match = _KEYWORD.fullmatch("\n".join(entry)[:-1])
        if match is None:
            break
        word, about, value = match.groups()
        keywords[word, (about or "").strip('"')] = re.findall('"([^"]*)"', value)
        entry = []
    raise Unreadable("is not PC-Axis")


def _data_lines(file: BinaryIO) -> Iterator[str]:
    """Yield the lines of numbers up to the end of the data."""
    for raw in file:
        line = raw.decode("ascii", "replace").strip()
        if line == ";":
            if file.read(1):
                raise Unreadable("goes on behind its data")
            return
        yield line
    raise Unreadable("ends within its data")


def _batch(
    shape: Shape, codes: Mapping[str, Sequence[str]], lines: Sequence[str], first: int
) -> pa.RecordBatch:
    """Return lines of numbers as rows."""
    contents = _contents(shape)
    fields = [line.split(" ") for line in lines]
    if any(len(row) != len(contents) for row in fields):
        raise Unreadable("has rows with other than one number for each of its contents")
    texts = dict(zip(contents, zip(*fields, strict=True), strict=True))
    columns: dict[str, pa.Array] = {}
    try:
        for name, listed in crossed(codes, first, first + len(lines)).items():
            columns[name] = listed if shape.layout is not None else listed.cast(pa.string()).cast(pa.int64())
        for name, column in texts.items():
            if name in shape.flags:
                columns[name] = pa.array([FLAGS[int(flag)] for flag in column], pa.string())
                continue
            number = pa.int64() if shape.whole and name not in shape.measures else pa.float64()
            blank = [None if value == _BLANK else value for value in column]
            columns[name] = pa.array(blank, pa.string()).cast(number)
    except (pa.ArrowException, ValueError, IndexError):
        raise Unreadable("has a row that is not numbers") from None
    return pa.RecordBatch.from_pydict({name: columns[name] for name in shape.columns})
