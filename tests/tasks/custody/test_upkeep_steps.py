"""What is done every night: an export that verifies, a drill that compares, workspaces that go."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from tabularium.ledger import ChainBroken, Ledger
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.custody.restore import drill_restore, sweep_workspaces, verify_and_export
from tabularium.tasks.runtime.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    found = Home.at(tmp_path / "home")
    charge(found, "census")
    return found


def charge(home: Home, account: str) -> None:
    with Ledger.connect(home.ledger_url) as books:
        books.open_account(account, unit="person", relation="add-remove", definition="pure", cap=Fraction(1))


def test_an_export_is_written_for_each_new_head_and_verified_every_night(home: Home, tmp_path: Path) -> None:
    site = tmp_path / "site"
    with pytest.raises(InputError, match="folder for exports is not there"):
        verify_and_export(home, site)
    site.mkdir()
    assert "1 entries are in order; exported to" in verify_and_export(home, site)
    verify_and_export(home, site)
    assert len(list(site.iterdir())) == 1
    charge(home, "health")
    verify_and_export(home, site)
    first, second = sorted(site.iterdir())
    second.write_bytes(second.read_bytes().replace(b"health", b"wealth"))
    with pytest.raises(ChainBroken):
        verify_and_export(home, site)
    assert verify_and_export(home, None) == "2 entries are in order"
    assert first.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("second_witness", [True, False])
def test_the_drill_puts_back_the_newest_export_and_leaves_nothing(
    second_witness: bool, home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if second_witness:
        monkeypatch.setenv("TABULARIUM_WITNESS", str(tmp_path / "witness"))
    site = tmp_path / "site"
    site.mkdir()
    with pytest.raises(InputError, match="no export of the ledger is here"):
        drill_restore(home, site)
    verify_and_export(home, site)
    charge(home, "health")
    before = sorted(path.name for path in home.path.iterdir())
    assert drill_restore(home, site) == "1 entries were put back and are the same; 1 are newer"
    assert drill_restore(home, None) == "2 entries were put back and are the same; 0 are newer"
    assert sorted(path.name for path in home.path.iterdir()) == before
    charge(home, "labour")  # no witness was told of the copy


def test_the_drill_knows_another_ledger(home: Home, tmp_path: Path) -> None:
    other = Home.at(tmp_path / "other")
    charge(other, "census")
    site = tmp_path / "site"
    site.mkdir()
    verify_and_export(other, site)
    with pytest.raises(ChainBroken, match="does not hold entry 1 of this export"):
        drill_restore(home, site)


def test_workspaces_of_dead_runs_go(home: Home) -> None:
    (home.workspaces / "20260101T000000-dead").mkdir()
    assert sweep_workspaces(home) == "1 folders of dead runs were removed"
    assert sweep_workspaces(home) == "nothing was left behind"
