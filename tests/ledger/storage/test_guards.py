"""The chain: nothing in it can be changed, dropped, exchanged or cut off unseen."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import NullPool, create_engine

from tabularium.ledger import ChainBroken, Entry, Head, Ledger, ReadOnly, events
from tabularium.ledger.events import canonical, digest
from tabularium.ledger.storage import postgres
from tests.ledger.scene import (
    POSTGRES_TRIGGERS,
    SQLITE_TRIGGERS,
    behind_the_triggers,
    both,
    finish,
    open_books,
    reserve,
    superuser,
    url,
    verify_entries,
    witness_file,
)


@pytest.fixture
def chain(books: Ledger) -> Ledger:
    """Nine entries: an account, a published, a voided and an abandoned charge."""
    reserve(books, "r1")
    finish(books, "r1")
    reserve(books, "r2")
    books.void("r2", "mistake")
    reserve(books, "r3", amount=Fraction(1, 3))
    books.drawing("r3")
    books.abandon("r3", "lost")
    return books


@both
def test_a_whole_chain_verifies(chain: Ledger) -> None:
    found = chain.verify()
    assert (found.entries, found.accounts, found.charges) == (10, 1, 3)
    assert found.head == chain.head()
    assert verify_entries(chain.entries()) == found


def test_every_entry_names_the_one_before(chain: Ledger) -> None:
    entries = list(chain.entries())
    assert entries[0].prev == "0" * 64
    assert [entry.prev for entry in entries[1:]] == [entry.hash for entry in entries[:-1]]
    for entry in entries:
        assert entry.hash == digest(entry.text)
        assert canonical(json.loads(entry.text)) == entry.text
        assert entry.body["prev"] == entry.prev


REFUSED = [
    "UPDATE entries SET body = body || ' ' WHERE seq = 2",
    "UPDATE entries SET account = 'x'",
    "DELETE FROM entries WHERE seq = 5",
    "DELETE FROM entries",
    "INSERT INTO entries (seq, kind, account, body, prev, hash) VALUES (12, 'k', 'a', '', '', '')",
    "INSERT INTO entries (seq, kind, account, body, prev, hash) VALUES (11, 'k', 'a', '', 'x', '')",
    "INSERT INTO entries (kind, account, body, prev, hash) VALUES ('k', 'a', '', '', '')",
    "INSERT INTO entries SELECT * FROM entries WHERE seq = 10",
    "DELETE FROM locks",
    "UPDATE locks SET name = 'other'",
]
ONLY = {
    "sqlite": [
        "INSERT OR REPLACE INTO entries SELECT * FROM entries WHERE seq = 3",
        "REPLACE INTO entries (seq, kind, account, body, prev, hash) VALUES (10, 'k', 'a', '', '', '')",
    ],
    "postgresql": [
        "TRUNCATE entries",
        "TRUNCATE locks",
        "SET session_replication_role = replica; UPDATE entries SET account = 'x'",
        "INSERT INTO entries (seq, kind, account, body, prev, hash)"
        " SELECT 11, 'k', 'a', '', hash, '' FROM entries WHERE seq = 10",
        "INSERT INTO entries SELECT * FROM entries WHERE seq = 3 ON CONFLICT (seq) DO UPDATE SET body = ''",
    ],
}


@both
def test_the_triggers_refuse(chain: Ledger, place: Path, engine: str) -> None:
    refused = (sqlite3.IntegrityError, psycopg.Error)
    for statement in [*REFUSED, *ONLY[engine]]:
        with pytest.raises(refused, match=r"append-only|continue the chain"):
            superuser(place, statement)
    chain.verify()


COLUMNS = [*events.COLUMNS, "body", "prev", "hash"]


@both
@pytest.mark.parametrize("column", COLUMNS)
def test_an_edit_behind_the_triggers_is_named(chain: Ledger, place: Path, column: str) -> None:
    for seq in (1, 2, 6, 10):
        old = next(row for row in rows(place, column) if row[0] == seq)[1]
        behind_the_triggers(
            place,
            f"UPDATE entries SET {column} = 'x' || substr(coalesce({column}, ' '), 2) WHERE seq = {seq}",
        )
        with open_books(place) as again, pytest.raises(ChainBroken, match=f"entry {seq} "):
            again.verify()
        back = "NULL" if old is None else "'" + old.replace("'", "''") + "'"
        behind_the_triggers(place, f"UPDATE entries SET {column} = {back} WHERE seq = {seq}")
    chain.verify()


def rows(place: Path, column: str) -> list[tuple[int, str | None]]:
    engine = create_engine(url(place), poolclass=NullPool)
    with engine.connect() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(f"SELECT seq, {column} FROM entries")]  # type: ignore[misc]


@both
def test_nothing_is_read_from_an_altered_entry(chain: Ledger, place: Path) -> None:
    """The last entry of account, period and product alike says that nothing was spent."""
    lie = "replace(body, '_spent\":\"13/30', '_spent\":\"0/1')"
    behind_the_triggers(place, f"UPDATE entries SET body = {lie} WHERE seq = 10")
    with open_books(place) as again:
        for step in (
            lambda: again.balance("census"),
            lambda: again.charge("r3"),
            lambda: again.charges("census"),
            lambda: again.sums("census", period="2026"),
            lambda: reserve(again, "more"),
        ):
            with pytest.raises(ChainBroken, match="altered"):
                step()


@both
def test_a_deleted_entry_is_named(chain: Ledger, place: Path) -> None:
    behind_the_triggers(place, "DELETE FROM entries WHERE seq = 4")
    with pytest.raises(ChainBroken, match="entry 4 is missing"):
        chain.verify()


@both
def test_a_cut_off_end_is_seen_by_the_witness(chain: Ledger, place: Path) -> None:
    behind_the_triggers(place, "DELETE FROM entries WHERE seq > 7")
    with pytest.raises(ChainBroken, match="lacks entry 10 as the witness"):
        chain.verify()
    with pytest.raises(ReadOnly, match="lacks entry 10"):
        reserve(chain, "more")
    with open_books(place) as again, pytest.raises(ReadOnly, match="lacks entry 10"):
        reserve(again, "more")


@both
def test_a_rewritten_history_is_seen_by_the_witness_and_by_certificates(chain: Ledger, place: Path) -> None:
    """A forger who recomputes every hash still cannot meet the heads that stand elsewhere."""
    published = Head(5, list(chain.entries())[4].hash)
    entries = forged(list(chain.entries()), 1, lambda body: body | {"unit": "household"})
    assert verify_entries(entries).entries == 10
    edits = [
        f"UPDATE entries SET body = '{entry.text}', prev = '{entry.prev}', hash = '{entry.hash}'"
        f" WHERE seq = {entry.seq}"
        for entry in entries
    ]
    behind_the_triggers(place, *edits)
    with open_books(place) as again:
        assert again.read_only is not None
        with pytest.raises(ChainBroken, match="lacks entry 10 as the witness"):
            again.verify()
    witness_file(place).unlink()
    with open_books(place) as again:
        again.verify()
        with pytest.raises(
            ChainBroken, match="lacks entry 5 as a measurement file, certificate or head file"
        ):
            again.verify([published])


def without(engine: str) -> list[list[str]]:
    """Every way to take something of the guard away."""
    if engine == "sqlite":
        return [[f"DROP TRIGGER {name}"] for name in SQLITE_TRIGGERS]
    tables = {name: table for name, (table, *_) in POSTGRES_TRIGGERS.items()}
    return [
        *([f"DROP TRIGGER {name} ON {table}"] for name, table in tables.items()),
        *([f"ALTER TABLE {table} DISABLE TRIGGER {name}"] for name, table in tables.items()),
        ["ALTER TABLE entries ENABLE TRIGGER entries_no_update"],
        [
            "CREATE OR REPLACE FUNCTION ledger_refuse() RETURNS trigger LANGUAGE plpgsql"
            " AS $$ BEGIN RETURN NEW; END $$"
        ],
        ["ALTER FUNCTION ledger_append SECURITY INVOKER"],
    ]


@both
def test_a_missing_guard_makes_the_ledger_read_only(chain: Ledger, place: Path, engine: str) -> None:
    for statements in without(engine):
        superuser(place, *statements)
        with open_books(place) as again:
            assert again.balance("census") == chain.balance("census")
            with pytest.raises(ReadOnly, match=r"triggers|functions"):
                reserve(again, "more")
            with pytest.raises(ChainBroken, match=r"triggers|functions"):
                again.verify()
        if engine == "sqlite":
            superuser(place, SQLITE_TRIGGERS[statements[0].split()[-1]])
        else:
            superuser(place, *postgres.statements("public"))
    with open_books(place) as again:
        again.verify()


def test_every_changed_byte_of_every_body_is_found(chain: Ledger) -> None:
    entries = list(chain.entries())
    for place, entry in enumerate(entries):
        for byte in range(0, len(entry.text), 3):
            other = chr((ord(entry.text[byte]) + 1) % 127)
            text = entry.text[:byte] + other + entry.text[byte + 1 :]
            changed = [
                *entries[:place],
                Entry(entry.seq, entry.prev, entry.hash, text),
                *entries[place + 1 :],
            ]
            with pytest.raises(ChainBroken, match=f"entry {entry.seq} has been altered"):
                verify_entries(changed)


def test_every_omission_and_exchange_is_found(chain: Ledger) -> None:
    entries = list(chain.entries())
    for place in range(len(entries) - 1):
        with pytest.raises(ChainBroken, match=f"entry {place + 1} is missing"):
            verify_entries(entries[:place] + entries[place + 1 :])
        swapped = [*entries]
        swapped[place : place + 2] = reversed(swapped[place : place + 2])
        with pytest.raises(ChainBroken, match=f"entry {place + 1} "):
            verify_entries(swapped)
        with pytest.raises(ChainBroken, match=f"entry {place + 2} stands twice"):
            verify_entries(entries[: place + 1] + entries[place:])


def forged(entries: list[Entry], seq: int, change: Callable[[dict[str, Any]], dict[str, Any]]) -> list[Entry]:
    """Change the body of entry ``seq`` and recompute every hash from there on."""
    prev, made = "0" * 64, []
    for entry in entries:
        body = json.loads(entry.text) | {"prev": prev}
        if entry.seq == seq:
            body = change(body)
        text = json.dumps(body, sort_keys=True, separators=(",", ":"))
        prev, link = digest(text), prev
        made.append(Entry(entry.seq, link, prev, text))
    return made
