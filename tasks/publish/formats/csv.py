"""CSV: ``<table>.csv``, and its columns described in CSVW, ``<table>.csv-metadata.json``.

Source: W3C Recommendations "Metadata Vocabulary for Tabular Data" and "Model for Tabular Data and Metadata
on the Web", 17 December 2015. Codes of a published code list refer to it by a foreign key; short lists of
codes are written out.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.csv

from tabularium.tasks.public_folder import document, named, open_csv
from tabularium.tasks.publish.data_dictionary import (
    DataDictionaryEntry,
    column_meanings,
    title_of,
    title_of_release,
)
from tabularium.tasks.publish.formats.base import TableFormat, Tables
from tabularium.tasks.publish.frames import RowWriter, Shape, rows_into_csv
from tabularium.tasks.publish.published_tables import PublishedTable
from tabularium.validations.domains.code_lists import LANGUAGE, published_name
from tabularium.validations.domains.domains import Domain, HierarchyDomain
from tabularium.validations.public_files import Unreadable
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.model import ReleaseSpec
from tabularium.validations.release_spec.problems import quoted
from tabularium.validations.release_spec.publication_formats import FileKind

_SHORTEST_ROW = 4  # bytes: two numbers
_FEW_BYTES, _BYTES_OF_A_ROW = 1 << 26, 128
_BLOCK = 1 << 24  # bytes that are read at once
_FORMULA_STARTS = ("=", "+", "-", "@")
MOST_CODES = 1_000  # written out; longer lists can be read from the file itself
_DIALECT = {
    "encoding": "utf-8",
    "delimiter": ",",
    "quoteChar": '"',
    "doubleQuote": True,
    "header": True,
    "lineTerminators": ["\n"],
}
_LIST = ("code", "label", "parent")


class Csv(TableFormat):
    """Rows of text between quotes and bare numbers, with their metadata."""

    name = "csv"
    summary = "`<table>.csv`, and `<table>.csv-metadata.json`, which says what every column means"
    kinds = (
        FileKind(".csv", "CSV", "CSV", "text/csv", "CSV"),
        FileKind(".csv-metadata.json", "CSVW metadata: titles, units and code lists of the CSV"),
    )
    complete = True
    same = "CSV holds the same as the first format"
    described = "CSVW metadata name the columns of the CSV files"

    def advice(self, spec: ReleaseSpec, domains: Mapping[str, Domain]) -> Iterator[str]:
        """Yield each published column with texts that a spreadsheet takes for formulas when it opens it."""
        for name in sorted({name for table in spec.tables for name in table.dimensions}):
            domain = domains[name]
            if isinstance(domain, HierarchyDomain):
                texts = chain(domain.node_codes, domain.node_labels)
            else:
                texts = chain(domain.codes, domain.labels)
            first = next(
                (text for text in texts if text.startswith(_FORMULA_STARTS) and not _is_number(text)), None
            )
            if first is not None:
                yield (
                    f"column {name} has codes or labels such as {quoted(first)}, which a spreadsheet that "
                    "opens the CSV file takes for a formula; begin them otherwise, or publish xlsx, where "
                    "they are text"
                )

    def writer(self, loaded: Loaded, name: str, table: PublishedTable, folder: Path) -> RowWriter:
        """Open ``<table>.csv``."""
        return rows_into_csv(table.frame.schema, folder / f"{name}.csv")

    def finish(self, loaded: Loaded, tables: Tables, folder: Path) -> None:
        """Write ``<table>.csv-metadata.json``."""
        for name, table in tables.items():
            text = metadata_text(loaded, name, table)
            (folder / f"{name}.csv-metadata.json").write_text(text, encoding="utf-8")

    def read(
        self,
        loaded: Loaded,
        folder: Path,
        shape: Shape,
        rows: Mapping[str, int],
        columns: Collection[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows; numbers that should be whole are read as whole ones."""
        file = f"{shape.name}.csv"
        number = pa.int64() if shape.whole else pa.float64()
        types = {**dict.fromkeys(shape.texts, pa.string()), **dict.fromkeys(shape.numbers, number)}
        types |= dict.fromkeys(shape.measures, pa.float64())
        lines = any("\n" in label or "\r" in label for domain in shape.domains for label in domain.labels)
        with named(file):
            text = open_csv(folder / file, largest=shape.largest_text)
        try:
            with (
                text,
                pa.csv.open_csv(
                    text,
                    read_options=pa.csv.ReadOptions(block_size=_BLOCK),
                    parse_options=pa.csv.ParseOptions(newlines_in_values=lines),
                    convert_options=pa.csv.ConvertOptions(
                        column_types=types, null_values=[""], include_columns=columns and list(columns)
                    ),
                ) as reader,
            ):
                yield from reader
        except pa.ArrowException:
            raise Unreadable(f"{file} is not CSV with the columns of its table") from None

    def read_codes(self, path: Path, codes: Collection[str], number: str, most: int) -> pa.Table:
        """Read the complete file, texts as dictionaries: repeated texts might not fit the memory."""
        text = dict.fromkeys(codes, pa.dictionary(pa.int32(), pa.string()))
        options = pa.csv.ConvertOptions(
            include_columns=[*codes, number],
            column_types={**text, number: pa.float64()},
            strings_can_be_null=False,
        )
        with open_csv(path, largest=_FEW_BYTES + most * _BYTES_OF_A_ROW) as file:
            return pa.csv.read_csv(file, convert_options=options)

    def most_rows(self, folder: Path, name: str) -> int | None:
        """Return how many rows a table may have by the size of its file."""
        path = folder / f"{name}.csv"
        return path.lstat().st_size // _SHORTEST_ROW if os.path.lexists(path) else None

    def check_files(
        self, loaded: Loaded, folder: Path, shapes: Sequence[Shape], files: Collection[str]
    ) -> str:
        """Check that the metadata of each file name that file and its columns."""
        for shape in shapes:
            name, file = shape.name, f"{shape.name}.csv-metadata.json"
            tables = {described["url"]: described for described in document(folder, file)[1]["tables"]}
            columns = tables[f"{name}.csv"]["tableSchema"]["columns"]
            if [column["titles"][0] for column in columns] != shape.columns:
                raise Unreadable(f"{file} does not name the columns of {name}.csv")
            kinds = {unquote(column["name"]): column["datatype"] for column in columns}
            expected = dict.fromkeys(shape.numbers, "integer" if shape.whole else "double")
            expected |= dict.fromkeys(shape.measures, "double")
            if any(kinds[name] != number for name, number in expected.items()):
                raise Unreadable(f"{file} says otherwise of what kind the numbers are")
            for url in tables:
                if url != f"{name}.csv" and url not in files:
                    raise Unreadable(f"{file} speaks of {url!a}, which is no file of the release")
        return f"{len(shapes)} files"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def metadata_text(loaded: Loaded, name: str, table: PublishedTable) -> str:
    """Return the text of ``NAME.csv-metadata.json``."""
    columns = column_meanings(loaded, table)
    lists = {
        column.name: published_name(file)
        for column in columns
        if column.domain is not None and (file := loaded.spec.columns[column.name].code_list) is not None
    }
    several = {lists[column.name] for column in columns if getattr(column.domain, "languages", ())}
    described = {
        "url": f"{name}.csv",
        "dc:title": title_of(table.entry),
        **_about_release(loaded),
        "dialect": _DIALECT,
        "tableSchema": {
            "columns": [_column(loaded, column) for column in columns],
            "primaryKey": [_name(column.name) for column in columns if column.is_key],
            "foreignKeys": [
                {
                    "columnReference": _name(column),
                    "reference": {"resource": f"codes/{file}", "columnReference": "code"},
                }
                for column, file in lists.items()
            ],
        },
    }
    group = {
        "@context": ["http://www.w3.org/ns/csvw", {"@language": loaded.spec.about.language}],
        "tables": [described, *(_code_list(file, file in several) for file in sorted(set(lists.values())))],
    }
    return json.dumps(group, indent=2, ensure_ascii=False) + "\n"


