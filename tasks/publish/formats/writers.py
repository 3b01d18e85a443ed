"""Every format in which tables are published; the same bytes for the same spec and measurements.

Rows are made once, a row group at a time, and every format that has rows takes them before the next are made:
what lies in memory does not grow with a table. Whatever else belongs to a format is written after that, by a
function that is given all tables at once and finds what the formats before it wrote. No clock and no random
name may go into a file: a folder that is lost is written again byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, wait
from contextlib import ExitStack
from pathlib import Path

from tabularium.tasks.publish.formats.csv_rows import Take, Taking, csv_file, write_metadata
from tabularium.tasks.publish.formats.dcat_catalogue import write_catalogue
from tabularium.tasks.publish.formats.parquet_files import parquet_file
from tabularium.tasks.publish.formats.sdmx_files import sdmx_file, write_structure
from tabularium.tasks.publish.formats.workbook import write_workbook
from tabularium.tasks.publish.published_tables import PublishedTable
from tabularium.tasks.publish.side_by_side import threads
from tabularium.validations.spec.load import Loaded

Tables = Mapping[str, PublishedTable]

#: What takes the rows of a table, by the name of the format in the spec.
OF_ROWS: dict[str, Callable[[Loaded, str, PublishedTable, Path], Taking]] = {
    "csv": csv_file,
    "parquet": parquet_file,
    "sdmx": sdmx_file,
}
#: What is written of all tables, in this order.
OF_TABLES: dict[str, Callable[[Loaded, Tables, Path], None]] = {
    "csv": write_metadata,
    "sdmx": write_structure,
    "xlsx": write_workbook,
    "catalogue": write_catalogue,  # last: it has the sizes and digests of the others
}


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
    formats = loaded.spec.publication.formats
    taking = [taken for name, taken in OF_ROWS.items() if name in formats]
    with threads() as pool:
        begun = [pool.submit(each) for each in beside]
        for name, table in tables.items():
            with ExitStack() as files:
                takes = [files.enter_context(each(loaded, name, table, aside)) for each in taking]
                _hand_over(table, takes, pool)
    for each in begun:
        each.result()
    for name, write in OF_TABLES.items():
        if name in formats:
            write(loaded, tables, aside)


def _hand_over(table: PublishedTable, takes: Sequence[Take], pool: Executor) -> None:
    """Give every part of a table to all formats at once; the next part is made while they write."""

    begun: list[Future[None]] = []
    try:
        for part in table.frame.parts() if takes else ():
            for each in begun:
                each.result()
            begun = [pool.submit(take, part) for take in takes]
    finally:
        wait(begun)  # before the files are closed
    for each in begun:
        each.result()
