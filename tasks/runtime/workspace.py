"""The secure workspace: the one folder in which a run may keep anything confidential, and what is open in it.

A workspace belongs to one process, which holds a lock inside it. It is removed when the run ends; what a
killed run left behind is removed by the next run, as soon as the lock shows that its owner is gone.

Resources (the snapshot of a database, the session of an engine) stay open between the stages of a run.
Stages name them by a random handle. They live in this process only, and end with the run.

Large arrays are mapped from files of the workspace, so that memory does not grow with them: the system keeps
the pages that are in use, and takes back the rest when memory is short.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tabularium.mechanisms.errors import InputError
from tabularium.mechanisms.inference import Estimate
from tabularium.tasks.runtime.home import Home
from tabularium.validations.redaction import note_data_opened

_LOCK = "owner.lock"
_ASIDE = ".new-"

# The library's folder for temporary files is one per process; runs in threads of one process take turns.
_active: list[str] = []
_guard = threading.Lock()


@dataclass
class Workspace:
    """A folder of mode 0700 with a lock held by the process that made it."""

    path: Path
    _lock: int = field(repr=False)

    @classmethod
    def create(cls, home: Home) -> Workspace:
        """Create a workspace for this run and remove those of dead runs.

        The folder appears under its name only once its lock is held, so that a sweep by another run
        never takes it for an orphan.
        """
        note_data_opened()
        sweep(home)
        # It is the name of the run, too: those of a day stand together.
        name = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
        aside = home.workspaces / (_ASIDE + name)
        aside.mkdir(mode=0o700)
        path = home.workspaces / name
        lock = os.open(aside / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            (aside / "tmp").mkdir(mode=0o700)
            aside.rename(path)
        except OSError:
            os.close(lock)
            shutil.rmtree(aside, ignore_errors=True)
            raise
        return cls(path, lock)

    @contextlib.contextmanager
    def temporary_files_inside(self) -> Iterator[None]:
        """Put temporary files of libraries into the workspace."""
        mine = str(self.path / "tmp")
        with _guard:
            _active.append(mine)
            tempfile.tempdir = mine
        try:
            yield
        finally:
            with _guard:
                _active.remove(mine)
                tempfile.tempdir = _active[-1] if _active else None

    def remove(self) -> bool:
        """Delete the workspace with its content; return whether all of it is gone."""
        shutil.rmtree(self.path, ignore_errors=True)
        self.release()
        return not self.path.exists()

    def release(self) -> None:
        """Give up the lock, leaving the files (the spec asked to keep them)."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def keep(self) -> None:
        """Leave the files for the operator: no sweep will take them."""
        (self.path / "keep").touch(mode=0o600)
        self.release()


def sweep(home: Home) -> int:
    """Remove the workspaces whose owner is dead; return how many.

    A folder still under its first name (its lock not taken yet) is removed only when its maker, whose lock
    file may not exist, has had an hour to rename it.
    """
    removed = 0
    for folder in home.workspaces.iterdir():
        if folder.is_dir() and not (folder / "keep").exists() and _orphaned(folder):
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
    return removed


def _orphaned(folder: Path) -> bool:
    if folder.name.startswith(_ASIDE):
        # Nothing confidential is ever written under this name, so haste is not needed.
        return _hour_old(folder)
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return True  # half removed
    except OSError:
        return False  # not to be known now; another sweep will tell
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def _hour_old(folder: Path) -> bool:
    with contextlib.suppress(OSError):
        return time.time() - folder.stat().st_mtime > 3600
    return False


class Resource(Protocol):
    """A resource that is closed at the end of the run."""

    def close(self) -> None:
        """End it."""


_open: dict[str, tuple[Path, Resource]] = {}


def register(folder: Path, resource: Resource) -> str:
    """Keep a resource open for the run whose workspace holds ``folder``; return its handle."""
    handle = uuid.uuid4().hex
    _open[handle] = (folder.resolve(), resource)
    return handle


def get(
    handle: str,
    gone: str = "the view of the records that the run began with is gone",
    where: str = "source.engine",
) -> Any:
    """Return the resource of a handle; ``gone`` and ``where`` are for the error if it was closed.

    Raises
    ------
    InputError
        If it was closed, or lives in another process.
    """
    if handle not in _open:
        raise InputError(gone, where=where, hint="run again: it starts over, and nothing is lost")
    return _open[handle][1]


def close_all(folder: Path) -> None:
    """Close the resources of places inside ``folder``."""
    inside = folder.resolve()
    for handle, (inner, resource) in list(_open.items()):
        if inner.is_relative_to(inside):
            del _open[handle]
            with suppress(Exception):  # a connection that broke is closed too
                resource.close()


def new_mapped(path: Path, shape: tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """Return zeros mapped from a new ``.npy`` file; mappings of an earlier file of that name stay valid."""
    path.unlink(missing_ok=True)
    mapped = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)
    # With its room on the disk: a mapped file that finds none when it is written to ends the process.
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    return np.asarray(mapped)


class ArrayStore:
    """A folder of the workspace for the arrays of one step, one or two for each table."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[str, NDArray[np.float64]] = {}

    def of(self, table: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return the array of a table: zeros on first use, the same array afterwards."""
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