def _about_release(loaded: Loaded) -> dict[str, Any]:
    about, spec = loaded.spec.about, loaded.spec
    description: dict[str, Any] = {
        "dc:isPartOf": title_of_release(loaded),
        "dc:description": about.description,
        "dc:license": None if about.licence is None else {"@id": about.licence},
        "dc:publisher": None if about.curator is None else about.curator.name,
        "dc:spatial": None if about.region is None else about.region.label or about.region.code,
        "dc:temporal": spec.period,
        "dc:language": about.language,
        "dc:subject": list(about.keywords) or None,
    }
    return {key: value for key, value in description.items() if value is not None}


def _column(loaded: Loaded, column: DataDictionaryEntry) -> dict[str, Any]:
    description: dict[str, Any] = {
        "name": _name(column.name),
        "titles": list(dict.fromkeys((column.name, column.title))),
        "datatype": _datatype(column),
        "required": column.is_key,
    }
    if column.description:
        description["dc:description"] = {"@value": column.description, "@language": "en"}
    if column.unit is not None:
        description["schema:unitText"] = column.unit
    if column.name == "margin" or column.name.endswith("_margin"):
        description["tabularium:confidence"] = str(loaded.spec.publication.confidence)
    return description


def _datatype(column: DataDictionaryEntry) -> str | dict[str, str]:
    """Return the type of a column, with a pattern of all codes where they are few."""
    if pa.types.is_integer(column.kind):
        return "integer"
    if pa.types.is_floating(column.kind):
        return "double"
    codes = column.domain.codes if column.domain is not None else ()
    if isinstance(column.domain, HierarchyDomain) or not 0 < len(codes) <= MOST_CODES:
        return "string"
    return {"base": "string", "format": "|".join(_literally(code) for code in codes)}


def _literally(code: str) -> str:
    """Return the pattern that matches a code and nothing else, in any dialect of regular expressions."""
    return re.sub(r"([\\.^$*+?()\[\]{}|\-])", r"\\\1", code)


def _code_list(file: str, several: bool) -> dict[str, Any]:
    """Describe a code list, whose labels may be in several languages."""
    names = (*_LIST, LANGUAGE) if several else _LIST
    return {
        "url": f"codes/{file}",
        "dialect": _DIALECT,
        "tableSchema": {
            "columns": [{"name": name, "titles": name, "datatype": "string"} for name in names],
            "primaryKey": "code",
        },
    }


def _name(column: str) -> str:
    """Return a column's name with all but letters, digits and inner underscores as percent codes."""
    name = re.sub(r"[.~-]", lambda match: f"%{ord(match[0]):02X}", quote(column, safe=""))
    return f"%5F{name[1:]}" if name.startswith("_") else name
