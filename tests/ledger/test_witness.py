"""The witness, and what happens to a ledger that is older than it."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import psycopg
import pytest

from tabularium.ledger import BudgetExhausted, ChainBroken, Head, Ledger, ReadOnly, StorageFailed
from tabularium.ledger.export import export
from tabularium.ledger.export import restore as restored
from tabularium.ledger.witness import HeadFile, Witness, WitnessDamaged
from tests.ledger.scene import (
    behind_the_triggers,
    both,
    database,
    forget_witnesses,
    open_books,
    postgresql,
    reserve,
    url,
    witness_file,
)
from tests.ledger.storage.postgres import Server


@pytest.fixture
def witness(place: Path) -> HeadFile:
    return HeadFile(place / "witness", wait=0.1)


def head(seq: int) -> Head:
    return Head(seq, f"{seq:064x}")


def test_the_witness_only_goes_forward(witness: HeadFile) -> None:
    assert witness.latest() is None
    for seq, stands in [(1, 1), (2, 2), (5, 5), (3, 5), (5, 5), (6, 6)]:
        witness.append(head(seq))
        assert witness.latest() == head(stands)


def test_the_disk_is_told_by_the_first_entry_once_a_second_and_at_the_end(
    witness: HeadFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[int] = []
    now = [100.0]
    monkeypatch.setattr("tabularium.ledger.witness.files.sync_data", told.append)
    monkeypatch.setattr("tabularium.ledger.durable_files.os.fsync", told.append)
    witness.path.write_bytes(b"%020d %064x\n" % (0, 0))
    monkeypatch.setattr("tabularium.ledger.witness.time.monotonic", lambda: now[0])
    for seq, seconds, syncs in [(1, 0.0, 1), (2, 0.4, 1), (3, 0.4, 1), (4, 0.4, 2), (5, 0.1, 2)]:
        now[0] += seconds
        witness.append(head(seq))
        assert (witness.latest(), len(told)) == (head(seq), syncs)
    witness.keep()
    witness.keep()
    assert len(told) == 3, "once, and not again where nothing was written since"


def test_a_torn_line_is_passed_over_and_the_next_one_stands_by_itself(witness: HeadFile) -> None:
    for seq in (1, 2):
        witness.append(head(seq))
    whole = witness.path.read_bytes()
    assert whole == b"".join(b"%020d %064x\n" % (seq, seq) for seq in (1, 2))
    for length in range(len(whole) // 2, len(whole)):
        for lost in (b"", bytes(100), bytes(5000)):  # a disk may give back zeros for what was never synced
            witness.path.write_bytes(whole[:length] + lost)
            assert witness.latest() == head(1 if length < len(whole) - 1 or lost else 2)
            witness.append(head(3))
            assert witness.latest() == head(3)


def test_a_file_whose_end_no_torn_write_leaves_is_damaged(witness: HeadFile) -> None:
    assert witness.latest() is None
    witness.append(head(1))
    first = witness.path.read_bytes()
    witness.append(head(2))
    whole = witness.path.read_bytes()
    flipped = [whole[:place] + bytes([whole[place] ^ 64]) + whole[place + 1 :] for place in (90, 120, 170)]
    for content in (b"", first[:-2], b"\n", bytes(86), b"#" * 8192, first + b"#" * 600 + b"\n", *flipped):
        witness.path.write_bytes(content)
        with pytest.raises(WitnessDamaged):
            witness.latest()
        with pytest.raises(WitnessDamaged):
            witness.append(head(3))
    assert {path.name for path in witness.path.parent.iterdir()} <= {witness.path.name, "url"}


@both
def test_a_damaged_witness_stops_new_entries(books: Ledger, place: Path) -> None:
    witness_file(place).write_bytes(b"#" * 8192)
    with pytest.raises(WitnessDamaged):
        HeadFile(witness_file(place), wait=0.1).latest()
    with pytest.raises(ReadOnly, match="damaged"):
        reserve(books)
    with open_books(place) as again, pytest.raises(ReadOnly, match="damaged"):
        reserve(again)


@both
def test_the_witness_names_the_head_after_every_commit(books: Ledger, place: Path) -> None:
    witness = HeadFile(witness_file(place), wait=0.1)
    for release in ("r1", "r2"):
        reserve(books, release)
        assert witness.latest() == books.head()


@both
def test_a_witness_behind_the_ledger_is_harmless(books: Ledger, place: Path) -> None:
    """As after a crash between the commit and the witness."""
    before = witness_file(place).read_bytes()
    reserve(books)
    witness_file(place).write_bytes(before)
    with open_books(place) as again:
        assert again.read_only is None
        reserve(again, "r2")
        again.verify()
    witness_file(place).unlink()
    with open_books(place) as again:
        reserve(again, "r3")
    assert witness_file(place).exists()


@both
def test_a_charge_between_the_witness_and_the_view_is_no_old_copy(
    books: Ledger, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process charges just before the witness is read: what is read then must be seen."""
    read, charged = Witness.heads, []

    def heads(witness: Witness, first: str) -> list[Head]:
        if not charged:
            charged.append(True)
            reserve(books)
        return read(witness, first)

    monkeypatch.setattr(Witness, "heads", heads)
    with open_books(place) as again:
        assert charged
        assert again.read_only is None


