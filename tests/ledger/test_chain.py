"""The chain: nothing in it can be changed, dropped, exchanged or cut off unseen."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from ledger import ChainBroken, Entry, Head, Ledger, ReadOnly
from ledger.audit import walk
from ledger.chain import canonical, digest
from ledger.schema import SQLITE_TRIGGERS
from tests.ledger.scene import census, database, finish, open_books, reserve


@pytest.fixture
def chain(books: Ledger) -> Ledger:
    """Nine entries: an account, a published, a voided and an abandoned charge."""
    reserve(books, "r1", input_digest="i")
    finish(books, "r1")
    reserve(books, "r2")
    books.void("r2", "mistake")
    reserve(books, "r3", amount=Fraction(1, 3))
    books.drawing("r3")
    books.abandon("r3", "lost")
    return books


def behind_the_triggers(folder: Path, *statements: str) -> None:
    """What a superuser can do: drop the triggers, change rows, put the triggers back."""
    with closing(sqlite3.connect(database(folder))) as connection, connection:
        for name in SQLITE_TRIGGERS:
            connection.execute(f"DROP TRIGGER {name}")
        for statement in statements:
            connection.execute(statement)
        for statement in SQLITE_TRIGGERS.values():
            connection.execute(statement)


def test_a_whole_chain_verifies(chain: Ledger) -> None:
    found = chain.verify()
    assert (found.entries, found.accounts, found.charges) == (10, 1, 3)
    assert found.head == chain.head()
    assert walk((entry, None) for entry in chain.entries()) == found


def test_every_entry_names_the_one_before(chain: Ledger) -> None:
    entries = list(chain.entries())
    assert entries[0].prev == "0" * 64
    assert [entry.prev for entry in entries[1:]] == [entry.hash for entry in entries[:-1]]
    for entry in entries:
        assert entry.hash == digest(entry.text)
        assert canonical(json.loads(entry.text)) == entry.text
        assert entry.body["prev"] == entry.prev


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE entries SET body = body || ' ' WHERE seq = 2",
        "UPDATE entries SET account = 'x'",
        "DELETE FROM entries WHERE seq = 5",
        "DELETE FROM entries",
        "INSERT OR REPLACE INTO entries SELECT * FROM entries WHERE seq = 3",
        "REPLACE INTO entries (seq, kind, account, body, prev, hash) VALUES (10, 'k', 'a', '', '', '')",
        "INSERT INTO entries (seq, kind, account, body, prev, hash) VALUES (12, 'k', 'a', '', '', '')",
        "INSERT INTO entries (seq, kind, account, body, prev, hash) VALUES (11, 'k', 'a', '', 'x', '')",
        "INSERT INTO entries (kind, account, body, prev, hash) VALUES ('k', 'a', '', '', '')",
        "DELETE FROM locks",
        "UPDATE locks SET name = 'other'",
    ],
)
def test_the_triggers_refuse(chain: Ledger, tmp_path: Path, statement: str) -> None:
    with (
        closing(sqlite3.connect(database(tmp_path))) as connection,
        connection,
        pytest.raises(sqlite3.IntegrityError, match=r"append-only|continue the chain"),
    ):
        connection.execute(statement)
    chain.verify()


COLUMNS = ["kind", "account", "release_id", "product", "period", "input_digest", "body", "prev", "hash"]


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("seq", [1, 2, 6, 10])
def test_an_edit_behind_the_triggers_is_named(chain: Ledger, tmp_path: Path, seq: int, column: str) -> None:
    behind_the_triggers(
        tmp_path, f"UPDATE entries SET {column} = coalesce({column}, '') || 'x' WHERE seq = {seq}"
    )
    with open_books(tmp_path) as again, pytest.raises(ChainBroken, match=f"entry {seq} "):
        again.verify()


def test_nothing_is_read_from_an_altered_entry(chain: Ledger, tmp_path: Path) -> None:
    """The last entry of account, period and product alike says that nothing was spent."""
    lie = "replace(body, '_spent\":\"13/30', '_spent\":\"0/1')"
    behind_the_triggers(tmp_path, f"UPDATE entries SET body = {lie} WHERE seq = 10")
    with open_books(tmp_path) as again:
        for step in (
            lambda: again.balance("census"),
            lambda: again.charge("r3"),
            lambda: again.charges("census"),
            lambda: again.sums("census", period="2026"),
            lambda: reserve(again, "more"),
        ):
            with pytest.raises(ChainBroken, match="altered"):
                step()


def test_a_deleted_entry_is_named(chain: Ledger, tmp_path: Path) -> None:
    behind_the_triggers(tmp_path, "DELETE FROM entries WHERE seq = 4")
    with pytest.raises(ChainBroken, match="entry 4 is missing"):
        chain.verify()


def test_a_cut_off_end_is_seen_by_the_witness(chain: Ledger, tmp_path: Path) -> None:
    behind_the_triggers(tmp_path, "DELETE FROM entries WHERE seq > 7")
    with pytest.raises(ChainBroken, match="lacks entry 10 as the witness"):
        chain.verify()
    with pytest.raises(ReadOnly, match="lacks entry 10"):
        reserve(chain, "more")
    with open_books(tmp_path) as again, pytest.raises(ReadOnly, match="lacks entry 10"):
        reserve(again, "more")


def test_a_rewritten_history_is_seen_by_the_witness_and_by_certificates(
    chain: Ledger, tmp_path: Path
) -> None:
    """A forger who recomputes every hash still cannot meet the heads that stand elsewhere."""
    published = Head(5, list(chain.entries())[4].hash)
    entries = forged(list(chain.entries()), 1, lambda body: body | {"unit": "household"})
    assert walk((entry, None) for entry in entries).entries == 10
    edits = [
        f"UPDATE entries SET body = '{entry.text}', prev = '{entry.prev}', hash = '{entry.hash}'"
        f" WHERE seq = {entry.seq}"
        for entry in entries
    ]
    behind_the_triggers(tmp_path, *edits)
    with open_books(tmp_path) as again:
        assert again.read_only is not None
        with pytest.raises(ChainBroken, match="lacks entry 10 as the witness"):
            again.verify()
    database(tmp_path).with_name("books.db.witness").unlink()
    with open_books(tmp_path) as again:
        again.verify()
        with pytest.raises(ChainBroken, match="lacks entry 5 as a measurement file or certificate"):
            again.verify([published])


@pytest.mark.parametrize("trigger", SQLITE_TRIGGERS)
def test_a_missing_trigger_makes_the_ledger_read_only(chain: Ledger, tmp_path: Path, trigger: str) -> None:
    with closing(sqlite3.connect(database(tmp_path))) as connection:
        connection.execute(f"DROP TRIGGER {trigger}")
    with open_books(tmp_path) as again:
        assert again.balance("census") == chain.balance("census")
        with pytest.raises(ReadOnly, match="triggers"):
            reserve(again, "more")
        with pytest.raises(ChainBroken, match="triggers"):
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
                walk((one, None) for one in changed)


def test_every_omission_and_exchange_is_found(chain: Ledger) -> None:
    entries = list(chain.entries())
    for place in range(len(entries) - 1):
        with pytest.raises(ChainBroken, match=f"entry {place + 1} is missing"):
            walk((one, None) for one in entries[:place] + entries[place + 1 :])
        swapped = [*entries]
        swapped[place : place + 2] = reversed(swapped[place : place + 2])
        with pytest.raises(ChainBroken, match=f"entry {place + 1} "):
            walk((one, None) for one in swapped)
        with pytest.raises(ChainBroken, match=f"entry {place + 2} stands twice"):
            walk((one, None) for one in entries[: place + 1] + entries[place:])


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


LIES: list[tuple[int, dict[str, Any], str]] = [
    (1, {"quantum": "1/1000000000001"}, "malformed"),
    (1, {"relation": "friends"}, "malformed"),
    (1, {"definition": "zcdp"}, "malformed"),
    (1, {"cap": "1/20"}, None),  # then the first charge passes it
    (1, {"account_spent": "1/10"}, "running sum"),
    (2, {"amount": "2/10"}, "malformed"),
    (2, {"amount": "1/5"}, "running sum"),
    (2, {"amount": "-1/10"}, "malformed"),
    (2, {"account_reserved": "1/20"}, "running sum of its account"),
    (2, {"period_reserved": "1/20"}, "running sum of its period"),
    (2, {"product_spent": "1/20"}, "running sum of its product"),
    (2, {"fence": 1}, "may not change"),
    (2, {"v": 2}, "number or format"),
    (2, {"seq": 3}, "number or format"),
    (2, {"at": "1999-01-01T00:00:00.000000Z"}, "older"),
    (2, {"extra": 1}, "malformed"),
    (2, {"kind": "drawing"}, "state does not allow"),
    (2, {"kind": "gift"}, "unknown kind"),
    (2, {"release_id": "../r1"}, "malformed"),
    (3, {"fence": 2}, "may not change"),
    (3, {"spec_digest": "t"}, "may not change"),
    (3, {"reason": "because"}, "may not change"),
    (4, {"measurement_digest": None}, "may not change"),
    (5, {"measurement_digest": "other"}, "may not change"),
    (5, {"publication_digest": None}, "may not change"),
    (5, {"kind": "measured"}, "state does not allow"),
    (6, {"release_id": "r1"}, "after the charge's last"),
    (7, {"account_reserved": "1/10"}, "running sum"),
    (8, {"account": "nobody"}, "malformed"),
    (10, {"account_spent": "1/10"}, "running sum"),
    (10, {"at": 7}, "older"),
    (10, {"reason": float("nan")}, "canonical"),
]


@pytest.mark.parametrize(("seq", "lie", "named"), LIES)
def test_an_entry_that_breaks_a_rule_is_named_even_with_its_hashes_right(
    chain: Ledger, seq: int, lie: dict[str, Any], named: str | None
) -> None:
    entries = forged(list(chain.entries()), seq, lambda body: body | lie)
    wanted = f"entry {seq} .*{re.escape(named)}" if named else "entry 2 passes the cap of its account"
    with pytest.raises(ChainBroken, match=wanted):
        walk((entry, None) for entry in entries)


def test_one_input_in_two_accounts_is_found(books: Ledger) -> None:
    census(books, "second")
    reserve(books, "r1", input_digest="i")
    reserve(books, "r2", "second", input_digest="j")
    entries = forged(list(books.entries()), 4, lambda body: body | {"input_digest": "i"})
    with pytest.raises(ChainBroken, match="entry 4 charges an input"):
        walk((entry, None) for entry in entries)
