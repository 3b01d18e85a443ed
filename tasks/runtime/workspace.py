"""The secure workspace: the one folder in which a run may keep anything confidential.

A workspace belongs to one process, which holds a lock inside it. It is removed when the run ends; what a
killed run left behind is removed by the next run, as soon as the lock shows that its owner is gone.
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
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

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
        """Make a workspace for this run and sweep away what dead runs left.

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
        """Have libraries that make temporary files make them in the workspace."""
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
        """Delete everything in the workspace, then the workspace; tell whether all of it is gone."""
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
