"""Counting: from records to dense arrays of true counts, zero cells included.

::

    source ─▶ codes ─▶ kept records ─▶ at most c per unit ─▶ cell number in every table ─▶ arrays ─▶ levels

The engine codes, rejects and bounds; it streams one cell number per table and record, in batches of bounded
size, and these are added into arrays over the whole declared domain. One pass serves all tables. Memory
grows with cells, never with rows.

Bounding keeps at most c records of a privacy unit, chosen by a keyed order that is uniform over its
records. A record's place in the order depends on the key, the unit, its own cells, and how many equal
records of the unit stand before it; hence on nobody else's records, so that adding or removing a unit
changes the counts by that unit's at most c records and by nothing more. The key is drawn for the run and
forgotten.
"""

from __future__ import annotations

import hmac
import math
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Literal

import ibis
import numpy as np
from numpy.typing import NDArray

from mechanisms.errors import InputError, InternalError
from tasks.ingest.open_source import InputHandle, OpenSource, check_unchanged, opened, stream, unreadable
from validations.domains.domains import Domain, HierarchyDomain
from validations.domains.encoding import cell_number, coded, is_missing, kept
from validations.domains.levels import cut, depth_of, leaf_positions, positions
from validations.redaction import redacted
from validations.spec.load import Loaded
from validations.spec.model import Table
from validations.suites.counts_suite import CountedTable, check_counts

__all__ = ["CountFile", "CountsHandle", "SizesFile", "count_tables", "read_counts", "read_sizes"]

Counts = NDArray[np.int64]

_COUNTS = b"tabularium/counts/1\0"
# Cells that one pass holds at once, 8 bytes each: several passes when the tables of a spec have more.
_CELLS_PER_PASS = 100_000_000
_NO_ITEM = "-"
_PART = 1 << 21


@dataclass(frozen=True)
class CountFile:
    """True counts of one table and level, by name.

    Attributes
    ----------
    path
        ``.npy`` file of whole numbers in the secure workspace, mode 0600.
    shape
        Nodes of the level first, then the sizes of the other dimensions; without a hierarchy the sizes of
        all dimensions.
    digest
        HMAC-SHA-256 under the agency's secret, hexadecimal.
    """

    path: str
    shape: tuple[int, ...]
    digest: str


@dataclass(frozen=True)
class SizesFile:
    """True sizes of the items of one histogram, by name.

    ``path`` holds pairs (size, number of items of that size). How many pairs there are depends on the data,
    so that no shape is told here.
    """

    path: str
    digest: str


@dataclass(frozen=True)
class CountsHandle:
    """All true counts of a release, by name.

    Attributes
    ----------
    tables
        Table -> level (``""`` without a hierarchy) -> file.
    histograms
        Histogram -> file.
    """

    tables: dict[str, dict[str, CountFile]]
    histograms: dict[str, SizesFile] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Axis:
    """How a table is counted: its dimensions in the order of the array, and its finest level.

    ``place`` takes a leaf's cell code to its node in the finest level, and is None where they are the same.
    """

    dimensions: tuple[str, ...]
    shape: tuple[int, ...]
    finest: str
    place: Counts | None


def count_tables(loaded: Loaded, handle: InputHandle, scratch: Path, *, secret: bytes) -> CountsHandle:
    """Count every table of the spec at every measured level.

    Parameters
    ----------
    loaded
        The spec.
    handle
        What ingestion named.
    scratch
        Folder inside the secure workspace; the arrays go to ``counts`` below it.
    secret
        The agency's secret, for the digests.

    Raises
    ------
    InputError
        If the source changed since it was ingested, or cannot be read to its end.
    RuleFailed
        If totals differ between tables.
    """
    folder = scratch / "counts"
    failure = InternalError("the counts cannot be written", where="secure workspace", mend="check its rights")
    redacted(lambda: folder.mkdir(mode=0o700, parents=True, exist_ok=True), failure)
    key = secrets.token_hex(16)
    tables: dict[str, dict[str, CountFile]] = {}
    checked: dict[tuple[str, str], CountedTable] = {}
    for group in _passes(loaded):
        for table, counts in zip(group, _count_group(loaded, handle, scratch, group, key), strict=True):
            tables[table.name] = {}
            for level, array in _levels(loaded, table, counts):
                path = folder / f"{table.name}.{level or 'cells'}.npy"
                digest = redacted(partial(_write, path, array, secret), failure)
                tables[table.name][level] = CountFile(str(path), array.shape, digest)
                checked[table.name, level] = CountedTable(
                    int(array.sum()), int(array.min()), array.shape, _declared(loaded, table, level)
                )
    histograms = {}
    for name, sizes in _sizes(loaded, handle, scratch, key):
        path = folder / f"{name}.sizes.npy"
        histograms[name] = SizesFile(str(path), redacted(partial(_write, path, sizes, secret), failure))
    check_unchanged(handle)
    check_counts(checked, scratch / "counts.json")
    return CountsHandle(tables, histograms)


