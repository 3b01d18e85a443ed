"""The roles of a ledger on PostgreSQL, each logged in as itself."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger import Ledger, StorageFailed
from ledger.holding import hold
from ledger.signing import public_hex
from tests.ledger.scene import ROOT, census, finish, open_books, postgresql, reserve, superuser, url

pytestmark = postgresql
LogIn = Callable[[str], str]


@pytest.fixture
def log_in(books: Ledger, place: Path) -> Iterator[LogIn]:
    """Make a login of its own for a role and return its URL."""
    del books
    superuser(place, (ROOT / "deploy" / "sql" / "roles.sql").read_text())
    made: list[str] = []

    def make(role: str) -> str:
        name = f"{role}_{secrets.token_hex(4)}"
        superuser(place, f"CREATE ROLE {name} LOGIN", f"GRANT tabularium_{role} TO {name}")
        made.append(name)
        return url(place).replace("://keeper@", f"://{name}@")

    yield make
    for name in made:
        superuser(place, f"DROP ROLE {name}")


def test_a_writer_charges_and_finishes_releases_but_decides_nothing(log_in: LogIn, books: Ledger) -> None:
    with Ledger.connect(log_in("writer")) as writer:
        with hold(writer, "r1"):
            reserve(writer, "r1")
            finish(writer, "r1")
        reserve(writer, "r2")
        writer.drawing("r2")
        writer.abandon("r2", "the draw failed")
        reserve(writer, "r3")
        key = Ed25519PrivateKey.generate()
        before = books.head()
        for decision in (
            lambda: census(writer, "another"),
            lambda: writer.change_account("census", cap=Fraction(2), reason="more"),
            lambda: writer.void("r3", "mistake"),
            lambda: writer.enrol_key(public_hex(key), officer="nobody", by=key),
        ):
            with pytest.raises(StorageFailed, match="lets only a disclosure officer write"):
                decision()
        assert books.head() == before
        assert writer.verify() == books.verify()


def test_an_officer_may_do_both(log_in: LogIn, books: Ledger) -> None:
    with Ledger.connect(log_in("officer")) as officer:
        census(officer, "another", needs_approval=True)
        key = Ed25519PrivateKey.generate()
        officer.enrol_key(public_hex(key), officer="A. Ro", by=key)
        officer.approve("another", "s", by=key)
        reserve(officer, "r1", "another")
        officer.void("r1", "mistake")
        officer.close_account("another", reason="done")
    books.verify()


def test_a_reader_reads_and_writes_nothing(log_in: LogIn, books: Ledger) -> None:
    with Ledger.connect(log_in("reader")) as reader:
        assert reader.balance("census") == 1
        assert reader.verify() == books.verify()
        with pytest.raises(StorageFailed, match="does not allow this to this user"):
            reserve(reader)


FORBIDDEN = [
    "INSERT INTO entries SELECT * FROM entries",
    "UPDATE entries SET body = ''",
    "DELETE FROM entries",
    "TRUNCATE entries",
    "ALTER TABLE entries DISABLE TRIGGER ALL",
    "DROP TRIGGER entries_no_update ON entries",
    "SET session_replication_role = replica",
    "CREATE OR REPLACE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
    "DROP TABLE entries CASCADE",
    "UPDATE alembic_version SET version_num = '0001'",
    "DELETE FROM locks",
    "UPDATE locks SET name = 'x'",
    "SELECT ledger_append('{}', '')",
    "CREATE TABLE public.mine (x int)",
]


@pytest.mark.parametrize("role", ["writer", "officer", "reader"])
def test_no_role_gets_past_the_one_path(log_in: LogIn, books: Ledger, role: str) -> None:
    before, login = books.head(), log_in(role).replace("+psycopg", "")
    for statement in FORBIDDEN:
        with psycopg.connect(login) as connection, pytest.raises(psycopg.Error):
            connection.execute(statement)  # type: ignore[call-overload]
    assert books.head() == before
    books.verify()


def test_a_stranger_sees_nothing(log_in: LogIn, place: Path) -> None:
    log_in("reader")
    stranger = f"stranger_{secrets.token_hex(4)}"
    superuser(place, f"CREATE ROLE {stranger} LOGIN")
    try:
        with pytest.raises(StorageFailed, match="does not allow this to this user"):
            Ledger.connect(url(place).replace("://keeper@", f"://{stranger}@"))
    finally:
        superuser(place, f"DROP ROLE {stranger}")


def test_a_wrong_hash_or_a_wrong_column_cannot_be_appended(log_in: LogIn, place: Path) -> None:
    """A writer that speaks SQL itself still appends only what continues the chain, with columns from the body."""
    with open_books(place) as books:
        last = list(books.entries())[-1]
    body = last.text.replace('"seq":1', '"seq":2').replace('"kind":"account"', '"kind":"reserved"')
    with psycopg.connect(log_in("writer").replace("+psycopg", "")) as connection:
        for hash_ in (last.hash, "0" * 64):
            with pytest.raises(psycopg.Error, match="does not continue the chain"), connection.transaction():
                connection.execute("SELECT ledger_append(%s, %s)", (body, hash_))
