"""What ``ledger_append`` takes from whom: entries of forms that there are, at times that have come."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tabularium.ledger import Entry, Ledger, StorageFailed
from tabularium.ledger.events import canonical, digest, format_time
from tabularium.ledger.storage.postgres import AHEAD_MINUTES, BEHIND_MINUTES
from tests.ledger.scene import census, finish, open_books, postgresql, reserve
from tests.ledger.storage.logins import LogIn, did, logins

pytestmark = postgresql


def continued(last: Entry, change: dict[str, Any]) -> Entry:
    """The next entry: as the last one, with some fields changed or (None) left out."""
    body = last.body | {"prev": last.hash, "seq": last.seq + 1} | change
    text = canonical({name: value for name, value in body.items() if value is not None or name not in change})
    return Entry(last.seq + 1, last.hash, digest(text), text)


TRANSITIONS = ("reserved", "drawing", "measured", "published", "abandoned")
NAMES = ("account", "release_id", "product", "period")
#: An entry that a writer hands to ``ledger_append``, as changes to a charge.
MISSHAPEN: list[dict[str, Any]] = [
    {"kind": "nonsense"},
    {"kind": None},
    *({"kind": kind, "account": "", "key": "k"} for kind in TRANSITIONS),
    *({name: value} for name in NAMES for value in ("", None, 5, ["x"], {})),
    {"at": None},
    *(
        {"at": at}
        for at in (
            *("", 5, "now", "infinity", "2026-02-30T00:00:00.000000Z", "2026-01-01T24:00:00.000000Z"),
            *("2026-01-01", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000+00"),
            *("2026-01-01 00:00:00.000000Z", "10000-01-01T00:00:00.000000Z"),
        )
    ),
]
#: What an officer's login may not do either: it would stand for another entry than its kind says.
MISPLACED: list[dict[str, Any]] = [
    *(
        {"kind": kind, **dict.fromkeys(NAMES[1:])} | {"account": value}
        for kind in ("account", "terms")
        for value in ("", None)
    ),
    *({"kind": kind, name: "r1"} for kind in ("account", "terms", "approval") for name in NAMES[1:]),
    *({"kind": kind, **dict.fromkeys(NAMES[1:])} for kind in ("key", "revocation")),
    *({"kind": kind, **dict.fromkeys(NAMES), name: "x"} for kind in ("key", "revocation") for name in NAMES),
    {"kind": "voided", "account": ""},
]


@pytest.mark.parametrize("role", ["writer", "officer"])
def test_an_entry_that_stands_for_another_than_it_says_is_not_appended(
    log_in: LogIn, books: Ledger, role: str
) -> None:
    reserve(books)
    last, who = list(books.entries())[-1], log_in(role)
    with psycopg.connect(who.replace("+psycopg", ""), autocommit=True) as connection:
        for change in MISSHAPEN + (MISPLACED if role == "officer" else []):
            entry = continued(last, change)
            with pytest.raises(psycopg.Error) as refused:
                connection.execute("SELECT ledger_append(%s, %s)", (entry.text, entry.hash))
            assert refused.value.sqlstate in ("TB005", "22007", "22008"), (change, refused.value)
        with pytest.raises(psycopg.Error, match="does not continue the chain"):  # of another format
            entry = continued(last, {"release_id": "r2", "v": 2})
            connection.execute("SELECT ledger_append(%s, %s)", (entry.text, entry.hash))
        for text, hash_ in (("[1]", "x"), ("x", "x"), (last.text.replace('"p"', '"\\u0000"'), "x")):
            with pytest.raises(psycopg.Error, match=r"continue the chain|invalid input|Unicode"):
                connection.execute("SELECT ledger_append(%s, %s)", (text, hash_))
    assert books.head().seq == last.seq


def test_no_role_dates_an_entry_ahead_of_the_servers_clock(log_in: LogIn, books: Ledger, place: Path) -> None:
    reserve(books)
    last, before = list(books.entries())[-1], books.head()
    for role in ("writer", "officer"):
        who = log_in(role)
        for ahead in (timedelta(minutes=AHEAD_MINUTES, seconds=30), timedelta(days=400_000)):
            at = format_time(datetime.now(UTC) + ahead)
            entry = continued(last, {"release_id": "planted", "at": at, "reserved_at": at})
            with pytest.raises(psycopg.Error, match="dated ahead of the server's clock"):
                did(who, f"SELECT ledger_append('{entry.text}', '{entry.hash}')")
        fast = datetime.now(UTC) + timedelta(hours=2)
        with (
            Ledger.connect(who, clock=lambda now=fast: now) as early,  # type: ignore[misc]
            pytest.raises(StorageFailed, match=r"dated ahead of the server's clock; set the clock"),
        ):
            reserve(early, "r2")
    assert books.head() == before
    slightly = datetime.now(UTC) + timedelta(minutes=AHEAD_MINUTES - 1)
    with Ledger.connect(log_in("writer"), clock=lambda: slightly) as early:
        reserve(early, "r2")
    reserve(books, "r3")
    books.verify()


def test_no_role_charges_or_opens_an_account_behind_the_servers_clock(place: Path) -> None:
    """The account closed three days ago; a machine whose clock is five days behind thinks it open."""
    now = datetime.now(UTC)
    slow = now - timedelta(days=5)
    with open_books(place, clock=lambda: now - timedelta(days=10)) as owner:
        census(owner, closes_on=(now - timedelta(days=3)).date().isoformat())
        for release in ("r0", "r1"):
            reserve(owner, release)
    with logins(place) as log_in:
        for role in ("writer", "officer"):
            with Ledger.connect(log_in(role), clock=lambda: slow) as ledger:
                with pytest.raises(
                    StorageFailed, match=r"dated behind the server's clock; set the clock of this machine"
                ):
                    reserve(ledger, "r2")
                if role == "writer":  # what happened is recorded all the same
                    finish(ledger, "r0")
                    continue
                with pytest.raises(StorageFailed, match="dated behind the server's clock"):
                    census(ledger, "another")
                ledger.void("r1", "mistake")
                ledger.change_account("census", reason="less", cap=Fraction(1, 2))
        slightly = datetime.now(UTC) - timedelta(minutes=BEHIND_MINUTES - 1)
        with Ledger.connect(log_in("officer"), clock=lambda: slightly) as ledger:
            census(ledger, "another")
            reserve(ledger, "r2", "another")
    with open_books(place) as owner:
        assert owner.verify().charges == 3


def test_after_an_entry_of_the_owners_from_the_future_a_charge_still_takes_its_steps(
    log_in: LogIn, books: Ledger, place: Path
) -> None:
    """What records that something has happened must not fail for a clock."""
    reserve(books)
    fence = books.drawing("r1")
    ahead = datetime.now(UTC) + timedelta(hours=1)
    with open_books(place, clock=lambda: ahead) as owner:
        census(owner, "another")
    with Ledger.connect(log_in("writer"), clock_tolerance=timedelta(hours=2)) as writer:
        assert writer.measured("r1", fence, digest="m").changed_at == format_time(ahead)
        writer.published("r1", fence, digest="p")
        reserve(writer, "r2", "another")  # as the message about a clock that is behind advises
        finish(writer, "r2")
    books.verify()
