"""Backups put back in every combination: nothing is drawn twice, and no balance grows without a word."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import tabularium.tasks.measure
from tabularium.flows.cli.app import app
from tabularium.ledger import Ledger, LedgerError, MechanismFailed
from tabularium.mechanisms.errors import TabulariumError
from tabularium.tasks.ledger_stages import check_account
from tabularium.tasks.publish.release_folder import HEADS
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import NullReporter, reporting_to
from tabularium.tasks.runtime.run import Request, opened
from tests.flows.release.scene import publish, write_scene

PIECES = ("home", "ledger", "store", "publication")
LATER = 7  # of 10: what is left after the three releases of the drill
#: Which backups are put back (the others are as they were last) and whether a second witness is kept: every
#: one with the old ledger, and some with the new one.
DRILLS = [
    *((*old, witness) for old in itertools.product((True, False), repeat=4) if old[1] for witness in (0, 1)),
    *((False, False, store, publication, 0) for store in (True, False) for publication in (True, False)),
]


def piece_of(path: Path, folder: Path) -> str:
    """Say to which piece a file of the drill's folder belongs; empty for what is in no backup."""
    place = path.relative_to(folder).parts
    if place[0] in ("releases", "witness"):
        return "publication" if place[0] == "releases" else "witness"
    if place[0] != "home":
        return ""
    if place[1].startswith("ledger.db"):
        return "ledger"
    return "store" if place[1] == "measurements" else "home"


@dataclass
class Told(NullReporter):
    """Keeps what a run has said."""

    notes: list[str] = field(default_factory=list)

    def noted(self, text: str) -> None:
        self.notes.append(text)


@dataclass(frozen=True)
class Drill:
    """A folder as it was after one release, and after three."""

    old: Path
    new: Path
    measurement: str  # digest of the measurement of 2026

    def put_back(self, folder: Path, old: dict[str, bool]) -> tuple[Path, Home]:
        """Make a folder in which some pieces are old."""
        for source, is_old in ((self.old, True), (self.new, False)):
            for path in sorted(source.rglob("*")):
                if path.is_file() and old.get(piece_of(path, source), False) is is_old:
                    target = folder / path.relative_to(source)
                    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
                    shutil.copy2(path, target)
        return folder / "small.yaml", Home.at(folder / "home")


def witnessed(folder: Path, kept: bool) -> pytest.MonkeyPatch:
    patch = pytest.MonkeyPatch()
    if kept:
        patch.setenv("TABULARIUM_WITNESS", str(folder / "witness"))
    else:
        patch.delenv("TABULARIUM_WITNESS", raising=False)
    return patch


@pytest.fixture(scope="module")
def drill(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Drill]:
    """Publish 2025; that is the backup. Publish 2026, and draw 2027, which fails and is abandoned."""
    folder = tmp_path_factory.mktemp("drill") / "now"
    patch = witnessed(folder, kept=True)
    spec, home = write_scene(folder)
    publish(spec, home, period="2025")
    shutil.copytree(folder, folder.with_name("old"))
    outcome = publish(spec, home)

    def fail(*_: Any) -> Any:
        raise ValueError

    patch.setattr(tabularium.tasks.measure, "draw_job", fail)
    with pytest.raises(MechanismFailed):
        publish(spec, home, period="2027")
    patch.undo()
    certificate = json.loads((Path(outcome.folder) / "certificate.json").read_bytes())
    yield Drill(folder.with_name("old"), folder, certificate["measurements"]["digest"])


def balance(home: Home) -> Fraction:
    with Ledger.connect(home.ledger_url) as books:
        return books.balance("people")


def accepted(spec: Path, home: Home, period: str) -> bool:
    """Whether the ledger would take a charge for a period that was never published."""
    request = Request.of(spec, period=period, home=home.path)
    try:
        with opened(request, to_publish=False) as run:
            check_account(run)
    except LedgerError:
        return False
    return True


@pytest.mark.parametrize(
    "case",
    DRILLS,
    ids=lambda case: "-".join(
        [*(piece for piece, old in zip(PIECES, case, strict=False) if old), "witness" if case[4] else "alone"]
    ),
)
def test_nothing_is_drawn_twice_and_no_balance_grows_unseen(
    case: tuple[bool, bool, bool, bool, int], drill: Drill, tmp_path: Path
) -> None:
    old, kept = dict(zip(PIECES, case, strict=False)), bool(case[4])
    patch = witnessed(tmp_path, kept)
    try:
        spec, home = drill.put_back(tmp_path, old)
        if old["ledger"] and old["store"] and old["publication"] and not kept:
            # Nothing is left that could know: who opens an account is told so, and so is who asks the doctor.
            assert accepted(spec, home, "2028")
            return
        if accepted(spec, home, "2028"):
            assert balance(home) == LATER, "a balance that has grown"
            assert not old["ledger"]
        before = balance(home)
        for period in ("2026", "2027"):
            try:
                outcome = publish(spec, home, period=period)
            except TabulariumError as error:
                assert "move it away" not in str(error)
                if old["ledger"]:
                    assert "read-only" in str(error)
            else:
                certificate = json.loads((Path(outcome.folder) / "certificate.json").read_bytes())
                assert (period, certificate["measurements"]["digest"]) == ("2026", drill.measurement)
        assert balance(home) == before
    finally:
        patch.undo()


def test_word_of_a_draw_is_left_before_it_and_is_not_for_everybody(drill: Drill) -> None:
    """2027 was never published, and yet an old ledger is recognised by it."""
    heads = sorted((drill.new / "releases" / "small" / HEADS).iterdir())
    assert len(heads) == 3
    assert {path.stat().st_mode & 0o777 for path in heads} == {0o600}
    assert heads[0].parent.stat().st_mode & 0o777 == 0o700


