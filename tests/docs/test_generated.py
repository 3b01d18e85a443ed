"""Parts of pages that are made from the code are what the code makes of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.generated import MAKERS, written_again
from tests.docs.pages import PAGES, ROOT


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_part_is_up_to_date(page: Path) -> None:
    """If this fails: `python -m tests.docs.generated`."""
    text = page.read_text(encoding="utf-8")
    assert written_again(text) == text


def test_every_maker_is_used() -> None:
    texts = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert all(f"<!-- from the code: {name}" in texts for name in MAKERS)


def test_a_part_that_is_not_what_the_code_makes_is_noticed() -> None:
    page = "before\n<!-- from the code: word two -->\nold\n\nlines\n<!-- end -->\nafter\n"
    made = written_again(page, {"word": lambda argument: f"new {argument}"})
    assert made == "before\n<!-- from the code: word two -->\nnew two\n<!-- end -->\nafter\n"
