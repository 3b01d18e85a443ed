"""Entries that continue the chain and follow from nothing: never gone on from, and refused by the server."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tabularium.ledger import ChainBroken, Entry, Ledger
from tabularium.ledger.composition import Partition
from tabularium.ledger.events import columns, make_entry
from tabularium.ledger.keys import key_id, public_hex
from tabularium.ledger.storage import queries
from tests.ledger.scene import (
    behind_the_triggers,
    both,
    census,
    enrolled,
    finish,
    open_books,
    postgresql,
    reserve,
    verify_entries,
)
from tests.ledger.storage.logins import LogIn

SCOPES = ("account", "period", "product")


def measured(books: Ledger, release_id: str, **content: Any) -> None:
    reserve(books, release_id, **content)
    books.measured(release_id, books.drawing(release_id), digest="m")


@pytest.fixture
def lived(books: Ledger) -> Ledger:
    """An account in which every state of a charge stands, and a second that is seldom used."""
    census(books, "strict", needs_approval=True, approve_exact=True)
    census(books, "closed", closes_on="2020-01-01")
    census(books, "unused")
    reserve(books, "published")
    finish(books, "published")
    reserve(books, "reserved")
    reserve(books, "drawing", product="q", amount=Fraction(1, 20))
    books.drawing("drawing")
    measured(books, "measured")
    for part in ("north", "south"):
        measured(books, part, partition=Partition("zones", part), period="2027")
    measured(books, "review", review=True, period="2028", amount=Fraction(1, 100))
    measured(books, "draft", period="2029", amount=Fraction(1, 100))
    books.submit_draft("draft", 1, digest="d", criteria=("c",))
    books.change_account(
        "census", cap_per_period=Fraction(4, 10), cap_per_product=Fraction(8, 10), reason="x"
    )
    return books


def follow(books: Ledger, release: str, kind: str, **change: Any) -> Entry:
    """A step of a charge as the program would write it where nothing is changed of its sums."""
    entries = list(books.entries())
    body = next(entry.body for entry in reversed(entries) if entry.body.get("release_id") == release)
    body |= {"at": entries[-1].body["at"], "reason": None, "publication_digest": None} | change
    for scope in SCOPES:
        names = ("account", scope) if scope != "account" else ("account",)
        last = next(
            (
                entry.body
                for entry in reversed(entries)
                if all(entry.body.get(name) == body[name] for name in names)
            ),
            {},
        )
        for what in ("reserved", "spent"):
            body[f"{scope}_{what}"] = change.get(f"{scope}_{what}", last.get(f"{scope}_{what}", "0/1"))
    return sealed(books, kind, {name: value for name, value in body.items() if value is not Ellipsis})


def again(books: Ledger, kind: str, **change: Any) -> Entry:
    """The last entry of a kind once more."""
    body = next(entry.body for entry in reversed(list(books.entries())) if entry.body["kind"] == kind)
    return sealed(books, kind, body | {"at": list(books.entries())[-1].body["at"]} | change)


def sealed(books: Ledger, kind: str, fields: dict[str, Any]) -> Entry:
    return make_entry(books.head(), kind, fields["at"], fields)[1]


def new(books: Ledger, release: str = "more", **change: Any) -> Entry:
    """A reservation of nothing that counts anywhere: each forgery says what is wrong beside that."""
    at = list(books.entries())[-1].body["at"]
    begun = {"fence": 0, "measurement_digest": None, "reserved_at": at}
    return follow(books, "published", "reserved", **({"release_id": release} | begun | change))


P = {"publication_digest": "x"}
R = {"reason": "x"}
Forge = Callable[[Ledger], Entry]
WRONG_SUMS: dict[str, tuple[str, Forge]] = {
    **{
        f"{scope}_{what}": (
            f"wrong running sum of its {scope}",
            lambda books, name=f"{scope}_{what}": follow(books, "measured", "published", **P, **{name: "1/100"}),
        )
        for scope in SCOPES
        for what in ("reserved", "spent")
    },
    "voided, and more than itself": (
        "running sum",
        lambda books: follow(books, "reserved", "voided", **R, account_reserved="0/1", account_spent="0/1"),
    ),
    "abandoned, and given back": (
        "running sum",
        lambda books: follow(books, "drawing", "abandoned", **R, account_spent="1/10"),
    ),
    "withheld, and given back": ("", lambda books: follow(books, "draft", "withheld", account_spent="0/1")),
    "a note that gives back": (
        "running sum",
        lambda books: again(books, "drafted", release="measured", account_spent="0/1"),
    ),
    "a cap that gives back": ("running sum", lambda books: again(books, "terms", cap="2/1", account_spent="0/1")),
    "a part": (
        "running sum of its part",
        lambda books: follow(books, "north", "published", **P, part_spent="0/1"),
    ),
    "a group that costs nothing": (
        "running sum",
        lambda books: follow(books, "north", "published", **P, account_spent="0/1"),
    ),
    "a new charge that counts nowhere": ("running sum|passes the cap", new),
    "a new charge of another account": ("running sum", lambda books: new(books, account="unused")),
    "more than the cap": (
        "passes the cap of its account",
        lambda books: new(
            *(books,), account="unused", amount="3/2", account_reserved="3/2", period_reserved="3/2", product_reserved="3/2"
        ),
    ),
    "more than the period's": (
        "passes the cap of its period",
        lambda books: new(
            *(books, "more"), product="r", period="2031", amount="9/20", period_reserved="9/20",
            product_reserved="9/20", **counted(books, Fraction(9, 20)),
        ),
    ),
    "more than the product's": (
        "passes the cap of its product",
        lambda books: new(
            *(books, "more"), period="2031", amount="7/20", period_reserved="7/20",
            product_reserved=plus(books, "product", Fraction(7, 20)), **counted(books, Fraction(7, 20)),
        ),
    ),
}  # fmt: skip
NO_STEP: dict[str, tuple[str, Forge]] = {
    "no multiple": (
        "no multiple",
        lambda books: new(
            *(books,), account="unused", amount="1/17", account_reserved="1/17", period_reserved="1/17", product_reserved="1/17"
        ),
    ),
    "closed": (
        "not open at that time",
        lambda books: new(
            *(books,), account="closed", account_reserved="1/10", period_reserved="1/10", product_reserved="1/10"
        ),
    ),
    "published twice": (
        "after the charge's last|state does not allow",
        lambda books: follow(books, "published", "published", **P, account_spent="0/1"),
    ),
    "reserved twice": ("state does not allow", lambda books: follow(books, "reserved", "reserved")),
    "measured, never drawn": (
        "state does not allow",
        lambda books: follow(books, "reserved", "measured", measurement_digest="m"),
    ),
    "published, never measured": (
        "state does not allow",
        lambda books: follow(books, "drawing", "published", **P),
    ),
    "never reserved": (
        "state does not allow",
        lambda books: follow(books, "drawing", "measured", release_id="more", measurement_digest="m"),
    ),
    "the fence": (
        "may not change",
        lambda books: follow(books, "drawing", "measured", measurement_digest="m", fence=2),
    ),
    "the same fence": ("may not change", lambda books: follow(books, "drawing", "drawing")),
    **{
        name: ("may not change", lambda books, change={name: value}: follow(books, "measured", "published", **P, **change))
        for name, value in {
            "amount": "1/20",
            "exact": True,
            "review": True,
            "spec_digest": "t",
            "revises": "x",
            "reserved_at": "2020-01-01T00:00:00.000000Z",
            "measurement_digest": "n",
            "reason": "x",
        }.items()
    },
    "no review any more": (
        "may not change",
        lambda books: follow(books, "review", "published", **P, review=False),
    ),
    "the part": ("may not change|part", lambda books: follow(books, "north", "published", **P, part="south")),
    "made from what is not published": (
        "is made from measurements",
        lambda books: follow(
            *(books, "published", "remade"), release_id="more", measurements_of="measured", amount="0/1",
            revises="x", reserved_at=list(books.entries())[-1].body["at"],
        ),
    ),
    "an account twice": (
        "opens an account that is open|wrong running sum",
        lambda books: again(books, "account", account="census"),
    ),
    "an unknown account": ("never opened", lambda books: new(books, account="nobody")),
    "a field too much": ("malformed", lambda books: follow(books, "measured", "published", **P, more=1)),
    "a field too few": ("malformed", lambda books: follow(books, "measured", "published", **P, statement=...)),
}  # fmt: skip
#: What hangs on more than the last entries: the server refuses it, and verification sees it.
NOT_ALLOWED: dict[str, tuple[str, Forge]] = {
    "without approval": (
        "no officer has approved",
        lambda books: new(
            *(books,), account="strict", account_reserved="1/10", period_reserved="1/10", product_reserved="1/10"
        ),
    ),
    "beside a review": (
        "no officer has approved",
        lambda books: new(
            *(books,), period="2028", spec_digest="t", period_reserved="1/10",
            product_reserved=plus(books, "product", Fraction(1, 10)), **counted(books, Fraction(1, 10)),
        ),
    ),
    "published without review": (
        "publishes what no officer has accepted",
        lambda books: follow(books, "review", "published", **P),
    ),
    "a draft published": (
        "ends a draft without",
        lambda books: follow(books, "draft", "published", publication_digest="d"),
    ),
    "a draft given up": ("ends a draft without", lambda books: follow(books, "draft", "abandoned", **R)),
    "a draft twice": ("a second time", lambda books: again(books, "drafted")),
    "a draft of what is drawn": (
        "of what is not measured",
        lambda books: again(books, "drafted", release="drawing"),
    ),
}  # fmt: skip
EVERY = WRONG_SUMS | NO_STEP | NOT_ALLOWED


def counted(books: Ledger, amount: Fraction) -> dict[str, str]:
    return {"account_reserved": plus(books, "account", amount)}


def plus(books: Ledger, scope: str, amount: Fraction) -> str:
    sums = books.sums("census", product="p" if scope == "product" else None)
    after = sums.reserved + amount
    return f"{after.numerator}/{after.denominator}"


def plant(books: Ledger, entry: Entry) -> None:
    """Write an entry as whoever may write to the tables."""
    with books._transactions.database.write() as connection:
        queries.insert(connection, [(entry, columns(entry.body))])


@both
def test_nobody_goes_on_from_an_entry_that_does_not_follow(lived: Ledger, place: Path) -> None:
    """Whoever may write to the tables put it there: nothing is charged, and nothing shown."""
    before, account = list(lived.entries()), lived.account("census")
    for wrong, forge in (WRONG_SUMS | NO_STEP).values():
        entry = forge(lived)
        wanted = f"entry {entry.seq} .*({wrong})"
        with pytest.raises(ChainBroken, match=wanted):
            verify_entries([*before, entry])
        plant(lived, entry)
        with open_books(place) as books:
            for step in (
                lambda books=books: reserve(books, "next"),
                lambda books=books: books.account("census"),
                lambda books=books: books.accounts(),
                lambda books=books, entry=entry: books.balance(entry.body["account"]),
            ):
                with pytest.raises(ChainBroken, match=wanted):
                    step()
        with pytest.raises(ChainBroken, match=wanted):  # by who had it open before, too
            reserve(lived, "next", entry.body["account"], period=entry.body.get("period", "2026"))
        behind_the_triggers(place, f"DELETE FROM entries WHERE seq = {entry.seq}")
    with open_books(place) as books:
        assert books.account("census") == account
        reserve(books, "next", account="unused")
        books.verify()


def test_what_follows_from_a_forged_entry_does_not_hide_it(lived: Ledger, place: Path) -> None:
    lived.change_account("census", cap_per_period=None, cap_per_product=None, reason="x")
    plant(lived, follow(lived, "published", "published", **P, account_spent="0/1"))
    plant(lived, new(lived, account_reserved="1/5", period_reserved="1/5", product_reserved="1/5"))
    with open_books(place) as books:
        for step in (lambda: reserve(books, "next", account="unused"), lambda: books.account("unused")):
            with pytest.raises(ChainBroken, match="entry 30 takes a step"):
                step()


@postgresql
@pytest.mark.parametrize("role", ["writer", "officer"])
def test_the_server_refuses_an_entry_that_does_not_follow(lived: Ledger, log_in: LogIn, role: str) -> None:
    before = list(lived.entries())
    with psycopg.connect(log_in(role).replace("+psycopg", ""), autocommit=True) as connection:
        for name, (wrong, forge) in EVERY.items():
            entry = forge(lived)
            with pytest.raises(ChainBroken, match=f"entry {entry.seq} .*({wrong})"):
                verify_entries([*before, entry])
            with pytest.raises(psycopg.Error) as refused:
                connection.execute("SELECT ledger_append(%s, %s)", (entry.text, entry.hash))
            message = str(refused.value.diag.message_primary)
            official = entry.body["kind"] in ("voided", "withheld", "terms", "account")
            assert re.search(wrong, message) or (role == "writer" and official), (name, message)
            assert refused.value.sqlstate == "TB005" or (role == "writer" and official), (name, message)
    assert list(lived.entries()) == before
    with Ledger.connect(log_in("writer")) as writer:
        finish(writer, "reserved")
        writer.published("north", 1, digest="x")
    lived.verify()


@postgresql
def test_the_server_refuses_an_entry_that_is_written_otherwise(lived: Ledger, log_in: LogIn) -> None:
    before = lived.head()
    last = follow(lived, "measured", "published", publication_digest="\U0001fae9 é\\")
    hash_ = "encode(sha256(convert_to(%s, 'UTF8')), 'hex')"
    with psycopg.connect(log_in("writer").replace("+psycopg", ""), autocommit=True) as connection:
        for old, new_ in (
            ('"fence":1', '"fence":1,"fence":1'),
            ('"fence":1', '"fence": 1'),
            ('"fence":1', '"fence":1.0'),
            ('"measured"', '"m\\u0065asured"'),
            ('"m"', '"é"'),
            ("\\u00e9", "\\u00E9"),
            ("\\u00e9", "e\\u0301"),
            ("\\u00e9", "\\u00e9\\u2028"),
            ("\\\\", "\\u00a0"),
        ):
            text = last.text.replace(old, new_)
            assert text != last.text
            with pytest.raises(psycopg.Error, match=r"canonical|malformed|what its step"):
                connection.execute(f"SELECT ledger_append(%s, {hash_})", (text, text))
        assert lived.head() == before
        connection.execute("SELECT ledger_append(%s, %s)", (last.text, last.hash))
    lived.verify()


@postgresql
def test_the_server_counts_the_officers_who_must_sign(lived: Ledger, log_in: LogIn) -> None:
    """For a charge of a writer's, and for what is published: each once, by keys that still count."""
    first = enrolled(lived)
    second, again, third = (enrolled(lived, officer, first) for officer in ("B. Ito", "A. Ro", "C. Li"))
    census(lived, "two", approvals_by_product={"p": 2}, by=first)
    approve = partial(lived.approve, "two", "s", product="p")
    sums = dict.fromkeys((f"{scope}_reserved" for scope in SCOPES), "1/10")

    def told(connection: psycopg.Connection, entry: Entry) -> str:  # type: ignore[type-arg]
        try:
            with connection.transaction(force_rollback=True):
                connection.execute("SELECT ledger_append(%s, %s)", (entry.text, entry.hash))
        except psycopg.Error as error:
            return str(error.diag.message_primary)
        return "taken"

    tenth, fewer, none = Fraction(1, 10), "fewer officers than must have approved", "no officer has approved"
    with psycopg.connect(log_in("writer").replace("+psycopg", ""), autocommit=True) as connection:
        for decide, wanted in (
            (lambda: None, fewer),
            (lambda: approve(by=first), fewer),
            (lambda: approve(by=again), fewer),
            (lambda: approve(by=second, amount=tenth), fewer),
            (lambda: approve(by=first, amount=tenth), "taken"),
            (lambda: lived.revoke_key(key_id(public_hex(second)), reason="left", by=first), fewer),
            (lambda: approve(by=third, amount=tenth), "taken"),
            (lambda: approve(by=third, amount=tenth / 2), fewer),
            (lambda: approve(by=first, amount=tenth / 2), none),
            (lambda: lived.unapprove("two", "s", by=first, reason="an error"), "charges for a spec that"),
            (lambda: approve(by=first), fewer),
            (lambda: approve(by=third), "taken"),
        ):
            decide()
            assert wanted in told(connection, new(lived, account="two", **sums))
        census(lived, "strict for p", needs_approval=True, by=first)
        lived.approve("strict for p", "s", by=first, product="p")
        for product, wanted in (("q", "another product"), ("p", "taken")):
            assert wanted in told(connection, new(lived, account="strict for p", product=product, **sums))
        measured(lived, "reviewed", account="two", amount=Fraction(1, 100))
        lived.submit_draft("reviewed", 1, digest="d", criteria=("c",))
        for by, wanted in ((first, "ends a draft without"), (third, "taken")):
            lived.accept("reviewed", draft="d", by=by)
            assert wanted in told(connection, follow(lived, "reviewed", "published", publication_digest="d"))
        assert "publishes something else" in told(connection, follow(lived, "reviewed", "published", **P))
    lived.verify()
