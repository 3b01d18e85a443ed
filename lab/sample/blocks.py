"""Blocks of rows as they come from a generator, and files of them: Parquet, CSV, CSV.gz."""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from tabularium.mechanisms.errors import InputError

Numbers = NDArray[np.int64]
Days = NDArray[np.datetime64]  # of days; null is NaT


@dataclass(frozen=True, eq=False)
class Coded:
    """A column of texts: (rows,) positions in a short list of ``texts``; below zero is null."""

    index: Numbers
    texts: tuple[str, ...]

    def __getitem__(self, part: slice) -> Coded:
        return Coded(self.index[part], self.texts)

    def __len__(self) -> int:
        return len(self.index)


@dataclass(frozen=True, eq=False)
class Holed:
    """A column of numbers, whole or not, some of which are null: (rows,) both."""

    values: Numbers | NDArray[np.float64]
    missing: NDArray[np.bool_]

    def __getitem__(self, part: slice) -> Holed:
        return Holed(self.values[part], self.missing[part])

    def __len__(self) -> int:
        return len(self.values)


Block = dict[str, Numbers | Coded | Holed | Days]
Blocks = tuple[Block, ...]
"""Rows of files that belong together. The first column of each further file is a key, ascending and unique,
that the first file has as well."""


def length(block: Block) -> int:
    """Return the number of rows of a block."""
    return len(next(iter(block.values())))


def first_rows(blocks: Iterator[Blocks], rows: int) -> Iterator[Blocks]:
    """Yield blocks until ``rows`` rows of the first file have passed, the last ones cut short.

    Of the other files no row is left whose key the first one does not come to.
    """
    for parts in blocks:
        main, *others = parts
        size = length(main)
        if size >= rows:
            main = _cut(main, rows)
            yield (main, *(_cut(other, _reached(main, other)) for other in others))
            return
        yield parts
        rows -= size


def _cut(block: Block, rows: int) -> Block:
    return {name: column[:rows] for name, column in block.items()}


def _reached(main: Block, other: Block) -> int:
    name, keys = next(iter(other.items()))
    last = main[name]
    assert isinstance(keys, np.ndarray) and isinstance(last, np.ndarray)  # noqa: S101 - keys are numbers
    return int(np.searchsorted(keys, last[-1], side="right"))


ENDINGS = (".parquet", ".csv", ".csv.gz")
ROWS_PER_GROUP = 500_000


def split_ending(out: Path) -> tuple[str, str]:
    """Return (stem, ending) of a file to write.

    Raises
    ------
    InputError
        If the ending is not one of :data:`ENDINGS`, or the name cannot stand in a spec.
    """
    name = out.name
    ending = max((e for e in ENDINGS if name.lower().endswith(e)), key=len, default="")
    stem = name[: len(name) - len(ending)]
    if not ending or not stem:
        raise InputError(
            "cannot tell the format from this ending",
            where=str(out),
            hint=f"end the name in {', '.join(ENDINGS)}",
        )
    if not name.isprintable() or any(mark in name for mark in "*?[]{}"):
        raise InputError(
            "this name would be read as a pattern of names",
            where=str(out),
            hint="use letters, digits, - and _",
        )
    return stem, ending


def write_rows(
    paths: Sequence[Path], ending: str, blocks: Iterable[Blocks], progress: Callable[[int], None]
) -> None:
    """Write ``blocks`` to ``paths`` in the format of ``ending``; the bytes depend on the rows alone.

    ``progress`` is called with the rows of the first file written so far. Of each file at most about
    ``ROWS_PER_GROUP`` rows are in memory, and one block.

    Raises
    ------
    OSError
        If a file cannot be written.
    """
    with ExitStack() as stack:
        files = [_File(_opened(stack, path, ending)) for path in paths]
        done = 0
        for parts in blocks:
            done += length(parts[0])
            flushed = [file.add(block) for file, block in zip(files, parts, strict=True)]
            if flushed[0]:
                progress(done)
        rest = [file.flush() for file in files]
        if rest[0]:
            progress(done)


