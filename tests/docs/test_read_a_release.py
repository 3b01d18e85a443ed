"""docs/read-a-release.md, as an analyst follows it: its commands, its Python, and the page for R where R is."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.debian import Unavailable, found
from tests.docs.pages import DOCS, blocks

PAGE = DOCS / "read-a-release.md"
R_PAGE = DOCS / "how-to" / "read-a-release-in-r.md"

pytestmark = [pytest.mark.xdist_group("read-a-release"), pytest.mark.slow]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands of the page were followed up to its Python."""
    made = tmp_path_factory.mktemp("analyst")
    first, *_ = (block for block in blocks(PAGE) if block.kind == "sh")
    shell(first.text, made)
    return made


def shell(script: str, folder: Path) -> None:
    environment = {
        **os.environ,
        "TABULARIUM_HOME": str(folder / "home"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-ec", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def followed(page: Path) -> int:
    """Run the Python of a page; return how many examples it has."""
    text = page.read_text().replace("…", "...")
    examples = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    told: list[str] = []
    runner.run(examples, out=told.append)
    assert runner.failures == 0, "".join(told)
    return runner.tries


def test_the_page_can_be_followed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert followed(PAGE) > 20
    assert (folder / "women.png").stat().st_size > 1000
    for block in [block for block in blocks(PAGE) if block.kind == "sh"][1:]:
        shell(block.text, folder)
    assert (folder / "people.duckdb").exists()


def test_which_numbers_to_use(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert followed(DOCS / "which-numbers-to-use.md") > 10


def test_the_page_for_r_can_be_followed(folder: Path) -> None:
    """Without reticulate, which no package of Debian's brings."""
    try:
        found("r-cran-jsonlite")
    except Unavailable as reason:
        pytest.skip(str(reason))
    script = "".join(block.text for block in blocks(R_PAGE) if "reticulate" not in block.text)
    (folder / "page.R").write_text(
        script + "\nstopifnot(nrow(aggregate(count ~ period, series, sum)) == 2)\n"
    )
    shell("Rscript page.R", folder)


def test_a_table_is_published_as_its_page_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TABULARIUM_HOME", str(folder / "home"))
    assert followed(DOCS / "how-to" / "publish-a-table-in-memory.md") > 3
