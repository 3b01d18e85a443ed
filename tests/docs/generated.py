"""Parts of pages that are made from the code, and the command that writes them.

A part stands between ``<!-- from the code: MAKER ARGUMENT -->`` and ``<!-- end -->``, each on a line of its
own. ``python -m tests.docs.generated`` writes all parts again; a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.docs import (
    certificate_keys,
    command_line_page,
    error_messages,
    mechanism_tables,
    sample_columns,
    spec_tables,
    stable_things,
)
from tests.docs.file_map import file_map
from tests.docs.pages import PAGES

MAKERS: dict[str, Callable[[str], str]] = {
    **certificate_keys.MAKERS,
    **command_line_page.MAKERS,
    **mechanism_tables.MAKERS,
    **sample_columns.MAKERS,
    **spec_tables.MAKERS,
    "file-map": file_map,
    "messages": error_messages.table,
    **{"formats": stable_things.formats, "exit-codes": stable_things.exit_codes},
}
"""Name of a maker -> the function that turns the argument, which may be empty, into Markdown."""

_PART = re.compile(r"(<!-- from the code: (\S+) ?(.*?) -->\n)(?:.*\n)*?(<!-- end -->)$", re.MULTILINE)


def written_again(text: str, makers: Mapping[str, Callable[[str], str]] = MAKERS) -> str:
    """Return the text of a page with its parts made again.

    Raises
    ------
    KeyError
        A part names a maker that does not exist.
    """
    return _PART.sub(lambda part: f"{part[1]}{makers[part[2]](part[3]).strip()}\n{part[4]}", text)


def write(path: Path) -> None:
    """Write a page with its parts made again."""
    path.write_text(written_again(path.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    for page in PAGES:
        write(page)
