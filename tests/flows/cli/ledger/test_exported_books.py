"""``tabularium ledger show|history|review --export``: the cumulative view of a reviewer who has no home."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tabularium.ledger import Ledger
from tabularium.tasks.runtime.home import Home
from tests.flows.cli.ledger.test_ledger_cli import charge, good, refused
from tests.ledger.scene import census


@pytest.fixture
def export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An exported ledger of three charges; no home is configured any more."""
    monkeypatch.setenv("TABULARIUM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    home, file = Home.at(None), tmp_path / "books.txt"
    with Ledger.connect(home.ledger_url) as books:
        census(books)
    for number in range(3):
        charge(home, number)
    good("export", file)
    (tmp_path / "here").write_text(json.dumps({name: json.loads(good(name, "--json")) for name in COMMANDS}))
    monkeypatch.setenv("TABULARIUM_HOME", str(tmp_path / "nowhere"))
    return file


COMMANDS = ("show", "history", "review")


@pytest.mark.parametrize("command", COMMANDS)
def test_an_export_says_what_its_ledger_says(export: Path, tmp_path: Path, command: str) -> None:
    here = json.loads((tmp_path / "here").read_text())[command]
    assert json.loads(good(command, "--export", export, "--json")) == here
    assert "census" in good(command, "--export", export)
    assert not (tmp_path / "nowhere").exists()


def test_what_does_not_verify_is_not_shown(export: Path, tmp_path: Path) -> None:
    forged = tmp_path / "forged.txt"
    forged.write_bytes(export.read_bytes().replace(b'"amount":"1/10"', b'"amount":"1/20"', 1))
    assert "entry 2 has been altered" in refused("review", "--export", forged)
    assert "cannot be read" in refused("show", "--export", tmp_path / "none.txt")
    assert "give one of both" in refused("history", "--export", export, "--home", tmp_path)
