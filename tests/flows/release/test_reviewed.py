"""Review before publication, from the draft on: accepted bytes are the draft's, withheld stays withheld."""

from __future__ import annotations

import grp
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from typer.testing import CliRunner

import tabularium
import tabularium.ledger.measurement.measure_once
from tabularium.flows.cli.app import app
from tabularium.flows.operations.waiting import _decisions
from tabularium.flows.release_chain import Outcome, find_published, release_tables
from tabularium.ledger import AwaitingReview, Ledger, NotApproved
from tabularium.ledger.keys import make_key, public_hex, read_private
from tabularium.mechanisms.errors import LedgerError, PublicationError, TabulariumError
from tabularium.tasks.publish import draft_folder
from tabularium.tasks.publish.verify_certificate import verify_certificate
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.run import Request, load
from tabularium.tasks.sign.statement import STATEMENT, read_statement
from tabularium.validations.release_spec.load import load_spec
from tests.flows.release.scene import let_sign, publish, states, write_scene

RULE = '[{rule: row_count, min: 1, noisy: {share: "1/10"}}]'
# One worker for the whole file: its draft is laid out once.
pytestmark = pytest.mark.xdist_group("reviewed")


def write_reviewed(folder: Path, review: str = "officer", **options: str) -> tuple[Path, Home, Path]:
    """Write a scene whose spec asks for a review, and enrol an officer; return spec, home and key file."""
    spec, home = write_scene(folder, **options)  # type: ignore[arg-type]
    spec.write_text(spec.read_text().replace("releases}", f"releases, review: {review}}}"))
    file = folder / "officer.pem"
    key = make_key(file)
    with Ledger.connect(home.ledger_url) as books:
        books.enrol_key(public_hex(key), officer="A. Ro", by=key)
    return spec, home, file


def bytes_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@dataclass
class Scene:
    spec: Path
    home: Home
    key: Path
    release_id: str
    draft: Path
    laid_out: dict[str, bytes]

    @property
    def folder(self) -> Path:
        return self.spec.parent / "releases" / "small" / "2026" / self.release_id

    def decide(self, *words: str) -> str:
        command = ["ledger", words[0], self.release_id, *words[1:], "--key", str(self.key)]
        done = CliRunner().invoke(app, [*command, "--home", str(self.home.path)])
        assert done.exit_code == (1 if done.stderr else 0), done.output
        return done.stderr or done.stdout

    def shown(self, *words: str) -> str:
        done = CliRunner().invoke(
            app, ["ledger", *words, "--home", str(self.home.path)], env={"COLUMNS": "200"}
        )
        assert done.exit_code == 0, done.output
        return done.stdout

    def books(self) -> Ledger:
        return Ledger.connect(self.home.ledger_url)


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scene, Path]:
    """A draft, and a copy of all that there is then."""
    folder = tmp_path_factory.mktemp("reviewed") / "scene"
    spec, home, key = write_reviewed(folder, rules=RULE)
    with pytest.raises(AwaitingReview) as told:
        publish(spec, home)
    (draft,) = (folder / "drafts" / "small" / "2026").iterdir()
    assert str(draft) in str(told.value)
    for decision in ("accept", "withhold"):
        assert f"tabularium ledger {decision} {draft.name}" in str(told.value)
    (folder / "people.csv").unlink()
    shutil.copytree(folder, folder.with_name("saved"), symlinks=True)
    return Scene(spec, home, key, draft.name, draft, bytes_in(draft)), folder.with_name("saved")


