"""Every format in which tables are published; the same bytes for the same spec and measurements.

A format is one function, which is given all tables at once and finds what the formats before it wrote. No
clock and no random name may go into a file: a folder that is lost is written again byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from tasks.publish.formats.csv_rows import write_rows
from tasks.publish.formats.csvw_metadata import metadata_text
from tasks.publish.formats.dcat_catalogue import write_catalogue
from tasks.publish.formats.parquet_files import write_parquet
from tasks.publish.formats.sdmx_files import write_sdmx
from tasks.publish.formats.workbook import write_workbook
from tasks.publish.published_tables import PublishedTable
from tasks.publish.side_by_side import side_by_side
from validations.spec.load import Loaded

Tables = Mapping[str, PublishedTable]
Writer = Callable[[Loaded, Tables, Path], None]


def write_csv(loaded: Loaded, tables: Tables, aside: Path) -> None:
    """Write ``<table>.csv``, and ``<table>.csv-metadata.json``, which says what it holds."""
    for name, table in tables.items():
        write_rows(table.frame, aside / f"{name}.csv")
        (aside / f"{name}.csv-metadata.json").write_text(metadata_text(loaded, name, table), encoding="utf-8")


#: By their names in the spec, in the order in which they are written.
FORMATS: dict[str, Writer] = {
    "csv": write_csv,
    "parquet": write_parquet,
    "sdmx": write_sdmx,
    "xlsx": write_workbook,
    "catalogue": write_catalogue,  # last: it has the sizes and digests of the others
}


APART = ("csv", "parquet")
"""Formats that look at the tables alone, so that they are written side by side."""


def write_formats(
    loaded: Loaded, tables: Tables, aside: Path, *, beside: Sequence[Callable[[], None]] = ()
) -> None:
    """Write the tables in every format that the spec names.

    Parameters
    ----------
    loaded
        The spec, with its domains.
    tables
        Name -> table or histogram, in the order of the spec.
    aside
        The folder that becomes the release; ``codes/`` and ``invariants/`` lie in it already.
    beside
        What else is to be written, and looks at no format.
    """
    wanted = {name: write for name, write in FORMATS.items() if name in loaded.spec.publication.formats}
    apart: list[Callable[[], None]] = [
        partial(wanted[name], loaded, tables, aside) for name in APART if name in wanted
    ]
    side_by_side([*apart, *beside])
    for name, write in wanted.items():
        if name not in APART:
            write(loaded, tables, aside)
