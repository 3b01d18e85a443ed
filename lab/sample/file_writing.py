"""Files of a sample: written aside in the same folder, then renamed, so that none is ever half there."""

from __future__ import annotations

import csv
import errno
import gzip
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from tabularium.lab.sample.columns import Block, Blocks, Coded, Holed, length
from tabularium.mechanisms.errors import InputError

ENDINGS = (".parquet", ".csv", ".csv.gz")
ROWS_PER_GROUP = 500_000
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


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


@contextmanager
def written_aside(targets: Sequence[Path], *, overwrite: bool) -> Iterator[list[Path]]:
    """Give a temporary neighbour for each target; rename them all at the end, or leave nothing behind.

    Raises
    ------
    InputError
        If a target exists and may not be replaced, or the folder does not take files.
    """
    _refuse_existing(targets, overwrite)
    asides = [target.with_name(f".{target.name}.{os.getpid()}.part") for target in targets]
    try:
        yield asides
        _refuse_existing(targets, overwrite)
        for aside, target in zip(asides, targets, strict=True):
            aside.replace(target)
    except BrokenPipeError:  # not ours: whoever listened to the progress has gone
        raise
    except OSError as error:
        raise _cannot_write(targets[0], error) from None
    finally:
        for aside in asides:
            with suppress(OSError):
                aside.unlink()


def _refuse_existing(targets: Sequence[Path], overwrite: bool) -> None:
    folder = targets[0].parent
    if not folder.is_dir():
        raise InputError("there is no such folder", where=str(folder), hint="make it first, or name another")
    for target in targets:
        if target.is_dir():
            raise InputError("a folder has this name", where=str(target), hint="name another file")
        if not overwrite and os.path.lexists(target):
            raise InputError("this file exists", where=str(target), hint="name another, or say --overwrite")


def _cannot_write(target: Path, error: OSError) -> InputError:
    if error.errno in _FULL:
        return InputError(
            "the disk is full", where=str(target.parent), hint="free some space, or ask for fewer rows"
        )
    return InputError("cannot write here", where=str(target.parent), hint="check the folder's permissions")


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