def backup(books: Ledger, place: Path) -> str:
    """Copy the database as it stands, with nobody connected; return the copy's name."""
    books.close()  # the last connection leaves everything in the one file
    if (place / "url").exists():
        name = url(place).rpartition("/")[2]
        statements(place, f"CREATE DATABASE {name}_copy TEMPLATE {name}")
        return f"{name}_copy"
    return str(shutil.copy(database(place), place / "backup.db"))


def restore(copy: str, place: Path) -> None:
    if (place / "url").exists():
        name = url(place).rpartition("/")[2]
        statements(place, f"DROP DATABASE {name} WITH (FORCE)", f"ALTER DATABASE {copy} RENAME TO {name}")
        return
    for name in ("ledger.db", "ledger.db-wal", "ledger.db-shm"):
        database(place).with_name(name).unlink(missing_ok=True)
    shutil.copy(copy, database(place))


def statements(place: Path, *statements: str) -> None:
    server = url(place).replace("+psycopg", "").rpartition("/")[0]
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)  # type: ignore[call-overload]


@both
def test_a_restored_old_backup_opens_read_only(books: Ledger, place: Path) -> None:
    copy = backup(books, place)
    reserve(books)
    books.close()
    restore(copy, place)
    with open_books(place) as again:
        assert again.read_only == (
            "it lacks entry 2 as the witness file names it, so it is an old copy or another ledger"
        )
        assert again.balance("census") == 1
        before = again.head()
        with pytest.raises(ReadOnly, match="lacks entry 2 as the witness"):
            reserve(again)
        with pytest.raises(ReadOnly):
            again.open_account("x", unit="person", relation="replace", definition="pure", cap=1)  # type: ignore[arg-type]
        assert again.head() == before
        with pytest.raises(ChainBroken, match="lacks entry 2"):
            again.verify()


@both
def test_heads_from_elsewhere_make_an_old_ledger_read_only(books: Ledger, place: Path) -> None:
    copy = backup(books, place)
    old = books.head()
    reserve(books)
    known = books.head()
    books.close()
    restore(copy, place)
    forget_witnesses(place)
    heads = [old, (known.seq, known.hash)]
    named = "lacks entry 2 as a measurement file, certificate or head file"
    with open_books(place, known_heads=heads) as again, pytest.raises(ReadOnly, match=named):
        reserve(again)
    with open_books(place, known_heads=[old]) as again:
        assert again.read_only is None


def test_of_two_copies_of_a_file_one_goes_on(books: Ledger, place: Path) -> None:
    """Each has its own witness beside it; the folder of witnesses has the chain's."""
    reserve(books, "r0")
    books.close()
    shutil.copytree(place / "books", place / "two" / "books")
    reserve(books, "a", amount=Fraction(7, 10))
    with open_books(place / "two") as copy, pytest.raises(ReadOnly, match="lacks entry 3"):
        reserve(copy, "b", amount=Fraction(7, 10))


