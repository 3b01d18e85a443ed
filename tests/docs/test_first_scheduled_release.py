"""docs/first-scheduled-release.md, followed by somebody with an empty home and two terminals."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tabularium.ledger import Ledger
from tests.docs.pages import DOCS, blocks
from tests.docs.test_tutorial import shown_in

PAGE = DOCS / "first-scheduled-release.md"
TYPED = [block for block in blocks(PAGE) if block.kind == "sh"]
SHOWN = [block for block in blocks(PAGE) if block.kind == "text"]

pytestmark = [pytest.mark.xdist_group("scheduled"), pytest.mark.slow, pytest.mark.audit]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    """The folder of the tutorial, with the first terminal's `tabularium up` running on a free port."""
    folder = tmp_path / "scheduled"
    folder.mkdir()
    environment = {
        **os.environ,
        "HOME": str(tmp_path),
        "TABULARIUM_HOME": str(folder / "home"),
        "PREFECT_HOME": str(tmp_path / "prefect"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "90",
    }
    up = subprocess.Popen(
        ["tabularium", "up", "--port", "0"], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        assert up.stdout is not None
        said = [up.stdout.readline() for _ in range(3)]
        assert shown_in(SHOWN[0].text.replace(":4200", ":…").splitlines(), "".join(said)) is None, said
        yield folder, environment
    finally:
        up.send_signal(signal.SIGINT)
        up.communicate(timeout=60)


def test_the_page_ends_in_a_release_that_came_by_itself(place: tuple[Path, dict[str, str]]) -> None:
    folder, environment = place
    began = time.monotonic()
    texts = {block.line: block.text.splitlines() for block in SHOWN}
    for typed in TYPED:
        done = subprocess.run(
            ["bash", "-e", "-c", typed.text], cwd=folder, env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=300, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        after = typed.line + typed.text.count("\n") + 3
        if after in texts:
            assert shown_in(texts[after], done.stdout) is None, done.stdout
    print(f"typed to the end in {time.monotonic() - began:.0f} s")
    with Ledger.connect(f"sqlite:///{folder / 'home' / 'ledger.db'}") as books:
        charges = list(books.charges("census"))
    assert [charge.state for charge in charges] == ["published"]
    assert re.fullmatch(r"20\d\d", charges[0].period)


def test_every_output_of_the_page_stands_after_a_command() -> None:
    after = {typed.line + typed.text.count("\n") + 3 for typed in TYPED}
    assert {block.line for block in SHOWN[1:]} <= after
