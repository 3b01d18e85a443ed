"""Release folders that somebody else may have written: their files and tables, read within limits.

Every command that opens such a folder reads it through this module. Errors name the file, as
:class:`~tabularium.validations.public_files.Unreadable`.

A table is opened only once it cannot fill the memory. A Parquet file of a few megabytes can hold a thousand
million rows, pages that unpack to gigabytes, or one long text for every row; a CSV file can hold a line
without an end. The footer of a Parquet file and the headers of its pages are checked before Arrow reads it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from weakref import finalize

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet

from tabularium.tasks.publish.frames import ROWS
from tabularium.validations.certificate import Certificate
from tabularium.validations.public_files import (
    LARGEST_JSON,
    MIB,
    Unreadable,
    json_object,
    odd,
    open_plain,
    read_plain,
    too_large,
)

MOST_FILES = 100_000
LONGEST_ROW = 1 << 14  # bytes that a row of any table takes in any format, labels and markup included
LARGEST_FILE = 1 << 40
_CHUNK = 1 << 20


def entries(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Yield everything in a folder at any depth, by its name from there; links are not followed.

    Raises
    ------
    Unreadable
        There is more than any release holds, or a name or folder that cannot be read.
    """
    waiting, seen = [folder], 0
    while waiting:
        directory = waiting.pop()
        try:
            listed = sorted(os.scandir(directory), key=lambda item: item.name)
        except OSError as error:
            raise Unreadable(f"{directory.name} cannot be read ({error.strerror})", "closed") from None
        for entry in listed:
            seen += 1
            if seen > MOST_FILES:
                raise Unreadable(f"the folder holds more than {MOST_FILES:,} files")
            path = Path(entry.path)
            name = path.relative_to(folder).as_posix()
            if not name.isprintable():  # what is no text is read as surrogates, which are not printable
                raise Unreadable(f"a name cannot be read: {name!a}")
            about = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(about.st_mode):
                waiting.append(path)
            yield name, about


def plain_files(folder: Path) -> set[str]:
    """Return the names of the files in a folder at any depth; all must be plain files.

    Raises
    ------
    Unreadable
        One is not, or as :func:`entries` says.
    """
    files = set()
    for name, about in entries(folder):
        if not stat.S_ISDIR(about.st_mode):
            if why := odd(about):
                raise Unreadable(f"{name} {why}", "odd")
            files.add(name)
    return files


def read(folder: Path, name: str, largest: int = LARGEST_JSON) -> bytes:
    """Return a file of a folder, which must be a plain file of at most ``largest`` bytes."""
    with named(name):
        return read_plain(folder / name, largest)


def document(folder: Path, name: str) -> tuple[bytes, dict[str, Any]]:
    """Return the JSON object in a file of a folder, raw and parsed."""
    raw = read(folder, name)
    with named(name):
        return raw, json_object(raw)


def largest_file(certificate: Certificate) -> int:
    """Return the largest size in bytes of a file of a release, from the rows in its certificate."""
    rows = sum(about.rows for about in certificate.tables.values())
    return min(LARGEST_JSON + rows * LONGEST_ROW, LARGEST_FILE)


def sha256_of(folder: Path, name: str, largest: int, to: Path | None = None) -> str:
    """Return the SHA-256 of a file of at most ``largest`` bytes, and copy it if wanted."""
    check, left = hashlib.sha256(), largest
    with named(name), open_plain(folder / name, largest) as file, Path(to or os.devnull).open("wb") as copy:
        while content := file.read(_CHUNK):
            left -= len(content)
            if left < 0:  # it grew
                raise too_large(largest)
            check.update(content)
            if to is not None:
                copy.write(content)
    return check.hexdigest()


@contextmanager
def named(name: str) -> Iterator[None]:
    """Put the name of a file before the messages about it."""
    try:
        yield
    except Unreadable as error:
        raise Unreadable(f"{name} {error}", error.kind) from None


