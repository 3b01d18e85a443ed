"""A charge under the one right to append: odd names, altered rows, planted sums, a day that ends."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest

from tabularium.ledger import AccountClosed, ChainBroken, Ledger
from tests.ledger.scene import (
    behind_the_triggers,
    both,
    census,
    finish,
    open_books,
    postgresql,
    reserve,
    url,
)
from tests.ledger.storage.test_append import continued
from tests.ledger.storage.test_indexed import plant

NAMES = ["p", 'quo"ted', "back\\slash", "\\u0000", "é", "日本", "a/b %(x)s {schema} 'c'", '"\\u0000"']


@both
def test_names_that_mean_something_elsewhere_are_names_here(books: Ledger) -> None:
    for number, name in enumerate(NAMES):
        charge = reserve(books, f"r{number}", product=name, period=NAMES[-number], amount=Fraction(1, 100))
        assert (charge.product, charge.period) == (name, NAMES[-number])
        finish(books, charge.release_id)
    assert set(books.products("census")) == set(NAMES)
    assert books.verify().charges == len(NAMES)


@both
@pytest.mark.parametrize("row", [2, 3])
def test_a_row_that_was_altered_is_not_charged_on(books: Ledger, place: Path, row: int) -> None:
    """The head, and the last entry of the product: each is held against its hash first."""
    reserve(books, "r0", product="p", amount=Fraction(1, 4))
    reserve(books, "r1", product="q")
    behind_the_triggers(place, f"UPDATE entries SET body = replace(body, '1/4', '1/8') WHERE seq = {row}")
    behind_the_triggers(place, f"UPDATE entries SET body = replace(body, '7/20', '1/8') WHERE seq = {row}")
    with pytest.raises(ChainBroken, match="altered"):
        reserve(books, "r2", product="p")


@both
@pytest.mark.parametrize("sums", [None, "", "1", "-1/10", "1/0", "1/7", "x/y"])
def test_nothing_is_charged_on_a_last_row_without_its_sums(books: Ledger, sums: str | None) -> None:
    """Whoever writes past the guard: a sum that is not there is not a cap that holds."""
    reserve(books, "r0")
    last = list(books.entries())[-1]
    plant(books, continued(last, {"release_id": "planted", "account_reserved": sums}))
    wrong = (
        "wrong running sum" if sums == "1/7" else "a running sum in the last entry of its account is missing"
    )
    with pytest.raises(ChainBroken, match=wrong):
        reserve(books, "r1", amount=Fraction(99), product="q")
    with pytest.raises(ChainBroken, match="entry 3"):
        books.verify()


@postgresql
def test_a_day_that_ends_while_a_charge_waits_for_the_lock_ends_the_account(place: Path) -> None:
    last, next_day = datetime(2026, 12, 31, 23, 59, 59, 900_000, UTC), datetime(2027, 1, 1, 0, 0, 1, 0, UTC)
    times = [last]
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    with open_books(place, clock=lambda: times[0]) as books, ThreadPoolExecutor(1) as pool:
        census(books, closes_on="2027-01-01")
        reserve(books, "r0")
        server = url(place).replace("+psycopg", "")
        with psycopg.connect(server) as other, psycopg.connect(server, autocommit=True) as watch:
            other.execute("SELECT FROM locks WHERE name = 'head' FOR UPDATE")
            charge = pool.submit(reserve, books, "r1")
            while watch.execute(waiting).fetchone() != (1,):
                assert not charge.done()
                time.sleep(0.01)
            times[0] = next_day
            other.rollback()
        with pytest.raises(AccountClosed, match="closed since 2027-01-01"):
            charge.result(60)
        assert books.charge("r1") is None
