"""Every field of every kind of entry, forged: verification refuses it there, and so does the server."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from operator import attrgetter
from pathlib import Path

import psycopg
import pytest

from tabularium.ledger import ChainBroken, Entry, Ledger, rules
from tabularium.ledger.events import FIXED, ChargeStep, NotAnEntry, parse
from tabularium.ledger.export import MAGIC, _last_line, verify_export
from tabularium.ledger.records import Head
from tabularium.ledger.verify import Verification
from tests.ledger.chain.one_life import Mutation, live, mutations
from tests.ledger.scene import open_books, postgresql, url
from tests.ledger.storage.logins import logins
from tests.sizes import full

SAID_FIRST = "nothing before says it; later entries are held to it"
UNSIGNED = "a person's words, where there is no key to sign them with"
#: What an entry may say freely, kind -> (fields, why).
FREE: dict[str, tuple[set[str], str]] = {
    "account": (
        {
            *("account", "approve_exact", "cap", "cap_per_period", "cap_per_product", "closes_on", "delta"),
            *("needs_approval", "population", "quantum", "relation", "unit"),
            *("approvals", "approvals_by_product"),
        },
        "terms are agreed while no officer has a key; every charge is held to them",
    ),
    "terms": (
        {
            "approvals",
            "approvals_by_product",
            "approve_exact",
            "cap",
            "cap_per_period",
            "cap_per_product",
            "closes_on",
            "needs_approval",
            "reason",
        },
        "as those of an account",
    ),
    "reserved": (
        {
            *(
                "account",
                "contributions",
                "exact",
                "group",
                "part",
                "period",
                "product",
                "release_id",
                "review",
            ),
            *("revises", "spec_digest"),
        },
        SAID_FIRST,
    ),
    "remade": ({"exact", "release_id", "review", "revises"}, SAID_FIRST),
    "measured": ({"measurement_digest"}, SAID_FIRST),
    "published": ({"publication_digest", "statement"}, SAID_FIRST),
    "drafted": ({"criteria", "draft"}, SAID_FIRST),
    "retired": ({"account", "reason"}, UNSIGNED),
    "abandoned": ({"reason"}, UNSIGNED),
    "voided": ({"reason"}, UNSIGNED),
    "attempts": ({"reason"}, UNSIGNED),
}
APPEND = "SELECT ledger_append(%s, %s)"
#: The time of an entry is its writer's clock's; that it is no older than the one before is verified.
CLOCK = "at"


def is_free(kind: str, field: str) -> bool:
    return field == CLOCK or field in FREE.get(kind, (set(), ""))[0]


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> list[Entry]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("life")
        patch.setenv("TABULARIUM_WITNESS", str(folder / "witnesses"))
        return live(folder)


def tried(
    lived: list[Entry], most: int = 2, field: str | None = None, stride: int = 1
) -> Iterator[tuple[Entry, Mutation, bool]]:
    """Go through mutations, each with the entry that it is of, and whether verification takes it."""
    verification = Verification()
    for place, entry in enumerate(lived):
        state = pickle.dumps(verification)
        for number, each in enumerate(mutations(lived, place, most)):
            if (number + place) % stride or field not in (None, each.field):
                continue
            yield entry, each, is_taken(state, each.entry)
        verification.take(entry.seq, entry.prev, entry.hash, entry.text)


def is_taken(state: bytes, entry: Entry) -> bool:
    """Whether verification takes an entry; one that it refuses is named by its number."""
    with suppress(NotAnEntry):
        parse(entry.text)
        verification = pickle.loads(state)
        try:
            verification.take(entry.seq, entry.prev, entry.hash, entry.text)
        except ChainBroken as error:
            assert str(error).startswith(f"ledger: entry {entry.seq} "), error
            return False
        return True
    return False  # it is asked so often that the state is not read for what is no entry at all


def test_a_forged_field_is_refused_at_its_entry(lived: list[Entry]) -> None:
    number: Counter[str] = Counter()
    free = set()
    for entry, each, taken in tried(lived, 6 if full() else 2):
        kind = entry.body["kind"]
        number[kind] += 1
        assert not taken or is_free(kind, each.field), (kind, each)
        if taken:
            free.add((kind, each.field))
    assert number.total() > 5000 and min(number.values()) > 20
    stale = {(kind, field) for kind, (fields, _why) in FREE.items() for field in fields} - free
    assert not stale, "these are bound, and no longer free"


@pytest.mark.parametrize("field", ["review", "exact", "revises", "reserved_at"])
def test_a_field_that_nothing_binds_is_noticed(
    lived: list[Entry], monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    """The matrix can fail: what is bound by one comparison alone is left out of it."""
    bound = [name for name in FIXED if name in ChargeStep.model_fields and name != field]
    monkeypatch.setattr(rules, "_PLAIN", attrgetter(*bound))
    unbound = {entry.body["kind"] for entry, _each, taken in tried(lived, field=field) if taken}
    assert unbound >= {"drawing", "measured", "published"}


def test_an_export_with_a_forged_field_is_refused_at_its_entry(lived: list[Entry], tmp_path: Path) -> None:
    """Every hash and its last line are those of what it holds."""
    for place, entry in enumerate(lived):
        bad = [each for each in mutations(lived, place, 1) if not is_free(entry.body["kind"], each.field)]
        for each in bad if full() else (bad[place % len(bad)], bad[-1]):
            file = written(tmp_path / "books.txt", [*lived[:place], each.entry])
            with pytest.raises(ChainBroken, match=rf"entry {place + 1} "):
                verify_export(file)
    assert verify_export(written(tmp_path / "books.txt", lived)).entries == len(lived)


def written(path: Path, entries: list[Entry]) -> Path:
    lines = MAGIC + b"".join(f"{entry.hash} {entry.text}\n".encode() for entry in entries)
    last = Head(entries[-1].seq, entries[-1].hash)
    path.write_bytes(lines + _last_line(last, sha256(lines).hexdigest()))
    return path


@postgresql
def test_the_server_takes_the_life_and_refuses_what_is_forged_of_it(lived: list[Entry], place: Path) -> None:
    """What verification refuses of a writer's entries, the server does; the rest is an officer's to write."""
    taken, done = [], 0
    open_books(place).close()
    with logins(place) as log_in:
        writer = log_in("writer").replace("+psycopg", "")
        with (
            psycopg.connect(url(place).replace("+psycopg", ""), autocommit=True) as owner,
            psycopg.connect(writer, autocommit=True) as connection,
        ):

            def take(until: int) -> None:
                for entry in lived[owned(owner) : until]:
                    owner.execute(APPEND, (entry.text, entry.hash))

            for entry, each, fits in tried(lived, 1, stride=1 if full() else 11):
                if fits:
                    continue
                take(entry.seq - 1)
                done += 1
                state = refusal(connection, each.entry)
                if state == "TB006":  # the life may be some minutes old: who is no writer is held to no clock
                    state = refusal(owner, each.entry)
                assert state is None or state.startswith(("TB", "22")), (each, state)
                if state is None:
                    taken.append((entry.body["kind"], each))
            take(len(lived))
    assert not taken, taken[:5]
    assert done > 300
    with Ledger.connect(url(place)) as books:
        assert [entry.hash for entry in books.entries()] == [entry.hash for entry in lived]
        books.verify()


def refusal(connection: psycopg.Connection, entry: Entry) -> str | None:  # type: ignore[type-arg]
    """With what SQLSTATE a server refuses an entry; whatever it says, nothing is appended."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(APPEND, (entry.text, entry.hash))
    except psycopg.Error as error:
        return str(error.sqlstate)
    return None


def owned(owner: psycopg.Connection) -> int:  # type: ignore[type-arg]
    """How many entries a server holds."""
    row = owner.execute("SELECT count(*) FROM entries").fetchone()
    assert row is not None
    return int(row[0])
