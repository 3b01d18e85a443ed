"""The one migration makes exactly the tables of the schema; a ledger that is not in order is left alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import NullPool, create_engine, inspect
from sqlalchemy.engine.interfaces import ReflectedIndex

import tabularium.ledger.storage
from tabularium.ledger import ChainBroken, Ledger, ReadOnly, StorageFailed
from tabularium.ledger.export import migrate
from tabularium.ledger.storage.schema import metadata
from tests.ledger.scene import (
    behind_the_triggers,
    both,
    census,
    new_place,
    open_books,
    remove_place,
    reserve,
    superuser,
    url,
    witness_file,
)


def shape(place: Path) -> dict[str, Any]:
    """What the tables look like, as the server tells it."""
    engine = create_engine(url(place), poolclass=NullPool)
    found: dict[str, Any] = {}
    with engine.connect() as connection:
        look = inspect(connection)
        for name in look.get_table_names():
            found[name] = (
                [
                    (
                        c["name"],
                        str(c["type"]),
                        getattr(c["type"], "collation", None),
                        c["nullable"],
                        c["default"],
                    )
                    for c in look.get_columns(name)
                ],
                sorted(described(index) for index in look.get_indexes(name)),
                look.get_pk_constraint(name),
                look.get_foreign_keys(name),
                look.get_unique_constraints(name),
                look.get_check_constraints(name),
            )
    return found


def described(index: ReflectedIndex) -> tuple[str, str, bool | None, str]:
    where = {
        str(value) for name, value in index.get("dialect_options", {}).items() if name.endswith("_where")
    }
    return str(index["name"]), str(index["column_names"]), index["unique"], str(where)


@both
def test_the_migration_makes_exactly_the_tables_of_the_schema(place: Path) -> None:
    """Compared as the database tells them, and by Alembic's own comparison."""
    open_books(place).close()
    other = new_place(place, "other")
    if not (place / "url").exists():
        (other / "books").mkdir(mode=0o700)
    engine = create_engine(url(other), poolclass=NullPool)
    metadata.create_all(engine)
    assert shape(place) == shape(other)
    assert set(shape(place)) == set(metadata.tables)
    for made in (place, other):
        with create_engine(url(made), poolclass=NullPool).connect() as connection:
            context = MigrationContext.configure(
                connection, opts={"compare_type": True, "compare_server_default": True}
            )
            assert compare_metadata(context, metadata) == []
    remove_place(other)


def test_there_is_one_migration() -> None:
    scripts = Path(tabularium.ledger.storage.__file__).parent / "migrations" / "versions"
    assert [path.name for path in scripts.glob("*.py")] == ["0001_tables.py"]


@both
def test_a_chain_that_does_not_verify_is_not_migrated(place: Path) -> None:
    with open_books(place) as books:
        census(books)
        reserve(books)
    behind_the_triggers(place, "UPDATE entries SET body = replace(body, '1/10', '1/20') WHERE seq = 2")
    drop = "DROP TRIGGER entries_no_update" + (" ON entries" if (place / "url").exists() else "")
    superuser(place, drop)
    with pytest.raises(ChainBroken, match="entry 2 has been altered"):
        migrate(url(place))
    with open_books(place) as books:
        assert "the triggers" in str(books.read_only), "nothing was put back"


@both
def test_a_ledger_behind_its_witness_is_not_migrated(place: Path) -> None:
    with open_books(place) as books:
        census(books)
        reserve(books)
    behind_the_triggers(place, "DELETE FROM entries WHERE seq = 2")
    with pytest.raises(ReadOnly, match="lacks entry 2"):
        migrate(url(place))
    assert witness_file(place).exists()


@both
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


@both
def test_tables_without_their_revision_are_somebody_elses(books: Ledger, place: Path) -> None:
    books.close()
    superuser(place, "DROP TABLE alembic_version")
    with open_books(place) as opened:
        assert opened.read_only == "the database belongs to something else"
    with pytest.raises(StorageFailed, match="not a ledger"):
        migrate(url(place))


@both
def test_tables_of_another_release_are_not_opened(books: Ledger, place: Path) -> None:
    books.close()
    superuser(place, "UPDATE alembic_version SET version_num = '9999'")
    for attempt in (open_books, lambda folder: migrate(url(folder))):
        with pytest.raises(StorageFailed, match="another release; install that release"):
            attempt(place)


@both
def test_migrate_puts_the_guard_back_in_place(books: Ledger, place: Path) -> None:
    reserve(books)
    books.close()
    superuser(place, "DROP TRIGGER entries_no_update" + (" ON entries" if (place / "url").exists() else ""))
    with open_books(place) as opened, pytest.raises(ReadOnly, match="the triggers"):
        reserve(opened, "r2")
    assert migrate(url(place)).fault is None
    with open_books(place) as opened:
        reserve(opened, "r2")
        assert opened.verify().charges == 2
