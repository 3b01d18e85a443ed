"""The pictures of the documentation: small, described, up to date, and without anything from elsewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.diagrams import DIAGRAMS, PICTURES
from tests.docs.pages import PAGES, ROOT, prose
from tests.docs.terminals import picture, settled

FILES = sorted(PICTURES.iterdir())
EACH, ALL = 150_000, 1_000_000


@pytest.mark.parametrize("name", DIAGRAMS)
def test_a_diagram_is_up_to_date(name: str) -> None:
    """If this fails: `python -m tests.docs.diagrams`."""
    assert (PICTURES / name).read_text(encoding="utf-8") == DIAGRAMS[name]()


def test_pictures_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in FILES}
    assert {name: size for name, size in sizes.items() if size > EACH} == {}
    assert sum(sizes.values()) < ALL


@pytest.mark.parametrize(
    "path", [path for path in FILES if path.suffix == ".svg"], ids=lambda path: path.name
)
def test_a_drawing_loads_nothing(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert not re.search(
        r"<script|@import|@font-face|(?:href|src)=[\"']?(?:https?:)?//|url\([\"']?http", text
    )


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_picture_says_in_words_what_it_shows(path: Path) -> None:
    short = [alt for alt in re.findall(r"!\[([^\]]*)\]\(", prose(path)) if len(alt.split()) < 3]
    assert not short


def test_a_terminal_shows_what_is_left_in_the_end() -> None:
    text = "\x1b[?25l⠋ count …\r\x1b[2K⠙ count …\r\n\x1b[?25h\r\x1b[1A\x1b[2K  \x1b[32m✓\x1b[0m count\r\nDone"
    assert settled(text) == "  \x1b[32m✓\x1b[0m count\nDone"
    shown = picture([("tabularium run", settled(text))], "a run")
    assert "✓" in shown
    assert "⠋" not in shown
