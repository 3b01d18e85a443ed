"""``tabularium ledger evidence``: the home says whether an input is the one, and records who asked."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path

import pandas as pd
import pytest

from tabularium.ledger import Ledger
from tabularium.tasks.runtime.home import Home
from tests.flows.cli.ledger.test_ledger_cli import good, refused
from tests.flows.release.scene import people, publish, write_scene

COLUMNS = ["area", "age", "sex"]


@pytest.fixture
def officer(tmp_path: Path) -> str:
    """The file of an officer's key, which is enrolled in the home below."""
    return str(tmp_path / "officer.pem")


@pytest.fixture
def published(tmp_path: Path, officer: str, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Home, str]:
    spec, home = write_scene(tmp_path)
    monkeypatch.setenv("TABULARIUM_HOME", str(home.path))
    good("keys", "new", officer)
    good("keys", "enrol", officer.replace(".pem", ".pub.pem"), "--officer", "A. Ro", "--key", officer)
    return spec, home, publish(spec, home).release_id


def test_the_home_tells_the_input_that_was_used_from_every_other(
    published: tuple[Path, Home, str], officer: str, tmp_path: Path
) -> None:
    _spec, home, name = published
    moved = tmp_path / "moved" / "elsewhere.csv"
    moved.parent.mkdir()
    shutil.copy(tmp_path / "people.csv", moved)
    assert "This is the input" in good("evidence", name, str(moved), "--key", officer)
    with moved.open("a") as file:
        file.write("A1,30,1\n")
    said = good("evidence", name, str(moved), "--key", officer, "--reason", "a complaint", "--json")
    assert json.loads(said) == {"release_id": name, "same": False}
    with Ledger.connect(home.ledger_url) as books:
        bodies = [entry.body for entry in books.entries()][-2:]
        books.verify()
    assert [(body["kind"], body["of_release"], body["reason"]) for body in bodies] == [
        ("evidence", name, None),
        ("evidence", name, "a complaint"),
    ]
    assert "was an input the one" in good("history").replace("\n", " ")
    shutil.rmtree(home.path / "inputs")
    assert "does not know" in good("evidence", name, str(moved), "--key", officer)


def test_a_table_of_a_database_is_read_by_its_spec(
    published: tuple[Path, Home, str], officer: str, tmp_path: Path
) -> None:
    spec, home, _name = published
    database = tmp_path / "people.db"
    with sqlite3.connect(database) as connection:
        pd.DataFrame(people(600), columns=COLUMNS).to_sql("people", connection, index=False)
    spec.write_text(
        spec.read_text().replace("path: people.csv", f"url: 'sqlite:///{database}', table: people")
    )
    spec.write_text(spec.read_text().replace('period: "2026"\n', ""))
    name = publish(spec, home, period="2027").release_id
    url = f"sqlite:///{database}"
    assert "This is the input" in good("evidence", name, url, "--spec", str(spec), "--key", officer)
    assert "name the spec that reads it" in refused("evidence", name, url, "--key", officer)


def test_what_cannot_be_answered_is_not_recorded(
    published: tuple[Path, Home, str], officer: str, tmp_path: Path
) -> None:
    _spec, home, name = published
    assert "never reserved" in refused("evidence", "r1", "people.csv", "--key", officer)
    (tmp_path / "people.zzz").touch()
    for wrong, what in (("none.csv", "no such file"), ("people.zzz", "how the files are written")):
        said = refused("evidence", name, str(tmp_path / wrong), "--key", officer)
        assert what in said
        assert "source." not in said and "--source" not in said, "it has no such option"
    assert "no such file" in refused("evidence", name, "people.csv", "--key", "none.pem")
    with Ledger.connect(home.ledger_url) as books:
        assert "evidence" not in {entry.body["kind"] for entry in books.entries()}
