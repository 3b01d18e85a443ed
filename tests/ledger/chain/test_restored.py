"""A ledger that was put back accepts nothing until somebody says that its head is the newest."""

from __future__ import annotations

import shutil
from fractions import Fraction
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger import Ledger, NotApproved, ReadOnly
from ledger.chain.export import export, restore
from ledger.chain.restored import Restored
from ledger.officers.keys import is_signed, key_id, public_hex
from ledger.records import Head
from ledger.refusals import BadValue, Conflict


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
        assert books.verify().head == head
        with pytest.raises(ReadOnly, match=r"put back from a backup.*ledger confirm HASH"):
            account(books, "health")
    with opened(place) as books, pytest.raises(ReadOnly):
        account(books, "health")


@pytest.mark.parametrize("said", ["", "0" * 64, "short"])
def test_another_head_lifts_nothing(said: str, tmp_path: Path) -> None:
    place, _ = put_back(tmp_path)
    with opened(place) as books, pytest.raises(BadValue, match=r"not the hash of this ledger|too short"):
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
            with pytest.raises(NotApproved, match="an officer with an enrolled key"):
                books.confirm(head.hash, by=by)
        books.confirm(head.hash, by=key)
        (said,) = Restored(place / "ledger.db").confirmations()
    assert (said["hash"], said["seq"], said["by"]) == (head.hash, head.seq, key_id(public_hex(key)))
    assert (place / "ledger.db.confirmed").stat().st_mode & 0o777 == 0o600
    with opened(place) as books:
        assert is_signed(public_hex(key), str(said["signature"]), books.chain(), "confirmation", said)


def test_a_second_witness_that_names_the_head_is_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TABULARIUM_WITNESS", str(tmp_path / "witness"))
    place, _ = put_back(tmp_path)
    with opened(place) as books:
        account(books, "health")


def test_the_mark_does_not_hide_that_the_copy_is_old(tmp_path: Path) -> None:
    place, head = put_back(tmp_path)
    with Ledger.connect(
        f"sqlite:///{place / 'ledger.db'}", known_heads=[Head(head.seq + 1, "ab" * 32)]
    ) as books:
        assert books.read_only is not None and "old copy" in books.read_only
        with pytest.raises(ReadOnly, match="old copy"):
            books.confirm(head.hash)
    shutil.rmtree(place)
