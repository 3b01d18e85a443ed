"""Signed releases: with which key, from where it comes, and what is believed after a crash."""

from __future__ import annotations

import hashlib
import shlex
import shutil
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.flows.release_chain import Outcome
from tabularium.ledger import Ledger, NotApproved
from tabularium.ledger.keys import key_id, make_key, public_hex, read_private
from tabularium.mechanisms.errors import InputError, PublicationError
from tabularium.tasks.publish.read_release import Released
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.runtime.progress import NullReporter, reporting_to
from tabularium.tasks.sign.sign_release import (
    COMMAND,
    FILE,
    PASSPHRASE,
    PATH,
    release_key,
    settled_statement,
    signing_key,
)
from tabularium.tasks.sign.statement import STATEMENT, SignedStatement, read_statement, signed_statement
from tabularium.validations.certificate import CERTIFICATE
from tests.flows.release.scene import (
    judged,
    let_sign,
    publish,
    publish_with,
    require_signed,
    write_scene,
    write_signing_scene,
)
from tests.flows.release.test_tallies import noisy


@dataclass
class Notes(NullReporter):
    said: list[str] = field(default_factory=list)

    def noted(self, text: str) -> None:
        self.said.append(text)


def told(spec: Path, home: Home, period: str | None = None) -> tuple[Outcome, str]:
    """Publish, and return what was noted of the signature."""
    notes = Notes()
    with reporting_to(notes):
        outcome = publish(spec, home, period=period)
    return outcome, "".join(note for note in notes.said if "unsigned" in note)


def test_a_release_is_signed_kept_and_made_anew_byte_for_byte(tmp_path: Path) -> None:
    spec, home = write_signing_scene(tmp_path)
    first, unsigned = told(spec, home)
    folder = Path(first.folder)
    with Ledger.connect(home.ledger_url) as books:
        charge = books.charge(first.release_id)
        books.verify()
    assert charge is not None
    require_signed(home, folder, charge)
    assert (first.statement, unsigned) == (charge.statement, "")
    Released.open(folder, whole=True)
    said = read_statement((folder / STATEMENT).read_bytes())
    assert set(said.subjects) | {STATEMENT} == {
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
    }
    assert said.predicate.certificate == first.certificate
    assert said.predicate.acceptance is None

    key = read_private(home.path / FILE)
    raw = key.private_bytes(
        serialization.Encoding.Raw, serialization.PrivateFormat.Raw, serialization.NoEncryption()
    )
    traces = ((home.path / FILE).read_bytes().splitlines()[1], raw, raw.hex().encode())
    for path in tmp_path.rglob("*"):
        if path.is_file() and path != home.path / FILE:
            content = path.read_bytes()
            assert not any(trace in content for trace in traces), path

    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    shutil.rmtree(tmp_path / "releases")
    (home.path / FILE).unlink()  # what is made anew is not signed anew
    again = publish(spec, home)
    assert (again.status, again.statement) == ("already published", first.statement)
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before

    for change in (lambda path: path.unlink(), lambda path: path.write_bytes(before[path] + b" ")):
        (folder / STATEMENT).chmod(0o600)
        change(folder / STATEMENT)
        with pytest.raises(PublicationError, match=r"statement\.dsse\.json is missing or altered"):
            publish(spec, home)
        (folder / STATEMENT).write_bytes(before[folder / STATEMENT])
    assert publish(spec, home).status == "already published"

    # What was kept is damaged, so the folder is not made anew.
    shutil.rmtree(tmp_path / "releases")
    (home.measurements / first.release_id / STATEMENT).write_bytes(b"another")
    with pytest.raises(PublicationError, match="no release lies in this folder"):
        publish(spec, home)


