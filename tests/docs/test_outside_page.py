"""What is outside the guarantee: the page lists every kind of exact fact, and its example says what it says."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

from typer.testing import CliRunner

from tabularium.flows.cli.app import app
from tabularium.validations.release_spec.exact_facts import Kind
from tests.docs.pages import DOCS, blocks
from tests.docs.test_spec_pages import whole

PAGE = DOCS / "explanation" / "outside-the-guarantee.md"
HEADINGS = {
    "rule": "Rules that stop a run",
    "limit": "The limit on rejected records",
    "invariant": "Invariants",
    "look-up": "What is taken for public",
    "source": "That the source could be read",
    "release": "That the release exists, and when it was made",
    "attempts": "How many attempts it took",
    "tallies": "How many inputs were tried",
    "revision": "That it is a revision",
    "review": "That an officer let it pass",
    "withheld": "What was withheld before",
    "operators": "What the operators see",
}


def test_every_kind_has_its_example() -> None:
    assert set(HEADINGS) == set(get_args(Kind))
    page = PAGE.read_text()
    for heading in HEADINGS.values():
        section = page.split(f"### {heading}\n")[1].split("\n#")[0]
        assert "*Example: " in section, heading


def test_check_says_what_the_page_says(tmp_path: Path) -> None:
    written, said = blocks(PAGE)
    spec = tmp_path / "spec.yaml"
    spec.write_text(whole(written.text))
    done = CliRunner().invoke(app, ["check", str(spec)], env={"COLUMNS": "300"})
    assert done.exit_code == 0, done.output
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    lines = said.text.splitlines()
    first = printed.index(lines[0])
    assert [line for line in printed[first:] if line.startswith("  ")] == lines[1:]
