"""The site in a real browser, from disk: accessible, for every screen, searched, and loading nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tabularium.tasks.site.write_site import write_site
from tests.debian import Unavailable
from tests.pages import browser, opened, violations
from tests.sizes import full
from tests.tasks.site.agency import Agency

pytestmark = pytest.mark.xdist_group("site")  # the agency is made once

PAGES = ("index", "budget", "products/persons", "products/persons/2026")
WINDOWS = ((1200, False), (1200, True), (360, False))  # width, dark; usually one for all pages but the first


def test_it_is_accessible_is_searched_and_loads_nothing_else(agency: Agency, tmp_path: Path) -> None:
    pytest.importorskip("playwright")
    site = tmp_path / "site"
    write_site(agency.releases, site)
    try:
        with browser() as running:
            for name in PAGES:
                with opened(running, site / f"{name}.html") as window:
                    window.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true })")
                    for width, dark in WINDOWS if full() or name == PAGES[0] else WINDOWS[-1:]:
                        window.set_viewport_size({"width": width, "height": 900})
                        window.emulate_media(color_scheme="dark" if dark else "light")
                        assert violations(window, grave_alone=False) == []
                        assert window.evaluate("document.documentElement.scrollWidth") <= width
                        paper = window.evaluate("getComputedStyle(document.body).backgroundColor")
                        assert (paper == "rgb(255, 255, 255)") is not dark
                    loaded = window.evaluate("performance.getEntriesByType('resource').map(e => e.name)")
                    assert {each.rpartition("/")[2] for each in loaded} <= {"style.css", "search.js"}
                    ids = window.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
                    assert len(ids) == len(set(ids))
            with opened(running, site / "budget.html") as window:
                window.fill("#q", "EXAMPLIA 2026-01")  # an accent and small letters make no difference
                window.click("form.search button")
                window.wait_for_url("**/index.html?q=*")
                assert found(window) == ["2026-01"]
                assert window.inner_text("#found") == "1 product, 1 period found"
                for words, periods in (
                    ("2025", ["2025 (withdrawn)"]),
                    (agency.first[:12], ["2026"]),
                    ("keyword that nobody gave", []),
                    ("small country", ["2026", "2025 (withdrawn)"]),
                    ("", ["2026-01", "2026", "2025 (withdrawn)"]),
                ):
                    window.fill("#q", words)
                    assert found(window) == periods
                window.click("text=Persons by age and sex")
                assert window.url.endswith("products/persons.html")
    except Unavailable as reason:
        pytest.skip(str(reason))


def found(window: object) -> list[str]:
    """Return the periods that are shown."""
    shown: list[str] = window.evaluate(  # type: ignore[attr-defined]
        "[...document.querySelectorAll('.periods a')].filter(e => e.checkVisibility()).map(e => e.innerText)"
    )
    return shown