def test_keys_are_rotated_and_what_they_signed_stays_signed(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    unsigned, why = told(spec, home, "2020")
    assert unsigned.statement is None
    assert why == "the release is unsigned: no key for releases is enrolled"
    assert not (Path(unsigned.folder) / STATEMENT).exists()
    assert judged(home, Path(unsigned.folder)).failed == []
    officer = let_sign(home)
    signed, _ = told(spec, home, "2021")
    old, pem = read_private(home.path / FILE), (home.path / FILE).read_bytes()
    with Ledger.connect(home.ledger_url) as books:
        books.revoke_release_key(key_id(public_hex(old)), reason="replaced", by=officer)
        said = f"this machine's key for releases, {key_id(public_hex(old))}, was revoked"
        assert signing_key(home, books) == said
        let_sign(home, officer)
        new = signing_key(home, books)
        assert not isinstance(new, str) and public_hex(new) != public_hex(old)
        (home.path / FILE).unlink()
        with pytest.raises(NotApproved, match="a key for releases is enrolled, and this machine has none"):
            signing_key(home, books)
        (home.path / FILE).write_bytes(pem)
        (home.path / FILE).chmod(0o600)
        with pytest.raises(NotApproved, match="was revoked, and another one is enrolled"):
            signing_key(home, books)
    folder = Path(signed.folder)
    assert read_statement((folder / STATEMENT).read_bytes()).key == key_id(public_hex(old))
    assert judged(home, folder).vouches


def test_a_key_that_the_ledger_does_not_know_is_refused_before_anything_is_charged(tmp_path: Path) -> None:
    spec, home = write_scene(tmp_path)
    make_key(home.path / FILE)
    with pytest.raises(NotApproved, match="no officer has enrolled this machine's key for releases") as error:
        publish(spec, home)
    assert "\n" not in error.value.line()
    (home.path / FILE).chmod(0o640)
    with pytest.raises(InputError, match="other users may read the key for releases"):
        publish(spec, home)
    (home.path / FILE).chmod(0o600)
    (home.path / FILE).write_text("-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----\n")
    with pytest.raises(InputError, match="is no Ed25519 private key") as bad:
        publish(spec, home)
    assert "abc" not in str(bad.value)
    with Ledger.connect(home.ledger_url) as books:
        assert books.charges("people") == []


def test_the_key_comes_from_a_command_a_path_or_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, home = write_scene(tmp_path)
    assert release_key(home) is None
    there = [make_key(tmp_path / "printed"), make_key(tmp_path / "named"), make_key(home.path / FILE)]

    def found() -> str:
        key = release_key(home)
        assert key is not None
        return public_hex(key)

    assert found() == public_hex(there[2])
    monkeypatch.setenv(PATH, str(tmp_path / "named"))
    assert found() == public_hex(there[1])
    monkeypatch.setenv(COMMAND, f"cat {shlex.quote(str(tmp_path / 'printed'))}")
    assert found() == public_hex(there[0])
    failing = f"{shlex.quote(sys.executable)} -c \"import sys; sys.exit('secret words')\""
    for command, wrong in ((failing, "failed with exit code 1"), ("echo words", "is no Ed25519")):
        monkeypatch.setenv(COMMAND, command)
        with pytest.raises(InputError, match=wrong) as error:
            release_key(home)
        assert "words" not in str(error.value)
    monkeypatch.delenv(COMMAND)
    monkeypatch.setenv(PATH, str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="cannot be read"):
        release_key(home)
    hidden = make_key(tmp_path / "hidden", b"words")
    monkeypatch.setenv(PATH, str(tmp_path / "hidden"))
    with pytest.raises(InputError, match="needs another passphrase"):
        release_key(home)
    monkeypatch.setenv(PASSPHRASE, "words")
    assert found() == public_hex(hidden)


class Cut(Exception):
    """The run is cut off here."""


def cut_before_closing(spec: Path, home: Home) -> Path:
    """Run a release up to the ledger's last entry; return the folder that was renamed by then."""

    def cut() -> None:
        raise Cut

    with pytest.raises(Exception, match="Cut"):
        publish_with(cut, before="close the charge", spec=spec, home=home)
    (folder,) = (spec.parent / "releases" / "small" / "2026").glob("*[0-9a-f]")
    return folder


def test_a_statement_from_before_a_crash_is_taken_over_only_if_it_is_ours(tmp_path: Path) -> None:
    spec, home = write_signing_scene(tmp_path)
    folder = cut_before_closing(spec, home)
    raw = (folder / STATEMENT).read_bytes()
    said = read_statement(raw)
    other = make_key(tmp_path / "other.pem")
    ours = read_private(home.path / FILE)
    head = {**said.predicate.head, "hash": "0" * 64}
    folder.chmod(0o755)
    for forged in (
        signed_statement(said.subjects, said.predicate, other),
        signed_statement({**said.subjects, "b": "0" * 64}, said.predicate, ours),
        _with(said, ours, certificate="0" * 64),
        _with(said, ours, head=head),
        b"{}",
        None,
    ):
        (folder / STATEMENT).unlink(missing_ok=True)
        if forged is not None:
            (folder / STATEMENT).write_bytes(forged)
        with Ledger.connect(home.ledger_url) as books:
            settled = settled_statement(home, books, folder)
        now = (folder / STATEMENT).read_bytes()
        assert settled is not None and settled.statement == hashlib.sha256(now).hexdigest()
        assert now != forged and read_statement(now).key == settled.key == key_id(public_hex(ours))
        assert (folder / STATEMENT).stat().st_mode == (folder / CERTIFICATE).stat().st_mode
        assert not [*folder.parent.glob(".*")]
    (folder / STATEMENT).write_bytes(raw)
    done = publish(spec, home)
    assert (done.status, (folder / STATEMENT).read_bytes()) == ("published", raw)
    assert judged(home, folder).vouches


@pytest.mark.parametrize("tallied", [False, True])
def test_a_key_that_is_revoked_before_the_entry_signs_nothing(tallied: bool, tmp_path: Path) -> None:
    """Not even by a run that signed already: the release is signed anew, and paid for once."""
    spec, home = write_scene(tmp_path, budget="4", rules=noisy("min: 1") if tallied else "[]")
    officer = let_sign(home)
    old = read_private(home.path / FILE)

    def revoke() -> None:
        with Ledger.connect(home.ledger_url) as books:
            books.revoke_release_key(key_id(public_hex(old)), reason="stolen", by=officer)

    with pytest.raises(NotApproved, match="was revoked meanwhile"):
        publish_with(revoke, before="close the charge", spec=spec, home=home)
    let_sign(home, officer)
    done = publish(spec, home)
    folder = Path(done.folder)
    assert done.status == "published" and judged(home, folder).vouches
    assert read_statement((folder / STATEMENT).read_bytes()).key != key_id(public_hex(old))
    with Ledger.connect(home.ledger_url) as books:
        assert {each.state for each in books.charges("people")} == {"published"}
        books.verify()


def _with(said: SignedStatement, key: Ed25519PrivateKey, **other: Any) -> bytes:
    return signed_statement(said.subjects, replace(said.predicate, **other), key)
