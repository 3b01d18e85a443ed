"""The report in a real browser: readable on every screen, by everybody, and on paper."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.debian import Unavailable
from tests.pages import browser, opened, violations
from tests.sizes import full
from tests.tasks.report.reported import two_periods

WINDOWS = ((1200, False), (360, True), *(((1200, True), (360, False)) if full() else ()))


def test_it_is_accessible_fits_every_screen_and_loads_nothing(tmp_path: Path) -> None:
    pytest.importorskip("playwright")
    _, now = two_periods(tmp_path)
    try:
        with browser() as running:
            for width, dark in WINDOWS:
                with opened(running, now / "report.html", width=width, dark=dark) as window:
                    assert violations(window) == []
                    assert window.evaluate("document.documentElement.scrollWidth") <= width
                    assert window.evaluate("performance.getEntriesByType('resource').length") == 0
                    assert window.evaluate(
                        "[...document.querySelectorAll('.scroll')].every(each => each.tabIndex === 0)"
                    )
                    ids = window.evaluate("[...document.querySelectorAll('[id]')].map(each => each.id)")
                    assert len(ids) == len(set(ids))
                    paper = window.evaluate("getComputedStyle(document.body).backgroundColor")
                    assert (paper == "rgb(255, 255, 255)") is not dark
                    window.emulate_media(media="print")
                    paper = window.evaluate("getComputedStyle(document.body).backgroundColor")
                    assert paper == "rgb(255, 255, 255)"
            with opened(running, now / "report.html") as window:
                links = window.evaluate("[...document.links].map(each => each.getAttribute('href'))")
            files = [link for link in links if not link.startswith(("#", "http", "mailto:"))]
            assert files
            assert all((now / link).is_file() for link in files)
    except Unavailable as reason:
        pytest.skip(str(reason))
