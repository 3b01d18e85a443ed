"""Every command has its section on one page, and every command on every page is one that there is."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.docs import command_line_page
from tests.docs.pages import PAGES, ROOT, blocks


def written() -> list[tuple[str, str]]:
    """Every `tabularium …` in a shell block of a page, or in a `--help`: where, and the command."""
    found = [
        (f"{name} --help", line)
        for name, command in command_line_page.commands(command_line_page.root())
        for line in command_line_page.examples(command.epilog or "")
    ]
    for path in PAGES:
        for block in blocks(path):
            if block.kind != "sh":
                continue
            for line in block.text.splitlines():
                if match := re.search(r"(?:^|[ /])(tabularium [a-z-].*)$", line):
                    found.append((f"{path.relative_to(ROOT)}:{block.line}", match[1]))
    return found


def parse(words: list[str]) -> None:
    """Parse a command line without running it.

    Raises
    ------
    LookupError
        No such command.
    UsageError
        No such option, or an argument is missing.
    """
    command, name = command_line_page.root(), words[0]
    rest = words[1:]
    while getattr(command, "commands", None) and rest and rest[0] in command.commands:
        name = rest.pop(0)
        command = command.commands[name]
    if getattr(command, "commands", None) and rest and not rest[0].startswith("-"):
        raise LookupError(f"No such command {rest[0]!r}")
    command.make_context(name, rest).close()


def test_every_command_has_a_section_on_one_page() -> None:
    headings = [
        heading
        for path in sorted((ROOT / "docs" / "reference" / "command-line").glob("*.md"))
        for heading in re.findall(r"^## `(.*)`$", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    names = [name for name, _ in command_line_page.commands(command_line_page.root())]
    assert sorted(headings) == sorted(names[1:])


def test_a_shared_option_is_explained_once_and_no_default_is_empty() -> None:
    pages = [*(ROOT / "docs" / "reference" / "command-line").glob("*.md")]
    text = "".join(path.read_text(encoding="utf-8") for path in pages)
    assert "- `--home`:" not in text and "Default: ``" not in text
    shared = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
    assert shared.count("- `--home`:") == 1


def test_there_are_commands() -> None:
    assert len(written()) > 60


@pytest.mark.parametrize(("place", "line"), written(), ids=[f"{p}-{n}" for n, (p, _) in enumerate(written())])
def test_every_command_of_a_page_parses(place: str, line: str, tmp_path: Path) -> None:
    words = shlex.split(line, comments=True)
    for end in ("|", ">", "&&", "||"):
        if end in words:
            words = words[: words.index(end)]
    parse(words)


@pytest.mark.parametrize("words", [["tabularium", "runn"], ["tabularium", "run", "--sauce", "x", "a.yaml"]])
def test_a_command_that_is_not_there_is_noticed(words: list[str]) -> None:
    with pytest.raises(Exception, match="No such"):
        parse(words)
