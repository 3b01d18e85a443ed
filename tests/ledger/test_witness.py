"""The witness, and what happens to a ledger that is older than it."""

from __future__ import annotations

import shutil
from pathlib import Path

import psycopg
import pytest

from ledger import ChainBroken, Head, Ledger, ReadOnly, StorageFailed
from ledger.witness import Witness, WitnessDamaged
from tests.ledger.scene import (
    behind_the_triggers,
    database,
    open_books,
    reserve,
    sqlite,
    url,
    witness_file,
)


@pytest.fixture
def witness(place: Path) -> Witness:
    return Witness(place / "witness", place / "lock", wait=0.1)


def head(seq: int) -> Head:
    return Head(seq, f"{seq:064x}")


def test_the_witness_only_goes_forward(witness: Witness) -> None:
    assert witness.read() is None
    for seq, stands in [(1, 1), (2, 2), (5, 5), (3, 5), (5, 5), (6, 6)]:
        witness.advance(head(seq))
        assert witness.read() == head(stands)


@pytest.mark.parametrize("torn", [0, 1])
def test_a_torn_write_loses_at_most_the_newer_record(witness: Witness, torn: int) -> None:
    witness.advance(head(1))
    witness.advance(head(2))
    whole = witness.path.read_bytes()
    for length in (1, 30, 84, 100, 4096):
        damaged = bytearray(whole)
        damaged[torn * 4096 : torn * 4096 + length] = b"#" * length
        witness.path.write_bytes(bytes(damaged))
        assert witness.read() in (head(1), head(2))
        witness.path.write_bytes(whole)
    newest = max(whole.find(b"0" * 19 + b"2 "), 0)
    damaged = bytearray(whole)
    damaged[newest] ^= 1
    witness.path.write_bytes(bytes(damaged))
    assert witness.read() == head(1)
    witness.advance(head(3))
    assert witness.read() == head(3)


def test_a_damaged_witness_stops_new_entries(books: Ledger, place: Path) -> None:
    witness_file(place).write_bytes(b"#" * 8192)
    with pytest.raises(WitnessDamaged):
        Witness(witness_file(place), place / "lock", wait=0.1).read()
    with pytest.raises(ReadOnly, match="damaged"):
        reserve(books)
    with open_books(place) as again, pytest.raises(ReadOnly, match="damaged"):
        reserve(again)


def test_the_witness_names_the_head_after_every_commit(books: Ledger, place: Path) -> None:
    witness = Witness(witness_file(place), place / "lock", wait=0.1)
    for release in ("r1", "r2"):
        reserve(books, release)
        assert witness.read() == books.head()


def test_a_witness_behind_the_ledger_is_harmless(books: Ledger, place: Path) -> None:
    """As after a crash between the commit and the witness."""
    before = witness_file(place).read_bytes()
    reserve(books)
    witness_file(place).write_bytes(before)
    with open_books(place) as again:
        assert again.read_only is None
        reserve(again, "r2")
        again.verify()
    witness_file(place).unlink()
    with open_books(place) as again:
        reserve(again, "r3")
    assert witness_file(place).exists()


def backup(books: Ledger, place: Path) -> str:
    """Copy the database as it stands, with nobody connected; return the copy's name."""
    books.close()  # the last connection leaves everything in the one file
    if (place / "url").exists():
        name = url(place).rpartition("/")[2]
        postgres(place, f"CREATE DATABASE {name}_copy TEMPLATE {name}")
        return f"{name}_copy"
    return str(shutil.copy(database(place), place / "backup.db"))


def restore(copy: str, place: Path) -> None:
    if (place / "url").exists():
        name = url(place).rpartition("/")[2]
        postgres(place, f"DROP DATABASE {name} WITH (FORCE)", f"ALTER DATABASE {copy} RENAME TO {name}")
        return
    for name in ("books.db", "books.db-wal", "books.db-shm"):
        database(place).with_name(name).unlink(missing_ok=True)
    shutil.copy(copy, database(place))


def postgres(place: Path, *statements: str) -> None:
    server = url(place).replace("+psycopg", "").rpartition("/")[0]
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)  # type: ignore[call-overload]


def test_a_restored_old_backup_opens_read_only(books: Ledger, place: Path) -> None:
    copy = backup(books, place)
    reserve(books)
    books.close()
    restore(copy, place)
    with open_books(place) as again:
        assert again.read_only == (
            "it lacks entry 2 as the witness file names it, so it is an old copy or another ledger"
        )
        assert again.balance("census") == 1
        before = again.head()
        with pytest.raises(ReadOnly, match="lacks entry 2 as the witness"):
            reserve(again)
        with pytest.raises(ReadOnly):
            again.open_account("x", unit="person", relation="replace", definition="pure", cap=1)  # type: ignore[arg-type]
        assert again.head() == before
        with pytest.raises(ChainBroken, match="lacks entry 2"):
            again.verify()


def test_heads_from_elsewhere_make_an_old_ledger_read_only(books: Ledger, place: Path) -> None:
    copy = backup(books, place)
    old = books.head()
    reserve(books)
    known = books.head()
    books.close()
    restore(copy, place)
    witness_file(place).unlink()
    heads = [old, (known.seq, known.hash)]
    named = "lacks entry 2 as a measurement file or certificate"
    with open_books(place, known_heads=heads) as again, pytest.raises(ReadOnly, match=named):
        reserve(again)
    with open_books(place, known_heads=[old]) as again:
        assert again.read_only is None


def test_another_ledger_under_the_same_witness_is_read_only(books: Ledger, place: Path) -> None:
    copy = backup(books, place)
    restore(copy, place)
    behind_the_triggers(place, "DELETE FROM entries")
    with open_books(place) as new, pytest.raises(ReadOnly, match="lacks entry 1"):
        new.open_account("census", unit="person", relation="replace", definition="pure", cap=1)  # type: ignore[arg-type]


@sqlite
def test_a_ledger_exchanged_under_a_running_process_takes_no_entry(books: Ledger, place: Path) -> None:
    copy = backup(books, place)
    reserve(books)
    restore(copy, place)
    with pytest.raises(StorageFailed, match="exchanged"):
        reserve(books, "r2")
    database(place).unlink()
    with pytest.raises(StorageFailed, match="exchanged"):
        reserve(books, "r2")
