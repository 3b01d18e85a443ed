"""True counts in the secure workspace: files of mode 0600 that are known by their keyed digest."""

from __future__ import annotations

import hmac
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from tabularium.mechanisms.errors import InputError
from tabularium.tasks.count.slabbed_counts import Counts, SlabbedCounts
from tabularium.validations.redaction import note_data_opened, redacted

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
