"""The site builds without a warning, and asks nothing of any other host."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

pytest.importorskip("material", reason="mkdocs-material is not installed: pip install -e '.[docs]'")

pytestmark = [pytest.mark.xdist_group("site"), pytest.mark.slow]
# What a page loads by itself, unlike what a reader may click on.
_LOADS = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=[\"']?((?:https?:)?//[^\"' >]+)"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preconnect|preload|icon|prefetch|dns-prefetch))[^>]*"
    r"\bhref=[\"']?((?:https?:)?//[^\"' >]+)",
    re.IGNORECASE,
)
_CSS = re.compile(r"(?:url\(|@import\s+)[\"']?((?:https?:)?//[^\"')\s]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_the_site_builds_and_can_be_searched(site: Path) -> None:
    assert (site / "index.html").exists()
    assert (site / "CHANGELOG.html").exists()
    index = (site / "search" / "search_index.json").read_text(encoding="utf-8")
    assert "margin of error" in index


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 40
    foreign = {
        next(filter(None, found)) for page in pages for found in _LOADS.findall(page.read_text("utf-8"))
    }
    foreign |= {found for sheet in site.rglob("*.css") for found in _CSS.findall(sheet.read_text("utf-8"))}
    assert not foreign
