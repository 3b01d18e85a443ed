"""Releases to verify."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ledger import Ledger
from ledger.chain.export import export
from tests.flows.release.scene import publish, write_scene
from validations.suites.gx_engine import library

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
    """A release, an export of its ledger, and one from before it was published."""

    release: Path
    books: Path
    older: Path

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
    library()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.margins.margins.replicates", lambda _cells: 8)
        yield


Make = Callable[[str, Callable[[str], str]], Scene]


@pytest.fixture(scope="session")
def make(tmp_path_factory: pytest.TempPathFactory) -> Make:
    """Publish an edited spec: a name for its folder, and what is done with the text."""

    def publish_edited(name: str, edit: Callable[[str], str], **options: str) -> Scene:
        folder = tmp_path_factory.mktemp(name)
        spec, home = write_scene(folder, **options)  # type: ignore[arg-type]
        spec.write_text(edit(spec.read_text()))
        with Ledger.connect(home.ledger_url) as books:
            export(books, folder / "older.txt")
        release = Path(publish(spec, home).folder)
        with Ledger.connect(home.ledger_url) as books:
            export(books, folder / "books.txt")
        return Scene(release, folder / "books.txt", folder / "older.txt")

    return publish_edited


@pytest.fixture(scope="session")
def scene(make: Make) -> Scene:
    """Two tables, a histogram, a tally and an invariant."""
    formats = "publication: {formats: [csv, parquet, sdmx, xlsx, catalogue], sdmx: {agency: TAB}, "

    def edit(text: str) -> str:
        return text.replace("rules: []", f"rules: {RULES}").replace("publication: {", formats) + MORE

    return make("verified", edit)
