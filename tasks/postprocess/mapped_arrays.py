"""Arrays that lie in files of the workspace and are mapped from there: memory does not grow with them.

The system keeps of a mapped file what is being worked on, and takes the rest back when memory is short.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray


def new_mapped(path: Path, shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return zeros that lie in a new ``.npy`` file; a file of that name is left to those who map it."""
    path.unlink(missing_ok=True)
    mapped = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    # With its room on the disk: a mapped file that finds none when it is written to ends the process.
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return np.asarray(mapped)


class Room:
    """Where one step puts an array for each table: files of the workspace.

    Parameters
    ----------
    folder
        Of the step.
    ending
        Of the files, behind the name of the table.
    """

    def __init__(self, folder: Path, ending: str) -> None:
        self._folder, self._ending = folder, ending
        self._made: dict[str, NDArray[np.float64]] = {}

    def path(self, table: str) -> Path:
        """Return the file of a table."""
        return self._folder / f"{table}{self._ending}"

    def of(self, table: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the array of a table: zeros when it is asked for first, the same one from then on."""
        if table not in self._made:
            self._made[table] = new_mapped(self.path(table), shape)
        return self._made[table]

    def holds(self, table: str, values: NDArray[np.float64]) -> bool:
        """Whether these are what lies here of a table."""
        return self._made.get(table) is values
