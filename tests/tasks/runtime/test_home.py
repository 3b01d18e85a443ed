"""The home of an installation: modes, and the secret that must never be made anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabularium.mechanisms.errors import InputError
from tabularium.tasks.runtime.home import Home, secret_of


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
    (two.path / "secret").chmod(0o600)
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


def test_a_secret_that_others_may_read_is_refused_until_it_is_closed(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    secret = home.secret()
    home.secret_file.chmod(0o640)
    with pytest.raises(InputError, match=r"other users may read the agency secret; chmod 600 .*/secret"):
        home.secret()
    home.secret_file.chmod(0o600)
    assert home.secret() == secret


def store(folder: Path, script: str) -> str:
    """A key store that counts how often it was asked; return the command that asks it."""
    (folder / "store.sh").write_text(f"echo asked >> {folder / 'asked'}\n{script}\n")
    return f"sh {folder / 'store.sh'}"


@pytest.mark.parametrize("form", ["raw", "hex"])
def test_a_key_store_prints_the_secret_and_is_asked_once(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = bytes(range(65, 97))
    printed = secret.decode() if form == "raw" else f"{secret.hex()}\\n"
    command = store(tmp_path, f"printf '{printed}'; echo the-vault-token >&2")
    monkeypatch.setenv("TABULARIUM_SECRET_COMMAND", command)
    home = Home.at(tmp_path / "home")
    assert home.has_secret
    assert {home.secret() for _ in range(3)} == {secret}
    assert (tmp_path / "asked").read_text() == "asked\n"
    assert not home.secret_file.exists(), "it is in the key store and nowhere else"
    assert (home.path / "secret.check").exists()
    monkeypatch.setenv("TABULARIUM_SECRET_COMMAND", store(tmp_path, "head -c 32 /dev/zero"))
    secret_of.cache_clear()
    with pytest.raises(InputError, match="TABULARIUM_SECRET_COMMAND: this is not the agency secret"):
        home.secret()


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo Zebulon >&2; exit 3", "failed with exit code 3"),
        ("echo short", "printed something that is no secret"),
        ("sleep 9", "did not answer within"),
    ],
)
def test_a_key_store_that_fails_is_one_line_without_its_words(
    script: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tabularium.tasks.runtime.home._SECONDS", 0.5)
    monkeypatch.setenv("TABULARIUM_SECRET_COMMAND", store(tmp_path, script))
    with pytest.raises(InputError, match=said) as caught:
        Home.at(tmp_path / "home").secret()
    assert "Zebulon" not in str(caught.value) and "short" not in caught.value.what
    assert caught.value.__context__ is None


def test_a_command_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TABULARIUM_SECRET_COMMAND", "no-such-key-store --please")
    with pytest.raises(InputError, match=r"TABULARIUM_SECRET_COMMAND: the command .* cannot be run"):
        Home.at(tmp_path / "home").secret()


def test_a_home_remembers_its_ledger_without_the_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home.at(tmp_path / "home")
    home.remember_ledger()
    assert home.ledger_url == f"sqlite:///{home.path}/ledger.db"
    books = "postgresql+psycopg://{}@db.example/books"
    monkeypatch.setenv("TABULARIUM_LEDGER", books.format("runner:hidden"))
    home.remember_ledger()
    monkeypatch.delenv("TABULARIUM_LEDGER")
    assert Home.at(home.path).ledger_url == books.format("runner")
    assert "hidden" not in "".join(path.read_text() for path in home.path.iterdir() if path.is_file())
    monkeypatch.setenv("TABULARIUM_LEDGER", books.format("officer"))
    assert home.ledger_url == books.format("officer")
    for other in ("postgresql+psycopg://runner@db.example/other", "sqlite:///ledger.db", "no URL"):
        monkeypatch.setenv("TABULARIUM_LEDGER", other)
        with pytest.raises(InputError, match="this home belongs to another ledger"):
            _ = home.ledger_url
