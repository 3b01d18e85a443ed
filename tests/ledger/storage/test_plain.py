"""Charges that the server writes in one call: byte for byte what the ordinary way writes, or not at all."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ledger import (
    AccountClosed,
    BadAmount,
    BudgetExhausted,
    ChainBroken,
    ClockBehind,
    Conflict,
    Ledger,
    LedgerError,
    NotApproved,
    Partition,
    ReadOnly,
    Unfit,
)
from ledger.chain.entries import canonical, digest
from ledger.storage.postgres import PostgreSQL
from tests.ledger.scene import (
    behind_the_triggers,
    census,
    finish,
    new_place,
    open_books,
    postgresql,
    remove_place,
    reserve,
    superuser,
    url,
    witness_file,
)
from tests.ledger.storage.logins import logins

pytestmark = postgresql


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For every charge that the server was asked for, whether it wrote it."""
    found: list[bool] = []
    charge = PostgreSQL.charge

    def spy(backend: PostgreSQL, values: dict[str, Any]) -> Any:
        done = charge(backend, values)
        found.append(done is not None)
        return done

    monkeypatch.setattr(PostgreSQL, "charge", spy)
    return found


class Clock:
    """Goes on by a second every time that it is looked at through another charge."""

    def __init__(self) -> None:
        self.now = datetime(2026, 12, 31, 23, 59, 30, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


AMOUNTS = [Fraction(1, 3), Fraction(1, 7), Fraction(22, 13), Fraction(1, 10**6), Fraction(2), Fraction(5, 11)]
NAMES = ["p", 'quo"ted', "back\\slash", "\\u0000", "é", "日本", "a/b %(x)s {schema} 'c'", '"\\u0000"']


def lives(books: Ledger, clock: Clock) -> Iterator[str]:
    """Do the same things with any ledger: charges of many kinds, and what else happens between them."""
    census(books, cap=Fraction(60), cap_per_period=Fraction(50), cap_per_product=Fraction(40))
    for number in range(40):
        clock.now += timedelta(seconds=1)
        yield reserve(
            books,
            f"r{number}",
            amount=AMOUNTS[number % 6],
            product=NAMES[number % 8],
            period=NAMES[number % 5],
            input_digest=f"i{number}" if number % 3 else None,
        ).release_id
        if number % 4 == 1:
            finish(books, f"r{number}")
        if number % 4 == 2:
            books.void(f"r{number}", "mistake")
        if number == 20:
            books.change_account("census", cap=Fraction(61), reason="more")


def test_it_is_byte_for_byte_what_the_ordinary_way_writes(
    place: Path, written: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    chains = []
    for name in ("plain", "ordinary"):
        where, clock = new_place(place, name), Clock()
        monkeypatch.setenv("TABULARIUM_WITNESS", str(where))  # they are the same chain
        with open_books(where, clock=clock) as books:
            books._backend.writes_plain = name == "plain"
            assert len([*lives(books, clock)]) == 40
            books.verify()
            chains.append([(entry.hash, entry.text) for entry in books.entries()])
        remove_place(where)
    assert chains[0] == chains[1]
    assert (written.count(True), written.count(False)) == (39, 1), "all but one under new terms"


def test_whatever_is_not_plain_is_refused_by_the_ordinary_way(
    books: Ledger, place: Path, written: list[bool]
) -> None:
    census(books, "other")
    first = reserve(books, "r0", input_digest="i")
    reserve(books, "o0", "other")
    assert reserve(books, "r1").seq == 5 and written == [True, True, True]
    written.clear()
    assert reserve(books, "r0", input_digest="i") == first
    with pytest.raises(Conflict, match="another amount"):
        reserve(books, "r1", amount=Fraction(1, 5))
    with pytest.raises(Conflict, match="the same input was charged in another account"):
        reserve(books, "o1", "other", input_digest="i")
    with pytest.raises(BudgetExhausted, match="9/10 was asked and 4/5 is left"):
        reserve(books, "r2", amount=Fraction(9, 10))
    assert written == [False, False, False, False]
    with open_books(place) as officer:
        officer.change_account("census", cap_per_period=Fraction(1, 4), reason="less")
    with pytest.raises(BudgetExhausted, match="period 2026"):
        reserve(books, "r2")
    assert reserve(books, "r2", amount=Fraction(1, 20)).state == "reserved"
    assert written[-2:] == [False, True]
    asked = len(written)
    with pytest.raises(Unfit):
        reserve(books, "r3", unit="household")
    with pytest.raises(BadAmount):
        reserve(books, "r3", amount=Fraction(1, 17 * 19))
    reserve(
        books, "r3", amount=Fraction(1, 100), partition=Partition("zones", "north"), product="q", period="1"
    )
    assert len(written) == asked, "the server was not asked at all"
    books.verify()


def test_closed_accounts_approvals_and_clocks_are_judged_by_the_ordinary_way(
    books: Ledger, place: Path, written: list[bool]
) -> None:
    reserve(books, "r0")
    written.clear()
    with open_books(place) as officer:
        officer.change_account("census", closes_on="2020-01-01", reason="over")
    with pytest.raises(AccountClosed):
        reserve(books, "r1")
    with open_books(place) as officer:
        officer.change_account("census", closes_on=None, reason="goes on")
        officer.change_account("census", needs_approval=True, reason="be asked")
    for _ in range(2):  # the second time the need is known beforehand
        with pytest.raises(NotApproved):
            reserve(books, "r1")
    assert written == [False]
    written.clear()
    late = datetime.now(UTC) - timedelta(hours=1)
    with open_books(place, clock=lambda: late) as slow:
        census(books, "other")
        slow._seen["other"] = reserve(books, "r2", "other") and books._seen["other"]
        slow._named = books._named
        with pytest.raises(ClockBehind):
            reserve(slow, "r3", "other")
    assert written == [True, False]
    books.verify()


@pytest.mark.parametrize("row", [2, 3])
def test_a_row_that_was_altered_is_not_charged_on(books: Ledger, place: Path, row: int) -> None:
    """The head, and the last entry of the product: each is held against its hash first."""
    reserve(books, "r0", product="p", amount=Fraction(1, 4))
    reserve(books, "r1", product="q")
    behind_the_triggers(place, f"UPDATE entries SET body = replace(body, '1/4', '1/8') WHERE seq = {row}")
    behind_the_triggers(place, f"UPDATE entries SET body = replace(body, '7/20', '1/8') WHERE seq = {row}")
    with pytest.raises(ChainBroken, match="altered"):
        reserve(books, "r2", product="p")


def test_a_ledger_behind_its_witness_takes_no_plain_charge(books: Ledger, place: Path) -> None:
    reserve(books, "r0")
    reserve(books, "r1")
    behind_the_triggers(place, "DELETE FROM entries WHERE seq = 3")
    with pytest.raises(ReadOnly, match="it lacks entry 3"):
        reserve(books, "r2")
    assert witness_file(place).exists()


@pytest.mark.parametrize("sums", [None, "", "1", "-1/10", "1/0", "1/7", "x/y"])
def test_nothing_is_charged_on_a_last_row_without_its_sums(
    books: Ledger, place: Path, written: list[bool], sums: str | None
) -> None:
    """A writer may append any text whose hash is right: a sum that is not there is not a cap that holds."""
    reserve(books, "r0")
    last = list(books.entries())[-1]
    body = last.body | {"release_id": "planted", "prev": last.hash, "seq": last.seq + 1}
    del body["account_reserved"]
    text = canonical(body if sums is None else body | {"account_reserved": sums})
    superuser(place, f"SELECT ledger_append('{text}', '{digest(text)}')")
    written.clear()
    with pytest.raises(LedgerError) as refused:
        reserve(books, "r1", amount=Fraction(99), product="q")
    assert written == [False]
    assert "\n" not in str(refused.value)
    if sums == "1/7":  # an amount, though none of this account's: verify says so
        assert isinstance(refused.value, BudgetExhausted)
    else:
        assert isinstance(refused.value, ChainBroken)
        assert "a running sum in the last entry of its account is missing or malformed" in str(refused.value)
    with pytest.raises(ChainBroken, match="entry 3"):
        books.verify()


def test_a_day_that_ends_while_it_waits_for_its_turn_ends_the_account(
    place: Path, written: list[bool]
) -> None:
    last, next_day = datetime(2026, 12, 31, 23, 59, 59, 900_000, UTC), datetime(2027, 1, 1, 0, 0, 1, 0, UTC)
    times = [last]
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with open_books(place, clock=lambda: times[0]) as books, ThreadPoolExecutor(1) as pool:
        census(books, closes_on="2027-01-01")
        reserve(books, "r0")
        written.clear()
        server = url(place).replace("+psycopg", "")
        with psycopg.connect(server) as other, psycopg.connect(server, autocommit=True) as watch:
            other.execute("SELECT FROM locks WHERE name = 'head' FOR UPDATE")
            charge = pool.submit(reserve, books, "r1")
            while watch.execute(waiting).fetchone() != (1,):
                assert not charge.done()
                time.sleep(0.01)
            time.sleep(0.2)
            times[0] = next_day
            other.rollback()
        with pytest.raises(AccountClosed, match="closed since 2027-01-01"):
            charge.result(60)
        assert written == [False] and books.charge("r1") is None
        times[0] = last
        reserve(books, "r2")
        assert written == [False, True], "without a wait it is the same day still"


def test_what_a_writer_hands_to_it_is_held_to_the_writers_rights(books: Ledger, place: Path) -> None:
    """Its text is the caller's: it goes through the one function that appends, like any other."""
    reserve(books, "r0")
    head, at = books.head(), list(books.entries())[-1].body["at"]
    with logins(place) as make:
        login = make("writer").replace("+psycopg", "")
        parts = [
            '{"a":',
            ',"b":',
            ',"c":',
            ',"d":',
            ',"e":',
            ',"prev":',
            ',"f":',
            ',"g":',
            ',"h":',
            ',"seq":',
        ]
        parts = [*parts, ',"kind":"voided","release_id":"r0","account":"census","v":4}']
        terms = next(iter(books.entries())).hash
        with psycopg.connect(login) as connection, pytest.raises(psycopg.Error, match="only an officer"):
            connection.execute(
                "SELECT * FROM ledger_charge('new', 'census', '2026', 'p', NULL, %s, %s, %s, %s, %s, 1,"
                " 360360000000, ',,', %s)",
                (terms, head.seq, head.hash, at, at, "\n".join(parts)),
            )
    assert books.head() == head
