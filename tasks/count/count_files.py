"""True counts in the secure workspace: files of mode 0600, named by their keyed digest.

Of a table that is too large to be held, records come in any order and slabs are counted one after the other.
So the cell number of every record is put aside with those of its slab, as its place in the slab, 4 bytes; a
slab is counted when it is asked for. They are encrypted (AES-256-GCM) under a key that only this process
has and that ends with the run. After a crash nobody can read which cells they name, though their sizes
tell how many records a slab has; levels that are held at once lie next to them as they are. Records are
counted again then. That files are removed in the end is tidiness: nothing is called erased because of it.
"""

from __future__ import annotations

import hmac
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from numpy.typing import NDArray

from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime import workspace as resources
from tabularium.validations.domains.domains import (
    Domain,
    HierarchyDomain,
    cut,
    depth_of,
    leaf_positions,
    positions,
)
from tabularium.validations.redaction import note_data_opened, redacted
from tabularium.validations.release_spec.checks.table_checks import slabs
from tabularium.validations.release_spec.load import Loaded
from tabularium.validations.release_spec.tables import Table

Counts = NDArray[np.int64]

_WAITING = 1 << 24
"""Cell numbers that wait in memory before they are written, 4 bytes each."""
_LENGTH = 8


@dataclass(frozen=True)
class SlabbedCounts:
    """The counts of one table at its finest measured level, by name.

    Attributes
    ----------
    folder
        Of the encrypted files, one for each slab, in the secure workspace.
    shape
        Nodes of the level first, then the sizes of the other dimensions.
    key
        The handle of their key in this process, which also knows how many pieces each file has: that depends
        on the data, and is shown nowhere.
    """

    folder: str
    shape: tuple[int, ...]
    key: str

    def slab(self, number: int) -> Counts:
        """Count one slab: (its nodes, sizes of the other dimensions).

        Raises
        ------
        InputError
            If its file is missing or altered, or another process counted.
        """
        first, last = list(slabs(self.shape))[number]
        shape = (last - first, *self.shape[1:])
        counts = np.zeros(math.prod(shape), np.int64)
        for places in self._pieces(number):
            np.add.at(counts, places, 1)
        return counts.reshape(shape)

    def at(self, positions: NDArray[np.int64], first: int, last: int) -> Counts:
        """Count some nodes of a level: (last - first, sizes of the other dimensions).

        ``positions``: (nodes,) the node of the level that each node of the finest level lies in.
        """
        counts = np.zeros((last - first, *self.shape[1:]), np.int64)
        for number, (low, high) in enumerate(slabs(self.shape)):
            inside = (positions[low:high] >= first) & (positions[low:high] < last)
            if inside.any():
                add_rows(counts, positions[low:high][inside] - first, self.slab(number)[inside])
        return counts

    def see_key(self) -> None:
        """Check that this process has the key.

        Raises
        ------
        InputError
            If another process counted.
        """
        self._held()

    def discard(self) -> None:
        """Remove the files: they have been counted for the last time."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _held(self) -> _Key:
        key: _Key = resources.get(self.key, "the counts are gone, since another process counted", "counts")
        return key

    def _pieces(self, number: int) -> Iterator[NDArray[np.uint32]]:
        held = self._held()
        failure = InputError("the counts are missing or altered", where="secure workspace", hint="run again")
        try:
            with (Path(self.folder) / str(number)).open("rb") as file:
                for piece in range(held.pieces[number]):
                    text = file.read(int.from_bytes(file.read(_LENGTH), "big"))
                    yield np.frombuffer(held.opened(number, piece, text), np.uint32)
                return
        except FileNotFoundError:
            if not held.pieces[number]:
                return
        except (OSError, InvalidTag, ValueError):
            pass
        raise failure


def add_rows(sums: Counts, positions: NDArray[np.int64], counts: Counts) -> None:
    """Add every row of ``counts`` to the row of ``sums`` at its position."""
    if (np.diff(positions) < 0).any():
        order = np.argsort(positions, kind="stable")
        positions, counts = positions[order], counts[order]
    starts = np.flatnonzero(np.diff(positions, prepend=-1))
    sums[positions[starts]] += np.add.reduceat(counts, starts, axis=0)


class _Key:
    """A key that never leaves this process."""

    def __init__(self, slabs: int) -> None:
        self._cipher: AESGCM | None = AESGCM(AESGCM.generate_key(256))
        self.pieces = [0] * slabs

    def close(self) -> None:
        self._cipher = None

    def sealed(self, slab: int, piece: int, content: bytes) -> bytes:
        assert self._cipher is not None  # noqa: S101 - closed at the end of the run
        return self._cipher.encrypt(_nonce(slab, piece), content, None)

    def opened(self, slab: int, piece: int, text: bytes) -> bytes:
        assert self._cipher is not None  # noqa: S101
        return self._cipher.decrypt(_nonce(slab, piece), text, None)


def _nonce(slab: int, piece: int) -> bytes:
    """Return a nonce, unique to every piece of every slab; each key is used for one table."""
    return slab.to_bytes(6, "big") + piece.to_bytes(6, "big")


class Spill:
    """Stores cell numbers by slab, encrypted.

    Parameters
    ----------
    folder
        In the secure workspace; what lies there is removed.
    shape
        Nodes of the finest level first, then the sizes of the other dimensions.
    """

    def __init__(self, folder: Path, shape: tuple[int, ...]) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
        bounds = list(slabs(shape))
        self._folder, self._shape, self._key = folder, shape, _Key(len(bounds))
        self._cells = (bounds[0][1] - bounds[0][0]) * math.prod(shape[1:])
        self._waiting: list[list[NDArray[np.uint32]]] = [[] for _ in bounds]
        self._held = 0

    def add(self, cells: Counts) -> None:
        """Store the cell numbers of records."""
        slab, position = np.divmod(cells, self._cells)
        order = np.argsort(slab.astype(np.uint16), kind="stable")
        ends = np.cumsum(np.bincount(slab, minlength=len(self._waiting)))
        sorted_places = position.astype(np.uint32)[order]
        for number in np.flatnonzero(np.diff(ends, prepend=0)):
            first = ends[number - 1] if number else 0
            self._waiting[number].append(sorted_places[first : ends[number]])
        self._held += len(cells)
        if self._held >= _WAITING:
            self._write()

    def close(self) -> SlabbedCounts:
        """Write the rest; return the handle of all slabs."""
        self._write()
        handle = resources.register(self._folder, self._key)
        return SlabbedCounts(str(self._folder), self._shape, handle)

    def _write(self) -> None:
        for number, waiting in enumerate(self._waiting):
            if waiting:
                text = self._key.sealed(number, self._key.pieces[number], np.concatenate(waiting).tobytes())
                with (self._folder / str(number)).open("ab") as file:
                    file.write(len(text).to_bytes(_LENGTH, "big") + text)
                self._key.pieces[number] += 1
                waiting.clear()
        self._held = 0


_COUNTS = b"tabularium/counts/1\0"
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

    ``path`` holds pairs (size, number of items of that size). The number of pairs depends on the data, so
    there is no shape here.
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
    units
        Two numbers: of privacy units that are counted, and of those of them that were cut. None where no
        tally asks for them.
    slabbed
        Table that is too large to be held -> its finest level; in ``tables`` are the levels that are held.
    """

    tables: dict[str, dict[str, CountFile]]
    histograms: dict[str, SizesFile] = field(default_factory=dict)
    units: CountFile | None = None
    slabbed: dict[str, SlabbedCounts] = field(default_factory=dict)