def bounded(table: Any, unit: str, cells: Sequence[str], most: int, key: str) -> Any:
    """Keep at most ``most`` records of each unit, chosen uniformly by a keyed order.

    Parameters
    ----------
    table
        Ibis table of kept records.
    unit
        Name of the column of the privacy unit.
    cells
        Names of the columns of cell numbers, one per table.
    most
        The number of records a unit may contribute.
    key
        Hexadecimal, fresh for every run.
    """
    who = table[unit].cast("string")
    # Equal records of a unit are numbered, so that each of them has its own place in the order; which of
    # them is which does not matter, since they fall into the same cells.
    table = table.mutate(twin=ibis.row_number().over(group_by=[unit, *cells]))
    parts = [part for cell in cells for part in (table[cell].cast("string"), ibis.literal(","))]
    ticket = ibis.literal(key).concat(*parts, table.twin.cast("string"), ibis.literal("|"), who).hash()
    table = table.mutate(ticket=ticket)
    turn = ibis.row_number().over(group_by=table[unit], order_by=[table.ticket, table.twin])
    return table.mutate(turn=turn).filter(ibis._.turn < most).drop("twin", "ticket", "turn")


def _passes(loaded: Loaded) -> Iterator[list[Table]]:
    """Yield the tables in groups that fit into memory together."""
    group: list[Table] = []
    cells = 0
    for table in loaded.spec.tables:
        size = math.prod(_axis(loaded.domains, table).shape)
        if group and cells + size > _CELLS_PER_PASS:
            yield group
            group, cells = [], 0
        group.append(table)
        cells += size
    yield group


def _axis(domains: Mapping[str, Domain], table: Table) -> _Axis:
    others = tuple(name for name in table.dimensions if name != table.along)
    inner = tuple(domains[name].size for name in others)
    if table.along is None:
        return _Axis(others, inner, "", None)
    domain = _hierarchy(domains, table.along)
    finest = max(table.levels, key=lambda level: depth_of(domain, level))
    place = leaf_positions(domain, finest)
    shape = (len(cut(domain, finest)), *inner)
    same = np.array_equal(place, np.arange(shape[0]))
    return _Axis((table.along, *others), shape, finest, None if same else place)


def _hierarchy(domains: Mapping[str, Domain], name: str) -> HierarchyDomain:
    domain = domains[name]
    if not isinstance(domain, HierarchyDomain):
        raise InputError("is not a hierarchy", where=f"columns.{name}", mend="correct `along` in the tables")
    return domain


def _count_group(
    loaded: Loaded, handle: InputHandle, scratch: Path, group: list[Table], key: str
) -> list[Counts]:
    """Return the counts of each table at its finest level, flat, from one pass over the source."""
    axes = {table.name: _axis(loaded.domains, table) for table in group}
    counts = {name: np.zeros(math.prod(axis.shape), np.int64) for name, axis in axes.items()}

    def count(source: OpenSource) -> None:
        cells, names = _cells(loaded, source, key)
        wanted = cells.select(*(names[name] for name in axes))
        for batch in stream(source.engine, wanted):
            for (name, axis), column in zip(axes.items(), batch.columns, strict=True):
                np.add.at(counts[name], _at_finest(column.to_numpy(zero_copy_only=False), axis), 1)

    with opened(loaded, handle, scratch) as source:
        redacted(lambda: count(source), unreadable(handle))
    return list(counts.values())


def _cells(loaded: Loaded, source: OpenSource, key: str) -> tuple[Any, dict[str, str]]:
    """Return the counted records, each as its cell number in every table, and the column of each table.

    All tables of the spec are there in every pass, so that bounding keeps the same records in each.
    """
    domains, privacy = loaded.domains, loaded.spec.privacy
    unit = source.raw[privacy.unit] if privacy.unit is not None else None
    records = coded(source.table, source.raw, domains)
    records = records.filter(kept(records, domains, unit))
    names = {table.name: f"cell{place}" for place, table in enumerate(loaded.spec.tables)}
    cells = {
        names[table.name]: cell_number(records, _axis(domains, table).dimensions, domains)
        for table in loaded.spec.tables
    }
    cells |= _items(loaded, source, records)
    if unit is None:
        return records.select(**cells), names
    records = records.select(records[unit].name("unit"), **cells)
    return bounded(records, "unit", list(cells), privacy.max_contributions, key), names


def _items(loaded: Loaded, source: OpenSource, records: Any) -> dict[str, Any]:
    """Return the item of every record in every histogram, as text that tells null from any value.

    They go into the order by which records of a unit are chosen: those that differ in their item alone are
    not equal.
    """
    items = {}
    for place, histogram in enumerate(loaded.spec.histograms):
        value = records[source.raw[histogram.of]]
        text = value.cast("string")
        # With its length before it: what is strung together in an order must not be read in two ways.
        marked = text.length().cast("string").concat(":", text)
        items[f"item{place}"] = ibis.ifelse(is_missing(value), ibis.literal(_NO_ITEM), marked)
    return items


