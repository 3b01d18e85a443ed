"""docs/how-to/review-in-ten-minutes.md, as a reviewer follows it on the release that the site offers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import sample_release
from tests.docs.pages import DOCS, ROOT, blocks
from tests.docs.test_read_a_release import followed
from tests.docs.test_tutorial import shown_in

PAGE = DOCS / "how-to" / "review-in-ten-minutes.md"

pytestmark = [pytest.mark.xdist_group("review-in-ten-minutes"), pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the ZIP file was downloaded to."""
    made = tmp_path_factory.mktemp("reviewer")
    words = [sys.executable, "-m", "tests.docs.sample_release", str(made / "sample-release.zip")]
    subprocess.run(words, cwd=ROOT, check=True, capture_output=True)
    return made


def test_every_command_prints_what_the_page_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [block for block in blocks(PAGE) if block.kind in {"sh", "text"}]
    shown = {block.line: block.text.splitlines() for block in steps if block.kind == "text"}
    environment = {
        **os.environ,
        "TABULARIUM_HOME": str(folder / "nothing"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "90",
    }
    followed_by_output = 0
    for typed in (block for block in steps if block.kind == "sh"):
        done = subprocess.run(
            ["bash", "-ec", typed.text],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
        after = typed.line + typed.text.count("\n") + 3
        if after in shown:
            followed_by_output += 1
            assert shown_in(shown[after], done.stdout) is None, done.stdout
    assert followed_by_output == len(shown)
    assert not (folder / "nothing").exists(), "a reviewer needs no home"
    monkeypatch.chdir(folder)
    assert followed(PAGE) > 5


def test_the_sample_is_small_and_holds_no_record(folder: Path) -> None:
    size = (folder / "sample-release.zip").stat().st_size
    assert size < 300_000
    made = folder / sample_release.NAME
    assert {path.name for path in made.iterdir()} == {"release", "agency.pub.pem", "ledger.txt"}
    assert not [
        path for path in made.rglob("*") if path.name in {"people.parquet", "officer.pem", "release-key"}
    ]
