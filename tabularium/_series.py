"""All periods of a product in one table."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from tabularium._release import Release
from tabularium._release import open as open_release
from tabularium._shown import Shown
from tabularium._table import Table, Tables
from tabularium.mechanisms.errors import InputError, PublicationError
from tabularium.validations.redaction import bare_errors, os_errors_as, reason_of

if TYPE_CHECKING:
    from pandas import DataFrame
    from pyarrow import Table as ArrowTable

_COLUMNS = ("period", "confidence", "release")
_CHANGES = ("period", "previous", "table", "count", "change", "margin", "reason")


class Series(Tables):
    """The current releases of a product, the oldest first: its tables with a column ``period``.

    With it stand ``confidence``, which margins of different releases may differ in, and ``release``.

    Attributes
    ----------
    folder
        Where they lie: it holds ``PERIOD/RELEASE``.
    """

    def __init__(self, folder: Path, releases: list[Release]) -> None:
        self.folder, self.product, self.releases = folder, releases[-1].product, releases

    @cached_property
    def _tables(self) -> dict[str, Table]:
        names = dict.fromkeys(name for release in self.releases for name in release)
        return {name: self._table(name) for name in names}

    def _table(self, name: str) -> Table:
        tables = [release[name] for release in self.releases if name in release]
        levels = {table.confidence for table in tables}
        confidence = levels.pop() if len(levels) == 1 else None
        dimensions = ("period", *tables[-1].dimensions)
        return Table(name, self.product, dimensions, confidence, partial(self._read, name))

    def _read(self, name: str) -> ArrowTable:
        import pyarrow as pa

        parts: list[ArrowTable] = []
        for release in self.releases:
            if name not in release:
                continue
            rows = release[name]._arrow.unify_dictionaries()
            about = (release.period, release.confidence, release.id)
            for index, (column, value) in enumerate(zip(_COLUMNS, about, strict=True)):
                if column in rows.column_names:
                    raise InputError(
                        f"has a column {column} of its own", where=f"table {name}", hint="open each release"
                    )
                at = index if column == "period" else rows.num_columns
                rows = rows.add_column(at, column, pa.array([value] * len(rows)))
            if parts and rows.column_names != parts[0].column_names:
                other = sorted(set(rows.column_names) ^ set(parts[0].column_names))
                raise InputError(
                    f"period {release.period} has other columns than those before: {', '.join(other)}",
                    where=f"table {name}",
                    hint="open each release, and join them as they are meant",
                )
            parts.append(rows.replace_schema_metadata(None))
        return pa.concat_tables(parts, promote_options="permissive").unify_dictionaries()

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        table: str | None = None,
        level: str | None = None,
        overwrite: bool = False,
    ) -> None:
        """Write it into a file for other programs.

        Parameters
        ----------
        path
            ``.csv`` or ``.parquet`` for one level of one table; ``.duckdb`` for every table at every level,
            as ``TABLE__LEVEL``.
        table
            May be left away where there is one.
        level
            By default the last one.
        overwrite
            Whether a file that is there may be replaced.

        Raises
        ------
        InputError
            The file is there, is of no kind that is known, or cannot be written; there is no such table or
            level.
        """
        file = Path(path)
        check_target(file, overwrite=overwrite)
        if file.suffix == ".duckdb":
            if table is not None or level is not None:
                raise InputError(
                    "a database gets every table and level",
                    where=str(path),
                    hint="leave table and level away",
                )
            frames = {
                f"{name}__{wanted_level}" if wanted_level else name: table.to_arrow(level=wanted_level)
                for name, table in self.items()
                for wanted_level in table.levels or (None,)
            }
        else:
            name = self._known(table or (next(iter(self)) if len(self) == 1 else ""))
            frames = {name: self[name].to_arrow(level=level)}
        write_series(frames, file)

    def changes(self, table: str | None = None, *, level: str | Sequence[str] | None = None) -> DataFrame:
        """Return what changed from each period to the next one that is here, cell by cell.

        Rules and margins are those of :func:`tabularium.diff`. Of many changes some go beyond their margins
        by mere chance.

        Parameters
        ----------
        table
            Only this one, or a measure of it as ``TABLE.MEASURE``; by default, all tables.
        level
            As :meth:`Table.to_pandas` takes it.

        Returns
        -------
        DataFrame
            ``period`` and the ``previous`` one, ``table``, the codes, ``count`` in the period (of a measure
            its number), ``change`` since the previous one, and the ``margin`` of the change. ``reason`` says
            of a row why it has no margin, or no change: a cell that one of them does not have, or left blank.
            Two periods that cannot be compared give one row with only the reason.

        Raises
        ------
        InputError
            There is no such table or level.
        """
        import pandas as pd

        from tabularium._diff import Changes

        names = list(self)
        if table is not None:
            measured = any(table in release._numbers for release in self.releases)
            names = [table if measured else self._known(table)]
        parts: list[DataFrame] = []
        for before, after in pairwise(self.releases):
            changes = Changes(before, after)
            for name in names:
                rows = changes._by_cell(name, level=level)
                about = {"period": after.period, "previous": before.period, "table": name}
                for index, (column, value) in enumerate(about.items()):
                    rows.insert(index, column, value)
                parts.append(rows)
        codes = dict.fromkeys(column for rows in parts for column in rows if column not in _CHANGES)
        columns = [*_CHANGES[:3], *codes, *_CHANGES[3:]]
        if not parts:
            return pd.DataFrame(columns=columns)
        rows = pd.concat([part.astype(object) for part in parts], ignore_index=True).reindex(columns=columns)
        numbers = dict.fromkeys(["count", "change", "margin"], "float64")
        return rows.astype(numbers)

    def _known(self, name: str) -> str:
        """Return the name of a table, if there is one of this name."""
        if name not in self:
            what = f"there is no table {name}" if name else "name one of its tables"
            raise InputError(what, where=f"product {self.product}", hint=f"known are {', '.join(self)}")
        return name

    def _missing(self, name: str) -> str:
        return f"the tables of {self.product} are {', '.join(self._tables)}"

    def _headline(self) -> str:
        return f"series {self.product}: periods {self.releases[0].period} to {self.releases[-1].period}"

    def _rows(self) -> DataFrame:
        import pandas as pd

        return pd.DataFrame(
            [
                {"period": release.period, "release": release.id, "tables": ", ".join(release)}
                for release in self.releases
            ]
        )

    __repr__ = Shown.__repr__


@bare_errors
def series(folder: str | os.PathLike[str], *, verify: bool = True) -> Series:
    """Open the current releases of all periods in the folder of a product; withdrawn ones are left out.

    Parameters
    ----------
    verify
        Compare every file with its digest in the certificate first.

    Raises
    ------
    InputError
        No release lies there.
    PublicationError
        One that lies there cannot be read: a series with a gap that nobody asked for is refused.
    """
    from tabularium.tasks.site.offered import NotShown, product_in

    target = Path(os.path.abspath(folder))  # noqa: PTH100 - links stay
    not_shown: list[NotShown] = []
    with os_errors_as(InputError, "cannot be read ({reason})", where=target, hint="name a folder"):
        product = product_in(target, not_shown)
    if not_shown:
        first = not_shown[0]
        raise PublicationError(first.why, where=first.where, hint="restore it, or take its folder away")
    current = [] if product is None else [period.current for period in reversed(product.periods)]
    releases = [open_release(version.folder, verify=verify) for version in current if version is not None]
    for release in releases:
        release._published(str(release.folder))
    if not releases:
        raise InputError(
            "no current release lies in this folder",
            where=str(folder),
            hint="name the folder of a product, which holds PERIOD/RELEASE",
        )
    return Series(target, releases)


# Tables of several releases as a file for other programs: CSV, Parquet, or a DuckDB database.


KINDS = (".csv", ".parquet", ".duckdb")


def check_target(path: Path, *, overwrite: bool) -> None:
    """See, before anything is read, that a file can be written here.

    Raises
    ------
    InputError
        It is of no kind that is known, is there already, or its folder is not there.
    """
    if path.suffix not in KINDS:
        raise InputError(
            "is of no kind that is written", where=str(path), hint=f"let it end in {', '.join(KINDS)}"
        )
    if os.path.lexists(path) and not overwrite:
        raise InputError("is there already", where=str(path), hint="name another, or allow overwriting")
    if not path.parent.is_dir():
        raise InputError("its folder is not there", where=str(path), hint="make the folder first")


def write_series(tables: Mapping[str, pa.Table], path: Path) -> None:
    """Write tables into a file, which is there whole or not at all.

    Parameters
    ----------
    tables
        By name; only one for ``.csv`` and ``.parquet``.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    aside = path.with_name(f".{path.name}.part")
    try:
        aside.unlink(missing_ok=True)
        if path.suffix == ".duckdb":
            with duckdb.connect(str(aside)) as database:
                for name, table in tables.items():
                    database.register("rows", _plain(table))
                    database.execute(f'CREATE TABLE "{name.replace(chr(34), chr(34) * 2)}" AS FROM rows')
                    database.unregister("rows")
        else:
            (table,) = tables.values()
            if path.suffix == ".csv":
                pa.csv.write_csv(_plain(table), aside)
            else:
                pa.parquet.write_table(table, aside)
        aside.replace(path)
    except OSError as error:
        reason = reason_of(error)
    except duckdb.Error as error:
        reason = type(error).__name__
    else:
        return
    with contextlib.suppress(OSError):
        aside.unlink()
    raise InputError(f"cannot be written ({reason})", where=str(path), hint="see its rights and its disk")


def _plain(table: pa.Table) -> pa.Table:
    """Return a table with its texts written out: not all programs know dictionaries."""
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))
