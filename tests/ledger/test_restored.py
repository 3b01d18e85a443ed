"""A ledger that was put back accepts nothing until somebody says that its head is the newest."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import Ledger, NotApproved, ReadOnly
from tabularium.ledger.export import export, restore
from tabularium.ledger.keys import key_id, public_hex
from tabularium.ledger.records import Head
from tabularium.ledger.refusals import BadValue, Conflict
from tests.ledger.storage.postgres import Server


def opened(folder: Path) -> Ledger:
    return Ledger.connect(f"sqlite:///{folder / 'ledger.db'}")


def account(books: Ledger, name: str) -> None:
    books.open_account(name, unit="person", relation="add-remove", definition="pure", cap=Fraction(1))


def put_back(folder: Path, key: Ed25519PrivateKey | None = None) -> tuple[Path, Head]:
    """Export a ledger and put it back into a folder of its own."""
    with opened(folder / "old") as books:
        account(books, "census")
        if key is not None:
            books.enrol_key(public_hex(key), officer="Ada", by=key)
        head = export(books, folder / "books.txt")
    restore(folder / "books.txt", f"sqlite:///{folder / 'new' / 'ledger.db'}")
    return folder / "new", head


@pytest.fixture(autouse=True)
def no_second_witness(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TABULARIUM_WITNESS", raising=False)


def test_it_can_be_read_and_verified_and_takes_nothing(tmp_path: Path) -> None:
    place, head = put_back(tmp_path)
    with opened(place) as books:
        assert books.verify().entries == head.seq + 1
        with pytest.raises(ReadOnly, match=r"put back from a backup.*ledger confirm HASH"):
            account(books, "health")
    with opened(place) as books, pytest.raises(ReadOnly):
        account(books, "health")


@pytest.mark.parametrize("said", ["", "0" * 64, "short"])
def test_another_head_lifts_nothing(said: str, tmp_path: Path) -> None:
    place, _ = put_back(tmp_path)
    with opened(place) as books, pytest.raises(BadValue, match=r"not the hash of the head that|too short"):
        books.confirm(said)
    with opened(place) as books:
        assert books.read_only is not None


def test_who_says_the_head_lifts_it_once(tmp_path: Path) -> None:
    place, head = put_back(tmp_path)
    with opened(place) as waiting, opened(place) as books:
        books.confirm(head.hash[:16].upper())
        account(books, "health")
        with pytest.raises(Conflict, match="nothing to confirm"):
            books.confirm(head.hash)
        with pytest.raises(ReadOnly):
            account(waiting, "labour")  # was opened before, and says so until it is opened again
    with opened(place) as books:
        account(books, "labour")


def test_where_an_officer_has_a_key_an_officer_says_it_and_it_is_kept(tmp_path: Path) -> None:
    key, other = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    place, head = put_back(tmp_path, key)
    with opened(place) as books:
        for by in (None, other):
            with pytest.raises(NotApproved, match=r"needs an officer's signature|is not enrolled"):
                books.confirm(head.hash, by=by)
        books.confirm(head.hash, by=key)
        mark, said = (entry.body for entry in books.entries(head.seq))
        books.verify()
    assert (mark["kind"], mark["prev"]) == ("restored", head.hash)
    assert (said["kind"], said["mark"], said["by"]) == ("confirmed", said["prev"], key_id(public_hex(key)))


def test_a_second_witness_that_names_the_head_is_not_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is one user's on one machine: others may have gone on."""
    monkeypatch.setenv("TABULARIUM_WITNESS", str(tmp_path / "witness"))
    place, _ = put_back(tmp_path)
    with opened(place) as books, pytest.raises(ReadOnly, match="put back from a backup"):
        account(books, "health")


def test_a_backup_of_a_ledger_that_waits_waits_too(tmp_path: Path) -> None:
    place, head = put_back(tmp_path)
    with opened(place) as books:
        export(books, tmp_path / "again.txt")
    restore(tmp_path / "again.txt", f"sqlite:///{tmp_path / 'third' / 'ledger.db'}")
    with opened(tmp_path / "third") as books:
        assert books.head().seq == head.seq + 1 and books.read_only is not None
        books.confirm(head.hash)
        account(books, "health")


def test_every_machine_sees_it_by_whatever_url(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: Server
) -> None:
    _, head = put_back(tmp_path)
    name = server.new_database()
    monkeypatch.setenv("TABULARIUM_WITNESS", str(tmp_path / "here"))
    restore(tmp_path / "books.txt", server.url(name))
    elsewhere = server.url(name).replace("127.0.0.1", "localhost")
    for folder, url in (("here", server.url(name)), ("here", elsewhere), ("there", elsewhere)):
        monkeypatch.setenv("TABULARIUM_WITNESS", str(tmp_path / folder))
        with Ledger.connect(url) as books, pytest.raises(ReadOnly, match="put back from a backup"):
            account(books, "health")
    with Ledger.connect(elsewhere) as books:
        books.confirm(head.hash)
    with Ledger.connect(server.url(name)) as books:
        account(books, "health")
        books.verify()
    server.drop_database(name)


def test_the_mark_does_not_hide_that_the_copy_is_old(tmp_path: Path) -> None:
    place, head = put_back(tmp_path)
    with Ledger.connect(
        f"sqlite:///{place / 'ledger.db'}", known_heads=[Head(head.seq + 1, "ab" * 32)]
    ) as books:
        assert books.read_only is not None and "old copy" in books.read_only
        with pytest.raises(ReadOnly, match="old copy"):
            books.confirm(head.hash)
    shutil.rmtree(place)
