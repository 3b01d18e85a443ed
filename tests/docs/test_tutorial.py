"""docs/tutorial.md, followed to its end by somebody with an empty home."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, Block, blocks

PAGE = DOCS / "tutorial.md"
STEPS = [block for block in blocks(PAGE) if block.kind in {"sh", "text"}]
MARK = "=== step "

pytestmark = pytest.mark.xdist_group("tutorial")


def commands() -> list[tuple[Block, Block]]:
    """Every block of commands with the output that the page shows after it."""
    return list(zip(STEPS[::2], STEPS[1::2], strict=True))


def stable(line: str) -> str:
    """What is the same each time: no digests, no numbers on a line with a drawn count, no width of columns."""
    line = re.sub(r"\b[0-9a-f]{32,64}\b", "#", line)
    if re.search(r"\d[\d,]{2,}", line):
        line = re.sub(r"\d[\d,.]*(?<=\d)", "#", line)
    return re.sub(r"\s+", " ", re.sub(r"[█░]+", "█", line)).strip()


def shown_in(said: list[str], output: str) -> str | None:
    """Return the first line that does not follow in ``output``; … stands for anything."""
    lines = iter(stable(line) for line in output.splitlines())
    for line in said:
        if line.strip() == "…":
            continue
        pattern = re.compile(".*".join(re.escape(stable(part)) for part in line.split("…")))
        if not any(pattern.fullmatch(there) or ("…" in line and pattern.match(there)) for there in lines):
            return line
    return None


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("tutorial")
    (folder / "work").mkdir()
    script = "set -e\n" + "".join(f"echo '{MARK}{n}'\n{sh.text}" for n, (sh, _) in enumerate(commands()))
    environment = {
        **os.environ,
        "HOME": str(folder),
        "TABULARIUM_HOME": str(folder / "home"),
        "PREFECT_HOME": str(folder / "prefect"),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "90",
    }
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder / "work",
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return re.split(rf"^{MARK}\d+\n", done.stdout, flags=re.MULTILINE)[1:]


def test_the_page_shows_what_every_command_prints() -> None:
    assert [block.kind for block in STEPS] == ["sh", "text"] * (len(STEPS) // 2)
    assert len(STEPS) >= 16


@pytest.mark.parametrize("step", range(len(STEPS) // 2), ids=lambda n: f"line{commands()[n][0].line}")
def test_a_step_prints_what_the_page_says(outputs: list[str], step: int) -> None:
    said = commands()[step][1].text.splitlines()
    assert shown_in(said, outputs[step]) is None, outputs[step]


def test_a_line_that_is_not_printed_is_noticed() -> None:
    assert shown_in(["M,3511,5"], "M,3498,6\n") is None
    assert shown_in(["spent 1 of 4"], "spent 2 of 4\n") == "spent 1 of 4"
    assert shown_in(["b", "a"], "a\nb\n") == "a"
    assert shown_in(["a … c"], "a long c\n") is None
