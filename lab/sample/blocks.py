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
from numpy.typing import ArrayLike, NDArray

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
    """A column of numbers, whole or not, and which are null: (rows,) both."""

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

    In the other files, rows whose key the first one never reaches are left out.
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
    """Write ``blocks`` to ``paths`` in the format of ``ending``; the bytes depend only on the rows.

    ``progress`` is called with the rows of the first file written so far. At most about
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
            # Without Arrow's own schema, every reader sees plain texts.
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


# Drawing from many small distributions at once.
#
# A distribution over few values becomes one row of a table of its quantiles; a draw is then sixteen random
# bits and one look-up, whatever the distribution. Probabilities are kept to within one part in the length
# of the row, which is far finer than anything the samples claim.


Bytes = NDArray[np.uint8]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Choice:
    """Rows of distributions over the values 0..n-1.

    Parameters
    ----------
    weights
        (rows, n) or (n,) non-negative weights, n at most 256; each row is scaled to one.
    bits
        A row keeps 2^bits quantiles, at most 16.

    Examples
    --------
    >>> Choice([[0, 1], [1, 0]]).values.max(axis=1).tolist()
    [1, 0]
    """

    def __init__(self, weights: ArrayLike, *, bits: int = 16) -> None:
        table = np.atleast_2d(np.asarray(weights, np.float64))
        cumulated = np.cumsum(table, axis=1)
        cumulated /= cumulated[:, -1:]
        grid = (np.arange(1 << bits) + 0.5) / (1 << bits)
        self.bits = bits
        self.values = np.stack([np.searchsorted(row, grid) for row in cumulated]).astype(np.uint8)

    def draw(self, rng: np.random.Generator, row: NDArray[np.integer]) -> Bytes:
        """Draw one value for each entry of ``row`` (any shape), from the distribution it names."""
        index = rng.integers(0, 1 << self.bits, size=row.shape, dtype=np.uint16).astype(np.int64)
        index += row.astype(np.int64) << self.bits
        drawn: Bytes = self.values.ravel()[index]
        return drawn


def between(ages: Floats, start: float, end: float, *, rise: float = 2.0, fall: float = 4.0) -> Floats:
    """Return a smooth window over ``ages``: near one between ``start`` and ``end``, near zero outside."""
    up = 1 / (1 + np.exp(-(ages - start) / rise))
    down = 1 / (1 + np.exp((ages - end) / fall))
    window: Floats = up * down
    return window


# A nation of regions, districts and meshblocks whose sizes are as uneven as real ones.
#
# Codes are ``NAT``, ``R01``, ``D001``, ``M0000001``; a letter first, so that no reader takes them for
# numbers. All names are invented.


MOST_MESHBLOCKS = 1_000_000
MOST_DISTRICTS = 999
DEFAULT_MESHBLOCKS = (40, 100_000)  # at least, at most; in between one for every hundred rows
LEVELS = ("nation", "region", "district", "meshblock")
NATION = "NAT"
CHARACTERS = ("city", "suburb", "town", "country")

REGIONS = (
    "Norrund", "Aster Coast", "Velmark", "High Tarn", "Ostrava Bay", "Kelland", "Lower Irith", "Southmere",
    "Brennhold", "Cape Luring", "Upper Irith", "Gray Marches", "Tessaly", "Westering", "Morrow Isles",
    "Dunvale",
)  # fmt: skip
FIRST = (
    "Alder", "Birk", "Corr", "Dray", "Elm", "Farn", "Gold", "Hald", "Inver", "Jarr", "Kest", "Lang", "Marl",
    "Nether", "Oak", "Pell", "Quarr", "Rook", "Silver", "Thorn", "Ulver", "Vane", "Wick", "Yarr", "Zell",
    "Amber", "Bracken", "Cold", "Dun", "East", "Fox", "Glen", "Hazel", "Iron", "Kirk", "Loch", "Mill",
    "North", "Osier", "Pine",
)  # fmt: skip
LAST = (
    "ford", "wick", "ham", "stead", "mere", "field", "gate", "haven", "moor", "ridge", "brook", "worth",
    "combe", "ley", "by", "den", "port", "wood", "cross", "well", "bank", "holm", "side", "fell", "stow",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Geography:
    """Every area of the nation, level by level; the places of a lower level follow the order of the upper.

    ``region_of`` (districts,) and ``district_of`` (meshblocks,) are positions one level up. Of each
    meshblock: its ``share`` of the households, zero for some; its ``character``, into :data:`CHARACTERS`; and
    what its ``prosperity`` adds to the logarithm of an income. The names of districts are all different.
    """

    regions: int
    region_of: Ints
    district_of: Ints
    share: Floats
    character: Ints
    prosperity: Floats
    district_names: tuple[str, ...]

    @property
    def districts(self) -> int:
        """Number of districts."""
        return len(self.region_of)

    @property
    def meshblocks(self) -> int:
        """Number of meshblocks."""
        return len(self.district_of)

    def codes(self, level: str) -> list[str]:
        """Return the codes of one level, in order."""
        if level == "nation":
            return [NATION]
        letter, digits, number = {
            "region": ("R", 2, self.regions),
            "district": ("D", 3, self.districts),
            "meshblock": ("M", 7, self.meshblocks),
        }[level]
        return [f"{letter}{i:0{digits}d}" for i in range(1, number + 1)]

    def code_list(self, lowest: str) -> list[tuple[str, str, str]]:
        """Return (code, label, parent) of every area down to the level ``lowest``; the root has no parent."""
        regions, districts, blocks = (self.codes(level) for level in LEVELS[1:])
        rows = [(NATION, "Nation", "")]
        rows += [(code, REGIONS[i], NATION) for i, code in enumerate(regions)]
        rows += [
            (code, self.district_names[i], regions[self.region_of[i]]) for i, code in enumerate(districts)
        ]
        if lowest == "meshblock":
            parents = self.district_of.tolist()
            rows += [
                (code, f"{self.district_names[d]} {code[1:]}", districts[d])
                for code, d in zip(blocks, parents, strict=True)
            ]
        return rows


def default_meshblocks(rows: int) -> int:
    """Return how many meshblocks a census of ``rows`` persons gets when nobody says."""
    least, most = DEFAULT_MESHBLOCKS
    return max(least, min(most, rows // 100))


def draw_geography(rng: np.random.Generator, meshblocks: int) -> Geography:
    """Draw a nation with exactly ``meshblocks`` meshblocks, 1 to a million; no district is empty."""
    districts = max(1, min(meshblocks, MOST_DISTRICTS, round(1.5 * meshblocks**0.5)))
    regions = max(1, min(districts, len(REGIONS), round(1.5 * districts**0.5)))
    region_of = _spread(rng, districts, 1 / np.arange(1, regions + 1))  # Zipf: one capital, many provinces
    town = rng.lognormal(0.0, 0.9, districts)
    district_of = _spread(rng, meshblocks, town)

    # The denser the district, the more of it is city.
    rank = np.argsort(np.argsort(town)) / districts
    lean = np.clip(rank[district_of] + rng.normal(0, 0.25, meshblocks), 0, 0.999)
    character = np.digitize(-lean, [-0.75, -0.4, -0.15])

    size = rng.lognormal(0.0, 0.7, meshblocks) * np.array([1.6, 1.2, 0.9, 0.5])[character]
    size[rng.random(meshblocks) < 0.01] *= 12  # towers and camps: the long tail
    size[rng.random(meshblocks) < 0.04] = 0  # harbours, parks and lakes: nobody lives there
    if not size.any():
        size[0] = 1.0
    prosperity = (
        rng.normal(0, 0.12, regions)[region_of][district_of]
        + rng.normal(0, 0.10, districts)[district_of]
        + rng.normal(0, 0.20, meshblocks)
        + np.array([0.10, 0.08, -0.08, -0.05])[character]
    )
    names = rng.permutation(len(FIRST) * len(LAST))[:districts]
    return Geography(
        regions=regions,
        region_of=region_of,
        district_of=district_of,
        share=size / size.sum(),
        character=character.astype(np.int64),
        prosperity=prosperity,
        district_names=tuple(FIRST[i // len(LAST)] + LAST[i % len(LAST)] for i in names.tolist()),
    )


def _spread(rng: np.random.Generator, children: int, weights: Floats) -> Ints:
    """Give each parent a share of the children by weight, at least one; (children,) ascending positions."""
    parents = len(weights)
    families = 1 + rng.multinomial(children - parents, weights / weights.sum())
    return np.repeat(np.arange(parents), families)
