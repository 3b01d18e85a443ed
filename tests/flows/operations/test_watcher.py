"""One look of the watcher: whatever fails in it, what is to be announced is announced."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabularium.flows.operations import watcher
from tests.tasks.arrival.drops import write_drop, write_inbox


def test_a_drop_that_cannot_be_put_away_keeps_no_other_from_being_announced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home, inbox = write_inbox(tmp_path)
    (Path(inbox.address) / "quarantine").write_text("in the way")
    write_drop(inbox, "bad", product="large")
    write_drop(inbox, "good")
    announced: list[str] = []
    monkeypatch.setattr("tabularium.flows.arrival.announce", lambda _, inbox: announced.append(inbox.product))
    watch = watcher.Watch(home, inbox, set())
    assert not watch._look()
    assert announced == [inbox.product]
    lines = capsys.readouterr().err.splitlines()
    assert sorted(line.split()[-1] for line in lines[:2]) == ["arrived", "quarantined"]
    assert lines[2:] == [
        f"inbox of {inbox.product}: the operating system refused: Not a directory; move away what lies where a "
        "file or folder of the program belongs, then run again"
    ]
