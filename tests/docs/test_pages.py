"""Links lead somewhere, lines are wrapped alike, and the Markdown means the same to every reader."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, anchors, links, prose
from tests.docs.site_hook import SHOWN, for_the_site

WIDTH = 100


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_every_link_leads_somewhere(path: Path) -> None:
    for link in links(path):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (path.parent / place).resolve() if place else path
        assert target.exists(), link
        if DOCS in path.parents:
            on_the_site = (
                DOCS in target.parents or target == DOCS or target in [ROOT / name for name in SHOWN]
            )
            assert on_the_site, f"{link} is not part of the site"
        if anchor:
            assert anchor in anchors(target), link


def test_the_site_leads_to_the_pages_of_the_root_and_back() -> None:
    page = "see [it](../../CHANGELOG.md#x), [a page](upgrade.md), [far](https://a.b/CHANGELOG.md)"
    found = for_the_site(page, "how-to/upgrade.md", sample=False)
    assert found == page.replace("../../CHANGELOG.md", "../CHANGELOG.md")
    root = "[a](docs/glossary.md#t), [b](SECURITY.md), [c](LICENSE)"
    assert for_the_site(root, "CHANGELOG.md", sample=True) == "[a](glossary.md#t), [b](SECURITY.md), c"


def test_the_sample_can_be_downloaded_where_the_site_has_it() -> None:
    page = (DOCS / "how-to" / "review-in-ten-minutes.md").read_text(encoding="utf-8")
    link = "[sample-release.zip](../downloads/sample-release.zip)"
    assert link in for_the_site(page, "how-to/review-in-ten-minutes.md", sample=True)
    assert for_the_site(page, "how-to/review-in-ten-minutes.md", sample=False) == page


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_prose_is_wrapped(path: Path) -> None:
    long = [
        line
        for line in prose(path).splitlines()
        if len(line) > WIDTH and not re.match(r"\s*(\||#|!\[|<!--|\[[^\]]*\]:)", line) and " " in line.strip()
    ]
    assert not long


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_a_list_or_table_begins_after_a_blank_line(path: Path) -> None:
    """Else the site shows it as part of the paragraph before. A comment is a block of its own."""
    lines = ["", *re.sub(r"^<!--.*-->$", "", prose(path), flags=re.MULTILINE).splitlines()]
    wrong = [
        line
        for before, line in pairwise(lines)
        if (
            re.match(r"([-*]|\d+\.) ", line)
            and before.strip()
            and not re.match(r"\s*([-*]|\d+\.) |  ", before)
        )
        or (line.startswith("|") and before.strip() and not before.startswith(("|", "<!-- from the code")))
    ]
    assert not wrong


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_a_page_has_one_title(path: Path) -> None:
    titles = re.findall(r"^# .*$", prose(path), re.MULTILINE)
    assert len(titles) == 1
    assert prose(path).startswith(titles[0])


def test_every_page_can_be_reached() -> None:
    """From the front page, by links alone."""
    seen, waiting = set(), [DOCS / "index.md"]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for link in links(path):
            target = (path.parent / link.partition("#")[0]).resolve()
            if target.suffix == ".md" and target.exists():
                waiting.append(target)
    assert {_name(path) for path in DOCS.rglob("*.md")} <= {_name(path) for path in seen}


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_a_file_that_is_named_is_there(path: Path) -> None:
    """Files and folders of the project, and modules that are run, as they stand in code on a page."""
    text = path.read_text(encoding="utf-8")
    named = re.findall(
        r"`((?:flows|tasks|validations|ledger|mechanisms|deploy|tests|benchmarks|docs)/[\w./-]*)`", text
    )
    modules = re.findall(r"python -m ((?:flows|tasks|validations|tests|benchmarks)\.[\w.]+)", text)
    missing = [name for name in named if "NAME" not in name and not (ROOT / name).exists()]
    missing += [name for name in modules if not (ROOT / name.replace(".", "/")).with_suffix(".py").exists()]
    assert not missing


def test_margin_means_margin_of_error() -> None:
    """A table over fewer dimensions is a marginal."""
    wrong = [
        f"{_name(path)}: {match[0]}"
        for path in PAGES
        for match in re.finditer(
            r"shared margins?\b|margins? over\b|margins? of (?:a|the) table", prose(path)
        )
    ]
    assert not wrong


def test_a_term_is_defined_once_and_its_source_is_in_the_bibliography() -> None:
    rows = [line for line in prose(DOCS / "glossary.md").splitlines() if line.startswith("| **")]
    terms = [term for row in rows for term in re.findall(r"\*\*([^*]+)\*\*", row.split("|")[1])]
    assert len(terms) > 50
    assert len(set(terms)) == len(terms)
    listed = re.findall(r"^- \*\*([^*]+)\*\*", prose(DOCS / "bibliography.md"), re.MULTILINE)
    named = [
        name for row in rows for found in re.findall(r" \(([^()]*)\) \|$", row) for name in found.split("; ")
    ]
    assert len(named) > 25
    assert set(named) <= set(listed)
    assert len(set(listed)) == len(listed)
