"""Migrations: from the first revision, to the tables of this code, with every row as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger import ChainBroken, Ledger, ReadOnly, StorageFailed
from ledger.storage.migration import migrate
from tests.ledger.scene import (
    behind_the_triggers,
    census,
    open_books,
    reserve,
    superuser,
    url,
    witness_file,
)


def test_a_chain_that_does_not_verify_is_not_migrated(place: Path) -> None:
    with open_books(place) as books:
        census(books)
        reserve(books)
    behind_the_triggers(place, "UPDATE entries SET body = replace(body, '1/10', '1/20') WHERE seq = 2")
    with pytest.raises(ChainBroken, match="entry 2 has been altered"):
        migrate(url(place))


def test_a_ledger_behind_its_witness_is_not_migrated(place: Path) -> None:
    with open_books(place) as books:
        census(books)
        reserve(books)
    behind_the_triggers(place, "DELETE FROM entries WHERE seq = 2")
    with pytest.raises(ReadOnly, match="lacks entry 2"):
        migrate(url(place))
    assert witness_file(place).exists()


def test_a_missing_ledger_is_made_and_a_foreign_database_left_alone(place: Path) -> None:
    other = place / "other"
    other.mkdir()
    assert migrate(url(other)).verified.entries == 0
    if not (place / "url").exists():
        (place / "books").mkdir(mode=0o700)
    superuser(place, "CREATE TABLE things (x int)")
    with pytest.raises(StorageFailed, match="not a ledger"):
        migrate(url(place))
    superuser(place, "SELECT x FROM things")


def test_a_newer_ledger_is_not_opened(books: Ledger, place: Path) -> None:
    books.close()
    superuser(place, "UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(StorageFailed, match="newer release"):
        open_books(place)
    with pytest.raises(StorageFailed, match="newer release"):
        migrate(url(place))