def read_counts(file: CountFile, secret: bytes) -> Counts:
    """Return the counts that ``file`` names, mapped from disk and checked by their digest.

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
    """Return the array that ``file`` names: of a known shape and mapped, or of any shape."""
    note_data_opened()
    path = Path(file.path)
    failure = InputError("the counts are missing or altered", where="secure workspace", hint="run again")
    mode: Literal["r"] | None = None if shape is None else "r"
    counts: Counts = redacted(lambda: np.load(path, mmap_mode=mode, allow_pickle=False), failure)
    if shape in (None, counts.shape) and hmac.compare_digest(_digest(path, counts, secret), file.digest):
        return counts
    raise failure


def write_counts(path: Path, counts: Counts, secret: bytes) -> str:
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


# The axes of the arrays in which tables are counted, and the levels above the finest that is measured.


@dataclass(frozen=True, eq=False)
class Axis:
    """The axes of a table's array: its dimensions in order, and its finest level.

    ``place`` takes a leaf's cell code to its node in the finest level, and is None where they are the same.
    ``parts`` is how many numbers each cell has: of the array of a measure there may be several.
    """

    dimensions: tuple[str, ...]
    shape: tuple[int, ...]
    finest: str
    place: Counts | None
    parts: int = 1

    @property
    def numbers(self) -> int:
        """The size of its array."""
        return math.prod(self.shape) * self.parts


def axis_of(domains: Mapping[str, Domain], table: Table) -> Axis:
    """Return the axes of a table's array."""
    parts = 1 if table.measured is None else table.measured.parts
    # The last dimension of an array with several numbers for each cell is no column: one may have its name.
    crossed = table.dimensions if parts == 1 else table.dimensions[:-1]
    others = tuple(name for name in crossed if name != table.along)
    inner = tuple(domains[name].size for name in others)
    if table.along is None:
        return Axis(others, inner, "", None, parts)
    domain = _hierarchy(domains, table.along)
    finest = max(table.levels, key=lambda level: depth_of(domain, level))
    positions = leaf_positions(domain, finest)
    shape = (len(cut(domain, finest)), *inner)
    same = np.array_equal(positions, np.arange(shape[0]))
    return Axis((table.along, *others), shape, finest, None if same else positions, parts)


