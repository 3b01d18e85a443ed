"""Folders of the home in which backups are unpacked for a moment; what a killed process left is removed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tabularium.ledger.durable_files import lock, unlock
from tabularium.ledger.refusals import LockTimeout
from tabularium.tasks.runtime.home import Home

_PREFIX = ".unpacked-"
_WAIT_SECONDS = 60


@contextmanager
def scratch(home: Home) -> Iterator[Path]:
    """Yield a new folder of the home; it is removed at the end, or by whoever comes next.

    Raises
    ------
    LockTimeout
        If another process keeps having one: there is never more than one in a home.
    """
    with _locked(home, _WAIT_SECONDS) as mine:
        if not mine:
            raise LockTimeout(
                "another process is restoring in this home", where=str(home.path), hint="wait, then run again"
            )
        _clear(home)
        with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=home.path) as folder:
            yield Path(folder)


def remove_remains(home: Home) -> int:
    """Remove what killed processes left, unless one is at work; return how many folders there were."""
    with _locked(home, 0) as mine:
        return _clear(home) if mine else 0


def _clear(home: Home) -> int:
    found = list(home.path.glob(f"{_PREFIX}*"))
    for folder in found:
        shutil.rmtree(folder, ignore_errors=True)
    return len(found)


@contextmanager
def _locked(home: Home, wait: float) -> Iterator[bool]:
    descriptor = os.open(home.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield lock(descriptor, wait)
    finally:
        unlock(descriptor)
