"""The run asks the ledger before it opens the data, and trusts no old copy of it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from tabularium.ledger import Ledger, NotApproved, ReadOnly
from tabularium.ledger.refusals import AccountClosed
from tabularium.tasks.runtime.progress import stopping
from tests.flows.release.scene import publish, write_scene


def copied(source: Path, target: Path) -> None:
    with sqlite3.connect(source) as one, sqlite3.connect(target) as other:
        one.backup(other)


def test_an_old_copy_of_the_ledger_is_refused_although_its_witness_is_gone(tmp_path: Path) -> None:
    """The stored measurements name a head that it lacks: what they cost would be spent a second time."""
    spec, home = write_scene(tmp_path)
    books = home.path / "ledger.db"
    copied(books, tmp_path / "old.db")
    assert publish(spec, home).status == "published"
    for path in home.path.glob("ledger.db*"):
        if path.is_file():
            path.unlink()
    copied(tmp_path / "old.db", books)
    spec.write_text(spec.read_text().replace('budget: "1"', 'budget: "2"'))
    with pytest.raises(ReadOnly, match="it lacks entry"):
        publish(spec, home)
    with Ledger.connect(home.ledger_url) as found:
        assert not list(found.charges("people"))


@pytest.mark.parametrize("closed", [False, True])
def test_no_data_are_read_for_a_release_that_may_not_be_charged(tmp_path: Path, closed: bool) -> None:
    spec, home = write_scene(tmp_path)
    with Ledger.connect(home.ledger_url) as books:
        if closed:
            books.change_account("people", closes_on="2020-01-01", reason="over")
        else:
            books.change_account("people", needs_approval=True, reason="be asked")
    (tmp_path / "people.csv").unlink()
    with pytest.raises(AccountClosed if closed else NotApproved):
        publish(spec, home)


@pytest.mark.parametrize("swallowed", [False, True])
def test_a_stop_during_the_draw_spends_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swallowed: bool
) -> None:
    """Nobody has seen what was drawn: the next run draws anew under another fence."""
    import tabularium.tasks.measure

    spec, home = write_scene(tmp_path)
    monkeypatch.setattr(stopping, "exception", None)
    whole = tabularium.tasks.measure._drawing

    def interrupted(*arguments: object) -> object:
        draw = whole(*arguments)  # type: ignore[arg-type]

        def drawn() -> object:
            draw()
            try:
                stopping.request_stop(SystemExit(143))
            except SystemExit:
                if swallowed:  # as a library may that is interrupted in the middle of an import
                    raise ValueError("half imported") from None
                raise

        return drawn

    monkeypatch.setattr(tabularium.tasks.measure, "_drawing", interrupted)
    with pytest.raises(SystemExit):
        publish(spec, home)
    with Ledger.connect(home.ledger_url) as books:
        assert [charge.state for charge in books.charges("people")] == ["drawing"]
    monkeypatch.setattr(tabularium.tasks.measure, "_drawing", whole)
    monkeypatch.setattr(stopping, "exception", None)
    assert publish(spec, home).status == "published"
    with Ledger.connect(home.ledger_url) as books:
        (charge,) = books.charges("people")
        assert (charge.state, charge.fence, charge.amount) == ("published", 2, 1)
        assert books.account("people").spent == 1
