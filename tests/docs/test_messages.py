"""docs/how-to/mend-a-ledger.md: every message that it explains is one that the program can print."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.docs.pages import DOCS, ROOT

PAGE = DOCS / "how-to" / "mend-a-ledger.md"


def messages() -> Iterator[str]:
    """The messages of the tables, without the parts that vary (… and the N of a number)."""
    for row in PAGE.read_text(encoding="utf-8").splitlines():
        if row.startswith("| `"):
            for message in re.findall(r"`([^`]*)`", row.split("|")[1]):
                yield from (part.strip() for part in re.split(r"…|\bN\b", message) if len(part.strip()) > 3)


@pytest.fixture(scope="module")
def source() -> str:
    floors = ("ledger", "tasks", "flows", "lab")
    files = [path for floor in floors for path in sorted((ROOT / floor).rglob("*.py"))]
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    return re.sub(r"\"\s*\n\s*f?\"", "", text)  # a text over several lines is one


@pytest.mark.parametrize("message", sorted(set(messages())))
def test_a_message_is_one_of_the_program_s(source: str, message: str) -> None:
    assert message in source
