"""What is current in a period, from its first release over revisions to withdrawals, and what mends it."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.flows.release_chain import find_published
from tabularium.ledger import Ledger
from tabularium.mechanisms.errors import LedgerError, PublicationError
from tabularium.tasks.publish.period_index import CURRENT, INDEX, period_index, renew_index
from tabularium.tasks.publish.release_folder import check_release, published_in
from tabularium.tasks.runtime.run import Request, load
from tests.flows.release.scene import publish, write_scene

REASON, WHY = "late questionnaires", "a region was coded twice"


def run(*words: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.stdout, done.stderr


class Scene:
    """A release that was published, its home, and an officer's key."""

    def __init__(self, folder: Path) -> None:
        self.spec, self.home = write_scene(folder, rows=60)
        self.key = folder / "officer.pem"
        self.period = folder / "releases" / "small" / "2026"
        assert run("ledger", "keys", "new", self.key)[0] == 0
        public = self.key.with_suffix(".pub.pem")
        assert run("ledger", "keys", "enrol", public, "--officer", "A. Ro", "--key", self.key)[0] == 0
        self.first = publish(self.spec, self.home).release_id

    def revise(self, reason: str) -> str:
        words = (self.spec, "--revises", reason)
        assert run("ledger", "approve", *words, "--key", self.key)[0] == 0
        code, said, told = run("run", *words, "--json")
        assert code == 0, told
        return str(json.loads(said)["release_id"])

    def withdraw(self, release: str, *words: str) -> tuple[int, str, str]:
        return run("withdraw", release, "--reason", WHY, "--key", self.key, *words)

    @property
    def current(self) -> str | None:
        link = self.period / CURRENT
        assert not link.is_symlink() or (link / "certificate.json").is_file()
        return str(link.readlink()) if link.is_symlink() else None

    @property
    def index(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads((self.period / INDEX).read_text())
        return told

    @property
    def states(self) -> list[tuple[str, str]]:
        return [(each["release_id"], each["state"]) for each in self.index["releases"]]

    def books(self) -> Ledger:
        return Ledger.connect(self.home.ledger_url)


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    monkeypatch.setenv("TABULARIUM_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    return Scene(tmp_path)


def test_what_is_current_follows_revisions_and_withdrawals(scene: Scene) -> None:
    first = scene.first
    assert (scene.current, scene.states) == (first, [(first, "current")])
    second = scene.revise(REASON)
    assert (scene.current, scene.states) == (second, [(first, "superseded"), (second, "current")])
    old, new = scene.index["releases"]
    with scene.books() as books:
        charge, before = books.charge(second), books.balance("people")
    assert charge is not None
    assert old["ended"] == {"by": second, "at": charge.changed_at, "reason": REASON, "entry": charge.seq}
    certificate = json.loads((scene.period / second / "certificate.json").read_text())
    assert (new["revises"], new["entry"], new["created"]) == (REASON, charge.seq, certificate["created"])
    assert new["certificate"] == charge.publication_digest

    code, said, _ = scene.withdraw(second, "--json")
    told = json.loads(said)
    assert (code, told["current"], scene.current) == (0, first, first)
    assert scene.states == [(first, "current"), (second, "withdrawn")]
    said_in_index = scene.index["releases"][1]["ended"]
    assert said_in_index == {"by": told["key"], "at": told["at"], "reason": WHY, "entry": told["entry"]}
    third = scene.revise("another reason")
    assert scene.states == [(first, "superseded"), (second, "withdrawn"), (third, "current")]
    assert scene.index["releases"][0]["ended"]["by"] == third, "the one that stands, not the one withdrawn"
    for release in (third, str(scene.period / first)):
        assert scene.withdraw(release)[0] == 0
    assert (scene.current, scene.index["current"]) == (None, None)
    assert [state for _, state in scene.states] == ["withdrawn"] * 3
    with scene.books() as books:
        assert books.balance("people") == before - 1, "the third release cost 1; no withdrawal gave it back"
        books.verify()
        for release in (first, second, third):
            known = books.charge(release)
            assert known is not None
            assert check_release(scene.period / release, release) == known.publication_digest
    assert {path.stat().st_mode & 0o777 for path in scene.period.glob("*.json")} == {0o444}
    assert not [*scene.period.glob(".*")], "nothing is left aside"


def test_a_withdrawn_release_is_said_to_be_so_and_not_published_again(scene: Scene) -> None:
    refused = scene.withdraw("0" * 32)
    assert refused[0] == 1 and "was never reserved" in refused[2]
    (place,) = scene.home.measurements.glob("*/published-in")
    assert published_in(scene.home, scene.first) == scene.period.parent.parent
    place.rename(place.with_name(".away"))
    code, said, _ = scene.withdraw(scene.first)
    assert code == 0 and "This home did not publish it" in said, "an officer's machine need not be the runner"
    assert scene.states == [(scene.first, "current")]
    place.with_name(".away").rename(place)
    away = scene.period.rename(scene.period.with_name("away"))
    code, said, _ = scene.withdraw(scene.first)
    assert code == 0 and f"for {scene.period} is not there" in said, "a disk that is not mounted"
    away.rename(scene.period)
    code, said, _ = scene.withdraw(scene.first)
    assert code == 0 and scene.states == [(scene.first, "withdrawn")]
    assert said.splitlines()[0] == f"Release {scene.first} is withdrawn; its budget stays spent."
    assert "no release" in said
    entries = len(run("ledger", "history", "--json")[1])
    again = scene.withdraw(scene.first)
    assert again[0] == 0 and len(run("ledger", "history", "--json")[1]) == entries
    code, said, told = run("run", scene.spec)
    assert (code, said) == (1, "")
    line = told.splitlines()[-1]
    assert "this release was withdrawn on 20" in line and WHY in line and "--revises REASON" in line
    request = Request.of(str(scene.spec), None, None, scene.home.path)
    with pytest.raises(LedgerError, match="this release was withdrawn"):
        find_published(request, load(request))
    assert WHY in run("ledger", "history")[1]
    books = scene.period / ".." / "books.txt"
    assert run("ledger", "export", books)[0] == 0
    code, told, _ = run("verify", scene.period / scene.first, "--export", books)
    assert (
        code == 0
        and f"withdrawn since, in entry {scene.index['releases'][0]['ended']['entry']}: {WHY}" in told
    )
    (account,) = json.loads(run("ledger", "show", "--json")[1])
    (charge,) = account["charges"]
    assert (charge["state"], charge["withdrawn"]["reason"]) == ("published", WHY)
    assert "withdrawn" in run("ledger", "show")[1]


def test_what_a_crash_or_a_hand_has_left_is_mended_by_the_next_run(scene: Scene) -> None:
    first = scene.first
    second = scene.revise(REASON)
    link, index = scene.period / CURRENT, scene.period / INDEX
    whole = index.read_bytes()

    def cut_off_before_the_index() -> None:
        link.unlink()
        link.symlink_to(first)
        index.unlink()

    def altered() -> None:
        index.unlink()
        index.write_text("{}")

    def gone() -> None:
        link.unlink()

    for damage in (cut_off_before_the_index, altered, gone):
        damage()
        again = json.loads(run("run", scene.spec, "--revises", REASON, "--json")[1])
        assert again["status"] == "already published"
        assert (index.read_bytes(), scene.current) == (whole, second)
    times = index.stat().st_mtime_ns, link.lstat().st_mtime_ns
    publish(scene.spec, scene.home)
    assert times == (index.stat().st_mtime_ns, link.lstat().st_mtime_ns), "what is right is not touched"


def test_only_whole_releases_that_the_ledger_knows_are_listed(scene: Scene, tmp_path: Path) -> None:
    second = scene.revise(REASON)
    (scene.period / ("f" * 32)).mkdir()
    (scene.period / ("e" * 32)).symlink_to(second)
    (scene.period / "notes.txt").write_text("x")
    (scene.period / ".left.partial").mkdir()
    (scene.period / ("d" * 32)).mkdir()
    copied = (scene.period / second / "certificate.json").read_bytes()
    (scene.period / ("d" * 32) / "certificate.json").write_bytes(copied)
    with scene.books() as books:
        assert [each["release_id"] for each in period_index(books, scene.period)["releases"]] == [
            scene.first,
            second,
        ]
        assert period_index(books, tmp_path / "nowhere")["current"] is None
        renew_index(books, tmp_path / "nowhere")
        assert not (tmp_path / "nowhere").exists()
        certificate = scene.period / second / "certificate.json"
        certificate.chmod(0o644)
        certificate.write_bytes(copied.replace(b'"small"', b'"Small"'))
        told = renew_index(books, scene.period)
        assert [(each["whole"], each["state"]) for each in told["releases"]] == [
            (True, "superseded"),
            (False, "current"),
        ]
        assert (told["current"], scene.current) == (second, None), "what it superseded is not current again"
        certificate.write_bytes(copied)
        assert renew_index(books, scene.period)["current"] == second == scene.current
        (scene.period / CURRENT).unlink()
        (scene.period / CURRENT).mkdir()
        with pytest.raises(PublicationError, match="what is current in this period could not be written"):
            renew_index(books, scene.period)


def test_many_at_once_leave_what_the_ledger_says(scene: Scene) -> None:
    """Runs and officers hold other releases of the same period, and write the same two names."""
    second = scene.revise("one")
    done = threading.Event()

    def renew() -> None:
        with scene.books() as books:
            while not done.is_set():
                renew_index(books, scene.period)

    others = [threading.Thread(target=renew) for _ in range(2)]
    for other in others:
        other.start()
    code = scene.withdraw(second)[0]
    done.set()
    for other in others:
        other.join()
    assert (code, scene.current, scene.index["current"]) == (0, scene.first, scene.first)
    assert not [*scene.period.glob(".*")]
