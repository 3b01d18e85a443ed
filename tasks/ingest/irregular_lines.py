"""Which lines of a CSV file are not regular: asked only once the engine has refused the file."""

from __future__ import annotations

import io
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, cast

from tabularium.mechanisms.errors import Finding
from tabularium.tasks.ingest.csv_text import MOST_LINES, compression, lines_at, opened_text, read_header
from tabularium.tasks.ingest.record_counts import LONGEST_ROW, OPEN_QUOTE
from tabularium.validations.spec.parts.source_part import Files

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