MOST_CELLS = 1 << 28  # of all tables together, and of any other array
MOST_COLUMNS = 10_000
_NUMBERS = frozenset({"BOOLEAN", "INT32", "INT64", "FLOAT", "DOUBLE"})
_MAGIC = b"PAR1"
_OF_A_GROUP = 1 << 14  # bytes of the footer that a row group takes
_HEADER, _LONG_HEADER = 1 << 10, 1 << 18  # bytes of a page's header, with the texts of its statistics


def open_parquet(
    path: Path, *, rows: int | None, columns: Collection[str] | None = None, most: int = MOST_CELLS
) -> pa.parquet.ParquetFile:
    """Open a Parquet file with flat columns of numbers and texts; texts are read as dictionaries.

    Parameters
    ----------
    rows
        How many it must have; None where nobody knows, and it has at most ``most``.
    columns
        Those that will be read; None for all.

    Raises
    ------
    Unreadable
        It is no such file, or reading it would take more memory than its rows explain.
    """
    file = open_plain(path)
    try:
        _see_footer(file, most if rows is None else rows)
        limits = {"thrift_string_size_limit": MIB, "thrift_container_size_limit": 1 << 16}
        metadata = pa.parquet.ParquetFile(file, **limits).metadata
        if metadata.num_rows != rows if rows is not None else metadata.num_rows > most:
            wanted = f", more than {most:,}" if rows is None else f" and not {rows:,}"
            raise Unreadable(f"has {metadata.num_rows:,} rows{wanted}")
        texts = _see_columns(file, metadata, columns)
        parquet = pa.parquet.ParquetFile(file, metadata=metadata, read_dictionary=texts, **limits)
        finalize(parquet, file.close)
        return parquet
    except (pa.ArrowException, OSError):
        pass
    except BaseException:
        file.close()
        raise
    file.close()
    raise Unreadable("is not Parquet")


