"""JSON-stat 2.0: ``<table>.jsonstat.json``, a dataset whose last dimension names its numbers.

Source: "JSON-stat format", version 2.0 (json-stat.org/full). Margins of error are numbers of that dimension
like counts and measures, quality flags are the status of each number, and what both mean stands under
``extension``. Programs read such a file as a whole, so that it has a limit.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import pyarrow as pa

from tabularium.tasks.public_folder import document, named
from tabularium.tasks.publish.data_dictionary import (
    DataDictionaryEntry,
    column_meanings,
    title_of,
    title_of_release,
)
from tabularium.tasks.publish.formats.base import TableFormat
from tabularium.tasks.publish.frames import QUALITY, Shape, WriteRows, crossed
from tabularium.tasks.publish.published_tables import PublishedTable
from tabularium.validations.domains.domains import HierarchyDomain
from tabularium.validations.public_files import Unreadable
from tabularium.validations.release_spec.checks.table_checks import published_sizes
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.partial_spec import PartialSpec
from tabularium.validations.release_spec.publication_formats import FileKind
from tabularium.validations.release_spec.tables import Histogram

MOST_NUMBERS = 1 << 21
_ROWS_AT_ONCE = 50_000


class JsonStat(TableFormat):
    """A dataset for each table and histogram."""

    name = "jsonstat"
    summary = (
        "`<table>.jsonstat.json` (JSON-stat 2.0): margins of error as numbers next to counts, flags as the "
        "status of each number; at most 2 097 152 numbers a table"
    )
    kinds = (FileKind(".jsonstat.json", "JSON-stat 2.0", "JSON-stat 2.0", "application/json", "JSON"),)
    same = "JSON-stat datasets hold the same as the first format"

    def check(self, partial: PartialSpec) -> None:
        """Check that no table has more numbers than programs can read at once."""
        for path, table, rows in published_sizes(partial):
            numbers = rows * (2 + 2 * len(table.measures))
            if numbers > MOST_NUMBERS:
                what = f"has {numbers} numbers, and a JSON-stat file holds {MOST_NUMBERS}"
                partial.add(path, what, "take jsonstat out of publication.formats, or cross fewer columns")

    @contextmanager
    def writer(self, loaded: Loaded, name: str, table: PublishedTable, folder: Path) -> Iterator[WriteRows]:
        """Open ``<table>.jsonstat.json``; the status is written after the numbers."""
        layout = None if isinstance(table.entry, Histogram) else table.layout
        shape = Shape.of(loaded.spec, name, layout)
        metrics = _metrics(shape)
        with (
            (folder / f"{name}.jsonstat.json").open("w", encoding="utf-8", newline="\n") as file,
            TemporaryFile("w+", encoding="ascii", dir=folder) as aside,
        ):
            head = json.dumps(_about(loaded, table, shape), ensure_ascii=False, indent=1)
            file.write(head.removesuffix("\n}") + ',\n "value": [')
            between = ["\n"]

            def write(rows: pa.Table) -> None:
                for start in range(0, rows.num_rows, _ROWS_AT_ONCE):
                    some = rows.slice(start, _ROWS_AT_ONCE)
                    numbers = [some[metric].to_pylist() for metric in metrics]
                    lines = [json.dumps(row)[1:-1] for row in zip(*numbers, strict=True)]
                    file.write(between[0] + ",\n".join(lines))
                    if shape.flagged:
                        flags = [some[_flag_of(shape, metric)].to_pylist() for metric in metrics]
                        lines = [json.dumps(row)[1:-1] for row in zip(*flags, strict=True)]
                        aside.write(between[0] + ",\n".join(lines))
                    between[0] = ",\n"

            yield write
            if shape.flagged:
                file.write('\n ],\n "status": [')
                aside.seek(0)
                shutil.copyfileobj(aside, file)
            file.write("\n ]\n}\n")

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
        """Yield the rows, with the codes that the dataset names."""
        name, metrics = f"{shape.name}.jsonstat.json", _metrics(shape)
        dataset = document(folder, name)[1]
        with named(name):
            try:
                yield from _batches(dataset, shape, metrics)
            except (LookupError, TypeError, ValueError, AttributeError, pa.ArrowException):
                raise Unreadable("is no JSON-stat dataset of its table") from None


def _batches(dataset: dict[str, Any], shape: Shape, metrics: Sequence[str]) -> Iterator[pa.RecordBatch]:
    *variables, last = dataset["id"]
    codes = {name: dataset["dimension"][name]["category"]["index"] for name in variables}
    wanted = list(shape.dimensions) if shape.layout is not None else ["size"]
    if variables[:-1] != wanted or dataset["dimension"][last]["category"]["index"] != list(metrics):
        raise Unreadable("has other dimensions than its table")
    numbers, status = dataset["value"], dataset.get("status", [])
    total = len(numbers) // len(metrics)
    if len(numbers) != math.prod(dataset["size"]) or dataset["size"] != [
        *map(len, codes.values()),
        len(metrics),
    ]:
        raise Unreadable("has other sizes than its dimensions")
    if len(status) != (len(numbers) if shape.flagged else 0):
        raise Unreadable("has not one status for each number")
    for first in range(0, total, _ROWS_AT_ONCE):
        last_row = min(first + _ROWS_AT_ONCE, total)
        columns: dict[str, pa.Array] = {}
        for name, values in crossed(codes, first, last_row).items():
            columns[name] = values if shape.layout is not None else values.cast(pa.string()).cast(pa.int64())
        for index, name in enumerate(metrics):
            here = slice(first * len(metrics) + index, last_row * len(metrics), len(metrics))
            kind = pa.int64() if shape.whole and name not in shape.measures else pa.float64()
            columns[name] = pa.array(numbers[here], kind)
            if shape.flagged:
                flags = pa.array(status[here], pa.string())
                flag = _flag_of(shape, name)
                if columns.setdefault(flag, flags) != flags:
                    raise Unreadable(f"has another status of {name} than of its number")
        yield pa.RecordBatch.from_pydict({name: columns[name] for name in shape.columns})


def _metrics(shape: Shape) -> list[str]:
    """Return the columns of numbers."""
    return ["number"] if shape.layout is None else list(shape.numbers)


def _flag_of(shape: Shape, column: str) -> str:
    """Return the column with the flags of a number, or of the number that it is the margin of."""
    if column not in shape.measures:
        return QUALITY
    return f"{shape.measures[shape.measures.index(column) // 2 * 2]}_{QUALITY}"


def _about(loaded: Loaded, table: PublishedTable, shape: Shape) -> dict[str, Any]:
    """Return a dataset without its numbers and their status."""
    spec, about = loaded.spec, loaded.spec.about
    meanings = {meaning.name: meaning for meaning in column_meanings(loaded, table)}
    metrics, names = _metrics(shape), [*shape.dimensions] or ["size"]
    period, contents = (_free(name, names) for name in ("period", "contents"))
    dimension = {name: _dimension(table, shape, name, meanings[name]) for name in names}
    dimension[period] = {"label": "Period", "category": {"index": [spec.period]}}
    dimension[contents] = {
        "label": "Contents",
        "category": {
            "index": metrics,
            "label": {name: meanings[name].title for name in metrics},
            "unit": {name: _unit(table, shape, meanings[name]) for name in metrics},
            "note": {name: [meanings[name].description] for name in metrics if meanings[name].description},
        },
    }
    description: dict[str, Any] = {
        "version": "2.0",
        "class": "dataset",
        "label": title_of(table.entry),
        "source": None if about.curator is None else about.curator.name,
        "note": [about.description or title_of_release(loaded), *_notes(shape)],
        "id": [*names, period, contents],
        "size": [*(len(dimension[name]["category"]["index"]) for name in names), 1, len(metrics)],
        "role": {"time": [period], "metric": [contents]},
        "dimension": dimension,
        "extension": _extension(loaded, shape, meanings),
    }
    return {key: value for key, value in description.items() if value is not None}


def _free(name: str, taken: Sequence[str]) -> str:
    return name if name not in taken else _free(f"{name}_", taken)


def _notes(shape: Shape) -> list[str]:
    noted = ["Published under differential privacy: every number has noise."]
    if "level" in shape.labels:
        noted.append("Each level of a hierarchy counts all records again: choose one before adding up.")
    return noted


def _dimension(
    table: PublishedTable, shape: Shape, name: str, meaning: DataDictionaryEntry
) -> dict[str, Any]:
    domain = meaning.domain
    if domain is None:
        sizes = [str(size) for size in table.frame.whole()["size"].to_pylist()]
        return {"label": meaning.title, "category": {"index": sizes}}
    codes, labels = domain.codes, domain.labels
    category: dict[str, Any] = {"index": list(shape.dimensions[name])}
    if isinstance(domain, HierarchyDomain):
        codes, labels = domain.node_codes, domain.node_labels
        there, below = set(category["index"]), dict[str, list[str]]()
        for code, parent in zip(codes, domain.parents.tolist(), strict=True):
            if parent >= 0 and code in there and codes[parent] in there:
                below.setdefault(codes[parent], []).append(code)
        category["child"] = below
    texts = dict(zip(codes, labels, strict=True))
    category["label"] = {code: texts[code] for code in category["index"]}
    return {"label": meaning.title, "category": category}


def _unit(table: PublishedTable, shape: Shape, meaning: DataDictionaryEntry) -> dict[str, Any]:
    unit: dict[str, Any] = {} if meaning.unit is None else {"label": meaning.unit}
    if meaning.name in shape.measures:
        index = shape.measures.index(meaning.name) // 2 * 2
        unit["decimals"] = table.layout.table.measures[shape.measures[index]].decimals
    elif shape.whole:
        unit["decimals"] = 0
    return unit


def _extension(loaded: Loaded, shape: Shape, meanings: Mapping[str, DataDictionaryEntry]) -> dict[str, Any]:
    """Return the meaning of margins and flags, and the levels of codes in a hierarchy."""
    margins = {measure: measure.removesuffix("_margin") for measure in shape.measures[1::2]}
    if shape.layout is not None:
        margins = {"margin": "count", **margins}
    extension: dict[str, Any] = {
        "release": title_of_release(loaded),
        "margins": margins,
        "confidence": str(loaded.spec.publication.confidence) if margins else None,
        "status": {name: meanings[name].description for name in shape.flags} or None,
    }
    if "level" in shape.labels and shape.layout is not None and shape.layout.along is not None:
        along = shape.layout.along
        levels = np.array(along.levels)[along.depth[shape.nodes]].tolist()
        extension["levels"] = {along.name: dict(zip(shape.dimensions[along.name], levels, strict=True))}
    return {"tabularium": {key: value for key, value in extension.items() if value}}
