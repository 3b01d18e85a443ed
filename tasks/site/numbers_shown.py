"""The first numbers of a release, and pictures of its tables, from files that are as its certificate says."""

from __future__ import annotations

from dataclasses import dataclass

from tabularium.mechanisms.errors import PublicationError
from tabularium.tasks.public_folder import sha256_of
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.report.cells_chart import Chart
from tabularium.tasks.report.released_cells import ReleasedCells
from tabularium.tasks.report.what_was_published import TableShown, charts, shown
from tabularium.tasks.site.offered import Offered
from tabularium.validations.public_files import Unreadable

MOST_TABLES = 8
"""Tables of a release whose numbers are on its page."""


@dataclass(frozen=True)
class TableNumbers:
    """A table as its page shows it; ``why_not`` says why it does not."""

    name: str
    shown: TableShown | None = None
    charts: tuple[Chart, ...] = ()
    why_not: str = ""


def numbers_of(release: Offered) -> list[TableNumbers]:
    """Return the first tables of a release; a file that is not what its certificate says is not shown."""
    names = [table.name for table in release.spec.tables[:MOST_TABLES]]
    try:
        released = Released.read(release.folder, release.said, "")
    except PublicationError as error:
        return [TableNumbers(name, why_not=error.what) for name in names]
    return [_table(release, released, name) for name in names]


def _table(release: Offered, released: Released, name: str) -> TableNumbers:
    ending = "parquet" if "parquet" in release.spec.publication.formats else "csv"
    file = f"{name}.{ending}"
    try:
        if sha256_of(release.folder, file, release.largest) != release.said.files.get(file):
            return TableNumbers(name, why_not=f"{file} is altered")
        cells = ReleasedCells(released, name)
        return TableNumbers(name, shown(released, cells), tuple(charts(released, cells)))
    except Unreadable as error:
        return TableNumbers(name, why_not=str(error))
    except PublicationError as error:
        return TableNumbers(name, why_not=error.what)
