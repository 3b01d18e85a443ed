"""Releases to verify."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tabularium.ledger import Ledger
from tabularium.ledger.export import export
from tabularium.ledger.keys import key_id, public_hex, public_pem, read_private
from tabularium.tasks.runtime.home import Home
from tabularium.tasks.sign.sign_release import FILE
from tabularium.validations.release_spec.publication_formats import FORMATS
from tests.flows.release.scene import let_sign, publish_with, write_scene

RULES = (
    '[{rule: row_count, max: 100000, noisy: {share: "1/10"}}, {rule: range, column: age, min: 0, max: 99}, '
    '{rule: nulls, column: sex, at_most: "1%", severity: warn}]'
)
MORE = """
histograms: [{name: ages, of: age, share: "1/10", largest: 600}]
invariants: [{name: all, count: 600, reason: "registry"}]
"""


@dataclass(frozen=True)
class Scene:
    """A release, with exports of its ledger and keys; only some of them vouch for it.

    Attributes
    ----------
    books
        An export from after it was published.
    older
        Exports from before the account paid for it, and from before it was published.
    key
        File of the agency's public key; none where the release is unsigned.
    forgers
        Private keys of others: of nobody in the ledger, of an officer, and one for releases that was revoked
        before this was published.
    """

    release: Path
    books: Path
    older: dict[str, Path]
    key: Path | None = None
    forgers: dict[str, Ed25519PrivateKey] = field(default_factory=dict)

    def copy(self, folder: Path) -> Path:
        """Copy the release to where it may be damaged."""
        target = folder / "release"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(self.release, target)
        for path in (target, *target.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        return target


@pytest.fixture(scope="session", autouse=True)
def few_simulated_releases() -> Iterator[None]:
    """Give small tables few simulated releases; here they are simulated twice."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tabularium.tasks.margins.margins.replicates", lambda _cells: 8)
        yield


class Make:
    """Publishes an edited spec."""

    def __init__(self, folders: pytest.TempPathFactory) -> None:
        self._folders = folders

    def __call__(
        self, name: str, edit: Callable[[str], str], *, signed: bool = False, **options: Any
    ) -> Scene:
        """Take a name for the folder, what is done with the spec's text, and options of the scene."""
        folder = self._folders.mktemp(name)
        spec, home = write_scene(folder, **options)
        spec.write_text(edit(spec.read_text()))
        key, forgers = _let_sign(home, folder) if signed else (None, {})
        unpaid, unpublished, books = (folder / f"{each}.txt" for each in ("unpaid", "unpublished", "books"))
        write_books(home, unpaid)
        made = publish_with(
            lambda: write_books(home, unpublished), before="close the charge", spec=spec, home=home
        )
        write_books(home, books)
        older = {"unpaid": unpaid, "unpublished": unpublished}
        return Scene(Path(made.folder), books, older, key, forgers)


def write_books(home: Home, file: Path) -> Path:
    """Export the ledger of a home."""
    file.unlink(missing_ok=True)
    with Ledger.connect(home.ledger_url) as books:
        export(books, file)
    return file


def write_public(key: Ed25519PrivateKey, file: Path) -> Path:
    """Write the public half of a key (PEM)."""
    file.write_text(public_pem(public_hex(key)))
    return file


def _let_sign(home: Home, folder: Path) -> tuple[Path, dict[str, Ed25519PrivateKey]]:
    officer = let_sign(home)
    forgers = {"foreign": Ed25519PrivateKey.generate(), "officer": officer}
    revoked = forgers["revoked"] = Ed25519PrivateKey.generate()
    with Ledger.connect(home.ledger_url) as books:
        books.enrol_release_key(public_hex(revoked), agency="Statistics", by=officer)
        books.revoke_release_key(key_id(public_hex(revoked)), reason="lost", by=officer)
    return write_public(read_private(home.path / FILE), folder / "agency.pem"), forgers


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Return what publishes an edited spec."""
    return Make(tmp_path_factory)


@pytest.fixture(scope="session")
def scene(make: Make) -> Scene:
    """Two tables, a histogram, a tally and an invariant, signed."""
    formats = f"publication: {{formats: [{', '.join(FORMATS)}], sdmx: {{agency: TAB}}, "

    def edit(text: str) -> str:
        return text.replace("rules: []", f"rules: {RULES}").replace("publication: {", formats) + MORE

    return make("verified", edit, signed=True)
