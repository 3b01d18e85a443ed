"""SDMX: the rows of every table and histogram, and one message about their structure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tasks.publish.formats.csv_rows import write_rows
from tasks.publish.formats.sdmx_cubes import cubes
from tasks.publish.formats.sdmx_rows import sdmx_rows
from tasks.publish.published_tables import PublishedTable
from validations.spec.load import Loaded


def write_sdmx(loaded: Loaded, tables: Mapping[str, PublishedTable], aside: Path) -> None:
    """Write ``<table>.sdmx.csv`` and ``structure.sdmx.xml``, or ``.json`` where the spec says so."""
    from tasks.publish.formats.sdmx_structure import structure_message  # pysdmx takes long to import

    found = dict(cubes(loaded, tables))
    for name, cube in found.items():
        write_rows(sdmx_rows(cube), aside / f"{name}.sdmx.csv", quoted=False)
    path = aside / f"structure.sdmx.{loaded.spec.publication.sdmx.structure}"
    path.write_text(structure_message(loaded, list(found.values())), encoding="utf-8")
