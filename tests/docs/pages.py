"""The pages of the documentation: their blocks, links and headings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    *sorted(DOCS.rglob("*.md")),
    *(ROOT / f"{name}.md" for name in ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY")),
]

_FENCE = re.compile(r"^```(\S*) ?(.*)\n((?:.*\n)*?)```$", re.MULTILINE)
_LINK = re.compile(r"(?<!`)!?\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True)
class Block:
    """A fenced block: where it begins, what stands on its fence, and what is in it."""

    line: int
    kind: str
    mark: str
    text: str


def blocks(path: Path) -> list[Block]:
    """Return the fenced blocks of a page."""
    text = path.read_text(encoding="utf-8")
    return [Block(text.count("\n", 0, m.start()) + 1, m[1], m[2], m[3]) for m in _FENCE.finditer(text)]


def prose(path: Path) -> str:
    """Return a page without its fenced blocks, line for line."""
    text = path.read_text(encoding="utf-8")
    return _FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)


def links(path: Path) -> list[str]:
    """Return what a page links to, images too."""
    return _LINK.findall(re.sub(r"`[^`\n]*`", "``", prose(path)))


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as the site and GitHub both make them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", prose(path), re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        found.add(re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", plain.lower()).strip()))
    return found
