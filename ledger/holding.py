"""Holding a release: proof that no other live process works on it.

The proof is a lock of the operating system (``flock``), which dies with the process that holds it and
does not depend on a timeout. It keeps honest processes apart; what keeps a *suspended* one apart, whose
lock file an operator removed, is the fence that every step compares.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ledger import files, names
from ledger.books import Ledger
from ledger.errors import Busy, StaleFence, StorageFailed, WrongState

_held: dict[Path, int] = {}  # lock file -> its open descriptor, for this process
_guard = threading.Lock()


@contextmanager
def hold(ledger: Ledger, release_id: str, *, wait: float = 0.0) -> Iterator[None]:
    """Hold ``release_id`` for this process while the block runs.

    Parameters
    ----------
    wait
        Seconds to wait for another holder to finish; the default stops at once.

    Raises
    ------
    Busy
        If another live process, or another thread of this one, holds it.
    """
    path = _lock_file(ledger, release_id)
    descriptor = _take(path, release_id, wait)
    with _guard:
        _held[path] = descriptor
    try:
        yield
    finally:
        with _guard:
            if _held.get(path) == descriptor:  # not so in a forked child, which dropped it
                del _held[path]
                files.unlock(descriptor)


def require(ledger: Ledger, release_id: str) -> None:
    """Refuse to go on unless this process holds the release, and its lock file is still in place."""
    path = _lock_file(ledger, release_id)
    with _guard:
        descriptor = _held.get(path)
        if descriptor is None:
            raise WrongState(
                "is not held by this process", where=f"release {release_id}", mend="call this inside hold()"
            )
        if not files.stands_at(descriptor, path):
            raise StaleFence(
                "its lock file was removed, so another attempt may have taken over",
                where=f"release {release_id}",
                mend="run again",
            )


def _lock_file(ledger: Ledger, release_id: str) -> Path:
    return ledger.locks / f"release-{names.release_id(release_id)}.lock"


def _take(path: Path, release_id: str, wait: float) -> int:
    try:
        descriptor = files.locked_file(path, wait)
    except OSError:
        raise StorageFailed(
            "the lock file cannot be opened",
            where=f"release {release_id}",
            mend="check the owner and mode of the folder of locks beside the ledger",
        ) from None
    if descriptor is None:
        raise Busy(
            "another live process is working on it",
            where=f"release {release_id}",
            mend="wait for it to finish, or end that process, then run again",
        )
    return descriptor


def _drop_in_child() -> None:
    """A forked child shares its parent's locks; let go of them, or they would outlive the parent."""
    global _guard  # noqa: PLW0603  (another thread may have held it when the process forked)
    _guard = threading.Lock()
    for descriptor in _held.values():
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_drop_in_child)