def test_a_draw_that_was_never_published_blocks_an_old_ledger_too(drill: Drill, tmp_path: Path) -> None:
    patch = witnessed(tmp_path, kept=False)
    spec, home = drill.put_back(tmp_path, dict.fromkeys(("home", "ledger", "store"), True))
    published = json.loads(
        next((tmp_path / "releases").glob("small/2026/*[0-9a-f]/certificate.json")).read_bytes()
    )
    shutil.rmtree(tmp_path / "releases" / "small" / "2026")
    (tmp_path / "releases" / "small" / HEADS / published["release_id"]).unlink()
    with pytest.raises(
        LedgerError, match=r"read-only: it lacks entry \d+ as a measurement file, certificate"
    ):
        publish(spec, home, period="2028")
    patch.undo()


@pytest.mark.parametrize("lost", [True, False])
def test_certificates_are_read_where_heads_are_lost(lost: bool, drill: Drill, tmp_path: Path) -> None:
    patch = witnessed(tmp_path, kept=False)
    spec, home = drill.put_back(tmp_path, dict.fromkeys(("home", "ledger", "store"), True))
    shutil.rmtree(tmp_path / "releases" / "small" / HEADS)
    if lost:
        shutil.rmtree(tmp_path / "releases" / "small" / "2026")
    assert accepted(spec, home, "2028") is lost, "who deletes all of them has deleted the memory"
    patch.undo()


def test_a_release_that_lies_there_unknown_is_not_drawn_again_nor_to_be_moved_away(
    drill: Drill, tmp_path: Path
) -> None:
    """Even where nothing vouches for it, as after somebody edited its certificate."""
    patch = witnessed(tmp_path, kept=False)
    spec, home = drill.put_back(tmp_path, dict.fromkeys(("home", "ledger", "store"), True))
    shutil.rmtree(tmp_path / "releases" / "small" / HEADS)
    (path,) = (tmp_path / "releases").glob("small/2026/*[0-9a-f]/certificate.json")
    path.chmod(0o600)
    path.write_text(path.read_text().replace('"mac": "', '"mac": "0'))
    with pytest.raises(LedgerError, match=r"ledger does not know of it.*restore the newest backup"):
        publish(spec, home)
    assert balance(home) == 9
    patch.undo()


def test_what_was_planted_blocks_nobody(drill: Drill, tmp_path: Path) -> None:
    patch, told = witnessed(tmp_path, kept=False), Told()
    spec, home = drill.put_back(tmp_path, {})
    certificate = next((tmp_path / "releases").glob("small/2026/*[0-9a-f]/certificate.json"))
    text = json.loads(certificate.read_bytes())
    planted = []
    for change in ({"seq": 999}, {"hash": "ab" * 32}, {"mac": "ab" * 32}, {"mac": None}, {"chain": 7}):
        forged = json.loads(json.dumps(text))
        forged["ledger"]["head"] |= change
        planted.append(json.dumps(forged))
    planted += ["", "[]", "[" * 100_000, "{}", json.dumps({**text, "release_id": "ab" * 16})]
    for place, content in enumerate(planted):
        folder = tmp_path / "releases" / "other" / "2026" / f"planted{place}"
        folder.mkdir(parents=True)
        (folder / "certificate.json").write_text(content)
        (tmp_path / "releases" / "small" / HEADS / f"planted{place}").write_text(content)
    pipe = tmp_path / "releases" / "small" / HEADS / "pipe"
    os.mkfifo(pipe)
    with reporting_to(told):
        publish(spec, home, period="2028")
    passed = [text for text in told.notes if "does not vouch" in text]
    assert passed == [
        "passed over, since this agency's secret does not vouch for them: "
        f"{2 * len(planted) + 1} heads in {tmp_path / 'releases'}; if another home published there, give each "
        "home a folder of its own"
    ]
    assert balance(home) == LATER - 1
    patch.undo()


def test_a_new_ledger_may_be_begun_but_draws_nothing_a_second_time(drill: Drill, tmp_path: Path) -> None:
    patch, told = witnessed(tmp_path, kept=False), Told()
    spec, home = drill.put_back(tmp_path, {})
    for path in [*home.path.glob("ledger.db*"), home.measurements]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    with Ledger.connect(home.ledger_url) as books:
        terms: dict[str, Any] = {"relation": "add-remove", "definition": "pure", "cap": Fraction(10)}
        books.open_account("people", unit="record", **terms)
    for period in ("2026", "2027"):
        with pytest.raises(LedgerError, match="was drawn under another ledger"):
            publish(spec, home, period=period)
    with reporting_to(told):
        assert accepted(spec, home, "2028")
    assert any("3 releases in" in text and "under another ledger" in text for text in told.notes)
    patch.undo()


@pytest.mark.parametrize("kept", [False, True])
def test_another_publication_folder_remembers_nothing(kept: bool, drill: Drill, tmp_path: Path) -> None:
    """What a second witness is for: without one, a folder tells an old home of its own releases only."""
    patch = witnessed(tmp_path, kept)
    spec, home = drill.put_back(tmp_path, dict.fromkeys(("home", "ledger", "store"), True))
    assert not accepted(spec, home, "2028")
    spec.write_text(spec.read_text().replace("folder: releases", "folder: others"))
    assert accepted(spec, home, "2028") is not kept
    patch.undo()


@pytest.mark.parametrize("kept", [False, True])
def test_a_second_witness_is_asked_for_where_an_account_is_opened(kept: bool, tmp_path: Path) -> None:
    patch = witnessed(tmp_path, kept)
    words = ["ledger", "open", "people", "--cap", "1", "--home", str(tmp_path / "home")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert ("TABULARIUM_WITNESS" in done.output) is not kept
    patch.undo()
