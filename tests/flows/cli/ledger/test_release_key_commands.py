"""``tabularium ledger release-key``: made in the home, enrolled by an officer, shown, revoked, told of."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.ledger.keys import key_id, public_hex, read_private, read_public

Command = Callable[..., str]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TABULARIUM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: str, fails: bool = False) -> str:
        done = CliRunner().invoke(app, ["ledger", *words])
        assert done.exit_code == (1 if fails else 0), done.output
        return done.stderr if fails else done.stdout

    return run


def test_a_key_for_releases_from_its_making_to_its_end(command: Command, tmp_path: Path) -> None:
    command("keys", "new", "officer.pem")
    command("keys", "enrol", "officer.pub.pem", "--officer", "A. Ro", "--key", "officer.pem")
    assert "releases are unsigned" in command("release-key")
    made = command("release-key", "new")
    key = tmp_path / "home" / "release-key"
    assert str(key) in made
    assert key.stat().st_mode & 0o777 == 0o600
    assert "is there already" in command("release-key", "new", fails=True)
    name = key_id(public_hex(read_private(key)))
    enrol = ("release-key", "enrol", f"{key}.pub.pem", "--agency", "Statistics", "--key")
    assert "is an officer's" in command(*enrol, str(key), fails=True)
    assert f"Key {name} of Statistics is enrolled" in command(*enrol, "officer.pem")
    assert "can never be an officer's" in command(
        "keys", "enrol", f"{key}.pub.pem", "--officer", "B", "--key", "officer.pem", fails=True
    )
    (listed,) = json.loads(command("release-key", "--json"))
    assert (listed["key"], listed["agency"], listed["active"]) == (name, "Statistics", True)
    Path("agency.pub.pem").write_text(command("release-key", "show", name))
    assert read_public(Path("agency.pub.pem")) == listed["public_key"]
    assert "never enrolled" in command("release-key", "show", "0" * 32, fails=True)
    revoke = ("release-key", "revoke", name, "--reason", "replaced", "--key")
    assert "is revoked for what is published from now on" in command(*revoke, "officer.pem")
    assert "revoked by entry 3" in command("release-key")
    told = command("history")
    assert f"Statistics, key {name} for releases" in told
    assert f"the agency, key {name} for releases" in told
    assert "never enrolled" not in told
    command("verify")


def test_an_encrypted_key_has_a_passphrase_of_its_own(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TABULARIUM_KEY_PASSPHRASE", "an officer's")
    monkeypatch.setenv("TABULARIUM_RELEASE_KEY_PASSPHRASE", "the agency's")
    command("release-key", "new", "r.pem")
    assert b"ENCRYPTED" in Path("r.pem").read_bytes()
    read_private(Path("r.pem"), b"the agency's")