def _hierarchy(domains: Mapping[str, Domain], name: str) -> HierarchyDomain:
    domain = domains[name]
    if not isinstance(domain, HierarchyDomain):
        raise InputError("is not a hierarchy", where=f"columns.{name}", hint="correct `along` in the tables")
    return domain


def at_finest(numbers: Counts, axis: Axis) -> Counts:
    """Move cell numbers over the leaves to cell numbers over the finest measured level."""
    if axis.place is None:
        return numbers
    inner = math.prod(axis.shape[1:])
    leaf, rest = np.divmod(numbers, inner)
    moved: Counts = axis.place[leaf] * inner + rest
    return moved


def groups_of(cells: Counts, axis: Axis, by: str | None) -> Counts | None:
    """Return the group of each cell, where bounds differ by groups; None where they do not."""
    if by is None:
        return None
    dimension = axis.dimensions.index(by)
    group: Counts = cells // math.prod(axis.shape[dimension + 1 :]) % axis.shape[dimension]
    return group


def counted_levels(loaded: Loaded, table: Table, counts: Counts) -> Iterator[tuple[str, Counts]]:
    """Yield every measured level of a table, the upper ones by summing the finest."""
    axis = axis_of(loaded.domains, table)
    finest = counts.reshape(*axis.shape, *([axis.parts] if axis.parts > 1 else []))
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


def place_at(loaded: Loaded, table: Table, level: str) -> Counts:
    """Return the position in a level of each node of the finest measured level."""
    domain = _hierarchy(loaded.domains, table.along or "")
    return positions(domain, cut(domain, axis_of(loaded.domains, table).finest), level)


def _summed(counts: Counts, positions: Counts, nodes: int) -> Counts:
    """Sum the rows of ``counts`` that have the same position."""
    from scipy import sparse

    wide = counts.reshape(len(counts), -1)
    ones = np.ones(len(positions), np.int64)
    membership = sparse.csr_array(
        (ones, (positions, np.arange(len(positions)))), shape=(nodes, len(positions))
    )
    summed: Counts = membership @ wide
    return summed.reshape(nodes, *counts.shape[1:])
