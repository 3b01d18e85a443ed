"""Messages that pages explain are those of the program, and questions and answers lead to each table."""

from __future__ import annotations

import pytest

from tests.docs.error_messages import SECTIONS, message
from tests.docs.pages import DOCS, anchors, links


@pytest.mark.parametrize("name", SECTIONS)
def test_a_table_stands_under_the_heading_that_questions_and_answers_lead_to(name: str) -> None:
    section = SECTIONS[name]
    page = DOCS / "how-to" / section.page
    assert section.anchor in anchors(page)
    assert f"{section.page}#{section.anchor}" in links(page.with_name("questions-and-answers.md"))
    assert f"<!-- from the code: messages {name} -->" in page.read_text(encoding="utf-8")


def test_every_message_is_explained_once() -> None:
    fragments = [each for section in SECTIONS.values() for row in section.rows for each in row.fragments]
    assert len({message(each) for each in fragments}) == len(fragments)


def test_a_message_that_no_program_prints_is_noticed() -> None:
    with pytest.raises(KeyError, match="another dead process"):
        message("another dead process is working on it")
