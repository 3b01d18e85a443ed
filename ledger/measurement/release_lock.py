"""Holding a release: proof that no other live process works on it.

The proof is a lock of the operating system (``flock``) next to an SQLite file, or an advisory lock of a
PostgreSQL session. Either goes when the process that holds it dies, and does not depend on a timeout. It
keeps honest processes apart; what keeps a *suspended* one apart, whose lock file an operator removed or whose
session was cut off, is the fence that every step compares.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tabularium.ledger import names
from tabularium.ledger.refusals import LockTimeout, StaleFence, StorageFailed, WrongState

if TYPE_CHECKING:
    from tabularium.ledger.ledger import Ledger
    from tabularium.ledger.storage.backend import Held

_held: dict[tuple[str, str], Held] = {}  # ledger and release -> what this process holds it by
_guard = threading.Lock()


GLANCE = 2.0
"""Seconds to wait for a look at what is held, which itself holds a release for an instant."""


@contextmanager
def hold(ledger: Ledger, release_id: str, *, wait: float = 0.0) -> Iterator[None]:
    """Hold ``release_id`` for this process while the block runs.

    ``wait``: seconds to wait for another holder to finish; the default stops at once.

    Raises ``LockTimeout`` if another live process, or another thread of this one, holds it.
    """
    name = ledger.identity, names.release_id(release_id)
    held = _take(ledger, release_id, wait)
    with _guard:
        _held[name] = held
    try:
        yield
    finally:
        with _guard:
            mine = _held.get(name) is held  # not so in a forked child, which dropped it
            if mine:
                del _held[name]
        if mine:
            held.free()


def require(ledger: Ledger, release_id: str) -> None:
    """Refuse to go on unless this process holds the release, and nobody can have taken it over."""
    with _guard:
        held = _held.get((ledger.identity, names.release_id(release_id)))
        if held is None:
            raise WrongState(
                "is not held by this process", where=f"release {release_id}", hint="call this inside hold()"
            )
        if not held.stands():
            raise StaleFence(
                "its lock file was removed or its session ended, so another attempt may have taken over",
                where=f"release {release_id}",
                hint="run again",
            )


def _take(ledger: Ledger, release_id: str, wait: float) -> Held:
    try:
        held = ledger.take(release_id, wait)
    except OSError:
        raise StorageFailed(
            "the lock file cannot be opened",
            where=f"release {release_id}",
            hint="check the owner and mode of the folder of locks next to the ledger",
        ) from None
    if held is None:
        raise LockTimeout(
            "another live process is working on it",
            where=f"release {release_id}",
            hint="wait for it to finish, or end that process, then run again",
        )
    return held


def _drop_in_child() -> None:
    """A forked child shares its parent's locks; let go of them, or they would outlive the parent."""
    global _guard  # noqa: PLW0603  (another thread may have held it when the process forked)
    _guard = threading.Lock()
    for held in _held.values():
        held.drop()
    _held.clear()


os.register_at_fork(after_in_child=_drop_in_child)
