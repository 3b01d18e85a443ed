"""The exported ledger: verified without the database, whatever is done to it is seen, and it can be put back."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from hashlib import sha256
from pathlib import Path

import pytest

from benchmarks.bench_ledger import damage
from tabularium.ledger import (
    ChainBroken,
    Conflict,
    Entry,
    Head,
    Ledger,
    LedgerError,
    ReadOnly,
    StorageFailed,
)
from tabularium.ledger.export import MAGIC, _last_line, export, migrate, restore, verify_export
from tabularium.ledger.records import release_keys_of
from tests.ledger.long_chain import write_export
from tests.ledger.one_life import FIRST
from tests.ledger.scene import (
    both,
    census,
    enrolled,
    finish,
    forget_witnesses,
    open_books,
    reserve,
    url,
    witness_file,
)
from tests.sizes import runs


@pytest.fixture
def small(books: Ledger) -> Ledger:
    """A key, an approval, a partition and a published charge among eight entries."""
    officer = enrolled(books)
    books.approve("census", "s", by=officer)
    reserve(books, "r1", product="Größe")
    finish(books, "r1")
    return books


def test_an_export_says_what_the_ledger_says(small: Ledger, place: Path) -> None:
    file = place / "books.txt"
    assert export(small, file) == small.head()
    assert verify_export(file) == small.verify()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.read_bytes().isascii()
    with pytest.raises(Conflict, match="there already"):
        export(small, file)
    verify_export(file, [Head(3, list(small.entries())[2].hash)])
    with pytest.raises(ChainBroken, match="entry 3 is not the one"):
        verify_export(file, [Head(3, "0" * 64)])
    with pytest.raises(ChainBroken, match="lacks entry 99"):
        verify_export(file, [Head(99, "0" * 64)])
    with pytest.raises(StorageFailed):
        verify_export(place / "nowhere.txt")


def test_every_changed_byte_of_an_export_is_found(small: Ledger, place: Path) -> None:
    file = place / "books.txt"
    export(small, file)
    whole, chance = file.read_bytes(), random.Random(7)
    # Every third usually: each kind of field has many.
    for position in range(0, len(whole), runs(3, 1)):
        changed = bytearray(whole)
        changed[position] ^= chance.choice([1, 2, 4, 8, 16, 32, 64, 128, 255])
        with pytest.raises(ChainBroken):
            check(file, bytes(changed))
    check(file, whole)


def test_deleted_and_inserted_bytes_and_cuts_are_found(small: Ledger, place: Path) -> None:
    file = place / "books.txt"
    export(small, file)
    whole = file.read_bytes()
    for position in range(0, len(whole), runs(7, 3)):
        without = whole[:position] + whole[position + 1 :]
        doubled = whole[: position + 1] + whole[position:]
        for changed in (whole[:position], without, *([doubled] if position % 5 == 0 else [])):
            with pytest.raises(ChainBroken):
                check(file, changed)
    for more in (b"\n", b"x", whole):
        with pytest.raises(ChainBroken):
            check(file, whole + more)


def test_every_omission_exchange_and_repetition_of_lines_is_found(small: Ledger, place: Path) -> None:
    file = place / "books.txt"
    export(small, file)
    lines = file.read_bytes().splitlines(keepends=True)
    for first in range(len(lines)):
        with pytest.raises(ChainBroken):
            check(file, b"".join(lines[:first] + lines[first + 1 :]))
        with pytest.raises(ChainBroken):
            check(file, b"".join(lines[: first + 1] + lines[first:]))
        for second in range(first + 1, len(lines)):
            swapped = [*lines]
            swapped[first], swapped[second] = swapped[second], swapped[first]
            with pytest.raises(ChainBroken):
                check(file, b"".join(swapped))


def check(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    verify_export(file)


def test_random_damage_to_a_long_export_is_found(place: Path) -> None:
    file, chance = place / "long.txt", random.Random(11)
    head = write_export(file, 1500)
    assert verify_export(file).head == head
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)

    def byte() -> bytes:
        changed = bytearray(whole)
        changed[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
        return bytes(changed)

    def cut() -> bytes:
        return whole[: chance.randrange(len(whole))]

    def omitted() -> bytes:
        place = chance.randrange(len(lines))
        return b"".join(lines[:place] + lines[place + 1 :])

    def exchanged() -> bytes:
        one, two = sorted(chance.sample(range(len(lines)), 2))
        return b"".join([*lines[:one], lines[two], *lines[one + 1 : two], lines[one], *lines[two + 1 :]])

    damages: list[Callable[[], bytes]] = [byte, cut, omitted, exchanged]
    for number in range(runs(24, 60)):
        with pytest.raises(ChainBroken):
            check(file, damages[number % 4]())


@both
def test_an_export_is_restored_into_an_empty_database(small: Ledger, place: Path) -> None:
    file, other = place / "books.txt", place / "other"
    export(small, file)
    with pytest.raises(Conflict, match="holds entries already"):
        restore(file, url(place))
    other.mkdir()
    assert restore(file, url(other)) == small.verify()
    with open_books(other) as again:
        assert again.charge("r1") == small.charge("r1")
        assert witness_file(other).exists()
        with pytest.raises(ReadOnly, match="put back from a backup"):
            reserve(again, "r2")
        again.verify()
    damaged = place / "damaged.txt"
    damaged.write_bytes(file.read_bytes().replace(b"person", b"people"))
    third = place / "third"
    third.mkdir()
    with pytest.raises(ChainBroken):
        restore(damaged, url(third))
    with open_books(third) as empty:
        assert empty.head().seq == 0


def test_an_export_older_than_a_known_head_is_not_restored(small: Ledger, place: Path) -> None:
    file = place / "books.txt"
    export(small, file)
    reserve(small, "later")
    newest = small.head()
    small.close()
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        (place / "books" / name).unlink(missing_ok=True)
    with pytest.raises(ChainBroken, match=f"lacks entry {newest.seq}"):
        restore(file, url(place))  # the witness remembers
    witness_file(place).unlink()
    with pytest.raises(ChainBroken, match=f"lacks entry {newest.seq}"):
        restore(file, url(place))  # the one in the folder of witnesses does
    forget_witnesses(place)
    with pytest.raises(ChainBroken, match=f"lacks entry {newest.seq}"):
        restore(file, url(place), [newest])  # a certificate does
    assert restore(file, url(place)).head.seq == newest.seq - 1


def test_an_altered_entry_is_exported_and_then_named(place: Path) -> None:
    from tests.ledger.scene import behind_the_triggers

    with open_books(place) as books:
        census(books)
        reserve(books, amount=Fraction(1, 10))
        behind_the_triggers(place, "UPDATE entries SET body = replace(body, '1/10', '1/20') WHERE seq = 2")
        with pytest.raises(ChainBroken, match="entry 2 has been altered; every entry was written to"):
            export(books, place / "books.txt")
        with pytest.raises(ChainBroken, match="entry 2 has been altered"):
            verify_export(place / "books.txt")
        behind_the_triggers(place, "UPDATE entries SET body = replace(body, '1/20', '1/10') WHERE seq = 2")
        behind_the_triggers(place, "UPDATE entries SET seq = 9 WHERE seq = 2")
        with pytest.raises(ChainBroken, match="entry 9 has been altered"):
            export(books, place / "moved.txt")
        behind_the_triggers(place, "UPDATE entries SET body = body || 'é' WHERE seq = 9")
        with pytest.raises(LedgerError):
            export(books, place / "more.txt")
        assert not (place / "more.txt").exists()
        assert not list(place.glob(".more*"))


@both
def test_a_whole_life_goes_through_an_export(lived: list[Entry], place: Path) -> None:
    """Drafts, withdrawals, approvals, keys and terms with it: everything is read from the entries."""
    lines = MAGIC + b"".join(f"{entry.hash} {entry.text}\n".encode() for entry in lived)
    file = place / "life.txt"
    file.write_bytes(lines + _last_line(lived[-1].head, sha256(lines).hexdigest()))
    told: list[Entry] = []
    found = verify_export(file, see=told.append)
    assert told == lived
    restore(file, url(place))
    assert migrate(url(place)).fault is None
    with open_books(place) as books:
        books.confirm(lived[-1].hash, by=FIRST)
        assert [*books.entries()][: len(lived)] == lived
        assert books.verify().entries == found.entries + 2
        assert books.release_keys() == release_keys_of(entry.body for entry in lived)
        assert (books.draft("accepted") or pytest.fail()).accepted and books.withdrawal("r1") is not None


@pytest.mark.audit
def test_a_thousand_damages_of_a_long_export_are_seen(tmp_path: Path) -> None:
    """Full size of what is tried above on a short one."""
    damage(tmp_path, entries=20_000, times=1000)
