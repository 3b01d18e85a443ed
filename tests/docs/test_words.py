"""No page, ``--help`` or message gets another word or sentence that readers stumble over.

``words.json`` holds how many each has that were there before; the counts may only fall.
"""

from __future__ import annotations

import pytest

from tests.docs.words import KINDS, faults, found, known, messages


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_added(kind: str) -> None:
    before = known(kind)
    more = {place: some for place, some in found(kind).items() if len(some) > before.get(place, 0)}
    assert not more, "\n".join(f"{place}: {fault}" for place, some in more.items() for fault in some)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_corrected_is_no_longer_known(kind: str) -> None:
    """If this fails: `python -m tests.docs.words`."""
    now = found(kind)
    assert {place: count for place, count in known(kind).items() if len(now.get(place, [])) < count} == {}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("Whoever reads it is told of the dearest one.", 3),
        ("It is made anew, and mended likewise.", 3),
        ("For one alone; leave it alone. See [mend](how-to/mend.md) and `mend`.", 2),
        ("ε = .1, or .57 (.3)", 3),
        ("ε = 0.1 in `.5` and v1.2, and .csv, and two dots..2", 0),
        ("word " * 35 + "end. " + "word " * 34, 1),
        ("word " * 30 + "`some code of many words that are one`.", 0),
        ("- " + "word " * 20 + "\n- " + "word " * 20, 0),
        ("| " + "word " * 20 + "| " + "word " * 20 + "|", 0),
        ("word " * 20 + "\n\n" + "word " * 20, 0),
    ],
)
def test_what_counts(text: str, count: int) -> None:
    assert len(faults(text)) == count


def test_messages_are_found() -> None:
    texts = messages()
    assert sum(map(len, texts.values())) > 1500
    assert "no such time zone" in texts["flows/operations/periods.py"]
    assert not any(text.startswith("Return") for some in texts.values() for text in some)
