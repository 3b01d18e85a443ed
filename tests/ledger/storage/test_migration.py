"""Migrations: from the first revision, to the tables of this code, with every row as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import MetaData, NullPool, create_engine, inspect
from sqlalchemy.engine.interfaces import ReflectedIndex

from ledger import ChainBroken, Ledger, LedgerError, ReadOnly, StorageFailed
from ledger.chain import entries as chain
from ledger.chain.entries import canonical, digest
from ledger.storage.migration import _run, migrate
from ledger.storage.schema import metadata
from ledger.storage.sqlite import TRIGGERS
from tests.ledger.scene import (
    behind_the_triggers,
    census,
    finish,
    open_books,
    reserve,
    superuser,
    url,
    witness_file,
)


def first_ledger(place: Path) -> list[str]:
    """Make a ledger of the first revision, with entries of the first format; return their hashes."""
    engine = create_engine(url(place), poolclass=NullPool)
    if not (place / "url").exists():
        (place / "books").mkdir(mode=0o700)
    at, prev = "2026-01-01T00:00:00.000000Z", "0" * 64
    terms = {
        "account": "census", "cap": "1/1", "cap_per_period": None, "cap_per_product": None, "definition": "pure",
        "delta": None, "quantum": "1/1000", "relation": "add-remove", "unit": "person",
        "account_reserved": "0/1", "account_spent": "0/1", "kind": "account",
    }  # fmt: skip
    charge = {
        "account": "census", "amount": "1/10", "fence": 0, "input_digest": "i", "measurement_digest": None,
        "period": "2026", "product": "p", "publication_digest": None, "reason": None, "release_id": "r1",
        "reserved_at": at, "spec_digest": "s", "kind": "reserved",
        **{f"{scope}_reserved": "1/10" for scope in ("account", "period", "product")},
        **{f"{scope}_spent": "0/1" for scope in ("account", "period", "product")},
    }  # fmt: skip
    hashes = []
    with engine.begin() as connection:
        _run(connection, "", "0001")
        if engine.dialect.name == "sqlite":
            for statement in TRIGGERS.values():
                connection.exec_driver_sql(statement)
        table = MetaData()
        table.reflect(connection)
        for seq, fields in enumerate([terms, charge], 1):
            body: dict[str, Any] = {**fields, "at": at, "prev": prev, "seq": seq, "v": 1}
            text = canonical(body)
            row = {name: body.get(name) for name in ("kind", "account", "release_id", "product", "period")}
            row |= {"input_digest": body.get("input_digest"), "seq": seq, "body": text, "prev": prev}
            prev = digest(text)
            connection.execute(table.tables["entries"].insert(), {**row, "hash": prev})
            hashes.append(prev)
        if engine.dialect.name == "sqlite":
            connection.exec_driver_sql("DROP TABLE alembic_version")  # the first release kept none
    return hashes


def shape(place: Path) -> dict[str, Any]:
    """What the tables look like, without the order of columns of an index's text."""
    engine = create_engine(url(place), poolclass=NullPool)
    found: dict[str, Any] = {}
    with engine.connect() as connection:
        look = inspect(connection)
        for name in look.get_table_names():
            columns = [(c["name"], str(c["type"]), c["nullable"]) for c in look.get_columns(name)]
            indexes = sorted(described(index) for index in look.get_indexes(name))
            found[name] = columns, indexes, look.get_pk_constraint(name)["constrained_columns"]
    return found


def described(index: ReflectedIndex) -> tuple[str, str, str]:
    columns = index.get("expressions") or index["column_names"]
    where = {
        str(value) for name, value in index.get("dialect_options", {}).items() if name.endswith("_where")
    }
    return str(index["name"]), str([str(column).strip("()") for column in columns]), str(where)


