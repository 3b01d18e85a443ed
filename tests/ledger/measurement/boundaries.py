"""Doing something to a release at its n-th boundary: just before whatever leaves a trace.

A boundary stands before every call of the operating system by which the ledger or the store changes
something, before every SQL statement that writes or takes a lock, before every commit and after it, and
before and after the noise is drawn. Between two of them nothing happens that leaves a trace, except inside
SQLite's own commit.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import sqlalchemy.event
from sqlalchemy.engine import Engine
from sqlalchemy.pool import Pool

from tabularium.ledger import Charge
from tabularium.ledger.measurement.measure_once import measure_once
from tabularium.ledger.measurement.release_lock import hold
from tabularium.ledger.measurement.store import MeasurementStore
from tests.ledger.scene import census, open_books, reserve

PARTS = ("population/nation", "population/place", "ages")
CALLS = ("fdatasync", "fsync", "link", "mkdir", "open", "pwrite", "replace", "symlink", "unlink", "write")


class Boundaries:
    """Counts boundaries and calls ``action`` at number ``at``, once."""

    def __init__(self, action: Callable[[], None], at: int) -> None:
        self.action, self.at, self.count = action, at, 0

    def cross(self, *_: Any) -> None:
        self.count += 1
        if self.count == self.at:
            self.action()

    def arm(self) -> None:
        for name in CALLS:
            setattr(os, name, self.around(getattr(os, name)))
        for target, event in [
            (Engine, "commit"),
            (Pool, "checkin"),
        ]:
            sqlalchemy.event.listen(target, event, self.cross)
        sqlalchemy.event.listen(Engine, "before_cursor_execute", self.statement)

    def statement(self, _connection: Any, _cursor: Any, text: str, *_: Any) -> None:
        if not text.startswith("SELECT") or "FOR UPDATE" in text or "ledger_" in text:
            self.cross()

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            self.cross()
            return call(*args, **kwargs)

        return wrapped


def store_in(folder: Path) -> MeasurementStore:
    return MeasurementStore(folder / "measurements")


def release(folder: Path, cross: Callable[[], None] = lambda: None, wait: float = 60) -> Charge:
    """Do all of one release, as a plain run does; every draw is another and leaves a line behind."""
    append, flags = os.write, os.O_CREAT | os.O_WRONLY | os.O_APPEND

    def draw(part: str) -> tuple[dict[str, Any], dict[str, Any]]:
        cross()
        noise = np.frombuffer(os.urandom(48), np.int64)
        log = os.open(folder / "draws", flags)
        append(log, f"{part}\n".encode())
        os.close(log)
        cross()
        return {"mechanism": "identity"}, {"cells": noise}

    with open_books(folder, wait=wait) as books:
        census(books)
        reserve(books)
        with hold(books, "r1"):
            stored = measure_once(
                books, store_in(folder), "r1", {part: partial(draw, part) for part in PARTS}
            )
            return books.published("r1", stored.fence, digest=f"publication of {stored.digest}")


def draws(folder: Path) -> dict[str, int]:
    """How often each part was drawn."""
    log = folder / "draws"
    found = log.read_text().split() if log.exists() else []
    return {part: found.count(part) for part in PARTS}


def stored(folder: Path) -> dict[str, str]:
    """The digests of the parts that are stored."""
    store = store_in(folder)
    return {part: store.read_part("r1", part).digest for part in PARTS if store.has_part("r1", part)}


def check(folder: Path, charge: Charge) -> None:
    """One charge, published, of the one measurement that is there."""
    with open_books(folder) as books:
        assert books.verify().charges == 1
        assert books.charges("census") == [charge]
        account = books.account("census")
        assert (account.reserved, account.spent) == (0, charge.amount)
    assert charge.state == "published"
    assert charge.publication_digest == f"publication of {charge.measurement_digest}"
    store = store_in(folder)
    found = store.read("r1", charge.fence, digest=charge.measurement_digest)
    assert [part.arrays["cells"].shape for part in found.parts.values()] == [(6,)] * len(PARTS)
    names = {path.name for path in (folder / "measurements" / "r1").iterdir()}
    assert names == {str(charge.fence), *(store.part_path("r1", part).name for part in PARTS)}
    assert max(draws(folder).values()) <= charge.attempts


def in_child(work: Callable[[], None]) -> int:
    """Fork a child that does ``work``; return its process id."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    return child


def wait_for(child: int) -> int:
    """Return how ``child`` ended: its exit code, or the negative of the signal that killed it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
