"""A revision from the command line: the reason acts as if it stood in the spec, for the officer and the run."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote

import pytest
from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tests.flows.release.scene import publish, write_scene

REASON = "late questionnaires"


def run(*words: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout, done.stderr


def test_the_same_reason_is_given_to_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec, home = write_scene(tmp_path)
    monkeypatch.setenv("TABULARIUM_HOME", str(home.path))
    monkeypatch.setenv("COLUMNS", "200")
    first, key = publish(spec, home), tmp_path / "officer.pem"
    assert run("ledger", "keys", "new", key)[0] == 0
    assert (
        run("ledger", "keys", "enrol", tmp_path / "officer.pub.pem", "--officer", "A", "--key", key)[0] == 0
    )
    more = tmp_path / "more.csv"
    more.write_text((tmp_path / "people.csv").read_text() + "A1,30,1\n")
    revised = ("run", spec, "--source", more, "--revises", REASON, "--json")
    assert "--revises" in run("run", spec, "--source", more)[2], "what to do is told"
    told = run(*revised)[2]
    assert "no disclosure officer has approved" in told
    command = f"tabularium ledger approve {spec} --revises {quote(REASON)} --home {home.path} --key FILE"
    assert command in told, "it can be copied"
    assert run("ledger", "approve", spec, "--revises", "other words", "--key", key)[0] == 0
    assert "no disclosure officer has approved" in run(*revised)[2]
    assert run("ledger", "approve", spec, "--revises", REASON, "--key", key)[0] == 0
    code, said, _ = run(*revised)
    assert (code, json.loads(said)["status"]) == (0, "published")
    assert json.loads(said)["release_id"] != first.release_id
    assert run("ledger", "history")[1].count(f"revises what was published: {REASON}") == 1
    (account,) = json.loads(run("ledger", "show", "--json")[1])
    assert [charge["revises"] for charge in account["charges"]] == [None, REASON]
    spec.write_text(spec.read_text() + f'revises: "{REASON}"\n')
    assert json.loads(run("run", spec, "--source", more, "--json")[1])["status"] == "already published"


@pytest.mark.parametrize("reason", ["", " ", "x" * 201, "two\nlines"])
def test_a_reason_is_one_line(tmp_path: Path, reason: str) -> None:
    spec, home = write_scene(tmp_path)
    code, _, said = run("run", spec, "--home", home.path, "--revises", reason)
    assert code == 1
    assert "--revises: is no reason; write one line of at most 200 characters" in said
