"""The file behind the books: who may read it, other writers, and clocks."""

from __future__ import annotations

import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tabularium.ledger import BudgetExhausted, ClockBehind, Ledger, LedgerError, LockTimeout, StorageFailed
from tests.ledger.scene import both, census, database, open_books, reserve


def test_files_are_private(books: Ledger, place: Path) -> None:
    reserve(books)
    folder = database(place).parent
    found = {path: stat.S_IMODE(path.stat().st_mode) for path in [folder, *folder.rglob("*")]}
    assert {path.name for path in found} >= {
        "ledger.db",
        "ledger.db-wal",
        "ledger.db.witness",
        "ledger.db.locks",
    }
    assert {mode for path, mode in found.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in found.items() if path.is_file()} == {0o600}


@pytest.mark.parametrize(
    "url",
    ["", "ledger.db", "sqlite://", "sqlite:///:memory:", "mysql://u:secret@h/x", "postgresql://h:x/y", 7],
)
def test_other_urls_are_refused_without_repeating_them(url: Any) -> None:
    with pytest.raises(StorageFailed) as refused:
        Ledger.connect(url)
    assert "secret" not in str(refused.value)


def test_a_file_that_is_no_ledger_is_refused(place: Path) -> None:
    garbage = place / "garbage.db"
    garbage.write_bytes(b"not a database, and long enough to be looked at" * 30)
    with pytest.raises(StorageFailed, match="not a database"):
        Ledger.connect(f"sqlite:///{garbage}")
    other = sqlite3.connect(place / "other.db")
    other.execute("CREATE TABLE things (x)")
    other.close()
    with Ledger.connect(f"sqlite:///{place / 'other.db'}") as books:
        assert books.read_only is not None
        with pytest.raises(LedgerError, match="something else"):
            census(books)
    folder = place / "folder.db"
    folder.mkdir()
    with pytest.raises(StorageFailed):
        Ledger.connect(f"sqlite:///{folder}")
    (place / "file").write_text("")
    with pytest.raises(StorageFailed):
        Ledger.connect(f"sqlite:///{place / 'file' / 'ledger.db'}")


def test_a_writer_that_hangs_is_told_of(books: Ledger, place: Path) -> None:
    with (
        closing(sqlite3.connect(database(place), isolation_level=None)) as other,
        open_books(place, wait=0.1) as impatient,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(
            LockTimeout, match=r"ledger.db: the ledger's database is kept locked by another process"
        ):
            reserve(impatient)
        assert impatient.balance("census") == 1  # reading goes on
        other.execute("ROLLBACK")
        reserve(impatient)


@both
def test_threads_share_one_ledger(books: Ledger) -> None:
    def spend(number: int) -> int:
        won = 0
        for attempt in range(10):
            try:
                reserve(books, f"t{number}-{attempt}", amount=Fraction(1, 20))
                won += 1
            except BudgetExhausted:
                pass
        return won

    with ThreadPoolExecutor(5) as threads:
        assert sum(threads.map(spend, range(5))) == 20
    assert books.balance("census") == 0
    books.verify()


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2030, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


def test_a_clock_that_went_back_stops_new_charges_but_not_the_record_of_old_ones(place: Path) -> None:
    clock = Clock()
    with open_books(place, clock=clock) as books:
        census(books)
        reserve(books)
        books.drawing("r1")
        reserve(books, "r2")
        clock.now -= timedelta(minutes=5)
        assert reserve(books, "r3").reserved_at == "2030-01-01T00:00:00.000000Z"  # never before the last
        clock.now -= timedelta(hours=1)
        before = books.head()
        with pytest.raises(ClockBehind, match="set the clock"):
            reserve(books, "r4")
        with pytest.raises(ClockBehind):
            books.drawing("r2")
        assert books.head() == before
        assert books.measured("r1", 1, digest="m").changed_at == "2030-01-01T00:00:00.000000Z"
        books.published("r1", 1, digest="p")
        books.void("r2", "not needed")
        books.verify()
    with open_books(place, clock=clock, clock_tolerance=timedelta(days=1)) as books:
        reserve(books, "r4")
        books.verify()
