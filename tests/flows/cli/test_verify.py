"""``tabularium verify``: exit codes, JSON, and a series of releases."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.ledger import Ledger
from tabularium.ledger.export import export
from tabularium.tasks.verify import verify_release
from tabularium.tasks.verify.subject import Check
from tests.flows.release.scene import publish, write_scene

Series = tuple[Path, Path, Path]


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Series:
    """Two releases of one account, and the export of its ledger."""
    folder = tmp_path_factory.mktemp("series")
    spec, home = write_scene(folder, rows=60)
    one, other = (Path(publish(spec, home, period=period).folder) for period in ("2025", "2026"))
    with Ledger.connect(home.ledger_url) as books:
        export(books, folder / "books.txt")
    return one, other, folder / "books.txt"


def verify(*words: str | Path) -> Any:
    return CliRunner().invoke(app, ["verify", *map(str, words)])


def test_what_needs_a_library_that_is_not_installed_is_not_checked(
    series: Series, monkeypatch: pytest.MonkeyPatch
) -> None:
    def look(_: Any) -> str:
        raise ModuleNotFoundError("No module named 'scipy'", name="scipy")

    monkeypatch.setattr(
        verify_release, "CHECKS", (*verify_release.CHECKS, Check("Tables", "they rhyme", look))
    )
    done = verify(series[1], "--export", series[2])
    assert done.exit_code == 3, done.output
    assert "they rhyme: not checked: install tabularium-dp[run]" in done.output and "✗" not in done.output
    assert verify(series[1], "--strict").exit_code == 1


def test_a_good_release_passes_and_says_what_nobody_can_verify(series: Series) -> None:
    done = verify(series[1], "--export", series[2])
    assert done.exit_code == 0, done.output
    assert "What cannot be verified" in done.output and "✗" not in done.output
    assert verify(series[1], "--strict").exit_code == 1


def test_a_damaged_release_fails_and_is_named(series: Series, tmp_path: Path) -> None:
    shutil.copytree(series[1], tmp_path / "release")
    path = tmp_path / "release" / "age_sex.csv"
    path.chmod(0o644)
    path.write_text(path.read_text().replace("male", "mole"))
    done = verify(tmp_path / "release", "--json")
    assert done.exit_code == 1
    found = json.loads(done.output)
    assert found["failed"]
    said = [each["said"] for each in found["releases"][0]["findings"] if each["outcome"] == "failed"]
    assert any("age_sex.csv" in each for each in said)


def test_what_is_no_release_ends_with_2(tmp_path: Path) -> None:
    done = verify(tmp_path)
    assert done.exit_code == 2
    assert done.output.startswith("error: ") and len(done.output.splitlines()) == 1


def test_a_series_is_in_order_and_spends_more(series: Series) -> None:
    one, other, books = series
    done = verify(other, "--since", one, "--export", books, "--json")
    assert done.exit_code == 0, done.output
    assert [each["outcome"] for each in json.loads(done.output)["series"]] == ["checked"] * 4
    assert verify(one, "--since", other, "--export", books).exit_code == 1
    assert verify(one, "--since", one).exit_code == 1
