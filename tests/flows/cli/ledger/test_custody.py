"""``tabularium ledger verify`` on books that are whole in themselves and still not the newest ones."""

from __future__ import annotations

import shutil
import sqlite3
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tabularium.ledger import ChainBroken, ClockBehind, Ledger, ReadOnly
from tabularium.ledger.measurement.measure_once import measure_once
from tabularium.ledger.measurement.release_lock import hold
from tabularium.ledger.measurement.store import MeasurementStore
from tabularium.tasks.runtime.home import Home
from tests.flows.cli.ledger.test_ledger_cli import good, refused


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("TABULARIUM_HOME", str(tmp_path / "home"))
    return Home.at(None)


def files(home: Home) -> list[Path]:
    return [path for path in home.path.glob("*") if path.is_file()]


def test_an_old_copy_is_not_called_whole(home: Home, tmp_path: Path) -> None:
    """The copy has forgotten its charge with its witness; the measurement file has not."""
    good("open", "census", "--cap", "1", "--unit", "person")
    assert "1 entries is whole" in good("verify")
    shutil.copytree(home.path, tmp_path / "old")
    with Ledger.connect(home.ledger_url) as books:
        books.reserve(
            "census", release_id="r1", amount=Fraction(7, 10), product="p", period="1", spec_digest="s"
        )
        with hold(books, "r1"):
            measure_once(
                books, MeasurementStore(home.measurements), "r1", {"t": lambda: ({}, {"a": np.zeros(3)})}
            )
    assert "4 entries is whole" in good("verify")
    for path in files(home):
        path.unlink()
    for path in (tmp_path / "old").glob("*"):
        if path.is_file():
            shutil.copy(path, home.path / path.name)
    assert "lacks entry 3 as a measurement file, certificate or head file names it" in refused("verify")


def test_a_ledger_without_its_guard_is_walked_all_the_same(home: Home) -> None:
    """What the walk finds comes first: an edited row is worse than a missing trigger."""
    good("open", "census", "--cap", "1", "--unit", "person")
    with Ledger.connect(home.ledger_url) as books:
        books.reserve(
            "census", release_id="r1", amount=Fraction(7, 10), product="p", period="1", spec_digest="s"
        )
    (file,) = home.path.glob("*.db")
    with sqlite3.connect(file) as connection:
        connection.execute("DROP TRIGGER entries_no_update")
    with Ledger.connect(home.ledger_url) as books, pytest.raises(ChainBroken) as found:
        books.verify()
    assert "its 2 entries are in order, but the triggers that protect the entries are missing" in str(
        found.value
    )
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE entries SET body = replace(body, '7/10', '1/10') WHERE seq = 2")
    assert "entry 2 has been altered" in refused("verify")


def test_somebody_elses_database_is_left_alone(home: Home, tmp_path: Path) -> None:
    file = tmp_path / "theirs.db"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE people (name TEXT)")
    with Ledger.connect(f"sqlite:///{file}") as books:
        with pytest.raises(ChainBroken, match="the database belongs to something else"):
            books.verify()
        with pytest.raises(ReadOnly, match="the database belongs to something else"):
            books.open_account(
                "census", unit="person", relation="replace", definition="pure", cap=Fraction(1)
            )
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("people",)]


def test_a_migration_says_what_is_still_wrong(home: Home) -> None:
    good("open", "census", "--cap", "1", "--unit", "person")
    (file,) = home.path.glob("*.db")
    (home.path / "second name").hardlink_to(file)
    assert "read-only: its file has more than one name" in refused("migrate")
    (home.path / "second name").unlink()
    assert "are of revision" in good("migrate")


def test_a_clock_that_is_behind_is_told_how_far_it_may_be(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    good("open", "census", "--cap", "1", "--unit", "person")
    late = datetime.now(UTC) - timedelta(minutes=20)
    asked = {"amount": Fraction(1, 10), "product": "p", "period": "1", "spec_digest": "s"}
    with Ledger.connect(home.ledger_url, clock=lambda: late) as books:
        with pytest.raises(ClockBehind, match="set TABULARIUM_CLOCK_TOLERANCE"):
            books.reserve("census", release_id="r1", **asked)  # type: ignore[arg-type]
        books.change_account("census", reason="what only tightens is not stopped", cap=Fraction(1, 2))
    monkeypatch.setenv("TABULARIUM_CLOCK_TOLERANCE", "30")
    with Ledger.connect(home.ledger_url, clock=lambda: late) as books:
        assert books.reserve("census", release_id="r1", **asked).state == "reserved"  # type: ignore[arg-type]
    for text in ("half an hour", "-1", "1.5", "9" * 8):
        monkeypatch.setenv("TABULARIUM_CLOCK_TOLERANCE", text)
        assert "is not a whole number of minutes" in refused("show")