def _opened(stack: ExitStack, path: Path, ending: str) -> Callable[[list[Any]], None]:
    raw: IO[bytes] = stack.enter_context(path.open("wb"))
    if ending == ".csv.gz":  # no name and no time inside
        raw = cast("IO[bytes]", stack.enter_context(gzip.GzipFile("", "wb", 4, raw, mtime=0)))
    return stack.enter_context(_parquet(raw) if ending == ".parquet" else _csv(raw))


class _File:
    """A file that takes blocks, and is written in groups of rows; both methods say whether one was."""

    def __init__(self, write: Callable[[list[Any]], None]) -> None:
        self.write = write
        self.waiting: list[Any] = []
        self.texts: dict[str, Any] = {}

    def add(self, block: Block) -> bool:
        self.waiting.append(_record_batch(block, self.texts))
        return sum(batch.num_rows for batch in self.waiting) >= ROWS_PER_GROUP and self.flush()

    def flush(self) -> bool:
        if not self.waiting:
            return False
        self.write(self.waiting)
        self.waiting = []
        return True


def write_code_list(path: Path, rows: Iterable[Sequence[str]]) -> None:
    """Write (code, label, parent) rows as a code list."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("code", "label", "parent"))
        writer.writerows(rows)


def _record_batch(block: Block, texts: dict[str, Any]) -> Any:
    """Turn a block into Arrow columns; ``texts`` keeps the lists of texts from one block to the next."""
    import pyarrow as pa

    columns = {}
    for name, column in block.items():
        if isinstance(column, Coded):
            if name not in texts:
                texts[name] = pa.array(column.texts)
            index = pa.array(column.index.astype(np.int32), mask=column.index < 0)
            columns[name] = pa.DictionaryArray.from_arrays(index, texts[name])
        elif isinstance(column, Holed):
            columns[name] = pa.array(_narrow(column.values), mask=column.missing)
        else:
            columns[name] = pa.array(column if name.endswith("_id") else _narrow(column))
    return pa.record_batch(columns)


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers in 32 bits, and others as they are."""
    return values.astype(np.int32) if values.dtype.kind == "i" else values


@contextmanager
def _parquet(raw: IO[bytes]) -> Iterator[Callable[[list[Any]], None]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: Any = None

    def write(batches: list[Any]) -> None:
        nonlocal writer
        table = pa.Table.from_batches(batches)
        if writer is None:
            repeated = [name for name in table.column_names if not name.endswith("_id")]
            # Without Arrow's own schema beside it, every reader sees plain texts.
            writer = pq.ParquetWriter(
                raw, table.schema, compression="zstd", use_dictionary=repeated, store_schema=False
            )
        writer.write_table(table, row_group_size=table.num_rows)

    try:
        yield write
    except BaseException:
        if writer is not None:  # it would try again when collected
            with suppress(OSError, ValueError):
                writer.close()
        raise
    writer.close()


@contextmanager
def _csv(raw: IO[bytes]) -> Iterator[Callable[[list[Any]], None]]:
    import pyarrow as pa
    import pyarrow.csv

    header = True

    def write(batches: list[Any]) -> None:
        nonlocal header
        # No text of a sample holds a comma, a quote or a line break.
        options = pa.csv.WriteOptions(include_header=header, quoting_style="none", quoting_header="none")
        for batch in batches:
            plain = {
                name: column.dictionary.take(column.indices)
                if pa.types.is_dictionary(column.type)
                else column
                for name, column in zip(batch.schema.names, batch.columns, strict=True)
            }
            buffer = pa.BufferOutputStream()
            pa.csv.write_csv(pa.record_batch(plain), buffer, options)
            raw.write(buffer.getvalue())
            header = False
            options.include_header = False

    yield write
