"""Records of CSV files, taken into the secure workspace: read once, by one thread, and counted twice.

::

    files ─▶ DuckDB, sequentially ─▶ the needed columns as text, in Parquet ─▶ metrics, counts, …
      └────▶ count of records beside the digest (:mod:`tabularium.tasks.ingest.record_counts`) ═ as many

A number that differs is refused like any other fault of the data, before anything is charged.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from tabularium.mechanisms.errors import Finding, InputRefused
from tabularium.tasks.ingest.csv_text import irregular
from tabularium.tasks.ingest.file_tables import contradicted, contradicts, csv_tables, literal
from tabularium.tasks.ingest.find_files import Found
from tabularium.tasks.ingest.irregular_lines import irregular_lines
from tabularium.tasks.ingest.open_source import BATCH_ROWS, FileHandle, engine, known, miscounted
from tabularium.tasks.ingest.snapshot import write_rows
from tabularium.validations.redaction import redacted
from tabularium.validations.spec.parts.source_part import Files


def copy_csv(
    files: Files,
    found: Found,
    wanted: Mapping[str, str],
    records: Mapping[Path, int],
    target: Path,
    field: str,
) -> tuple[FileHandle, ...]:
    """Write the wanted columns of CSV files beside ``target``, and return what was written.

    Parameters
    ----------
    wanted
        Name inside the engine -> column.
    records
        How many records stand in each file.
    target
        A name inside the secure workspace, to which the compression is added.
    field
        Where the spec speaks of the files.

    Raises
    ------
    InputRefused
        If a file is not regular, contradicts its folder, or gave another number of records; or if the copy
        does not fit on its disk.
    """
    copies = []
    with engine(target.parent) as connection:
        for kind, (paths, table) in csv_tables(connection.con, files, found, wanted).items():
            copy = target.with_name(f"{target.name}.{kind}.parquet")

            def write(table: str = table, copy: Path = copy) -> int:
                rows = connection.con.sql(table).to_arrow_reader(BATCH_ROWS)
                return write_rows(rows, copy, rows.schema)

            def unreadable(
                kind: str = kind, paths: tuple[Path, ...] = paths, table: str = table
            ) -> InputRefused:
                column = contradicted(connection.con, table, wanted)
                if column is not None:
                    return contradicts(column, field)
                return _irregular(files, kind, paths, target.parent, field)

            read = redacted(write, unreadable)
            counted = sum(records[path] for path in paths)
            if read != counted:
                raise miscounted(read, counted, field)
            copies.append(known(copy))
    return tuple(copies)


def _irregular(files: Files, kind: str, paths: tuple[Path, ...], scratch: Path, field: str) -> InputRefused:
    """Return the error for files that the engine could not read to their end: where, and why."""
    found: list[Finding] = []
    for path in paths:
        with suppress(Exception), engine(scratch) as another:  # the engine's own words may quote data
            found += irregular_lines(another.con, path, literal(str(path)), files)
    if not found and kind == "gzip":
        return InputRefused(
            "the gzip file holds bytes after its last member",
            where=paths[0].name if len(paths) == 1 else field,
            hint="unpack it and write it again",
        )
    return irregular(found, field)
