"""A backup holds all that it should, says what it lacks, and leaves nothing behind when it is put back."""

from __future__ import annotations

import grp
import os
import shutil
import signal
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from tabularium.ledger import AwaitingReview, Ledger
from tabularium.ledger.refusals import Conflict
from tabularium.mechanisms.errors import InputError
from tabularium.tasks.arrival.claims import Claims
from tabularium.tasks.custody import restore as restoring
from tabularium.tasks.custody.backup import backup
from tabularium.tasks.custody.home_health import health_checks
from tabularium.tasks.custody.restore import restore, sweep_workspaces
from tabularium.tasks.runtime.home import Home
from tests.flows.release.scene import publish
from tests.flows.release.test_reviewed import write_reviewed
from tests.tasks.arrival.drops import drops_of, seen, write_drop, write_inbox
from tests.tasks.custody.an_installation import CLOSED, OPENED, Scene

pytestmark = pytest.mark.xdist_group("backup")


@pytest.fixture
def folder(scene: Scene, tmp_path: Path) -> Iterator[Path]:
    """The installation's folder; what a test does to it is undone."""
    saved = shutil.copytree(scene.folder, tmp_path / "saved")
    yield scene.folder
    shutil.rmtree(scene.folder)
    shutil.copytree(saved, scene.folder)


def test_a_missing_part_of_a_measurement_is_no_backup_and_no_health(folder: Path) -> None:
    home = Home.at(folder / "home")
    next(iter(sorted(home.measurements.glob("*/part-*")))).unlink()
    with pytest.raises(InputError, match="missing or damaged, so no backup was made"):
        backup(home, folder / "again", CLOSED)
    (look,) = (look for look in health_checks(home) if look.thing == "measurements")
    assert look.state == "fail" and "1 of 1 are missing or damaged" in look.said


def test_an_altered_release_is_left_out_and_counted_and_made_anew(folder: Path, tmp_path: Path) -> None:
    home = Home.at(folder / "home")
    (table,) = (folder / "releases").glob("small/*/*[0-9a-f]/age_sex.csv")
    before = table.read_bytes()
    table.chmod(0o644)
    table.write_bytes(before.replace(b"1", b"7"))
    done = backup(home, folder / "again", CLOSED)
    assert (done.releases, done.missing, done.lost) == (0, 1, 0)
    shutil.rmtree(folder / "releases")
    shutil.rmtree(home.path)
    restored = restore(folder / "again", Home.at(home.path), OPENED)
    with Ledger.connect(home.ledger_url) as books:
        books.confirm(restored.ledger.head.hash)
    publish(folder / "small.yaml", home)
    assert table.read_bytes() == before


def test_a_release_whose_certificate_is_lost_is_counted(folder: Path) -> None:
    home = Home.at(folder / "home")
    (certificate,) = home.measurements.glob("*/certificate.json")
    certificate.unlink()
    done = backup(home, folder / "folder-alone", CLOSED)
    assert (done.releases, done.missing, done.lost) == (1, 0, 0)
    shutil.rmtree(folder / "releases")
    done = backup(home, folder / "neither", CLOSED)
    assert (done.releases, done.missing, done.lost) == (0, 1, 1)


def test_what_became_of_drops_is_in_it_wherever_that_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TABULARIUM_ARRIVALS", f"sqlite:///{tmp_path / 'elsewhere.db'}")
    home, inbox = write_inbox(tmp_path / "scene")
    write_drop(inbox, "bad", digest="0" * 64)
    write_drop(inbox, "good")
    before = seen(home, inbox)
    assert {drop.state for drop in before} == {"arrived", "quarantined"}
    backup(home, tmp_path / "kept", CLOSED)
    monkeypatch.setenv("TABULARIUM_ARRIVALS", f"sqlite:///{tmp_path / 'new.db'}")
    again = Home.at(tmp_path / "home")
    restore(tmp_path / "kept", again, OPENED, tmp_path / "releases")
    assert Claims.known(again) == before == drops_of(again)
    assert not (again.path / "arrivals").exists(), "digests of data are in no backup"


def test_nothing_is_put_beside_another_ledger(folder: Path, tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    with Ledger.connect(home.ledger_url) as books:
        books.open_account("other", unit="record", relation="add-remove", definition="pure", cap=Fraction(1))
    before = sorted(home.path.rglob("*"))
    with pytest.raises(Conflict, match=r"another ledger is there.*nothing was put back"):
        restore(folder / "kept", home, OPENED, tmp_path / "releases")
    assert sorted(home.path.rglob("*")) == before and not (tmp_path / "releases").exists()


@pytest.mark.parametrize("how", ["again", "sweep"])
def test_a_restore_that_was_killed_leaves_no_secret_behind(how: str, folder: Path, tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    child = os.fork()
    if child == 0:
        restoring._put = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        restore(folder / "kept", home, OPENED, tmp_path / "releases")
    os.waitpid(child, 0)
    assert len(list(home.path.rglob("secret"))) == 1
    if how == "again":
        restore(folder / "kept", home, OPENED, tmp_path / "releases")
        assert list(home.path.rglob("secret")) == [home.secret_file]
    else:
        assert sweep_workspaces(home) == "1 folders of dead runs were removed"
        assert list(home.path.rglob("secret")) == []


@pytest.mark.audit
def test_a_restored_draft_is_its_officers_as_before(tmp_path: Path) -> None:
    group = grp.getgrgid(os.getgid()).gr_name
    spec, home, _ = write_reviewed(tmp_path / "scene", review=f"{{by: officer, group: {group}}}")
    with pytest.raises(AwaitingReview):
        publish(spec, home)
    (draft,) = (tmp_path / "scene" / "drafts" / "small" / "2026").iterdir()
    before = {path: path.stat().st_mode for path in [draft.parent, draft, *draft.rglob("*")]}
    assert before[draft] & 0o777 == 0o750
    backup(home, tmp_path / "kept", CLOSED)
    shutil.rmtree(tmp_path / "scene" / "home")
    shutil.rmtree(tmp_path / "scene" / "drafts")
    restore(tmp_path / "kept", Home.at(home.path), OPENED)
    assert {path: path.stat().st_mode for path in before} == before
