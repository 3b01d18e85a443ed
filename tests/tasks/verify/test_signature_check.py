"""Whose signature counts: keys that are right, wrong or missing, revoked early or late, or that came along."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import Ledger, charges
from tabularium.ledger.keys import key_id, public_hex, read_private
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.sign.sign_release import FILE
from tabularium.tasks.sign.statement import STATEMENT
from tabularium.tasks.verify.subject import Subject
from tabularium.tasks.verify.verify_release import verify_release
from tests.flows.release.scene import let_sign, publish, publish_with, write_scene
from tests.tasks.verify.conftest import write_books, write_public

pytestmark = pytest.mark.xdist_group("verify")


@dataclass(frozen=True)
class Signed:
    """Two signed releases of one account, the key of the second revoked before its last entry.

    Attributes
    ----------
    early, late
        Exports from before and after the key of the first one was revoked, which it was after publication.
    """

    good: Path
    key: Path
    early: Path
    late: Path
    too_late: Path
    its_key: Path


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    folder = tmp_path_factory.mktemp("signed")
    spec, home = write_scene(folder, rows=60)
    officer = let_sign(home)
    key = write_public(read_private(home.path / FILE), folder / "agency.pem")
    good = Path(publish(spec, home, period="2025").folder)
    early = write_books(home, folder / "early.txt")
    _revoke(home, officer)
    let_sign(home, officer)
    its_key = write_public(read_private(home.path / FILE), folder / "other.pem")
    with pytest.MonkeyPatch.context() as patch:  # a ledger that lets it pass, as ours does not
        patch.setattr(charges, "require_active_release_key", lambda *_: None)
        made = publish_with(lambda: _revoke(home, officer), before="close the charge", spec=spec, home=home)
    late = write_books(home, folder / "late.txt")
    return Signed(good, key, early, late, Path(made.folder), its_key)


def _revoke(home: Home, officer: Ed25519PrivateKey) -> None:
    name = key_id(public_hex(read_private(home.path / FILE)))
    with Ledger.connect(home.ledger_url) as books:
        books.revoke_release_key(name, reason="lost", by=officer)


def told(release: Path, key: Path | None = None, books: Path | None = None) -> list[tuple[str, str]]:
    """What is found of the signature."""
    found = verify_release(Subject(release, key, books))
    return [(each.outcome, each.said) for each in islice(found, 8) if each.group == "Signature"]


def test_a_key_that_is_right_wrong_or_missing(signed: Signed) -> None:
    (outcome, said), counts = told(signed.good, signed.key)
    assert outcome == "checked" and "is signed with the key" in said
    assert counts == (
        "unchecked",
        "whether the key was enrolled, and not revoked, when this was published: give a ledger export",
    )
    (outcome, said), counts = told(signed.good, signed.its_key)
    assert (outcome, said) == ("failed", "the statement is not signed with the key that was given")
    assert counts == ("unchecked", "a signature that holds")
    (outcome, said), counts = told(signed.good)
    assert outcome == "unchecked" and said.startswith("the signature: give the agency's public key")
    assert counts[0] == "unchecked"
    (outcome, said), _ = told(signed.good, signed.key.with_name("nowhere.pem"))
    assert outcome == "failed" and "is missing" in said


@pytest.mark.parametrize("books", ["early", "late"])
@pytest.mark.parametrize("with_key", [False, True])
def test_what_was_published_before_its_key_was_revoked_stays_signed(
    signed: Signed, books: str, with_key: bool
) -> None:
    one, other = told(signed.good, signed.key if with_key else None, getattr(signed, books))
    assert one[0] == other[0] == "checked", (one, other)
    assert "not revoked before it was published" in one[1]


def test_what_was_published_after_its_key_was_revoked_is_not_signed(signed: Signed) -> None:
    for key in (None, signed.its_key):
        (outcome, said), _ = told(signed.too_late, key, signed.late)
        assert outcome == "failed" and "published after it was revoked" in said
    # Whoever has the key and no export cannot know; that is said.
    one, other = told(signed.too_late, signed.its_key)
    assert (one[0], other[0]) == ("checked", "unchecked")


def test_an_export_from_before_the_publication_leaves_the_signature_open(signed: Signed) -> None:
    one, other = told(signed.too_late, signed.its_key, signed.early)
    assert one[0] == other[0] == "unchecked"


def test_a_signature_more_is_found_without_any_key(signed: Signed, tmp_path: Path) -> None:
    release = _copy(signed.good, tmp_path)
    envelope = json.loads((release / STATEMENT).read_text())
    (one,) = envelope["signatures"]
    envelope["signatures"].append({**one, "keyid": "0" * 32})
    (release / STATEMENT).write_text(json.dumps(envelope, sort_keys=True, indent=2) + "\n")
    for key, books in ((None, None), (signed.key, None), (signed.key, signed.late)):
        assert told(release, key, books)[0][0] == "failed"


def test_a_key_or_an_export_that_came_with_the_release_is_no_trust(signed: Signed, tmp_path: Path) -> None:
    release = _copy(signed.good, tmp_path)
    shutil.copy(signed.key, release / "agency.pem")
    shutil.copy(signed.late, release / "books.txt")
    (tmp_path / "link.pem").symlink_to(release / "agency.pem")
    for key in (release / "agency.pem", tmp_path / "link.pem", release / "codes" / ".." / "agency.pem"):
        assert told(release, key)[0] == (
            "unchecked",
            "a key got elsewhere: one that lies in the release is no reason to believe it",
        )
    assert all(outcome == "unchecked" for outcome, _ in told(release, None, release / "books.txt"))


def _copy(release: Path, folder: Path) -> Path:
    shutil.copytree(release, folder / "release")
    for path in (folder / "release").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return folder / "release"
