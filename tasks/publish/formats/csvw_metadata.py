"""CSVW: what the columns of a CSV file mean, in ``<file>-metadata.json`` beside it.

Source: W3C Recommendations "Metadata Vocabulary for Tabular Data" and "Model for Tabular Data and Metadata
on the Web", 17 December 2015. Codes of a published code list refer to it by a foreign key; short lists of
codes are written out.
"""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from tabularium.tasks.publish.formats.column_meanings import (
    ColumnMeaning,
    column_meanings,
    title_of,
    title_of_release,
)
from tabularium.tasks.publish.published_tables import PublishedTable
from tabularium.validations.domains.csv_code_lists import LANGUAGE
from tabularium.validations.domains.domains import HierarchyDomain
from tabularium.validations.domains.sdmx_code_lists import published_name
from tabularium.validations.spec.load import Loaded

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
    found: dict[str, Any] = {
        "dc:isPartOf": title_of_release(loaded),
        "dc:description": about.description,
        "dc:license": None if about.licence is None else {"@id": about.licence},
        "dc:publisher": None if about.curator is None else about.curator.name,
        "dc:spatial": None if about.region is None else about.region.label or about.region.code,
        "dc:temporal": spec.period,
        "dc:language": about.language,
        "dc:subject": list(about.keywords) or None,
    }
    return {key: value for key, value in found.items() if value is not None}


def _column(loaded: Loaded, column: ColumnMeaning) -> dict[str, Any]:
    found: dict[str, Any] = {
        "name": _name(column.name),
        "titles": list(dict.fromkeys((column.name, column.title))),
        "datatype": _datatype(column),
        "required": column.is_key,
    }
    if column.description:
        found["dc:description"] = {"@value": column.description, "@language": "en"}
    if column.unit is not None:
        found["schema:unitText"] = column.unit
    if column.name == "margin" or column.name.endswith("_margin"):
        found["tabularium:confidence"] = str(loaded.spec.publication.confidence)
    return found


def _datatype(column: ColumnMeaning) -> str | dict[str, str]:
    """Return the kind of value, of few codes with a pattern of all of them."""
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
    name = re.sub(r"[.~-]", lambda found: f"%{ord(found[0]):02X}", quote(column, safe=""))
    return f"%5F{name[1:]}" if name.startswith("_") else name
