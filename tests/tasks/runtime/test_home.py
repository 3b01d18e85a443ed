"""The home of an installation: modes, and the secret that must never be made anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from mechanisms.errors import InputError
from tasks.runtime.home import Home


def test_a_home_is_closed_to_others(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o755)
    home = Home.at(tmp_path / "home")
    secret = home.secret()
    assert home.path.stat().st_mode & 0o777 == 0o700
    assert (home.path / "secret").stat().st_mode & 0o777 == 0o600
    assert len(secret) == 32
    assert Home.at(home.path).secret() == secret
    assert {path.name for path in home.path.iterdir()} == {"secret", "secret.check", "workspaces"}


def test_a_lost_secret_is_not_made_anew(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    home.secret()
    (home.path / "secret").unlink()
    with pytest.raises(InputError, match="secret is missing"):
        home.secret()
    assert not (home.path / "secret").exists()


def test_another_secret_than_the_ledgers_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABULARIUM_LEDGER", f"sqlite:///{tmp_path / 'shared' / 'ledger.db'}")
    one, two = Home.at(tmp_path / "one"), Home.at(tmp_path / "two")
    assert one.measurements == two.measurements == tmp_path / "shared" / "measurements"
    one.secret()
    with pytest.raises(InputError, match="secret is missing"):
        two.secret()
    (two.path / "secret").write_bytes(bytes(32))
    with pytest.raises(InputError, match="not the agency secret of the ledger"):
        two.secret()
    (two.path / "secret").write_bytes((one.path / "secret").read_bytes())
    assert two.secret() == one.secret()


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 33])
def test_a_damaged_secret_is_refused(content: bytes, tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    home.secret()
    (home.path / "secret").write_bytes(content)
    with pytest.raises(InputError, match="secret is damaged"):
        home.secret()


def test_a_home_that_cannot_be_made_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="--home") as caught:
        Home.at(tmp_path / "file" / "home")
    assert caught.value.__context__ is None
