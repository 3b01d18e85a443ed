"""A run of a drop reads exactly the bytes that were verified, once for each product and period."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest

from tabularium.ledger import Ledger
from tabularium.mechanisms.errors import DataRefused, InputError, InputMissing, LedgerError
from tabularium.tasks.arrival import drop_outcomes, inboxes
from tabularium.tasks.arrival.claims import Drop
from tabularium.tasks.arrival.inboxes import Inbox
from tabularium.tasks.arrival.verify_drop import fetch
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.run import Request, opened
from tests.tasks.arrival.drops import TEXT, seen, write_drop, write_inbox
from tests.tasks.arrival.test_look import charge, finish


def fetched(home: Home, inbox: Inbox, drop: Drop, period: str = "2026", revises: str | None = None) -> bytes:
    request = Request.of(inbox.spec, f"drop:{drop.id}", period, home.path, revises)
    with opened(request) as run:
        folder = fetch(run)
        assert folder is not None
        assert folder.parent == Path(run.workspace)
        (path,) = folder.iterdir()
        assert path.stat().st_mode & 0o777 == 0o600
        return path.read_bytes()


@pytest.fixture
def arrived(tmp_path: Path) -> tuple[Home, Inbox, Drop]:
    home, inbox = write_inbox(tmp_path)
    write_drop(inbox)
    (drop,) = seen(home, inbox)
    return home, inbox, drop


def test_its_files_are_copied_into_the_workspace(arrived: tuple[Home, Inbox, Drop]) -> None:
    home, inbox, drop = arrived
    assert fetched(home, inbox, drop) == TEXT
    finish(home, drop, "published")
    seen(home, inbox)
    assert fetched(home, inbox, drop) == TEXT  # from where it was put away


CHANGES: dict[str, Callable[[Path], object]] = {
    "other bytes": lambda path: path.write_bytes(TEXT[::-1]),
    "longer": lambda path: path.write_bytes(TEXT + b"A1,1,1\n"),
    "shorter": lambda path: os.truncate(path, 100),
    "gone": lambda path: path.unlink(),
    "all gone": lambda path: shutil.rmtree(path.parent),
    "a link to the same": lambda path: (path.rename(path.parent.parent / "x"), path.symlink_to("../x")),
    "a second name": lambda path: os.link(path, path.parent.parent / "x"),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_since_is_refused(arrived: tuple[Home, Inbox, Drop], change: str) -> None:
    home, inbox, drop = arrived
    CHANGES[change](Path(inbox.address) / "first" / "people.csv")
    with pytest.raises(DataRefused, match="no longer the file that was verified"):
        fetched(home, inbox, drop)


def test_an_inbox_that_is_away_is_waited_for(arrived: tuple[Home, Inbox, Drop]) -> None:
    home, inbox, drop = arrived
    Path(inbox.address).rename(Path(inbox.address).with_name("away"))
    with pytest.raises(InputMissing, match="does not answer"):
        fetched(home, inbox, drop)


def test_it_is_for_its_own_product_and_period(arrived: tuple[Home, Inbox, Drop]) -> None:
    home, inbox, drop = arrived
    with pytest.raises(InputError, match="another product or period"):
        fetched(home, inbox, drop, period="2027")
    spec = Path(inbox.spec)
    spec.write_text(spec.read_text().replace("product: small", "product: large"))
    with pytest.raises(InputError, match="another product or period"):
        fetched(home, inbox, drop)


def test_one_that_is_not_known_is_an_error(arrived: tuple[Home, Inbox, Drop]) -> None:
    home, inbox, drop = arrived
    inboxes.remove(home, inbox.product)
    with pytest.raises(InputError, match="no inbox"):
        fetched(home, inbox, drop)
    with pytest.raises(InputError, match="not known"):
        fetched(home, inbox, Drop(**{**vars(drop), "id": "0" * 32}))


def test_it_has_to_fit_on_the_disk(
    arrived: tuple[Home, Inbox, Drop], monkeypatch: pytest.MonkeyPatch
) -> None:
    home, inbox, drop = arrived
    monkeypatch.setattr("tabularium.tasks.arrival.inboxes._SPARE_BYTES", 1 << 60)
    with pytest.raises(DataRefused, match="does not fit"):  # which a flow tells at home alone
        fetched(home, inbox, drop)


def test_no_second_release_of_the_period_starts_by_itself(arrived: tuple[Home, Inbox, Drop]) -> None:
    """As after an edit of the spec while the run waited for its approval."""
    home, inbox, drop = arrived
    charge(home)
    with pytest.raises(LedgerError, match="period already published"):
        fetched(home, inbox, drop)
    assert fetched(home, inbox, drop, revises="a correction") == TEXT


@pytest.mark.parametrize("ending", ["published", "refused"])
def test_nor_of_one_that_ended_or_came_too_late_once_the_spec_is_edited(
    arrived: tuple[Home, Inbox, Drop], ending: drop_outcomes.Ending
) -> None:
    home, inbox, drop = arrived
    assert fetched(home, inbox, drop) == TEXT
    charge(home)
    finish(home, drop, ending)
    assert fetched(home, inbox, drop) == TEXT
    write_drop(inbox, "late")
    late = next(each for each in seen(home, inbox) if each.state == "quarantined")
    spec = Path(inbox.spec)
    spec.write_text(spec.read_text().replace('budget: "1"', 'budget: "2"'))
    for each in (drop, late):
        with pytest.raises(LedgerError, match="period already published"):
            fetched(home, inbox, each)
        assert fetched(home, inbox, each, revises="a correction") == TEXT


def test_the_release_that_began_goes_on_after_its_charge(arrived: tuple[Home, Inbox, Drop]) -> None:
    home, inbox, drop = arrived
    assert fetched(home, inbox, drop) == TEXT
    charge(home)  # such as that of a tally, whose name is another one
    assert fetched(home, inbox, drop) == TEXT
    spec = Path(inbox.spec)
    spec.write_text(spec.read_text().replace('budget: "1"', 'budget: "2"'))
    with pytest.raises(LedgerError, match="period already published"):
        fetched(home, inbox, drop)


def test_a_drop_that_came_too_late_is_published_as_a_revision_that_an_officer_approves(
    tmp_path: Path,
) -> None:
    home, inbox = write_inbox(tmp_path)
    charge(home)
    write_drop(inbox)
    (drop,) = seen(home, inbox)
    assert drop.state == "quarantined"
    assert fetched(home, inbox, drop, revises="a correction") == TEXT
    with Ledger.connect(home.ledger_url) as books:
        assert books.balance("people") == Fraction(9)