def parquet_batches(
    folder: Path, name: str, rows: int | None, columns: Collection[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a Parquet file of a folder; see :func:`open_parquet`."""
    try:
        with named(name), open_parquet(folder / name, rows=rows, columns=columns) as file:
            yield from file.iter_batches(ROWS // 4, columns=columns and list(columns))
    except pa.ArrowException:
        raise Unreadable(f"{name} is not Parquet") from None


def longest_text(column: pa.Array | pa.ChunkedArray) -> int:
    """Return the bytes of the longest text in the rows of a column of dictionaries; 0 for any other column.

    A short file may have one long text in every row: what is compared row by row is looked at first.
    """
    if not pa.types.is_dictionary(column.type) or not _is_text(column.type.value_type):
        return 0
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    lengths = (pc.binary_length(chunk.dictionary).take(chunk.indices) for chunk in chunks)
    return max((pc.max(length).as_py() or 0 for length in lengths), default=0)


def open_csv(path: Path, *, largest: int) -> BinaryIO:
    """Open a CSV file of at most ``largest`` bytes.

    Raises
    ------
    Unreadable
        It is no plain file, larger, or its first line is that of no table.
    """
    file = open_plain(path, largest)
    line = file.readline(MIB)
    if len(line) == MIB or line.count(b",") >= MOST_COLUMNS:
        file.close()
        raise Unreadable("begins with a line that no table begins with")
    file.seek(0)
    return file


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind))


def _see_footer(file: BinaryIO, rows: int) -> None:
    """Check that the footer is no larger than so many rows need: in memory it takes a hundred times that."""
    size = os.fstat(file.fileno()).st_size
    file.seek(max(size - 8, 0))
    end = file.read(8)
    if size < 12 or end[4:] != _MAGIC:
        raise Unreadable("is not Parquet")
    length = int.from_bytes(end[:4], "little")
    if length > min(size - 12, MIB + (rows // ROWS + 1) * _OF_A_GROUP):
        raise Unreadable("has a footer that is longer than its rows explain")
    file.seek(0)


def _see_columns(
    file: BinaryIO, metadata: pa.parquet.FileMetaData, columns: Collection[str] | None
) -> list[str]:
    """Check that columns are flat and their pages no larger than the rows explain; return text columns."""
    texts = []
    groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
    if metadata.num_columns >= MOST_COLUMNS or sum(group.num_rows for group in groups) != metadata.num_rows:
        raise Unreadable("has a footer that contradicts itself")
    for index in range(metadata.num_columns):
        about = metadata.schema.column(index)
        if columns is not None and about.path.split(".")[0] not in columns:
            continue
        kind = about.physical_type
        if about.max_repetition_level or "." in about.path or kind not in {*_NUMBERS, "BYTE_ARRAY"}:
            raise Unreadable(f"has a column that is neither numbers nor texts: {about.path!a:.80}")
        if kind not in _NUMBERS:
            texts.append(about.path)
        for group in groups:
            chunk, number = group.column(index), group.num_rows
            room = MIB + 16 * number if kind in _NUMBERS else 64 * MIB + 1024 * number
            if number < 0 or chunk.num_values != number or _unpacked(file, chunk, number) > room:
                raise Unreadable(f"unpacks to more than its rows explain: {about.path!a:.80}")
    return texts


def _unpacked(file: BinaryIO, chunk: pa.parquet.ColumnChunkMetaData, values: int) -> int:
    """Return the unpacked size of the pages of a column chunk, by the headers of the pages."""
    # Without values there is no page of data, and its place is 0.
    starts = [chunk.data_page_offset, chunk.has_dictionary_page and chunk.dictionary_page_offset]
    position, total, most = min(filter(None, starts), default=4), 0, 64 + values // 64
    end = position + chunk.total_compressed_size
    if not 4 <= position <= end <= os.fstat(file.fileno()).st_size:
        raise Unreadable("has pages outside of the file")
    while position < end and most:
        used, unpacked, packed = _page(file, position)
        if unpacked < 0 or packed < 0:
            raise Unreadable("has damaged pages")
        position, total, most = position + used + packed, total + unpacked, most - 1
    if position != end:
        raise Unreadable("has more or other pages than it says")
    return total


def _page(file: BinaryIO, position: int) -> tuple[int, int, int]:
    """Return the length of a page's header, and the page's unpacked and packed sizes."""
    for most in (_HEADER, _LONG_HEADER):
        file.seek(position)
        try:
            header = _Compact(file.read(most))
            fields = dict(header.fields())
            return header.at, fields[2], fields[3]
        except (IndexError, KeyError, RecursionError):
            continue
    raise Unreadable("has damaged pages")


class _Compact:
    """Thrift's compact protocol, as far as the header of a page needs it."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self.at = raw, 0

    def fields(self) -> Iterator[tuple[int, int]]:
        """Read a struct; yield its integer fields."""
        field = 0
        while (head := self._byte()) != 0:
            field = field + (head >> 4) if head >> 4 else self._signed()
            if head & 15 in (4, 5, 6):
                yield field, self._signed()
            else:
                self._skip(head & 15)

    def _byte(self) -> int:
        self.at += 1
        return self._raw[self.at - 1]

    def _unsigned(self) -> int:
        number = shift = 0
        while (byte := self._byte()) & 128 and shift < 70:
            number, shift = number | (byte & 127) << shift, shift + 7
        return number | byte << shift

    def _signed(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)

    def _skip(self, kind: int, *, inside: bool = False) -> None:
        if kind in (1, 2):  # the truth of a field lies in its kind
            self.at += inside
        elif kind == 3:
            self.at += 1
        elif kind in (4, 5, 6):
            self._unsigned()
        elif kind == 7:
            self.at += 8
        elif kind == 8:
            length = self._unsigned()
            self.at += length
        elif kind in (9, 10):
            head = self._byte()
            for _ in range(self._unsigned() if head >> 4 == 15 else head >> 4):
                self._skip(head & 15, inside=True)
        elif kind == 12:
            for _ in self.fields():
                pass
        else:
            raise IndexError
        if self.at > len(self._raw):
            raise IndexError
