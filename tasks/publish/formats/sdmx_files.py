"""SDMX: the rows of every table and histogram, and one message about their structure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tabularium.tasks.publish.formats.csv_rows import Take, rows_into_csv
from tabularium.tasks.publish.formats.sdmx_cubes import cubes
from tabularium.tasks.publish.formats.sdmx_rows import sdmx_rows
from tabularium.tasks.publish.published_tables import PublishedTable
from tabularium.validations.spec.load import Loaded


@contextmanager
def sdmx_file(loaded: Loaded, name: str, table: PublishedTable, aside: Path) -> Iterator[Take]:
    """Give what writes the rows of ``<table>.sdmx.csv``."""
    turned = sdmx_rows(dict(cubes(loaded, {name: table}))[name])
    schema = turned(table.frame.make(0, 0)).schema
    with rows_into_csv(schema, aside / f"{name}.sdmx.csv", quoted=False) as take:
        yield lambda rows: take(turned(rows))


def write_structure(loaded: Loaded, tables: Mapping[str, PublishedTable], aside: Path) -> None:
    """Write ``structure.sdmx.xml``, or ``.json`` where the spec says so."""
    from tabularium.tasks.publish.formats.sdmx_structure import (
        structure_message,  # pysdmx takes long to import
    )

    path = aside / f"structure.sdmx.{loaded.spec.publication.sdmx.structure}"
    found = [cube for _, cube in cubes(loaded, tables)]
    path.write_text(structure_message(loaded, found), encoding="utf-8")