@pytest.fixture
def scene(laid_out: tuple[Scene, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Scene]:
    """That draft as it was laid out, whatever tests before have done; its input is gone."""
    found, saved = laid_out
    shutil.rmtree(found.spec.parent)
    shutil.copytree(saved, found.spec.parent)
    monkeypatch.setenv("TABULARIUM_WITNESS", str(tmp_path / "witnesses"))
    return found


def run(scene: Scene) -> Outcome:
    return publish(scene.spec, scene.home)


def test_a_draft_is_for_its_owner_alone_and_nothing_confidential_is_left(scene: Scene) -> None:
    paths = [scene.draft, *scene.draft.rglob("*"), *list(scene.draft.parents)[:3]]
    assert {path.stat().st_mode & 0o077 for path in paths} == {0}
    assert list(scene.home.workspaces.iterdir()) == []
    assert "certificate.json" in scene.laid_out
    assert not scene.folder.parent.exists(), "nothing is published"
    assert states(scene.home) == ["measured", "measured"]
    with scene.books() as books:
        assert all(charge.review for charge in books.charges("people"))


def test_until_an_officer_decides_every_run_waits_without_the_input(scene: Scene) -> None:
    with scene.books() as books:
        before = books.head()
    with pytest.raises(AwaitingReview):
        run(scene)
    request = Request.of(scene.spec, None, None, scene.home.path)
    with pytest.raises(AwaitingReview):
        find_published(request, load(request))
    with scene.books() as books:
        assert books.head() == before
    assert bytes_in(scene.draft) == scene.laid_out
    assert "draft, to review" in scene.shown("show")
    (account,) = json.loads(scene.shown("show", "--json"))
    main = next(each for each in account["charges"] if each["release_id"] == scene.release_id)
    assert main["draft"]["accepted"] is False
    assert "criteria: error-in-processing, implausible" in scene.shown("history")


def test_accepted_bytes_are_the_drafts_and_twice_is_once(scene: Scene) -> None:
    assert f"Published: {scene.folder}" in scene.decide("accept")
    assert bytes_in(scene.folder) == scene.laid_out
    assert not scene.draft.exists()
    assert all(path.stat().st_mode & 0o777 == 0o444 for path in scene.folder.rglob("*") if path.is_file())
    with scene.books() as books:
        head = books.head()
        assert books.balance("people") == 9
        verify_certificate(scene.folder / "certificate.json", books.charge(scene.release_id))
        books.verify()
    assert states(scene.home) == ["published", "published"], "the tallies with it"
    assert "Published" in scene.decide("accept")
    assert run(scene).status == "already published"
    assert "was accepted" not in scene.decide("accept")
    assert "is published and cannot become withheld" in scene.decide("withhold", "--criterion", "implausible")
    with scene.books() as books:
        assert books.head() == head


def test_an_acceptance_is_published_by_the_next_run(scene: Scene) -> None:
    officer = Ed25519PrivateKey.generate()
    with scene.books() as books:
        draft = books.draft(scene.release_id)
        assert draft is not None
        with pytest.raises(LedgerError, match="is not enrolled"):
            books.accept(scene.release_id, draft=draft.digest, by=officer)
    scene.draft.rename(scene.draft.with_name("elsewhere"))
    assert "the draft is gone" in scene.decide("accept")
    scene.draft.with_name("elsewhere").rename(scene.draft)
    scene.folder.parent.parent.mkdir(exist_ok=True)
    scene.folder.parent.write_text("no room for a folder")
    assert "the accepted draft could not be published: Not a directory" in scene.decide("accept")
    scene.folder.parent.unlink()
    assert run(scene) == Outcome("published", scene.release_id, str(scene.folder), draft.digest)
    assert bytes_in(scene.folder) == scene.laid_out


@pytest.mark.parametrize("accepted", [False, True])
def test_a_lost_draft_is_made_anew_byte_for_byte(scene: Scene, accepted: bool) -> None:
    if accepted:
        by = read_private(scene.key)
        with scene.books() as books:
            draft = books.draft(scene.release_id)
            assert draft is not None
            books.accept(scene.release_id, draft=draft.digest, by=by)
    shutil.rmtree(scene.draft)
    if accepted:
        assert run(scene).status == "published"
        assert bytes_in(scene.folder) == scene.laid_out
        return
    assert "the draft is gone" in scene.decide("accept")
    with pytest.raises(AwaitingReview):
        run(scene)
    assert bytes_in(scene.draft) == scene.laid_out
    assert {path.stat().st_mode & 0o077 for path in (scene.draft, *scene.draft.rglob("*"))} == {0}


def test_a_draft_stays_where_it_was_laid_out_and_goes_when_it_is_published(scene: Scene) -> None:
    text = scene.spec.read_text().replace("review: officer", "review: {by: officer, folder: moved}")
    scene.spec.write_text(text)
    for lost in (False, True):
        if lost:
            shutil.rmtree(scene.draft)
        with pytest.raises(AwaitingReview, match=str(scene.draft)):
            run(scene)
        assert bytes_in(scene.draft) == scene.laid_out
        assert not (scene.spec.parent / "moved").exists()
    assert "Published" in scene.decide("accept")
    shutil.copytree(scene.folder, scene.draft)  # as if cut off before it was removed
    assert run(scene).status == "already published"
    assert not scene.draft.exists()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_draft_that_was_altered_is_not_published(
    scene: Scene, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = scene.draft / "age_sex.csv"
    if when == "after":
        with monkeypatch.context() as patch:
            patch.setattr(draft_folder, "publish_accepted", lambda *_: None)
            scene.decide("accept")
    table.write_bytes(table.read_bytes().replace(b"male", b"MALE", 1))
    if when == "before":
        assert "age_sex.csv is missing or altered" in scene.decide("accept")
    with pytest.raises(AwaitingReview if when == "before" else PublicationError):
        run(scene)
    certificate = scene.draft / "certificate.json"
    found = json.loads(certificate.read_bytes())
    certificate.write_text(json.dumps(found | {"files": found["files"] | {"age_sex.csv": digest(table)}}))
    if when == "before":
        assert "this is not the draft that was laid out" in scene.decide("accept")
    with pytest.raises(AwaitingReview if when == "before" else PublicationError):
        run(scene)
    assert not scene.folder.exists() and states(scene.home)[-1] == "measured"


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_withheld_stays_withheld_and_later_certificates_say_so(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "criterion: is not among" in scene.decide("withhold", "--criterion", "nobody-likes-it")
    said = scene.decide("withhold", "--criterion", "implausible", "--consulted-confidential")
    assert "is withheld; its budget stays spent" in said
    with scene.books() as books:
        before = books.head()
    for _ in range(2):
        monkeypatch.setattr(tabularium.ledger.measurement.measure_once, "measure_once", None)
        with pytest.raises(
            LedgerError, match=f"^release {scene.release_id}: this release was withheld; "
        ) as e:
            run(scene)
        assert "\n" not in str(e.value)
    assert "is withheld and cannot become published" in scene.decide("accept")
    assert not scene.folder.exists() and not scene.draft.exists()
    told = scene.shown("history", "--last", "1")
    for words in ("withheld", "criterion: implausible", "confidential figures were consulted", "A. Ro"):
        assert words in told
    with scene.books() as books:
        assert (books.head(), books.balance("people")) == (before, 9)
    monkeypatch.undo()
    write_scene(scene.spec.parent)  # its input again, and a spec that asks for no review
    with pytest.raises(NotApproved, match="was to be reviewed, drawn, and not published"):
        publish(scene.spec, scene.home)
    later = publish(scene.spec, scene.home, period="2027")
    path = Path(later.folder) / "certificate.json"
    with scene.books() as books:
        found = verify_certificate(path, books.charge(later.release_id)).document()
    verify_certificate(path)
    assert found["ledger"]["withheld"] == [
        {
            **{"release_id": scene.release_id, "product": "small", "period": "2026", "amount": "1"},
            **{"criterion": "implausible", "consulted": True},
        }
    ], "the tallies' cost is in it"
    said = next(each["what"] for each in found["outside_the_guarantee"] if each["kind"] == "withheld")
    assert "1 draft of this account was withheld by officers (implausible)" in said
    assert "for 1 of them confidential figures were consulted" in said
    assert "margins of error hold before" in said and "A. Ro" not in path.read_text()


def test_the_certificate_says_that_somebody_chose_and_not_who_accepted(scene: Scene) -> None:
    scene.decide("accept", "--consulted-confidential")
    raw = (scene.folder / "certificate.json").read_text()
    facts = json.loads(raw)["outside_the_guarantee"]
    said = next(each["what"] for each in facts if each["kind"] == "review")
    assert "an officer may withhold a draft (error-in-processing, implausible, margins-too-wide)" in said
    assert "consulted" not in raw and "A. Ro" not in raw
    with scene.books() as books:
        bodies = [entry.body for entry in books.entries()]
        decided = {of for _, of in _decisions(books, 0)}
        assert decided == {books.charge(scene.release_id).spec_digest}  # type: ignore[union-attr]
    (acceptance,) = (body for body in bodies if body["kind"] == "acceptance")
    assert acceptance["consulted"] is True and acceptance["release"] == scene.release_id


def test_two_officers_approve_a_spec_and_accept_its_draft(tmp_path: Path) -> None:
    """With what each of them is told; statement, certificate and an export name both."""
    spec, home, key = write_reviewed(tmp_path)
    with Ledger.connect(home.ledger_url) as books:
        books.change_account("people", approvals=2, reason="by decree")
    with pytest.raises(NotApproved, match="0 of 2 officers have approved this spec"):
        publish(spec, home)
    with Ledger.connect(home.ledger_url) as books:
        books.approve("people", load_spec(spec).digest, by=read_private(key), amount=Fraction(1))
    with pytest.raises(NotApproved, match="1 of 2 officers have approved this spec"):
        publish(spec, home)
    other = make_key(tmp_path / "other.pem")
    with Ledger.connect(home.ledger_url) as books:
        books.enrol_key(public_hex(other), officer="B. Ito", by=read_private(key))

    def ledger(*words: object) -> str:
        command = ["ledger", *map(str, words), "--home", str(home.path)]
        done = CliRunner().invoke(app, command, env={"COLUMNS": "200"})
        assert done.exit_code == 0, done.output
        return done.stdout

    assert "1 of 2 officers have approved it: A. Ro" in ledger("approve", spec, "--key", key)
    ledger("unapprove", spec, "--key", key, "--reason", "once more, in Python")
    looking = tabularium.open_ledger(home.path)
    officers = [tabularium.officer(home.path, key=file) for file in (key, tmp_path / "other.pem")]
    assert "1 of 2 officers have approved" in officers[0].approve(looking.decision(spec)).summary
    decision = looking.decision(spec)
    assert (decision.officers, decision.approved_by) == (2, ("A. Ro",))
    assert "is approved" in officers[1].approve(decision).summary
    with pytest.raises(AwaitingReview, match="0 of 2 officers have accepted it") as told:
        publish(spec, home)
    release = told.value.where.split()[1]
    draft = looking.charged(release).draft
    assert draft is not None
    assert "1 of 2 officers have accepted it" in officers[0].accept(release, draft=draft.digest).summary
    said = ledger("accept", release, "--key", key)
    assert said == "1 of 2 officers have accepted it; it is published when another has.\n"
    assert "1 of 2: A. Ro" in ledger("waiting")
    (waits,) = json.loads(ledger("waiting", "--json"))
    assert (waits["officers"], waits["signed"]) == (2, ["A. Ro"])
    assert "draft, 1 of 2 accepted" in ledger("show")
    assert "1 more officer must accept it" in ledger("history")
    with pytest.raises(AwaitingReview, match="1 of 2 officers have accepted it"):
        publish(spec, home)
    let_sign(home, other)
    assert "Published" in ledger("accept", release, "--key", tmp_path / "other.pem")
    folder = tmp_path / "releases" / "small" / "2026" / release
    approval = json.loads((folder / "certificate.json").read_text())["approval"]
    names = {each["officer"]: each["key"] for each in json.loads(ledger("keys", "--json"))}
    assert (approval["needed"], approval["officers"]) == (True, 2)
    assert approval["approved"]["key"] == names["B. Ito"]
    assert [each["key"] for each in approval["others"]] == [names["A. Ro"]]
    for forged in ({"others": []}, {"others": [approval["approved"]]}, {"officers": 3}):
        bad = json.loads((folder / "certificate.json").read_text())
        bad["approval"] |= forged
        (tmp_path / "certificate.json").write_text(json.dumps(bad, indent=2, ensure_ascii=False) + "\n")
        with pytest.raises(TabulariumError, match=r"approval\.others"):
            verify_certificate(tmp_path / "certificate.json")
    acceptance = read_statement((folder / STATEMENT).read_bytes()).predicate.acceptance
    assert acceptance is not None
    assert (acceptance["officer"], [each["officer"] for each in acceptance["with"]]) == ("B. Ito", ["A. Ro"])
    ledger("export", tmp_path / "books.txt")
    verdict = tabularium.verify(folder, export=tmp_path / "books.txt")
    assert verdict, verdict.findings


def test_a_group_of_officers_reads_a_draft(tmp_path: Path) -> None:
    mine = grp.getgrnam("daemon") if os.geteuid() == 0 else grp.getgrgid(os.getegid())
    spec, home, _key = write_reviewed(
        tmp_path, f"{{criteria: [odd], group: {mine.gr_name}, folder: for/them}}"
    )
    with pytest.raises(AwaitingReview, match=str(tmp_path / "for" / "them")):
        publish(spec, home)
    for path in (tmp_path / "for").rglob("*"):
        assert path.stat().st_gid == mine.gr_gid
        assert path.stat().st_mode & 0o777 == (0o750 if path.is_dir() else 0o640), path


def test_what_could_never_be_reviewed_is_refused_before_it_is_charged(tmp_path: Path) -> None:
    spec, home, key = write_reviewed(tmp_path, "{group: no-such-group}")
    with pytest.raises(PublicationError, match="group no-such-group: there is no such group"):
        publish(spec, home)
    with Ledger.connect(home.ledger_url) as books:
        (known,) = books.keys()
        books.revoke_key(known, reason="lost", by=read_private(key))
    with pytest.raises(LedgerError, match=r"publication\.review: .* no officer has a key"):
        publish(spec, home)
    assert states(home) == []


def test_a_revision_is_reviewed_too(scene: Scene) -> None:
    scene.decide("accept")
    text = scene.spec.read_text()
    write_scene(scene.spec.parent)
    scene.spec.write_text(text)
    request = Request.of(scene.spec, None, None, scene.home.path, "late returns")
    approved = ["ledger", "approve", str(scene.spec), "--revises", "late returns", "--key", str(scene.key)]
    assert CliRunner().invoke(app, [*approved, "--home", str(scene.home.path)]).exit_code == 0
    with pytest.raises(AwaitingReview) as told:
        release_tables(request)
    revision = Scene(scene.spec, scene.home, scene.key, told.value.where.split()[1], scene.draft, {})
    assert "Published" in revision.decide("accept")
    assert json.loads((revision.folder / "certificate.json").read_bytes())["revises"] == "late returns"
    assert release_tables(request).status == "already published"
    with scene.books() as books:
        assert books.balance("people") == Fraction(8)
