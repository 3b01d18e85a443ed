"""What MkDocs adds to the site: three pages of the project's root, and the sample release for reviewers.

Pages link to ``CHANGELOG.md`` and its neighbours where they lie, which works on a forge; here these links are
turned to the pages that they become. ``make docs`` makes the sample release first.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SHOWN = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
"""Pages of the project's root that the site has too."""
SAMPLE = ROOT / "build" / "sample-release.zip"
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]*)(#[^)\s]*)?\)")


def on_files(files: Any, *, config: Any) -> Any:
    """Add the pages, and the sample if it was made."""
    from mkdocs.structure.files import File

    for name in SHOWN:
        files.append(File.generated(config, name, content=(ROOT / name).read_text(encoding="utf-8")))
    if SAMPLE.exists():
        files.append(File.generated(config, f"downloads/{SAMPLE.name}", content=SAMPLE.read_bytes()))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Turn links between the root and the folder of pages to where they lead on the site."""
    return for_the_site(markdown, page.file.src_uri, sample=SAMPLE.exists())


def for_the_site(markdown: str, name: str, *, sample: bool) -> str:
    """Return the text of a page as the site has it.

    Parameters
    ----------
    name
        Of the page, below ``docs``; or one of ``SHOWN``.
    sample
        Whether the sample release can be downloaded.
    """
    folder = posixpath.dirname(name)
    above = "." if name in SHOWN else posixpath.join("docs", folder)  # where the page lies in the project

    def turned(link: re.Match[str]) -> str:
        place = link[2]
        if not place or re.match(r"[a-z]+:", place):
            return link[0]
        target = posixpath.normpath(posixpath.join(above, place))
        if target in SHOWN:
            return f"[{link[1]}]({posixpath.relpath(target, folder or '.')}{link[3] or ''})"
        if name in SHOWN:
            if not target.startswith("docs/"):
                return link[1]  # a file that the site does not have
            return f"[{link[1]}]({target.removeprefix('docs/')}{link[3] or ''})"
        return link[0]

    markdown = _LINK.sub(turned, markdown)
    if sample:
        there = posixpath.relpath(f"downloads/{SAMPLE.name}", folder or ".")
        markdown = markdown.replace(f"Download `{SAMPLE.name}`", f"Download [{SAMPLE.name}]({there})")
    return markdown