def test_a_folder_of_witnesses_that_is_named_later_knows_from_the_next_entry_on(
    books: Ledger, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing before: what stands beside the file may be of another ledger, as a turn that is refused shows."""
    monkeypatch.delenv("TABULARIUM_WITNESS")
    with open_books(place) as before:
        reserve(before, "r0")
    monkeypatch.setenv("TABULARIUM_WITNESS", str(place / "later"))
    with open_books(place) as again:
        with pytest.raises(BudgetExhausted):
            reserve(again, "r1", amount=Fraction(99))
        assert not list((place / "later").glob("chain-*.witness"))
        reserve(again, "r1")
        (kept,) = (place / "later").glob("chain-*.witness")
        assert HeadFile(kept, wait=1).latest() == again.head()


@pytest.mark.parametrize("spoilt", ["a file", "no folder of its own", "damaged"])
def test_a_folder_of_witnesses_that_cannot_be_written_stops_before_anything_is_committed(
    books: Ledger, place: Path, monkeypatch: pytest.MonkeyPatch, spoilt: str
) -> None:
    folder = place / "spoilt"
    if spoilt == "a file":
        folder.write_text("")
    elif spoilt == "no folder of its own":
        (folder / f"chain-{next(iter(books.entries())).hash}.witness").mkdir(parents=True)
    else:
        folder.mkdir()
        (folder / f"chain-{next(iter(books.entries())).hash}.witness").write_bytes(b"spoilt" * 2000)
    monkeypatch.setenv("TABULARIUM_WITNESS", str(folder))
    before = books.head()
    with pytest.raises((StorageFailed, ReadOnly)) as refused, open_books(place) as again:
        reserve(again, "r1")
    assert str(folder) in str(refused.value) and "\n" not in str(refused.value)
    assert books.head() == before


def test_whoever_only_reads_needs_no_folder_of_witnesses(
    books: Ledger, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TABULARIUM_WITNESS", str(place / "never made"))
    with open_books(place) as reader:
        assert reader.verify().entries == 1 and reader.balance("census") == 1
    assert not (place / "never made").exists()


def test_a_file_with_two_names_takes_no_entry_under_either(books: Ledger, place: Path) -> None:
    """SQLite names its log after the file: what one name wrote the other would never see."""
    other = place / "two" / "books"
    other.mkdir(parents=True)
    (other / "ledger.db").hardlink_to(database(place))
    with pytest.raises(StorageFailed, match="moved, exchanged or linked to"):
        reserve(books, "a")
    books.close()
    for where in (place, place / "two"):
        with open_books(where) as again:
            with pytest.raises(ReadOnly, match="more than one name"):
                reserve(again, "b")
            with pytest.raises(
                ChainBroken, match="its 1 entries are in order, but its file has more than one"
            ):
                again.verify()
    (other / "ledger.db").unlink()
    with open_books(place) as again:
        assert reserve(again, "c").seq == 2


@both
def test_another_ledger_under_the_same_witness_is_read_only(books: Ledger, place: Path) -> None:
    copy = backup(books, place)
    restore(copy, place)
    behind_the_triggers(place, "DELETE FROM entries")
    with open_books(place) as new, pytest.raises(ReadOnly, match="lacks entry 1"):
        new.open_account("census", unit="person", relation="replace", definition="pure", cap=1)  # type: ignore[arg-type]


def test_a_ledger_exchanged_under_a_running_process_takes_no_entry(books: Ledger, place: Path) -> None:
    copy = backup(books, place)
    reserve(books)
    restore(copy, place)
    with pytest.raises(StorageFailed, match="exchanged"):
        reserve(books, "r2")
    database(place).unlink()
    with pytest.raises(StorageFailed, match="exchanged"):
        reserve(books, "r2")


def other_name(place: Path) -> str:
    """Another URL of the same ledger."""
    return url(place).replace("127.0.0.1", "localhost") + "?connect_timeout=7"


@postgresql
def test_a_ledger_has_one_witness_whatever_its_url(books: Ledger, place: Path) -> None:
    copy = backup(books, place)
    with Ledger.connect(other_name(place)) as again:
        reserve(again)
        first = next(iter(again.entries())).hash
    folder = witness_file(place).parent
    (chain,) = folder.glob("chain-*.witness")
    assert chain.name == f"chain-{first}.witness"
    places = [path for path in folder.glob("*.witness") if path != chain]
    assert len(places) == 2
    restore(copy, place)
    with Ledger.connect(url(place)) as old, pytest.raises(ReadOnly, match="lacks entry 2 as the witness"):
        reserve(old, "r2")
    for path in places:
        path.unlink()
    with pytest.raises(ReadOnly, match="lacks entry 2 as the witness"):
        reserve(books, "r2")  # in the midst of a session, too
    for name in (url(place), other_name(place)):
        with Ledger.connect(name) as old, pytest.raises(ReadOnly, match="lacks entry 2 as the witness"):
            reserve(old, "r2")


@postgresql
def test_an_old_export_is_not_restored_under_another_url(
    books: Ledger, place: Path, server: Server, tmp_path: Path
) -> None:
    export(books, tmp_path / "old.txt")
    reserve(books)
    other = server.new_database()
    with pytest.raises(ChainBroken, match="lacks entry 2"):
        restored(tmp_path / "old.txt", server.url(other))
    export(books, tmp_path / "new.txt")
    restored(tmp_path / "new.txt", server.url(other))
    with Ledger.connect(server.url(other)) as again:
        again.confirm(books.head().hash)
        reserve(again, "r2")
    with open_books(place) as left, pytest.raises(ReadOnly, match="lacks entry 5"):
        reserve(left, "r3")  # there is one ledger, and it goes on elsewhere
    server.drop_database(other)