def _sizes(loaded: Loaded, handle: InputHandle, scratch: Path, key: str) -> Iterator[tuple[str, Counts]]:
    """Yield each histogram's pairs (size, number of items of that size), sizes descending.

    Shape (k, 2); the last pair is (0, 0), so that there always is one. Records without an item are left out.
    """
    for place, histogram in enumerate(loaded.spec.histograms):
        column = f"item{place}"

        def count(column: str = column) -> Counts:
            with opened(loaded, handle, scratch) as source:
                records, _ = _cells(loaded, source, key)
                items = (
                    records.filter(records[column] != _NO_ITEM)
                    .group_by(column)
                    .aggregate(size=ibis._.count())
                )
                pairs = items.group_by("size").aggregate(number=ibis._.count()).select("size", "number")
                found = [
                    np.stack([each.to_numpy() for each in batch.columns], axis=1)
                    for batch in stream(source.engine, pairs)
                ]
            table = np.concatenate([np.zeros((1, 2), np.int64), *found]).astype(np.int64)
            return table[np.argsort(-table[:, 0], kind="stable")]

        yield histogram.name, redacted(count, unreadable(handle))


def _at_finest(numbers: Counts, axis: _Axis) -> Counts:
    """Move cell numbers over the leaves to cell numbers over the finest measured level."""
    if axis.place is None:
        return numbers
    inner = math.prod(axis.shape[1:])
    leaf, rest = np.divmod(numbers, inner)
    moved: Counts = axis.place[leaf] * inner + rest
    return moved


def _levels(loaded: Loaded, table: Table, counts: Counts) -> Iterator[tuple[str, Counts]]:
    """Yield every measured level of a table, the upper ones by summing the finest."""
    axis = _axis(loaded.domains, table)
    finest = counts.reshape(axis.shape)
    if table.along is None:
        yield "", finest
        return
    domain = _hierarchy(loaded.domains, table.along)
    nodes = cut(domain, axis.finest)
    for level in table.levels:
        if level == axis.finest:
            yield level, finest
        else:
            yield level, _summed(finest, positions(domain, nodes, level), len(cut(domain, level)))


def _summed(counts: Counts, place: Counts, nodes: int) -> Counts:
    """Sum the rows of ``counts`` that have the same place."""
    from scipy import sparse

    wide = counts.reshape(len(counts), -1)
    ones = np.ones(len(place), np.int64)
    membership = sparse.csr_array((ones, (place, np.arange(len(place)))), shape=(nodes, len(place)))
    summed: Counts = membership @ wide
    return summed.reshape(nodes, *counts.shape[1:])


def _declared(loaded: Loaded, table: Table, level: str) -> tuple[int, ...]:
    """Return the shape that the spec declares, worked out from the domains alone."""
    sizes = dict(zip(table.dimensions, loaded.leaf_shape(table), strict=True))
    if table.along is None:
        return tuple(sizes.values())
    others = [size for name, size in sizes.items() if name != table.along]
    cells = loaded.level_cells(table)[level]
    return (cells // math.prod(others), *others)


def read_counts(file: CountFile, secret: bytes) -> Counts:
    """Return the counts that ``file`` names, mapped from disk, after seeing that they are those counted.

    Raises
    ------
    InputError
        If the file is missing or its content is not what was counted.
    """
    return _read(file, secret, tuple(file.shape))


def read_sizes(file: SizesFile, secret: bytes) -> Counts:
    """Return the pairs (size, number of items) that ``file`` names, as ``read_counts`` does.

    Raises
    ------
    InputError
        If the file is missing or its content is not what was counted.
    """
    return _read(file, secret, None)


def _read(file: CountFile | SizesFile, secret: bytes, shape: tuple[int, ...] | None) -> Counts:
    """Return what ``file`` names: of a known shape and mapped, or of any shape."""
    path = Path(file.path)
    failure = InputError("the counts are missing or altered", where="secure workspace", mend="run again")
    mode: Literal["r"] | None = None if shape is None else "r"
    counts: Counts = redacted(lambda: np.load(path, mmap_mode=mode, allow_pickle=False), failure)
    if shape in (None, counts.shape) and hmac.compare_digest(_digest(path, counts, secret), file.digest):
        return counts
    raise failure


def _write(path: Path, counts: Counts, secret: bytes) -> str:
    """Write an array for its owner only; return its keyed digest."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        np.save(file, counts, allow_pickle=False)
    return _digest(path, counts, secret)


def _digest(path: Path, counts: Counts, secret: bytes) -> str:
    head = f"{path.stem} {counts.shape}".encode()
    digest = hmac.new(secret, _COUNTS + len(head).to_bytes(8, "big") + head, "sha256")
    flat = np.ascontiguousarray(counts, "<i8").reshape(-1)
    for start in range(0, len(flat), _PART):
        digest.update(flat[start : start + _PART].data)
    return digest.hexdigest()