@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection")
def test_a_ledger_of_the_first_revision_is_brought_up_to_date(
    place: Path, engine: str, tmp_path: Path
) -> None:
    hashes = first_ledger(place)
    with pytest.raises(StorageFailed, match="older release; run: tabularium ledger migrate"):
        open_books(place)
    done = migrate(url(place))
    assert (done.before, done.after, done.verified.entries) == ("0001", "0005", 2)
    again = migrate(url(place))
    assert (again.before, again.after) == ("0005", "0005")
    with open_books(place) as books:
        assert [entry.hash for entry in books.entries()] == hashes
        assert (books.balance("census") * 10, books.account("census").terms.needs_approval) == (9, False)
        finish(books, "r1")  # the old charge goes on
        reserve(books, "r2", input_digest="i")
        books.change_account("census", cap=2, reason="more")
        assert books.verify().entries == 7
    migrated = shape(place)
    if engine == "sqlite":
        new = tmp_path / "new"
        new.mkdir()
        open_books(new).close()
        assert shape(new) == migrated
    assert {name: [column.name for column in table.columns] for name, table in metadata.tables.items()} == {
        name: [column[0] for column in columns] for name, (columns, _indexes, _key) in migrated.items()
    }


def test_new_tables_are_those_of_the_migrations(
    place: Path, engine: str, request: pytest.FixtureRequest
) -> None:
    if engine == "sqlite":
        pytest.skip("compared above")
    server = request.getfixturevalue("server")
    open_books(place).close()
    other = place / "other"
    other.mkdir()
    name = server.new_database()
    (other / "url").write_text(server.url(name))
    first_ledger(other)
    migrate(url(other))
    assert shape(place) == shape(other)
    server.drop_database(name)


def test_a_chain_that_does_not_verify_is_not_migrated(place: Path) -> None:
    first_ledger(place)
    triggers = [f"DROP TRIGGER {name}" for name in TRIGGERS] if not (place / "url").exists() else []
    superuser(place, *triggers, "UPDATE entries SET body = replace(body, '1/10', '1/20') WHERE seq = 2")
    before = shape(place)
    with pytest.raises(ChainBroken, match="entry 2 has been altered"):
        migrate(url(place))
    assert shape(place) == before


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


@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection")
@pytest.mark.parametrize("revision", ["0002", "0003", "0004"])
def test_a_ledger_of_a_later_revision_goes_on_in_the_new_format(place: Path, revision: str) -> None:
    hashes = first_ledger(place)
    assert migrate(url(place), to=revision).after == revision
    with pytest.raises(StorageFailed, match="older release"):
        open_books(place)
    before = shape(place)
    assert migrate(url(place)).before == revision
    assert shape(place) == before, "no table changed"
    with open_books(place) as books:
        assert [entry.hash for entry in books.entries()] == hashes
        reserve(books, "r2", input_digest="i")
        assert [entry.body["v"] for entry in books.entries()] == [1, 1, 4]
        books.verify()


def test_a_process_of_an_older_release_cannot_go_on_after_the_first_new_entry(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the ledger open since before the migration; a chain that it went on with would never verify again."""
    first_ledger(place)
    migrate(url(place))
    with open_books(place) as old, open_books(place) as new:
        if not (place / "url").exists():  # a server's function takes the newest format alone
            monkeypatch.setattr(chain, "FORMAT", 3)
            reserve(old, "r2", input_digest="i")
        monkeypatch.setattr(chain, "FORMAT", 4)
        reserve(new, "r3", input_digest="i")
        head = new.head()
        monkeypatch.setattr(chain, "FORMAT", 3)
        with pytest.raises(LedgerError, match="refused an entry that does not continue the chain"):
            reserve(old, "r4", input_digest="i")
        assert new.head() == head
        monkeypatch.setattr(chain, "FORMAT", 4)
        reserve(old, "r4", input_digest="i")
        formats = [entry.body["v"] for entry in new.entries()]
        assert formats == sorted(formats) and formats[-2:] == [4, 4]
        new.verify()
