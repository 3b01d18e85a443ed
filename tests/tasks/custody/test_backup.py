"""A backup is whole or not there, opens for its owner alone, and gives back everything byte for byte."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyrage
import pytest

from tabularium.ledger import Ledger, ReadOnly
from tabularium.mechanisms.errors import InputError, TabulariumError
from tabularium.tasks.custody.backup import backup
from tabularium.tasks.custody.restore import restore
from tabularium.tasks.custody.sealing import Lock
from tabularium.tasks.runtime.home import Home
from tests.flows.release.scene import publish, states, write_scene
from tests.tasks.custody.an_installation import CLOSED, OPENED, Scene

pytestmark = pytest.mark.xdist_group("backup")  # what they look at is made once


def contents(folder: Path, *names: str) -> dict[str, bytes]:
    """The files of a folder, of a home those that a backup holds."""
    found = (path for name in names or ("",) for path in [folder / name, *(folder / name).rglob("*")])
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in found
        if path.is_file() and not path.name.startswith((".lock", "."))
    }


HELD = ("secret", "secret.check", "inputs", "measurements", "inboxes.json", "budget-warnings.json")


def test_all_of_it_comes_back_and_the_ledger_waits_for_its_head(scene: Scene, tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    done = restore(scene.target, home, OPENED, tmp_path / "releases")
    before, after = contents(scene.home.path, *HELD), contents(home.path, *HELD)
    assert [
        name for name in before if not name.endswith("published-in") and after.get(name) != before[name]
    ] == []
    assert after.keys() == before.keys()
    assert contents(tmp_path / "releases") == contents(scene.folder / "releases")
    assert (tmp_path / "releases" / "small" / "2026" / "current" / "certificate.json").is_file()
    assert {path.stat().st_mode & 0o77 for path in home.path.rglob("*")} == {0}
    heads = list((tmp_path / "releases" / "small" / ".heads").iterdir())
    assert [path.stat().st_mode & 0o777 for path in heads] == [0o600]
    shutil.copy(scene.spec, tmp_path / "small.yaml")
    for name in ("areas.csv", "people.csv"):
        shutil.copy(scene.folder / name, tmp_path / name)
    with pytest.raises(ReadOnly, match="ledger confirm"):
        publish(tmp_path / "small.yaml", home, period="2027")
    with Ledger.connect(home.ledger_url) as books:
        books.confirm(done.ledger.head.hash)
    assert publish(tmp_path / "small.yaml", home).status == "already published"
    shutil.rmtree(tmp_path / "releases")
    publish(tmp_path / "small.yaml", home)
    assert contents(tmp_path / "releases") == contents(scene.folder / "releases")
    assert states(home) == ["published"]


def test_nothing_that_is_private_lies_open_in_it(scene: Scene) -> None:
    whole = b"".join(path.read_bytes() for path in scene.target.iterdir())
    private = contents(scene.home.path, "secret", "secret.check", "inputs", "measurements")
    assert len(private) > 5
    assert not [name for name, content in private.items() if len(content) > 16 and content in whole]
    assert scene.home.secret().hex().encode() not in whole
    assert {path.stat().st_mode & 0o777 for path in scene.target.iterdir()} == {0o600}
    assert scene.target.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "lock", [Lock("another"), Lock(identities=(str(pyrage.x25519.Identity.generate()),))]
)
def test_nobody_else_opens_it(lock: Lock, scene: Scene, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="does not open with this passphrase or identity"):
        restore(scene.target, Home.at(tmp_path / "home"), lock)
    assert not contents(tmp_path / "home")


def test_a_passphrase_opens_what_it_closed(scene: Scene, tmp_path: Path) -> None:
    backup(scene.home, tmp_path / "kept", Lock("correct horse"))
    restore(tmp_path / "kept", Home.at(tmp_path / "home"), Lock("correct horse"), tmp_path / "releases")
    assert Home.at(tmp_path / "home").secret() == scene.home.secret()


@pytest.mark.parametrize("name", ["about.json", "key.age", "ledger.txt", "sealed.age"])
@pytest.mark.parametrize("how", ["altered", "cut", "missing"])
def test_a_damaged_backup_puts_nothing_back(name: str, how: str, scene: Scene, tmp_path: Path) -> None:
    copy = shutil.copytree(scene.target, tmp_path / "kept")
    content = bytearray((copy / name).read_bytes())
    content[len(content) // 2] ^= 1
    if how == "missing":
        (copy / name).unlink()
    else:
        (copy / name).write_bytes(content if how == "altered" else content[: len(content) // 2])
    try:
        restore(copy, Home.at(tmp_path / "home"), OPENED, tmp_path / "releases")
    except TabulariumError:
        assert not contents(tmp_path / "home") and not (tmp_path / "releases").exists()
    else:  # a letter of what it says of itself, such as the version that wrote it
        assert (name, how) == ("about.json", "altered")


def test_a_file_that_is_there_is_not_replaced(scene: Scene, tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    home.secret()
    mine = home.secret_file.read_bytes()
    with pytest.raises(InputError, match=r"another file is there.*nothing was put back"):
        restore(scene.target, home, OPENED, tmp_path / "releases")
    assert home.secret_file.read_bytes() == mine
    assert not home.measurements.exists() and not (tmp_path / "releases").exists()


def test_what_was_cut_off_is_finished_by_the_same_command(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home.at(tmp_path / "home")

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("tabularium.tasks.custody.restore.exported.restore", dies)
        restore(scene.target, home, OPENED, tmp_path / "releases")
    first = restore(scene.target, home, OPENED, tmp_path / "releases")
    assert restore(scene.target, home, OPENED, tmp_path / "releases") == first
    assert states(home) == ["published"]


def test_a_backup_that_fails_is_not_there(scene: Scene, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no public key of age"):
        backup(scene.home, tmp_path / "kept", Lock(recipients=("age1nonsense",)))
    with pytest.raises(InputError, match="is there already"):
        backup(scene.home, scene.target, CLOSED)
    copy = shutil.copytree(scene.home.path, tmp_path / "home")
    next(copy.glob("measurements/*/1")).unlink()
    with pytest.raises(InputError, match="measurement that the ledger names is missing"):
        backup(Home.at(copy), tmp_path / "kept", CLOSED)
    assert not list(tmp_path.glob("*kept*")) and not list(tmp_path.glob(".*kept*"))


def test_what_happens_while_it_is_written_is_left_out(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The restored ledger lacks nothing that a measurement, a binding or a certificate names."""
    spec, home = write_scene(tmp_path / "scene")
    publish(spec, home)
    from tabularium.ledger import export as exported

    real = exported.verify_export

    def meanwhile(*given: object, **named: object) -> object:
        publish(spec, home, period="2027")
        return real(*given, **named)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(exported, "verify_export", meanwhile)
        done = backup(home, tmp_path / "kept", CLOSED)
    assert states(home) == ["published", "published"] and done.releases == 1
    put_back = Home.at(tmp_path / "new")
    restore(tmp_path / "kept", put_back, OPENED, tmp_path / "new-releases")
    assert len(list(put_back.measurements.iterdir())) == 1
    assert len(list((tmp_path / "new-releases").glob("small/*/*[0-9a-f]/certificate.json"))) == 1
    heads = [json.loads(path.read_bytes()) for path in (tmp_path / "new-releases").glob("small/.heads/*")]
    assert len(heads) == 1
    with Ledger.connect(put_back.ledger_url) as books:
        assert books.read_only == books.unconfirmed
        books.confirm(done.head.hash)
    again = spec.with_name("other.yaml")
    again.write_text(spec.read_text().replace("folder: releases", f"folder: {tmp_path / 'new-releases'}"))
    assert publish(again, put_back).status == "already published"


def test_a_secret_of_a_key_store_is_in_no_backup(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TABULARIUM_SECRET_COMMAND", f"cat {scene.home.secret_file}")
    backup(scene.home, tmp_path / "kept", CLOSED)
    restore(tmp_path / "kept", Home.at(tmp_path / "home"), OPENED, tmp_path / "releases")
    assert not (tmp_path / "home" / "secret").exists()
    assert "key store" in json.loads((tmp_path / "kept" / "about.json").read_bytes())["secret"]
