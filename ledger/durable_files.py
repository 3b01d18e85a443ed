"""Private, durable files: modes 0600 and 0700, synced folders, locks of the operating system."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LONGEST_PAUSE = 0.004  # many that wait for steps of a millisecond must not sleep past their turns


def sync_folder(folder: Path) -> None:
    """Make the names in ``folder`` durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_data(descriptor: int) -> None:
    """Make durable what was written in place: the file's content, but not its times, which cost a journal."""
    sync = getattr(os, "fdatasync", os.fsync)  # not every system has it
    sync(descriptor)


def make_folder(folder: Path) -> None:
    """Make ``folder`` and the parents that are missing, mode 0700, durably; leave what exists as it is."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)
    sync_folder(folder.parent)


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all of ``data``; the system may take it in parts."""
    rest = memoryview(data).cast("B")
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def create(path: Path, data: bytes) -> None:
    """Write a new file, mode 0600, durably, replacing what an interrupted attempt left at ``path``."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_lock(path: Path) -> int:
    """Return a descriptor of the lock file at ``path``, which is made if it is missing."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)


def same_inode(descriptor: int, path: Path) -> bool:
    """Whether ``descriptor`` is still the file at ``path``: a lock file may have been removed meanwhile."""
    try:
        there = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)


def lock(descriptor: int, wait: float) -> bool:
    """Lock an open file, waiting up to ``wait`` seconds; return whether it worked.

    The lock is the system's: it goes when the descriptor is closed or its process dies. The wait has an
    end because a *suspended* holder does not die.
    """
    deadline, pause = time.monotonic() + wait, 0.0005
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
        else:
            return True
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def unlock(descriptor: int) -> None:
    """Give the lock back and close its file; a child that was started meanwhile may still have it open."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    finally:
        os.close(descriptor)


def locked_file(path: Path, wait: float) -> int | None:
    """Return a descriptor that holds the lock file at ``path``, or ``None`` if somebody else holds it."""
    deadline = time.monotonic() + wait
    while True:
        descriptor = open_lock(path)
        try:
            taken = lock(descriptor, max(0.0, deadline - time.monotonic()))
            if taken and same_inode(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if not taken:
            return None


@contextmanager
def turn(path: Path, wait: float) -> Iterator[bool]:
    """Hold the lock file at ``path`` for a step of milliseconds; yields whether it could be had."""
    descriptor = locked_file(path, wait)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            unlock(descriptor)
