"""Records of CSV files, taken into the secure workspace: read once, by one thread, and counted twice.

::

    files ─▶ DuckDB, sequentially ─▶ the needed columns as text, in Parquet ─▶ metrics, counts, …
      └────▶ count of records beside the digest (:mod:`tabularium.tasks.ingest.record_counts`) ═ as many

A number that differs is refused like any other fault of the data, before anything is charged.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, cast

from tabularium.mechanisms.errors import Finding, InputRefused
from tabularium.tasks.ingest.csv_text import (
    MOST_LINES,
    compression,
    irregular,
    lines_at,
    opened_text,
    read_header,
)
from tabularium.tasks.ingest.file_tables import contradicted, contradicts, csv_tables, literal
from tabularium.tasks.ingest.find_files import Found
from tabularium.tasks.ingest.open_source import BATCH_ROWS, FileHandle, engine, known, miscounted
from tabularium.tasks.ingest.record_counts import LONGEST_ROW, OPEN_QUOTE
from tabularium.tasks.ingest.snapshot import write_rows
from tabularium.validations.redaction import redacted
from tabularium.validations.release_spec.source import Files


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


_KINDS = {
    "MISSING COLUMNS": "fewer values than the header",
    "TOO MANY COLUMNS": "more values than the header",
    "UNQUOTED VALUE": OPEN_QUOTE,
    "LINE SIZE OVER MAXIMUM": "a line that is too long",
}


def irregular_lines(connection: Any, path: Path, pattern: str, files: Files) -> list[Finding]:
    """Return where the first irregular lines of a file stand, by the engine's own judgement.

    Parameters
    ----------
    connection
        An engine of DuckDB's, opened for this file.
    path, pattern
        The file, and what the engine calls it; it is read twice more.
    """
    found: list[Any] = []
    with suppress(Exception):  # some irregularities it cannot pass over either
        found = _rejected(connection, path, pattern, files)
    if not found:
        other = "another end than the header"
        return [Finding(file=path.name, line=line, kind=other) for line in _other_ends(path)]
    lines = lines_at(path, [int(position) for position, _ in found])
    return [
        Finding(file=path.name, line=line, kind=_KINDS.get(kind, "not regular"))
        for line, (_, kind) in zip(lines, found, strict=True)
    ]


def _rejected(connection: Any, path: Path, pattern: str, files: Files) -> list[Any]:
    """Return (position in bytes, kind) of the first lines that the engine passes over if it may."""
    columns = {f"field{place}": "VARCHAR" for place in range(len(read_header(path, files)))}
    connection.execute(
        "SELECT count(*) FROM read_csv($path, header = true, delim = $delimiter, quote = $quote, "
        f"escape = $quote, parallel = false, max_line_size = {LONGEST_ROW + 1000}, auto_detect = false, "
        f"hive_partitioning = false, compression = $compression, columns = {columns}, "
        "store_rejects = true, rejects_scan = 'scans', rejects_table = 'rejects')",
        {
            "path": pattern,
            "delimiter": files.delimiter,
            "quote": "" if files.quote == "none" else files.quote,
            "compression": compression(path),
        },
    ).fetchall()
    rejected: list[Any] = connection.execute(
        "SELECT min(line_byte_position), any_value(error_type::VARCHAR) FROM rejects"
        " GROUP BY line ORDER BY 1 LIMIT $most",
        {"most": MOST_LINES},
    ).fetchall()
    return rejected


def _other_ends(path: Path) -> list[int]:
    """Return the number of the first line that ends in another way than the header, if any does."""
    with opened_text(path) as text, io.BufferedReader(cast(io.RawIOBase, text)) as lines:
        header = next(lines).endswith(b"\r\n")
        return list(islice((at for at, line in enumerate(lines, 2) if line.endswith(b"\r\n") != header), 1))
