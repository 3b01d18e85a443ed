"""Arrays that lie in files of the workspace and are mapped from there: memory does not grow with them.

The system keeps of a mapped file what is being worked on, and takes the rest back when memory is short.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tabularium.mechanisms.inference import Estimate


def new_mapped(path: Path, shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return zeros that lie in a new ``.npy`` file; a file of that name is left to those who map it."""
    path.unlink(missing_ok=True)
    mapped = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    # With its room on the disk: a mapped file that finds none when it is written to ends the process.
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return np.asarray(mapped)


class ArrayStore:
    """A folder of the workspace in which one step puts arrays, one or two for each table."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, NDArray[np.float64]] = {}

    def of(self, table: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the array of a table: zeros when it is asked for first, the same one from then on."""
        if table not in self._made:
            self._made[table] = new_mapped(self._folder / f"{table}.values.npy", shape)
        return self._made[table]

    def keep(self, estimates: Mapping[str, Estimate]) -> dict[str, Estimate]:
        """Return estimates of tables, written into the folder and mapped from there."""
        return {table: self._keep(table, estimate) for table, estimate in estimates.items()}

    def _keep(self, table: str, estimate: Estimate) -> Estimate:
        values, variances = (self._folder / f"{table}.{part}.npy" for part in ("values", "variances"))
        if self._made.get(table) is not estimate.values:
            values.unlink(missing_ok=True)  # it may be mapped, and is not to be cut short
            np.save(values, estimate.values)
        np.save(variances, estimate.variances)
        return Estimate(np.load(values, mmap_mode="r"), np.load(variances, mmap_mode="r"))
