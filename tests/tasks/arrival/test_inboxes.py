"""The list of inboxes of a home."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tabularium.ledger.refusals import StorageFailed
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.arrival.claims import Claims
from tabularium.tasks.arrival.inboxes import Inbox, add, checked, inbox_of, inboxes, remove
from tabularium.tasks.runtime.home import Home


def inbox(folder: Path, product: str = "a") -> Inbox:
    (folder / product).mkdir()
    return Inbox(product, str(folder / product), "/specs/a.yaml")


def test_inboxes_are_added_changed_and_removed(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    first, second = inbox(tmp_path), Inbox("b", "s3://bucket/in/", "/specs/b.yaml")
    assert checked(home, second).address == "s3://bucket/in"
    assert inboxes(home) == []
    assert add(home, first) == first
    assert add(home, second).address == "s3://bucket/in"
    assert add(home, replace(first, retention=1.0)).retention == 1.0
    assert [each.product for each in inboxes(home)] == ["a", "b"]
    assert inbox_of(home, "a") == replace(first, retention=1.0)
    assert remove(home, "a")
    assert not remove(home, "a")
    assert inbox_of(home, "a") is None
    assert (home.path / "inboxes.json").stat().st_mode & 0o777 == 0o600


def test_an_inbox_belongs_to_one_product(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    first = add(home, inbox(tmp_path))
    (tmp_path / "link").symlink_to(tmp_path / "a")
    with pytest.raises(InputError, match="product a has this inbox"):
        add(home, Inbox("b", str(tmp_path / "link"), first.spec))


@pytest.mark.parametrize(
    ("address", "line"),
    [
        ("/no/such/folder", "there is no such folder"),
        ("s3://key:secret@bucket/in", "holds a name or a password"),
        ("ftp://user@host/in", "holds a name or a password"),
    ],
)
def test_addresses_that_are_none(tmp_path: Path, address: str, line: str) -> None:
    with pytest.raises(InputError, match=line) as caught:
        add(Home.at(tmp_path / "home"), Inbox("a", address, "/specs/a.yaml"))
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "{}", '[{"product": "a"}]', '["a"]'])
def test_a_list_that_cannot_be_read_is_one_line(tmp_path: Path, text: str) -> None:
    home = Home.at(tmp_path / "home")
    (home.path / "inboxes.json").write_text(text)
    if text == "{}":
        assert inboxes(home) == []
    else:
        with pytest.raises(InputError, match="the list of inboxes cannot be read"):
            inboxes(home)


def test_a_database_of_arrivals_that_cannot_be_opened_is_told_without_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TABULARIUM_ARRIVALS", f"sqlite:///{tmp_path}/nowhere/x.db")
    with pytest.raises(StorageFailed) as refused, Claims.at(Home.at(tmp_path / "home")):
        pass
    assert "nowhere" not in refused.value.line()
